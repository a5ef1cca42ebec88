//! Opens the block device of a drive, by the path that is asked for.

pub mod borrow;
pub mod chario;
pub mod coprocessor;
pub mod held;
pub mod kernel;
pub mod memory;
pub mod rig;
pub mod straight;
pub mod without_fua;

use crate::drive::Drive;
use crate::failure::{Failure, Result};
use crate::guard::{FunctionLock, Grant};
use block::Device;
use borrow::Loan;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use held::Ends;
use kernel::Nodes;
use linux::identity::Identity;
use linux::resolve::Resolved;
use linux::{HostMemory, Roots, SyncFile};
use measure::kind::{self, Carrier, Group, Kind, Wait};
use memory::Memory;
use nvme::CompletionMode;
use rig::{Recall, Rig};
use std::fmt;
use std::sync::Arc;

/// Looks at the completion ring before a hybrid wait sleeps.
const HYBRID_LOOKS: u32 = 2_000;

/// The largest block that any path takes.
pub const LARGEST_BLOCK_BYTES: usize = 64 << 10;

/// What the user may write after `--path` that is no name of the table.
const AUTO: &str = "auto";
/// The names of the straight path that insist on an IOMMU, or on none.
const WITH_IOMMU: [(&str, bool); 2] = [("vfio", true), ("noiommu", false)];

/// What `--path` says in the help of every verb.
pub const PATH_HELP: &str = "The path to the drive. auto: the straight path if the drive can be \
had, io_uring otherwise; a plain file takes pread and pwrite. straightway, vfio and noiommu are the \
straight path, with an IOMMU or without; sync is pread and pwrite through the page cache";

/// The path that the user wants: `auto`, or a name or an alias of the table of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChoice(&'static str);

impl PathChoice {
    /// Whichever suits the drive.
    pub const AUTO: Self = Self(AUTO);
    /// io_uring.
    pub const IO_URING: Self = Self("io_uring");
    /// The page cache, through pread and pwrite.
    pub const SYNC: Self = Self("sync");

    /// The one vocabulary of `--path` and `--paths`.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        let names = std::iter::once(AUTO).chain(kind::names());
        PossibleValuesParser::new(names).map(|name| Self::named(&name))
    }

    /// A name that the parser let pass.
    fn named(name: &str) -> Self {
        let known = kind::names().into_iter().find(|known| *known == name);
        Self(known.unwrap_or(AUTO))
    }

    /// The path that it means among those that `fits` admits, or any other path of that name;
    /// `None` if the user leaves it open.
    pub fn kind(self, fits: impl Fn(&Kind) -> bool) -> Option<&'static Kind> {
        if self == Self::AUTO {
            return None;
        }
        kind::find(self.0, fits)
    }

    fn behind_iommu(self) -> Option<bool> {
        let mut all = WITH_IOMMU.iter();
        all.find(|(name, _)| *name == self.0)
            .map(|(_, iommu)| *iommu)
    }
}

impl fmt::Display for PathChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Look until it is there: quickest, and a processor spins
    Poll,
    /// Sleep until the drive interrupts
    Interrupt,
    /// Look for a short time, then sleep
    Hybrid,
}

impl Mode {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    const fn wait(self) -> Wait {
        match self {
            Mode::Poll => Wait::Poll,
            Mode::Interrupt => Wait::Interrupt,
            Mode::Hybrid => Wait::Hybrid,
        }
    }
}

/// What a way of waiting is to the driver.
const fn completion(wait: Wait) -> CompletionMode {
    match wait {
        Wait::Poll => CompletionMode::Poll,
        Wait::Interrupt => CompletionMode::Interrupt,
        Wait::Hybrid => CompletionMode::Hybrid {
            looks: HYBRID_LOOKS,
        },
    }
}

/// What is wanted of a path.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Which.
    pub path: PathChoice,
    /// How completions are waited for, if the user said so.
    pub mode: Option<Mode>,
    /// The namespace, if the user said so.
    pub namespace: Option<u32>,
    /// Whether it is to be changed.
    pub write: bool,
    /// Memory for buffers, all together.
    pub buffer_bytes: usize,
    /// Requests in flight.
    pub queue_depth: u16,
}

impl OpenOptions {
    /// For a dry run: changes no driver, and looks through the kernel's, where that has the drive.
    #[must_use]
    pub fn changing_no_driver_if(self, dry_run: bool, drive: &Drive) -> Self {
        match drive {
            Drive::Nvme(resolved)
                if dry_run && resolved.controller.driver.as_deref() == Some("nvme") =>
            {
                Self {
                    path: PathChoice::SYNC,
                    mode: None,
                    ..self
                }
            }
            _ => self,
        }
    }
}

