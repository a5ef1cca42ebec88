// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operation costs the processor, by counting: instructions and calls of the kernel repeat,
//! on a machine whose times do not.
//!
//! Waiting for the drive is not work. Where a path sleeps, the counter leaves out the idle loop;
//! where it polls, counting pauses before each look, and a look that finds nothing does not count.
//! The loop's own instructions are counted with a device that answers at once, and
//! subtracted.

use crate::cell::ClosedLoop;
use crate::host::Clock;
use crate::operations::Operations;
use crate::path::Missing;
use crate::stage::Open;
use crate::summary::rounded;
use crate::tally::Tally;
use block::{Completion, Device, Geometry, Refused, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Batches that are counted, of as many operations as are in flight.
const BATCHES: usize = 48;
/// The same for blocks of more than [`SMALL_BYTES`].
const FEW_BATCHES: usize = 12;
const SMALL_BYTES: u64 = 64 << 10;
/// Batches before the first one that counts.
const WARM_UP: usize = 8;
/// Batches that sleep, which are enough.
const ENOUGH: usize = 6;
/// The multiple of the usual number of batches in which these are looked for.
const PATIENCE: usize = 8;
/// How long a polling path leaves the drive alone before it looks.
const SETTLE_NS: u64 = 2_000_000;
/// How long one wait for completions may last.
const WAIT_US: u32 = 100_000;

/// What a processor did between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions of user space.
    pub user_instructions: u64,
    /// Instructions of the kernel, in any context, without its idle loop.
    pub kernel_instructions: u64,
    /// Calls of the kernel.
    pub system_calls: u64,
    /// Whether the processor was idle in between.
    pub has_waited: bool,
}

/// Counts what the processor does.
pub trait WorkCounter {
    /// What it counts with, for the report.
    fn source(&self) -> String;

    /// Counts from here on.
    fn start(&mut self);

    /// Counts up to here.
    fn stop(&mut self);

    /// The work between each start and stop since the last call, in order.
    ///
    /// # Errors
    /// The counts cannot be read.
    fn take(&mut self) -> Result<Vec<Work>, Missing>;
}

/// What one operation costs, less the loop that measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Instructions of user space and of the kernel.
    pub instructions: f64,
    /// Those of user space.
    pub user_instructions: f64,
    /// Calls of the kernel.
    pub system_calls: f64,
}

/// How the batches of a path are counted.
#[derive(Clone, Copy)]
struct Manner {
    /// Before the first one that counts.
    warm_up: usize,
    batches: usize,
    /// Counting pauses before each look for completions.
    polls: bool,
    /// A page cache makes some operations cheap and others dear: the mean counts, and writes end
    /// with a flush.
    is_buffered: bool,
    /// A flush ends the batches.
    flushes: bool,
}

/// The cost of an operation of this loop on the open path.
///
/// # Errors
/// An operation failed, or the counts cannot be read.
pub(crate) fn cost(
    open: &mut Open<'_>,
    closed: &mut ClosedLoop,
    counter: &mut dyn WorkCounter,
    cancel: &AtomicBool,
) -> Result<Cost, Missing> {
    let is_buffered = open.path.is_buffered();
    let is_small = closed.operations().access.block_size_bytes <= SMALL_BYTES;
    let manner = Manner {
        warm_up: if is_buffered { 0 } else { WARM_UP },
        batches: if is_small { BATCHES } else { FEW_BATCHES },
        polls: open.path.polls(),
        is_buffered,
        flushes: is_buffered && closed.writes(),
    };
    if is_buffered {
        open.host.drop_caches()?;
    }
    let mut none = Immediate {
        geometry: *open.device.geometry(),
        requests: Vec::with_capacity(usize::from(open.device.geometry().queue_depth)),
    };
    let clock = open.host.clock();
    let mut counting = Counting {
        operations: closed.operations(),
        clock,
        counter,
        manner,
    };
    let may_sleep = !manner.polls && !is_buffered;
    let all = counting.run(open.device, may_sleep, cancel)?;
    let own = counting.run(&mut none, false, cancel)?;
    let less = |all: f64, own: f64| rounded((all - own).max(0.0));
    let kernel = |cost: Cost| cost.instructions - cost.user_instructions;
    let user_instructions = less(all.user_instructions, own.user_instructions);
    Ok(Cost {
        instructions: rounded(user_instructions + less(kernel(all), kernel(own))),
        user_instructions,
        system_calls: less(all.system_calls, own.system_calls),
    })
}

