// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVMe commands through the kernel's driver, without its block layer: io_uring on `/dev/ngXnY`.
//!
//! The kernel makes the command of `struct nvme_uring_cmd` and adds the buffer's addresses; it
//! neither splits, merges nor schedules. The longest transfer of one command is therefore this
//! path's limit.

use crate::admin;
use crate::lanes::Lanes;
use crate::memory::HostMemory;
use crate::sys::ioctl;
use crate::sys::ring_nvme::{MAX_COMMAND_BLOCKS, NvmeEncoder};
use crate::target::one_command_bytes;
use crate::uring::{RingOptions, check_polling};
use crate::{Claim, Error, Result, Roots, sysfs};
use block::{Device, Features, Geometry, blocking};
use nvme::{ControllerInfo, NamespaceInfo};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;
/// PRP entries are dword-aligned.
const BUFFER_ALIGN_BYTES: u32 = 4;

/// An NVMe namespace behind its character device.
#[derive(Debug)]
pub struct Passthrough {
    lanes: Lanes<NvmeEncoder>,
    nsid: u32,
    /// Includes the block device, so that it is not mounted while this may write.
    _claim: Claim,
}

impl Passthrough {
    /// Opens `/dev/ngXnY` with the claim's access.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::Unsupported`] and others, each for a specific cause.
    pub fn open(roots: &Roots, claim: &Claim, options: &RingOptions) -> Result<Self> {
        let (path, write) = (claim.path(), claim.is_to_write());
        let io = |doing, source: std::io::Error| Error::io(doing, path, source);
        if claim.is_file() || claim.is_block_device() {
            return Err(Error::BadName {
                name: path.display().to_string(),
                why: "passthrough needs the namespace's character device, such as /dev/ng0n1",
            });
        }
        // /dev/ng0n1 and /dev/nvme0n1 are two views of one namespace.
        let block = sysfs::name_of(&sysfs::canonical(path))
            .and_then(|name| Some(format!("nvme{}", name.strip_prefix("ng")?)));
        let descriptor = claim
            .open(OFlags::empty())
            .map_err(|source| io("opening", source.into()))?;
        let nsid = ioctl::namespace_id(&descriptor).map_err(|source| Error::BadName {
            name: path.display().to_string(),
            why: match source.raw_os_error() {
                Some(libc::ENOTTY) => "it is not a namespace's character device",
                _ => "the namespace does not report its identifier",
            },
        })?;
        let controller = admin::identify_controller(&descriptor)
            .map_err(|source| identify_failed(path, source))?;
        let namespace = namespace_info(path, &descriptor, nsid)?;
        let queue = block.map(|block| roots.sys.join("class/block").join(block).join("queue"));
        if options.poll {
            check_polling(queue.as_deref())?;
        }
        let mut setup = options.setup()?;
        setup.piece_bytes = setup.piece_bytes.min(piece_bytes(queue.as_deref()));
        let controller = ControllerInfo::parse(&controller[..])?;
        let geometry = geometry(&controller, &namespace, queue.as_deref(), write);
        let encoder = NvmeEncoder {
            descriptor: Arc::new(descriptor),
            nsid,
            block_size_log2: geometry.block_size_log2,
            // As in the kernel: the limit of transfers also applies to zeroing.
            max_zero_blocks: geometry.max_transfer_blocks,
        };
        let lanes = Lanes::new(encoder, geometry, &setup, u64::MAX);
        let lanes = lanes.map_err(|source| options.failed(path, source))?;
        let mut device = Self {
            lanes,
            nsid,
            _claim: claim.clone(),
        };
        if let Some(memory) = &options.fixed_memory {
            device.try_fixed_memory(memory)?;
        }
        Ok(device)
    }

    /// Reads a block into registered memory. Linux accepts such memory from 6.0 on, but several
    /// stable releases refuse a command that uses only a part of a registered piece.
    fn try_fixed_memory(&mut self, memory: &HostMemory) -> Result<()> {
        // If all of it is in use already, the first request will show it.
        let Ok(buffer) = memory.allocate(self.geometry().block_size_bytes()) else {
            return Ok(());
        };
        let read = blocking::read(self, 0, buffer);
        // It is a whole buffer of this memory.
        let _ = memory.give_back(read.buffer);
        match read.result {
            Err(block::Error::Os {
                errno: libc::EINVAL,
            }) => Err(Error::Unsupported {
                what: "registered memory",
                why: "this kernel refuses it for NVMe commands".into(),
                hint: Some(
                    "do not register it, or use Linux 6.12 or a stable release of late 2024".into(),
                ),
            }),
            // Other errors of the block are left to its readers.
            _ => Ok(()),
        }
    }

    /// The namespace's identifier.
    pub fn namespace_id(&self) -> u32 {
        self.nsid
    }
}

