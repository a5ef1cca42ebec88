// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a check of this machine found, as it is printed and reported.

use linux::doctor::{Check, State};
use remedy::Wording;
use schemars::JsonSchema;
use serde::Serialize;

/// One check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// What was checked.
    pub name: String,
    /// `ok`, `warning` or `missing`.
    pub state: String,
    /// The result.
    pub found: String,
    /// A command or advice that may fix it.
    pub hint: Option<String>,
}

impl Finding {
    /// The same, in the words of `wording`.
    pub fn of(check: &Check, wording: &dyn Wording) -> Self {
        let state = match check.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Missing => "missing",
        };
        Self {
            name: check.name.clone(),
            state: state.to_owned(),
            found: check.found.clone(),
            hint: check.hint.as_ref().map(|remedy| remedy.word(wording, None)),
        }
    }
}
