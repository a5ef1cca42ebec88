//! A periodic task: box plots of its response times, and the bands of its outliers.

use super::{Page, Report, Section, Table};
use crate::access::Operation;
use crate::chart::{BoxRow, boxes, swatch};
use crate::format::{count, duration, size};
use crate::periodic::{Periodic, PeriodicCell, Priority};
use crate::report::ReportError;
use crate::run_info::RunInfo;

impl Report for Periodic {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let title = format!(
            "A task that moves {} every period",
            size(self.block_size_bytes)
        );
        let mut page = Page::new(&self.run, title, self.lede());
        for operation in [Operation::Read, Operation::Write] {
            for synchronous in [true, false] {
                let cells: Vec<&PeriodicCell> = self
                    .cells
                    .iter()
                    .filter(|cell| (cell.operation, cell.synchronous) == (operation, synchronous))
                    .collect();
                if !cells.is_empty() {
                    page.sections.push(section(operation, synchronous, &cells));
                }
            }
        }
        if !self.missing.is_empty() {
            let rows = self
                .missing
                .iter()
                .map(|one| vec![one.path.clone(), one.reason.clone(), one.hint.clone()]);
            page.sections.push(Section {
                title: "Not measured".into(),
                tables: vec![Table::new(&["Path", "why", "hint"], rows.collect())],
                ..Section::default()
            });
        }
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.lede());
        for cell in &self.cells {
            text += &format!(
                "  {:22} {:5} {:6} load {:6} {:5} every {:>8}: median {:>8}, longest {:>8}, {} overruns, {} outliers\n",
                cell.path,
                cell.operation,
                cell.priority,
                cell.load,
                if cell.synchronous { "sync" } else { "async" },
                duration(cell.period_ns),
                duration(cell.response.median_ns),
                duration(cell.response.max_ns),
                cell.overruns,
                cell.response.outliers,
            );
        }
        for missing in &self.missing {
            text += &format!(
                "  {}: {}; hint: {}\n",
                missing.path, missing.reason, missing.hint
            );
        }
        text
    }
}

impl Periodic {
    fn lede(&self) -> String {
        let worst = self.cells.iter().max_by_key(|cell| cell.response.max_ns);
        let steadiest = self.cells.iter().min_by_key(|cell| cell.response.max_ns);
        match (steadiest, worst) {
            (Some(best), Some(worst)) => format!(
                "{} firings under each of {} conditions. The longest response was {} ({}, load {}, \
                 priority {}); the most predictable condition never took longer than {} ({}, load {}, \
                 priority {}).",
                count(self.firings),
                self.cells.len(),
                duration(worst.response.max_ns),
                worst.path,
                worst.load,
                worst.priority,
                duration(best.response.max_ns),
                best.path,
                best.load,
                best.priority,
            ),
            _ => "Nothing could be measured.".to_owned(),
        }
    }
}

fn section(operation: Operation, synchronous: bool, cells: &[&PeriodicCell]) -> Section {
    let mut paths: Vec<&str> = Vec::new();
    for cell in cells {
        if !paths.contains(&cell.path.as_str()) {
            paths.push(&cell.path);
        }
    }
    let style = |priority| match priority {
        Priority::Normal => 1,
        Priority::Fifo => 0,
    };
    let panels = paths.iter().map(|path| {
        let of_path: Vec<&&PeriodicCell> = cells.iter().filter(|cell| cell.path == *path).collect();
        let mut periods: Vec<u64> = of_path.iter().map(|cell| cell.period_ns).collect();
        periods.sort_unstable();
        periods.dedup();
        let rows: Vec<BoxRow> = of_path
            .iter()
            .map(|cell| BoxRow {
                name: match periods.len() {
                    1 => format!("load {}, {}", cell.load, cell.priority),
                    _ => format!(
                        "every {}, load {}, {}",
                        duration(cell.period_ns),
                        cell.load,
                        cell.priority
                    ),
                },
                style: style(cell.priority),
                plot: cell.response.clone(),
            })
            .collect();
        let rule = match periods.as_slice() {
            [period] => Some((*period as f64, "period")),
            _ => None,
        };
        let title = format!("Response times of {operation}s by {path}");
        (
            (*path).to_owned(),
            boxes(&title, "Response time", &rows, rule),
        )
    });
    let rows = cells.iter().map(|cell| {
        let plot = &cell.response;
        let bands: Vec<String> = plot
            .bands
            .iter()
            .take(6)
            .map(|band| {
                format!(
                    "{} × {} – {}",
                    band.count,
                    duration(band.low_ns),
                    duration(band.high_ns)
                )
            })
            .collect();
        vec![
            format!("{}, load {}, {}", cell.path, cell.load, cell.priority),
            duration(cell.period_ns),
            duration(plot.median_ns),
            format!(
                "{} – {}",
                duration(plot.quartile1_ns),
                duration(plot.quartile3_ns)
            ),
            duration(plot.max_ns),
            plot.outliers.to_string(),
            cell.overruns.to_string(),
            if bands.is_empty() {
                "—".to_owned()
            } else {
                bands.join("; ")
            },
        ]
    });
    let how = match (operation, synchronous) {
        (Operation::Read, _) => "",
        (_, true) => ", synchronous",
        (_, false) => ", asynchronous",
    };
    Section {
        title: format!("{}s{how}", if operation == Operation::Read { "Read" } else { "Write" }),
        caption: "Boxes from the first to the third quartile, whiskers to the last sample within one and a \
                  half of that, circles beyond. Times count from the intended firing."
            .into(),
        legend: vec![
            (swatch(0), "SCHED_FIFO".into()),
            (swatch(1), "normal priority".into()),
        ],
        panels: panels.collect(),
        tables: vec![Table::new(
            &["Condition", "period", "median", "quartiles", "longest", "outliers", "overruns", "bands of outliers"],
            rows.collect(),
        )],
        wide: false,
    }
}
