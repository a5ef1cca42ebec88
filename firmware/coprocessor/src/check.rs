// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The self-test and the benchmark: sequential reads and writes of the whole drive, eight commands
//! of 128 KiB in flight, without the ring. What is read is compared with what the main CPU wrote by
//! another path, and vice versa.

use block::{Buffer, Clock, Device, Lent, Operation, Request};

use drive::Drive;
use hardware::log;
use hardware::machine::{self, Timer};

use crate::board::Mode;
use crate::memory;

const COMMAND_BYTES: usize = 128 << 10;
const IN_FLIGHT: usize = memory::CHECK_BYTES / COMMAND_BYTES;

/// The action of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Read, and compare with the data for this seed.
    Compare(u64),
    Read,
    /// Write the data for this seed.
    Fill(u64),
    Write,
}

impl Pass {
    fn reads(self) -> bool {
        matches!(self, Pass::Compare(_) | Pass::Read)
    }

    /// A pass that touches no data counts its commands' instructions.
    fn counts(self) -> bool {
        matches!(self, Pass::Read | Pass::Write)
    }
}

/// The result of a pass.
#[derive(Default)]
struct Outcome {
    bytes: u64,
    commands: u64,
    errors: u64,
    wrong_words: u64,
    first_wrong: u64,
    ticks: u64,
    /// Instructions from submit to completion, empty polls left out.
    instructions: u64,
    worst: u64,
}

/// Runs `mode` and prints its results.
#[inline(never)]
pub fn run(mut drive: Drive<'_>, mode: Mode, seed: u64) {
    let mut buffers = [const { None }; IN_FLIGHT];
    let mut rest = memory::check();
    for place in &mut buffers {
        let (first, others) = rest.split_at(COMMAND_BYTES);
        *place = Some(first);
        rest = others;
    }
    let mut pass = |name: &'static str, pass: Pass| {
        tell(name, &go(&mut drive, &mut buffers, pass), pass.counts());
    };
    match mode {
        Mode::SelfTest => {
            pass("self-test read", Pass::Compare(seed));
            pass("self-test write", Pass::Fill(seed.wrapping_add(1)));
            pass("self-test read back", Pass::Compare(seed.wrapping_add(1)));
        }
        Mode::Verify => pass("verify read", Pass::Compare(seed)),
        _ => {
            pass("benchmark write", Pass::Write);
            pass("benchmark read", Pass::Read);
            pass("benchmark write", Pass::Write);
            pass("benchmark read", Pass::Read);
        }
    }
    let _ = block::blocking::flush(&mut drive);
    log!("done");
}

fn tell(name: &'static str, outcome: &Outcome, counts: bool) {
    let hz = Timer.ticks_per_second();
    let us = outcome.ticks.saturating_mul(1_000_000) / hz;
    let rate = (outcome.bytes.saturating_mul(1_000_000) / us.max(1)) >> 10;
    log!(
        "#: # bytes, # commands, # us, # KiB/s, # errors, # wrong words",
        name,
        outcome.bytes,
        outcome.commands,
        us,
        rate,
        outcome.errors,
        outcome.wrong_words
    );
    if outcome.wrong_words > 0 {
        log!("#: first wrong word at byte #", name, outcome.first_wrong);
    }
    if outcome.commands > 0 && counts {
        log!(
            "#: instructions # a command, worst #",
            name,
            outcome.instructions / outcome.commands,
            outcome.worst
        );
    }
}

