// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which path to use: for each access the fastest that is shown to be faster than an ordinary
//! program's, or that one.

use crate::access::{Access, Operation, Pattern};
use crate::fewest::{self, Fewest, fewest};
use crate::findings::{Merit, is_level, paired, ranked, win};
use crate::format::capital;
use crate::schema::{Ci95, Comparison, PathResult};
use crate::summary::rounded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of names in a sentence or a cell.
const NAMES: usize = 3;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Take this path: it is faster than the baseline, or none was measured.
    Take,
    /// Stay with the baseline: no path is shown to be faster.
    Stay,
    /// The run is not valid, or its times are an emulator's.
    CannotTell,
}

/// A recommended path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pick {
    /// What to do.
    pub verdict: Verdict,
    /// The path to take or to stay with.
    pub path: String,
    /// Others that are level with it, the one with the highest mean first: the interval of the
    /// ratio, from rounds of both paths taken in pairs, contains 1.
    pub level: Vec<String>,
    /// An ordinary program's path, to which speeds are compared; null if none was measured.
    pub baseline: Option<String>,
    /// The path with the highest mean.
    pub fastest: String,
    /// The path's speed as a multiple of the baseline's; of `fastest` if the path is the baseline.
    pub times_baseline: Option<f64>,
    /// Its 95 % interval, from rounds of both paths taken in pairs; null with too few rounds.
    pub times_baseline_ci95: Ci95,
}

/// The recommendation for one access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Among all paths.
    pub any: Pick,
    /// Among those on which no processor spins; null if none of them was measured.
    pub without_spinning: Option<Pick>,
    /// Those that move the most data for their processor time; empty if nothing can be told.
    pub leanest: Vec<String>,
    /// Among all paths whose instructions were counted, whatever the times are worth; null if
    /// nothing was.
    #[serde(default)]
    pub fewest_instructions: Option<Fewest>,
    /// Among those of them on which no processor spins.
    #[serde(default)]
    pub fewest_instructions_without_spinning: Option<Fewest>,
}

/// Why no path can be recommended by its times.
fn doubt(comparison: &Comparison) -> Option<String> {
    let run = &comparison.run;
    let invalid = run.invalid_reasons.first();
    invalid
        .map(|reason| format!("the run is not valid: {reason}"))
        .or_else(|| (!run.valid).then(|| "the run is not valid".to_owned()))
}

fn is_emulated(comparison: &Comparison) -> bool {
    let run = &comparison.run;
    run.device.emulated(&run.environment_before).is_some()
}

/// The recommendations for each access of a comparison. Memory is not a path to a drive, so it is
/// excluded.
pub fn advise(comparison: &Comparison) -> Vec<Advice> {
    let is_unknown = doubt(comparison).is_some() || is_emulated(comparison);
    let seed = comparison.run.seed;
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
        let judged = |results: &[&PathResult]| {
            let mut pick = pick(results, baseline, seed)?;
            if is_unknown {
                pick.verdict = Verdict::CannotTell;
            }
            Some(pick)
        };
        let quiet: Vec<&PathResult> = by_speed.iter().copied().filter(|one| !one.polls).collect();
        let Some(any) = judged(&by_speed) else {
            continue;
        };
        let leanest = win(&results(Merit::Efficiency), Merit::Efficiency, None);
        let leanest = leanest.filter(|_| !is_unknown).map(|win| {
            let best = std::iter::once(win.leader).chain(win.level);
            best.collect()
        });
        all.push(Advice {
            access,
            any,
            without_spinning: judged(&quiet),
            leanest: leanest.unwrap_or_default(),
            fewest_instructions: fewest(comparison, access, false),
            fewest_instructions_without_spinning: fewest(comparison, access, true),
        });
    }
    all
}