fn identify_failed(path: &Path, source: block::Error) -> Error {
    match source {
        block::Error::Os {
            errno: libc::EACCES | libc::EPERM,
        } => Error::NotPermitted {
            doing: "identifying",
            path: path.to_path_buf(),
            hint: "run it as root: before Linux 6.2 passthrough needs CAP_SYS_ADMIN".into(),
        },
        source => Error::Device {
            doing: "identifying the namespace",
            source,
        },
    }
}

fn namespace_info(path: &Path, descriptor: &OwnedFd, nsid: u32) -> Result<NamespaceInfo> {
    let failed = |source| identify_failed(path, source);
    let list = admin::descriptors(descriptor, nsid).map_err(failed)?;
    nvme::check_command_set(nsid, &list[..])?;
    let page = admin::identify_namespace(descriptor, nsid).map_err(failed)?;
    Ok(NamespaceInfo::parse(nsid, &page[..])?)
}

/// The shape of a namespace, with the limits of its controller (NVMe base specification, "Identify
/// Controller") and of the kernel's driver.
fn geometry(
    controller: &ControllerInfo,
    namespace: &NamespaceInfo,
    queue: Option<&Path>,
    write: bool,
) -> Geometry {
    let block_size_log2 = namespace.block_size_log2;
    let max_bytes = max_transfer_bytes(controller.mdts, queue);
    let max_blocks = (max_bytes >> block_size_log2).clamp(1, u64::from(MAX_COMMAND_BLOCKS));
    Geometry {
        block_size_log2,
        block_count: namespace.block_count,
        max_transfer_blocks: max_blocks as u32,
        queue_depth: 1,
        buffer_align_bytes: BUFFER_ALIGN_BYTES,
        features: Features {
            volatile_write_cache: controller.volatile_write_cache,
            fua: true,
            discard: controller.dataset_management(),
            write_zeroes: controller.write_zeroes(),
            read_only: !write || namespace.write_protected,
        },
    }
}

/// The least of what the controller, the kernel's driver and its list of pages allow.
fn max_transfer_bytes(mdts: u8, queue: Option<&Path>) -> u64 {
    let bytes = one_command_bytes(queue, "max_hw_sectors_kb");
    // In units of the controller's smallest page, assumed to be 4 KiB; 0 means no limit.
    match mdts {
        1..=40 => bytes.min(PAGE_BYTES << mdts),
        _ => bytes,
    }
}

/// The length of the pieces of registered memory. The kernel refuses a registered buffer that has
/// more pages than a command may, however few of them the command uses.
fn piece_bytes(queue: Option<&Path>) -> usize {
    let segments = queue.and_then(|queue| sysfs::number::<usize>(&queue.join("max_segments")));
    let pages = segments.unwrap_or(1).clamp(1, 256);
    (1 << pages.ilog2()) * PAGE_BYTES as usize
}

block::forward_device!(Passthrough, lanes);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn pages() -> (Vec<u8>, Vec<u8>) {
        let (mut controller, mut namespace) = (vec![0; 4096], vec![0; 4096]);
        controller[77] = 7;
        controller[520] = 0b1100;
        controller[525] = 1;
        (controller[512], controller[513]) = (0x66, 0x44);
        namespace[..8].copy_from_slice(&1000u64.to_le_bytes());
        // Format 17 of 18: the low bits are 1, the high bits 1.
        namespace[25] = 17;
        namespace[26] = 1 | 1 << 5;
        namespace[128 + 4 * 17 + 2] = 12;
        (controller, namespace)
    }

    #[test]
    fn the_shape_comes_from_both_identify_pages() {
        let (controller, namespace) = pages();
        let namespace = NamespaceInfo::parse(1, &namespace).unwrap();
        let controller = ControllerInfo::parse(&controller).unwrap();
        let shape = geometry(&controller, &namespace, None, true);
        assert_eq!((shape.block_size_log2, shape.block_count), (12, 1000));
        // The kernel's limit is unknown here, so 128 KiB is used.
        assert_eq!(shape.max_transfer_blocks, 32);
        assert!(shape.features.volatile_write_cache && !shape.features.read_only);
        assert!(shape.features.discard && shape.features.write_zeroes);
    }

    #[test]
    fn the_least_limit_holds() {
        let tree = Tree::new();
        tree.file("queue/max_hw_sectors_kb", "1024\n")
            .file("queue/max_segments", "127\n");
        let queue = tree.path().join("queue");
        assert_eq!(max_transfer_bytes(0, Some(&queue)), 126 * 4096);
        assert_eq!(max_transfer_bytes(5, Some(&queue)), 128 << 10);
        assert_eq!(max_transfer_bytes(255, Some(&queue)), 126 * 4096);
        assert_eq!(piece_bytes(Some(&queue)), 64 * 4096);
        assert_eq!(piece_bytes(None), 4096);
    }
}
