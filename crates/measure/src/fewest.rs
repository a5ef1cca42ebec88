// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which path costs the processor the fewest instructions: what can be told where times cannot.

use crate::access::Access;
use crate::advice::few;
use crate::findings::{self, Merit};
use crate::format::{capital, count};
use crate::schema::{Comparison, PathResult};
use crate::summary::rounded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of one path differ by up to about a hundredth from run to run: where the fewest are less
/// than this share apart, neither path is called better.
const LEVEL: f64 = 0.02;

/// The path with the fewest instructions for one access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fewest {
    /// Its name.
    pub path: String,
    /// Others that cannot be told from it: at most 2 % from the fewest, sorted by name.
    #[serde(default)]
    pub level: Vec<String>,
    /// Instructions of an operation, user space and kernel.
    pub instructions_per_operation: f64,
    /// An ordinary program's path, if its instructions were counted.
    pub baseline: Option<String>,
    /// The instructions of the baseline as a multiple of this path's.
    pub baseline_times: Option<f64>,
}

/// The paths of an access whose instructions were counted, the fewest first. Memory is not a path
/// to a drive.
pub(crate) fn counted(comparison: &Comparison, access: Access) -> Vec<(&PathResult, f64)> {
    let results = comparison.results.iter();
    let results = results.filter(|one| one.access == access && one.path != paths::RAM);
    let mut counted: Vec<(&PathResult, f64)> = results
        .filter_map(|one| Some((one, one.cost_per_operation?.instructions)))
        .collect();
    counted.sort_by(|(a, ours), (b, theirs)| ours.total_cmp(theirs).then(a.path.cmp(&b.path)));
    counted
}

/// Whether a comparison is ranked by instructions: its times are an emulator's or not valid, and
/// the instructions were counted.
pub fn counts_instead(comparison: &Comparison) -> bool {
    let run = &comparison.run;
    let has_times = run.valid && run.device.emulated(&run.environment_before).is_none();
    let is_counted = |one: &PathResult| one.cost_per_operation.is_some();
    !has_times && comparison.results.iter().any(is_counted)
}

/// The results of an access, best first: by speed, or by instructions where these count instead.
pub fn ranked(comparison: &Comparison, access: Access) -> Vec<&PathResult> {
    let mut results = findings::ranked(comparison, access, Merit::Speed);
    if counts_instead(comparison) {
        let instructions = |one: &PathResult| one.cost_per_operation.map(|cost| cost.instructions);
        let key = |one: &PathResult| instructions(one).unwrap_or(f64::INFINITY);
        results.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.path.cmp(&b.path)));
    }
    results
}

/// Those of an ordinary program's path.
fn baseline<'a>(counted: &[(&'a PathResult, f64)]) -> Option<(&'a PathResult, f64)> {
    let names: Vec<&str> = counted.iter().map(|(one, _)| one.path.as_str()).collect();
    let name = paths::baseline(&names)?;
    counted.iter().find(|(one, _)| one.path == name).copied()
}

/// The paths that are level with the first, which has the fewest instructions. They are sorted by
/// name, so that each run that finds them level says the same.
fn best<'a>(counted: &[(&'a PathResult, f64)]) -> Vec<(&'a PathResult, f64)> {
    let Some(&(_, fewest)) = counted.first() else {
        return Vec::new();
    };
    let level = counted.iter().copied();
    let mut level: Vec<_> = level
        .filter(|(_, instructions)| *instructions <= fewest * (1.0 + LEVEL))
        .collect();
    level.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
    level
}

fn without_spinning<'a>(counted: &[(&'a PathResult, f64)]) -> Vec<(&'a PathResult, f64)> {
    let quiet = counted.iter().filter(|(one, _)| !one.polls);
    quiet.copied().collect()
}

fn names(results: &[(&PathResult, f64)]) -> Vec<String> {
    results.iter().map(|(one, _)| one.path.clone()).collect()
}

/// The path with the fewest instructions; with `is_quiet` among those on which no core spins.
pub(crate) fn fewest(comparison: &Comparison, access: Access, is_quiet: bool) -> Option<Fewest> {
    let all = counted(comparison, access);
    let first = if is_quiet {
        best(&without_spinning(&all))
    } else {
        best(&all)
    };
    let (&(best, instructions), level) = first.split_first()?;
    let base = baseline(&all);
    Some(Fewest {
        path: best.path.clone(),
        level: names(level),
        instructions_per_operation: instructions,
        baseline: base.map(|(one, _)| one.path.clone()),
        baseline_times: base
            .filter(|_| instructions > 0.0)
            .map(|(_, theirs)| rounded(theirs / instructions)),
    })
}

