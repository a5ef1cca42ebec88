// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cause of each late block, from the stamps of all and the readings around it.

use super::{Cause, Evidence, Late, Reading};
use crate::open_loop::{OpenRun, Schedule};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation took long if it took this many medians.
const LONG: u64 = 4;
/// What others had the drive do counts from here on, and from this part of what this process had it
/// do.
const OTHERS_BYTES: u64 = 256 << 10;
const OTHERS_PART: u64 = 4;

/// A run as it is judged.
pub(super) struct Judge<'r> {
    pub(super) run: &'r OpenRun,
    pub(super) schedule: &'r Schedule,
    pub(super) readings: &'r [Reading],
    pub(super) start_ns: u64,
    /// The median of all operations.
    pub(super) common_service_ns: u64,
    /// The median of those of blocks in time, or of all if that is less; 0 if none was in time.
    pub(super) usual_service_ns: u64,
    /// The median of blocks in time, or the deadline.
    pub(super) usual_response_ns: u64,
}

impl Judge<'_> {
    /// The late blocks in the order of arrivals.
    pub(super) fn late(&self, deadline_ns: u64, depth: usize) -> Vec<Late> {
        let mut late = Vec::new();
        // Arrivals that have not ended when the next one is due, by their end.
        let mut open: BinaryHeap<(Reverse<u64>, usize)> = BinaryHeap::new();
        // While each arrival finds the queue full: the one of them and of those that were in the
        // queue at first that took longest.
        let mut slowest: Option<usize> = None;
        for index in 0..self.run.response_ns.len() {
            let due_ns = self.schedule.at(index as u64);
            while open
                .peek()
                .is_some_and(|(Reverse(ended_ns), _)| *ended_ns <= due_ns)
            {
                open.pop();
            }
            let (service_ns, response_ns) = (self.service_ns(index), self.response_ns(index));
            if open.len() < depth {
                slowest = None;
            } else {
                let before = match slowest {
                    Some(one) => Some(one),
                    None => open
                        .iter()
                        .map(|(_, one)| *one)
                        .max_by_key(|one| self.service_ns(*one)),
                };
                slowest = before;
            }
            let is_late = response_ns > deadline_ns && !self.has_failed(index);
            if is_late {
                late.push(self.cause_of(index, slowest));
            }
            if let Some(one) = slowest.filter(|one| service_ns > self.service_ns(*one)) {
                debug_assert!(one < index);
                slowest = Some(index);
            }
            open.push((Reverse(due_ns.saturating_add(response_ns)), index));
        }
        late
    }

    fn response_ns(&self, index: usize) -> u64 {
        self.run.response_ns.get(index).copied().unwrap_or(0)
    }

    fn service_ns(&self, index: usize) -> u64 {
        self.run.service_ns.get(index).copied().unwrap_or(0)
    }

    /// Whether it began and failed. One that never started is late.
    fn has_failed(&self, index: usize) -> bool {
        self.run.failed.get(index).is_some_and(|failed| *failed) && self.service_ns(index) != 0
    }

    /// Why a block was late; `slowest` took longest of those that filled the queue when it was due.
    fn cause_of(&self, index: usize, slowest: Option<usize>) -> Late {
        let (service_ns, response_ns) = (self.service_ns(index), self.response_ns(index));
        let queued_ns = response_ns - service_ns.min(response_ns);
        let due_ns = self.schedule.at(index as u64);
        let excess_ns = response_ns.saturating_sub(self.usual_response_ns);
        let evidence = self.evidence(due_ns, due_ns + response_ns);
        let explains = |ns: u64| ns >= excess_ns.div_ceil(2);
        let mut late = Late {
            arrival: index as u64,
            due_ns,
            queued_ns,
            service_ns,
            cause: Cause::Unknown,
            behind: None,
            evidence,
        };
        let waited_ns = match slowest {
            None => evidence.waited_ns.map(|ns| ns.min(queued_ns)),
            // A loop that rarely runs sees all its operations end late.
            Some(other) if !self.took_long(other) && self.was_seen_late(other) => {
                evidence.waited_ns
            }
            Some(_) => None,
        };
        let late_ns = evidence.waited_last_ns.map(|ns| ns.min(service_ns));
        if explains(waited_ns.unwrap_or(0) + late_ns.unwrap_or(0)) {
            late.cause = Cause::Processor;
        } else if has_no_memory(&evidence, excess_ns) {
            late.cause = Cause::Memory;
        } else if explains(queued_ns) {
            match slowest {
                Some(other) if self.took_long(other) => {
                    late.evidence = self.evidence_of_service(other);
                    late.cause = self.device_cause(other, &late.evidence);
                    late.behind = Some(other as u64);
                }
                // Whether the loop ran decides.
                _ if evidence.waited_ns.is_none() => {}
                Some(_) => late.cause = Cause::Rate,
                None => late.cause = Cause::Loop,
            }
        } else if explains(service_ns.saturating_sub(self.usual_service_ns)) {
            late.cause = self.device_cause(index, &evidence);
        }
        late
    }

    fn took_long(&self, index: usize) -> bool {
        self.service_ns(index) > LONG * self.common_service_ns
    }

    /// Whether the thread did not run for at least half of the time that an operation took, up to
    /// its end.
    fn was_seen_late(&self, index: usize) -> bool {
        let waited_ns = self.evidence_of_service(index).waited_last_ns;
        waited_ns.is_some_and(|ns| ns >= self.service_ns(index).div_ceil(2))
    }

    /// What the counters did while an operation was with the device.
    fn evidence_of_service(&self, index: usize) -> Evidence {
        let ended_ns = self.schedule.at(index as u64) + self.response_ns(index);
        self.evidence(ended_ns - self.service_ns(index), ended_ns)
    }

    /// What kept an operation that was with the device.
    fn device_cause(&self, index: usize, evidence: &Evidence) -> Cause {
        let excess_ns = self.service_ns(index).saturating_sub(self.usual_service_ns);
        match evidence.waited_last_ns {
            None => Cause::Unknown,
            Some(ns) if ns >= excess_ns.div_ceil(2) => Cause::Processor,
            Some(_) if has_no_memory(evidence, excess_ns) => Cause::Memory,
            Some(_) if evidence.others_bytes > Some(0) => Cause::Others,
            Some(_) => Cause::Device,
        }
    }

    /// What the counters did from the last reading before `from_ns` to the first after `to_ns`,
    /// both from the start.
    fn evidence(&self, from_ns: u64, to_ns: u64) -> Evidence {
        let after = |ns: u64| {
            let ns = self.start_ns.saturating_add(ns);
            self.readings.partition_point(|reading| reading.at_ns < ns)
        };
        let first = self.readings.get(after(from_ns + 1).saturating_sub(1));
        // A run longer than the memory for readings has none behind its last blocks.
        let end = after(to_ns);
        let (Some(first), Some(last)) = (first, self.readings.get(end)) else {
            return Evidence::default();
        };
        let before = self
            .readings
            .get(end.saturating_sub(1))
            .filter(|one| one.at_ns > first.at_ns);
        let before = before.unwrap_or(first);
        let since = |of: fn(&Reading) -> Option<u64>| of(last)?.checked_sub(of(first)?);
        let own_bytes = since(|reading| reading.own_bytes);
        let others_bytes =
            since(|reading| reading.device_bytes)
                .zip(own_bytes)
                .map(|(all, own)| {
                    let others = all.saturating_sub(own);
                    let counts = others >= OTHERS_BYTES.max(own / OTHERS_PART);
                    if counts { others } else { 0 }
                });
        Evidence {
            window_ns: last.at_ns.saturating_sub(first.at_ns),
            waited_ns: since(|reading| reading.waited_ns),
            waited_last_ns: last
                .waited_ns
                .zip(before.waited_ns)
                .and_then(|(last, before)| last.checked_sub(before)),
            major_faults: since(|reading| reading.major_faults),
            memory_stall_ns: since(|reading| reading.memory_stall_ns),
            others_bytes,
        }
    }
}

/// Whether page faults that read, or stalls for memory, explain an excess.
fn has_no_memory(evidence: &Evidence, excess_ns: u64) -> bool {
    let stalls = evidence.memory_stall_ns;
    evidence.major_faults > Some(0)
        || stalls.is_some_and(|ns| ns > 0 && ns >= excess_ns.div_ceil(2))
}
