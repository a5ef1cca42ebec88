//! The report of a sweep: ranked paths, speed and efficiency by block size and depth, fio beside us.

use super::{Page, Report, Section, Table};
use crate::access::{Operation, Pattern};
use crate::advice::{self, Advice, advise};
use crate::chart::{Axis, Chart, Curve, Unit};
use crate::findings::{Merit, Win};
use crate::format::{figure, half_width, size};
use crate::plot::{Line, Plot, Point, Range, legend_key, styles};
use crate::report::{ReportError, leaders};
use crate::run_info::RunInfo;
use crate::schema::{Ci95, Comparison, PathResult};
use crate::sweep::Sweep;

type Value = fn(&PathResult) -> (f64, Ci95);

impl Report for Sweep {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let device = &self.run.device;
        let drive = device.model.clone().unwrap_or_else(|| device.name.clone());
        let title = format!("What each path to {drive} gives, from small blocks to large");
        let mut page = Page::new(&self.run, title, self.lede());
        page.sections.extend(self.which());
        page.sections.push(self.ranked());
        page.sections.push(self.by_size("Speed", "MiB/s", |r| {
            (r.throughput_mib_s, r.throughput_mib_s_ci95)
        }));
        page.sections
            .push(self.by_size("Processor time", "% of one core", |r| {
                (r.cpu_percent, r.cpu_percent_ci95)
            }));
        page.sections
            .push(self.by_size("Efficiency", "MiB/s per CPU %", |r| {
                (r.mib_s_per_cpu_percent, r.mib_s_per_cpu_percent_ci95)
            }));
        if self.differ(|one| one.queue_depth) {
            page.sections.push(self.by_depth());
        }
        if self.differ(|one| one.threads) {
            page.sections.push(self.by_threads());
        }
        if !self.agreements.is_empty() || !self.fio_missing.is_empty() {
            page.sections.push(self.beside_fio());
        }
        page.sections.push(self.everything());
        let missing = self.missing();
        if !missing.rows.is_empty() {
            page.sections.push(Section {
                title: "Not measured".into(),
                tables: vec![missing],
                ..Section::default()
            });
        }
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for comparison in &self.comparisons {
            text += &format!(
                "In flight: {}\n\n",
                in_flight(comparison.threads, comparison.queue_depth)
            );
            text += &crate::table(comparison);
            text.push('\n');
        }
        for agreement in &self.agreements {
            let verdict = match agreement.agrees {
                Some(true) => "agree",
                Some(false) if agreement.explained => "differ by fio's own time",
                Some(false) => "DO NOT AGREE",
                None => "too few rounds",
            };
            text += &format!(
                "fio beside us: {} {} {} {}, {} in flight: {} and {} MiB/s: {verdict}\n",
                agreement.path,
                agreement.pattern,
                agreement.operation,
                size(agreement.block_size_bytes),
                agreement.queue_depth,
                figure(agreement.ours_mean_mib_s),
                figure(agreement.fio_mean_mib_s),
            );
        }
        for why in &self.fio_missing {
            text += &format!("fio was not asked: {why}\n");
        }
        text
    }
}

/// A mean, and half of its interval where there is one.
fn with_half(mean: f64, ci95: Ci95) -> String {
    match half_width(mean, ci95) {
        Some(half) => format!("{} ± {half}", figure(mean)),
        None => figure(mean),
    }
}

fn sure(win: &Win) -> &'static str {
    match win.certain {
        true => "",
        false => " (too few rounds to be sure)",
    }
}

/// `8`, or `4 x 8` for four threads.
fn in_flight(threads: u16, depth: u16) -> String {
    match threads {
        1 => depth.to_string(),
        threads => format!("{threads} × {depth}"),
    }
}

