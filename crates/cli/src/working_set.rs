// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A working set in a file: the ranges of a mapped file that were in memory at the end of a run,
//! which the next one reads before they are touched.
//!
//! Text: a line `straightway working set 1`, then for each range its first byte and its length.

use devices::cancel::Cancel;
use devices::error::{Error, Result};
use devices::guard::Output;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

const HEADER: &str = "straightway working set 1";

/// The ranges that the file at `path` lists, cut to `size_bytes`; empty if it does not exist.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn load(path: &Path, size_bytes: u64) -> Result<Vec<Range<u64>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(other(path, 1)),
        Err(error) => return Err(Error::io("reading", path, &error)),
    };
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(other(path, 1));
    }
    let mut ranges = Vec::new();
    for (at, line) in lines.enumerate() {
        let words = line.split_once(' ');
        let range = words.and_then(|(start, len)| {
            let (start, len) = (start.parse::<u64>().ok()?, len.parse::<u64>().ok()?);
            Some(start..start.checked_add(len)?)
        });
        let range = range.ok_or_else(|| other(path, at + 2))?;
        // The mapped file may be shorter than it was.
        if range.start < size_bytes {
            ranges.push(range.start..range.end.min(size_bytes));
        }
    }
    Ok(ranges)
}

/// Writes the ranges to a file, in place of the last run's.
///
/// # Errors
/// It cannot be written.
pub fn store(output: Output, ranges: &[Range<u64>], cancel: &Cancel) -> Result<()> {
    let mut text = format!("{HEADER}\n");
    for range in ranges {
        let _ = writeln!(text, "{} {}", range.start, range.end - range.start);
    }
    let mut output = output.open(cancel)?;
    output.take(text.as_bytes())?;
    output.finish()
}

fn other(path: &Path, line: usize) -> Error {
    let what = format!("{} is not a working set: line {line}", path.display());
    Error::usage(what)
        .hint("--working-set FILE: a file that a run of `straightway map` has written")
}
