// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a path keeps up with a rate.

use crate::chart::{Axis, Chart, Curve, Unit, legend_key};
use crate::{Page, Reportable, Section, Table, within};
use measure::format::{capital, count, duration, figure, share, size, yes};
use measure::sustain::{Stretch, Sustained, Times, Verdict};
use measure::why::{CauseCount, Late, Lateness};

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
        let why = self.why.iter().map(|why| lateness(why, self.deadline_ns));
        page.sections = vec![facts(self)];
        page.sections.extend(why);
        page.sections.extend([tails(self), in_time(self)]);
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

/// Why blocks were late: by cause, and the worst of them.
fn lateness(why: &Lateness, deadline_ns: u64) -> Section {
    let caption = match why.usual_response_ns {
        _ if why.late == 0 => "No block was late.".to_owned(),
        Some(usual_ns) => format!(
            "{} late; the median of those in time took {}. A cause is named if it explains at least \
             half of what is above that.",
            were(why.late),
            duration(usual_ns)
        ),
        None => format!("{} late, and none was in time.", were(why.late)),
    };
    let mut section = Section::new("Why blocks were late", &caption);
    if why.late == 0 {
        return section;
    }
    let row = |one: &CauseCount| {
        vec![
            one.cause.to_string(),
            count(one.blocks),
            count(one.behind),
            duration(one.longest_ns),
            one.cause.help().to_owned(),
        ]
    };
    let mut causes = Table::new(
        "cause|blocks|behind another|longest|what helps",
        why.causes.iter().map(row),
    );
    causes.words = true;
    let row = |late: &Late| {
        vec![
            late.arrival.to_string(),
            duration(late.due_ns),
            duration(late.queued_ns),
            match late.service_ns {
                0 => "never submitted".to_owned(),
                service_ns => duration(service_ns),
            },
            match late.behind {
                Some(arrival) => format!("{}, behind {arrival}", late.cause),
                None => late.cause.to_string(),
            },
            evidence(late),
        ]
    };
    let mut worst = Table::new(
        "block|due|before submission|with the device|cause|around it",
        why.worst.iter().map(row),
    );
    worst.words = true;
    let bars = why.worst.iter().zip(1..).flat_map(|(late, rank)| {
        let at =
            |from: u64, to: u64| [(from as f64, f64::from(rank)), (to as f64, f64::from(rank))];
        let mut queued = Curve::plain("before submission", RESPONSE, &at(0, late.queued_ns));
        queued.dashed = true;
        let served = at(late.queued_ns, late.response_ns());
        [queued, Curve::plain("with the device", SERVICE, &served)]
    });
    let mut chart = Chart::new(
        "The worst blocks, from the moment at which each was due",
        Axis::new("Time since it was due", Unit::Nanoseconds, false),
        Axis::new("Block, the longest first", Unit::Number, false),
        bars.collect(),
    );
    chart.x_rule = Some((deadline_ns as f64, "deadline"));
    section = section
        .legend([
            (legend_key(RESPONSE, true), "before submission"),
            (legend_key(SERVICE, false), "with the device"),
        ])
        .panel("Worst blocks", chart.svg());
    section.tables.extend([causes, worst]);
    if !why.uncounted.is_empty() {
        let missing = (
            "not counted here, so never a cause",
            why.uncounted.join(", "),
        );
        section.tables.push(Table::of_facts(vec![missing]));
    }
    section
}

fn were(blocks: u64) -> String {
    match blocks {
        1 => "1 block was".to_owned(),
        _ => format!("{} blocks were", count(blocks)),
    }
}

/// What the counters did around a block.
fn evidence(late: &Late) -> String {
    let seen = &late.evidence;
    let mut words = Vec::new();
    if let Some(ns) = seen.waited_ns {
        words.push(format!("{} ready and not running", duration(ns)));
    }
    if let Some(faults @ 1..) = seen.major_faults {
        words.push(format!("{faults} page faults that read"));
    }
    if let Some(ns @ 1..) = seen.memory_stall_ns {
        words.push(format!("{} of stalls for memory", duration(ns)));
    }
    if let Some(bytes @ 1..) = seen.others_bytes {
        words.push(format!("{} for others", size(bytes)));
    }
    if words.is_empty() {
        return "—".to_owned();
    }
    format!("{} in {}", words.join(", "), duration(seen.window_ns))
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
