// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What limits each path.

use crate::{Page, Reportable, Section, Table};
use measure::explain::{Explained, Explanation, Limit};
use measure::format::{figure, yes};

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

fn lede(explained: &Explained) -> String {
    let confirmed = explained
        .explanations
        .iter()
        .filter(|one| one.confirmed)
        .count();
    format!(
        "Of {} paths, the limit of {confirmed} was confirmed by an experiment. A limit that was \
         not confirmed is a suspicion.",
        explained.explanations.len()
    )
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
    let head = "Change|MiB/s|times the rate|times the rate per CPU %|intervals apart";
    let mut section = Section::new(format!("{}: {}", one.path, limit(one)), "");
    section.tables.push(Table::of_facts(facts));
    section.table(head, rows)
}
