// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares every path for measuring.
//!
//! The drive is divided in two: ext4 has the first half, all other paths use the same range at the
//! start of the second. So no path destroys what another one reads, and each uses the same offsets
//! in a range of the same length. [`KINDS`](::paths::KINDS) is the table of paths; [`BenchHost`]
//! prepares what a group of paths needs.
#![forbid(unsafe_code)]

mod counters;
mod filesystem;
pub mod fio;
mod holes;
mod host;
mod instructions;
mod paths;
pub mod perf;
mod processor;
pub mod timer;
pub mod tracefs;
pub mod workload;

pub use filesystem::prepare;
pub use host::{BenchHost, drop_caches};
pub use instructions::COUNTS;

use ::paths::PathKind;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::Grant;
use devices::path::borrow::Loan;
use devices::path::handle::ControllerHandle;
use devices::path::kernel::Nodes;
use devices::path::{self, OpenOptions, Opened, chario, gathered, power};
use linux::latency::Tolerance;
use linux::resolve::Resolved;
use linux::{Claim, HostMemory};
use measure::LatencyLimit;
use measure::{Missing, Path};
use paths::BenchPath;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The state shared by all paths.
pub struct Bench {
    /// Where the kernel's files are, and who learns of warnings.
    pub context: devices::Context,
    /// The permission to use the measured drive, and its lock.
    grant: Grant,
    /// Its namespace.
    pub nsid: u32,
    /// The used part of the drive, and its use.
    pub plan: Plan,
    /// Total memory for buffers.
    pub buffer_bytes: usize,
    /// The buffers of the paths through the kernel.
    pub memory: HostMemory,
    /// The controller, while this process drives it.
    handle: RefCell<Option<Box<dyn ControllerHandle>>>,
    /// The coprocessor's window, if one was named.
    window: Option<PathBuf>,
    /// The drive's loan, while it is bound to CharIO; each open device holds it too.
    loan: RefCell<Option<Arc<Loan>>>,
    /// The mounted file system.
    mounted: RefCell<Option<filesystem::Mounted>>,
    /// The kernel's limit of what power states delay a command by, to be put back.
    tolerance: Option<Tolerance>,
    /// What limited them in each group so far.
    limits: RefCell<Vec<LatencyLimit>>,
}

impl Bench {
    /// The state shared by all paths.
    ///
    /// # Errors
    /// There is no memory for the buffers, or the measured part of a file has holes.
    pub fn new(
        context: &devices::Context,
        grant: Grant,
        nsid: u32,
        plan: Plan,
        window: Option<PathBuf>,
    ) -> Result<Rc<Self>> {
        holes::refuse(grant.drive(), plan.span_bytes)?;
        let largest = plan.largest_bytes.next_multiple_of(4096);
        let operations = u64::from(plan.queue_depth) * u64::from(plan.threads);
        let buffers = largest.saturating_mul(operations);
        let lines = if plan.gathers {
            gathered::MEMORY_BYTES as u64
        } else {
            0
        };
        let buffers = buffers.saturating_add(lines).saturating_add(1 << 20);
        let buffer_bytes = usize::try_from(buffers).unwrap_or(usize::MAX);
        let tolerance = match plan.latency_limit_us {
            Some(_) => power::remember(&context.roots, grant.drive())?,
            None => None,
        };
        Ok(Rc::new(Self {
            context: context.clone(),
            grant,
            nsid,
            plan,
            buffer_bytes,
            memory: HostMemory::new(buffer_bytes)?,
            handle: RefCell::new(None),
            window,
            loan: RefCell::new(None),
            mounted: RefCell::new(None),
            tolerance,
            limits: RefCell::new(Vec::new()),
        }))
    }

    /// The measured drive.
    pub fn drive(&self) -> &Drive {
        self.grant.drive()
    }

    /// The claim to a file or a device, for writing if writes are measured.
    fn claim(&self, node: &std::path::Path) -> Result<Claim> {
        self.grant
            .claim(&self.context.roots, node, self.plan.destroys)
    }

    /// The whole drive, by its only path.
    fn open_drive(&self) -> Result<Opened> {
        let options = OpenOptions {
            write: self.plan.destroys,
            ..OpenOptions::reading(self.buffer_bytes, self.plan.queue_depth)
        };
        path::open(&self.context, &self.grant, &options)
    }

