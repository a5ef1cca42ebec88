// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening a file or a block device, and its capabilities.

use crate::sys::ioctl;
use crate::sysfs;
use crate::{Claim, Error, Result, Roots};
use block::{Features, Geometry};
use remedy::words;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The longest transfer that one request may ask for; the kernel splits it for the drive.
const MAX_TRANSFER_BYTES: u64 = 16 << 20;
const FILE_BLOCK_BYTES: u64 = 512;
/// The `statfs` type of a tmpfs, which can punch holes but not zero ranges.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct Target {
    pub descriptor: OwnedFd,
    pub is_block_device: bool,
    /// Zeroing a range frees it instead, because the file system supports nothing else.
    pub zero_by_hole: bool,
    /// With depth 1 and no limit to the queue.
    pub geometry: Geometry,
    /// Held as long as it is open.
    pub claim: Claim,
}

/// How to open a claimed target.
#[derive(Clone, Copy)]
struct OpenMode {
    write: bool,
    direct: bool,
}

impl Target {
    /// Opens what was claimed, with the claim's access; with `direct`, bypassing the page cache.
    pub(crate) fn open(claim: &Claim, direct: bool) -> Result<Self> {
        let path = claim.path();
        let is_block_device = claim.is_block_device();
        if !is_block_device && !claim.is_file() {
            return Err(Error::BadName {
                name: path.display().to_string(),
                why: "it is neither a file nor a block device",
            });
        }
        let mode = OpenMode {
            write: claim.is_to_write(),
            direct,
        };
        let flags = if direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let descriptor = claim.open(flags).map_err(|error| match error {
            Errno::INVAL if direct => Error::Unsupported {
                what: "O_DIRECT",
                why: format!("the file system of {} does not support it", path.display()),
                hint: Some("use a file on ext4 or xfs, or a block device; or do without".into()),
            },
            error => Error::io("opening", path, error),
        })?;
        let geometry = if is_block_device {
            block_device_geometry(path, &descriptor, mode)?
        } else {
            file_geometry(path, &descriptor, mode)?
        };
        if geometry.block_count == 0 {
            // A block device without blocks has been refused above.
            let len = rustix::fs::fstat(&descriptor).map_or(0, |stat| stat.st_size);
            return Err(Error::TooShort {
                path: path.to_owned(),
                len_bytes: u64::try_from(len).unwrap_or(0),
                block_bytes: geometry.block_size_bytes() as u64,
            });
        }
        let zero_by_hole = !is_block_device && is_tmpfs(&descriptor);
        Ok(Self {
            descriptor,
            is_block_device,
            zero_by_hole,
            geometry,
            claim: claim.clone(),
        })
    }

    /// The error of a failed request. The kernel sets the size of a removed drive to zero; after
    /// that a write finds no space and a read no data, as at the end of a file.
    #[cold]
    pub(crate) fn cause(&self, error: block::Error) -> block::Error {
        if self.is_block_device && matches!(ioctl::size_bytes(&self.descriptor), Ok(0)) {
            block::Error::Gone
        } else {
            error
        }
    }
}

fn block_device_geometry(path: &Path, descriptor: &OwnedFd, mode: OpenMode) -> Result<Geometry> {
    let failed = |source| Error::io("asking the size of", path, source);
    let unusable = |why: String| Error::Unsupported {
        what: "the block device",
        why: format!("{} {why}", path.display()),
        hint: Some(words!["straightway info ", remedy::Device, " shows each namespace"].into()),
    };
    let size_bytes = ioctl::size_bytes(descriptor).map_err(failed)?;
    if size_bytes == 0 {
        // For example blocks longer than a page, or metadata within the blocks.
        return Err(unusable(
            "has no blocks: the kernel cannot use its format".into(),
        ));
    }
    let zone_sectors = ioctl::zone_sectors(descriptor);
    if zone_sectors != 0 {
        return Err(unusable(format!(
            "is zoned: each {} KiB can be written at one offset only",
            zone_sectors / 2
        )));
    }
    let block_bytes = u64::from(ioctl::block_size_bytes(descriptor).map_err(failed)?);
    let queue = queue_folder(&Roots::system(), descriptor);
    let read = |file: &str| sysfs::text(&queue.as_ref()?.join(file));
    let nonzero = |file: &str| read(file).is_some_and(|text| text != "0");
    let features = Features {
        // Assumed to be present unless the kernel reports otherwise.
        volatile_write_cache: read("write_cache").is_none_or(|text| text != "write through"),
        fua: true,
        discard: nonzero("discard_max_bytes"),
        write_zeroes: true,
        read_only: !mode.write,
    };
    geometry(path, size_bytes, block_bytes, mode, features)
}

