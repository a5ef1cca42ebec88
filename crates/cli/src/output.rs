//! What a run leaves: text or JSON on standard output, and a folder of files.
//!
//! Standard output comes first, so that a full disk loses no result. Each file is written under
//! another name and then renamed: one that is there is whole.

use crate::Context;
use crate::failure::{Exit, Failure, Result};
use measure::Report;
use std::fs;
use std::path::Path;

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

    /// Prints it, and saves it into `folder` if there is one.
    ///
    /// # Errors
    /// Standard output was closed, or the folder cannot be written; and, once it is all there, that
    /// the user ended the run.
    pub fn leave(self, context: &Context, folder: Option<&Path>, json: bool) -> Result<()> {
        context
            .console
            .print(if json { &self.json } else { &self.text })?;
        if let Some(folder) = folder {
            self.save(folder)?;
        }
        match context.cancel.is_set() {
            true => Err(Failure::interrupted(
                "interrupted; what was measured until then is marked as incomplete, and all that was \
                 borrowed was given back",
            )),
            false => Ok(()),
        }
    }

    fn save(&self, folder: &Path) -> Result<()> {
        save(&folder.join(format!("{}.json", self.name)), &self.json)?;
        let schema = format!("{:#}\n", self.schema);
        save(&folder.join(format!("{}.schema.json", self.name)), &schema)?;
        save(&folder.join("report.html"), &self.html)?;
        for (name, text) in &self.files {
            save(&folder.join(name), text)?;
        }
        Ok(())
    }
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// It cannot be written; what was there before is still there.
pub fn save(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let done = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    done.map_err(|error| {
        let _ = fs::remove_file(&partial);
        Failure::io("writing", path, &error)
            .and("the results are on standard output")
            .hint("--output with a folder that has room; df -h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_and_leaves_no_half_file() {
        if !Path::new("/dev/full").exists() {
            println!("SKIPPED: this machine has no /dev/full");
            return;
        }
        let folder = std::env::temp_dir().join(format!("output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let target = folder.join("run.json");
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join("run.json.partial")).unwrap();
        let failure = save(&target, "new").unwrap_err();
        assert_eq!(failure.exit(), Exit::Full);
        assert!(failure.to_string().contains("No space left"), "{failure}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert!(!folder.join("run.json.partial").exists());
        save(&target, "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        fs::remove_dir_all(&folder).unwrap();
    }
}
