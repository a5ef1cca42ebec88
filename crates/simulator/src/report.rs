// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was run, and what was met.

use crate::coverage::Coverage;
use crate::run::Outcome;
use crate::script::{Script, Verb};
use crate::setup::Only;
use crate::trace::mix;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The sum of many runs.
#[derive(Debug)]
pub struct Report {
    first_seed: u64,
    runs: BTreeMap<Only, u64>,
    steps: u64,
    simulated_us: u64,
    slowest: (u64, u64),
    hash: u64,
    coverage: Coverage,
    took: Duration,
    failure: Option<(u64, String, String)>,
}

impl Report {
    /// Of no run.
    pub fn new(first_seed: u64) -> Self {
        Self {
            first_seed,
            runs: BTreeMap::new(),
            steps: 0,
            simulated_us: 0,
            slowest: (0, 0),
            hash: 0,
            coverage: Coverage::default(),
            took: Duration::ZERO,
            failure: None,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, only: Only, outcome: &Outcome, seed: u64) {
        *self.runs.entry(only).or_default() += 1;
        self.steps += outcome.steps;
        self.simulated_us += outcome.simulated_us;
        self.slowest = self.slowest.max((outcome.slowest_us, seed));
        self.hash = mix(self.hash, outcome.hash);
        self.coverage.add(&outcome.coverage);
    }

    /// Adds the one that broke a promise.
    pub fn failed(&mut self, seed: u64, script: &Script, what: &str) {
        self.failure = Some((seed, script.to_string(), what.to_owned()));
    }

    /// How long it took.
    pub const fn took(&mut self, took: Duration) {
        self.took = took;
    }

    /// Steps of the worlds.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    fn runs(&self) -> u64 {
        self.runs.values().sum()
    }

    fn steps_per_second(&self) -> u64 {
        let us = self.took.as_micros().max(1);
        (u128::from(self.steps) * 1_000_000 / us) as u64
    }

    /// Pairs of a fault and a step soon after it, of those that there are.
    fn pairs(&self) -> (usize, usize) {
        let faults = Verb::ALL
            .iter()
            .filter(|(verb, ..)| verb.is_fault())
            .count();
        (self.coverage.pairs.len(), faults * Verb::ALL.len())
    }

    /// A few lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let kinds: Vec<String> = self
            .runs
            .iter()
            .map(|(only, count)| format!("{count} {only}"))
            .collect();
        let _ = writeln!(
            text,
            "{} runs from seed {} on ({}), {} steps, {} a second, {} simulated seconds",
            self.runs(),
            self.first_seed,
            kinds.join(", "),
            self.steps,
            self.steps_per_second(),
            self.simulated_us / 1_000_000
        );
        let (met, all) = self.pairs();
        let _ = writeln!(
            text,
            "{met} of {all} pairs of a fault and a step after it; slowest request {} ms (seed {})",
            self.slowest.0 / 1000,
            self.slowest.1
        );
        let _ = write!(text, "hash {:016x}", self.hash);
        text
    }

    /// The same for programs.
    pub fn json(&self) -> String {
        let (met, all) = self.pairs();
        let list = |pairs: Vec<String>| pairs.join(", ");
        let runs = self.runs.iter();
        let runs = list(runs.map(|(only, n)| format!("\"{only}\": {n}")).collect());
        let steps = self.coverage.steps.iter();
        let steps = steps.map(|(verb, n)| format!("\"{}\": {n}", verb.word()));
        let steps = list(steps.collect());
        let failure = match &self.failure {
            None => "null".to_owned(),
            Some((seed, script, what)) => {
                format!("{{\"seed\": {seed}, \"script\": {script:?}, \"broken\": {what:?}}}")
            }
        };
        format!(
            "{{\n  \"schema_version\": 1,\n  \"first_seed\": {},\n  \"runs\": {{{runs}}},\n  \
             \"steps\": {},\n  \"steps_per_second\": {},\n  \"elapsed_us\": {},\n  \
             \"simulated_us\": {},\n  \"slowest_request_us\": {},\n  \"slowest_seed\": {},\n  \
             \"taken\": {{{steps}}},\n  \"pairs\": {met},\n  \"pairs_in_all\": {all},\n  \
             \"hash\": \"{:016x}\",\n  \"failure\": {failure}\n}}\n",
            self.first_seed,
            self.steps,
            self.steps_per_second(),
            self.took.as_micros(),
            self.simulated_us,
            self.slowest.0,
            self.slowest.1,
            self.hash
        )
    }
}
