// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop whose work is counted, and the same with a device that answers at once.

use super::batches::{Counted, of_operation, of_pieces};
use super::{Cost, WorkCounter};
use crate::cell::ClosedLoop;
use crate::host::Clock;
use crate::operations::Operations;
use crate::path::Missing;
use crate::stage::Open;
use crate::summary::rounded;
use crate::tally::Tally;
use block::{Completion, Device, Geometry, Refused, Request};
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

impl Manner {
    const fn counted(self) -> Counted {
        if self.is_buffered {
            Counted::All
        } else if self.polls {
            Counted::Any
        } else {
            Counted::Slept
        }
    }
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
            let batches = of_pieces(&taken, &pieces, number);
            let batches = batches.get(manner.warm_up..).unwrap_or_default();
            let slept = batches.iter().filter(|one| one.has_waited).count();
            if slept >= ENOUGH || batches.len() >= most {
                return Ok(of_operation(batches, manner.counted(), each));
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
