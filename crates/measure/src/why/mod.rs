// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a block was late.
//!
//! Each block of a run with a deadline is stamped when it is due, submitted and done; the queue
//! that it met follows from the stamps of the others. What stamps cannot show, counters of the
//! kernel do ([`Reading`]): how long the thread waited for a processor, page faults that read,
//! stalls for memory, and what other programs had the drive do. They are read when a late block has
//! ended, up to 1,000 times a second while nothing completes, and 50 times a second otherwise, so
//! the loop that is measured stays as it is.
//!
//! The *excess* of a late block is what its response time has above the median of those in time. A
//! cause is named if it explains at least half of that, and otherwise none is:
//!
//! | cause | the block | evidence |
//! | --- | --- | --- |
//! | no processor | not submitted, or had ended | the thread was ready to run and did not run |
//! | memory | anywhere | its page faults read from a drive, or tasks stalled for memory |
//! | others' requests | was with the device | the drive moved bytes for others |
//! | the device | was with the device | none of these |
//! | the rate | waited for a place | no operation before it took long |
//! | the loop | had a place and was not submitted | none of these: a call did not return |
//!
//! A block that waited for a place behind an operation that took long has the cause of that one.

mod gauge;
mod judge;
mod watch;

pub use gauge::ThreadGauge;
pub(crate) use watch::{Unwatched, Watch, Watcher};

use crate::open_loop::{OpenRun, Schedule};
use crate::tail;
use judge::Judge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How many of the worst blocks are kept.
const WORST: usize = 10;
/// Counters at a moment, all since some fixed moment; `None` for what this machine does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When it was read, on the clock of the run.
    pub at_ns: u64,
    /// How long the thread was ready to run and did not run (proc(5), `/proc/[pid]/schedstat`).
    pub waited_ns: Option<u64>,
    /// The thread's page faults that had to read (proc(5), `majflt`).
    pub major_faults: Option<u64>,
    /// How long any task of the machine stalled for memory (`/proc/pressure/memory`).
    pub memory_stall_ns: Option<u64>,
    /// Bytes that the block device read and wrote.
    pub device_bytes: Option<u64>,
    /// Bytes that this process had block devices read and write.
    pub own_bytes: Option<u64>,
}

/// Reads the counters for the thread that made it.
pub trait Gauge {
    /// The counters now, which is `at_ns` on the clock of the run.
    fn read(&mut self, at_ns: u64) -> Reading;
}

named! {
    /// What kept a block.
    pub enum Cause {
        /// The thread was ready to run, and other work had the processor.
        Processor = "no processor",
        /// Page faults that read, or stalls for memory.
        Memory = "memory",
        /// Requests of other programs to the same drive.
        Others = "others' requests",
        /// The device took longer than usual, and nothing else explains it.
        Device = "the device",
        /// The queue was full though no operation took long: the path does not serve the rate.
        Rate = "the rate",
        /// The loop did not submit it although the queue had a place.
        Loop = "the loop",
        /// No cause explains half of the excess, or a counter that would decide is missing.
        Unknown = "unknown",
    }
}

impl Cause {
    /// What would help.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Processor => {
                "give the program a processor of its own (isolcpus and taskset), or a real-time \
                 class (chrt -f 50)"
            }
            Self::Memory => {
                "lock the program's memory, leave more of it free, or take a path without page cache"
            }
            Self::Others => "stop what else uses the drive, or give it another drive",
            Self::Device => {
                "a longer deadline, a buffer, or another drive; compare it idle and full"
            }
            Self::Rate => "a lower rate, larger blocks, more operations in flight, or another path",
            Self::Loop => "an asynchronous path: a call of this one waits or copies",
            Self::Unknown => "a longer run, or straightway trace of the same requests",
        }
    }
}

/// What the counters did around a block: at most a reading's distance before it was due, to the
/// first reading after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The time between the readings.
    pub window_ns: u64,
    /// How long the thread was ready to run and did not; null if that is not counted.
    pub waited_ns: Option<u64>,
    /// The part of that since the last reading before the block ended.
    pub waited_last_ns: Option<u64>,
    /// The thread's page faults that had to read; null if that is not counted.
    pub major_faults: Option<u64>,
    /// How long any task stalled for memory; null if that is not counted.
    pub memory_stall_ns: Option<u64>,
    /// Bytes that the drive moved for others; null if that is not counted.
    pub others_bytes: Option<u64>,
}

