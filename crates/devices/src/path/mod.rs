// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the block device of a drive by the requested path.

pub mod array;
pub mod borrow;
pub mod cached;
#[cfg(feature = "drives")]
pub mod chario;
#[cfg(feature = "drives")]
pub mod coprocessor;
pub mod gathered;
#[cfg(feature = "drives")]
pub mod handle;
#[cfg(not(feature = "drives"))]
#[path = "no_handle.rs"]
pub mod handle;
pub mod held;
pub mod kernel;
mod kinds;
pub mod memory;
mod opened;
#[cfg(feature = "drives")]
pub mod power;
#[cfg(feature = "drives")]
pub mod remote;
#[cfg(feature = "drives")]
pub mod straight;
pub mod without_fua;

use crate::Context;
use crate::drive::Drive;
use crate::error::{Error, Result};
use crate::guard::{FunctionLock, Grant};
use block::Device;
#[cfg(feature = "drives")]
use handle::ControllerHandle;
use kernel::Nodes;
use linux::identity::Identity;
use linux::resolve::Resolved;
use linux::{HostMemory, Roots};
#[cfg(feature = "drives")]
use nvme::{CompletionMode, Quirks};
pub use opened::Opened;
use paths::{Carrier, Group, PathKind, Wait};
use remedy::{Remedy, Setting, words};
use std::fmt;
use std::path::Path;
#[cfg(feature = "drives")]
use straight::Needs;

#[cfg(feature = "drives")]
/// Number of polls before a hybrid wait sleeps.
const HYBRID_LOOKS: u32 = 2_000;

/// The longest transfer of one command of the straight path, even if the drive allows more: this
/// keeps the PRP lists of a whole queue small.
pub const MAX_TRANSFER_BYTES: usize = 4 << 20;

/// The largest block size that any path supports.
pub const LARGEST_BLOCK_BYTES: usize = 64 << 10;

/// Values of `--path` that are not names of the table.
const AUTO: &str = "auto";
/// The names of the straight path that require an IOMMU, or its absence.
const WITH_IOMMU: [(&str, bool); 2] = [("vfio", true), ("noiommu", false)];

/// The requested path: `auto`, or a name or an alias of the table of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChoice(&'static str);

impl PathChoice {
    /// The default path of the drive.
    pub const AUTO: Self = Self(AUTO);
    /// io_uring.
    pub const IO_URING: Self = Self("io_uring");
    /// The page cache, through pread and pwrite.
    pub const SYNC: Self = Self("sync");

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(AUTO).chain(paths::names())
    }

    /// The path of this name.
    ///
    /// # Errors
    /// No path has it.
    pub fn by_name(name: &str) -> Result<Self> {
        if name == AUTO || paths::names().contains(&name) {
            Ok(Self::named(name))
        } else {
            let names: Vec<&str> = Self::names().collect();
            Err(Error::usage(format!("`{name}` is not a path"))
                .hint(format!("one of {}", names.join(", "))))
        }
    }

    /// A name that the parser accepted.
    fn named(name: &str) -> Self {
        let known = paths::names().into_iter().find(|known| *known == name);
        Self(known.unwrap_or(AUTO))
    }

    /// The path with this name among those that `fits` accepts, or otherwise any path of that name;
    /// `None` for `auto`.
    pub fn kind(self, fits: impl Fn(&PathKind) -> bool) -> Option<&'static PathKind> {
        if self == Self::AUTO {
            return None;
        }
        paths::find(self.0, fits)
    }

    /// Whether the named path gathers by itself.
    fn gathers(self) -> bool {
        self.kind(|_| true).is_some_and(|kind| kind.gathers)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Poll until it arrives: fastest, but a processor spins.
    Poll,
    /// Sleep until the drive interrupts.
    Interrupt,
    /// Poll for a short time, then sleep.
    Hybrid,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Poll, Self::Interrupt, Self::Hybrid];

    /// The mode of this name: `poll`, `interrupt` or `hybrid`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

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