    /// The nodes of the drive in the kernel.
    ///
    /// # Errors
    /// The kernel's driver does not hold the drive.
    pub fn file(&self) -> Result<PathBuf> {
        match self.drive() {
            Drive::File(path) => Ok(path.clone()),
            _ => Ok(self.nodes()?.block),
        }
    }

    /// The controller's name at the kernel's driver: `nvme0`.
    pub fn controller_name(&self) -> Option<String> {
        Some(self.nodes().ok()?.controller?.name)
    }

    /// The drive as resolved on this system.
    fn resolved(&self) -> Result<&Resolved> {
        match self.drive() {
            Drive::Nvme(resolved) => Ok(resolved),
            _ => Err(Error::unsupported("this drive is not known to the kernel")),
        }
    }

    fn nodes(&self) -> Result<Nodes> {
        if let Some(disk) = self.drive().disk() {
            return Ok(Nodes::of_disk(disk));
        }
        Nodes::of(&self.context.roots, self.resolved()?, Some(self.nsid))
    }

    /// The name of the namespace's CharIO device.
    fn chario_node(&self) -> Result<PathBuf> {
        chario::node(&self.context.roots, self.resolved()?, Some(self.nsid))
    }

    /// The measured file on ext4.
    fn ext4_file(&self) -> Result<PathBuf> {
        let mounted = self.mounted.borrow();
        let file = mounted.as_ref().map(filesystem::Mounted::file);
        file.ok_or_else(|| Error::missing("the file system is not mounted"))
    }
}

/// The used part of the drive, and its use.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whether the drive's data may be destroyed.
    pub destroys: bool,
    /// Start of the raw paths' range: half of the drive, in whole MiB.
    pub raw_offset_bytes: u64,
    /// Length of each path's range.
    pub span_bytes: u64,
    /// The largest operation.
    pub largest_bytes: u64,
    /// Operations in flight in each thread.
    pub queue_depth: u16,
    /// Threads, each with a queue.
    pub threads: u16,
    /// Whether a path gathers, and needs memory for that.
    pub gathers: bool,
    /// The longest that a power state may delay a command, in microseconds, if the drive's own
    /// setting is not kept.
    pub latency_limit_us: Option<u32>,
}

/// The start and length of a path's range on a drive of `size_bytes`: at most three quarters of a
/// half, because the file system needs some of its half itself.
pub fn stretch(size_bytes: u64, requested_span_bytes: u64) -> (u64, u64) {
    let in_mib = |bytes: u64| bytes & !((1 << 20) - 1);
    let half = in_mib(size_bytes / 2);
    (half, in_mib(requested_span_bytes.min(half / 4 * 3)))
}

/// The paths of these kinds, for `measure`.
pub fn paths(bench: &Rc<Bench>, kinds: &[&'static PathKind]) -> Vec<Box<dyn Path>> {
    let path =
        |kind: &&'static PathKind| -> Box<dyn Path> { Box::new(BenchPath::new(bench, kind)) };
    kinds.iter().map(path).collect()
}

/// The error of a path that cannot be measured here.
pub fn failed(missing: Missing) -> Error {
    Error::unsupported(missing.reason).hint(missing.hint)
}

/// A failure as a path that cannot be measured here.
pub trait OrMissing<T> {
    /// The value, or why it is missing.
    ///
    /// # Errors
    /// The failure, with its reason and its hint.
    fn or_missing(self) -> std::result::Result<T, Missing>;
}

fn missing(failure: Error) -> Missing {
    let remedy = failure.remedy().cloned();
    Missing::new(failure, remedy.unwrap_or_else(|| "see the reason".into()))
}

impl<T> OrMissing<T> for Result<T> {
    fn or_missing(self) -> std::result::Result<T, Missing> {
        self.map_err(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretches_fit_into_their_halves() {
        for size_bytes in [64 << 20, 256 << 20, (1 << 30) + 512, 500_107_862_016] {
            let (offset_bytes, span_bytes) = stretch(size_bytes, 1 << 30);
            assert!(offset_bytes + span_bytes <= size_bytes);
            assert!(span_bytes <= offset_bytes / 4 * 3);
            assert_eq!(offset_bytes % (1 << 20), 0);
        }
        assert_eq!(stretch(1 << 40, 128 << 20).1, 128 << 20);
    }
}
