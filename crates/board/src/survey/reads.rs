// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads by every path that leads to a drive, and whether all of them read the same.

use block::blocking;
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{Grant, Purpose};
use devices::path::{self, OpenOptions, Opened, PathChoice};
use files::crc32c;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};
use units::micros;

/// The paths that are tried, by the names of `--path`.
const PATHS: [&str; 8] = [
    "straightway-poll",
    "straightway-interrupt",
    "chario",
    "io_uring",
    "passthrough",
    "block-direct",
    "file-direct",
    "auto",
];
/// The longest request.
const REQUEST_BYTES: usize = 64 << 10;
/// Requests at the beginning of the drive, one after the other, and then as many all over it.
const REQUESTS: u64 = 64;
/// How long one path may take.
const MOST: Duration = Duration::from_secs(8);

/// Reads by one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathReads {
    /// The name of the path.
    pub path: String,
    /// The path that was opened.
    pub opened: Option<String>,
    /// `read`, or why it could not be.
    pub outcome: String,
    /// Requests that were read.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long all of them took, and the slowest.
    pub total_us: u64,
    /// The slowest one.
    pub slowest_us: u64,
    /// CRC32C of everything that was read.
    pub crc32c: Option<String>,
}

/// Reads of one drive by every path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reads {
    /// The drive.
    pub device: String,
    /// Whether all paths that read everything read the same; null if fewer than two did.
    pub agree: Option<bool>,
    /// Each path.
    pub paths: Vec<PathReads>,
}

/// Reads from `drive` by each path.
pub fn of(context: &Context, drive: &Drive) -> Reads {
    let paths = by_every_path(context, drive);
    Reads {
        device: drive.to_string(),
        agree: agree(&paths),
        paths,
    }
}

/// Reads from `drive` by each path.
fn by_every_path(context: &Context, drive: &Drive) -> Vec<PathReads> {
    let mut all = Vec::new();
    for name in PATHS {
        if context.cancel.is_set() {
            break;
        }
        let mut reads = PathReads {
            path: name.to_owned(),
            opened: None,
            outcome: "read".to_owned(),
            requests: 0,
            bytes: 0,
            total_us: 0,
            slowest_us: 0,
            crc32c: None,
        };
        if let Err(failure) = by(context, drive, name, &mut reads) {
            let hint = failure.hint_in(context.wording);
            let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
            reads.outcome = failure.what_in(context.wording) + &hint;
        }
        all.push(reads);
    }
    all
}

fn agree(all: &[PathReads]) -> Option<bool> {
    let whole = |reads: &&PathReads| reads.requests == 2 * REQUESTS;
    let mut sums = all.iter().filter(whole).map(|reads| &reads.crc32c);
    let first = sums.next()?;
    let mut others = sums.peekable();
    others.peek()?;
    Some(others.all(|sum| sum == first))
}

fn by(context: &Context, drive: &Drive, name: &str, reads: &mut PathReads) -> Result<()> {
    let grant = Grant::of(&context.roots, drive.clone(), Purpose::Read)?;
    let options = OpenOptions {
        path: PathChoice::by_name(name)?,
        ..OpenOptions::reading(4 * REQUEST_BYTES, 1)
    };
    let mut opened = path::open(context, &grant, &options)?;
    reads.opened = Some(opened.name.clone());
    let result = grant
        .confirm(opened.serial().as_deref())
        .and_then(|()| read(context, &mut opened, reads));
    opened.close_after(result)
}

fn read(context: &Context, opened: &mut Opened, reads: &mut PathReads) -> Result<()> {
    let geometry = *opened.device.geometry();
    let block_bytes = geometry.block_size_bytes();
    let most = REQUEST_BYTES.min(geometry.max_transfer_bytes());
    let request_bytes = (most / block_bytes).max(1) * block_bytes;
    let blocks = (request_bytes / block_bytes) as u64;
    let last = geometry.block_count.saturating_sub(blocks);
    let mut buffer = Some(opened.memory.allocate(request_bytes)?);
    let began = Instant::now();
    let mut sum = 0;
    for number in 0..2 * REQUESTS {
        if began.elapsed() > MOST || context.cancel.is_set() {
            reads.outcome = format!("read {number} of {} requests in time", 2 * REQUESTS);
            break;
        }
        let lba = match number {
            0..REQUESTS => number * blocks,
            // All over the drive, at the same places for each path.
            _ => number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (last + 1),
        };
        let Some(lent) = buffer.take() else { break };
        let start = Instant::now();
        let outcome = blocking::read(opened.device.as_mut(), lba.min(last), lent);
        let passed_us = micros(start.elapsed());
        let data = outcome.buffer;
        let failed = |error| Error::request(format_args!("reading block {lba}"), error);
        let result = outcome.result.map_err(failed);
        if result.is_ok() {
            sum = crc32c(sum, &data);
            reads.requests += 1;
            reads.bytes += data.len() as u64;
            reads.slowest_us = reads.slowest_us.max(passed_us);
        }
        buffer = Some(data);
        result?;
    }
    reads.total_us = micros(began.elapsed());
    reads.crc32c = Some(format!("{sum:08x}"));
    if let Some(buffer) = buffer {
        opened.memory.give_back(buffer);
    }
    Ok(())
}