/// An open path. Close it: what goes wrong then is worth knowing.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Where its buffers come from.
    pub memory: Memory,
    /// What it is, in a word or two.
    pub name: String,
    /// What further threads make their devices of, where a path has more than one.
    pub twin: Option<SyncFile>,
    rig: Option<Box<dyn Rig>>,
    /// The drive's binding, where it was changed and there is no rig; `device` holds it too.
    loan: Option<Arc<Loan>>,
    /// Dropped last: the drive is back at its driver then.
    _lock: Option<FunctionLock>,
    /// The drive's serial number, where the path knows it otherwise.
    told_serial: Option<String>,
}

impl Opened {
    fn new(kind: &Kind, device: Box<dyn Device>, memory: Memory) -> Self {
        Self {
            device,
            memory,
            name: kind.name.to_owned(),
            twin: None,
            rig: None,
            loan: None,
            _lock: None,
            told_serial: None,
        }
    }

    /// The same, whose memory gives buffers as the device wants them.
    #[must_use]
    pub fn aligned(self) -> Self {
        let align_bytes = self.device.geometry().buffer_align_bytes;
        Self {
            memory: self.memory.aligned_to(align_bytes),
            ..self
        }
    }

    /// The serial number that the drive itself gives, where the path asked it.
    pub fn serial(&self) -> Option<String> {
        if let Some(serial) = &self.told_serial {
            return Some(serial.clone());
        }
        let rig = self.rig.as_ref()?;
        Some(rig.info().serial.as_str().to_owned())
    }

    /// The device, and whether the machine wants the drive back while it is used.
    pub fn parts(&mut self) -> (&mut (dyn Device + 'static), Recall<'_>) {
        (self.device.as_mut(), Recall(self.rig.as_deref()))
    }

    /// Closes the path after a transfer, whose error is reported before one of closing.
    ///
    /// # Errors
    /// Of the transfer or of closing.
    pub fn close_after<T>(self, result: Result<T>) -> Result<T> {
        match (result, self.close()) {
            (Err(failure), Err(other)) => Err(failure.and(other)),
            (Err(failure), Ok(())) | (Ok(_), Err(failure)) => Err(failure),
            (Ok(value), Ok(())) => Ok(value),
        }
    }

    /// Closes the path and gives the drive back to its driver.
    ///
    /// # Errors
    /// The driver could not be given back.
    pub fn close(self) -> Result<()> {
        drop(self.device);
        self.loan.end()?;
        match self.rig {
            Some(rig) => rig.close(),
            None => Ok(()),
        }
    }
}

/// Opens a path to the drive that was granted.
///
/// # Errors
/// What is missing, wrong or refused; nothing was changed then.
pub fn open(roots: &Roots, grant: &Grant, options: &OpenOptions) -> Result<Opened> {
    // Buffers are aligned once the device has said to what; that may cost as much as a block.
    let buffer_bytes = options.buffer_bytes.saturating_add(LARGEST_BLOCK_BYTES);
    let options = OpenOptions {
        buffer_bytes,
        ..*options
    };
    Ok(open_unaligned(roots, grant, &options)?.aligned())
}

impl Drive {
    /// Whether it has this path. A coprocessor's drive can be named beside another one.
    pub fn has(&self, kind: &Kind) -> bool {
        match self {
            Drive::Nvme(_) => kind.group != Group::Plain,
            Drive::Model(_) => kind.group == Group::Straightway,
            Drive::Coprocessor(_) => kind.group == Group::Coprocessor,
            Drive::File(_) => kind.group == Group::Plain && kind.carrier != Carrier::Memory,
            Drive::Ram(_) => kind.carrier == Carrier::Memory,
        }
    }
}

fn open_unaligned(roots: &Roots, grant: &Grant, options: &OpenOptions) -> Result<Opened> {
    let drive = grant.drive();
    let options = &match drive {
        // However one waits, the processor moves it.
        Drive::Ram(_) => OpenOptions {
            mode: None,
            ..*options
        },
        _ => *options,
    };
    let kind_in = |what: &str, usual: &str| {
        refuse_namespace(options, what)?;
        options.kind_in(what, usual, |kind| drive.has(kind))
    };
    match drive {
        Drive::Nvme(resolved) => open_nvme(roots, grant, resolved, options),
        Drive::Model(model) => {
            let kind = options.kind_in("a model controller", "straightway-hybrid", |kind| {
                drive.has(kind) && options.path.behind_iommu().is_none()
            })?;
            let rig = straight::open_model(model, options.buffer_bytes)?;
            on_rig(rig, options.namespace.unwrap_or(1), kind)
        }
        Drive::Coprocessor(path) => {
            let kind = kind_in("a coprocessor's drive", "coprocessor-hybrid")?;
            coprocessor::open(path, kind, options.write)
        }
        Drive::File(path) => {
            let kind = kind_in("a file", "file-buffered")?;
            let claim = grant.claim(roots, path, options.write)?;
            let memory = HostMemory::new(options.buffer_bytes)?;
            kernel::open(roots, &claim, kind, options.queue_depth, memory)
        }
        Drive::Ram(bytes) => {
            let kind = kind_in("memory", kind::RAM)?;
            kernel::open_ram(*bytes, 0, kind, HostMemory::new(options.buffer_bytes)?)
        }
    }
}

impl OpenOptions {
    /// The path that is wanted of a device which has those that `fits` admits.
    fn kind_in(
        &self,
        what: &str,
        usual: &str,
        fits: impl Fn(&Kind) -> bool,
    ) -> Result<&'static Kind> {
        let kind = match self.path.kind(&fits) {
            Some(kind) => kind,
            None => kind::named(usual).ok_or_else(|| Failure::unsupported(usual))?,
        };
        if !fits(kind) {
            let names = kind::KINDS.iter().filter(|kind| fits(kind));
            let names: Vec<&str> = names.map(|kind| kind.name).collect();
            let hint = match names.as_slice() {
                [] => "go without --path".to_owned(),
                names => format!("one of {}, or go without --path", names.join(", ")),
            };
            let failure = Failure::unsupported(format!("{what} has no path {}", self.path));
            return Err(failure.hint(hint));
        }
        waiting(kind, self.mode)
    }
}