struct Counting<'a> {
    operations: &'a mut Operations,
    clock: &'a dyn Clock,
    counter: &'a mut dyn WorkCounter,
    manner: Manner,
}

impl Counting<'_> {
    /// Counts batches on `device`; with `may_sleep` until enough of them slept.
    fn run(
        &mut self,
        device: &mut dyn Device,
        may_sleep: bool,
        cancel: &AtomicBool,
    ) -> Result<Cost, Missing> {
        let is_whole = self.operations.prepare(device.geometry());
        let manner = self.manner;
        let most = manner.batches * if may_sleep { PATIENCE } else { 1 };
        // The work of each piece, and its batch: none for a look that found nothing.
        let mut pieces = Vec::with_capacity(4 * (manner.warm_up + manner.batches));
        let mut taken = Vec::new();
        let (mut number, mut each) = (0, 1);
        loop {
            for _ in 0..manner.batches + if number == 0 { manner.warm_up } else { 0 } {
                if cancel.load(Ordering::Relaxed) {
                    let reason = "it was ended before its instructions were counted";
                    return Err(Missing::new(reason, "measure again"));
                }
                let done = if is_whole {
                    self.batch::<true>(device, number, &mut pieces)
                } else {
                    self.batch::<false>(device, number, &mut pieces)
                };
                each = done.map_err(|error| failed(&error))?.max(1);
                number += 1;
            }
            if manner.flushes {
                self.counter.start();
                let flushed = block::blocking::flush(device);
                self.counter.stop();
                match flushed {
                    Ok(()) | Err(block::Error::Unsupported) => pieces.push(Some(0)),
                    Err(error) => return Err(failed(&error)),
                }
            }
            taken.extend(self.counter.take()?);
            let (found, expected) = (taken.len(), pieces.len());
            if found != expected {
                let reason = format!("{found} counts of instructions arrived, not {expected}");
                return Err(Missing::new(reason, "measure again"));
            }
            let batches = batches(&taken, &pieces, number);
            let batches = batches.get(manner.warm_up..).unwrap_or_default();
            let slept = batches.iter().filter(|one| one.has_waited).count();
            if slept >= ENOUGH || batches.len() >= most {
                return Ok(summarised(batches, manner, each));
            }
        }
    }

    /// As many operations as are in flight, from the first submission to the last completion;
    /// returns their number.
    fn batch<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        number: usize,
        pieces: &mut Vec<Option<usize>>,
    ) -> Result<usize, block::Error> {
        let mut tally = Tally::default();
        let mut ended = 0;
        let mut is_idle = false;
        self.counter.start();
        while self.operations.flight.has_idle() {
            if !self.operations.begin::<WHOLE>(device, 0, &mut tally) {
                break;
            }
        }
        loop {
            let flight = &mut self.operations.flight;
            flight.submit::<WHOLE>(device, &mut tally);
            flight.kick(device);
            if flight.is_empty::<WHOLE>() {
                break;
            }
            if self.manner.polls {
                self.counter.stop();
                pieces.push((!is_idle).then_some(number));
                self.clock.sleep_ns(SETTLE_NS);
                self.counter.start();
            }
            is_idle = true;
            while let Some(completion) = device.poll() {
                is_idle = false;
                let over = flight.take_back::<WHOLE>(completion, &mut tally);
                ended += usize::from(over.is_some());
            }
            if is_idle {
                device.wait(WAIT_US);
            }
        }
        self.counter.stop();
        pieces.push(Some(number));
        match tally.first_error {
            Some(error) => Err(error),
            None => Ok(ended),
        }
    }
}

fn failed(error: &block::Error) -> Missing {
    let reason = format!("while its instructions were counted: {error}");
    Missing::new(reason, "dmesg")
}

/// The work of each of `number` batches.
fn batches(taken: &[Work], pieces: &[Option<usize>], number: usize) -> Vec<Work> {
    let mut batches = vec![Work::default(); number];
    for (work, piece) in taken.iter().zip(pieces) {
        if let Some(batch) = piece.and_then(|number| batches.get_mut(number)) {
            *batch = add(*batch, *work);
        }
    }
    batches
}

