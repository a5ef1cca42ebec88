// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The budget of a randomised or exhaustive search.

use std::time::{Duration, Instant};

/// The environment variable that sets it: `300000` (states, rounds: what the search counts) or
/// `20s`.
pub const BUDGET_VARIABLE: &str = "STRAIGHTWAY_BUDGET";

/// The budget of a search: a number of states, or a duration.
///
/// The searches of the tests have a small default, so that their number is the same on every
/// machine; a soak gives them more.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: Limit,
    is_default: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    States(u64),
    Until(Instant),
}

impl Budget {
    /// The value of [`BUDGET_VARIABLE`], or `default` if it is not set.
    ///
    /// # Errors
    /// A message for people if the variable's value is invalid.
    pub fn or(default: Self) -> Result<Self, String> {
        match std::env::var(BUDGET_VARIABLE) {
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                format!("{BUDGET_VARIABLE}={text}: give states (300000) or seconds (20s)")
            }),
            Err(_) => Ok(default),
        }
    }

    /// A default of `states` states.
    pub const fn of_states(states: u64) -> Self {
        Self {
            limit: Limit::States(states),
            is_default: true,
        }
    }

    /// A default of `seconds` seconds, starting now.
    pub fn of_seconds(seconds: u64) -> Self {
        Self {
            limit: Limit::Until(Instant::now() + Duration::from_secs(seconds)),
            is_default: true,
        }
    }

    /// Whether a search that has seen `states` states continues.
    pub fn allows(&self, seen: u64) -> bool {
        match self.limit {
            Limit::States(states) => seen < states,
            Limit::Until(end) => Instant::now() < end,
        }
    }

    /// Whether this is the search's own default, for which the expected findings are known.
    pub const fn is_default(&self) -> bool {
        self.is_default
    }

    fn parse(text: &str) -> Option<Self> {
        let given = match text.strip_suffix('s') {
            Some(seconds) => Self::of_seconds(seconds.parse().ok()?),
            None => Self::of_states(text.parse().ok()?),
        };
        Some(Self {
            is_default: false,
            ..given
        })
    }
}

/// The environment variable with the part of a run's cells: 0 to 3, or `all`.
pub const CELLS_VARIABLE: &str = "STRAIGHTWAY_CELLS";

/// Whether this run takes the cell of this number, of cells that are dealt over four runs of all
/// tests (`tools/suites/deal.py`). Without a part, it takes each.
pub fn is_taken(cell: usize) -> bool {
    is_of_part(cell, &std::env::var(CELLS_VARIABLE).unwrap_or_default())
}

fn is_of_part(cell: usize, part: &str) -> bool {
    part.parse().map_or(true, |part: usize| cell % 4 == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_seconds_are_told_apart() {
        let states = Budget::parse("3").unwrap();
        assert!(states.allows(2) && !states.allows(3) && !states.is_default());
        let seconds = Budget::parse("3600s").unwrap();
        assert!(seconds.allows(u64::MAX));
        assert!(!Budget::parse("0s").unwrap().allows(0));
        for text in ["", "s", "-1", "1.5s", "1m"] {
            assert!(Budget::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn each_cell_is_in_one_of_four_parts() {
        for cell in 0..9 {
            let parts = ["0", "1", "2", "3"].map(|part| is_of_part(cell, part));
            assert_eq!(parts.iter().filter(|is_of_it| **is_of_it).count(), 1);
            assert!(is_of_part(cell, "all") && is_of_part(cell, ""));
        }
    }
}