/// `Random read 4 KiB: straightway-poll costs 410 instructions an operation, io_uring-polled 9,300
/// (22.7 times), block-direct 12,100 (29.5 times); without a spinning core straightway-interrupt
/// 5,200.`
pub(crate) fn sentence(comparison: &Comparison, access: Access) -> Option<String> {
    let all = counted(comparison, access);
    let first = best(&all);
    let (&(best, fewest), level) = first.split_first()?;
    let is_foreign = |name: &str| {
        paths::KINDS
            .iter()
            .all(|kind| kind.name != name || !kind.is_ours())
    };
    // The best that a program has without this project, and what an ordinary one has.
    let foreign = all.iter().find(|(one, _)| is_foreign(&one.path)).copied();
    let mut others: Vec<(&PathResult, f64)> = foreign.into_iter().chain(baseline(&all)).collect();
    others.retain(|(one, _)| first.iter().all(|(best, _)| best.path != one.path));
    others.dedup_by_key(|(one, _)| one.path.clone());
    let mut text = format!(
        "{}: {} costs {} instructions an operation",
        capital(&access.to_string()),
        best.path,
        whole(fewest)
    ) + &level_with(level);
    for (one, instructions) in others {
        text += &format!(", {} {}", one.path, whole(instructions));
        if fewest > 0.0 {
            text += &format!(" ({:.1} times)", instructions / fewest);
        }
    }
    let quiet = self::best(&without_spinning(&all));
    if let Some(((one, instructions), level)) = quiet.split_first() {
        let is_said = first.iter().any(|(best, _)| best.path == one.path);
        if !is_said {
            let instructions = whole(*instructions);
            text += &format!("; without a spinning core {} {instructions}", one.path);
            text += &level_with(level);
        }
    }
    Some(text + ".")
}

/// ` (level with chario-registered)`; nothing if none is.
fn level_with(level: &[(&PathResult, f64)]) -> String {
    if level.is_empty() {
        String::new()
    } else {
        format!(" (level with {})", few(&names(level)))
    }
}

/// `12,345`.
pub fn whole(instructions: f64) -> String {
    count(instructions.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{advise, answer};
    use crate::simulated::comparison;
    use crate::work::Cost;

    /// Paths that differ by their instructions only.
    fn costing(paths: &[(&str, bool, f64)]) -> Comparison {
        let mut all = comparison(6);
        let base = all.results[0].clone();
        all.results = Vec::new();
        for (path, polls, instructions) in paths {
            let mut one = base.clone();
            (one.path, one.polls) = ((*path).to_owned(), *polls);
            one.cost_per_operation = (*instructions > 0.0).then_some(Cost {
                instructions: *instructions,
                ..Cost::default()
            });
            all.results.push(one);
        }
        all.run.device.model = Some("QEMU NVMe Ctrl".to_owned());
        all
    }

    #[test]
    fn on_an_emulator_the_answer_is_by_instructions_and_names_few() {
        let all = costing(&[
            ("block-direct", false, 12_000.0),
            ("io_uring-polled", true, 9_000.0),
            ("straightway-poll", true, 400.0),
            ("straightway-interrupt", false, 3_000.0),
            ("chario", false, 5_000.0),
            ("ram", true, 1.0),
            ("ext4-direct", false, 0.0),
        ]);
        let text = answer(&all);
        let access = all.results[0].access;
        let expected = format!(
            "{}: straightway-poll costs 400 instructions an operation, io_uring-polled 9,000 (22.5 times), \
             block-direct 12,000 (30.0 times); without a spinning core straightway-interrupt 3,000.",
            capital(&access.to_string())
        );
        assert!(
            text.lines().count() <= 5 && text.contains(&expected),
            "{text}"
        );
        let advice = advise(&all);
        let any = advice[0].fewest_instructions.as_ref().unwrap();
        assert_eq!(
            (any.path.as_str(), any.baseline_times),
            ("straightway-poll", Some(30.0))
        );
        let quiet = advice[0]
            .fewest_instructions_without_spinning
            .as_ref()
            .unwrap();
        assert_eq!(
            (quiet.path.as_str(), quiet.baseline_times),
            ("straightway-interrupt", Some(4.0))
        );
    }

    #[test]
    fn counts_that_differ_by_less_than_they_repeat_are_level_in_either_order() {
        let with = |one: f64, other: f64| {
            let all = costing(&[
                ("block-direct", false, 12_000.0),
                ("straightway-poll", true, 400.0),
                ("chario-registered", false, one),
                ("chario-phys", false, other),
                ("chario", false, 8_300.0),
            ]);
            let advice = advise(&all);
            let quiet = advice[0].fewest_instructions_without_spinning.clone();
            (answer(&all), quiet.unwrap())
        };
        for (one, other) in [(7_816.0, 7_796.0), (7_796.0, 7_816.0)] {
            let (text, quiet) = with(one, other);
            let said = format!(
                "without a spinning core chario-phys {} (level with chario-registered).",
                whole(other)
            );
            assert!(text.contains(&said), "{text}");
            assert_eq!(quiet.path, "chario-phys");
            assert_eq!(quiet.level, ["chario-registered"]);
        }
        let (text, quiet) = with(7_600.0, 7_800.0);
        assert!(text.contains("core chario-registered 7,600."), "{text}");
        assert!(quiet.level.is_empty());
    }

    #[test]
    fn a_run_that_is_not_valid_is_ranked_by_instructions_and_says_why() {
        let mut all = costing(&[
            ("block-direct", false, 12_000.0),
            ("chario", false, 6_000.0),
        ]);
        all.run.invalidate("the machine was busy");
        let text = answer(&all);
        assert!(
            text.contains("the machine was busy") && text.contains("chario costs 6,000"),
            "{text}"
        );
        for one in &mut all.results {
            one.cost_per_operation = None;
        }
        assert!(answer(&all).starts_with("Cannot tell"), "{}", answer(&all));
    }
}
