// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of files that have no place in a folder.

use crate::tree::is_pattern;
use devices::Context;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::Bound;
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

/// What commands take a name for that is not this file; `None` if they take it for its name.
pub fn mistaken(name: &str) -> Option<&'static str> {
    if name == "-" {
        return Some("standard input or output");
    }
    is_pattern(name).then_some("a pattern, which fits other files too")
}

/// Warns when a file with such a name is made.
pub fn warn_of_misfit(context: &Context, name: &str) {
    if let Some(what) = mistaken(name) {
        context.say(format_args!(
            "warning: commands take `{}` for {what}; straightway mv renames it",
            shown(name)
        ));
    }
    if let Some(why) = misfit(name) {
        context.say(format_args!(
            "warning: `{}` has no place in a folder, an archive or a mount: {why}; straightway mv renames it",
            shown(name)
        ));
    }
}

/// A file in `all` that is in a folder of this name, or is called like a folder that this one is
/// in: a folder, an archive and a mount can have one of the two only.
pub fn clash<'a>(all: &'a BTreeSet<impl Borrow<str> + Ord>, name: &str) -> Option<&'a str> {
    let above = folders_of(name).find_map(|folder| all.get(folder).map(Borrow::borrow));
    above.or_else(|| {
        let within = format!("{name}/");
        let first = all
            .range::<str, _>((Bound::Included(within.as_str()), Bound::Unbounded))
            .next()
            .map(Borrow::borrow);
        first.filter(|first| first.starts_with(&within))
    })
}

/// The folders that a name is in, the outermost first.
pub fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices('/');
    ends.filter_map(|(end, _)| name.get(..end).filter(|folder| !folder.is_empty()))
}

/// Warns when a file gets a name that clashes with the `other` one.
pub fn warn_of_clash(context: &Context, name: &str, other: &str) {
    let (file, within) = if other.len() < name.len() {
        (other, name)
    } else {
        (name, other)
    };
    context.say(format_args!(
        "warning: `{}` is a file, and `{}` in a folder of that name: a folder, an archive or a mount can have only one of them; straightway mv renames one",
        shown(file),
        shown(within)
    ));
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

    #[test]
    fn names_that_commands_do_not_take_for_a_file_are_known() {
        for name in ["-", "t.*", "a?", "[ab]"] {
            assert!(mistaken(name).is_some(), "{name}");
        }
        for name in ["--", "-a", "a-", "a.b"] {
            assert_eq!(mistaken(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_and_a_folder_of_one_name_clash() {
        let all = BTreeSet::from(["a", "b/c/d", "b.x", "c"]);
        for (name, other) in [
            ("a/b", Some("a")),
            ("a/b/c", Some("a")),
            ("b", Some("b/c/d")),
            ("b/c", Some("b/c/d")),
            ("b/c/d/e", Some("b/c/d")),
            ("b/c/e", None),
            ("ab", None),
            ("/a", None),
            ("b.", None),
            ("a", None),
        ] {
            assert_eq!(clash(&all, name), other, "{name}");
        }
    }
}
