// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What limits each path.

use crate::{Page, Reportable, Section, Table};
use measure::explain::{Explained, Explanation, Limit};
use measure::format::{figure, yes};

/// The paths that the first sentence names.
const PATHS: usize = 4;

impl Reportable for Explained {
    fn page(&self) -> Page<'_> {
        let mut page = Page::new(&self.run, "What limits each path", lede(self));
        page.sections = self.explanations.iter().map(section).collect();
        page
    }
}

fn limit(one: &Explanation) -> String {
    match (one.limit, one.confirmed) {
        (Limit::Unknown, _) => "its limit is unknown".to_owned(),
        (limit, true) => format!("limited by {limit}"),
        (limit, false) => format!("perhaps limited by {limit} (not confirmed)"),
    }
}

fn name(one: &Explanation) -> String {
    let mib_s = figure(one.throughput_mib_s);
    let Explanation {
        path,
        access,
        queue_depth,
        ..
    } = one;
    format!("{path}, {access}, {queue_depth} in flight, {mib_s} MiB/s")
}

/// The answer of each path, the only one or the first ones.
fn lede(explained: &Explained) -> String {
    let every = &explained.explanations;
    let answers: Vec<String> = every
        .iter()
        .take(PATHS)
        .map(|one| format!("{}: {}", one.path, limit(one)))
        .collect();
    let mut text = match every.len() {
        0 => return "Nothing could be explained.".to_owned(),
        more if more > PATHS => format!("{}; {} more.", answers.join("; "), more - PATHS),
        _ => format!("{}.", answers.join("; ")),
    };
    if every
        .iter()
        .any(|one| !one.confirmed && one.limit != Limit::Unknown)
    {
        text += " What no experiment confirmed is a suspicion.";
    }
    text
}

fn section(one: &Explanation) -> Section {
    let rows = one.trials.iter().map(|trial| {
        vec![
            trial.change.clone(),
            figure(trial.throughput_mib_s),
            format!("{:.2}", trial.ratio),
            format!("{:.2}", trial.efficiency_ratio),
            yes(trial.certain),
        ]
    });
    let facts = vec![("asked", name(one)), ("reason", one.reason.clone())];
    let head = "Change|MiB/s|rate after over before|the same for each CPU %|intervals apart";
    let mut section = Section::new(format!("{}: {}", one.path, limit(one)), "");
    section.tables.push(Table::of_facts(facts));
    section.table(head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::access::{Access, Operation, Pattern};

    fn explained(limits: &[(Limit, bool)]) -> Explained {
        let one = |(at, (limit, confirmed)): (usize, &(Limit, bool))| Explanation {
            path: format!("path-{at}"),
            access: Access {
                operation: Operation::Read,
                pattern: Pattern::Random,
                block_size_bytes: 4096,
            },
            queue_depth: 1,
            throughput_mib_s: 10.0,
            cpu_percent: 50.0,
            limit: *limit,
            confirmed: *confirmed,
            reason: String::new(),
            trials: Vec::new(),
        };
        Explained {
            run: measure::run_info::RunInfo::default(),
            explanations: limits.iter().enumerate().map(one).collect(),
        }
    }

    #[test]
    fn the_first_sentence_is_the_answer() {
        let copying = (Limit::Copying, true);
        assert_eq!(
            lede(&explained(&[copying])),
            "path-0: limited by processor time in copying."
        );
        assert_eq!(
            lede(&explained(&[(Limit::Copying, false)])),
            "path-0: perhaps limited by processor time in copying (not confirmed). What no experiment \
             confirmed is a suspicion."
        );
        let two = lede(&explained(&[copying, (Limit::Unknown, false)]));
        assert_eq!(
            two,
            "path-0: limited by processor time in copying; path-1: its limit is unknown."
        );
        assert!(lede(&explained(&[copying; 6])).ends_with("; 2 more."));
        assert_eq!(lede(&explained(&[])), "Nothing could be explained.");
    }
}
