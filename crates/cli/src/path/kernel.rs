//! The paths through the kernel, to a drive or to a file; and memory.

use crate::failure::{Failure, Result};
use crate::guard::Grant;
use crate::path::memory::Memory;
use crate::path::{Mode, Opened, PathKind, Wish, namespace_of};
use block::{Device, RamDisk};
use linux::resolve::Resolved;
use linux::{Claim, HostMemory, Passthrough, RingOptions, Roots, SyncFile, Uring};
use std::path::{Path, PathBuf};

/// Requests that the RAM disk takes.
const RAM_DEPTH: usize = 64;

/// Opens a path through the kernel's NVMe driver.
///
/// # Errors
/// What is missing or refused.
pub fn open(roots: &Roots, grant: &Grant, resolved: &Resolved, wish: &Wish) -> Result<Opened> {
    let claim = |node: &Path| grant.claim(roots, node, wish.write);
    let node = Node::of(roots, resolved, wish)?;
    match wish.path {
        PathKind::Passthrough => {
            let path = node.character.ok_or_else(|| {
                Failure::unsupported(format!(
                    "`{}` has no character device for passthrough",
                    resolved.name
                ))
                .hint("name the namespace, and use Linux 5.13 or later")
            })?;
            passthrough(roots, &claim(&path)?, wish)
        }
        PathKind::Sync => sync(&claim(&node.block)?, wish),
        _ => uring(&claim(&node.block)?, wish),
    }
}

/// A namespace's nodes in `/dev`.
struct Node {
    block: PathBuf,
    character: Option<PathBuf>,
}

impl Node {
    fn of(roots: &Roots, resolved: &Resolved, wish: &Wish) -> Result<Self> {
        let address = resolved.controller.address;
        let driver = resolved.controller.driver.as_deref();
        if driver != Some("nvme") {
            let driver = driver.unwrap_or("no driver");
            return Err(Failure::missing(format!(
                "the kernel's paths need {address} at its driver nvme, and it is bound to {driver}"
            ))
            .hint(format!("straightway release {address}")));
        }
        let wanted = namespace_of(resolved, wish.namespace)?;
        let namespaces = &resolved.controller.namespaces;
        let namespace = match wanted {
            Some(wanted) => namespaces
                .iter()
                .find(|namespace| namespace.nsid == Some(wanted))
                .ok_or_else(|| {
                    Failure::missing(format!("there is no namespace {wanted}"))
                        .hint("straightway list")
                })?,
            None => resolved.only_namespace()?,
        };
        let block = resolved.partition.as_ref().or(namespace.block.as_ref());
        let block = block.ok_or_else(|| {
            Failure::missing(format!("`{}` has no block device", resolved.name))
                .hint("straightway list")
        })?;
        let character = namespace
            .character
            .as_ref()
            .filter(|_| resolved.partition.is_none());
        Ok(Self {
            block: roots.dev.join(block),
            character: character.map(|name| roots.dev.join(name)),
        })
    }
}

fn ring_options(wish: &Wish, memory: &HostMemory) -> Result<RingOptions> {
    if wish.mode == Some(Mode::Hybrid) {
        return Err(
            Failure::unsupported("the kernel's paths have no hybrid waiting")
                .hint("--mode poll, or --mode interrupt"),
        );
    }
    Ok(RingOptions {
        queue_depth: wish.queue_depth.clamp(1, 4096),
        poll: wish.mode == Some(Mode::Poll),
        fixed_memory: Some(memory.clone()),
        ..RingOptions::default()
    })
}

fn opened(device: Box<dyn Device>, memory: HostMemory, name: &str) -> Opened {
    Opened {
        device,
        memory: Memory::Host(memory),
        name: name.to_owned(),
        rig: None,
        loan: None,
        _lock: None,
        told_serial: None,
    }
}

fn uring(claim: &Claim, wish: &Wish) -> Result<Opened> {
    let memory = HostMemory::new(wish.buffer_bytes)?;
    let device = Uring::open(claim, &ring_options(wish, &memory)?)?;
    Ok(opened(Box::new(device), memory, "io_uring"))
}

fn passthrough(roots: &Roots, claim: &Claim, wish: &Wish) -> Result<Opened> {
    let memory = HostMemory::new(wish.buffer_bytes)?;
    let options = ring_options(wish, &memory)?;
    let device = open_passthrough(roots, claim, options)?.0;
    Ok(opened(Box::new(device), memory, "passthrough"))
}

/// Opens passthrough with registered memory, or without where this kernel refuses it; says which.
///
/// # Errors
/// What is missing.
pub fn open_passthrough(
    roots: &Roots,
    claim: &Claim,
    mut options: RingOptions,
) -> linux::Result<(Passthrough, bool)> {
    match Passthrough::open(roots, claim, &options) {
        Ok(device) => Ok((device, true)),
        Err(linux::Error::Unsupported {
            what: "registered memory",
            ..
        }) => {
            options.fixed_memory = None;
            Ok((Passthrough::open(roots, claim, &options)?, false))
        }
        Err(error) => Err(error),
    }
}

fn sync(claim: &Claim, wish: &Wish) -> Result<Opened> {
    if !matches!(wish.mode, None | Some(Mode::Interrupt)) {
        return Err(Failure::unsupported("pread and pwrite cannot be polled")
            .hint("--path io_uring, or go without --mode"));
    }
    let device = SyncFile::open(claim)?;
    let memory = HostMemory::new(wish.buffer_bytes)?;
    Ok(opened(Box::new(device), memory, "pread and pwrite"))
}

/// Opens a regular file.
///
/// # Errors
/// It cannot be opened, or the path is none for files.
pub fn open_file(claim: &Claim, wish: &Wish) -> Result<Opened> {
    match wish.path {
        PathKind::Auto | PathKind::Sync => sync(claim, wish),
        PathKind::IoUring => uring(claim, wish),
        _ => Err(
            Failure::unsupported("a file has the paths io_uring and sync only").hint("--path sync"),
        ),
    }
}

/// Makes a disk of memory.
///
/// # Errors
/// There is not that much memory.
pub fn open_ram(bytes: u64, wish: &Wish) -> Result<Opened> {
    let too_large = || Failure::unsupported(format!("no memory for a disk of {bytes} bytes"));
    let len = usize::try_from(bytes).map_err(|_| too_large())?;
    let mut disk: Vec<u8> = Vec::new();
    disk.try_reserve_exact(len).map_err(|_| too_large())?;
    disk.resize(len, 0);
    let device = RamDisk::<_, RAM_DEPTH>::new(disk, 9)
        .map_err(|error| Failure::request("making the RAM disk", error))?;
    let memory = HostMemory::new(wish.buffer_bytes)?;
    Ok(opened(Box::new(device), memory, "memory"))
}
