//! The report: one HTML file that needs no network, no script and no other file.

use crate::access::{Operation, Pattern};
use crate::advice::{self, Advice};
use crate::findings::{Merit, Win, ranked, wins};
use crate::format::{count, date, duration, figure, half_width, size};
use crate::plot::{Line, Plot, Point, Range, legend_key, styles};
use crate::schema::{Ci95, Comparison, PathResult};
use askama::Template;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the report could not be rendered: {0}")]
pub struct ReportError(#[from] askama::Error);

/// The report of a comparison, as the text of an HTML file.
///
/// # Errors
/// Only if the template cannot be rendered, which no comparison causes.
pub fn report(comparison: &Comparison) -> Result<String, ReportError> {
    Ok(Page::new(comparison).render()?)
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    comparison: &'a Comparison,
    drive: String,
    date: String,
    emulated: Option<String>,
    /// Which path to take, in a sentence or two.
    answer: String,
    advice_head: [&'static str; 7],
    advice: Vec<Vec<String>>,
    lede: String,
    verdicts: Vec<Verdict>,
    legend: Vec<Key>,
    figures: Vec<Figure>,
    tolls: Vec<Toll>,
    environment: Vec<EnvironmentRow>,
    conditions: Vec<(&'static str, String)>,
    details: Vec<Detail>,
    has_intervals: bool,
    any_polls: bool,
}

struct Verdict {
    kind: String,
    speed: Vec<Finding>,
    efficiency: Vec<Finding>,
}

struct Finding {
    sizes: String,
    leader: String,
    figures: String,
    remark: String,
}

struct Key {
    name: String,
    svg: String,
}

struct Figure {
    id: &'static str,
    title: &'static str,
    caption: String,
    panels: Vec<Panel>,
}

struct Panel {
    kind: String,
    svg: String,
}

/// Commands and interrupts of one path, by kind and block size.
struct Toll {
    kind: String,
    sizes: Vec<String>,
    rows: Vec<TollRow>,
}

struct TollRow {
    path: String,
    cells: Vec<(String, String)>,
}

struct EnvironmentRow {
    name: &'static str,
    before: String,
    after: String,
    changed: bool,
}

struct Detail {
    title: String,
    rows: Vec<DetailRow>,
}

struct DetailRow {
    path: String,
    marks: String,
    cells: Vec<String>,
}

fn kind_name(operation: Operation, pattern: Pattern) -> String {
    match pattern {
        Pattern::Sequential => format!("Sequential {operation}"),
        Pattern::Random => format!("Random {operation}"),
    }
}

impl<'a> Page<'a> {
    fn new(comparison: &'a Comparison) -> Self {
        let device = &comparison.device;
        let drive = device.model.clone().unwrap_or_else(|| device.name.clone());
        let results = &comparison.results;
        let kinds = comparison.kinds();
        let advice = advice::advise(comparison);
        Self {
            emulated: device.emulated(&comparison.environment_before),
            answer: advice::answer(&advice),
            advice_head: advice::HEADINGS,
            advice: advice.iter().map(Advice::cells).collect(),
            comparison,
            date: date(comparison.started_unix_s),
            lede: lede(comparison, &drive),
            drive,
            verdicts: kinds
                .iter()
                .map(|&(operation, pattern)| verdict(comparison, operation, pattern))
                .collect(),
            legend: legend(comparison),
            figures: figures(comparison),
            tolls: kinds
                .iter()
                .map(|&(operation, pattern)| toll(comparison, operation, pattern))
                .collect(),
            environment: environment(comparison),
            conditions: conditions(comparison),
            details: details(comparison),
            has_intervals: results.iter().any(|r| r.throughput_mib_s_ci95.is_some()),
            any_polls: results.iter().any(|result| result.polls),
        }
    }
}

fn lede(comparison: &Comparison, drive: &str) -> String {
    let paths = comparison.path_names().len();
    let sizes = comparison.block_sizes_bytes();
    let range = match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) if first != last => {
            format!("blocks of {} to {}", size(*first), size(*last))
        }
        (Some(only), _) => format!("blocks of {}", size(*only)),
        _ => "no blocks".to_owned(),
    };
    let operations: Vec<&str> = [(Operation::Read, "read"), (Operation::Write, "written")]
        .into_iter()
        .filter(|(op, _)| {
            comparison
                .results
                .iter()
                .any(|result| result.operation == *op)
        })
        .map(|(_, name)| name)
        .collect();
    let verb = if operations.is_empty() {
        "asked for".to_owned()
    } else {
        operations.join(" and ")
    };
    let plural = |number: usize| if number == 1 { "path" } else { "paths" };
    format!(
        "The same data, in {range}, was {verb} over {paths} {} to the {drive}. Each path was \
         asked for the same offsets, in {} rounds of random order, with {} in flight. How fast it \
         was, how much of the processor it took, and what the drive saw of it:",
        plural(paths),
        comparison.rounds,
        match comparison.queue_depth {
            1 => "one operation".to_owned(),
            depth => format!("up to {depth} operations"),
        },
    )
}

fn verdict(comparison: &Comparison, operation: Operation, pattern: Pattern) -> Verdict {
    let of = |merit, unit: &str| {
        let wins = wins(comparison, operation, pattern, merit);
        wins.iter().map(|win| finding(win, unit)).collect()
    };
    Verdict {
        kind: kind_name(operation, pattern),
        speed: of(Merit::Speed, "MiB/s"),
        efficiency: of(Merit::Efficiency, "MiB/s per CPU %"),
    }
}

fn finding(win: &Win, unit: &str) -> Finding {
    let one_size = win.from_bytes == win.to_bytes;
    let sizes = if one_size {
        size(win.from_bytes)
    } else {
        format!("{} – {}", size(win.from_bytes), size(win.to_bytes))
    };
    let figures = if one_size {
        format!("{} {unit}", figure(win.highest))
    } else {
        format!("{} – {} {unit}", figure(win.lowest), figure(win.highest))
    };
    let at_least = if one_size { "" } else { "at least " };
    let mut remark = String::new();
    if !win.level.is_empty() {
        remark.push_str("level with each other");
    } else if let Some(lead) = win.lead {
        remark = if lead >= 1.0 {
            format!("{at_least}{:.1} times the next", lead + 1.0)
        } else {
            format!("{at_least}{:.1}\u{a0}% ahead of the next", lead * 100.0)
        };
    }
    if !win.certain {
        remark.push_str(if remark.is_empty() {
            "too few rounds to be sure"
        } else {
            "; too few rounds to be sure"
        });
    }
    Finding {
        sizes,
        leader: leaders(win),
        figures,
        remark,
    }
}

/// The winner and those level with it, in words.
pub(crate) fn leaders(win: &Win) -> String {
    match win.best().as_slice() {
        [first, second] => format!("{first} and {second}"),
        [first, second, third] => format!("{first}, {second} and {third}"),
        [_, _, _, _, ..] => format!("{} and {} others", win.leader, win.level.len()),
        _ => win.leader.clone(),
    }
}

fn legend(comparison: &Comparison) -> Vec<Key> {
    let names = comparison.path_names();
    let key = |(style, name): (usize, &&str)| Key {
        name: (*name).to_owned(),
        svg: legend_key(style, polls(comparison, name)),
    };
    styles(&names).into_iter().zip(&names).map(key).collect()
}

fn polls(comparison: &Comparison, name: &str) -> bool {
    let mut results = comparison.results.iter();
    results.any(|result| result.path == name && result.polls)
}

fn figures(comparison: &Comparison) -> Vec<Figure> {
    type Value = fn(&PathResult) -> (f64, Ci95);
    let bars = if comparison
        .results
        .iter()
        .any(|result| result.throughput_mib_s_ci95.is_some())
    {
        " Bars show the 95 % confidence interval over rounds."
    } else {
        " Too few rounds were measured for confidence intervals."
    };
    let cpu_bars = format!(
        "The whole machine’s processor time (interrupts and kernel threads too), less the idle \
         machine’s {} %; 100 % is one core.{bars}",
        figure(comparison.idle_cpu_percent)
    );
    let kinds: [(&'static str, &'static str, &str, &str, String, Value); 3] = [
        (
            "speed",
            "Speed",
            "MiB/s",
            "MiB/s",
            format!("Higher is better.{bars}"),
            |result| (result.throughput_mib_s, result.throughput_mib_s_ci95),
        ),
        (
            "processor",
            "Processor time",
            "CPU, % of one core",
            "% of one core",
            format!("Lower is better. {cpu_bars}"),
            |result| (result.cpu_percent, result.cpu_percent_ci95),
        ),
        (
            "efficiency",
            "Speed for each per cent of processor time",
            "MiB/s per CPU %",
            "MiB/s per CPU %",
            format!("Higher is better: how far a path goes on the processor time it takes.{bars}"),
            |result| {
                (
                    result.mib_s_per_cpu_percent,
                    result.mib_s_per_cpu_percent_ci95,
                )
            },
        ),
    ];
    kinds
        .into_iter()
        .map(|(id, title, y_label, unit, caption, value)| {
            let panels: Vec<(Operation, String, Vec<Line>)> = comparison
                .kinds()
                .into_iter()
                .map(|(operation, pattern)| {
                    let name = kind_name(operation, pattern);
                    let lines = lines(comparison, operation, pattern, value);
                    (operation, name, lines)
                })
                .collect();
            // One scale for all panels of reads, and one of writes, so that they can be compared by
            // eye; in decades where the smallest blocks could not be seen otherwise.
            let scale = |wanted: Operation| {
                let of_operation = panels.iter().filter(|(operation, ..)| *operation == wanted);
                let range = Range::of(of_operation.flat_map(|(_, _, lines)| lines));
                if id == "processor" {
                    range.linear()
                } else {
                    range.log_if_wide()
                }
            };
            let (reads, writes) = (scale(Operation::Read), scale(Operation::Write));
            let panel = |(operation, kind, lines): (Operation, String, Vec<Line>)| {
                let y_scale = match operation {
                    Operation::Read => reads,
                    Operation::Write => writes,
                };
                let title = format!("{title} by block size, {kind}");
                let plot = Plot {
                    title: &title,
                    y_label,
                    unit,
                    y_scale,
                    lines: &lines,
                };
                let svg = plot.svg();
                Panel { kind, svg }
            };
            Figure {
                id,
                title,
                caption,
                panels: panels.into_iter().map(panel).collect(),
            }
        })
        .collect()
}

fn lines(
    comparison: &Comparison,
    operation: Operation,
    pattern: Pattern,
    value: fn(&PathResult) -> (f64, Ci95),
) -> Vec<Line> {
    let names = comparison.path_names();
    let line = |(style, name): (usize, &&str)| {
        let mut points: Vec<Point> = comparison
            .results
            .iter()
            .filter(|result| {
                (result.path.as_str(), result.operation, result.pattern)
                    == (*name, operation, pattern)
            })
            .map(|result| {
                let (value, ci95) = value(result);
                Point {
                    bytes: result.block_size_bytes,
                    value,
                    ci95,
                }
            })
            .collect();
        points.sort_by_key(|point| point.bytes);
        Line {
            name: (*name).to_owned(),
            style,
            polls: polls(comparison, name),
            points,
        }
    };
    let lines = styles(&names).into_iter().zip(&names).map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

fn toll(comparison: &Comparison, operation: Operation, pattern: Pattern) -> Toll {
    let sizes = comparison.block_sizes_bytes();
    let or_dash = |value: Option<f64>| value.map_or("—".to_owned(), figure);
    let row = |path: &&str| {
        let cell = |bytes: &u64| {
            let result = comparison.results.iter().find(|result| {
                (result.path.as_str(), result.operation, result.pattern)
                    == (*path, operation, pattern)
                    && result.block_size_bytes == *bytes
            });
            (
                or_dash(result.and_then(|result| result.device_commands_per_operation)),
                or_dash(result.and_then(|result| result.interrupts_per_operation)),
            )
        };
        TollRow {
            path: (*path).to_owned(),
            cells: sizes.iter().map(cell).collect(),
        }
    };
    Toll {
        kind: kind_name(operation, pattern),
        rows: comparison.path_names().iter().map(row).collect(),
        sizes: sizes.iter().map(|bytes| size(*bytes)).collect(),
    }
}

fn environment(comparison: &Comparison) -> Vec<EnvironmentRow> {
    let before = comparison.environment_before.rows();
    let after = comparison.environment_after.rows();
    let row =
        |((name, before), (_, after)): ((&'static str, String), (_, String))| EnvironmentRow {
            name,
            changed: before != after,
            before,
            after,
        };
    before.into_iter().zip(after).map(row).collect()
}

fn conditions(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let device = &comparison.device;
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "—".to_owned());
    vec![
        ("drive", device.name.clone()),
        ("model", known(&device.model)),
        ("serial number", known(&device.serial)),
        ("firmware", known(&device.firmware)),
        ("PCI address", known(&device.pci_address)),
        (
            "capacity",
            device
                .size_bytes
                .map_or("—".to_owned(), |bytes| format!("{} bytes", count(bytes))),
        ),
        ("offsets spread over", size(comparison.span_bytes)),
        ("rounds", comparison.rounds.to_string()),
        (
            "a cell",
            format!(
                "{} ms counted, after {} ms of warming up",
                count(comparison.cell_duration_ms),
                count(comparison.warm_up_ms)
            ),
        ),
        ("operations in flight", comparison.queue_depth.to_string()),
        (
            "idle machine",
            format!("{} % of one core", figure(comparison.idle_cpu_percent)),
        ),
        ("seed", comparison.seed.to_string()),
        ("straightway", comparison.tool_version.clone()),
    ]
}

fn details(comparison: &Comparison) -> Vec<Detail> {
    let mut details = Vec::new();
    for (operation, pattern) in comparison.kinds() {
        for bytes in comparison.block_sizes_bytes() {
            let results = ranked(comparison, operation, pattern, bytes, Merit::Speed);
            if !results.is_empty() {
                details.push(Detail {
                    title: format!("{}, {}", kind_name(operation, pattern), size(bytes)),
                    rows: results.into_iter().map(detail_row).collect(),
                });
            }
        }
    }
    details
}

fn detail_row(result: &PathResult) -> DetailRow {
    let with_half_width = |value: f64, ci95: Ci95| match half_width(value, ci95) {
        Some(half) => format!("{} ± {half}", figure(value)),
        None => figure(value),
    };
    let time = |ns: Option<u64>| ns.map_or("—".to_owned(), duration);
    let mut marks = Vec::new();
    if result.drifting {
        marks.push("drifting".to_owned());
    }
    if result.errors > 0 {
        let error = result.first_error.as_deref().unwrap_or("unknown");
        marks.push(format!("{} failed: {error}", count(result.errors)));
    }
    DetailRow {
        path: result.path.clone(),
        marks: marks.join("; "),
        cells: vec![
            with_half_width(result.throughput_mib_s, result.throughput_mib_s_ci95),
            figure(result.iops),
            with_half_width(result.cpu_percent, result.cpu_percent_ci95),
            with_half_width(
                result.mib_s_per_cpu_percent,
                result.mib_s_per_cpu_percent_ci95,
            ),
            time(result.service_time_p50_ns),
            time(result.service_time_p99_ns),
            result.queue_depth.to_string(),
        ],
    }
}
