//! Whether a path sustains a rate: the verdict, the two distributions, the run in time.

use super::{Page, Report, Section, Table};
use crate::chart::{Axis, Chart, Curve, Unit};
use crate::format::{count, duration, figure, share, size};
use crate::plot::legend_key;
use crate::report::ReportError;
use crate::run_info::RunInfo;
use crate::sustain::{Sustained, Times, Verdict};

const RESPONSE: usize = 0;
const SERVICE: usize = 1;

impl Report for Sustained {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let title = format!(
            "{} at {} MiB/s in blocks of {}, each within {}",
            self.path,
            figure(self.rate_mib_s),
            size(self.block_size_bytes),
            duration(self.deadline_ns)
        );
        let mut page = Page::new(&self.run, title, self.lede());
        let class = match self.verdict {
            Verdict::Sustains => "good",
            Verdict::DoesNot => "bad",
            Verdict::NotEnoughData | Verdict::CannotTell => "open",
        };
        page.verdict = Some((class, self.verdict.to_string()));
        page.sections = vec![self.facts(), self.tails(), self.in_time()];
        page.finish()
    }

    fn text(&self) -> String {
        let times = |name: &str, times: &Times| {
            format!(
                "  {name}  median {}, 99 % {}, longest {}\n",
                duration(times.p50_ns),
                duration(times.p99_ns),
                duration(times.max_ns)
            )
        };
        let mut text = format!(
            "{}: {} of {} in blocks of {} at {} MiB/s, each within {}\n  {}\n",
            self.verdict,
            self.path,
            self.run.device.name,
            size(self.block_size_bytes),
            figure(self.rate_mib_s),
            duration(self.deadline_ns),
            self.lede()
        );
        text += &times("response", &self.response);
        text += &times("service ", &self.service);
        text
    }
}

impl Sustained {
    fn lede(&self) -> String {
        let mut text = format!("{}.", capital(&self.reason));
        if self.verdict == Verdict::CannotTell {
            return text;
        }
        if let Some(needed_s) = self.needed_duration_s {
            text += &format!(" A run of {} s would tell.", figure(needed_s));
        }
        match self.smallest_safe_buffer_bytes {
            Some(bytes) => {
                text += &format!(" A buffer of {} would have lost nothing.", size(bytes))
            }
            None => text += " No buffer is large enough: it fell further and further behind.",
        }
        text
    }

    fn facts(&self) -> Section {
        let bounds = self.miss_rate_bounds;
        let times = |times: &Times| {
            let with = |ns: u64, ci95: Option<[u64; 2]>| match ci95 {
                Some([low, high]) => {
                    format!("{} ({} to {})", duration(ns), duration(low), duration(high))
                }
                None => format!("{} (no interval)", duration(ns)),
            };
            vec![
                with(times.p50_ns, times.p50_ns_ci95),
                with(times.p99_ns, times.p99_ns_ci95),
                times
                    .p999_ns
                    .map_or("—".to_owned(), |ns| with(ns, times.p999_ns_ci95)),
                duration(times.max_ns),
            ]
        };
        let row = |name: &str, of: &Times| {
            let mut row = vec![name.to_owned()];
            row.extend(times(of));
            row
        };
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        Section {
            title: "What was found".into(),
            caption:
                "The response time counts from the moment at which a block was due; the service \
                      time from the moment at which it was handed over, which is all that a closed \
                      loop can see. In brackets 95 % confidence intervals that allow for bursts; \
                      where the independent samples are too few there is none."
                    .into(),
            tables: vec![
                Table::new(
                    &[
                        "",
                        "median",
                        "99th percentile",
                        "99.9th percentile",
                        "longest",
                    ],
                    vec![
                        row("response time", &self.response),
                        row("service time", &self.service),
                    ],
                ),
                Table::of_facts(vec![
                    ("arrivals", count(self.arrivals)),
                    ("missed the deadline", count(self.misses)),
                    (
                        "share of misses, 95 %",
                        format!(
                            "{} to {}; {} are tolerated",
                            share(bounds[0]),
                            share(bounds[1]),
                            share(self.tolerated_miss_rate)
                        ),
                    ),
                    ("misses that count as one", figure(self.burstiness)),
                    ("never started", count(self.unserved)),
                    ("failed", count(self.errors)),
                    ("most blocks waiting", count(self.peak_backlog_blocks)),
                    (
                        "smallest safe buffer",
                        self.smallest_safe_buffer_bytes
                            .map_or("none".to_owned(), size),
                    ),
                    (
                        "operations in flight, at most",
                        self.queue_depth.to_string(),
                    ),
                    ("drifting", yes(self.drifting)),
                    ("polls", yes(self.polls)),
                ]),
            ],
            ..Section::default()
        }
    }

    fn legend() -> Vec<(String, String)> {
        vec![
            (
                legend_key(RESPONSE, false),
                "response time, from the intended arrival".into(),
            ),
            (
                legend_key(SERVICE, true),
                "service time, from submission".into(),
            ),
        ]
    }

    fn tails(&self) -> Section {
        let curves = |points: fn(&Times) -> &Vec<(f64, f64)>| {
            let curve = |name: &str, style, times| Curve {
                name: name.to_owned(),
                style,
                dashed: style == SERVICE,
                marked: false,
                points: points(times).clone(),
            };
            vec![
                curve("service time", SERVICE, &self.service),
                curve("response time", RESPONSE, &self.response),
            ]
        };
        let deadline = Some((self.deadline_ns as f64, "deadline".to_owned()));
        let tail = Chart {
            title: "The share of blocks that took longer than each time".into(),
            x: Axis::new("Time", Unit::Nanoseconds, true),
            y: Axis::new("Share that took longer", Unit::Share, true),
            curves: curves(|times| &times.exceedance),
            x_rule: deadline,
            y_rule: None,
        };
        let shape = Chart {
            title: "Density of times".into(),
            x: Axis::new("Time", Unit::Nanoseconds, true),
            y: Axis::new("Density per decade", Unit::Number, false),
            curves: curves(|times| &times.density),
            x_rule: None,
            y_rule: None,
        };
        Section {
            title: "How long blocks took".into(),
            caption: "The tail is made of the samples themselves, and is what a deadline is read \
                      from. The density shows a shape only: where times cluster."
                .into(),
            legend: Self::legend(),
            panels: vec![("Tail".into(), tail.svg()), ("Shape".into(), shape.svg())],
            ..Section::default()
        }
    }

    fn in_time(&self) -> Section {
        let curve = |name: &str, style, value: fn(&crate::sustain::Stretch) -> u64| Curve {
            name: name.to_owned(),
            style,
            dashed: style == SERVICE,
            marked: false,
            points: self
                .timeline
                .iter()
                .map(|stretch| (stretch.from_ns as f64, value(stretch) as f64))
                .collect(),
        };
        let chart = Chart {
            title: "Response times over the run".into(),
            x: Axis::new("Time since the start", Unit::Nanoseconds, false),
            y: Axis::new("Response time", Unit::Nanoseconds, true),
            curves: vec![
                curve("longest", 0, |stretch| stretch.max_ns),
                curve("median", 1, |stretch| stretch.p50_ns),
            ],
            x_rule: None,
            y_rule: Some((self.deadline_ns as f64, "deadline".into())),
        };
        Section {
            title: "The run in time".into(),
            caption: "Each point is a stretch of the run.".into(),
            legend: vec![
                (legend_key(0, false), "longest of the stretch".into()),
                (legend_key(1, true), "median of the stretch".into()),
            ],
            panels: vec![("Response time".into(), chart.svg())],
            ..Section::default()
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
