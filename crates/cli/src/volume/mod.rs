//! A volume on whatever the user named: opened, locked, mounted, and given back.
//!
//! | module | what it is |
//! | --- | --- |
//! | `route` | how the user says which path |
//! | `store` | a device with a volume on it, and the mount |
//! | `failure` | the volume's errors in the words and exit codes of the command |
//! | `flow`, `fill`, `drain` | data between a stream and a file, many buffers in flight |
//! | `chunks` | checksums of data as it goes by |
//! | `checksums` | whether a new file has checksums |
//! | `source` | a file or standard input, read into the device's buffers |
//! | `found` | what stands on a device already |
//! | `findings` | what a check finds, in words |
//! | `wipe` | reading a device for that, and wiping it before a format |
//! | `workload` | the files of a simulated application |
//!
//! Nothing here knows a verb.

pub mod checksums;
pub mod chunks;
pub mod drain;
pub mod failure;
pub mod fill;
pub mod findings;
pub mod flow;
pub mod found;
pub mod route;
pub mod source;
pub mod store;
pub mod wipe;
pub mod workload;

pub use crate::transfer::Route;
pub use checksums::Checksums;
pub use failure::failed;
pub use store::{Access, AnyVolume, Mounted, Store};

use crate::failure::Result;
use crate::transfer::{IoArgs, Span};

/// The CRC32C of data, by the processor's instruction where it has one.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Now, in nanoseconds since 1970, as a volume stamps it; 0 where the clock is before that.
pub fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// How all of a file is moved: in whole blocks of the device, and with as many buffers as the user
/// said, up to what a file takes at once.
///
/// # Errors
/// The block size is none.
pub fn pace(mounted: &Mounted<'_, '_>, io: &IoArgs) -> Result<Span> {
    let block = mounted.volume.geometry().block_size_bytes() as u64;
    let bytes = io.block_size.0;
    if bytes == 0 || bytes % block != 0 {
        let what = format!("--block-size is {bytes} bytes, no multiple of the device's {block}");
        return Err(crate::Failure::usage(what).hint("--block-size 1M"));
    }
    Ok(Span {
        offset_bytes: 0,
        length_bytes: u64::MAX,
        operation_bytes: bytes.min(route::MAX_BUFFER_BYTES),
        depth: io.queue_depth.min(64),
    })
}

/// A name for a terminal: control characters are spelled out.
pub fn shown(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        match letter.is_control() {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
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
