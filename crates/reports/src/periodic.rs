// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A task that transfers a block every period.

use crate::chart::{BoxRow, boxes, swatch};
use crate::{Page, Reportable, Section};
use measure::access::Operation;
use measure::distribution::Band;
use measure::format::{count, duration, size};
use measure::periodic::{Periodic, PeriodicCell, Priority};

impl Reportable for Periodic {
    fn page(&self) -> Page<'_> {
        let bytes = size(self.block_size_bytes);
        let title = format!("A task that transfers {bytes} every period");
        let mut page = Page::new(&self.run, title, lede(self));
        for operation in [Operation::Read, Operation::Write] {
            for synchronous in [true, false] {
                let is_of = |cell: &&PeriodicCell| {
                    (cell.operation, cell.synchronous) == (operation, synchronous)
                };
                let cells: Vec<&PeriodicCell> = self.cells.iter().filter(is_of).collect();
                if !cells.is_empty() {
                    page.sections.push(section(operation, synchronous, &cells));
                }
            }
        }
        page.missing(&self.missing);
        page
    }
}

fn lede(periodic: &Periodic) -> String {
    let worst = periodic
        .cells
        .iter()
        .max_by_key(|cell| cell.response.max_ns);
    let steadiest = periodic
        .cells
        .iter()
        .min_by_key(|cell| cell.response.max_ns);
    let (Some(best), Some(worst)) = (steadiest, worst) else {
        return "Nothing could be measured.".to_owned();
    };
    let longest = |cell: &PeriodicCell| {
        let (path, load, priority) = (&cell.path, cell.load, cell.priority);
        let longest = duration(cell.response.max_ns);
        format!("{longest} ({path}, load {load}, priority {priority})")
    };
    if let [only] = periodic.cells.as_slice() {
        let (firings, longest) = (count(periodic.firings), longest(only));
        return format!(
            "{firings} firings under one condition. The longest response was {longest}."
        );
    }
    format!(
        "{} firings under each of {} conditions. The longest response was {}; the most predictable condition \
         never took longer than {}.",
        count(periodic.firings),
        periodic.cells.len(),
        longest(worst),
        longest(best),
    )
}

fn section(operation: Operation, synchronous: bool, cells: &[&PeriodicCell]) -> Section {
    let title = match (operation, synchronous) {
        (Operation::Read, _) => "Reads",
        (_, true) => "Writes, synchronous",
        (_, false) => "Writes, asynchronous",
    };
    let caption = "Boxes from the first to the third quartile, whiskers to the last sample within 1.5 times \
             that range, circles beyond. Times count from the intended firing.";
    let head = "Condition|period|median|quartiles|longest|outliers|overruns|bands of outliers";
    let legend = [(swatch(0), "SCHED_FIFO"), (swatch(1), "normal priority")];
    let rows = cells.iter().map(|cell| row(cell));
    let mut section = Section::new(title, caption)
        .legend(legend)
        .table(head, rows);
    let mut paths: Vec<&str> = cells.iter().map(|cell| cell.path.as_str()).collect();
    paths.dedup();
    for path in paths {
        let of_path = || cells.iter().filter(|cell| cell.path == path);
        let mut periods: Vec<u64> = of_path().map(|cell| cell.period_ns).collect();
        periods.sort_unstable();
        periods.dedup();
        let row = |cell: &&PeriodicCell| -> BoxRow {
            let every = match periods.len() {
                1 => String::new(),
                _ => format!("every {}, ", duration(cell.period_ns)),
            };
            let style = usize::from(cell.priority == Priority::Normal);
            let name = format!("{every}load {}, {}", cell.load, cell.priority);
            (name, style, cell.response.clone())
        };
        let rows: Vec<BoxRow> = of_path().map(row).collect();
        let rule = match periods.as_slice() {
            [period] => Some((*period as f64, "period")),
            _ => None,
        };
        let title = format!("Response times of {operation}s by {path}");
        section = section.panel(path, boxes(&title, "Response time", &rows, rule));
    }
    section
}

fn row(cell: &PeriodicCell) -> Vec<String> {
    let plot = &cell.response;
    let range = |low, high| format!("{} – {}", duration(low), duration(high));
    let band = |band: &Band| format!("{} × {}", band.count, range(band.low_ns, band.high_ns));
    let bands: Vec<String> = plot.bands.iter().take(6).map(band).collect();
    vec![
        format!("{}, load {}, {}", cell.path, cell.load, cell.priority),
        duration(cell.period_ns),
        duration(plot.median_ns),
        range(plot.quartile1_ns, plot.quartile3_ns),
        duration(plot.max_ns),
        plot.outliers.to_string(),
        cell.overruns.to_string(),
        if bands.is_empty() {
            "—".to_owned()
        } else {
            bands.join("; ")
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::distribution::BoxPlot;
    use measure::periodic::Load;

    fn cell(path: &str, max_ns: u64) -> PeriodicCell {
        PeriodicCell {
            path: path.to_owned(),
            operation: Operation::Read,
            priority: Priority::Normal,
            load: Load::None,
            synchronous: true,
            period_ns: 5_000_000,
            response: BoxPlot {
                max_ns,
                ..BoxPlot::default()
            },
            service: BoxPlot::default(),
            overruns: 0,
            failures: 0,
        }
    }

    #[test]
    fn one_condition_is_not_compared_with_itself() {
        let mut periodic = Periodic {
            run: measure::run_info::RunInfo::default(),
            block_size_bytes: 4096,
            firings: 10,
            cells: vec![cell("a", 2_000_000)],
            missing: Vec::new(),
        };
        let text = lede(&periodic);
        assert!(
            text.contains("one condition") && !text.contains("predictable"),
            "{text}"
        );
        periodic.cells.push(cell("b", 1_000_000));
        let text = lede(&periodic);
        assert!(
            text.contains("each of 2 conditions") && text.contains("(b, load"),
            "{text}"
        );
        periodic.cells.clear();
        assert_eq!(lede(&periodic), "Nothing could be measured.");
    }
}
