// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which path to use: for each access the fastest, as a multiple of an ordinary program's speed.

use crate::access::{Access, Operation, Pattern};
use crate::findings::{Merit, Win, ranked, win};
use crate::format::figure;
use crate::schema::{Ci95, Comparison, PathResult};
use crate::stats;

/// Maximum number of names in a sentence.
const NAMES: usize = 4;

/// A speed relative to a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times<'a> {
    /// The baseline.
    pub baseline: &'a str,
    /// Ratio of the means over rounds.
    pub ratio: f64,
    /// Its interval, from rounds of both paths taken in pairs.
    pub ci95: Ci95,
}

/// A recommended path, and those level with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<'a> {
    /// The winner, and its criterion.
    pub win: Win,
    /// The winner's speed as a multiple; `None` if no baseline was measured, or it is the winner.
    pub times: Option<Times<'a>>,
}

/// The recommendation for one access.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice<'a> {
    /// The access.
    pub access: Access,
    /// The fastest of all.
    pub fastest: Choice<'a>,
    /// The fastest on which no processor spins, if it is another path.
    pub asleep: Option<Choice<'a>>,
    /// The one that moves the most data for its processor time.
    pub leanest: Win,
}

/// The recommendations for each access of a comparison. Memory is not a path to a drive, so it is
/// excluded.
pub fn advise(comparison: &Comparison) -> Vec<Advice<'_>> {
    let mut all = Vec::new();
    for access in comparison.accesses() {
        let results = |merit| {
            let mut results = ranked(comparison, access, merit);
            if results.len() > 1 {
                results.retain(|result| result.path != paths::RAM);
            }
            results
        };
        let by_speed = results(Merit::Speed);
        let names: Vec<&str> = by_speed.iter().map(|one| one.path.as_str()).collect();
        let baseline = paths::baseline(&names);
        let mut named = by_speed.iter().copied();
        let baseline = named.find(|one| Some(one.path.as_str()) == baseline);
        let choose = |results: &[&PathResult]| {
            let first = results.first()?;
            Some(Choice {
                win: win(results, Merit::Speed)?,
                times: baseline.and_then(|base| times(first, base, comparison.run.seed)),
            })
        };
        let quiet: Vec<&PathResult> = by_speed.iter().copied().filter(|one| !one.polls).collect();
        let leanest = win(&results(Merit::Efficiency), Merit::Efficiency);
        let (Some(fastest), Some(leanest)) = (choose(&by_speed), leanest) else {
            continue;
        };
        all.push(Advice {
            access,
            asleep: choose(&quiet).filter(|quiet| quiet.win.leader != fastest.win.leader),
            fastest,
            leanest,
        });
    }
    all
}

fn times<'a>(result: &PathResult, baseline: &'a PathResult, seed: u64) -> Option<Times<'a>> {
    if result.path == baseline.path || baseline.throughput_mib_s <= 0.0 {
        return None;
    }
    // Both were measured in the same rounds: a disturbance affects both.
    let pairs = result.samples.iter().filter_map(|ours| {
        let mut samples = baseline.samples.iter();
        let theirs = samples.find(|theirs| theirs.round == ours.round)?;
        Some((ours.throughput_mib_s, theirs.throughput_mib_s))
    });
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    Some(Times {
        baseline: &baseline.path,
        ratio: result.throughput_mib_s / baseline.throughput_mib_s,
        ci95: stats::ratio_interval(&ours, &theirs, f64::MIN_POSITIVE, seed),
    })
}

impl std::fmt::Display for Times<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} times {}", self.ratio, self.baseline)?;
        match self.ci95 {
            Some([low, high]) => write!(f, " (95 %: {low:.2} to {high:.2})"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let best = self.win.best();
        let more = best.len().saturating_sub(NAMES);
        let named = best.get(..best.len() - more).unwrap_or_default();
        f.write_str(&named.join(" or "))?;
        if more > 0 {
            write!(f, " or {more} others")?;
        }
        match &self.times {
            Some(times) if best.len() > 1 => write!(f, " (level), {}: {times}", self.win.leader)?,
            Some(times) => write!(f, ", {times}")?,
            None if best.len() > 1 => f.write_str(" (level)")?,
            None => {}
        }
        if self.win.certain {
            return Ok(());
        }
        f.write_str(" (too few rounds to be sure)")
    }
}

