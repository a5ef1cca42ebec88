//! What a run leaves: text or JSON on standard output, and a folder of files.
//!
//! Standard output comes first, so that a full disk loses no result. Each file passes the guard: one that
//! exists is whole, and a file of someone else's is not replaced.

use crate::Context;
use crate::failure::{Exit, Failure, Result};
use crate::guard::OutputFolder;
use clap::Args;
use linux::Roots;
use measure::Report;
use std::path::{Path, PathBuf};

/// Where a report is saved.
#[derive(Clone, Debug, Default, Args)]
pub struct Saving {
    /// Folder for the JSON, its schema, the CSV and report.html. An earlier report of the same verb is replaced
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace other files of these names in the --output folder
    #[arg(long, requires = "output")]
    pub force: bool,
}

impl Saving {
    /// Checks that the report of `verb` may be saved, before anything is opened. Nothing is changed.
    ///
    /// # Errors
    /// Files of someone else's have the names of the report's.
    pub fn check(&self, context: &Context, verb: &str) -> Result<()> {
        self.folder(&context.roots, verb).map(|_| ())
    }

    /// Makes the folder, before anything is measured: a long run should not fail at its end.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_folder(&self) -> Result<()> {
        let made = self.output.as_ref().map(std::fs::create_dir_all);
        let failed = |error| {
            Failure::io(
                "making",
                self.output.as_deref().unwrap_or(Path::new("")),
                &error,
            )
        };
        made.unwrap_or(Ok(())).map_err(failed)
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

/// Whether a folder holds an earlier report of a verb: its JSON says what made it.
fn has_report(folder: &Path, verb: &str) -> bool {
    let text = std::fs::read_to_string(folder.join(format!("{verb}.json")));
    let value = text.ok().and_then(|text| serde_json::from_str(&text).ok());
    value.is_some_and(|value: serde_json::Value| {
        value["schema_version"].is_u64() && value["tool_version"].is_string()
    })
}

/// What a run leaves.
pub struct Artefacts<'a> {
    /// Names the files: `sustain.json`, `sustain.schema.json`.
    pub name: &'a str,
    /// For people.
    pub text: String,
    /// For programs.
    pub json: String,
    /// Its schema.
    pub schema: serde_json::Value,
    /// The report.
    pub html: String,
    /// Further files: name and contents.
    pub files: Vec<(String, String)>,
}

impl<'a> Artefacts<'a> {
    /// Of any run that has a report.
    ///
    /// # Errors
    /// The report cannot be made.
    pub fn of<R: Report + serde::Serialize + schemars::JsonSchema>(
        name: &'a str,
        run: &R,
        files: Vec<(String, String)>,
    ) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::No, format!("making the report: {error}"))
        };
        let json = serde_json::to_string_pretty(run).map_err(|error| failed(&error))?;
        Ok(Self {
            name,
            text: run.judged_text(),
            json: json + "\n",
            schema: schemars::schema_for!(R).to_value(),
            html: run.html().map_err(|error| failed(&error))?,
            files,
        })
    }

    /// Prints it, and saves it where that is wanted.
    ///
    /// # Errors
    /// Standard output was closed, or the folder cannot be written; and, once it is all there, that
    /// the user ended the run.
    pub fn leave(self, context: &Context, saving: &Saving, json: bool) -> Result<()> {
        context
            .console
            .print(if json { &self.json } else { &self.text })?;
        self.save(&context.roots, saving).map_err(|failure| {
            let failure = failure.and("the results are on standard output");
            match failure.exit() {
                Exit::Full => failure.hint("--output with a folder that has room; df -h"),
                _ => failure,
            }
        })?;
        match context.cancel.is_set() {
            true => Err(Failure::interrupted(
                "interrupted; what was measured until then is marked as incomplete, and all that was \
                 borrowed was given back",
            )),
            false => Ok(()),
        }
    }

    fn save(&self, roots: &Roots, saving: &Saving) -> Result<()> {
        let Some(folder) = saving.folder(roots, self.name)? else {
            return Ok(());
        };
        folder.make()?;
        folder.save(roots, &format!("{}.json", self.name), &self.json)?;
        let schema = format!("{:#}\n", self.schema);
        folder.save(roots, &format!("{}.schema.json", self.name), &schema)?;
        folder.save(roots, "report.html", &self.html)?;
        for (name, text) in &self.files {
            debug_assert!(files_of(self.name).contains(name), "{name} was not checked");
            folder.save(roots, name, text)?;
        }
        Ok(())
    }
}
