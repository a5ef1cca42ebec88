// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a request's time goes.

use crate::chart::{Axis, Chart, Curve, Unit, legend_key, stacks, swatch};
use crate::{Page, Reportable, Section};
use measure::format::{count, duration, figure, size};
use measure::trace::Traced;
use measure::trace::parts::PARTS;

impl Reportable for Traced {
    fn page(&self) -> Page<'_> {
        let title = format!(
            "Where the time of a {} of {} by {} goes",
            self.access.operation,
            size(self.access.block_size_bytes),
            self.path
        );
        let mut page = Page::new(&self.run, title, lede(self));
        page.sections = vec![averages(self), one_by_one(self), distribution(self)];
        page
    }
}

fn lede(traced: &Traced) -> String {
    let parts = traced.parts.iter();
    let most = parts.max_by(|a, b| a.mean_ns.total_cmp(&b.mean_ns));
    let most = most.map_or(String::new(), |part| {
        let percent = part.share * 100.0;
        format!(" Most of it, {percent:.0} %, is {}.", part.name)
    });
    let micros = |ns: f64| figure(ns / 1e3);
    let added = micros(traced.probe_cost_ns);
    let cost = match (traced.source.as_str(), traced.probe_cost_ns_ci95) {
        ("driver", _) => " Times are from the driver's own stamps.".to_owned(),
        ("counter", _) => " Times are stamps of the processor's counter.".to_owned(),
        ("timer", _) => " Times are stamps of a profiling timer.".to_owned(),
        (_, Some([low, high])) => format!(
            " Tracing added {added} µs to the median request ({} to {}).",
            micros(low),
            micros(high)
        ),
        _ => format!(" Tracing added {added} µs."),
    };
    let lost = match traced.lost_events {
        0 => String::new(),
        lost => format!(" {} events were lost.", count(lost)),
    };
    format!(
        "{} requests took {} on average.{most} The parts explain {:.1} % of the time.{cost}{lost}",
        count(traced.requests),
        duration(traced.total_mean_ns as u64),
        traced.coverage * 100.0,
    )
}

fn legend() -> impl Iterator<Item = (String, &'static str)> {
    let names = PARTS.iter().enumerate();
    names.map(|(style, name)| (swatch(style), *name))
}

fn averages(traced: &Traced) -> Section {
    let parts = traced.parts.iter().enumerate();
    let parts = parts.map(|(style, part)| (style, part.mean_ns)).collect();
    let rows = traced.parts.iter().map(|part| {
        vec![
            part.name.clone(),
            duration(part.mean_ns as u64),
            format!("{:.1} %", part.share * 100.0),
            duration(part.p50_ns),
            duration(part.p99_ns),
        ]
    });
    let caption = "From the application's call to its return; each instant belongs to one part.";
    let bar = [(traced.path.clone(), parts)];
    Section::new("On average", caption)
        .legend(legend())
        .panel(
            format!("Mean of {} requests", count(traced.requests)),
            stacks("Mean time of each part", &bar, &PARTS),
        )
        .table("Part|mean|share|median|99th percentile", rows)
}

fn one_by_one(traced: &Traced) -> Section {
    let row = |(number, parts): (u32, &[f64; 6])| {
        let parts = parts.iter().copied().enumerate().collect();
        (number.to_string(), parts)
    };
    let rows: Vec<(String, Vec<(usize, f64)>)> = (1..).zip(&traced.shown).map(row).collect();
    let caption = "The first of them, in the order in which they were made. Time that alternates \
         between two parts is drawn together.";
    Section::new("Request by request", caption)
        .legend(legend())
        .panel(
            format!("{} requests", rows.len()),
            stacks("Parts of each request", &rows, &PARTS),
        )
}

fn distribution(traced: &Traced) -> Section {
    let chart = |title: &str, y: Axis, points: &[(f64, f64)]| {
        let x = Axis::new("Time of a request", Unit::Nanoseconds, true);
        Chart::new(title, x, y, vec![Curve::plain("total", 0, points)]).svg()
    };
    let tail = Axis::new("Share that took longer", Unit::Share, true);
    let shape = Axis::new("Density per decade", Unit::Number, false);
    let (long, often) = (
        "Share of requests that took longer",
        "Density of request times",
    );
    let caption = "The tail consists of the samples themselves; the density shows only the shape.";
    Section::new("Distribution", caption)
        .legend([(legend_key(0, false), "time of a request, all parts")])
        .panel("Tail", chart(long, tail, &traced.exceedance))
        .panel("Shape", chart(often, shape, &traced.density))
}
