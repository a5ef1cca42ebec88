//! What limits each path.

use super::{Page, Report, ReportError, Section};
use crate::explain::{Explained, Explanation, Limit};
use crate::format::{figure, yes};
use crate::run_info::RunInfo;

impl Report for Explained {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let mut page = Page::new(&self.run, "What limits each path", self.lede());
        page.sections = self.explanations.iter().map(section).collect();
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for one in &self.explanations {
            text += &format!("{}: {}\n  {}\n", name(one), limit(one), one.reason);
            for trial in &one.trials {
                text += &format!(
                    "  {:40} {:>9} MiB/s, {:.2} times{}\n",
                    trial.change,
                    figure(trial.throughput_mib_s),
                    trial.ratio,
                    match trial.certain {
                        true => "",
                        false => " (intervals overlap, or there are none)",
                    }
                );
            }
        }
        text
    }
}

fn limit(one: &Explanation) -> String {
    match (one.limit, one.confirmed) {
        (Limit::Unknown, _) => "what limits it is not known".to_owned(),
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

impl Explained {
    fn lede(&self) -> String {
        let confirmed = self.explanations.iter().filter(|one| one.confirmed).count();
        format!(
            "Of {} paths, the limit of {confirmed} was confirmed by changing something and measuring \
             again. A limit that was not confirmed is a suspicion.",
            self.explanations.len()
        )
    }
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
    let caption = format!("{}. {}.", name(one), one.reason);
    let head = "What was changed|MiB/s|times the rate|times the rate per CPU %|intervals apart";
    Section::new(format!("{}: {}", one.path, limit(one)), &caption).table(head, rows)
}
