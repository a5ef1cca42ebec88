// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Instructions and calls of the kernel, counted by the processor itself (`perf_event_open(2)`).
//!
//! The counters are this program's: of its threads, and of what the kernel does in their name. An
//! interrupt that finds the processor idle belongs to no program, and is not counted.

use linux::Roots;
use measure::{Missing, Work, WorkCounter};
use perf_event::events::{Hardware, Software, Tracepoint};
use perf_event::{Builder, Counter};
use std::io::{Error, ErrorKind};

/// Pairs of a start and a stop with nothing in between, of which the usual one is subtracted.
const EMPTY: usize = 65;
/// Where Linux has the trace points, the usual place first.
const TRACEFS: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];
const CALLS: &str = "events/raw_syscalls/sys_enter/id";

/// The processor's counters.
#[derive(Debug)]
pub struct ProcessorCounter {
    /// Instructions of user space, of the kernel, calls of the kernel, and sleeps.
    counters: [Counter; 4],
    began: Result<[u64; 4], String>,
    taken: Result<Vec<Work>, String>,
    /// What a start and a stop cost themselves.
    own: Work,
}

impl ProcessorCounter {
    /// The counters of this processor.
    ///
    /// # Errors
    /// It has none, as most virtual machines do, or they are not permitted.
    pub fn new(roots: &Roots) -> Result<Self, Missing> {
        let user = counter(Builder::new(Hardware::INSTRUCTIONS).exclude_kernel(true));
        let user = user.map_err(|error| refused("instructions", &error))?;
        let kernel = counter(
            Builder::new(Hardware::INSTRUCTIONS)
                .exclude_kernel(false)
                .exclude_user(true),
        );
        let kernel = kernel.map_err(|error| refused("the kernel's instructions", &error))?;
        let calls = counter(Builder::new(calls_of_the_kernel(roots)?).exclude_kernel(false));
        let calls = calls.map_err(|error| refused("calls of the kernel", &error))?;
        let sleeps = counter(Builder::new(Software::CONTEXT_SWITCHES).exclude_kernel(false));
        let sleeps = sleeps.map_err(|error| refused("sleeps", &error))?;
        let mut this = Self {
            counters: [user, kernel, calls, sleeps],
            began: Ok([0; 4]),
            taken: Ok(Vec::new()),
            own: Work::default(),
        };
        for _ in 0..EMPTY {
            this.start();
            this.stop();
        }
        let mut empty = this.take()?;
        empty.sort_by_key(|one| one.user_instructions + one.kernel_instructions);
        this.own = empty.get(EMPTY / 2).copied().unwrap_or_default();
        if this.own.user_instructions == 0 {
            return Err(Missing::new(
                "this processor's counter of instructions stands still",
                "run it in the lab, as make demo does",
            ));
        }
        Ok(this)
    }

    fn read(&mut self) -> Result<[u64; 4], String> {
        let mut values = [0; 4];
        for (value, counter) in values.iter_mut().zip(&mut self.counters) {
            // A pinned counter that had to leave the processor ends here.
            *value = counter.read().map_err(|error| error.to_string())?;
        }
        Ok(values)
    }
}

impl WorkCounter for ProcessorCounter {
    fn source(&self) -> String {
        "this processor's counters (perf_event): this program and what the kernel does for it, \
         without interrupts that find the processor idle"
            .to_owned()
    }

    fn start(&mut self) {
        self.began = self.read();
    }

    fn stop(&mut self) {
        let ended = self.read();
        let work = match (&self.began, ended) {
            (Ok(began), Ok(ended)) => Ok(difference(began, &ended, &self.own)),
            (Err(error), _) => Err(error.clone()),
            (_, Err(error)) => Err(error),
        };
        match (&mut self.taken, work) {
            (Ok(taken), Ok(work)) => taken.push(work),
            (Ok(_), Err(error)) => self.taken = Err(error),
            (Err(_), _) => {}
        }
    }

    fn take(&mut self) -> Result<Vec<Work>, Missing> {
        std::mem::replace(&mut self.taken, Ok(Vec::new())).map_err(|error| {
            let reason = format!("the processor's counters cannot be read: {error}");
            Missing::new(
                reason,
                "end other programs that count (perf), and measure again",
            )
        })
    }
}

/// A counter of this program and its threads that counts from now on.
fn counter(builder: &mut Builder<'_>) -> std::io::Result<Counter> {
    let mut counter = builder
        .observe_self()
        .any_cpu()
        .inherit(true)
        .exclude_hv(true)
        .build()?;
    counter.enable()?;
    Ok(counter)
}

fn calls_of_the_kernel(roots: &Roots) -> Result<Tracepoint, Missing> {
    let read = |folder: &&str| std::fs::read_to_string(roots.sys.join(folder).join(CALLS)).ok();
    let id = TRACEFS
        .iter()
        .find_map(|folder| read(folder)?.trim().parse().ok());
    id.map(Tracepoint::with_id).ok_or_else(|| {
        Missing::new(
            "calls of the kernel cannot be counted: no trace point for them can be read",
            "run it as root; mount -t tracefs tracefs /sys/kernel/tracing",
        )
    })
}

fn refused(what: &str, error: &Error) -> Missing {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "run it as root, or: sysctl kernel.perf_event_paranoid=-1",
        _ => "run it in the lab, as make demo does",
    };
    let reason = format!("this processor does not count {what} for this program: {error}");
    Missing::new(reason, hint)
}

fn difference(began: &[u64; 4], ended: &[u64; 4], own: &Work) -> Work {
    let [user, kernel, calls, sleeps] =
        std::array::from_fn(|index| ended[index].saturating_sub(began[index]));
    Work {
        user_instructions: user.saturating_sub(own.user_instructions),
        kernel_instructions: kernel.saturating_sub(own.kernel_instructions),
        system_calls: calls.saturating_sub(own.system_calls),
        has_waited: sleeps > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_counting_itself_costs_is_left_out() {
        let own = Work {
            user_instructions: 30,
            kernel_instructions: 400,
            system_calls: 4,
            has_waited: false,
        };
        let work = difference(&[100, 1_000, 5, 7], &[230, 1_300, 11, 8], &own);
        let numbers = [
            work.user_instructions,
            work.kernel_instructions,
            work.system_calls,
        ];
        assert_eq!((numbers, work.has_waited), ([100, 0, 2], true));
    }

    // partner: Linux | host kernel
    #[test]
    fn a_machine_that_does_not_count_says_what_is_missing_and_one_that_does_repeats() {
        let mut counter = match ProcessorCounter::new(&Roots::default()) {
            Ok(counter) => counter,
            Err(missing) => {
                let text = missing.to_string();
                assert!(text.contains("count"), "{text}");
                return;
            }
        };
        let mut count = |turns: u64| {
            counter.start();
            for turn in 0..turns {
                std::hint::black_box(turn);
            }
            counter.stop();
            let taken = counter.take().unwrap();
            assert_eq!(taken.len(), 1);
            taken[0].user_instructions
        };
        count(1);
        let (few, many) = (count(10_000), count(20_000));
        assert!(few >= 10_000 && many >= few + 10_000, "{few}, {many}");
    }

    #[test]
    fn without_trace_points_nothing_is_counted_and_the_hint_names_them() {
        let roots = Roots {
            sys: std::env::temp_dir().join("straightway-no-such-folder"),
            ..Roots::default()
        };
        let missing = calls_of_the_kernel(&roots).unwrap_err().to_string();
        assert!(missing.contains("tracefs"), "{missing}");
    }
}
