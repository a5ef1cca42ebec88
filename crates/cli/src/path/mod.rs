//! From a drive and a wish to an open block device, whatever it takes to get there.

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
use held::Ends;
use linux::Roots;
use linux::identity::Identity;
use linux::resolve::Resolved;
use memory::Memory;
use nvme::CompletionMode;
use rig::{Recall, Rig};
use std::sync::Arc;

/// Looks at the completion ring before a hybrid wait sleeps.
const HYBRID_LOOKS: u32 = 2_000;

/// The largest block that any path takes.
pub const LARGEST_BLOCK_BYTES: usize = 64 << 10;

/// A way to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathKind {
    /// The straight path if the drive can be had, io_uring otherwise; a plain file takes pread and
    /// pwrite
    Auto,
    /// Straightway's driver in user space, behind the IOMMU
    Vfio,
    /// Straightway's driver in user space, without an IOMMU
    Noiommu,
    /// The kernel's block layer through io_uring
    #[value(name = "io_uring", alias = "io-uring")]
    IoUring,
    /// NVMe commands through the kernel's driver
    Passthrough,
    /// The kernel's block layer through pread and pwrite
    Sync,
    /// CharIO's driver, which shows the drive as /dev/chardiskXnY
    Chario,
    /// A storage coprocessor, which DEVICE names as coprocessor:PATH
    Coprocessor,
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
    /// What it is to the driver.
    pub const fn completion(self) -> CompletionMode {
        match self {
            Mode::Poll => CompletionMode::Poll,
            Mode::Interrupt => CompletionMode::Interrupt,
            Mode::Hybrid => CompletionMode::Hybrid {
                looks: HYBRID_LOOKS,
            },
        }
    }
}

/// What is wanted of a path.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Which.
    pub path: PathKind,
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

