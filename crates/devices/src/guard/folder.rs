// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder to which a verb writes several files: a report, the manual pages.
//!
//! Each of the files is an [`Output`]: refused if another file has its name, unless `--force` is
//! given, and written atomically. A file that an earlier run of the same verb wrote can be replaced
//! without `--force`; the caller recognises such a file by its content.

use super::output::{Output, refuse_address};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use linux::Roots;
use std::path::{Path, PathBuf};

/// A folder whose files may be written.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    force: bool,
    /// Files of an earlier run.
    own: Vec<String>,
}

impl OutputFolder {
    /// Checks that files of these names may be written to `path`, which need not exist. `is_own`
    /// returns whether an earlier run of the verb wrote an existing file. Nothing is changed.
    ///
    /// # Errors
    /// The path is not a folder, or one of the files exists, is in use or cannot be replaced.
    pub fn check(
        roots: &Roots,
        path: &Path,
        names: &[String],
        force: bool,
        is_own: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        refuse_address(path)?;
        let own = names.iter().filter(|name| is_own(&path.join(name)));
        let folder = Self {
            path: path.to_owned(),
            force,
            own: own.cloned().collect(),
        };
        match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => {}
            Ok(_) => {
                let what = format!("{} is not a directory; nothing was done", path.display());
                return Err(Error::usage(what).hint("name a folder"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(folder),
            Err(error) => return Err(Error::io("opening", path, &error)),
        }
        for name in names {
            folder.output(roots, name)?;
        }
        Ok(folder)
    }

    fn output(&self, roots: &Roots, name: &str) -> Result<Output> {
        let force = self.force || self.own.iter().any(|own| own == name);
        Output::check(roots, &self.path.join(name), force, None)
    }

    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self) -> Result<()> {
        let made = std::fs::create_dir_all(&self.path);
        made.map_err(|error| Error::io("making", &self.path, &error))
    }

    /// Writes one of the checked files atomically.
    ///
    /// # Errors
    /// It cannot be written, or was created after the check; an earlier file is unchanged.
    pub fn save(&self, roots: &Roots, name: &str, text: &str) -> Result<()> {
        // Reports and pages are short: they fit into a FIFO.
        let output = self.output(roots, name)?;
        let mut output = output.open(&Cancel::default())?;
        output.take(text.as_bytes())?;
        output.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use crate::error::ErrorKind;
    use std::fs;

    #[test]
    fn only_files_of_an_earlier_run_are_replaced_without_force() {
        let place = Folder::new();
        let path = place.0.join("new/folder");
        let names = ["a".to_owned(), "b".to_owned()];
        let is_own = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("ours"));
        let check = |force| OutputFolder::check(&Roots::system(), &path, &names, force, &is_own);
        let folder = check(false).unwrap();
        assert!(!path.exists());
        folder.make().unwrap();
        folder.save(&Roots::system(), "a", "ours 1").unwrap();
        let again = check(false).unwrap();
        again.save(&Roots::system(), "a", "ours 2").unwrap();
        fs::write(path.join("b"), "theirs").unwrap();
        let failure = check(false).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Exists, "{failure}");
        // So is a file that appears after the check.
        let late = again.save(&Roots::system(), "b", "ours").unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Exists, "{late}");
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "ours 2");
        assert_eq!(fs::read_to_string(path.join("b")).unwrap(), "theirs");
        check(true)
            .unwrap()
            .save(&Roots::system(), "b", "ours")
            .unwrap();
        assert_eq!(fs::read_to_string(path.join("b")).unwrap(), "ours");
        let within = OutputFolder::check(&Roots::system(), &path.join("a"), &names, true, &is_own);
        assert_eq!(within.unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
    }

    #[test]
    fn a_full_disk_is_said_and_leaves_no_half_file() {
        if !Path::new("/dev/full").exists() {
            println!("SKIPPED: this machine has no /dev/full");
            return;
        }
        let place = Folder::new();
        let path = &place.0;
        std::os::unix::fs::symlink("/dev/full", path.join("a")).unwrap();
        let folder = OutputFolder::check(&Roots::system(), path, &["a".into()], true, &|_| false);
        let failure = folder
            .unwrap()
            .save(&Roots::system(), "a", "text")
            .unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Full);
        assert!(failure.to_string().contains("No space left"), "{failure}");
        assert_eq!(place.names(), ["a"]);
    }
}
