// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that are late on purpose. The driver's deadline is so short that the drive misses it;
//! what the driver then does (Abort, deleting the queue, a reset) must end each command once, and
//! leave a drive that works and memory that stays as it is.

use super::area::{Area, Span};
use super::steps::MAX_BYTES;
use super::{Outcome, RESET_LIMIT, TestCheck, settled};
use block::{Buffer, Error, Operation, Request};
use devices::drive::Drive;
use devices::error::Result;
use devices::path::handle::{ControllerHandle, Timed, only_namespace};
use devices::path::memory::Memory;
use devices::path::{self, Opened};
use nvme::Statistics;
use remedy::{Remedy, words};
use std::time::Instant;

/// The deadline, in microseconds: less than a drive takes for a long transfer.
const DEADLINE_US: u64 = 1;
/// Reads in flight in a round, and rounds until one of them is late.
const AT_ONCE: u32 = 4;
const ROUNDS: usize = 256;
/// What a buffer has after its command has ended: the drive may not write to it any more.
const LEFT: u8 = 0x5a;

const NAME: &str = "late commands";

fn hint() -> Remedy {
    words!["straightway info ", remedy::Device, " shows the drive's quirks and error log; a drive that does not recover from a late command needs a power cycle, and then another firmware"].into()
}

/// How the reads of a round ended, of which one was late.
struct Ended {
    round: usize,
    /// The reads that did not succeed, and their memory, filled with [`LEFT`].
    failed: Vec<(Error, Buffer)>,
    did: Statistics,
}

impl Ended {
    fn give_back(self, memory: &Memory) {
        for (_, buffer) in self.failed {
            memory.give_back(buffer);
        }
    }
}

/// The namespace that the path was opened for, as [`path::open`] finds it.
fn namespace(drive: &Drive, handle: &dyn ControllerHandle) -> Result<u32> {
    match drive {
        Drive::Nvme(resolved) => match path::namespace_of(resolved, None)? {
            Some(namespace) => Ok(namespace),
            None => only_namespace(handle),
        },
        _ => Ok(1),
    }
}

/// Makes a read late, in a queue of its own, and tests both queues afterwards.
pub fn late(drive: &Drive, opened: &mut Opened, area: &mut Area) -> TestCheck {
    let not_tested =
        |why: &str| TestCheck::new(NAME, Outcome::NotPossible, format!("not tested: {why}"));
    let failed = |failure: devices::Error| {
        TestCheck::new(NAME, Outcome::Failed, failure.to_string()).hint(hint())
    };
    let Some(handle) = opened.handle() else {
        let why = match drive {
            Drive::Nvme(_) => {
                "the driver of this path sets the deadlines, and for the whole machine"
            }
            _ => "this device has no deadlines",
        };
        return not_tested(why);
    };
    let tested = namespace(drive, handle)
        .and_then(|nsid| on_queue(handle, nsid, area))
        .and_then(|told| {
            // A reset has ended what other queues held, too.
            let device = opened.device.as_mut();
            settled(device, &opened.memory, area)?;
            let span = whole(area);
            area.write(device, &opened.memory, &[span])
                .and_then(|()| area.check(device, &opened.memory, &[span]))
                .map_err(|fault| {
                    devices::Error::other(format!("in another queue, after it: {fault}"))
                })?;
            Ok(told)
        });
    match tested {
        Ok(Some(told)) => TestCheck::new(NAME, Outcome::Ok, told),
        Ok(None) => not_tested(&format!(
            "the drive answered {ROUNDS} rounds of {AT_ONCE} reads before the driver found one late"
        )),
        Err(failure) => failed(failure),
    }
}

/// The blocks of the longest transfer of this test.
fn whole(area: &Area) -> Span {
    Span {
        first: 0,
        blocks: area.blocks().min(MAX_BYTES / 2 / area.block_bytes()).max(1),
        page_offset: 0,
    }
}

