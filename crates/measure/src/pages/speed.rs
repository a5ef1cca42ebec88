//! What the processor's speed does to each path: rates over speeds, and the split of times.

use super::{Page, Report, Section, Table};
use crate::access::{Operation, Pattern};
use crate::chart::{Axis, Chart, Curve, Unit};
use crate::format::{duration, figure, half_width, size};
use crate::plot::legend_key;
use crate::report::ReportError;
use crate::run_info::RunInfo;
use crate::speed::{Scaling, Speed};

/// Above this the two parts do not describe the path.
const MISFIT: f64 = 0.1;

impl Report for Speed {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let title = "What the processor's speed changes".to_owned();
        let mut page = Page::new(&self.run, title, self.lede());
        if !self.scalings.is_empty() {
            page.sections.push(self.rates());
            page.sections.push(self.splits());
        }
        page.sections.push(self.speeds_table());
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = self.lede() + "\n";
        for one in &self.scalings {
            text += &format!(
                "  {:48} {:>6.2} times as fast, {} % of the time is the processor's{}\n",
                name(one),
                one.gain,
                share(one),
                if one.misfit > MISFIT {
                    " (the split does not fit)"
                } else {
                    ""
                }
            );
        }
        text
    }
}

fn name(one: &Scaling) -> String {
    format!(
        "{}, {} {} of {}",
        one.path,
        one.pattern,
        one.operation,
        size(one.block_size_bytes)
    )
}

/// The share of work in per cent, with half its interval.
fn share(one: &Scaling) -> String {
    let percent = 100.0 * one.work_share;
    let ci95 = one.work_share_ci95.map(|ends| ends.map(|end| 100.0 * end));
    match half_width(percent, ci95) {
        Some(half) => format!("{} ± {half}", figure(percent)),
        None => figure(percent),
    }
}

impl Speed {
    fn lede(&self) -> String {
        let count = self.speeds();
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return "Nothing was measured.".to_owned();
        };
        if count < 2 {
            return format!(
                "One speed ({}) tells nothing of the others: measure at a second one and join the two runs.",
                first.label
            );
        }
        format!(
            "{count} speeds, from {} to {}: a fixed loop took {} at the fastest and {} at the slowest.",
            first.label,
            last.label,
            duration(first.loop_ns),
            duration(last.loop_ns)
        )
    }

    fn kinds(&self) -> Vec<(Operation, Pattern, u64)> {
        let mut kinds: Vec<_> = self
            .scalings
            .iter()
            .map(|one| (one.operation, one.pattern, one.block_size_bytes))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for one in &self.scalings {
            if !names.contains(&one.path.as_str()) {
                names.push(&one.path);
            }
        }
        names
    }

    fn rates(&self) -> Section {
        let names = self.names();
        let panels = self.kinds().into_iter().map(|kind| {
            let (operation, pattern, bytes) = kind;
            let curves = names.iter().enumerate().filter_map(|(style, name)| {
                let one = self.scalings.iter().find(|one| {
                    (one.operation, one.pattern, one.block_size_bytes) == kind && one.path == *name
                })?;
                Some(Curve {
                    name: (*name).to_owned(),
                    style,
                    dashed: false,
                    marked: true,
                    points: one.rates.clone(),
                })
            });
            let heading = format!("{pattern} {operation} of {}", size(bytes));
            let chart = Chart {
                title: format!("Speed of {heading} by the processor's speed"),
                x: Axis::new("Processor's speed, 1 is the fastest", Unit::Number, false),
                y: Axis::new("MiB/s", Unit::Number, false),
                curves: curves.collect(),
                x_rule: None,
                y_rule: None,
            };
            (heading, chart.svg())
        });
        let legend = names.iter().enumerate();
        Section {
            title: "Rates by the processor's speed".into(),
            caption:
                "A line through 0 belongs to a path that only the processor limits; a level one \
                      to a path that waits for its drive."
                    .into(),
            legend: legend
                .map(|(style, name)| (legend_key(style, false), (*name).to_owned()))
                .collect(),
            panels: panels.collect(),
            ..Section::default()
        }
    }

    fn splits(&self) -> Section {
        let rows = self.scalings.iter().map(|one| {
            vec![
                name(one),
                format!("{:.2}", one.gain),
                duration(one.work_ns.max(0.0) as u64),
                duration(one.rest_ns.max(0.0) as u64),
                share(one),
                match one.misfit > MISFIT {
                    true => format!("NO: off by {:.0} %", 100.0 * one.misfit),
                    false => "yes".to_owned(),
                },
            ]
        });
        Section {
            title: "What grows as the processor slows".into(),
            caption:
                "The time of an operation is split into work, which takes twice as long at half \
                      the speed, and a rest that does not change. Shares are those at the fastest \
                      speed, with half their 95 % interval over rounds. In a virtual machine that \
                      counts instructions, a waiting loop counts as work."
                    .into(),
            tables: vec![Table::new(
                &[
                    "Path and access",
                    "gain, slowest to fastest",
                    "work",
                    "rest",
                    "share of work, %",
                    "fits",
                ],
                rows.collect(),
            )],
            ..Section::default()
        }
    }

    fn speeds_table(&self) -> Section {
        let fastest = self.points.first().map_or(1, |point| point.loop_ns).max(1);
        let rows = self.points.iter().map(|point| {
            vec![
                point.label.clone(),
                format!("{:.4}", fastest as f64 / point.loop_ns.max(1) as f64),
                duration(point.loop_ns),
                point.results.len().to_string(),
            ]
        });
        Section {
            title: "The speeds".into(),
            caption:
                "Measured by a loop of 200,000 multiplications, each waiting for the one before."
                    .into(),
            tables: vec![Table::new(
                &["Set by", "speed", "fixed loop", "results"],
                rows.collect(),
            )],
            ..Section::default()
        }
    }
}
