// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of options that are one of a few names.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use measure::{Operation, Pattern};
use std::fmt;

/// Parses one of these values by its displayed name.
pub fn choice<T: Clone + fmt::Display + Send + Sync>(
    all: &'static [T],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(T::to_string)).try_map(|text| {
        let found = all.iter().find(|one| one.to_string() == text);
        found.cloned().ok_or("no such choice")
    })
}

/// `read` or `write`.
pub fn operation() -> impl TypedValueParser<Value = Operation> {
    choice(&[Operation::Read, Operation::Write])
}

/// `sequential` or `random`.
pub fn pattern() -> impl TypedValueParser<Value = Pattern> {
    choice(&[Pattern::Sequential, Pattern::Random])
}
