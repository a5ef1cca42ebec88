// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of files that have no place in a folder.

use devices::Context;
use units::shown;

/// Why a name has no place of its own in a folder, an archive or a mount; `None` if it has one.
pub fn misfit(name: &str) -> Option<&'static str> {
    if name.starts_with('/') {
        return Some("it begins with `/`");
    }
    if name.ends_with('/') {
        return Some("it ends with `/`");
    }
    name.split('/').find_map(|part| match part {
        "" => Some("it has nothing between two `/`"),
        "." => Some("a part of it is `.`"),
        ".." => Some("a part of it is `..`"),
        _ => None,
    })
}

/// Warns when a file with such a name is made.
pub fn warn_of_misfit(context: &Context, name: &str) {
    if let Some(why) = misfit(name) {
        context.say(format_args!(
            "warning: `{}` has no place in a folder, an archive or a mount: {why}; straightway mv renames it",
            shown(name)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_place_are_known() {
        for name in ["..", ".", "/a", "../x", "a//b", "a/", "a/./b", "a/..", "/"] {
            assert!(misfit(name).is_some(), "{name}");
        }
        for name in ["a", "a/b", "...", ".a", "a..", "a/.b", " "] {
            assert_eq!(misfit(name), None, "{name}");
        }
    }
}