#[cfg(feature = "drives")]
/// Converts the mode to the driver's type.
const fn completion(wait: Wait) -> CompletionMode {
    match wait {
        Wait::Poll => CompletionMode::Poll,
        Wait::Interrupt => CompletionMode::Interrupt,
        Wait::Hybrid => CompletionMode::Hybrid {
            looks: HYBRID_LOOKS,
        },
    }
}

/// Options for opening a path.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The requested path.
    pub path: PathChoice,
    /// How completions are waited for, if requested.
    pub mode: Option<Mode>,
    /// The namespace, if requested.
    pub namespace: Option<u32>,
    /// Whether the drive will be written.
    pub write: bool,
    /// Whether small sequential accesses are gathered.
    pub hybrid: bool,
    /// Memory in which short reads are kept; 0 keeps none.
    pub cache_bytes: usize,
    /// Total memory for buffers.
    pub buffer_bytes: usize,
    /// Requests in flight.
    pub queue_depth: u16,
    /// A physical address in a granted window, where buffers begin: for CharIO's window.
    pub window: Option<u64>,
    /// The longest that a power state may delay a command, in microseconds, if the drive's own
    /// setting is not kept.
    pub latency_limit_us: Option<u32>,
}

impl OpenOptions {
    /// The usual path, for reading, with memory for buffers and requests in flight.
    pub const fn reading(buffer_bytes: usize, queue_depth: u16) -> Self {
        Self {
            path: PathChoice::AUTO,
            mode: None,
            namespace: None,
            write: false,
            hybrid: false,
            cache_bytes: 0,
            buffer_bytes,
            queue_depth,
            window: None,
            latency_limit_us: None,
        }
    }

