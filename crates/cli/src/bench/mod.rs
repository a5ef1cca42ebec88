//! Every path as the instrument wants it.
//!
//! The drive is cut in two: ext4 has the first half, all other paths use the same stretch at the
//! start of the second. So no path destroys what another one reads, and each is asked for the same
//! offsets in a stretch of the same length. Paths come in three groups:
//!
//! | group | what its paths need |
//! | --- | --- |
//! | `ext4` | the kernel's NVMe driver, and the file system mounted |
//! | `kernel` | the kernel's NVMe driver, and nothing mounted: raw paths that write claim the drive |
//! | `chario` | CharIO's driver |
//! | `straightway` | the controller for ourselves |
//! | `plain` | nothing: a file, or memory |

mod chario;
pub mod compared;
mod coprocessor;
mod counters;
mod filesystem;
pub mod fio;
mod holes;
mod host;
mod kernel;
pub mod perf;
mod plain;
pub mod setup;
mod straight;
pub mod tracefs;

pub use filesystem::prepare;
pub use host::{BenchHost, drop_caches};

use crate::drive::ModelDrive;
use crate::failure::{Failure, Result};
use crate::guard::Grant;
use crate::path::LARGEST_BLOCK_BYTES;
use crate::path::borrow::Loan;
use crate::path::rig::Rig;
use block::{Buffer, Device};
use linux::identity::Identity;
use linux::pci::Controller;
use linux::resolve::Resolved;
use linux::{Claim, HostMemory, Roots, SyncFile};
use measure::{DeviceInfo, Missing, Path};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The paths that can be compared, in the order of tables that are not sorted.
pub const PATHS: [&str; 14] = [
    "ext4-buffered",
    "ext4-direct",
    "block-buffered",
    "block-direct",
    "io_uring",
    "io_uring-polled",
    "passthrough",
    "chario",
    "chario-poll",
    "chario-registered",
    "chario-phys",
    "straightway-poll",
    "straightway-interrupt",
    COPROCESSOR,
];

/// The path through a storage coprocessor, to the drive behind it.
pub const COPROCESSOR: &str = "coprocessor";

const EXT4: &str = "ext4";
const KERNEL: &str = "kernel";
const CHARIO: &str = "chario";
const STRAIGHTWAY: &str = "straightway";
const PLAIN: &str = "plain";

/// The paths to a plain file.
pub const FILE_PATHS: [&str; 3] = ["file-buffered", "file-direct", "file-io_uring"];
/// Memory: any target has it, to compare with.
pub const RAM: &str = "ram";

/// What is measured.
#[derive(Clone, Debug)]
pub enum Target {
    /// A namespace of a controller of this machine.
    Nvme {
        /// The controller.
        resolved: Box<Resolved>,
        /// The namespace.
        namespace: u32,
    },
    /// A model controller's namespace.
    Model(ModelDrive),
    /// The drive behind a coprocessor, whose window this is.
    Coprocessor(PathBuf),
    /// A plain file.
    File(PathBuf),
    /// Memory.
    Ram(u64),
}

impl Target {
    /// Whether it is a drive of this machine.
    pub const fn is_nvme(&self) -> bool {
        matches!(self, Target::Nvme { .. })
    }
}

/// The path that is taken where none is named.
pub const fn default_path(target: &Target) -> &'static str {
    match target {
        Target::Nvme { .. } | Target::Model(_) => "straightway-poll",
        Target::Coprocessor(_) => COPROCESSOR,
        Target::File(_) => "file-direct",
        Target::Ram(_) => RAM,
    }
}

/// What all paths share.
pub struct Bench {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// What is measured.
    pub target: Target,
    /// The permission to use it, and its lock.
    grant: Grant,
    /// Whether the drive's data may be destroyed.
    pub destroys: bool,
    /// Where the raw paths' stretch starts.
    pub raw_offset_bytes: u64,
    /// How long each path's stretch is.
    pub span_bytes: u64,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Memory for buffers, all together.
    pub buffer_bytes: usize,
    /// The buffers of the paths through the kernel.
    pub memory: HostMemory,
    /// The controller, while it is ours.
    rig: RefCell<Option<Box<dyn Rig>>>,
    /// The coprocessor's window, where one was named.
    window: Option<PathBuf>,
    /// The drive's binding, while CharIO's driver has it; each open device holds it too.
    loan: RefCell<Option<Arc<Loan>>>,
    /// Where the file system is, while it is mounted.
    mounted: RefCell<Option<filesystem::Mounted>>,
}