/// The queue's limits; a partition's are those of its disk.
pub(crate) fn queue_folder(roots: &Roots, descriptor: impl AsFd) -> Option<PathBuf> {
    let device = rustix::fs::fstat(descriptor).ok()?.st_rdev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = sysfs::canonical(&roots.sys.join(format!("dev/block/{major}:{minor}")));
    let own = folder.join("queue");
    let folders = [own, folder.parent()?.join("queue")];
    folders.into_iter().find(|folder| folder.is_dir())
}

/// The limit of one command if the kernel does not report it; every drive supports it.
const DEFAULT_COMMAND_BYTES: u64 = 128 << 10;
const PAGE_BYTES: u64 = 4096;

/// The longest transfer that is one command and is never split: limited by `file`
/// (`max_sectors_kb`, which can be set, or `max_hw_sectors_kb`) and by the number of pages.
pub(crate) fn one_command_bytes(queue: Option<&Path>, file: &str) -> u64 {
    let limit = |file: &str| sysfs::number::<u64>(&queue?.join(file));
    let bytes = limit(file).map_or(DEFAULT_COMMAND_BYTES, |kib| kib << 10);
    match limit("max_segments") {
        // A buffer's pages may be scattered, and one that starts within a page needs one more.
        Some(segments) => bytes.min(segments.saturating_sub(1).max(1) * PAGE_BYTES),
        None => bytes,
    }
}

fn file_geometry(path: &Path, descriptor: &OwnedFd, mode: OpenMode) -> Result<Geometry> {
    let stat = rustix::fs::fstat(descriptor);
    let stat = stat.map_err(|source| Error::io("asking the size of", path, source))?;
    let block_bytes = if mode.direct {
        direct_align_bytes(descriptor).unwrap_or(FILE_BLOCK_BYTES)
    } else {
        FILE_BLOCK_BYTES
    };
    let features = Features {
        volatile_write_cache: true,
        fua: true,
        // Whether the file system supports this is only known when it is used.
        discard: true,
        write_zeroes: true,
        read_only: !mode.write,
    };
    geometry(path, stat.st_size as u64, block_bytes, mode, features)
}

/// The alignment for `O_DIRECT`, if the kernel (6.1) and the file system report it.
fn direct_align_bytes(descriptor: &OwnedFd) -> Option<u64> {
    let stat = rustix::fs::statx(descriptor, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let align = stat.stx_dio_offset_align.max(stat.stx_dio_mem_align);
    let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && align.is_power_of_two();
    told.then_some(u64::from(align).max(FILE_BLOCK_BYTES))
}

// The field is an i32 on 32-bit systems.
#[allow(clippy::useless_conversion)]
fn is_tmpfs(descriptor: &OwnedFd) -> bool {
    rustix::fs::fstatfs(descriptor).is_ok_and(|stat| i64::from(stat.f_type) == TMPFS_MAGIC)
}

fn geometry(
    path: &Path,
    size_bytes: u64,
    block_bytes: u64,
    mode: OpenMode,
    features: Features,
) -> Result<Geometry> {
    if !block_bytes.is_power_of_two() || !(512..=65536).contains(&block_bytes) {
        return Err(Error::Unsupported {
            what: "the device",
            why: format!("blocks of {} have {block_bytes} bytes", path.display()),
            hint: None,
        });
    }
    let block_size_log2 = block_bytes.trailing_zeros() as u8;
    Ok(Geometry {
        block_size_log2,
        block_count: size_bytes >> block_size_log2,
        max_transfer_blocks: (MAX_TRANSFER_BYTES >> block_size_log2) as u32,
        queue_depth: 1,
        buffer_align_bytes: if mode.direct { block_bytes as u32 } else { 1 },
        features,
    })
}
