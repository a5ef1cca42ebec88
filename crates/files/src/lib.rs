// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume on the device that the user named: opens, locks, mounts and releases it.
//!
//! | module | contents |
//! | --- | --- |
//! | `route` | the options for a volume's path |
//! | `store` | a device with a volume on it, and the mount |
//! | `flow`, `fill`, `drain` | data between a stream and a file, many buffers in flight |
//! | `chunks` | checksums of a stream |
//! | `checksums` | whether a new file has checksums |
//! | `source` | a file or standard input, read into the device's buffers |
//! | `listing`, `reports` | the files, the volume and a file, as they are reported |
//! | `tree`, `pattern` | many files: of folders, and of patterns |
//! | `found` | the existing content of a device |
//! | `magics` | the magic numbers of other owners of a device |
//! | `rules` | the signatures that are more than a number at its place |
//! | `contents` | whether a plain file has any data |
//! | `owners` | the signatures of other owners on a device with a volume |
//! | `findings` | the findings of a check as text |
//! | `wipe` | finding signatures on a device, and wiping them before a format |
//! | `service`, `moves`, `turns` | operations of other threads on a mounted volume, many under way |
//! | `hardware` | a volume that a file system in hardware serves |
//! | `blast` | a nucleotide search in a BLAST database |
//! | `host` | the file system that holds a volume in a plain file |
//! | `mapped` | a file of a volume, or a device, as memory |
#![forbid(unsafe_code)]

#[cfg(feature = "archives")]
pub mod archive;
#[cfg(feature = "blast")]
pub mod blast;
mod checksums;
pub mod chunks;
pub mod consent;
pub mod contents;
pub mod drain;
pub mod fill;
pub mod findings;
pub mod flow;
pub mod format;
pub mod found;
#[cfg(feature = "drives")]
pub mod hardware;
mod host;
pub mod listing;
mod magics;
#[cfg(test)]
mod makers;
#[cfg(feature = "map")]
pub mod mapped;
pub mod moves;
pub mod names;
pub mod naming;
mod owners;
mod pattern;
pub mod reports;
pub mod resize;
pub mod route;
mod rules;
#[cfg(test)]
mod scratch;
pub mod service;
pub mod source;
pub mod store;
pub mod tree;
pub mod turns;
pub mod upgrade;
pub mod wipe;

pub use checksums::Checksums;
pub use devices::error::volume::failed;
pub use devices::transfer::Route;
pub use naming::{warn_of_clash, warn_of_misfit};
pub use store::{Access, AnyVolume, Mount, MountPoint, Mounted, OPEN_FILES, Store};
pub use units::shown;

use devices::error::Result;
use devices::transfer::{IoOptions, Span};
use remedy::{Setting, Value, words};
use std::time::{SystemTime, UNIX_EPOCH};

/// The CRC32C of data, with the processor's instruction if it has one.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The current time as stored on a volume: nanoseconds since 1970, or 0 if the clock is before
/// 1970.
pub fn now_ns() -> u64 {
    ns_of(SystemTime::now())
}

/// A time as stored on a volume: the nearest one from 1970 to 2554.
pub fn ns_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// The span for a whole file: in whole blocks of the device, and with the requested number of
/// buffers, up to a file's maximum.
///
/// # Errors
/// The block size is invalid.
pub fn pace(mounted: &Mounted<'_, '_>, io: &IoOptions) -> Result<Span> {
    let block = mounted.volume.geometry().block_size_bytes() as u64;
    let bytes = io.block_size.0;
    if bytes == 0 || bytes % block != 0 {
        let what = words![
            Setting::BlockSize,
            format!(" is {bytes} bytes, not a multiple of the device's {block}")
        ];
        return Err(
            devices::error::Error::usage(what).hint(Setting::BlockSize.to(Value::Bytes(1 << 20)))
        );
    }
    Ok(Span {
        offset_bytes: 0,
        length_bytes: u64::MAX,
        operation_bytes: bytes.min(route::MAX_BUFFER_BYTES),
        depth: io.queue_depth.min(64),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_processor_s_crc_is_the_volume_s() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        for (start, end) in [(0, 0), (0, 9), (3, 4096), (1, 70_000)] {
            let piece = &bytes[start..end];
            let expected = ::volume::checksum::crc32c(7, piece);
            assert_eq!(super::crc32c(7, piece), expected);
        }
    }
}