/// The kernel's names of the drive, which may change when it is bound anew.
struct Nodes {
    controller_name: String,
    controller: PathBuf,
    block: PathBuf,
    character: Option<PathBuf>,
}

impl Bench {
    /// What all paths share.
    ///
    /// # Errors
    /// There is no memory for the buffers, or a file has holes where it is measured.
    pub fn new(
        roots: &Roots,
        grant: Grant,
        target: Target,
        plan: &Plan,
        window: Option<PathBuf>,
    ) -> Result<Rc<Self>> {
        holes::refuse(&target, plan.span_bytes)?;
        let largest = plan.largest_bytes.next_multiple_of(4096);
        let buffers = largest.saturating_mul(u64::from(plan.queue_depth));
        let buffer_bytes = usize::try_from(buffers.saturating_add(1 << 20)).unwrap_or(usize::MAX);
        Ok(Rc::new(Self {
            roots: roots.clone(),
            grant,
            target,
            destroys: plan.destroys,
            raw_offset_bytes: plan.raw_offset_bytes,
            span_bytes: plan.span_bytes,
            queue_depth: plan.queue_depth,
            buffer_bytes,
            memory: HostMemory::new(buffer_bytes)?,
            rig: RefCell::new(None),
            window,
            loan: RefCell::new(None),
            mounted: RefCell::new(None),
        }))
    }

    /// The claim to a file or a device, to write if that is what is measured.
    fn claim(&self, node: &std::path::Path) -> Result<Claim> {
        self.grant.claim(&self.roots, node, self.destroys)
    }

    /// What a program opens to reach it through the kernel.
    ///
    /// # Errors
    /// The kernel has not got it.
    pub fn file(&self) -> Result<PathBuf> {
        match &self.target {
            Target::File(path) => Ok(path.clone()),
            _ => Ok(self.nodes()?.block),
        }
    }

    /// A buffer of the host's memory. Its address is a multiple of what its length is one of, up to
    /// the largest block, so it is aligned to the blocks of any device that it is a transfer for.
    fn allocate(&self, len_bytes: usize) -> Result<Buffer> {
        let align_bytes = (1 << len_bytes.trailing_zeros().min(31)).min(LARGEST_BLOCK_BYTES);
        Ok(self.memory.aligned_to(align_bytes).allocate(len_bytes)?)
    }

    /// The controller's name at the kernel's driver: `nvme0`.
    pub fn controller_name(&self) -> Option<String> {
        self.nodes().ok().map(|nodes| nodes.controller_name)
    }

    fn nodes(&self) -> Result<Nodes> {
        let Target::Nvme {
            resolved,
            namespace,
        } = &self.target
        else {
            return Err(Failure::unsupported(
                "this drive is not known to the kernel",
            ));
        };
        let address = resolved.controller.address;
        Identity::of(&resolved.controller).refuse_another(&self.roots, address)?;
        let controller = Controller::at(&self.roots, address)?;
        let name = controller.kernel_name.ok_or_else(|| {
            let driver = controller.driver.as_deref().unwrap_or("no driver");
            let address = controller.address;
            Failure::missing(format!(
                "the kernel's NVMe driver has not got the drive: {driver} has"
            ))
            .hint(format!("straightway release {address}"))
        })?;
        let mut all = controller.namespaces.iter();
        let found = all.find(|one| one.nsid == Some(*namespace));
        let block = found.and_then(|found| found.block.as_ref());
        let block = block.ok_or_else(|| {
            Failure::missing(format!(
                "the kernel shows no block device of namespace {namespace}"
            ))
            .hint("dmesg")
        })?;
        let character = found.and_then(|found| found.character.as_ref());
        Ok(Nodes {
            controller: self.roots.dev.join(&name),
            controller_name: name,
            block: self.roots.dev.join(block),
            character: character.map(|name| self.roots.dev.join(name)),
        })
    }
}

/// How much of the drive is used, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whether the drive's data may be destroyed.
    pub destroys: bool,
    /// Where the raw paths' stretch starts: half of the drive, in whole MiB.
    pub raw_offset_bytes: u64,
    /// How long each path's stretch is.
    pub span_bytes: u64,
    /// The largest operation.
    pub largest_bytes: u64,
    /// Operations in flight.
    pub queue_depth: u16,
}

