// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each path costs: the report of a comparison, and of a sweep, which is several comparisons
//! with other depths and threads.

use crate::chart::{Axis, Chart, Curve, Point, Unit, legend_key, styles};
use crate::table::heading;
use crate::{Card, Page, Reportable, Section, Table};
use measure::access::{Access, Operation, Pattern};
use measure::advice::{self, Advice, advise};
use measure::fewest::{self, whole};
use measure::findings::{Merit, Win, ranked, wins};
use measure::format::{capital, count, distinct, duration, figure, known, size, with_half};
use measure::run_info::RunInfo;
use measure::schema::{Ci95, Comparison, PathResult};

/// A figure with its interval; none where it was not measured.
type Value = fn(&PathResult) -> Option<(f64, Ci95)>;

impl Reportable for Comparison {
    fn page(&self) -> Page<'_> {
        let title = format!("Which path to the {}?", drive(&self.run));
        let mut page = Page::new(&self.run, title, lede(self));
        page.answer = advice::answer(self);
        let all = Paths(std::slice::from_ref(self));
        page.sections = all.first_sections();
        page.sections.extend(all.last_sections());
        page.missing(&self.missing);
        let cell = format!(
            "{} ms measured, after {} ms of warm-up",
            count(self.cell_duration_ms),
            count(self.warm_up_ms)
        );
        let idle = format!("{} % of one core", figure(self.idle_cpu_percent));
        let conditions = [
            ("offsets spread over", size(self.span_bytes)),
            ("rounds", self.rounds.to_string()),
            ("a cell", cell),
            (
                "operations in flight",
                in_flight(self.threads, self.queue_depth),
            ),
            ("idle machine", idle),
        ];
        page.conditions.splice(6..6, conditions);
        page.text = Some(crate::table(self));
        page
    }
}

fn lede(comparison: &Comparison) -> String {
    let sizes = comparison.block_sizes_bytes();
    let range = match sizes.as_slice() {
        [first, .., last] => format!("blocks of {} to {}", size(*first), size(*last)),
        [only] => format!("blocks of {}", size(*only)),
        [] => "no blocks".to_owned(),
    };
    let has = |operation| comparison.kinds().iter().any(|(one, _)| *one == operation);
    let verb = match (has(Operation::Read), has(Operation::Write)) {
        (true, true) => "read and written",
        (true, false) => "read",
        (false, true) => "written",
        (false, false) => "measured",
    };
    let paths = match comparison.path_names().len() {
        1 => "1 path".to_owned(),
        paths => format!("{paths} paths"),
    };
    let depth = match comparison.queue_depth {
        1 => "one operation".to_owned(),
        depth => format!("up to {depth} operations"),
    };
    format!(
        "The same data, in {range}, was {verb} over {paths} to the {}. Each path used the same offsets, in {} \
         rounds of random order, with {depth} in flight. The report shows its speed, its processor time, and \
         the commands and interrupts of the drive:",
        drive(&comparison.run),
        comparison.rounds
    )
}

pub fn drive(run: &RunInfo) -> &str {
    run.device.model.as_ref().unwrap_or(&run.device.name)
}

pub fn in_flight(threads: u16, depth: u16) -> String {
    match threads {
        1 => depth.to_string(),
        threads => format!("{threads} × {depth}"),
    }
}

pub fn sure(win: &Win) -> &'static str {
    if win.certain {
        ""
    } else {
        " (too few rounds to be sure)"
    }
}

pub fn leaders(win: &Win) -> String {
    match win.best().as_slice() {
        [first, second] => format!("{first} and {second}"),
        [first, second, third] => format!("{first}, {second} and {third}"),
        [_, _, _, _, ..] => format!("{} and {} others", win.leader, win.level.len()),
        _ => win.leader.clone(),
    }
}

fn kind_name(operation: Operation, pattern: Pattern) -> String {
    capital(&format!("{pattern} {operation}"))
}

/// An access without its block size: one panel of a figure.
type Kind = (Operation, Pattern);

/// Comparisons of the same paths, with other depths or threads.
pub struct Paths<'a>(pub &'a [Comparison]);

