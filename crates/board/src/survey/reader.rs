// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the kernel's small files, and records each one that could not be read.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The longest text that is taken from one file.
const FILE_BYTES: u64 = 64 << 10;

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unread {
    /// The file, or what was asked for.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Reads files, and remembers failures.
#[derive(Debug, Default)]
pub struct Reader {
    /// What could not be read so far.
    pub unread: Vec<Unread>,
}

impl Reader {
    /// Records a failure.
    pub fn failed(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unread.push(Unread {
            what: what.into(),
            why: why.into(),
        });
    }

    /// The trimmed text of a file that not every machine has. Zero bytes, which separate the
    /// strings of a device tree, become spaces.
    pub fn optional(&mut self, path: &Path) -> Option<String> {
        match text(path) {
            Ok(text) => Some(text),
            // An attribute that the kernel lists and the device lacks fails with one of these.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::IsADirectory
                ) =>
            {
                None
            }
            Err(error) => {
                self.failed(path.display().to_string(), error.to_string());
                None
            }
        }
    }

    /// The same of a file that every machine has.
    pub fn required(&mut self, path: &Path) -> Option<String> {
        text(path)
            .map_err(|error| self.failed(path.display().to_string(), error.to_string()))
            .ok()
    }

    /// The files of a folder that exist, by name.
    pub fn attributes(&mut self, folder: &Path, names: &[&str]) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for name in names {
            if let Some(text) = self.optional(&folder.join(name)) {
                found.insert((*name).to_owned(), text);
            }
        }
        found
    }

    /// The sorted names in a folder; none if it does not exist.
    pub fn names(&mut self, folder: &Path) -> Vec<String> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.failed(folder.display().to_string(), error.to_string());
                return Vec::new();
            }
        };
        let names = entries.flatten();
        let mut names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Ok(text.trim().to_owned())
}
