// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of an export: the data, and for some formats a description of it.

use devices::Context;
use devices::cancel::Cancel;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{OpenOutput, Output};
use formats::Format;
use formats::sigmf::{DATA, META};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files that may be written, and have not been changed yet.
pub struct Targets {
    data: (PathBuf, Output),
    described: Option<(PathBuf, Output)>,
}

/// The same, open. Neither has its name yet.
pub struct OpenTargets {
    path: PathBuf,
    /// The data.
    pub data: OpenOutput,
    described: Option<(PathBuf, Output)>,
    cancel: Cancel,
}

impl Targets {
    /// Checks that the files of an export to `file` may be written.
    ///
    /// # Errors
    /// One of them may not; nothing was changed.
    pub fn check(
        context: &Context,
        drive: Option<&Drive>,
        file: &Path,
        format: Format,
        force: bool,
    ) -> Result<Self> {
        if file.is_dir() {
            return Err(Error::usage(format!(
                "{} is a directory; nothing was done",
                file.display()
            ))
            .hint("name a file in it"));
        }
        let check = |path: PathBuf| {
            let output = Output::check(&context.roots, &path, force, drive)?;
            Ok::<_, Error>((path, output))
        };
        let (data, described) = match format {
            Format::Raw | Format::Pcapng => (file.to_owned(), Some(with(file, ".gaps.json"))),
            Format::Sigmf => {
                let base = match file.extension().and_then(|extension| extension.to_str()) {
                    Some("sigmf-data" | "sigmf-meta") => file.with_extension(""),
                    _ => file.to_owned(),
                };
                (with(&base, DATA), Some(with(&base, META)))
            }
            Format::Mcap => (file.to_owned(), None),
        };
        Ok(Self {
            data: check(data)?,
            described: described.map(check).transpose()?,
        })
    }

    /// The name of the data's file, without its folder.
    pub fn data_name(&self) -> String {
        let name = self.data.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Opens the data's file under a temporary name.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(self, cancel: &Cancel) -> Result<OpenTargets> {
        let (path, output) = self.data;
        Ok(OpenTargets {
            path,
            data: output.open(cancel)?,
            cancel: cancel.clone(),
            described: self.described,
        })
    }
}

impl OpenTargets {
    /// Writes the description, if there is one, and gives the files their names. Returns them.
    ///
    /// # Errors
    /// A file cannot be written, or its name is taken now. Then there is no description without its
    /// data.
    pub fn finish(self, description: Option<&[u8]>) -> Result<Vec<String>> {
        let mut paths = vec![self.path.display().to_string()];
        let mut described = None;
        if let (Some(bytes), Some((path, output))) = (description, self.described) {
            let mut output = output.open(&self.cancel)?;
            output.take(bytes)?;
            paths.push(path.display().to_string());
            described = Some(output);
        }
        self.data.finish()?;
        described.map_or(Ok(()), OpenOutput::finish)?;
        Ok(paths)
    }
}

fn with(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file.file_name().unwrap_or_default());
    name.push(suffix);
    file.with_file_name(name)
}
