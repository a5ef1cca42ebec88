// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tags that this project stamps, and the names of tags.

use std::collections::HashMap;

/// Tags of `straightway trace`: a request's way through the application.
pub mod application {
    /// Before the request is submitted.
    pub const BEGIN: u32 = 0x5357_0001;
    /// It was started.
    pub const STARTED: u32 = 0x5357_0002;
    /// The poll that found it done begins.
    pub const SEEN: u32 = 0x5357_0003;
    /// It has returned.
    pub const END: u32 = 0x5357_0004;
}

/// Tags of CharIO (`kernel/chario/swt_event.h`).
pub mod chario {
    /// A call begins.
    pub const ENTER: u32 = 0x4348_0001;
    /// A call ends.
    pub const EXIT: u32 = 0x4348_0002;
    /// Commands were submitted to the drive, with one doorbell.
    pub const SUBMIT: u32 = 0x4348_0003;
    /// The drive's interrupt reached its handler.
    pub const INTERRUPT: u32 = 0x4348_0004;
    /// A command's completion was processed.
    pub const COMPLETE: u32 = 0x4348_0005;
    /// The caller is woken up.
    pub const WAKE: u32 = 0x4348_0006;
    /// The caller goes to sleep.
    pub const SLEEP: u32 = 0x4348_0007;
    /// The caller runs.
    pub const RESUME: u32 = 0x4348_0008;
}

const KNOWN: &[(u32, &str)] = &[
    (application::BEGIN, "begin"),
    (application::STARTED, "started"),
    (application::SEEN, "seen"),
    (application::END, "end"),
    (chario::ENTER, "call"),
    (chario::EXIT, "return"),
    (chario::SUBMIT, "submit"),
    (chario::INTERRUPT, "interrupt"),
    (chario::COMPLETE, "complete"),
    (chario::WAKE, "wake"),
    (chario::SLEEP, "sleep"),
    (chario::RESUME, "resume"),
];

/// Names of tags: this project's own, and those that a program lists in a file.
#[derive(Clone, Debug)]
pub struct Names {
    of: HashMap<u32, String>,
}

impl Default for Names {
    fn default() -> Self {
        let known = KNOWN.iter().map(|&(tag, name)| (tag, name.to_owned()));
        Self {
            of: known.collect(),
        }
    }
}

impl Names {
    /// Adds the names of a text, a line `TAG NAME` each, with the tag in decimal or `0x`
    /// hexadecimal. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// The number of the first line that is different.
    pub fn add(&mut self, text: &str) -> Result<(), usize> {
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (tag, name) = line.split_once(char::is_whitespace).ok_or(number)?;
            let tag = match tag.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => tag.parse(),
            };
            self.of
                .insert(tag.map_err(|_| number)?, name.trim().to_owned());
        }
        Ok(())
    }

    /// A tag's name; without one its number.
    pub fn of(&self, tag: u32) -> String {
        let name = self.of.get(&tag).cloned();
        name.unwrap_or_else(|| format!("{tag:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_lines() {
        let mut names = Names::default();
        names
            .add("# mine\n0x10 frame begins\n17\tframe ends\n\n")
            .unwrap();
        assert_eq!(names.of(16), "frame begins");
        assert_eq!(names.of(17), "frame ends");
        assert_eq!(names.of(18), "0x12");
        assert_eq!(names.of(chario::SUBMIT), "submit");
        assert_eq!(names.add("1 a\n2"), Err(2));
        assert_eq!(names.add("0xg a"), Err(1));
    }

    /// The constants of the kernel's header are these.
    #[test]
    fn the_module_has_the_same_tags_and_the_same_header() {
        let header = include_str!("../../../kernel/chario/swt_event.h");
        let of = |name: &str| {
            let line = header.lines().find_map(|line| {
                let (key, value) = line
                    .strip_prefix("#define ")?
                    .split_once(char::is_whitespace)?;
                (key == name).then_some(value.split_whitespace().next()?)
            });
            let text = line.unwrap_or_else(|| panic!("{name} is missing"));
            let text = text.trim_end_matches('u');
            u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
        };
        for (name, tag) in [
            ("SWT_CHARIO_ENTER", chario::ENTER),
            ("SWT_CHARIO_EXIT", chario::EXIT),
            ("SWT_CHARIO_SUBMIT", chario::SUBMIT),
            ("SWT_CHARIO_INTERRUPT", chario::INTERRUPT),
            ("SWT_CHARIO_COMPLETE", chario::COMPLETE),
            ("SWT_CHARIO_WAKE", chario::WAKE),
            ("SWT_CHARIO_SLEEP", chario::SLEEP),
            ("SWT_CHARIO_RESUME", chario::RESUME),
            ("SWT_HEADER_BYTES", crate::HEADER_BYTES as u32),
        ] {
            assert_eq!(of(name), tag, "{name}");
        }
    }
}