    /// For a dry run: does not change the driver, and uses the kernel's if that holds the drive.
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

/// Opens a path to the granted drive.
///
/// # Errors
/// Something is missing, wrong or refused; nothing was changed then.
pub fn open(context: &Context, grant: &Grant, options: &OpenOptions) -> Result<Opened> {
    // Buffers are aligned after the device has reported its alignment; this may cost up to a block.
    let mut buffer_bytes = options.buffer_bytes.saturating_add(LARGEST_BLOCK_BYTES);
    let gathers = options.hybrid || options.path.gathers();
    let mut queue_depth = options.queue_depth;
    if gathers {
        buffer_bytes = buffer_bytes.saturating_add(gathered::MEMORY_BYTES);
        queue_depth = queue_depth.saturating_add(gathered::LINES as u16);
    }
    let options = OpenOptions {
        buffer_bytes,
        queue_depth,
        ..*options
    };
    let mut opened = open_unaligned(context, grant, &options)?.aligned();
    if let (Some(limit_us), None) = (options.latency_limit_us, &opened.owner.handle) {
        #[cfg(not(feature = "drives"))]
        {
            let _ = limit_us;
            return opened.close_after(Err(without_drives(grant.drive())));
        }
        #[cfg(feature = "drives")]
        match power::limit_path(&context.roots, grant.drive(), &opened.name, limit_us) {
            Ok(tolerance) => opened.owner.tolerance = tolerance,
            Err(failure) => return opened.close_after(Err(failure)),
        }
    }
    if options.cache_bytes > 0 {
        opened.device = cached::wrap(opened.device, options.cache_bytes)?;
        opened.name += ", short reads kept";
        opened.twin = None;
    }
    if !gathers {
        return Ok(opened);
    }
    let opened = opened.gathered()?;
    Ok(Opened {
        name: format!("{}, hybrid direct I/O", opened.name),
        writes: options.write,
        ..opened
    })
}

impl Drive {
    /// Whether this kind of drive has this path. A coprocessor's drive can be named in addition to
    /// another one.
    pub fn has(&self, kind: &PathKind) -> bool {
        match self {
            Drive::Nvme(_) => !matches!(kind.group, Group::Plain | Group::Array | Group::Remote),
            Drive::Disk(_) => {
                matches!(kind.group, Group::Kernel | Group::Ext4)
                    && kind.carrier != Carrier::Passthrough
            }
            Drive::Model(_) => kind.group == Group::Straightway,
            Drive::Coprocessor(_) => kind.group == Group::Coprocessor,
            Drive::File(_) => kind.group == Group::Plain && kind.carrier != Carrier::Memory,
            Drive::Ram(_) => kind.carrier == Carrier::Memory,
            Drive::Array(_) => kind.carrier == Carrier::Array,
            Drive::Remote(_) => kind.carrier == Carrier::Remote,
        }
    }
}

fn open_unaligned(context: &Context, grant: &Grant, options: &OpenOptions) -> Result<Opened> {
    let roots = &context.roots;
    let drive = grant.drive();
    let options = &match drive {
        // The mode makes no difference: the processor moves the data.
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
    let through_kernel = |node: &Path, kind: &PathKind| {
        let claim = grant.claim(roots, node, options.write)?;
        let memory = HostMemory::new(options.buffer_bytes)?;
        let gathers = options.hybrid || kind.gathers;
        kernel::open(roots, &claim, kind, options.queue_depth, memory, gathers)
    };
    match drive {
        #[cfg(not(feature = "drives"))]
        Drive::Nvme(_) | Drive::Model(_) | Drive::Coprocessor(_) | Drive::Remote(_) => {
            Err(without_drives(drive))
        }
        #[cfg(feature = "drives")]
        Drive::Nvme(resolved) => open_nvme(roots, grant, resolved, options),
        Drive::Disk(disk) => {
            let kind = kind_in("this block device", "io_uring")?;
            match kind.group {
                Group::Ext4 => Err(needs_a_measurement(kind)),
                _ => through_kernel(&disk.node, kind),
            }
        }
        #[cfg(feature = "drives")]
        Drive::Model(model) => {
            let kind = options.kind_in("a model controller", "straightway-hybrid", |kind| {
                drive.has(kind) && options.path.behind_iommu().is_none()
            })?;
            let handle = straight::open_model(model, Needs::of(options))?;
            on_handle(handle, options.namespace.unwrap_or(1), kind)
        }
        #[cfg(feature = "drives")]
        Drive::Coprocessor(path) => {
            let kind = kind_in("a coprocessor's drive", "coprocessor-hybrid")?;
            coprocessor::open(path, kind, options.write)
        }
        Drive::Array(array) => {
            refuse_namespace(options, "an array")?;
            let kind = paths::named(paths::ARRAY);
            let kind = kind.ok_or_else(|| Error::unsupported(paths::ARRAY))?;
            array::open(context, grant, array, kind, options)
        }
        #[cfg(feature = "drives")]
        Drive::Remote(remote) => {
            let kind = options.kind_in("a remote target", paths::REMOTE, |kind| drive.has(kind))?;
            remote::open(context, remote, kind, options)
        }
        Drive::File(path) => {
            // Behind the page cache there is nothing to gather.
            let usual = if options.hybrid {
                "file-io_uring"
            } else {
                "file-buffered"
            };
            through_kernel(path, kind_in("a file", usual)?)
        }
        Drive::Ram(bytes) => {
            let kind = kind_in("memory", paths::RAM)?;
            kernel::open_ram(*bytes, 0, kind, HostMemory::new(options.buffer_bytes)?)
        }
    }
}

/// The error of a drive that this build has no driver for.
#[cfg(not(feature = "drives"))]
fn without_drives(drive: &Drive) -> Error {
    Error::unsupported(format!("{drive}: this build has no drive stack"))
        .hint("build it with the feature `drives`, or name a file or a block device")
}

impl OpenOptions {
    /// The requested path of a device that has the paths which `fits` accepts.
    fn kind_in(
        &self,
        what: &str,
        usual: &str,
        fits: impl Fn(&PathKind) -> bool,
    ) -> Result<&'static PathKind> {
        let kind = match self.path.kind(&fits) {
            Some(kind) => kind,
            None => paths::named(usual).ok_or_else(|| Error::unsupported(usual))?,
        };
        if !fits(kind) {
            let names = paths::KINDS.iter().filter(|kind| fits(kind));
            let names: Vec<&str> = names.map(|kind| kind.name).collect();
            let hint = match names.as_slice() {
                [] => Remedy::omit([Setting::Path]).to_owned(),
                names => Remedy::one_of([
                    format!("one of {}", names.join(", ")).into(),
                    Remedy::omit([Setting::Path]),
                ]),
            };
            let failure = Error::unsupported(format!("{what} has no path {}", self.path));
            return Err(failure.hint(hint));
        }
        self.refuse_page_cache(kind)?;
        waiting(kind, self.mode)
    }

    /// Refuses to gather in front of a cache that does the same.
    fn refuse_page_cache(&self, kind: &PathKind) -> Result<()> {
        if self.hybrid && kind.is_buffered {
            Err(Error::usage(format!(
                "{} goes through the page cache, which gathers already",
                kind.name
            ))
            .hint(words!["omit ", Setting::Hybrid, " or ", Setting::Path]))
        } else {
            Ok(())
        }
    }
}

/// The sibling that waits in the requested mode.
fn waiting(kind: &'static PathKind, mode: Option<Mode>) -> Result<&'static PathKind> {
    let Some(mode) = mode else { return Ok(kind) };
    kind.waiting(mode.wait()).ok_or_else(|| {
        let modes = Mode::ALL.iter();
        let modes = modes.filter(|mode| kind.waiting(mode.wait()).is_some());
        let modes = modes
            .map(|mode| Setting::Mode.to(mode.name()))
            .chain([Remedy::omit([Setting::Mode])]);
        Error::unsupported(format!("{} cannot wait by {}", kind.name, mode.name()))
            .hint(Remedy::one_of(modes))
    })
}

fn refuse_namespace(options: &OpenOptions, what: &str) -> Result<()> {
    match options.namespace {
        None | Some(1) => Ok(()),
        Some(namespace) => Err(Error::missing(format!(
            "{what} has no namespace {namespace}"
        ))),
    }
}

#[cfg(feature = "drives")]
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
        let gathers = options.hybrid || kind.gathers;
        kernel::open(roots, &claim, kind, options.queue_depth, memory, gathers)
    };
    let is_at_chario = resolved.controller.driver.as_deref() == Some(linux::bind::CHARIO);
    let named = options.path.kind(|kind| kind.group != Group::Plain);
    let usual = if is_at_chario {
        "chario"
    } else {
        "straightway-hybrid"
    };
    let Some(kind) = named.or_else(|| paths::named(usual)) else {
        return Err(Error::unsupported(usual));
    };
    if kind.group == Group::Coprocessor {
        return Err(
            Error::usage(format!("`{}` is not behind a coprocessor", resolved.name))
                .hint("name its window: coprocessor:PATH"),
        );
    }
    options.refuse_page_cache(kind)?;
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
        Group::Ext4 => Err(needs_a_measurement(kind)),
        Group::Plain | Group::Coprocessor | Group::Array | Group::Remote => Err(
            Error::unsupported(format!("an NVMe drive has no path {}", kind.name))
                .hint(Remedy::omit([Setting::Path])),
        ),
    }
}

