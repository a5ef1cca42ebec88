// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an application would see.

use crate::{Page, Reportable, Section};
use measure::format::{count, duration, figure, size};
use workload::{OpResult, Worked};

impl Reportable for Worked {
    fn page(&self) -> Page<'_> {
        let how = if self.direct {
            "bypassing the page cache"
        } else {
            "through the page cache"
        };
        let title = format!("{} on {}, {how}", self.workload, self.folder);
        let mut page = Page::new(&self.run, title, lede(self));
        let caption = "A round is all steps of a group. If the workload has a rate, rounds count from when \
             they were due.";
        let head = "Operation|count|per second|MiB|mean|median|99th percentile|longest|failed";
        let section = Section::new("Each kind of operation", caption);
        page.sections
            .push(section.table(head, self.operations.iter().map(row)));
        let caption =
            "They follow each other without a pause, after a warm-up that does not count.";
        let head = "Run|MiB/s|operations per second|mean";
        let section = Section::new("Each run", caption);
        let runs = self.runs.iter().enumerate().map(|(index, run)| {
            vec![
                count(index as u64 + 1),
                figure(run.throughput_mib_s),
                figure(run.operations_per_s),
                duration(run.mean_latency_ns as u64),
            ]
        });
        page.sections.push(section.table(head, runs));
        page
    }
}

fn row(one: &OpResult) -> Vec<String> {
    let due = if one.open_loop {
        " (from when it was due)"
    } else {
        ""
    };
    vec![
        format!("{}: {}{due}", one.group, one.operation),
        count(one.count),
        figure(one.per_second),
        figure(one.bytes as f64 / f64::from(1u32 << 20)),
        duration(one.mean_ns as u64),
        duration(one.p50_ns),
        super::within(one.p99_ns, one.p99_ns_ci95),
        duration(one.max_ns),
        count(one.errors),
    ]
}

fn lede(worked: &Worked) -> String {
    let failed = match &worked.first_error {
        Some(error) => format!(" Some operations failed; the first: {error}."),
        None => String::new(),
    };
    format!(
        "{} ({}), {} of files, {}: {} MiB/s, {} operations per second, {} each on average.{failed}",
        worked.workload,
        worked.about,
        size(worked.dataset_bytes),
        if worked.direct { "direct" } else { "standard" },
        figure(worked.throughput_mib_s),
        figure(worked.operations_per_s),
        duration(worked.mean_latency_ns as u64),
    )
}