impl std::fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: take {}", self.access, self.fastest)?;
        match &self.asleep {
            Some(quiet) => write!(f, "; if no core may spin, {quiet}"),
            None => Ok(()),
        }
    }
}

impl Advice<'_> {
    /// The cells of a table row: names, speed and multiple of the fastest, the same without
    /// spinning, and the most efficient.
    pub(crate) fn cells(&self) -> Vec<String> {
        let names = |win: &Win| win.best().join(", ");
        let times =
            |choice: &Choice<'_>| choice.times.map_or("—".to_owned(), |one| one.to_string());
        let quiet = self.asleep.as_ref().unwrap_or(&self.fastest);
        vec![
            self.access.to_string(),
            names(&self.fastest.win),
            figure(self.fastest.win.highest),
            times(&self.fastest),
            names(&quiet.win),
            times(quiet),
            names(&self.leanest),
        ]
    }
}

/// The headings of [`Advice::cells`].
pub(crate) const HEADINGS: &str = "access|fastest|MiB/s|its speed|fastest while no core spins|its speed|\
                                   most for its processor time";

/// The answer in a sentence or two: the smallest blocks, where paths differ most, and the largest.
pub fn answer(advice: &[Advice<'_>]) -> String {
    let kind = |one: &Advice<'_>| one.access.kind();
    let is_random_read = |one: &&Advice<'_>| kind(one) == (Operation::Read, Pattern::Random);
    let Some(first) = advice.iter().find(is_random_read).or(advice.first()) else {
        return "No path could be measured.".to_owned();
    };
    let bytes = |one: &Advice<'_>| one.access.block_size_bytes;
    let same = |one: &&Advice<'_>| kind(one) == kind(first) && bytes(one) > bytes(first);
    let mut text = format!("For {first}.");
    if let Some(last) = advice.iter().rfind(same) {
        text += &format!(" For {last}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::comparison;

    /// `a` as the baseline, `slow` as a path that is half as fast in every round.
    fn named() -> Comparison {
        let mut all = comparison(6);
        all.results.retain(|one| one.path != "b");
        let base = all.results[0].clone();
        all.results.clear();
        for (path, polls, factor) in [
            ("block-direct", false, 1.0),
            ("straightway-poll", true, 3.0),
            ("chario", false, 2.0),
            ("ram", true, 9.0),
        ] {
            let mut one = base.clone();
            one.path = path.to_owned();
            one.polls = polls;
            one.throughput_mib_s *= factor;
            one.throughput_mib_s_ci95 =
                Some([one.throughput_mib_s - 0.1, one.throughput_mib_s + 0.1]);
            for sample in &mut one.samples {
                // Rounds differ a lot, but both paths of a round by the same factor.
                let swing = 1.0 + f64::from(sample.round);
                sample.throughput_mib_s = base.throughput_mib_s * factor * swing;
            }
            all.results.push(one);
        }
        all
    }

    #[test]
    fn the_answer_is_a_multiple_of_the_baseline_from_rounds_in_pairs_and_never_memory() {
        let all = named();
        let advice = advise(&all);
        let [one] = advice.as_slice() else {
            panic!("{advice:?}")
        };
        assert_eq!(one.fastest.win.best(), ["straightway-poll"]);
        let times = one.fastest.times.unwrap();
        assert_eq!(times.baseline, "block-direct");
        // Each pair of rounds has the same ratio, however much rounds differ.
        let [low, high] = times.ci95.unwrap();
        assert!(
            (times.ratio - 3.0).abs() < 1e-9
                && (low - 3.0).abs() < 1e-9
                && (high - 3.0).abs() < 1e-9
        );
        let quiet = one.asleep.as_ref().unwrap();
        assert_eq!(quiet.win.best(), ["chario"]);
        let text = answer(&advice);
        assert!(
            text.contains("take straightway-poll, 3.00 times block-direct (95 %: 3.00 to 3.00)"),
            "{text}"
        );
        assert!(
            text.contains("if no core may spin, chario, 2.00 times block-direct"),
            "{text}"
        );
        assert_eq!(one.cells().len(), HEADINGS.split('|').count());
    }

    #[test]
    fn without_a_baseline_or_results_there_is_an_answer_too() {
        let mut all = comparison(6);
        assert!(advise(&all).iter().all(|one| one.fastest.times.is_none()));
        assert!(answer(&advise(&all)).contains("a or b (level)"));
        all.results.clear();
        assert_eq!(answer(&advise(&all)), "No path could be measured.");
    }
}