/// The cost of an operation, of which a batch has `each`.
fn summarised(batches: &[Work], manner: Manner, each: usize) -> Cost {
    let (work, number) = if manner.is_buffered {
        (
            batches.iter().copied().fold(Work::default(), add),
            each * batches.len(),
        )
    } else {
        (undisturbed(batches, manner.polls), each)
    };
    let figure = |count: u64| rounded(count as f64 / number.max(1) as f64);
    Cost {
        instructions: figure(work.user_instructions + work.kernel_instructions),
        user_instructions: figure(work.user_instructions),
        system_calls: figure(work.system_calls),
    }
}

fn add(one: Work, other: Work) -> Work {
    Work {
        user_instructions: one.user_instructions + other.user_instructions,
        kernel_instructions: one.kernel_instructions + other.kernel_instructions,
        system_calls: one.system_calls + other.system_calls,
        has_waited: one.has_waited || other.has_waited,
    }
}

/// A batch that nothing else made longer: the lower quartile. A quick drive may answer before a
/// path sleeps, a slow one never does: the batches that slept count, if there are any. A path that
/// polls does not sleep: where its program lost the processor, something else had it.
fn undisturbed(batches: &[Work], polls: bool) -> Work {
    let slept = batches.iter().filter(|one| one.has_waited && !polls);
    let mut chosen: Vec<Work> = slept.copied().collect();
    if chosen.is_empty() {
        chosen = batches.to_vec();
    }
    chosen.sort_by_key(|one| one.user_instructions + one.kernel_instructions);
    chosen.get(chosen.len() / 4).copied().unwrap_or_default()
}

/// A device that does nothing, at once: what the loop itself costs.
struct Immediate {
    geometry: Geometry,
    requests: Vec<Request>,
}

impl Device for Immediate {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        self.requests.push(request);
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        let request = self.requests.pop()?;
        Some(Completion {
            tag: request.tag,
            buffer: request.operation.into_buffer(),
            result: Ok(()),
        })
    }

    fn outstanding(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner {
        warm_up: 0,
        batches: 4,
        polls: false,
        is_buffered: false,
        flushes: false,
    };

    fn work(kernel_instructions: u64, has_waited: bool) -> Work {
        Work {
            user_instructions: 10,
            kernel_instructions,
            system_calls: 2,
            has_waited,
        }
    }

    #[test]
    fn a_disturbed_batch_and_one_that_never_slept_do_not_count() {
        let slow = [
            work(100, false),
            work(500, true),
            work(7_000, true),
            work(520, true),
            work(510, true),
        ];
        let cost = summarised(&slow, MANNER, 2);
        assert_eq!(
            (cost.instructions, cost.user_instructions, cost.system_calls),
            (260.0, 5.0, 1.0)
        );
        // A drive that always answers before the path sleeps.
        let quick = slow.map(|one| Work {
            has_waited: false,
            ..one
        });
        assert_eq!(summarised(&quick, MANNER, 2).instructions, 255.0);
        // A polling path that twice lost the processor.
        let polling = Manner {
            polls: true,
            ..MANNER
        };
        let lost = [0, 0, 0, 9_000, 9_500].map(|kernel| work(kernel, kernel > 0));
        assert_eq!(summarised(&lost, polling, 2).instructions, 5.0);
    }

    #[test]
    fn looks_that_found_nothing_do_not_count() {
        let taken = [
            work(100, false),
            work(70, false),
            work(70, false),
            work(30, false),
        ];
        let batches = batches(&taken, &[Some(0), None, None, Some(0)], 1);
        assert_eq!(summarised(&batches, MANNER, 1).instructions, 150.0);
    }

    #[test]
    fn behind_a_page_cache_all_batches_and_the_flush_share_the_cost() {
        let manner = Manner {
            is_buffered: true,
            flushes: true,
            ..MANNER
        };
        let taken = [
            work(100, false),
            work(100, false),
            work(100, false),
            work(100, true),
            work(1_550, true),
        ];
        let batches = batches(&taken, &[0, 1, 2, 3, 0].map(Some), 4);
        let cost = summarised(&batches, manner, 1);
        assert_eq!((cost.instructions, cost.system_calls), (500.0, 2.5));
    }
}
