// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each path depends on the processor's speed: rates over speeds, and the split of times.

use crate::chart::{Axis, Chart, Curve, Unit, legend_key};
use crate::{Page, Reportable, Section};
use measure::access::Access;
use measure::format::{distinct, duration, with_half};
use measure::speed::{Scaling, Speed};
use std::collections::BTreeSet;

/// Above this the two parts do not describe the path.
const MISFIT: f64 = 0.1;

impl Reportable for Speed {
    fn page(&self) -> Page<'_> {
        let title = "The effect of the processor's speed";
        let mut page = Page::new(&self.run, title, lede(self));
        if !self.scalings.is_empty() {
            page.sections.push(rates(self));
            page.sections.push(splits(self));
        }
        page.sections.push(speeds_table(self));
        page
    }
}

fn name(one: &Scaling) -> String {
    format!("{}, {}", one.path, one.access)
}

fn share(one: &Scaling) -> String {
    let ci95 = one.work_share_ci95.map(|ends| ends.map(|end| 100.0 * end));
    with_half(100.0 * one.work_share, ci95)
}

fn lede(speed: &Speed) -> String {
    let count = speed.speeds();
    let (Some(first), Some(last)) = (speed.points.first(), speed.points.last()) else {
        return "Nothing was measured.".to_owned();
    };
    if count < 2 {
        return format!(
            "One speed ({}) says nothing about others: measure at a second one and join the two runs.",
            first.label
        );
    }
    format!(
        "{count} speeds, from {} to {}: a fixed loop took {} at the fastest and {} at the slowest.",
        first.label,
        last.label,
        duration(first.loop_ns),
        duration(last.loop_ns)
    )
}

fn rates(speed: &Speed) -> Section {
    let names: Vec<&str> = distinct(speed.scalings.iter().map(|one| one.path.as_str()));
    let key = |(style, name): (usize, &&str)| (legend_key(style, false), (*name).to_owned());
    let caption = "A line through 0 is a path that only the processor limits; a horizontal line is a path that \
         waits for its drive.";
    let mut section = Section::new("Rates by the processor's speed", caption)
        .legend(names.iter().enumerate().map(key));
    let accesses = speed.scalings.iter().map(|one| one.access);
    for access in accesses.collect::<BTreeSet<Access>>() {
        let is_of = |one: &&Scaling, name| (one.access, one.path.as_str()) == (access, name);
        let curves = names.iter().enumerate().filter_map(|(style, name)| {
            let one = speed.scalings.iter().find(|one| is_of(one, name))?;
            let mut curve = Curve::plain(name, style, &one.rates);
            curve.marked = true;
            Some(curve)
        });
        let chart = Chart::new(
            format!("Speed of {access} by the processor's speed"),
            Axis::new("Processor's speed, 1 is the fastest", Unit::Number, false),
            Axis::new("MiB/s", Unit::Number, false),
            curves.collect(),
        );
        section = section.panel(access.to_string(), chart.svg());
    }
    section
}

fn splits(speed: &Speed) -> Section {
    let rows = speed.scalings.iter().map(|one| {
        vec![
            name(one),
            format!("{:.2}", one.gain),
            duration(one.work_ns.max(0.0) as u64),
            duration(one.rest_ns.max(0.0) as u64),
            share(one),
            if one.misfit > MISFIT {
                format!("NO: off by {:.0} %", 100.0 * one.misfit)
            } else {
                "yes".to_owned()
            },
        ]
    });
    let caption = "The time of an operation is split into work, which takes twice as long at half the speed, and a \
         constant rest. Shares are those at the fastest speed, with half their 95 % interval \
                   over rounds. In a virtual machine that counts instructions, a waiting loop counts as work.";
    let head = "Path and access|gain, slowest to fastest|work|rest|share of work, %|fits";
    Section::new("What grows as the processor slows down", caption).table(head, rows)
}

fn speeds_table(speed: &Speed) -> Section {
    let fastest = speed.points.first().map_or(1, |point| point.loop_ns).max(1);
    let rows = speed.points.iter().map(|point| {
        vec![
            point.label.clone(),
            format!("{:.4}", fastest as f64 / point.loop_ns.max(1) as f64),
            duration(point.loop_ns),
            point.results.len().to_string(),
        ]
    });
    let caption = "Measured by a loop of 200,000 dependent multiplications.";
    Section::new("The speeds", caption).table("Set by|speed|fixed loop|results", rows)
}
