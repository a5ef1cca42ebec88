// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short reads kept in memory over an open path: `--cache`.

use crate::error::{Error, Result};
use crate::path::gathered::{DEPTH, Inner};
use block::Device;
use hybrid::{Cache, CacheLine};
use remedy::{Setting, words};

/// The longest read that is kept.
pub const MOST_BYTES: usize = 64 << 10;
/// What one line takes.
const LINE_BYTES: usize = 4096;

type Kept = Cache<Vec<u8>, Vec<CacheLine>, Inner, DEPTH>;

/// `device` with its short reads kept in at most `bytes` of memory.
///
/// # Errors
/// There is not enough memory.
pub fn wrap(device: Box<dyn Device>, bytes: usize) -> Result<Box<dyn Device>> {
    let short = |what: &str| {
        Error::usage(words![Setting::Cache, format!(": {what}")])
            .hint("at least 32K, and less than is free")
    };
    let (mut memory, mut entries) = (Vec::new(), Vec::new());
    let lines = bytes / LINE_BYTES;
    let reserved = memory.try_reserve_exact(bytes);
    if reserved.is_err() || entries.try_reserve_exact(lines).is_err() {
        return Err(short("there is not so much memory"));
    }
    memory.resize(bytes, 0);
    entries.resize(lines, CacheLine::default());
    match Kept::new(Inner(device), memory, entries, MOST_BYTES) {
        Ok(cache) => Ok(Box::new(cache)),
        Err(_) => Err(short("too small")),
    }
}