impl Paths<'_> {
    fn results(&self) -> impl Iterator<Item = (&Comparison, &PathResult)> {
        let of = |one| move |result| (one, result);
        self.0
            .iter()
            .flat_map(move |one: &Comparison| one.results.iter().map(of(one)))
    }

    fn names(&self) -> Vec<&str> {
        distinct(self.results().map(|(_, result)| result.path.as_str()))
    }

    /// The suffix of one comparison's heading if there are several.
    fn place(&self, one: &Comparison) -> String {
        match self.0.len() {
            1 => String::new(),
            _ => format!(", {} in flight", in_flight(one.threads, one.queue_depth)),
        }
    }

    /// The speed of each path, and which one to use.
    pub fn first_sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        let has_intervals = self
            .results()
            .any(|(_, one)| one.throughput_mib_s_ci95.is_some());
        let bars = if has_intervals {
            "Bars show the 95 % confidence interval over rounds"
        } else {
            "Too few rounds were measured for confidence intervals"
        };
        let bars = format!("{bars}; dashed lines poll: a core spins while the drive works.");
        let speed: Value = |one| Some((one.throughput_mib_s, one.throughput_mib_s_ci95));
        let caption = format!("Higher is better. {bars}");
        let mut first = vec![self.by_size("Speed", &caption, "MiB/s", true, speed)];
        if let Some(instructions) = self.instructions() {
            // What repeats comes first where times say nothing.
            let place = usize::from(!self.0.iter().any(fewest::counts_instead));
            first.insert(place, instructions);
        }
        sections.append(&mut first);
        for one in self.0 {
            let mut section = Section::new(
                format!("Which path{}?", self.place(one)),
                "For each access the fastest path that is shown to be faster than an ordinary program's, or that one; and the \
                 same among paths on which no core spins. The 95 % confidence intervals of the multiples are from rounds of both paths \
                 taken in pairs. Two paths are level if the interval of theirs contains 1.",
            );
            section.tables.push(Table {
                words: true,
                ..Table::new(advice::HEADINGS, advise(one).iter().map(Advice::cells))
            });
            sections.push(section);
            let mut section = Section::new(format!("By block size{}", self.place(one)), "");
            section.cards = one
                .kinds()
                .into_iter()
                .map(|kind| card(one, kind))
                .collect();
            sections.push(section);
        }
        let idle = self
            .0
            .iter()
            .map(|one| one.idle_cpu_percent)
            .fold(0.0, f64::max);
        let cpu: Value = |one| Some((one.cpu_percent, one.cpu_percent_ci95));
        let efficiency: Value =
            |one| Some((one.mib_s_per_cpu_percent, one.mib_s_per_cpu_percent_ci95));
        let caption = format!(
            "Lower is better. The whole machine’s processor time (interrupts and kernel threads too), less the idle \
             machine’s {} %; 100 % is one core. {bars}",
            figure(idle)
        );
        sections.push(self.by_size("Processor time", &caption, "% of one core", false, cpu));
        let caption = format!("Higher is better: throughput per processor time. {bars}");
        let title = "Speed per per cent of processor time";
        sections.push(self.by_size(title, &caption, "MiB/s per CPU %", true, efficiency));
        sections
    }

    /// The instructions of an operation, if anything counted them.
    fn instructions(&self) -> Option<Section> {
        let mut counted = self.0.iter();
        let source = counted.find_map(|one| one.instructions_counted_by.as_ref())?;
        let caption = format!(
            "Lower is better: instructions of user space and of the kernel for one operation, without waiting for the drive and \
             without the measuring loop’s own, counted by {source}. They repeat; dashed lines poll."
        );
        let value: Value = |one| Some((one.cost_per_operation?.instructions, None));
        Some(self.by_size(
            "Instructions",
            &caption,
            "instructions an operation",
            true,
            value,
        ))
    }

    /// The drive's counters, and every figure.
    pub fn last_sections(&self) -> Vec<Section> {
        let mut tolls = Section::new(
            "Commands and interrupts of the drive",
            "Commands that the drive received / interrupts that it raised, per operation. A dash is a count \
             that the path cannot make.",
        );
        let mut figures = Section::new(
            "Every figure",
            "Means over rounds ± half of the 95 % confidence interval. Service times are from submission to \
             completion in a closed loop, which waits while the drive stalls: they are not the response times of a \
             periodic task.",
        );
        for one in self.0 {
            for kind in one.kinds() {
                tolls.tables.push(self.toll(one, kind));
            }
            for access in one.accesses() {
                figures.tables.push(Table {
                    title: heading(access) + &self.place(one),
                    folded: true,
                    ..Table::new(
                        "Path|MiB/s|std. deviation|IOPS|CPU %|MiB/s per CPU %|commands/op|interrupts/op|instructions/op|\
                         calls/op|median time|99th percentile|in flight",
                        ranked(one, access, Merit::Speed).into_iter().map(every_figure),
                    )
                });
            }
        }
        vec![tolls, figures]
    }

    fn legend(&self) -> Vec<(String, String)> {
        let polls = |name: &str| self.results().any(|(_, r)| r.path == name && r.polls);
        let names = self.names();
        let keys = styles(&names).into_iter().zip(&names);
        keys.map(|(style, name)| (legend_key(style, polls(name)), (*name).to_owned()))
            .collect()
    }

    /// A curve for each path that has points.
    fn curves(
        &self,
        is_of: &dyn Fn(&Comparison, Access) -> bool,
        point: &dyn Fn(&Comparison, &PathResult) -> Option<Point>,
    ) -> Vec<Curve> {
        let names = self.names();
        let curve = |(style, name): (usize, &&str)| {
            let mut curve = Curve::plain(name, style, &[]);
            curve.marked = true;
            for (one, result) in self.results() {
                if result.path == *name && is_of(one, result.access) {
                    curve.dashed |= result.polls;
                    curve.points.extend(point(one, result));
                }
            }
            curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
            curve
        };
        let curves = styles(&names).into_iter().zip(&names).map(curve);
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    /// A panel for each kind of access; those that read share an axis, and so do those that write.
    fn by_size(
        &self,
        title: &str,
        caption: &str,
        unit: &str,
        may_be_log: bool,
        value: Value,
    ) -> Section {
        let title = format!("{title} by block size");
        let mut section = Section::new(&title, caption).legend(self.legend());
        let point = |_: &Comparison, result: &PathResult| {
            let (y, ci95) = value(result)?;
            let x = result.access.block_size_bytes as f64;
            Some(Point { x, y, ci95 })
        };
        for one in self.0 {
            let panel = |kind: Kind| {
                let is_of = |other: &Comparison, access: Access| {
                    std::ptr::eq(one, other) && access.kind() == kind
                };
                (kind, self.curves(&is_of, &point))
            };
            let panels: Vec<(Kind, Vec<Curve>)> = one.kinds().into_iter().map(panel).collect();
            for ((operation, pattern), curves) in &panels {
                let same = panels.iter().filter(|((other, _), _)| other == operation);
                let points = same
                    .flat_map(|(_, curves)| curves)
                    .flat_map(|curve| &curve.points);
                let x = Axis::of_sizes(&one.block_sizes_bytes());
                let y = Axis::over(unit, may_be_log, points);
                let name = kind_name(*operation, *pattern) + &self.place(one);
                let chart = Chart::new(format!("{title}, {name}"), x, y, curves.clone());
                section = section.panel(name, chart.svg());
            }
        }
        section
    }

    /// Operations per second of the smallest blocks by depth or by threads, at the minimum of the
    /// other.
    pub fn by(
        &self,
        (title, caption, axis): (&str, &str, &str),
        of: fn(&Comparison) -> u16,
        other: fn(&Comparison) -> u16,
    ) -> Option<Section> {
        let first = of(self.0.first()?);
        if self.0.iter().all(|one| of(one) == first) {
            return None;
        }
        let fewest = self.0.iter().map(other).min();
        let sizes = self.0.iter().flat_map(Comparison::block_sizes_bytes);
        let smallest = sizes.min().unwrap_or(0);
        let mut section = Section::new(title, caption).legend(self.legend());
        let point =
            |one: &Comparison, r: &PathResult| Some(Point::from((f64::from(of(one)), r.iops)));
        for (operation, pattern) in self.0.first()?.kinds() {
            let wanted = Access::new(operation, pattern, smallest);
            let is_of = |one: &Comparison, access| Some(other(one)) == fewest && access == wanted;
            let x = Axis::new(axis, Unit::Number, true);
            let y = Axis::new("Operations per second", Unit::Number, false);
            let name = capital(&wanted.to_string());
            let chart = Chart::new(
                format!("{title}, {name}"),
                x,
                y,
                self.curves(&is_of, &point),
            );
            section = section.panel(name, chart.svg());
        }
        Some(section)
    }

    fn toll(&self, one: &Comparison, (operation, pattern): Kind) -> Table {
        let sizes = one.block_sizes_bytes();
        let row = |path: &str| {
            let cell = |bytes: &u64| {
                let access = Access::new(operation, pattern, *bytes);
                let mut results = one.results.iter();
                let result = results.find(|r| r.path == path && r.access == access);
                let commands = known(result.and_then(|r| r.device_commands_per_operation));
                let interrupts = known(result.and_then(|r| r.interrupts_per_operation));
                format!("{commands}\n/ {interrupts}")
            };
            std::iter::once(path.to_owned())
                .chain(sizes.iter().map(cell))
                .collect()
        };
        let head: Vec<String> = sizes.iter().map(|bytes| size(*bytes)).collect();
        Table {
            title: kind_name(operation, pattern) + &self.place(one),
            ..Table::new(
                &format!("Path|{}", head.join("|")),
                one.path_names().into_iter().map(row),
            )
        }
    }
}

