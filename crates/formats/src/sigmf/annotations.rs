// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which samples an annotation is of ("Annotation Segment Objects"), when samples before, between
//! or behind them are left out.

use super::start_of;
use serde_json::{Map, Value, json};
use std::ops::Range;

const START: &str = "core:sample_start";
const COUNT: &str = "core:sample_count";

fn number(annotation: &Value, key: &str) -> Option<u64> {
    annotation.get(key).and_then(Value::as_u64)
}

/// The sample behind its last one. Without a count it ends with the capture that it begins in, the
/// last of which has no end here.
pub fn end_of(annotation: &Value, captures: &[Map<String, Value>]) -> u64 {
    let start = number(annotation, START).unwrap_or(0);
    match number(annotation, COUNT) {
        Some(count) => start.saturating_add(count),
        None => {
            let mut starts = captures.iter().map(start_of);
            starts.find(|next| *next > start).unwrap_or(u64::MAX)
        }
    }
}

/// The same, ending before this sample.
pub fn ending_at(mut annotation: Value, end: u64) -> Value {
    let start = number(&annotation, START).unwrap_or(0);
    if let Some(fields) = annotation.as_object_mut() {
        fields.insert(COUNT.into(), json!(end.saturating_sub(start)));
    }
    annotation
}

/// An annotation of samples that are counted from another one now.
pub fn moved(annotation: &Value, from: u64, to: u64) -> Option<Value> {
    let start = number(annotation, START)?.checked_sub(from)?;
    let mut annotation = annotation.clone();
    *annotation.get_mut(START)? = json!(start.saturating_add(to));
    Some(annotation)
}

/// An annotation where these samples are left out; those behind them have numbers that are `less`
/// smaller. None: it has no others.
pub fn without(
    annotation: &Value,
    left_out: &Range<u64>,
    less: u64,
    captures: &[Map<String, Value>],
) -> Option<Value> {
    let Some(start) = number(annotation, START) else {
        return Some(annotation.clone());
    };
    let end = end_of(annotation, captures);
    let is_left_out = left_out.contains(&start) && end <= left_out.end;
    if is_left_out && !left_out.is_empty() {
        return None;
    }
    let place = |sample: u64| match sample {
        sample if sample < left_out.start => sample,
        sample if sample < left_out.end => match less {
            // Their numbers are those of samples that are there.
            0 => left_out.end,
            _ => left_out.start,
        },
        sample => sample - less,
    };
    let mut annotation = annotation.clone();
    *annotation.get_mut(START)? = json!(place(start));
    match number(&annotation, COUNT) {
        Some(_) => Some(ending_at(annotation, place(end))),
        None => Some(annotation),
    }
}

/// The annotations of samples before `end`, and how many others there are. One that goes on behind
/// it ends there.
pub fn before(annotations: &[Value], end: u64) -> (Vec<Value>, usize) {
    let is_there = |one: &&Value| number(one, START).is_none_or(|start| start < end);
    let there: Vec<Value> = annotations
        .iter()
        .filter(is_there)
        .map(|one| match (number(one, START), number(one, COUNT)) {
            (Some(start), Some(count)) if start.saturating_add(count) > end => {
                ending_at(one.clone(), end)
            }
            _ => one.clone(),
        })
        .collect();
    let others = annotations.len() - there.len();
    (there, others)
}
