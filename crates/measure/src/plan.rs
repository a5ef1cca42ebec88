// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of the measurements.
//!
//! Machines warm up, drives fill their caches, the load varies. If one path were measured after
//! another, such changes would look like differences between paths. So the cells of all paths are
//! interleaved in rounds: each round visits each group once, in random order, and within a group
//! each cell once, in random order. The seed determines the whole order.

use crate::access::Access;
use crate::format::distinct;
use crate::random::Random;

/// One path with one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlannedCell {
    /// Index of the path in the comparison's list.
    pub path: usize,
    /// The access.
    pub access: Access,
}

/// A group's cells in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The group's name.
    pub group: String,
    /// The cells, in order.
    pub cells: Vec<PlannedCell>,
}

/// All rounds of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The visits of each round.
    pub rounds: Vec<Vec<Visit>>,
}

impl Plan {
    /// Plans `rounds` rounds of each access on each path; `groups` gives each path's group.
    pub fn new(groups: &[&str], accesses: &[Access], rounds: u32, seed: u64) -> Self {
        let names: Vec<&str> = distinct(groups.iter().copied());
        let round = |number: u32| {
            let mut random = Random::derived(seed, &[0x706c_616e, u64::from(number)]);
            let mut visits: Vec<Visit> = names
                .iter()
                .map(|name| {
                    let paths = groups
                        .iter()
                        .enumerate()
                        .filter(|(_, group)| *group == name);
                    let mut cells: Vec<PlannedCell> = paths
                        .flat_map(|(path, _)| {
                            let cell = move |&access| PlannedCell { path, access };
                            accesses.iter().map(cell)
                        })
                        .collect();
                    random.shuffle(&mut cells);
                    Visit {
                        group: (*name).to_owned(),
                        cells,
                    }
                })
                .collect();
            random.shuffle(&mut visits);
            visits
        };
        Self {
            rounds: (0..rounds).map(round).collect(),
        }
    }

    /// Number of cells in all rounds.
    pub fn cell_count(&self) -> usize {
        let visits = self.rounds.iter().flatten();
        visits.map(|visit| visit.cells.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Operation, Pattern};

    fn accesses() -> Vec<Access> {
        [4096, 131_072, 1 << 20]
            .map(|block_size_bytes| Access {
                operation: Operation::Read,
                pattern: Pattern::Random,
                block_size_bytes,
            })
            .to_vec()
    }

    const GROUPS: [&str; 4] = ["kernel", "user", "kernel", "user"];

    #[test]
    fn each_round_has_each_cell_once_and_each_group_once() {
        let plan = Plan::new(&GROUPS, &accesses(), 5, 1);
        assert_eq!(plan.cell_count(), 5 * 4 * 3);
        for round in &plan.rounds {
            assert_eq!(round.len(), 2);
            let mut cells: Vec<PlannedCell> = Vec::new();
            for visit in round {
                for cell in &visit.cells {
                    assert_eq!(GROUPS[cell.path], visit.group);
                    cells.push(*cell);
                }
            }
            cells.sort();
            cells.dedup();
            assert_eq!(cells.len(), 12);
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let plan = |seed| Plan::new(&GROUPS, &accesses(), 5, seed);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert_ne!(plan(1).rounds[0], plan(1).rounds[1]);
    }

    #[test]
    fn each_group_comes_first_about_as_often() {
        let plan = Plan::new(&GROUPS, &accesses(), 200, 3);
        let first = |round: &&Vec<Visit>| round[0].group == "kernel";
        let kernel_first = plan.rounds.iter().filter(first).count();
        assert!((70..130).contains(&kernel_first), "{kernel_first}");
    }
}
