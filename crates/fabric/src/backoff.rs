// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long to pause between attempts, so that the hosts of a target that was away do not come back
//! all at once, and do not ask too often while it is.
//!
//! The window doubles with each attempt up to its limit, and a pause is drawn from its upper half,
//! the first one from all of it: "equal jitter". `docs/fleet.md` has the arithmetic.

/// The window of the first pause.
const FIRST_US: u64 = 125_000;
/// No window is longer.
const LONGEST_US: u64 = 4_000_000;
/// Nor is one longer than this part of the time in which attempts are made: else the last of them
/// might be long before its end.
const PART: u64 = 8;

/// The pauses of a row of attempts.
///
/// Its random numbers are xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
/// generators, scrambled", 2016), which only has to differ between hosts.
#[derive(Clone, Debug)]
pub struct Backoff {
    random: u64,
    /// Attempts since the last one that succeeded.
    attempts: u32,
}

impl Backoff {
    /// Pauses that are this host's own: `host_id` differs between machines, `ticks` between the
    /// processes of one.
    pub fn new(host_id: &[u8; 16], ticks: u64) -> Self {
        let id = u128::from_le_bytes(*host_id);
        let seed = [id as u64, (id >> 64) as u64, ticks]
            .into_iter()
            .fold(0, mixed);
        Self {
            // It must not be zero.
            random: seed.max(1),
            attempts: 0,
        }
    }

    /// The next attempt is the first of a row.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }

    /// The pause before the next attempt in microseconds, where attempts are made for `all_us`.
    pub fn next_us(&mut self, all_us: u64) -> u64 {
        let most = LONGEST_US.min(all_us / PART).max(1);
        let window = (FIRST_US << self.attempts.min(16)).min(most);
        let least = if self.attempts == 0 { 0 } else { window / 2 };
        self.attempts = self.attempts.saturating_add(1);
        least + self.random() % (window - least + 1)
    }

    const fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// A number that depends on each bit of both: the last steps of splitmix64 (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014).
const fn mixed(one: u64, other: u64) -> u64 {
    let sum = (one ^ other).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ sum >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const ALL_US: u64 = 30_000_000;

    fn pauses(host: u8, ticks: u64, count: usize) -> Vec<u64> {
        let mut backoff = Backoff::new(&[host; 16], ticks);
        (0..count).map(|_| backoff.next_us(ALL_US)).collect()
    }

    #[test]
    fn pauses_double_up_to_their_limit_and_begin_again_after_a_success() {
        for host in 0..=255 {
            let mut backoff = Backoff::new(&[host; 16], 1);
            for window in [125, 250, 500, 1_000, 2_000, 3_750, 3_750, 3_750] {
                let window_us = window * 1_000;
                let least_us = if window == 125 { 0 } else { window_us / 2 };
                let pause_us = backoff.next_us(ALL_US);
                assert!(
                    (least_us..=window_us).contains(&pause_us),
                    "{window}: {pause_us}"
                );
            }
            backoff.reset();
            assert!(backoff.next_us(ALL_US) <= 125_000);
        }
    }

    #[test]
    fn a_short_time_for_attempts_still_has_several() {
        let mut backoff = Backoff::new(&[0; 16], 0);
        let longest = (0..100).map(|_| backoff.next_us(800_000)).max();
        assert!(longest <= Some(100_000), "{longest:?}");
        // Not even one that has none divides by zero, or waits without an end.
        assert!(backoff.next_us(0) <= 1);
    }

    #[test]
    fn hosts_and_the_processes_of_one_differ() {
        let rows: BTreeSet<_> = (0..16)
            .flat_map(|host| (0..16).map(move |ticks| pauses(host, ticks, 4)))
            .collect();
        assert_eq!(rows.len(), 256);
    }

    #[test]
    fn pauses_are_spread_over_their_whole_window() {
        let mut tenths = [0; 10];
        for host in 0..=255 {
            for ticks in 0..40 {
                let last = *pauses(host, ticks, 8).last().unwrap();
                tenths[((last - 1_875_000) * 10 / 1_875_001) as usize] += 1;
            }
        }
        // Of 10,240: a tenth each, within five standard deviations.
        assert!(
            tenths.iter().all(|count| (872..=1_176).contains(count)),
            "{tenths:?}"
        );
    }
}