/// The error of a path that exists only while it is measured.
fn needs_a_measurement(kind: &PathKind) -> Error {
    Error::unsupported(format!(
        "{} needs a separate file system on the drive, which only a measurement creates",
        kind.name
    ))
    .hint("straightway compare; or mount it, and name a file on it")
}

#[cfg(feature = "drives")]
/// Falls back to the kernel's driver if the straight path is not available and that driver holds
/// the drive.
fn or_kernel(
    resolved: &Resolved,
    options: &OpenOptions,
    straight: Result<Opened>,
    kernel: impl FnOnce(&'static PathKind) -> Result<Opened>,
) -> Result<Opened> {
    let failure = match straight {
        Ok(opened) => return Ok(opened),
        Err(failure) => failure,
    };
    let kernel_has_it = resolved.controller.driver.as_deref() == Some("nvme");
    let is_about_the_path = matches!(
        failure.kind(),
        crate::error::ErrorKind::Missing | crate::error::ErrorKind::Unsupported
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
        // The first failure describes what prevents both paths.
        Err(_) => Err(failure),
    }
}

#[cfg(feature = "drives")]
/// Refuses a partition on a path that supports only whole namespaces.
fn refuse_partition(resolved: &Resolved, who: &str) -> Result<()> {
    match &resolved.partition {
        Some(partition) => Err(Error::unsupported(format!(
            "{partition} is a partition, and {who} only whole namespaces"
        ))
        .hint(Remedy::one_of([
            Setting::Path.to("io_uring"),
            Remedy::from("name the namespace"),
        ]))),
        None => Ok(()),
    }
}

#[cfg(feature = "drives")]
fn open_straight(
    roots: &Roots,
    resolved: &Resolved,
    kind: &'static PathKind,
    behind_iommu: bool,
    options: &OpenOptions,
) -> Result<Opened> {
    refuse_partition(resolved, "the straight path supports")?;
    let namespace = namespace_of(resolved, options.namespace)?;
    // Two drivers in user space cannot share a controller, not even to read.
    let lock = FunctionLock::take(roots, resolved)?;
    let handle = straight::open(roots, resolved, behind_iommu, Needs::of(options))?;
    // With another driver bound, the kernel shows no namespaces, so the drive itself is queried.
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => handle::only_namespace(handle.as_ref())?,
    };
    let info = handle.namespace(namespace)?;
    let address = resolved.controller.address;
    if !handle.limits()?.quirks.has(Quirks::BOGUS_IDENTIFIERS) {
        Identity::of(&resolved.controller)
            .refuse_namespace(address, namespace, info.eui64, info.nguid)?;
    }
    let mut opened = on_handle(handle, namespace, kind)?;
    opened.owner.lock = Some(lock);
    Ok(opened)
}

