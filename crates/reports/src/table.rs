// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table for the terminal: plain text, aligned, best path first.

use measure::access::Access;
use measure::advice::answer;
use measure::fewest::{self, counts_instead, whole};
use measure::format::{aligned, capital, count, figure, with_half};
use measure::schema::{Comparison, PathResult};
use std::fmt::Write;

/// The columns after the path. Where instructions are what ranks, times stand behind, marked.
fn columns(by_counts: bool) -> Vec<(&'static str, Column)> {
    let speed: Column = |one| with_half(one.throughput_mib_s, one.throughput_mib_s_ci95);
    let iops: Column = |one| figure(one.iops);
    let cpu: Column = |one| figure(one.cpu_percent);
    let efficiency: Column = |one| figure(one.mib_s_per_cpu_percent);
    let commands: Column = |one| or_dash(one.device_commands_per_operation);
    let interrupts: Column = |one| or_dash(one.interrupts_per_operation);
    let instructions: Column = |one| {
        let cost = one.cost_per_operation;
        cost.map_or("-".to_owned(), |cost| whole(cost.instructions))
    };
    let calls: Column = |one| or_dash(one.cost_per_operation.map(|cost| cost.system_calls));
    let drive = [("commands/op", commands), ("interrupts/op", interrupts)];
    if by_counts {
        let counts = [("instructions/op", instructions), ("calls/op", calls)];
        let times: [(&str, Column); 2] = [("MiB/s †", speed), ("CPU % †", cpu)];
        [&counts[..], &drive, &times].concat()
    } else {
        let times = [
            ("MiB/s", speed),
            ("IOPS", iops),
            ("CPU %", cpu),
            ("MiB/s per CPU %", efficiency),
        ];
        [&times[..], &drive].concat()
    }
}

type Column = fn(&PathResult) -> String;

fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), figure)
}

/// The table of a comparison. Unknown values are dashes; marks are explained below it.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    if let Some(note) = comparison
        .run
        .device
        .emulated(&comparison.run.environment_before)
    {
        text += &format!("{note}\n\n");
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}\n", answer(comparison));
    let by_counts = counts_instead(comparison);
    let columns = columns(by_counts);
    let head = columns.iter().map(|(name, _)| (*name).to_owned());
    let head: Vec<String> = std::iter::once("path".to_owned()).chain(head).collect();
    for access in comparison.accesses() {
        let mut rows = vec![head.clone()];
        let results = fewest::ranked(comparison, access);
        rows.extend(results.into_iter().map(|result| row(result, &columns)));
        let _ = writeln!(text, "{}\n{}", heading(access), aligned(&rows, 1));
    }
    notes(&mut text, comparison);
    text
}

/// `Random read, 4 KiB`.
pub(crate) fn heading(access: Access) -> String {
    capital(&access.to_string().replace(" of ", ", "))
}

fn row(result: &PathResult, columns: &[(&str, Column)]) -> Vec<String> {
    let marks = [
        (result.polls, "*"),
        (result.drifting, "~"),
        (result.errors > 0, "!"),
    ];
    let marks: String = marks
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, mark)| *mark)
        .collect();
    let name = format!("{}{marks}", result.path);
    let cells = columns.iter().map(|(_, cell)| cell(result));
    std::iter::once(name).chain(cells).collect()
}

fn notes(text: &mut String, comparison: &Comparison) {
    let results = &comparison.results;
    if results
        .iter()
        .any(|result| result.throughput_mib_s_ci95.is_some())
    {
        let _ = writeln!(text, "±  half of the 95 % confidence interval over rounds");
    }
    if counts_instead(comparison) {
        let why = if comparison.run.valid {
            "an emulator's: they say nothing about hardware"
        } else {
            "of a run that is not valid"
        };
        let _ = writeln!(text, "†  {why}");
        if let Some(source) = &comparison.instructions_counted_by {
            let _ = writeln!(
                text,
                "instructions and calls of the kernel: counted by {source}"
            );
        }
    }
    if results.iter().any(|result| result.polls) {
        let _ = writeln!(text, "*  polls: a core spins while the drive works");
    }
    if results.iter().any(|result| result.drifting) {
        let _ = writeln!(text, "~  drifting: still changing from round to round");
    }
    for result in results.iter().filter(|result| result.errors > 0) {
        let error = result.first_error.as_deref().unwrap_or("unknown");
        let errors = count(result.errors);
        let _ = writeln!(
            text,
            "!  {}: {errors} failed operations, {}; the first: {error}",
            result.path, result.access,
        );
    }
    let mut uncounted: Vec<(&str, &str)> = results
        .iter()
        .filter_map(|result| Some((result.path.as_str(), result.uncounted_reason.as_deref()?)))
        .collect();
    uncounted.sort_unstable();
    uncounted.dedup();
    for (path, reason) in uncounted {
        let _ = writeln!(text, "-  {path}: {reason}");
    }
    let _ = writeln!(
        text,
        "CPU %: the whole machine's, 100 is one core, less {} of the idle machine",
        figure(comparison.idle_cpu_percent)
    );
    let _ = writeln!(text, "seed {}", comparison.run.seed);
    if !comparison.missing.is_empty() {
        let _ = writeln!(text, "\nNot measured");
        for missing in &comparison.missing {
            let _ = writeln!(text, "  {}: {}", missing.path, missing.reason);
            let _ = writeln!(text, "    hint: {}", missing.hint);
        }
    }
    if !comparison.run.complete {
        let _ = writeln!(text, "\nINCOMPLETE: ended before all rounds were measured");
    }
    for reason in &comparison.run.invalid_reasons {
        let _ = writeln!(text, "\nNOT VALID: {reason}");
    }
}