/// Passes over the whole drive once.
fn go(drive: &mut Drive<'_>, buffers: &mut [Option<Buffer>; IN_FLIGHT], pass: Pass) -> Outcome {
    let geometry = *drive.geometry();
    let shift = geometry.block_size_log2;
    let step = (COMMAND_BYTES >> shift) as u64;
    let mut outcome = Outcome::default();
    let mut lba = 0;
    let mut lbas = [0u64; IN_FLIGHT];
    // The commands in flight; the last one uses a part of its buffer.
    let mut lent = [const { None }; IN_FLIGHT];
    let mut costs = [0u32; IN_FLIGHT];
    let overhead = machine::instructions()
        .wrapping_sub(machine::instructions())
        .wrapping_neg();
    let start = Timer.ticks();
    loop {
        machine::progress();
        for (index, place) in buffers.iter_mut().enumerate() {
            if lba >= geometry.block_count {
                break;
            }
            let Some(whole) = place.take() else {
                continue;
            };
            let blocks = step.min(geometry.block_count - lba);
            let mut whole = Lent::new(whole);
            let mut buffer = whole.lend((blocks as usize) << shift);
            if let Some(place) = lent.get_mut(index) {
                *place = Some(whole);
            }
            if let Pass::Fill(seed) = pass {
                fill(&mut buffer, lba << shift, seed);
            }
            let operation = if pass.reads() {
                Operation::Read { lba, buffer }
            } else {
                Operation::Write {
                    lba,
                    buffer,
                    fua: false,
                }
            };
            let request = Request {
                tag: index as u32,
                operation,
            };
            let before = machine::instructions();
            let submitted = drive.submit(request);
            drive.kick();
            let cost = cost_since(before, overhead);
            if let (Some(cost_of), Some(lba_of)) = (costs.get_mut(index), lbas.get_mut(index)) {
                *cost_of = cost;
                *lba_of = lba;
            }
            if let Err(refused) = submitted {
                outcome.errors += 1;
                let piece = refused.request.operation.into_buffer();
                *place = whole_again(&mut lent, index, piece);
            }
            lba += blocks;
        }
        let before = machine::instructions();
        let completion = drive.poll();
        let cost = cost_since(before, overhead);
        let Some(completion) = completion else {
            if drive.outstanding() == 0 {
                break;
            }
            continue;
        };
        let index = completion.tag as usize;
        let submit_cost = costs.get(index).copied().unwrap_or(0);
        let whole = u64::from(submit_cost) + u64::from(cost);
        outcome.commands += 1;
        outcome.instructions += whole;
        outcome.worst = outcome.worst.max(whole);
        match (&completion.result, &completion.buffer) {
            (Ok(()), Some(buffer)) => {
                outcome.bytes += buffer.len() as u64;
                if let Pass::Compare(seed) = pass {
                    let from = lbas.get(index).copied().unwrap_or(0) << shift;
                    compare(buffer, from, seed, &mut outcome);
                }
            }
            _ => outcome.errors += 1,
        }
        if let Some(place) = buffers.get_mut(index) {
            *place = whole_again(&mut lent, index, completion.buffer);
        }
    }
    outcome.ticks = Timer.ticks() - start;
    outcome
}

/// Instructions since `before`. If they are not counted one by one (an emulator without that mode)
/// the overhead may exceed the total.
fn cost_since(before: u32, overhead: u32) -> u32 {
    machine::instructions()
        .wrapping_sub(before)
        .saturating_sub(overhead)
}

/// The buffer of a completed command; `None` if the drive kept it.
fn whole_again(lent: &mut [Option<Lent>], index: usize, piece: Option<Buffer>) -> Option<Buffer> {
    let mut whole = lent.get_mut(index)?.take()?;
    whole.give_back(piece?).ok()?;
    whole.into_whole().ok()
}

/// The eight bytes at byte `at` of the drive: an invertible mix of the address and the seed
/// (splitmix64), so that data at a wrong address is noticed.
fn word(at: u64, seed: u64) -> u64 {
    let mut z = at.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn fill(buffer: &mut Buffer, from: u64, seed: u64) {
    for (index, place) in buffer.chunks_exact_mut(8).enumerate() {
        place.copy_from_slice(&word(from + 8 * index as u64, seed).to_le_bytes());
    }
}

fn compare(buffer: &Buffer, from: u64, seed: u64, outcome: &mut Outcome) {
    for (index, found) in buffer.chunks_exact(8).enumerate() {
        let at = from + 8 * index as u64;
        if *found != word(at, seed).to_le_bytes() {
            if outcome.wrong_words == 0 {
                outcome.first_wrong = at;
            }
            outcome.wrong_words += 1;
        }
    }
}