/// Makes a read late and reads the same again in its queue; `None` if none was late.
///
/// # Errors
/// It did not end, the queue did not come back, or data or memory is wrong.
pub fn on_queue(handle: &dyn ControllerHandle, nsid: u32, area: &Area) -> Result<Option<String>> {
    let mut queue = handle.open_timed_queue(nsid)?;
    let memory = handle.memory();
    queue.set_timeout_us(DEADLINE_US);
    let ended = make_late(queue.as_mut(), memory, area);
    queue.set_timeout_us(nvme::ControllerOptions::default().io_timeout_us);
    let Some(ended) = ended? else {
        return Ok(None);
    };
    let device = queue.as_device();
    let checked = settled(device, memory, area).and_then(|()| {
        area.check(device, memory, &[whole(area)])
            .map_err(|fault| devices::Error::other(format!("in the same queue, after it: {fault}")))
    });
    let mut buffers = ended.failed.iter();
    let is_left = buffers.all(|(_, buffer)| buffer.iter().all(|&byte| byte == LEFT));
    let errors = match ended.failed.first() {
        None => "the drive completed all after all".to_owned(),
        Some((error, _)) => format!("{} failed ({error})", ended.failed.len()),
    };
    let (round, did) = (ended.round, ended.did);
    ended.give_back(memory);
    checked?;
    if !is_left {
        return Err(devices::Error::other(
            "the drive wrote to the memory of a command that had ended",
        ));
    }
    Ok(Some(format!(
        "round {round} of {AT_ONCE} reads: {} late, {errors}; {} aborts, {} deletions of the queue, {} resets",
        did.timeouts, did.aborts, did.queue_deletions, did.resets
    )))
}

/// Reads until one is late; how all reads of its round ended.
fn make_late(queue: &mut dyn Timed, memory: &Memory, area: &Area) -> Result<Option<Ended>> {
    for round in 1..=ROUNDS {
        let mut ended = Ended {
            round,
            failed: Vec::new(),
            did: Statistics::default(),
        };
        let read = read_all(queue, memory, area, &mut ended.failed);
        ended.did = queue.statistics();
        match read {
            Ok(()) if ended.did.timeouts == 0 && ended.failed.is_empty() => {}
            Ok(()) if ended.did.timeouts > 0 => return Ok(Some(ended)),
            other => {
                let first = ended.failed.first().map(|(error, _)| *error);
                ended.give_back(memory);
                other?;
                return Err(devices::Error::request(
                    "reading",
                    first.unwrap_or(Error::Aborted),
                ));
            }
        }
    }
    Ok(None)
}

/// Reads the same blocks [`AT_ONCE`] times at once, each into memory of its own; what failed, with
/// its memory.
fn read_all(
    queue: &mut dyn Timed,
    memory: &Memory,
    area: &Area,
    failed: &mut Vec<(Error, Buffer)>,
) -> Result<()> {
    let most = queue.geometry().max_transfer_bytes();
    let bytes = (whole(area).blocks * area.block_bytes()).min(most);
    for tag in 0..AT_ONCE {
        let operation = Operation::Read {
            lba: area.lba(0),
            buffer: memory.allocate(bytes)?,
        };
        if let Err(refused) = queue.submit(Request { tag, operation }) {
            if let Some(buffer) = refused.request.operation.into_buffer() {
                memory.give_back(buffer);
            }
            return Err(devices::Error::request("submitting a read", refused.error));
        }
    }
    queue.kick();
    let began = Instant::now();
    let mut left: Vec<u32> = (0..AT_ONCE).collect();
    while !left.is_empty() {
        // No wait for an interrupt: it would end with the answer, which then is not late.
        let Some(completion) = queue.poll() else {
            if began.elapsed() > RESET_LIMIT {
                return Err(devices::Error::other(format!(
                    "{} of {AT_ONCE} reads did not end within {} s",
                    left.len(),
                    RESET_LIMIT.as_secs()
                )));
            }
            std::hint::spin_loop();
            continue;
        };
        let before = left.len();
        left.retain(|tag| *tag != completion.tag);
        let (Some(mut buffer), true) = (completion.buffer, left.len() < before) else {
            return Err(devices::Error::other(
                "a read ended twice, or without its memory",
            ));
        };
        match completion.result {
            Ok(()) => memory.give_back(buffer),
            Err(error) => {
                buffer.fill(LEFT);
                failed.push((error, buffer));
            }
        }
    }
    Ok(())
}
