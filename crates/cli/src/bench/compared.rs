//! Comparisons by a bench: what every verb that makes one asks and shows alike.

use super::setup::command_line;
use super::{Bench, BenchHost};
use crate::Context;
use crate::failure::{Failure, Result};
use crate::units::Size;
use measure::kind::Kind;
use measure::{CompareError, Comparison, DeviceInfo, Operation, Progress, Settings};
use std::rc::Rc;
use std::time::Duration;

/// The settings of a comparison whose cells last `cell`; the caller adds what it asks.
pub fn settings(cell: Duration, span_bytes: u64, seed: u64) -> Settings {
    Settings {
        cell_duration: cell,
        warm_up: cell / 5,
        span_bytes,
        seed,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        commands: vec![command_line()],
        ..Settings::default()
    }
}

/// The operations that were named; else what the user allows.
pub fn operations(named: &[Operation], destroys: bool) -> Vec<Operation> {
    match (named.is_empty(), destroys) {
        (false, _) => named.to_vec(),
        (true, true) => vec![Operation::Read, Operation::Write],
        (true, false) => vec![Operation::Read],
    }
}

/// Measures the named paths, and shows how far it is.
///
/// # Errors
/// A path is none, the settings make no sense, or the kernel does not tell processor time.
pub fn compare(
    context: &Context,
    bench: &Rc<Bench>,
    device: &DeviceInfo,
    kinds: &[&'static Kind],
    settings: &Settings,
) -> Result<Comparison> {
    let mut paths = super::paths(bench, kinds);
    let bar = context.console.steps_bar(0);
    let mut progress = |step: &Progress<'_>| {
        bar.set_length(step.total_cells as u64);
        bar.set_position(step.done_cells as u64);
        bar.set_message(message(step));
    };
    let comparison = measure::compare(
        &mut BenchHost::new(bench),
        &mut paths,
        device.clone(),
        settings,
        &mut progress,
        context.cancel.flag(),
    );
    bar.finish_and_clear();
    comparison.map_err(|error| match error {
        CompareError::CpuTime(_) => Failure::unsupported(error.to_string()),
        _ => Failure::usage(error.to_string()),
    })
}

fn message(step: &Progress<'_>) -> String {
    let left = step
        .remaining
        .map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
    match step.next {
        Some((path, access)) => format!(
            "{path} {} {} {}{left}",
            access.pattern,
            access.operation,
            Size(access.block_size_bytes)
        ),
        None => String::new(),
    }
}
