// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks around code whose instructions the lab's counter counts: see `lab/count/marker.h`. On any
//! other machine they are no-operations.

use crate::sys::marker;

/// The label of these marks in the counter's lines.
pub const LABEL: u64 = 240;

/// Instructions from here on are counted.
#[inline(always)]
pub fn begin() {
    marker::begin();
}

/// Instructions up to here are counted.
#[inline(always)]
pub fn end() {
    marker::end();
}