fn card(comparison: &Comparison, (operation, pattern): Kind) -> Card {
    let list = |merit, unit: &str| {
        let wins = wins(comparison, operation, pattern, merit);
        wins.iter().map(|win| finding(win, unit)).collect()
    };
    Card {
        title: kind_name(operation, pattern),
        lists: vec![
            ("Fastest", list(Merit::Speed, "MiB/s")),
            (
                "Most data for its processor time",
                list(Merit::Efficiency, "MiB/s per CPU %"),
            ),
        ],
    }
}

/// Block sizes, the leader of each, and its lead.
fn finding(win: &Win, unit: &str) -> [String; 3] {
    let [from, to] = [win.from_bytes, win.to_bytes].map(size);
    let (sizes, figures, at_least) = if from == to {
        (from, figure(win.highest), "")
    } else {
        (
            format!("{from} – {to}"),
            format!("{} – {}", figure(win.lowest), figure(win.highest)),
            "at least ",
        )
    };
    let mut more = format!("{figures} {unit}");
    if !win.level.is_empty() {
        more += "; level with each other";
    } else if let Some(lead) = win.lead {
        more += &if lead >= 1.0 {
            format!("; {at_least}{:.1} times the next", lead + 1.0)
        } else {
            format!("; {at_least}{:.1}\u{a0}% ahead of the next", lead * 100.0)
        };
    }
    if !win.certain {
        more += "; too few rounds to be sure";
    }
    [sizes, leaders(win), more]
}

fn every_figure(result: &PathResult) -> Vec<String> {
    let time = |ns: Option<u64>| ns.map_or("—".to_owned(), duration);
    let mut marks = Vec::new();
    if result.drifting {
        marks.push("drifting".to_owned());
    }
    if result.errors > 0 {
        let error = result.first_error.as_deref().unwrap_or("unknown");
        marks.push(format!("{} failed: {error}", count(result.errors)));
    }
    let (efficiency, ci95) = Merit::Efficiency.of(result);
    let cost = result.cost_per_operation;
    vec![
        format!("{}\n{}", result.path, marks.join("; ")),
        with_half(result.throughput_mib_s, result.throughput_mib_s_ci95),
        known(result.throughput_mib_s_stddev),
        figure(result.iops),
        with_half(result.cpu_percent, result.cpu_percent_ci95),
        with_half(efficiency, ci95),
        known(result.device_commands_per_operation),
        known(result.interrupts_per_operation),
        cost.map_or("—".to_owned(), |cost| whole(cost.instructions)),
        known(cost.map(|cost| cost.system_calls)),
        time(result.service_time_p50_ns),
        time(result.service_time_p99_ns),
        in_flight(result.threads, result.queue_depth),
    ]
}