impl Sweep {
    fn lede(&self) -> String {
        let ranking = self.ranking();
        let Some(first) = ranking.first() else {
            return "No path could be measured.".into();
        };
        let advice = self.comparisons.first().map(advise).unwrap_or_default();
        let mut text = advice::answer(&advice);
        text += &format!(
            " {} paths were asked for the same offsets in rounds of random order.",
            ranking.len(),
        );
        if let Some(win) = self.winner(Merit::Speed) {
            text += &match win.level.is_empty() {
                true => format!(" {} was the fastest", win.leader),
                false => format!(
                    " {} were the fastest and level with each other: their intervals overlap",
                    leaders(&win)
                ),
            };
            text += &format!(
                "; {} reached {} MiB/s in blocks of {}{}.",
                win.leader,
                with_half(
                    first.best.throughput_mib_s,
                    first.best.throughput_mib_s_ci95
                ),
                size(first.best.block_size_bytes),
                sure(&win),
            );
        }
        if let Some(win) = self.winner(Merit::Efficiency) {
            text += &format!(
                " {} moved the most for {} processor time: up to {} MiB/s for each per cent of a core{}.",
                leaders(&win),
                if win.level.is_empty() { "its" } else { "their" },
                figure(win.highest),
                sure(&win),
            );
        }
        text
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, result) in self.results() {
            if !names.contains(&result.path.as_str()) {
                names.push(&result.path);
            }
        }
        names
    }

    fn legend(&self) -> Vec<(String, String)> {
        let polls = |name: &str| self.results().any(|(_, r)| r.path == name && r.polls);
        let names = self.names();
        let keys = styles(&names).into_iter().zip(&names);
        keys.map(|(style, name)| (legend_key(style, polls(name)), (*name).to_owned()))
            .collect()
    }

    /// Which path to take, at each depth.
    fn which(&self) -> Vec<Section> {
        let section = |comparison: &Comparison| {
            Section {
            title: format!(
                "Which path, with {} in flight?",
                in_flight(comparison.threads, comparison.queue_depth)
            ),
            caption: "Multiples are of a plain program's path, with 95 % confidence intervals from rounds \
                      of both paths taken in pairs."
                .into(),
            tables: vec![Table {
                words: true,
                ..Table::new(
                    &advice::HEADINGS,
                    advise(comparison).iter().map(Advice::cells).collect(),
                )
            }],
            ..Section::default()
        }
        };
        self.comparisons.iter().map(section).collect()
    }

    fn ranked(&self) -> Section {
        let place = |r: &PathResult| {
            format!(
                "{} {}, {}, {} in flight",
                r.pattern,
                r.operation,
                size(r.block_size_bytes),
                in_flight(r.threads, r.queue_depth)
            )
        };
        let first = self.winner(Merit::Speed);
        let is_first = |path: &str| first.as_ref().is_some_and(|win| win.best().contains(&path));
        let rows = self.ranking().into_iter().enumerate().map(|(rank, one)| {
            let rank = if is_first(one.path) { 1 } else { rank + 1 };
            vec![
                format!("{rank}. {}", one.path),
                with_half(one.best.throughput_mib_s, one.best.throughput_mib_s_ci95),
                place(one.best),
                with_half(
                    one.leanest.mib_s_per_cpu_percent,
                    one.leanest.mib_s_per_cpu_percent_ci95,
                ),
                place(one.leanest),
            ]
        });
        Section {
            title: "The paths, ranked".into(),
            caption: "By the highest speed that each reached anywhere. Paths whose 95 % intervals \
                      overlap that of the fastest are level with it, and share its rank."
                .into(),
            tables: vec![Table::new(
                &[
                    "Path",
                    "MiB/s at best",
                    "where",
                    "MiB/s per CPU % at best",
                    "where",
                ],
                rows.collect(),
            )],
            ..Section::default()
        }
    }

    fn kinds(&self) -> Vec<(Operation, Pattern)> {
        self.comparisons
            .first()
            .map(|one| one.kinds())
            .unwrap_or_default()
    }

    fn by_size(&self, title: &str, unit: &str, value: Value) -> Section {
        let mut panels = Vec::new();
        let names = self.names();
        for comparison in &self.comparisons {
            let mut groups = Vec::new();
            for (operation, pattern) in comparison.kinds() {
                let lines: Vec<Line> = styles(&names)
                    .into_iter()
                    .zip(&names)
                    .map(|(style, name)| {
                        let of_line = comparison.results.iter().filter(|r| {
                            (r.path.as_str(), r.operation, r.pattern) == (*name, operation, pattern)
                        });
                        let mut polls = false;
                        let mut points: Vec<Point> = of_line
                            .map(|r| {
                                polls |= r.polls;
                                let (value, ci95) = value(r);
                                Point {
                                    bytes: r.block_size_bytes,
                                    value,
                                    ci95,
                                }
                            })
                            .collect();
                        points.sort_by_key(|point| point.bytes);
                        Line {
                            name: (*name).to_owned(),
                            style,
                            polls,
                            points,
                        }
                    })
                    .filter(|line| !line.points.is_empty())
                    .collect();
                groups.push((operation, pattern, lines));
            }
            let y_scale = Range::of(groups.iter().flat_map(|(_, _, lines)| lines)).log_if_wide();
            for (operation, pattern, lines) in groups {
                let name = format!(
                    "{pattern} {operation}, {} in flight",
                    in_flight(comparison.threads, comparison.queue_depth)
                );
                let title = format!("{title} by block size, {name}");
                let plot = Plot {
                    title: &title,
                    y_label: unit,
                    unit,
                    y_scale,
                    lines: &lines,
                };
                panels.push((name, plot.svg()));
            }
        }
        Section {
            title: format!("{title} by block size"),
            caption: "Bars show 95 % confidence intervals over rounds; dashed lines poll.".into(),
            legend: self.legend(),
            panels,
            ..Section::default()
        }
    }

    fn differ(&self, of: fn(&Comparison) -> u16) -> bool {
        let mut values = self.comparisons.iter().map(of);
        values
            .next()
            .is_some_and(|first| values.any(|value| value != first))
    }

    fn by_depth(&self) -> Section {
        let fewest = self.comparisons.iter().map(|one| one.threads).min();
        self.by(
            "Operations a second by queue depth",
            "A path that can do one operation at a time is level.",
            "Operations in flight",
            |one| one.queue_depth,
            |one| Some(one.threads) == fewest,
        )
    }

    fn by_threads(&self) -> Section {
        let fewest = self.comparisons.iter().map(|one| one.queue_depth).min();
        self.by(
            "Operations a second by threads",
            "Each thread has its own part of the data. Paths that one thread uses are not here.",
            "Threads",
            |one| one.threads,
            |one| Some(one.queue_depth) == fewest,
        )
    }

    /// The smallest blocks, by what differs between comparisons.
    fn by(
        &self,
        title: &str,
        caption: &str,
        axis: &str,
        of: fn(&Comparison) -> u16,
        counts: impl Fn(&Comparison) -> bool,
    ) -> Section {
        let smallest = self
            .results()
            .map(|(_, r)| r.block_size_bytes)
            .min()
            .unwrap_or(0);
        let names = self.names();
        let panels = self.kinds().into_iter().map(|(operation, pattern)| {
            let looks = styles(&names).into_iter().zip(&names);
            let curves = looks.map(|(style, name)| Curve {
                name: (*name).to_owned(),
                style,
                dashed: false,
                marked: true,
                points: self
                    .results()
                    .filter(|(one, r)| {
                        counts(one)
                            && (r.path.as_str(), r.operation, r.pattern, r.block_size_bytes)
                                == (*name, operation, pattern, smallest)
                    })
                    .map(|(one, r)| (f64::from(of(one)), r.iops))
                    .collect(),
            });
            let chart = Chart {
                title: format!("{title}, {pattern} {operation}"),
                x: Axis::new(axis, Unit::Number, true),
                y: Axis::new("Operations a second", Unit::Number, false),
                curves: curves.collect(),
                x_rule: None,
                y_rule: None,
            };
            (
                format!("{pattern} {operation} of {}", size(smallest)),
                chart.svg(),
            )
        });
        Section {
            title: title.to_owned(),
            caption: caption.to_owned(),
            legend: self.legend(),
            panels: panels.collect(),
            ..Section::default()
        }
    }

    fn beside_fio(&self) -> Section {
        let rows = self.agreements.iter().map(|one| {
            vec![
                format!("{}, {} {}", one.path, one.pattern, one.operation),
                size(one.block_size_bytes),
                one.queue_depth.to_string(),
                with_half(one.ours_mean_mib_s, one.ours_ci95),
                with_half(one.fio_mean_mib_s, one.fio_ci95),
                figure(one.fio_own_percent),
                match one.agrees {
                    Some(true) => "yes",
                    Some(false) if one.explained => "differ by fio's own time",
                    Some(false) => "NO",
                    None => "too few rounds",
                }
                .to_owned(),
            ]
        });
        let mut tables = vec![Table::new(
            &[
                "Path",
                "block",
                "in flight",
                "our loop, MiB/s",
                "fio, MiB/s",
                "fio itself, CPU %",
                "agree",
            ],
            rows.collect(),
        )];
        if !self.fio_missing.is_empty() {
            let why = self.fio_missing.iter().map(|why| vec![why.clone()]);
            tables.push(Table::new(&["fio was not asked"], why.collect()));
        }
        Section {
            title: "Beside fio".into(),
            caption: "The same cells by our loop and by fio, in turns. They agree if their 95 % \
                      intervals overlap, or that of the difference of paired rounds holds 0. What fio \
                      computes in user space is in its rate: a path's lies between that and fio's with \
                      that time taken off."
                .into(),
            tables,
            ..Section::default()
        }
    }

    fn everything(&self) -> Section {
        let known = |value: Option<f64>| value.map_or("—".to_owned(), figure);
        let rows = self.results().map(|(_, r)| {
            vec![
                r.path.clone(),
                format!("{} {}", r.pattern, r.operation),
                size(r.block_size_bytes),
                in_flight(r.threads, r.queue_depth),
                with_half(r.throughput_mib_s, r.throughput_mib_s_ci95),
                known(r.throughput_mib_s_stddev),
                figure(r.cpu_percent),
                figure(r.mib_s_per_cpu_percent),
                known(r.device_commands_per_operation),
                known(r.interrupts_per_operation),
            ]
        });
        Section {
            title: "Every figure".into(),
            tables: vec![Table::new(
                &[
                    "Path",
                    "access",
                    "block",
                    "in flight",
                    "MiB/s",
                    "std. deviation",
                    "CPU %",
                    "MiB/s per CPU %",
                    "commands/op",
                    "interrupts/op",
                ],
                rows.collect(),
            )],
            ..Section::default()
        }
    }

    fn missing(&self) -> Table {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for missing in self.comparisons.iter().flat_map(|one| &one.missing) {
            let row = vec![
                missing.path.clone(),
                missing.reason.clone(),
                missing.hint.clone(),
            ];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        Table {
            words: true,
            ..Table::new(&["Path", "why", "hint"], rows)
        }
    }
}
