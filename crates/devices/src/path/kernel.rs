// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paths through the kernel, to a drive or to a file; and memory.

use crate::error::{Error, Result};
use crate::path::memory::Memory;
use crate::path::{Opened, gathered, namespace_of};
use block::RamDisk;
#[cfg(feature = "drives")]
use linux::Passthrough;
use linux::disk::Disk;
use linux::identity::Identity;
use linux::pci::Controller;
use linux::resolve::Resolved;
use linux::{CallOrRing, Claim, HostMemory, RingOptions, Roots, SyncFile, Uring};
use paths::{Carrier, PathKind};
use std::path::{Path, PathBuf};

/// Maximum number of requests in flight on the RAM disk.
pub const RAM_DEPTH: usize = 64;

/// Opens what was claimed: a block device, a file, or a namespace's character device. If it
/// `gathers`, a request that is alone needs no ring.
///
/// # Errors
/// Something is missing or refused.
pub fn open(
    roots: &Roots,
    claim: &Claim,
    kind: &PathKind,
    queue_depth: u16,
    memory: HostMemory,
    gathers: bool,
) -> Result<Opened> {
    let options = RingOptions {
        queue_depth: queue_depth.clamp(1, 4096),
        poll: kind.polls(),
        register_file: true,
        // The plain ring is what an ordinary program uses. Passthrough is faster without registered
        // memory than with pieces as long as the longest block.
        fixed_memory: kind.polls().then(|| memory.clone()),
        ..RingOptions::default()
    };
    let buffers = Memory::Host(memory);
    match kind.carrier {
        Carrier::Ring if gathers && !kind.polls() => {
            let device = CallOrRing::open(claim, &options, gathered::DEPTH as u32)?;
            Ok(Opened {
                line_bytes: device.ring_transfer_bytes(),
                ..Opened::new(kind, Box::new(device), buffers)
            })
        }
        Carrier::Ring => {
            let device = Uring::open(claim, &options)?;
            Ok(Opened::new(kind, Box::new(device), buffers))
        }
        #[cfg(feature = "drives")]
        Carrier::Passthrough => {
            let device = open_passthrough(roots, claim, options)?;
            Ok(Opened::new(kind, Box::new(device), buffers))
        }
        _ => {
            let device = if kind.is_buffered {
                SyncFile::open(claim)?
            } else {
                SyncFile::open_direct(claim)?
            };
            let again = |error| Error::io("opening again", claim.path(), &error);
            let twin = device.twin().map_err(again)?;
            Ok(Opened {
                twin: Some(twin),
                ..Opened::new(kind, Box::new(device), buffers)
            })
        }
    }
}

/// The kernel's names of a controller and one of its namespaces, as full paths. They may change
/// when the drive is bound again.
pub struct Nodes {
    /// The controller of an NVMe namespace.
    pub controller: Option<ControllerNode>,
    /// The namespace's block device, or the partition's that the user named.
    pub block: PathBuf,
    /// The namespace's character device.
    character: Option<PathBuf>,
}

/// An NVMe controller in the kernel.
pub struct ControllerNode {
    /// `nvme0`.
    pub name: String,
    /// Its character device.
    pub path: PathBuf,
}

impl Nodes {
    /// Those of a block device that is not a namespace.
    pub fn of_disk(disk: &Disk) -> Self {
        Self {
            controller: None,
            block: disk.node.clone(),
            character: None,
        }
    }

    /// Finds the current names.
    ///
    /// # Errors
    /// The drive is not bound to the kernel's driver, or has no such namespace.
    pub fn of(roots: &Roots, resolved: &Resolved, requested: Option<u32>) -> Result<Self> {
        let address = resolved.controller.address;
        Identity::of(&resolved.controller).refuse_another(roots, address)?;
        let controller = Controller::at(roots, address)?;
        let name = controller.kernel_name.as_ref().ok_or_else(|| {
            let driver = controller.driver.as_deref().unwrap_or("no driver");
            Error::missing(format!(
                "the kernel's paths need {address} bound to nvme, but it is bound to {driver}"
            ))
            .hint(format!("straightway release {address}"))
        })?;
        let namespace = match namespace_of(resolved, requested)? {
            Some(wanted) => {
                let mut all = controller.namespaces.iter();
                all.find(|one| one.nsid == Some(wanted)).ok_or_else(|| {
                    Error::missing(format!("there is no namespace {wanted}"))
                        .hint("straightway list")
                })?
            }
            None => resolved.only_namespace()?,
        };
        let block = resolved.partition.as_ref().or(namespace.block.as_ref());
        let block = block.ok_or_else(|| {
            Error::missing(format!("`{}` has no block device", resolved.name))
                .hint("straightway list")
        })?;
        let character = namespace.character.as_ref();
        let character = character.filter(|_| resolved.partition.is_none());
        Ok(Self {
            controller: Some(ControllerNode {
                path: roots.dev.join(name),
                name: name.clone(),
            }),
            block: roots.dev.join(block),
            character: character.map(|name| roots.dev.join(name)),
        })
    }

    /// The node that a path opens.
    ///
    /// # Errors
    /// The path has no such node.
    pub fn for_kind(&self, kind: &PathKind) -> Result<&Path> {
        if kind.carrier != Carrier::Passthrough {
            return Ok(&self.block);
        }
        self.character.as_deref().ok_or_else(|| {
            Error::unsupported(format!(
                "{} has no character device for passthrough",
                self.block.display()
            ))
            .hint("name the namespace, and use Linux 5.13 or later")
        })
    }
}

#[cfg(feature = "drives")]
/// Opens passthrough with registered memory, or without it if this kernel refuses that.
fn open_passthrough(
    roots: &Roots,
    claim: &Claim,
    mut options: RingOptions,
) -> linux::Result<Passthrough> {
    match Passthrough::open(roots, claim, &options) {
        Ok(device) => Ok(device),
        Err(linux::Error::Unsupported {
            what: "registered memory",
            ..
        }) => {
            options.fixed_memory = None;
            Passthrough::open(roots, claim, &options)
        }
        Err(error) => Err(error),
    }
}

/// Makes a RAM disk, each byte of which is `fill`. The kernel may map pages of zeroes that were
/// never written to a single page, which would falsify measurements.
///
/// # Errors
/// There is not enough memory.
pub fn open_ram(bytes: u64, fill: u8, kind: &PathKind, memory: HostMemory) -> Result<Opened> {
    let too_large = || Error::unsupported(format!("no memory for a disk of {bytes} bytes"));
    let len = usize::try_from(bytes).map_err(|_| too_large())?;
    let mut disk: Vec<u8> = Vec::new();
    disk.try_reserve_exact(len).map_err(|_| too_large())?;
    disk.resize(len, fill);
    let device = RamDisk::<_, RAM_DEPTH>::new(disk, 9)
        .map_err(|error| Error::request("making the RAM disk", error))?;
    Ok(Opened::new(kind, Box::new(device), Memory::Host(memory)))
}
