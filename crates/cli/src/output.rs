// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a run: text or JSON on standard output, and a folder of files.
//!
//! Standard output is written first, so that a full disk loses no result. Each file passes the
//! guard: it is written atomically, and does not replace a file of other origin.

use crate::Context;
use crate::grave::GRAVE;
use clap::Args;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::OutputFolder;
use linux::Roots;
use measure::run_info::{RUN_SCHEMA_VERSION, RunInfo};
use reports::Reportable;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a report is saved.
#[derive(Clone, Debug, Default, Args)]
pub struct Saving {
    /// Folder for the JSON, its schema, the CSV and report.html. An earlier report of the same verb
    /// is replaced
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace other files of these names in the --output folder
    #[arg(long, requires = "output", help_heading = GRAVE)]
    pub force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

impl Saving {
    /// Checks that the report of `verb` may be saved, before anything is opened. Nothing is
    /// changed.
    ///
    /// # Errors
    /// Other files have the names of the report's files.
    pub fn check(&self, context: &Context, verb: &str) -> Result<()> {
        self.folder(&context.roots, verb).map(|_| ())
    }

    /// Creates the folder before anything is measured: a long run should not fail at its end.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&self) -> Result<()> {
        match &self.output {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(|error| Error::io("making", path, &error))
            }
            None => Ok(()),
        }
    }

    fn folder(&self, roots: &Roots, verb: &str) -> Result<Option<OutputFolder>> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let is_own = has_report(path, verb);
        OutputFolder::check(roots, path, &files_of(verb), self.force, &|_| is_own).map(Some)
    }
}

/// The files of a verb's report.
fn files_of(verb: &str) -> Vec<String> {
    let mut names = vec![
        format!("{verb}.json"),
        format!("{verb}.schema.json"),
        "report.html".to_owned(),
    ];
    names.extend(match verb {
        "explain" | "trace" | "workload" => None,
        "profile" => Some("callgraph.dot".to_owned()),
        "sustain" => Some("samples.csv".to_owned()),
        verb => Some(format!("{verb}.csv")),
    });
    names
}

/// Whether a folder holds an earlier report of a verb, according to the report's JSON.
fn has_report(folder: &Path, verb: &str) -> bool {
    let text = std::fs::read_to_string(folder.join(format!("{verb}.json")));
    let value = text.ok().and_then(|text| serde_json::from_str(&text).ok());
    value.is_some_and(|value: serde_json::Value| {
        value["schema_version"].is_u64() && value["tool_version"].is_string()
    })
}

impl Saving {
    /// Prints a run, and saves it if requested. `files` are further files: name and contents.
    ///
    /// # Errors
    /// The report cannot be made, standard output was closed, or the folder cannot be written. If
    /// the user interrupted the run, that is reported after everything has been written.
    pub fn leave<R: Reportable + serde::Serialize + schemars::JsonSchema>(
        &self,
        context: &Context,
        run: &R,
        files: &[(&str, String)],
    ) -> Result<()> {
        let failed =
            |error: &dyn std::fmt::Display| Error::other(format!("making the report: {error}"));
        let json = serde_json::to_string_pretty(run).map_err(|error| failed(&error))? + "\n";
        let page = run.page();
        let html = page.html().map_err(|error| failed(&error))?;
        let text = page.text();
        context
            .console
            .print(if self.json { &json } else { &text })?;
        let name = page.kind();
        let schema = format!("{:#}\n", schemars::schema_for!(R).to_value());
        let own = [
            (&*format!("{name}.json"), &json),
            (&*format!("{name}.schema.json"), &schema),
            ("report.html", &html),
        ];
        let files = files.iter().map(|(name, text)| (*name, text));
        let saved = self.save(&context.roots, name, own.into_iter().chain(files));
        saved.map_err(|failure| {
            let failure = failure.and("the results are on standard output");
            match failure.kind() {
                ErrorKind::Full => {
                    failure.hint("--output with a folder that has free space; df -h")
                }
                _ => failure,
            }
        })?;
        if context.cancel.is_set() {
            Err(Error::interrupted(
                "interrupted; the results so far are marked as incomplete, and everything \
                 borrowed was returned",
            ))
        } else {
            Ok(())
        }
    }

    fn save<'f>(
        &self,
        roots: &Roots,
        verb: &str,
        files: impl Iterator<Item = (&'f str, &'f String)>,
    ) -> Result<()> {
        let Some(folder) = self.folder(roots, verb)? else {
            return Ok(());
        };
        folder.make()?;
        for (name, text) in files {
            debug_assert!(files_of(verb).iter().any(|one| one == name), "{name}");
            folder.save(roots, name, text)?;
        }
        Ok(())
    }
}

/// The result of a run that is not valid.
///
/// # Errors
/// The reasons why the run is not valid.
pub fn valid(run: &RunInfo) -> Result<()> {
    if run.valid {
        Ok(())
    } else {
        Err(Error::invalid(&run.invalid_reasons))
    }
}

/// Whether a saved run has this name, and not a device: a file that begins as JSON does,
/// whatever it is called. One that cannot be read is what its name says.
pub fn is_run(name: &str) -> bool {
    // Only a file is opened: a device may wait, or begin something.
    let is_file = std::fs::metadata(name).is_ok_and(|file| file.is_file());
    let mut first = [0];
    let read = is_file
        && std::fs::File::open(name).is_ok_and(|mut file| file.read_exact(&mut first).is_ok());
    if read {
        first == *b"{"
    } else {
        name.ends_with(".json")
    }
}

/// Reads the run of one of `kinds` that a verb saved as JSON in `file`.
///
/// # Errors
/// The file does not exist, is not such a run, or has a newer version.
pub fn load(file: &str, kinds: &[&str]) -> Result<serde_json::Value> {
    let path = Path::new(file);
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("reading", path, &error))?;
    let wrong = |why: String| {
        let of = kinds.join(" or ");
        Error::usage(format!("{file}: {why}"))
            .hint(format!("name the JSON that straightway {of} saved"))
    };
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("invalid JSON: {error}")))?;
    let version = value["schema_version"].as_u64();
    let version = version.ok_or_else(|| wrong("it has no schema_version".to_owned()))?;
    if version > u64::from(RUN_SCHEMA_VERSION) {
        return Err(Error::usage(format!(
            "{file} has schema version {version}, and this straightway knows up to {RUN_SCHEMA_VERSION}"
        ))
        .hint("use the version of straightway that wrote it, or a newer one"));
    }
    // Older comparisons do not have a kind.
    let kind = value["kind"].as_str().unwrap_or("compare");
    if kinds.contains(&kind) {
        Ok(value)
    } else {
        Err(wrong(format!(
            "a run of {kind}, not of {}",
            kinds.join(" or ")
        )))
    }
}