/// The path to take among `results`, which are sorted: best first.
fn pick(results: &[&PathResult], baseline: Option<&PathResult>, seed: u64) -> Option<Pick> {
    let fastest = *results.first()?;
    let times = |result: &PathResult| paired(result, baseline?, seed);
    let is_faster = |result: &PathResult| times(result).is_some_and(|[low, _]| low > 1.0);
    let shown = results.iter().copied().find(|result| is_faster(result));
    let (verdict, path) = match (shown, baseline) {
        (Some(path), _) => (Verdict::Take, path),
        (None, Some(baseline)) => (Verdict::Stay, baseline),
        (None, None) => (Verdict::Take, fastest),
    };
    let others = results.iter().copied().filter(|one| one.path != path.path);
    let level = others.filter(|other| is_level(path, other, seed));
    let compared = if verdict == Verdict::Stay {
        fastest
    } else {
        path
    };
    let base_mib_s = baseline.map_or(0.0, |one| one.throughput_mib_s);
    let is_other = baseline.is_some_and(|one| one.path != compared.path) && base_mib_s > 0.0;
    Some(Pick {
        verdict,
        path: path.path.clone(),
        level: level.map(|one| one.path.clone()).collect(),
        baseline: baseline.map(|one| one.path.clone()),
        fastest: fastest.path.clone(),
        times_baseline: is_other.then(|| rounded(compared.throughput_mib_s / base_mib_s)),
        times_baseline_ci95: is_other
            .then(|| times(compared))
            .flatten()
            .map(|ends| ends.map(rounded)),
    })
}

/// At most [`NAMES`] names, and the number of the others.
pub(crate) fn few(names: &[String]) -> String {
    let shown = names.get(..names.len().min(NAMES)).unwrap_or_default();
    match (names.len() - shown.len(), shown.split_last()) {
        (0, Some((last, rest))) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        (0, _) => shown.concat(),
        (1, _) => format!("{} and 1 other", shown.join(", ")),
        (more, _) => format!("{} and {more} others", shown.join(", ")),
    }
}

impl Pick {
    /// `2.34 times block-direct (95 %: 0.95 to 5.00)`.
    fn times(&self) -> Option<String> {
        let (ratio, baseline) = (self.times_baseline?, self.baseline.as_ref()?);
        Some(match self.times_baseline_ci95 {
            Some([low, high]) => {
                format!("{ratio:.2} times {baseline} (95 %: {low:.2} to {high:.2})")
            }
            None => format!("{ratio:.2} times {baseline}"),
        })
    }

    /// Why to stay, or how much faster it is, and with what it is level.
    fn reason(&self) -> String {
        match self.verdict {
            Verdict::CannotTell => String::new(),
            Verdict::Take => {
                let level =
                    (!self.level.is_empty()).then(|| format!("level with {}", few(&self.level)));
                let parts: Vec<String> = self.times().into_iter().chain(level).collect();
                parts.join("; ")
            }
            Verdict::Stay => match self.times() {
                Some(times) if self.times_baseline_ci95.is_some() => {
                    format!("no path is shown to be faster; {}: {times}", self.fastest)
                }
                Some(times) => format!(
                    "too few rounds to show a faster path; {}: {times}",
                    self.fastest
                ),
                None => "no path is faster".to_owned(),
            },
        }
    }

    /// The path, and a note.
    fn cell(&self) -> String {
        match self.verdict {
            Verdict::CannotTell => "cannot tell".to_owned(),
            Verdict::Take | Verdict::Stay => format!("{}\n{}", self.path, self.reason()),
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (&self.path, self.reason());
        match self.verdict {
            Verdict::CannotTell => f.write_str("cannot tell"),
            Verdict::Take if reason.is_empty() => write!(f, "take {path}"),
            Verdict::Take => write!(f, "take {path}, {reason}"),
            Verdict::Stay => write!(f, "stay with {path}: {reason}"),
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.access, self.any)?;
        match &self.without_spinning {
            Some(quiet) if quiet.path != self.any.path => {
                write!(f, "; without a spinning core {quiet}")
            }
            _ => Ok(()),
        }
    }
}

impl Advice {
    /// The path with the fewest instructions, and how many the baseline has.
    fn instructions(&self) -> String {
        let Some(best) = &self.fewest_instructions else {
            return "not counted".to_owned();
        };
        let mut text = format!(
            "{}\n{} an operation",
            best.path,
            fewest::whole(best.instructions_per_operation)
        );
        if !best.level.is_empty() {
            text += &format!("; level with {}", few(&best.level));
        }
        if let (Some(name), Some(times)) = (&best.baseline, best.baseline_times) {
            if *name != best.path {
                text += &format!("; {name}: {times:.1} times as many");
            }
        }
        text
    }

