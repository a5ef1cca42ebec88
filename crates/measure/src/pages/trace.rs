//! Where the time of requests goes: averages, request by request, and the distribution.

use super::{Page, Report, Section, Table};
use crate::chart::{Axis, Chart, Curve, Unit, stacks, swatch};
use crate::format::{count, duration, figure, size};
use crate::report::ReportError;
use crate::run_info::RunInfo;
use crate::trace::Traced;
use crate::trace::parts::PARTS;

impl Report for Traced {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let title = format!(
            "Where the time of a {} of {} by {} goes",
            self.operation,
            size(self.block_size_bytes),
            self.path
        );
        let mut page = Page::new(&self.run, title, self.lede());
        page.sections = vec![self.averages(), self.one_by_one(), self.distribution()];
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.lede());
        for part in &self.parts {
            text += &format!(
                "  {:26} {:>9}  {:>5.1} %  median {:>9}, 99 % {:>9}\n",
                part.name,
                duration(part.mean_ns as u64),
                part.share * 100.0,
                duration(part.p50_ns),
                duration(part.p99_ns)
            );
        }
        text
    }
}

impl Traced {
    fn lede(&self) -> String {
        let most = self
            .parts
            .iter()
            .max_by(|a, b| a.mean_ns.total_cmp(&b.mean_ns));
        let most = most.map_or(String::new(), |part| {
            format!(
                " Most of it, {:.0} %, is {}.",
                part.share * 100.0,
                part.name
            )
        });
        let cost = match (self.source.as_str(), self.probe_cost_ns_ci95) {
            ("driver", _) => " The driver's own stamps tell.".to_owned(),
            (_, Some([low, high])) => format!(
                " Tracing added {} µs to the median request ({} to {}).",
                figure(self.probe_cost_ns / 1e3),
                figure(low / 1e3),
                figure(high / 1e3)
            ),
            _ => format!(" Tracing added {} µs.", figure(self.probe_cost_ns / 1e3)),
        };
        let lost = match self.lost_events {
            0 => String::new(),
            lost => format!(" The kernel lost {} events.", count(lost)),
        };
        format!(
            "{} requests took {} on average.{most} The parts explain {:.1} % of the time.{cost}{lost}",
            count(self.requests),
            duration(self.total_mean_ns as u64),
            self.coverage * 100.0,
        )
    }

    fn legend() -> Vec<(String, String)> {
        let key = |(style, name): (usize, &&str)| (swatch(style), (*name).to_owned());
        PARTS.iter().enumerate().map(key).collect()
    }

    fn averages(&self) -> Section {
        let parts = self.parts.iter().enumerate();
        let row = vec![(
            self.path.clone(),
            parts.map(|(style, part)| (style, part.mean_ns)).collect(),
        )];
        let rows = self.parts.iter().map(|part| {
            vec![
                part.name.clone(),
                duration(part.mean_ns as u64),
                format!("{:.1} %", part.share * 100.0),
                duration(part.p50_ns),
                duration(part.p99_ns),
            ]
        });
        Section {
            title: "On average".into(),
            caption: "From the application's call to its return; each instant belongs to one part."
                .into(),
            legend: Self::legend(),
            panels: vec![(
                format!("Mean of {} requests", count(self.requests)),
                stacks("Mean time of each part", &row, &PARTS),
            )],
            tables: vec![Table::new(
                &["Part", "mean", "share", "median", "99th percentile"],
                rows.collect(),
            )],
            wide: false,
        }
    }

    fn one_by_one(&self) -> Section {
        let rows: Vec<(String, Vec<(usize, f64)>)> = self
            .shown
            .iter()
            .enumerate()
            .map(|(index, parts)| {
                let parts = parts.iter().copied().enumerate().collect();
                ((index + 1).to_string(), parts)
            })
            .collect();
        Section {
            title: "Request by request".into(),
            caption:
                "The first of them, in the order in which they were made. Time that goes back and \
                      forth between two parts is drawn together."
                    .into(),
            legend: Self::legend(),
            panels: vec![(
                format!("{} requests", self.shown.len()),
                stacks("Parts of each request", &rows, &PARTS),
            )],
            ..Section::default()
        }
    }

    fn distribution(&self) -> Section {
        let chart = |title: &str, y: Axis, points: &Vec<(f64, f64)>| Chart {
            title: title.to_owned(),
            x: Axis::new("Time of a request", Unit::Nanoseconds, true),
            y,
            curves: vec![Curve {
                name: "total".into(),
                style: 0,
                dashed: false,
                marked: false,
                points: points.clone(),
            }],
            x_rule: None,
            y_rule: None,
        };
        let tail = Axis::new("Share that took longer", Unit::Share, true);
        let shape = Axis::new("Density per decade", Unit::Number, false);
        Section {
            title: "How they are distributed".into(),
            caption: "The tail is made of the samples themselves; the density shows a shape only."
                .into(),
            panels: vec![
                (
                    "Tail".into(),
                    chart("Share of requests that took longer", tail, &self.exceedance).svg(),
                ),
                (
                    "Shape".into(),
                    chart("Density of request times", shape, &self.density).svg(),
                ),
            ],
            legend: vec![(
                crate::plot::legend_key(0, false),
                "time of a request, all parts".into(),
            )],
            ..Section::default()
        }
    }
}
