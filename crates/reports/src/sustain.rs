// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a path keeps up with a rate.

use crate::chart::{Axis, Chart, Curve, Unit, legend_key};
use crate::{Page, Reportable, Section, Table, within};
use measure::format::{capital, count, duration, figure, share, size, yes};
use measure::sustain::{Stretch, Sustained, Times, Verdict};

/// Styles of the two times.
const RESPONSE: usize = 0;
const SERVICE: usize = 1;

impl Reportable for Sustained {
    fn page(&self) -> Page<'_> {
        let drive = &self.run.device.name;
        let title = format!("{} of {drive} {}", self.path, asked(self));
        let mut page = Page::new(&self.run, title, lede(self));
        let class = match self.verdict {
            Verdict::Sustains => "good",
            Verdict::DoesNot => "bad",
            Verdict::NotEnoughData | Verdict::CannotTell => "open",
        };
        page.verdict = Some((class, self.verdict.to_string()));
        page.sections = vec![facts(self), tails(self), in_time(self)];
        page
    }
}

fn asked(sustained: &Sustained) -> String {
    format!(
        "at {} MiB/s in blocks of {}, each within {}",
        figure(sustained.rate_mib_s),
        size(sustained.access.block_size_bytes),
        duration(sustained.deadline_ns)
    )
}

fn lede(sustained: &Sustained) -> String {
    let mut text = format!("{}.", capital(&sustained.reason));
    if sustained.verdict == Verdict::CannotTell {
        return text;
    }
    if let Some(needed_s) = sustained.needed_duration_s {
        text += &format!(" A run of {} s would decide.", figure(needed_s));
    }
    match sustained.smallest_safe_buffer_bytes {
        Some(bytes) => text + &format!(" A buffer of {} would have lost nothing.", size(bytes)),
        None => text + " No buffer is large enough: it fell further and further behind.",
    }
}

fn facts(sustained: &Sustained) -> Section {
    let row = |name: &str, times: &Times| {
        let p999 = times.p999_ns.map(|ns| within(ns, times.p999_ns_ci95));
        vec![
            name.to_owned(),
            within(times.p50_ns, times.p50_ns_ci95),
            within(times.p99_ns, times.p99_ns_ci95),
            p999.unwrap_or("—".to_owned()),
            duration(times.max_ns),
        ]
    };
    let [low, high] = sustained.miss_rate_bounds.map(share);
    let tolerated = share(sustained.tolerated_miss_rate);
    let mut facts = vec![
        ("arrivals", count(sustained.arrivals)),
        ("missed the deadline", count(sustained.misses)),
        (
            "share of misses, 95 %",
            format!("{low} to {high}; {tolerated} are tolerated"),
        ),
        ("misses that count as one", figure(sustained.burstiness)),
        ("never started", count(sustained.unserved)),
        ("failed", count(sustained.errors)),
        (
            "maximum of waiting blocks",
            count(sustained.peak_backlog_blocks),
        ),
        (
            "operations in flight, at most",
            sustained.queue_depth.to_string(),
        ),
        ("drifting", yes(sustained.drifting)),
        ("polls", yes(sustained.polls)),
    ];
    // A run that is not valid says nothing about the drive.
    if sustained.verdict != Verdict::CannotTell {
        let bytes = sustained.smallest_safe_buffer_bytes;
        let bytes = bytes.map_or("none".to_owned(), size);
        facts.insert(7, ("smallest safe buffer", bytes));
    }
    let caption = "The response time counts from the moment at which a block was due; the service time from the \
                   moment at which it was submitted, which is all that a closed loop can see. In brackets 95 % \
                   confidence intervals that allow for bursts; where the independent samples are too few there is \
                   none.";
    let rows = [
        row("response time", &sustained.response),
        row("service time", &sustained.service),
    ];
    let head = "|median|99th percentile|99.9th percentile|longest";
    let mut section = Section::new("Results", caption).table(head, rows);
    section.tables.push(Table::of_facts(facts));
    section
}

fn tails(sustained: &Sustained) -> Section {
    let curves = |points: fn(&Times) -> &Vec<(f64, f64)>| {
        let mut service = Curve::plain("service time", SERVICE, points(&sustained.service));
        service.dashed = true;
        let response = Curve::plain("response time", RESPONSE, points(&sustained.response));
        vec![service, response]
    };
    let time = || Axis::new("Time", Unit::Nanoseconds, true);
    let mut tail = Chart::new(
        "The share of blocks that took longer than each time",
        time(),
        Axis::new("Share that took longer", Unit::Share, true),
        curves(|times| &times.exceedance),
    );
    tail.x_rule = Some((sustained.deadline_ns as f64, "deadline"));
    let density = Axis::new("Density per decade", Unit::Number, false);
    let shapes = curves(|times| &times.density);
    let shape = Chart::new("Density of times", time(), density, shapes);
    let caption = "The tail consists of the samples themselves; deadlines are read from it. The density \
         shows only the shape: where times cluster.";
    Section::new("How long blocks took", caption)
        .legend([
            (
                legend_key(RESPONSE, false),
                "response time, from the intended arrival",
            ),
            (legend_key(SERVICE, true), "service time, from submission"),
        ])
        .panel("Tail", tail.svg())
        .panel("Shape", shape.svg())
}

fn in_time(sustained: &Sustained) -> Section {
    let curve = |name: &str, style, value: fn(&Stretch) -> u64| {
        let point = |stretch: &Stretch| (stretch.from_ns as f64, value(stretch) as f64);
        let points: Vec<(f64, f64)> = sustained.timeline.iter().map(point).collect();
        let mut curve = Curve::plain(name, style, &points);
        curve.dashed = style == SERVICE;
        curve
    };
    let mut chart = Chart::new(
        "Response times over the run",
        Axis::new("Time since the start", Unit::Nanoseconds, false),
        Axis::new("Response time", Unit::Nanoseconds, true),
        vec![
            curve("longest", 0, |stretch| stretch.max_ns),
            curve("median", 1, |stretch| stretch.p50_ns),
        ],
    );
    chart.y_rule = Some((sustained.deadline_ns as f64, "deadline"));
    Section::new("The run in time", "Each point is a section of the run.")
        .legend([
            (legend_key(0, false), "longest of the section"),
            (legend_key(1, true), "median of the section"),
        ])
        .panel("Response time", chart.svg())
}
