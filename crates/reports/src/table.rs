// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table for the terminal: plain text, aligned, best path first.

use measure::access::Access;
use measure::advice::answer;
use measure::findings::{Merit, ranked};
use measure::format::{aligned, capital, count, figure, with_half};
use measure::schema::{Comparison, PathResult};
use std::fmt::Write;

const HEADINGS: [&str; 7] = [
    "path",
    "MiB/s",
    "IOPS",
    "CPU %",
    "MiB/s per CPU %",
    "commands/op",
    "interrupts/op",
];

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
    for access in comparison.accesses() {
        let results = ranked(comparison, access, Merit::Speed);
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(results.into_iter().map(row));
        let _ = writeln!(text, "{}\n{}", heading(access), aligned(&rows, 1));
    }
    notes(&mut text, comparison);
    text
}

/// `Random read, 4 KiB`.
pub(crate) fn heading(access: Access) -> String {
    capital(&access.to_string().replace(" of ", ", "))
}

fn row(result: &PathResult) -> [String; 7] {
    let speed = with_half(result.throughput_mib_s, result.throughput_mib_s_ci95);
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), figure);
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
    [
        format!("{}{marks}", result.path),
        speed,
        figure(result.iops),
        figure(result.cpu_percent),
        figure(result.mib_s_per_cpu_percent),
        or_dash(result.device_commands_per_operation),
        or_dash(result.interrupts_per_operation),
    ]
}

fn notes(text: &mut String, comparison: &Comparison) {
    let results = &comparison.results;
    if results
        .iter()
        .any(|result| result.throughput_mib_s_ci95.is_some())
    {
        let _ = writeln!(text, "±  half of the 95 % confidence interval over rounds");
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
