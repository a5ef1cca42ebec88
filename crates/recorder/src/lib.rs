// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recording and playing: a stream's source or sink has a separate thread, so that the volume never
//! waits for a pipe or a network.
//!
//! | module | contents |
//! | --- | --- |
//! | `record` | a recording from its settings |
//! | `play` | a playback from its settings |
//! | `export` | a recording as files that other tools open |
//! | `place` | parses `stdin`, `udp://ADDR:PORT` and so on |
//! | `source` | open sources |
//! | `producer` | the thread that fills buffers at a rate |
//! | `sink` | open sinks, and the thread that writes to them |
//! | `drops` | datagrams that the kernel dropped |
//! | `senders` | the senders of a `tcp://` source, one after another |
//! | `losses` | what is said of losses while a recording goes on |
//! | `steps` | when the wall clock was set between two datagrams |
//! | `packets`, `replay` | datagrams with their arrival times, recorded and sent again |
//! | `pattern` | bytes that encode their own offset |
//! | `report` | latencies and buffer use, as text and JSON |
//! | `volume_host` | a stream's interface to a volume, wherever it is mounted |
//! | `exchange` | the turns between a source and the recorders |
//! | `segments`, `chain` | a recording's files, one after another |
//! | `local`, `recording`, `playing` | a volume mounted by this process, and the loops on it |
//! | `remote` | a volume mounted by a coprocessor, which runs the streams |
#![forbid(unsafe_code)]

pub mod chain;
pub mod datagrams;
pub mod drops;
pub mod exchange;
#[cfg(feature = "export")]
pub mod export;
mod local;
pub mod losses;
pub mod manager;
pub mod packets;
pub mod pattern;
pub mod place;
pub mod play;
pub mod playing;
pub mod producer;
pub mod record;
pub mod recording;
pub mod remote;
pub mod replay;
pub mod report;
pub mod segments;
pub mod senders;
pub mod sink;
pub mod source;
pub mod steps;
pub mod volume_host;

use block::Clock;
use devices::error::{ErrorKind, Result};
use files::{failed, route, shown};
use formats::{FormatError, FormatErrorKind};
use linux::TscClock;
use remedy::{Remedy, Setting, words};
use std::time::Duration;
use stream::Error;
use units::{Size, rounded};

/// The results of a stream, or the reason why it did not begin and moved nothing.
pub type Streamed<T> = std::result::Result<T, devices::Error>;

/// How long one wait may last before cancellation is checked.
pub const WAIT: Duration = Duration::from_millis(100);
/// Default number of a stream's buffers.
pub const BUFFERS: u16 = 16;
/// The most buffers of a stream.
pub const MAX_BUFFERS: u16 = 4096;
/// How long a thread spins before a moment that it must not miss: a sleep may end this late.
const SPIN: Duration = Duration::from_micros(150);

/// Waits until `moment` on the clock or until `stop` returns true; returns whether the moment was
/// reached.
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

/// Checks the size of a stream's blocks as far as possible without the device.
///
/// # Errors
/// The size is invalid.
pub fn check_block(block: Size) -> Result<()> {
    if (1..=route::MAX_BUFFER_BYTES).contains(&block.0) && block.0 % 512 == 0 {
        return Ok(());
    }
    let most = Size(route::MAX_BUFFER_BYTES);
    Err(devices::Error::usage(words![
        Setting::Block,
        format!(
            " is {} bytes; it must be a multiple of the device's block, at most {most}",
            block.0
        )
    ]))
}

/// Checks the number of a stream's buffers, if the user gave one.
///
/// # Errors
/// There are fewer than `least`, or too many.
pub fn check_buffers(buffers: Option<u16>, least: u16) -> Result<()> {
    match buffers {
        Some(count) if !(least..=MAX_BUFFERS).contains(&count) => {
            let what = format!("{count} buffers");
            Err(devices::Error::usage(what).hint(format!("give {least} to {MAX_BUFFERS}")))
        }
        _ => Ok(()),
    }
}

/// The failure that ended a stream, if it was the volume's or the device's.
///
/// # Errors
/// Another error.
pub fn failure(doing: &str, error: Error) -> std::result::Result<devices::Error, Error> {
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
        } => Ok(devices::Error::request(
            format_args!("{doing} at byte {offset_bytes}"),
            error,
        )),
        error => Err(error),
    }
}

/// What is wrong with a recording's format, or with what its export was given to.
pub fn format_failed(error: FormatError) -> devices::Error {
    let exit = match error.kind {
        FormatErrorKind::Usage => ErrorKind::Usage,
        FormatErrorKind::Damaged => ErrorKind::Other,
        FormatErrorKind::Unsupported => ErrorKind::Unsupported,
    };
    let failure = match error.of_sink.map(|of_sink| of_sink.downcast()) {
        Some(Ok(failure)) => return *failure,
        _ => devices::Error::new(exit, error.what),
    };
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Checksums were requested, but the volume has none.
pub fn no_checksums() -> devices::Error {
    devices::Error::usage("the volume was made without checksums; nothing was recorded").hint(
        words![
            Remedy::omit([Setting::Checksums]),
            ", or format the volume with ",
            Setting::Checksums
        ],
    )
}

/// The file for a recording could not be created.
fn not_made(name: &str, reserve_bytes: u64, error: volume::Error) -> devices::Error {
    let failure = failed(format_args!("making `{}`", shown(name)), error);
    match error {
        volume::Error::NoSpace => failure.and(format_args!(
            "the recording needs {}; nothing was recorded",
            rounded(reserve_bytes)
        )),
        _ => failure.and("nothing was recorded"),
    }
}

/// A stream could not begin.
fn not_begun(doing: &str, error: Error) -> devices::Error {
    failure(doing, error).unwrap_or_else(|error| devices::Error::usage(format!("{doing}: {error}")))
}