impl Wish {
    /// For a dry run: changes no driver, and looks through the kernel's, where that has the drive.
    #[must_use]
    pub fn changing_no_driver_if(self, dry_run: bool, drive: &Drive) -> Self {
        match drive {
            Drive::Nvme(resolved)
                if dry_run && resolved.controller.driver.as_deref() == Some("nvme") =>
            {
                Self {
                    path: PathKind::Sync,
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
    rig: Option<Box<dyn Rig>>,
    /// The drive's binding, where it was changed and there is no rig; `device` holds it too.
    loan: Option<Arc<Loan>>,
    /// Dropped last: the drive is back at its driver then.
    _lock: Option<FunctionLock>,
    /// The drive's serial number, where the path knows it otherwise.
    told_serial: Option<String>,
}

impl Opened {
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
pub fn open(roots: &Roots, grant: &Grant, wish: &Wish) -> Result<Opened> {
    // Buffers are aligned once the device has said to what; that may cost as much as a block.
    let buffer_bytes = wish.buffer_bytes.saturating_add(LARGEST_BLOCK_BYTES);
    let wish = Wish {
        buffer_bytes,
        ..*wish
    };
    let opened = open_unaligned(roots, grant, &wish)?;
    let align_bytes = opened.device.geometry().buffer_align_bytes;
    Ok(Opened {
        memory: opened.memory.aligned_to(align_bytes),
        ..opened
    })
}

fn open_unaligned(roots: &Roots, grant: &Grant, wish: &Wish) -> Result<Opened> {
    match grant.drive() {
        Drive::Nvme(resolved) => open_nvme(roots, grant, resolved, wish),
        Drive::Model(model) => {
            refuse_path(wish, &[PathKind::Auto], "a model controller has one path")?;
            let rig = straight::open_model(model, wish.buffer_bytes)?;
            on_rig(rig, wish.namespace.unwrap_or(1), wish)
        }
        Drive::Coprocessor(path) => {
            refuse_namespace(wish, "a coprocessor's drive")?;
            let allowed = [PathKind::Auto, PathKind::Coprocessor];
            refuse_path(wish, &allowed, "a coprocessor's drive has one path")?;
            coprocessor::open(path, wish)
        }
        Drive::File(path) => {
            refuse_namespace(wish, "a file")?;
            kernel::open_file(&grant.claim(roots, path, wish.write)?, wish)
        }
        Drive::Ram(bytes) => {
            refuse_namespace(wish, "memory")?;
            refuse_path(wish, &[PathKind::Auto], "memory has one path")?;
            kernel::open_ram(*bytes, wish)
        }
    }
}

fn refuse_path(wish: &Wish, allowed: &[PathKind], why: &str) -> Result<()> {
    match allowed.contains(&wish.path) {
        true => Ok(()),
        false => Err(Failure::unsupported(why).hint("go without --path")),
    }
}

fn refuse_namespace(wish: &Wish, what: &str) -> Result<()> {
    match wish.namespace {
        None | Some(1) => Ok(()),
        Some(namespace) => Err(Failure::missing(format!(
            "{what} has no namespace {namespace}"
        ))),
    }
}

fn open_nvme(roots: &Roots, grant: &Grant, resolved: &Resolved, wish: &Wish) -> Result<Opened> {
    let kernel = |path| kernel::open(roots, grant, resolved, &Wish { path, ..*wish });
    let straight = |path| open_straight(roots, resolved, &Wish { path, ..*wish });
    let has_iommu = resolved.controller.iommu_group.is_some();
    let is_at_chario = resolved.controller.driver.as_deref() == Some(linux::bind::CHARIO);
    match wish.path {
        PathKind::Coprocessor => Err(Failure::usage(format!(
            "`{}` is not behind a coprocessor",
            resolved.name
        ))
        .hint("name its window: coprocessor:PATH")),
        PathKind::Chario => chario::open(roots, grant, resolved, wish),
        PathKind::Auto if is_at_chario => chario::open(roots, grant, resolved, wish),
        PathKind::Vfio | PathKind::Noiommu => straight(wish.path),
        PathKind::Auto if has_iommu => or_kernel(resolved, wish, straight(PathKind::Vfio), kernel),
        PathKind::Auto => or_kernel(resolved, wish, straight(PathKind::Noiommu), kernel),
        _ => kernel(wish.path),
    }
}

/// Where the straight path cannot be had and the drive is with the kernel's driver, that one serves.
fn or_kernel(
    resolved: &Resolved,
    wish: &Wish,
    straight: Result<Opened>,
    kernel: impl FnOnce(PathKind) -> Result<Opened>,
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
    if !kernel_has_it || !is_about_the_path || wish.mode.is_some() {
        return Err(failure);
    }
    match kernel(PathKind::IoUring) {
        Ok(opened) => Ok(Opened {
            name: format!("{} (not the straight path: {failure})", opened.name),
            ..opened
        }),
        // What stands in the way of both was told by the first.
        Err(_) => Err(failure),
    }
}

fn open_straight(roots: &Roots, resolved: &Resolved, wish: &Wish) -> Result<Opened> {
    if let Some(partition) = &resolved.partition {
        return Err(Failure::unsupported(format!(
            "{partition} is a partition, and the straight path knows whole namespaces only"
        ))
        .hint("--path io_uring, or name the namespace"));
    }
    let namespace = namespace_of(resolved, wish.namespace)?;
    // Two drivers in user space cannot share a controller, not even to read.
    let lock = FunctionLock::take(roots, resolved)?;
    let rig = straight::open(roots, resolved, wish.path, wish.buffer_bytes)?;
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
        ..on_rig(rig, namespace, wish)?
    })
}

/// The namespace that the user named, in one way or the other.
///
/// # Errors
/// The two ways name different ones.
pub fn namespace_of(resolved: &Resolved, wished: Option<u32>) -> Result<Option<u32>> {
    let named = resolved
        .namespace
        .as_ref()
        .and_then(|namespace| namespace.nsid);
    match (named, wished) {
        (Some(named), Some(wished)) if named != wished => Err(Failure::usage(format!(
            "`{}` is namespace {named}, and --namespace says {wished}",
            resolved.name
        ))),
        (named, wished) => Ok(named.or(wished)),
    }
}

fn on_rig(rig: Box<dyn Rig>, namespace: u32, wish: &Wish) -> Result<Opened> {
    let mode = match wish.mode {
        Some(mode) => mode,
        // A core that spins is asked for, or has no alternative.
        None if rig.has_interrupts() => Mode::Hybrid,
        None => Mode::Poll,
    };
    let device = rig.open_queue(namespace, mode.completion())?;
    Ok(Opened {
        device,
        memory: rig.memory().clone(),
        name: format!("{}, {}", rig.name(), format!("{mode:?}").to_lowercase()),
        rig: Some(rig),
        loan: None,
        _lock: None,
        told_serial: None,
    })
}