    /// The cells of a table row.
    pub fn cells(&self) -> Vec<String> {
        let quiet = self.without_spinning.as_ref();
        vec![
            capital(&self.access.to_string()),
            self.any.cell(),
            quiet.map_or("—".to_owned(), Pick::cell),
            few(&self.leanest),
            self.instructions(),
        ]
    }
}

/// The headings of [`Advice::cells`].
pub const HEADINGS: &str =
    "Access|Take|Without a spinning core|Most data for its processor time|Fewest instructions";

/// The answer in at most five lines: the smallest blocks, where paths differ most, and the largest.
/// By instructions, or else by commands and interrupts, if the times are an emulator's.
pub fn answer(comparison: &Comparison) -> String {
    let advice = advise(comparison);
    let chosen = first_and_last(&advice);
    let doubt = doubt(comparison);
    if doubt.is_some() || is_emulated(comparison) {
        let counted = chosen.iter();
        let counted = counted.filter_map(|one| fewest::sentence(comparison, one.access));
        let counted: Vec<String> = counted.collect();
        if !counted.is_empty() {
            let why = doubt.unwrap_or_else(|| "times are the emulator’s".to_owned());
            let first = format!("By instructions, which repeat ({why}):");
            return [vec![first], counted].concat().join("\n");
        }
    }
    if let Some(doubt) = doubt {
        return format!("Cannot tell which path is faster: {doubt}.");
    }
    if chosen.is_empty() {
        return "No path could be measured.".to_owned();
    }
    let lines: Vec<String> = if is_emulated(comparison) {
        let first = "No path is recommended by an emulator’s times. Commands and interrupts for each operation:";
        // The smallest blocks of each kind: the others differ by commands only.
        let mut chosen = chosen;
        chosen.dedup_by_key(|one| one.access.kind());
        let counts = chosen.iter().map(|one| counts(comparison, one.access));
        std::iter::once(first.to_owned()).chain(counts).collect()
    } else {
        let said = chosen.iter().map(|one| capital(&format!("{one}.")));
        said.collect()
    };
    lines.join("\n")
}

/// Random reads if there are any, else the first kind, then random writes: the smallest blocks and
/// the largest of each.
fn first_and_last(advice: &[Advice]) -> Vec<&Advice> {
    let ends = |(operation, pattern): (Operation, Pattern)| {
        let is_of_kind = |one: &&Advice| one.access.kind() == (operation, pattern);
        let first = advice.iter().find(is_of_kind);
        let last = advice.iter().rfind(is_of_kind);
        let last = last.filter(|last| first.is_some_and(|one| one.access != last.access));
        first.into_iter().chain(last)
    };
    let mut chosen: Vec<&Advice> = ends((Operation::Read, Pattern::Random)).collect();
    chosen.extend(ends((Operation::Write, Pattern::Random)));
    if chosen.is_empty() {
        if let Some(first) = advice.first() {
            chosen.extend(ends(first.access.kind()));
        }
    }
    chosen
}

/// Commands and interrupts for each operation, with the paths that have these, the fewest first.
fn counts(comparison: &Comparison, access: Access) -> String {
    let mut groups: Vec<((String, String), Vec<String>)> = Vec::new();
    let mut uncounted = Vec::new();
    let mut results = ranked(comparison, access, Merit::Speed);
    results.retain(|result| result.path != paths::RAM);
    let order = |result: &&PathResult| {
        let [commands, interrupts] = tenths(result);
        (interrupts, commands, result.path.clone())
    };
    results.sort_by_key(order);
    for result in results {
        let [Some(commands), Some(interrupts)] = tenths(result) else {
            uncounted.push(result.path.clone());
            continue;
        };
        let key = (shown(commands), shown(interrupts));
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, names)) => names.push(result.path.clone()),
            None => groups.push((key, vec![result.path.clone()])),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for ((commands, interrupts), names) in &groups {
        parts.push(format!("{} {commands} and {interrupts}", few(names)));
    }
    if !uncounted.is_empty() {
        parts.push(format!("{} not counted", few(&uncounted)));
    }
    format!("{}: {}.", capital(&access.to_string()), parts.join("; "))
}

