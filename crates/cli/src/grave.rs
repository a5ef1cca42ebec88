// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options by which data may be lost: each says so where it is defined, by its heading.

use clap::Command;

/// The heading in the verb's help. Such options are given only by who knows what they do: none is
/// suggested.
pub const GRAVE: &str = "Options that replace or destroy data";

/// Those of a verb.
pub fn options(verb: &Command) -> impl Iterator<Item = &str> {
    let all = verb.get_arguments();
    let graves = all.filter(|one| one.get_help_heading() == Some(GRAVE));
    graves.filter_map(|one| one.get_long())
}
