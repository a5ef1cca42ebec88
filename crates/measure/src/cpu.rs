// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole system's processor time, from `/proc/stat`.
//!
//! Work for a request is done in system calls, interrupt handlers, soft interrupts and kernel
//! threads; a process's own time shows only some of it. So the whole machine is counted, and the
//! idle machine's share, measured before, is subtracted. 100 % is one core that is always busy, and
//! cores add up.

use crate::path::Missing;

/// Processor time since boot, all processors together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Everything but idle and waiting for input or output, in ticks.
    pub busy_ticks: u64,
    /// Time that a hypervisor gave to other machines while this machine was ready to run; part of
    /// busy.
    pub steal_ticks: u64,
    /// User time of all processes except this one and its ended children, plus stolen time; `None`
    /// if this process's own time cannot be read.
    pub others_ticks: Option<u64>,
    /// Ticks per second.
    pub ticks_per_second: u64,
}

impl CpuTimes {
    /// Reads this machine's.
    ///
    /// # Errors
    /// `/proc/stat` is missing or not understood.
    pub fn read() -> Result<Self, Missing> {
        let text = std::fs::read_to_string("/proc/stat").map_err(|error| {
            Missing::new(
                format!("/proc/stat cannot be read: {error}"),
                "mount -t proc proc /proc",
            )
        })?;
        let own = std::fs::read_to_string("/proc/self/stat").ok();
        let own_user_ticks = own.as_deref().and_then(own_user_ticks);
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Self::parse(&text, own_user_ticks, ticks_per_second).ok_or_else(|| {
            Missing::new(
                "/proc/stat has no line for all processors",
                "run on Linux 2.6 or later",
            )
        })
    }

    /// Reads the text of `/proc/stat`. Its first line is the sum over processors: user, nice,
    /// system, idle, iowait, irq, softirq, steal, guest, guest nice (proc(5)). Guest time is part
    /// of user time already. `own_user_ticks` is this process's part of it.
    pub fn parse(text: &str, own_user_ticks: Option<u64>, ticks_per_second: u64) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut fields = [0u64; 8];
        let mut count = 0;
        for (field, word) in fields.iter_mut().zip(line.split_ascii_whitespace()) {
            *field = word.parse().ok()?;
            count += 1;
        }
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = fields;
        let busy_ticks = [user, nice, system, irq, softirq, steal]
            .into_iter()
            .fold(0, u64::saturating_add);
        (count >= 4 && ticks_per_second > 0).then_some(Self {
            busy_ticks,
            steal_ticks: steal,
            others_ticks: own_user_ticks.map(|own| {
                let all = user.saturating_add(nice).saturating_add(steal);
                all.saturating_sub(own)
            }),
            ticks_per_second,
        })
    }

    /// Per cent of one core that was busy since `earlier`, `elapsed_ns` ago. The kernel's sums can
    /// decrease by a tick, which counts as 0.
    pub fn percent_since(&self, earlier: &CpuTimes, elapsed_ns: u64) -> f64 {
        let ticks = self.busy_ticks.saturating_sub(earlier.busy_ticks);
        percent_of_ticks(ticks, self.ticks_per_second, elapsed_ns)
    }
}

/// User time of a process and of its ended children, in the text of `/proc/PID/stat`. Its second
/// field is the program's name in brackets, which may hold anything.
fn own_user_ticks(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(") ")?;
    // utime and cutime, the 14th and 16th of proc(5); `fields` starts with the third.
    let field = |number: usize| {
        fields
            .split_ascii_whitespace()
            .nth(number - 3)?
            .parse()
            .ok()
    };
    let (own, children): (u64, u64) = (field(14)?, field(16)?);
    Some(own.saturating_add(children))
}

/// `ticks` as per cent of one core over `elapsed_ns`.
pub fn percent_of_ticks(ticks: u64, ticks_per_second: u64, elapsed_ns: u64) -> f64 {
    let elapsed_s = elapsed_ns.max(1) as f64 / 1e9;
    ticks as f64 / ticks_per_second.max(1) as f64 / elapsed_s * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  10 1 20 5000 300 4 5 6 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5 0\n";

    #[test]
    fn busy_is_all_but_idle_and_iowait() {
        let times = CpuTimes::parse(TEXT, None, 100).unwrap();
        assert_eq!(times.busy_ticks, 10 + 1 + 20 + 4 + 5 + 6);
        assert_eq!((times.steal_ticks, times.others_ticks), (6, None));
    }

    #[test]
    fn cores_add_up() {
        let now = CpuTimes::parse(TEXT, Some(0), 100).unwrap();
        let later = CpuTimes {
            busy_ticks: now.busy_ticks + 300,
            ..now
        };
        assert_eq!(later.percent_since(&now, 2_000_000_000), 150.0);
        assert_eq!(now.percent_since(&later, 2_000_000_000), 0.0);
    }

    #[test]
    fn others_have_what_is_not_our_own() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 60 3 70 20 0 1 0\n";
        assert_eq!(own_user_ticks(stat), Some(5 + 3));
        assert_eq!(own_user_ticks("7 (a) S 1"), None);
        let others = |own| CpuTimes::parse(TEXT, Some(own), 100).unwrap().others_ticks;
        assert_eq!(others(8), Some(10 + 1 + 6 - 8));
        assert_eq!(others(1000), Some(0));
    }

    #[test]
    fn other_text_is_refused() {
        assert_eq!(CpuTimes::parse("", None, 100), None);
        assert_eq!(CpuTimes::parse("cpu  1 2", None, 100), None);
        assert_eq!(CpuTimes::parse("cpu  1 2 x 4", None, 100), None);
        assert_eq!(CpuTimes::parse("cpu0 1 2 3 4", None, 100), None);
        assert!(CpuTimes::parse("cpu  1 2 3 4", None, 100).is_some());
    }

    #[test]
    fn this_machine_s_is_read() {
        let times = CpuTimes::read().unwrap();
        assert!(times.busy_ticks > 0 && times.others_ticks.is_some());
    }
}
