// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of files: which are valid, and the name of a replacement until it is complete.

use crate::{Mounted, failed, shown};
use devices::error::{Error, Result};
use volume::layout::SHORT_NAME_BYTES;
use volume::{NAME_BYTES, Name};

/// Bytes of a label.
const LABEL_BYTES: usize = 32;
/// The suffix of a replacement's name until it is complete.
pub const UNFINISHED: &str = ".new~";
/// Removes `old` and renames `new` to it.
///
/// # Errors
/// The volume failed.
pub fn replace(mounted: &Mounted<'_, '_>, new: &str, old: &str) -> Result<()> {
    mounted.remove(old)?;
    let renaming = format!("renaming `{}` to `{}`", shown(new), shown(old));
    let renamed = volume::blocking::run(mounted.volume, mounted.volume.rename(new, old));
    renamed.map_err(|error| failed(renaming, error))
}

/// The name of a replacement until it is complete: as much of `name` as fits, and a suffix. A name
/// that any version of the format can have gets one that it can have too.
pub fn unfinished_name(name: &str) -> String {
    let most = if name.len() > SHORT_NAME_BYTES {
        NAME_BYTES
    } else {
        SHORT_NAME_BYTES
    };
    let mut end = name.len().min(most - UNFINISHED.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let unfinished = format!("{}{UNFINISHED}", name.get(..end).unwrap_or_default());
    // The longest name may end so itself.
    if unfinished == name {
        let first = if name.starts_with('+') { '-' } else { '+' };
        let rest = unfinished.chars().skip(1);
        std::iter::once(first).chain(rest).collect()
    } else {
        unfinished
    }
}

/// Refuses an invalid file name, before anything is opened.
///
/// # Errors
/// The name is empty, too long, or contains a NUL.
pub fn check_name(name: &str) -> Result<()> {
    match Name::new(name) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format_args!("`{}`, {} bytes", shown(name), name.len()).to_string();
            Err(failed(what, error))
        }
    }
}

/// Refuses a label that a volume cannot have.
///
/// # Errors
/// It is too long, or has a control character.
pub fn check_label(label: &str) -> Result<()> {
    if label.len() > LABEL_BYTES {
        let bytes = label.len();
        let what = format!("the label has {bytes} bytes; at most {LABEL_BYTES} are allowed");
        return Err(Error::usage(what));
    }
    if label.chars().any(char::is_control) {
        let what = format!("the label `{}` has a control character", shown(label));
        Err(Error::usage(what).hint("a label with letters, digits and spaces"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_name_always_fits() {
        assert_eq!(unfinished_name("a"), "a.new~");
        for most in [64, 255] {
            let suffixed =
                ["x", "+", "é"].map(|letter| letter.repeat((most - 5) / letter.len()) + UNFINISHED);
            for name in ["x", "é", "€"]
                .map(|letter| letter.repeat(most / letter.len()))
                .iter()
                .chain(&suffixed)
            {
                let unfinished = unfinished_name(name);
                assert!(Name::new(&unfinished).is_ok(), "{unfinished}");
                assert!(unfinished.len() <= most, "{unfinished}");
                assert_ne!(&unfinished, name);
            }
        }
    }
}
