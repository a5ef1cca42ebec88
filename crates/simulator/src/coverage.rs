// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which steps were met, and which pairs of them one after the other.

use crate::script::Verb;
use std::collections::{BTreeMap, BTreeSet};

/// How far back a fault is still near.
const NEAR: usize = 4;

/// What was met.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// How often each step was taken.
    pub steps: BTreeMap<Verb, u64>,
    /// Faults with what came soon after them.
    pub pairs: BTreeSet<(Verb, Verb)>,
    near: Vec<Verb>,
}

impl Coverage {
    /// A step is taken.
    pub fn step(&mut self, verb: Verb) {
        *self.steps.entry(verb).or_default() += 1;
        self.pairs
            .extend(self.near.iter().map(|fault| (*fault, verb)));
        if verb.is_fault() {
            if self.near.len() == NEAR {
                self.near.remove(0);
            }
            self.near.push(verb);
        }
    }

    /// Adds that of another run.
    pub fn add(&mut self, other: &Self) {
        for (verb, count) in &other.steps {
            *self.steps.entry(*verb).or_default() += count;
        }
        self.pairs.extend(&other.pairs);
    }
}