/// The sibling that waits as the user wants.
fn waiting(kind: &'static Kind, mode: Option<Mode>) -> Result<&'static Kind> {
    let Some(mode) = mode else { return Ok(kind) };
    kind.waiting(mode.wait()).ok_or_else(|| {
        let modes = Mode::value_variants().iter();
        let modes = modes.filter(|mode| kind.waiting(mode.wait()).is_some());
        let modes: Vec<String> = modes
            .map(|mode| format!("--mode {}", mode.name()))
            .collect();
        Failure::unsupported(format!("{} cannot wait by {}", kind.name, mode.name()))
            .hint(format!("{}, or go without --mode", modes.join(", ")))
    })
}

fn refuse_namespace(options: &OpenOptions, what: &str) -> Result<()> {
    match options.namespace {
        None | Some(1) => Ok(()),
        Some(namespace) => Err(Failure::missing(format!(
            "{what} has no namespace {namespace}"
        ))),
    }
}

fn open_nvme(
    roots: &Roots,
    grant: &Grant,
    resolved: &Resolved,
    options: &OpenOptions,
) -> Result<Opened> {
    let kernel = |kind| {
        let memory = HostMemory::new(options.buffer_bytes)?;
        let nodes = Nodes::of(roots, resolved, options.namespace)?;
        let claim = grant.claim(roots, nodes.for_kind(kind)?, options.write)?;
        kernel::open(roots, &claim, kind, options.queue_depth, memory)
    };
    let is_at_chario = resolved.controller.driver.as_deref() == Some(linux::bind::CHARIO);
    let named = options.path.kind(|kind| kind.group != Group::Plain);
    let usual = match is_at_chario {
        true => "chario",
        false => "straightway-hybrid",
    };
    let Some(kind) = named.or_else(|| kind::named(usual)) else {
        return Err(Failure::unsupported(usual));
    };
    if kind.group == Group::Coprocessor {
        return Err(
            Failure::usage(format!("`{}` is not behind a coprocessor", resolved.name))
                .hint("name its window: coprocessor:PATH"),
        );
    }
    let kind = waiting(kind, options.mode)?;
    match kind.group {
        Group::Chario => chario::open(roots, grant, resolved, kind, options),
        Group::Straightway => {
            let behind_iommu = resolved.controller.iommu_group.is_some();
            let behind_iommu = options.path.behind_iommu().unwrap_or(behind_iommu);
            let straight = open_straight(roots, resolved, kind, behind_iommu, options);
            match named {
                Some(_) => straight,
                None => or_kernel(resolved, options, straight, kernel),
            }
        }
        Group::Kernel => kernel(kind),
        Group::Ext4 => Err(Failure::unsupported(format!(
            "{} needs a file system of its own on the drive, which only a measurement makes",
            kind.name
        ))
        .hint("straightway compare; or mount it, and name a file on it")),
        Group::Plain | Group::Coprocessor => Err(Failure::unsupported(format!(
            "an NVMe drive has no path {}",
            kind.name
        ))
        .hint("go without --path")),
    }
}

/// Where the straight path cannot be had and the drive is with the kernel's driver, that one serves.
fn or_kernel(
    resolved: &Resolved,
    options: &OpenOptions,
    straight: Result<Opened>,
    kernel: impl FnOnce(&'static Kind) -> Result<Opened>,
) -> Result<Opened> {
    let failure = match straight {
        Ok(opened) => return Ok(opened),
        Err(failure) => failure,
    };
    let kernel_has_it = resolved.controller.driver.as_deref() == Some("nvme");
    let is_about_the_path = matches!(
        failure.exit(),
        crate::Exit::Missing | crate::Exit::Unsupported
    );
    if !kernel_has_it || !is_about_the_path || options.mode.is_some() {
        return Err(failure);
    }
    let Some(ring) = PathChoice::IO_URING.kind(|kind| kind.group == Group::Kernel) else {
        return Err(failure);
    };
    match kernel(ring) {
        Ok(opened) => Ok(Opened {
            name: format!("{} (not the straight path: {failure})", opened.name),
            ..opened
        }),
        // What stands in the way of both was told by the first.
        Err(_) => Err(failure),
    }
}

/// Refuses a partition, of a path that knows whole namespaces only.
fn refuse_partition(resolved: &Resolved, who_knows: &str) -> Result<()> {
    match &resolved.partition {
        Some(partition) => Err(Failure::unsupported(format!(
            "{partition} is a partition, and {who_knows} whole namespaces only"
        ))
        .hint("--path io_uring, or name the namespace")),
        None => Ok(()),
    }
}

fn open_straight(
    roots: &Roots,
    resolved: &Resolved,
    kind: &'static Kind,
    behind_iommu: bool,
    options: &OpenOptions,
) -> Result<Opened> {
    refuse_partition(resolved, "the straight path knows")?;
    let namespace = namespace_of(resolved, options.namespace)?;
    // Two drivers in user space cannot share a controller, not even to read.
    let lock = FunctionLock::take(roots, resolved)?;
    let rig = straight::open(roots, resolved, behind_iommu, options.buffer_bytes)?;
    // After the driver was bound the kernel shows no namespaces, so the drive itself is asked.
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => rig::only_namespace(rig.as_ref())?,
    };
    let info = rig.namespace(namespace)?;
    let address = resolved.controller.address;
    Identity::of(&resolved.controller)
        .refuse_namespace(address, namespace, info.eui64, info.nguid)?;
    Ok(Opened {
        _lock: Some(lock),
        ..on_rig(rig, namespace, kind)?
    })
}

/// The namespace that the user named, in one way or the other.
///
/// # Errors
/// The two ways name different ones.
pub fn namespace_of(resolved: &Resolved, requested: Option<u32>) -> Result<Option<u32>> {
    let named = resolved
        .namespace
        .as_ref()
        .and_then(|namespace| namespace.nsid);
    match (named, requested) {
        (Some(named), Some(requested)) if named != requested => Err(Failure::usage(format!(
            "`{}` is namespace {named}, and --namespace says {requested}",
            resolved.name
        ))),
        (named, requested) => Ok(named.or(requested)),
    }
}

fn on_rig(rig: Box<dyn Rig>, nsid: u32, kind: &Kind) -> Result<Opened> {
    let opened = open_queue(rig.as_ref(), nsid, kind)?;
    Ok(Opened {
        name: format!("{}, {}", opened.name, rig.name()),
        rig: Some(rig),
        ..opened
    })
}

/// A queue of a controller that is ours already.
///
/// # Errors
/// There is no such namespace, no queue left, or no interrupt.
pub fn open_queue(rig: &dyn Rig, nsid: u32, kind: &Kind) -> Result<Opened> {
    let wait = match kind.wait {
        Wait::Interrupt if !rig.has_interrupts() => {
            return Err(Failure::unsupported(
                "without an IOMMU there are no interrupts in user space",
            )
            .hint("switch the IOMMU on; straightway doctor tells how"));
        }
        Wait::Hybrid if !rig.has_interrupts() => Wait::Poll,
        wait => wait,
    };
    let device = rig.open_queue(nsid, completion(wait))?;
    Ok(Opened::new(kind, device, rig.memory().clone()))
}
