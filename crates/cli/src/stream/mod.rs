//! Recording and playing: where a stream's bytes come from and go to, each in a thread of its own,
//! so that the volume is never kept waiting by a pipe or a network.
//!
//! | module | what it is |
//! | --- | --- |
//! | `place` | `stdin`, `udp://ADDR:PORT` and the like, as the user writes them |
//! | `source` | open sources |
//! | `producer` | the thread that fills buffers at a rate |
//! | `sink` | open sinks, and the thread that writes to them |
//! | `drops` | what the kernel threw away before it could be read |
//! | `pattern` | bytes that say where they belong |
//! | `report` | latencies and rings, in words and in JSON |
//! | `volume_host` | what a stream needs of a volume, wherever that is mounted |
//! | `local`, `recording`, `playing` | a volume that this processor keeps, and the loops on it |
//! | `remote` | one that a coprocessor keeps, which runs the streams |

pub mod datagrams;
pub mod drops;
mod local;
pub mod pattern;
pub mod place;
pub mod playing;
pub mod producer;
pub mod recording;
pub mod remote;
pub mod report;
pub mod sink;
pub mod source;
pub mod volume_host;

use crate::failure::{Failure, Result};
use crate::units::{Size, rounded};
use crate::volume::{failed, route, shown};
use block::Clock;
use linux::TscClock;
use std::time::Duration;
use stream::Error;

/// How long one wait may last before cancellation is checked.
pub const WAIT: Duration = Duration::from_millis(100);
/// Buffers of a stream, where the user does not say how many.
pub const BUFFERS: u16 = 16;
/// How long a thread spins before a moment that it must not miss: a sleep may end so late.
const SPIN: Duration = Duration::from_micros(150);

/// Waits until `moment` on the clock, or until `stop` says so; says whether it was the moment.
pub fn wait_until(clock: &TscClock, moment: u64, stop: &dyn Fn() -> bool) -> bool {
    loop {
        let left = moment.saturating_sub(clock.ticks());
        if left == 0 {
            return true;
        }
        if stop() {
            return false;
        }
        let left = Duration::from_micros(stream::us_from_ticks(left, clock.ticks_per_second()));
        match left.checked_sub(SPIN) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep.min(WAIT)),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Checks the size of a stream's blocks as far as that goes without the device.
///
/// # Errors
/// What it must be.
pub fn check_block(block: Size) -> Result<()> {
    if (1..=route::MAX_BUFFER_BYTES).contains(&block.0) && block.0 % 512 == 0 {
        return Ok(());
    }
    let most = Size(route::MAX_BUFFER_BYTES);
    Err(Failure::usage(format!(
        "--block is {} bytes; it is a multiple of the device's block, at most {most}",
        block.0
    )))
}

/// What ended a stream, where that was the volume or the device.
///
/// # Errors
/// It was neither.
pub fn failure(doing: &str, error: Error) -> std::result::Result<Failure, Error> {
    match error {
        Error::Volume {
            offset_bytes,
            error,
        } => Ok(failed(
            format_args!("{doing} at byte {offset_bytes}"),
            error,
        )),
        Error::Device {
            offset_bytes,
            error,
        } => Ok(Failure::request(
            format_args!("{doing} at byte {offset_bytes}"),
            error,
        )),
        error => Err(error),
    }
}

/// Checksums were asked for, and the volume has none.
fn no_checksums() -> Failure {
    Failure::usage("the volume was made without checksums; nothing was recorded")
        .hint("go without --checksums, or format with it")
}

/// A file to record into could not be made.
fn not_made(name: &str, reserve_bytes: u64, error: volume::Error) -> Failure {
    let failure = failed(format_args!("making `{}`", shown(name)), error);
    match error {
        volume::Error::NoSpace => failure.and(format_args!(
            "it wants {}; nothing was recorded",
            rounded(reserve_bytes)
        )),
        _ => failure.and("nothing was recorded"),
    }
}

/// A stream could not begin.
fn not_begun(doing: &str, error: Error) -> Failure {
    failure(doing, error).unwrap_or_else(|error| Failure::usage(format!("{doing}: {error}")))
}