/// Commands and interrupts for each operation, in tenths.
fn tenths(result: &PathResult) -> [Option<u64>; 2] {
    let counts = [
        result.device_commands_per_operation,
        result.interrupts_per_operation,
    ];
    counts.map(|count| count.map(|count| (10.0 * count).round() as u64))
}

/// `1`, `0.5`.
fn shown(tenths: u64) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        part => format!("{}.{part}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::comparison;

    /// These paths, whether they poll, and each one's speed in six rounds as a multiple of the
    /// baseline's.
    fn measured(paths: &[(&str, bool, [f64; 6])]) -> Comparison {
        let mut all = comparison(6);
        let base = all.results[0].clone();
        all.results = Vec::new();
        for (path, polls, factors) in paths {
            let mut one = base.clone();
            one.path = (*path).to_owned();
            one.polls = *polls;
            for (sample, factor) in one.samples.iter_mut().zip(factors) {
                // Rounds differ a lot, but all paths of a round by the same factor.
                sample.throughput_mib_s = 100.0 * factor * (1.0 + f64::from(sample.round));
            }
            let sum: f64 = one.samples.iter().map(|one| one.throughput_mib_s).sum();
            one.throughput_mib_s = sum / one.samples.len() as f64;
            // Each path's own interval has room for every other path's.
            one.throughput_mib_s_ci95 = Some([1.0, 10_000.0]);
            all.results.push(one);
        }
        all
    }

    const NOISY: [f64; 6] = [0.4, 3.0, 0.5, 2.5, 0.4, 2.0];

    fn named() -> Comparison {
        measured(&[
            ("block-direct", false, [1.0; 6]),
            ("straightway-poll", true, [3.0; 6]),
            ("chario", false, [2.0; 6]),
            ("ram", true, [9.0; 6]),
        ])
    }

    #[test]
    fn the_answer_is_a_multiple_of_the_baseline_from_rounds_in_pairs_and_never_memory() {
        let all = named();
        let advice = advise(&all);
        let [one] = advice.as_slice() else {
            panic!("{advice:?}")
        };
        assert_eq!(
            (one.any.verdict, one.any.path.as_str()),
            (Verdict::Take, "straightway-poll")
        );
        assert!(one.any.level.is_empty());
        assert_eq!(one.any.baseline.as_deref(), Some("block-direct"));
        // Each pair of rounds has the same ratio, however much rounds differ.
        let [low, high] = one.any.times_baseline_ci95.unwrap();
        let ratio = one.any.times_baseline.unwrap();
        assert!(
            [ratio, low, high]
                .iter()
                .all(|times| (times - 3.0).abs() < 1e-9)
        );
        let text = answer(&all);
        assert!(
            text.contains("take straightway-poll, 3.00 times block-direct (95 %: 3.00 to 3.00)"),
            "{text}"
        );
        assert!(
            text.contains("without a spinning core take chario, 2.00 times block-direct"),
            "{text}"
        );
        assert_eq!(one.cells().len(), HEADINGS.split('|').count());
    }

    #[test]
    fn no_path_that_polls_is_named_where_no_core_may_spin() {
        let all = measured(&[
            ("block-direct", false, [1.0; 6]),
            ("chario", false, [2.0; 6]),
            ("chario-poll", true, [2.0, 1.9, 2.1, 2.0, 1.9, 2.05]),
        ]);
        let advice = advise(&all);
        assert_eq!(advice[0].any.path, "chario");
        assert_eq!(advice[0].any.level, ["chario-poll"]);
        let quiet = advice[0].without_spinning.as_ref().unwrap();
        assert_eq!((quiet.path.as_str(), quiet.level.len()), ("chario", 0));
        assert!(!advice[0].cells()[2].contains("poll"), "{advice:?}");
    }

    #[test]
    fn where_no_path_is_shown_to_be_faster_the_advice_is_to_stay_and_few_are_named() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, false, NOISY));
        let paths = [&[("block-direct", false, [1.0; 6])], &many[..]].concat();
        let all = measured(&paths);
        let advice = advise(&all);
        assert_eq!(
            (advice[0].any.verdict, advice[0].any.path.as_str()),
            (Verdict::Stay, "block-direct")
        );
        assert!(advice[0].any.times_baseline.unwrap() > 1.0);
        let text = answer(&all);
        assert!(
            text.contains("stay with block-direct: no path is shown to be faster"),
            "{text}"
        );
        let named = many
            .iter()
            .filter(|(name, ..)| text.contains(&format!(" {name}")))
            .count();
        assert!(named <= NAMES && text.lines().count() <= 5, "{text}");
    }

    #[test]
    fn one_that_is_shown_to_be_faster_is_taken_although_another_has_a_higher_mean() {
        let all = measured(&[
            ("block-direct", false, [1.0; 6]),
            ("chario", false, [1.1; 6]),
            ("straightway-poll", true, NOISY),
        ]);
        let advice = advise(&all);
        assert_eq!(advice[0].any.fastest, "straightway-poll");
        assert_eq!(
            (advice[0].any.verdict, advice[0].any.path.as_str()),
            (Verdict::Take, "chario")
        );
        assert_eq!(advice[0].any.level, ["straightway-poll"]);
    }

    #[test]
    fn a_run_that_is_not_valid_has_no_advice() {
        let mut all = named();
        all.run.invalidate("the machine was busy");
        assert_eq!(advise(&all)[0].any.verdict, Verdict::CannotTell);
        assert_eq!(
            answer(&all),
            "Cannot tell which path is faster: the run is not valid: the machine was busy."
        );
    }

    #[test]
    fn an_emulated_drive_has_counts_instead_of_advice() {
        let mut all = named();
        all.run.device.model = Some("QEMU NVMe Ctrl".into());
        for (result, interrupts) in all.results.iter_mut().zip([1.0, 0.0, 1.02, 0.0]) {
            result.device_commands_per_operation = Some(1.0);
            result.interrupts_per_operation = Some(interrupts);
        }
        let text = answer(&all);
        assert!(
            text.ends_with("straightway-poll 1 and 0; block-direct and chario 1 and 1."),
            "{text}"
        );
        assert!(!text.contains("take "), "{text}");
        let told = serde_json::to_value(advise(&all)).unwrap();
        assert_eq!(told[0]["any"]["verdict"], "cannot_tell");
    }

    #[test]
    fn without_a_baseline_or_results_there_is_an_answer_too() {
        let mut all = comparison(6);
        let advice = advise(&all);
        assert!(advice.iter().all(|one| one.any.times_baseline.is_none()));
        assert!(answer(&all).contains("level with"), "{}", answer(&all));
        assert_eq!(all.advice, advice);
        all.results.clear();
        assert_eq!(answer(&all), "No path could be measured.");
    }
}
