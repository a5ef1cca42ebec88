// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Instructions and calls of the kernel, counted by the lab's emulator.
//!
//! The emulator writes a line for each pair of marks into a file that the guest sees; see
//! `lab/count`.

use linux::marker;
use measure::{Missing, Work, WorkCounter};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The environment variable by which the lab names the file.
pub const COUNTS: &str = "STRAIGHTWAY_COUNTS";

/// The lab's counter.
#[derive(Debug)]
pub struct LabCounter {
    file: File,
    path: PathBuf,
    /// The begin of a line whose end has not arrived.
    rest: String,
}

impl LabCounter {
    /// The counter that writes into this file; what it wrote so far is left out.
    ///
    /// # Errors
    /// The file cannot be read, or no count arrives in it: this is not the lab that has it.
    pub fn new(path: &Path) -> Result<Self, Missing> {
        let open = || -> std::io::Result<File> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(|error| unread(path, &error))?;
        let mut this = Self {
            file,
            path: path.to_path_buf(),
            rest: String::new(),
        };
        this.start();
        this.stop();
        match this.take()?.len() {
            1 => Ok(this),
            _ => Err(Missing::new(
                format!("nothing counts into {}", path.display()),
                "run it in the lab, as make demo does",
            )),
        }
    }
}

fn unread(path: &Path, error: &std::io::Error) -> Missing {
    Missing::new(
        format!(
            "the lab's counts in {} cannot be read: {error}",
            path.display()
        ),
        "run it in the lab, as make demo does",
    )
}

impl WorkCounter for LabCounter {
    fn source(&self) -> String {
        "the lab's emulator: all that its processor executed, without the idle loop".to_owned()
    }

    #[inline]
    fn start(&mut self) {
        marker::begin();
    }

    #[inline]
    fn stop(&mut self) {
        marker::end();
    }

    fn take(&mut self) -> Result<Vec<Work>, Missing> {
        let read = self.file.read_to_string(&mut self.rest);
        read.map_err(|error| unread(&self.path, &error))?;
        let end = self.rest.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.rest.split_off(end);
        let lines = std::mem::replace(&mut self.rest, rest);
        Ok(lines.lines().filter_map(parse).collect())
    }
}

/// A line of this program's marks: `LABEL USER KERNEL WAITING CALLS`.
fn parse(line: &str) -> Option<Work> {
    let mut numbers = line.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (label, user, kernel, waiting, calls) = (next()?, next()?, next()?, next()?, next()?);
    (label == marker::LABEL).then_some(Work {
        user_instructions: user,
        kernel_instructions: kernel,
        system_calls: calls,
        has_waited: waiting > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_this_program_s_marks_are_its_work() {
        let work = parse("240 12 340 5000 2").unwrap();
        let numbers = [
            work.user_instructions,
            work.kernel_instructions,
            work.system_calls,
        ];
        assert_eq!(numbers, [12, 340, 2]);
        for other in ["1 12 340 5000 2", "240 12 340 5000", "240 12 x 5000 2", ""] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_into_which_nothing_counts_is_no_counter() {
        let file = std::env::temp_dir().join(format!("straightway-counts-{}", std::process::id()));
        let missing = LabCounter::new(&file).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        std::fs::write(&file, "240 1 1 1 1\n").unwrap();
        let missing = LabCounter::new(&file).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(missing.contains("nothing counts into"), "{missing}");
    }
}