/// The namespace that the user named, by DEVICE or by `--namespace`.
///
/// # Errors
/// The two name different namespaces.
pub fn namespace_of(resolved: &Resolved, requested: Option<u32>) -> Result<Option<u32>> {
    let named = resolved
        .namespace
        .as_ref()
        .and_then(|namespace| namespace.nsid);
    match (named, requested) {
        (Some(named), Some(requested)) if named != requested => Err(Error::usage(words![
            format!("`{}` is namespace {named}, but ", resolved.name),
            Setting::Namespace,
            format!(" is {requested}")
        ])),
        (named, requested) => Ok(named.or(requested)),
    }
}

#[cfg(feature = "drives")]
fn on_handle(handle: Box<dyn ControllerHandle>, nsid: u32, kind: &PathKind) -> Result<Opened> {
    let mut opened = open_queue(handle.as_ref(), nsid, kind)?;
    opened.name = format!("{}, {}", opened.name, handle.name());
    opened.owner.handle = Some(handle);
    Ok(opened)
}

#[cfg(feature = "drives")]
/// Opens a queue of a controller that this process already drives.
///
/// # Errors
/// There is no such namespace, no queue left, or no interrupt.
pub fn open_queue(handle: &dyn ControllerHandle, nsid: u32, kind: &PathKind) -> Result<Opened> {
    let device = another_queue(handle, nsid, kind)?;
    Ok(Opened::new(kind, device, handle.memory().clone()))
}

#[cfg(feature = "drives")]
/// Opens a queue for another thread, with the buffers of the same memory.
///
/// # Errors
/// Those of [`open_queue`].
pub fn another_queue(
    handle: &dyn ControllerHandle,
    nsid: u32,
    kind: &PathKind,
) -> Result<Box<dyn Device + Send>> {
    let wait = match kind.wait {
        Wait::Interrupt if !handle.has_interrupts() => {
            return Err(handle::without_interrupts(handle.name()));
        }
        Wait::Hybrid if !handle.has_interrupts() => Wait::Poll,
        wait => wait,
    };
    handle.open_queue(nsid, completion(wait))
}