impl Plan {
    /// The plan for a target: all of a file or of memory, as [`new`](Plan::new) says of a drive.
    pub fn of(target: &Target, device: &DeviceInfo, wished_span_bytes: u64, largest: u64) -> Self {
        let size_bytes = device.size_bytes.unwrap_or(0);
        match target {
            Target::Nvme { .. } | Target::Model(_) | Target::Coprocessor(_) => {
                Self::new(size_bytes, wished_span_bytes, largest)
            }
            Target::File(_) | Target::Ram(_) => Self {
                destroys: false,
                raw_offset_bytes: 0,
                span_bytes: wished_span_bytes.min(size_bytes) & !511,
                largest_bytes: largest,
                queue_depth: 1,
            },
        }
    }

    /// Fits the stretch that was wished for into a drive of `size_bytes`: at most three quarters
    /// of a half, for the file system needs some of its half itself.
    pub fn new(size_bytes: u64, wished_span_bytes: u64, largest_bytes: u64) -> Self {
        let half = (size_bytes / 2) & !((1 << 20) - 1);
        let room = half / 4 * 3;
        let span_bytes = wished_span_bytes.min(room);
        Self {
            destroys: false,
            raw_offset_bytes: half,
            span_bytes: span_bytes & !((1 << 20) - 1),
            largest_bytes,
            queue_depth: 1,
        }
    }
}

/// Makes the paths of these names.
///
/// # Errors
/// A name is none of [`PATHS`], [`FILE_PATHS`] and [`RAM`].
pub fn paths(bench: &Rc<Bench>, names: &[String]) -> Result<Vec<Box<dyn Path>>> {
    let make = |name: &String| -> Result<Box<dyn Path>> {
        let known = || PATHS.into_iter().chain(FILE_PATHS).chain([RAM]);
        let name = known().find(|known| known == name).ok_or_else(|| {
            let all: Vec<&str> = known().collect();
            Failure::usage(format!("`{name}` is no path")).hint(all.join(", "))
        })?;
        if name == RAM || name.starts_with("file-") {
            return Ok(Box::new(plain::PlainPath::new(bench, name)));
        }
        Ok(match straight::StraightPath::new(bench, name) {
            Some(path) => Box::new(path),
            None if name == COPROCESSOR => Box::new(coprocessor::CoprocessorPath::new(bench)),
            None if name.starts_with(CHARIO) => Box::new(chario::CharioPath::new(bench, name)),
            None => Box::new(kernel::KernelPath::new(bench, name)),
        })
    };
    names.iter().map(make).collect()
}

/// What further threads make their devices of.
fn twin(opened: &SyncFile, file: &std::path::Path) -> Result<Option<SyncFile>> {
    let twin = opened.twin();
    Ok(Some(twin.map_err(|error| {
        Failure::io("opening again", file, &error)
    })?))
}

/// A device for another thread.
fn another(twin: Option<&SyncFile>) -> std::result::Result<Box<dyn Device + Send>, Missing> {
    let twin = twin.ok_or_else(|| {
        Missing::new(
            "this path has one queue, and one thread that uses it",
            "--threads 1, with larger --depths",
        )
    })?;
    match twin.twin() {
        Ok(device) => Ok(Box::new(device)),
        Err(error) => Err(Missing::new(
            format!("no further thread can open it: {error}"),
            "ulimit -n",
        )),
    }
}

/// What an instrument could not find is a path that is not supported here.
impl From<Missing> for Failure {
    fn from(missing: Missing) -> Self {
        Failure::unsupported(missing.reason).hint(missing.hint)
    }
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        let hint = failure.remedy().unwrap_or("see the reason").to_owned();
        Missing::new(failure.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretches_fit_into_their_halves() {
        for size_bytes in [64 << 20, 256 << 20, (1 << 30) + 512, 500_107_862_016] {
            let plan = Plan::new(size_bytes, 1 << 30, 4096);
            assert!(plan.raw_offset_bytes + plan.span_bytes <= size_bytes);
            assert!(plan.span_bytes <= plan.raw_offset_bytes / 4 * 3);
            assert_eq!(plan.raw_offset_bytes % (1 << 20), 0);
        }
        assert_eq!(Plan::new(1 << 40, 128 << 20, 4096).span_bytes, 128 << 20);
    }
}