/// A late block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Late {
    /// The arrival's number, from 0.
    pub arrival: u64,
    /// When it was due, from the start.
    pub due_ns: u64,
    /// From then to its submission.
    pub queued_ns: u64,
    /// From its submission to its end; 0 if it never started.
    pub service_ns: u64,
    /// What kept it.
    pub cause: Cause,
    /// The arrival that took long and that it waited behind; null if it did not.
    pub behind: Option<u64>,
    /// What the counters did around it, or around that one.
    pub evidence: Evidence,
}

impl Late {
    /// From when it was due to its end.
    pub const fn response_ns(&self) -> u64 {
        self.queued_ns + self.service_ns
    }
}

/// The late blocks with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// The cause.
    pub cause: Cause,
    /// How many blocks.
    pub blocks: u64,
    /// How many of them waited behind another one that it kept.
    pub behind: u64,
    /// The longest response time of them.
    pub longest_ns: u64,
}

/// Why blocks were late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Late blocks; those that failed are not among them.
    pub late: u64,
    /// By cause, the most frequent first.
    pub causes: Vec<CauseCount>,
    /// The longest, the longest first.
    pub worst: Vec<Late>,
    /// The median response time of the blocks in time; null if there are none.
    pub usual_response_ns: Option<u64>,
    /// How often the counters were read.
    pub readings: u64,
    /// What this machine does not count, so that it cannot be a cause.
    pub uncounted: Vec<String>,
}

/// Names the cause of each block of `run` that took longer than `deadline_ns`, of a loop with at
/// most `depth` operations in flight.
pub(crate) fn explain(
    run: &OpenRun,
    schedule: &Schedule,
    deadline_ns: u64,
    depth: u16,
    (start_ns, readings): (u64, &[Reading]),
) -> Lateness {
    let rows = || run.response_ns.iter().zip(&run.service_ns).zip(&run.failed);
    let in_time =
        rows().filter(|((response_ns, _), failed)| **response_ns <= deadline_ns && !**failed);
    let (responses, services): (Vec<u64>, Vec<u64>) = in_time
        .map(|((response_ns, service_ns), _)| (*response_ns, *service_ns))
        .unzip();
    let usual = |series: &[u64]| tail::quantile(series, 0.5);
    let served: Vec<u64> = run
        .service_ns
        .iter()
        .copied()
        .filter(|ns| *ns != 0)
        .collect();
    let common_service_ns = usual(&served).unwrap_or(0);
    let judge = Judge {
        run,
        schedule,
        readings,
        start_ns,
        common_service_ns,
        usual_service_ns: usual(&services).map_or(0, |ns| ns.min(common_service_ns)),
        usual_response_ns: usual(&responses).unwrap_or(deadline_ns),
    };
    let mut late = judge.late(deadline_ns, usize::from(depth));
    let mut causes: BTreeMap<Cause, CauseCount> = BTreeMap::new();
    for one in &late {
        let count = causes.entry(one.cause).or_insert(CauseCount {
            cause: one.cause,
            blocks: 0,
            behind: 0,
            longest_ns: 0,
        });
        count.blocks += 1;
        count.behind += u64::from(one.behind.is_some());
        count.longest_ns = count.longest_ns.max(one.response_ns());
    }
    let mut causes: Vec<CauseCount> = causes.into_values().collect();
    causes.sort_by_key(|count| Reverse(count.blocks));
    let count = late.len() as u64;
    late.sort_by_key(|one| Reverse(one.response_ns()));
    late.truncate(WORST);
    Lateness {
        late: count,
        causes,
        worst: late,
        usual_response_ns: usual(&responses),
        readings: readings.len() as u64,
        uncounted: uncounted(readings.first().copied().unwrap_or_default()),
    }
}

fn uncounted(reading: Reading) -> Vec<String> {
    let all = [
        (reading.waited_ns.is_none(), "waits for a processor"),
        (reading.major_faults.is_none(), "page faults that read"),
        (reading.memory_stall_ns.is_none(), "stalls for memory"),
        (
            reading.device_bytes.is_none() || reading.own_bytes.is_none(),
            "requests of others",
        ),
    ];
    let missing = all.iter().filter(|(is_missing, _)| *is_missing);
    missing.map(|(_, what)| (*what).to_owned()).collect()
}

#[cfg(test)]
mod tests;
