// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many files at once: the files of folders and their names on a volume, and the names that
//! patterns choose.
//!
//! A volume has no folders. The name of a file in a folder is its path from the folder's own name
//! on, so a `/` in a name stands for a folder on the way back.

use crate::naming::misfit;
use crate::pattern::Pattern;
use crate::shown;
use devices::error::{Error, ErrorKind, Result};
use remedy::{Remedy, Setting, Value, words};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a pattern has and a name usually has not.
const WILDCARDS: [char; 3] = ['*', '?', '['];
/// Names that a message gives at most.
const MOST_NAMES: usize = 5;

/// Local files and their names on a volume.
#[derive(Debug, Default)]
pub struct Tree {
    /// Each name with its file, sorted.
    pub files: BTreeMap<String, PathBuf>,
    /// Links, devices, sockets and FIFOs in folders, and folders that are empty.
    pub skipped: Vec<PathBuf>,
}

impl Tree {
    /// Every file of `paths`: files, and folders with all that is in them.
    ///
    /// # Errors
    /// One does not exist or cannot be read, a name is not UTF-8, or two files have the same name.
    pub fn of(paths: &[PathBuf]) -> Result<Self> {
        let mut tree = Self::default();
        for path in paths {
            let data = fs::metadata(path).map_err(|error| {
                let failure = Error::io("opening", path, &error);
                failure.and("nothing was stored")
            })?;
            if data.is_dir() {
                // `.` and `..` have no name of their own.
                tree.add_folder(path, path.file_name().map(PathBuf::from))?
            } else {
                let name = path.file_name().map(PathBuf::from).unwrap_or_default();
                tree.add(path.clone(), &name)?;
            }
        }
        Ok(tree)
    }

    fn add_folder(&mut self, folder: &Path, name: Option<PathBuf>) -> Result<()> {
        let failed = |error: std::io::Error| {
            let failure = Error::io("reading", folder, &error);
            failure.and("nothing was stored")
        };
        let mut is_empty = true;
        for entry in fs::read_dir(folder).map_err(failed)? {
            is_empty = false;
            let entry = entry.map_err(failed)?;
            let name = name.clone().unwrap_or_default().join(entry.file_name());
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                self.add_folder(&entry.path(), Some(name))?;
            } else if kind.is_file() {
                self.add(entry.path(), &name)?;
            } else {
                self.skipped.push(entry.path());
            }
        }
        if is_empty {
            self.skipped.push(folder.to_owned());
        }
        Ok(())
    }

    fn add(&mut self, file: PathBuf, name: &Path) -> Result<()> {
        let Some(name) = name.to_str() else {
            let what = format!("{} has no name in UTF-8", file.display());
            return Err(Error::usage(what).hint(words![
                "straightway put ",
                remedy::Device,
                " FILE NAME"
            ]));
        };
        match self.files.insert(name.to_owned(), file.clone()) {
            None => Ok(()),
            Some(other) => {
                let (file, other) = (file.display(), other.display());
                let name = shown(name);
                let what = format!("{other} and {file} would both be `{name}`");
                Err(Error::usage(what).hint(words![
                    "put one of them with ",
                    Setting::Name.to(Value::choice("NAME"))
                ]))
            }
        }
    }
}

/// Whether a word is a pattern rather than a name, unless a file has just this name.
pub fn is_pattern(word: &str) -> bool {
    word.contains(WILDCARDS)
}

/// Which of the sorted `names` the words choose: names, or patterns with `*`, `?` and `[...]`,
/// where `*` means also `/`. Each is chosen once. The second list has the words that choose
/// nothing.
///
/// # Errors
/// A pattern is malformed.
pub fn choose<'n>(words: &[String], names: &[&'n str]) -> Result<(Vec<&'n str>, Vec<String>)> {
    let mut is_chosen = vec![false; names.len()];
    let mut idle = Vec::new();
    for word in words {
        let found = names.binary_search(&word.as_str());
        let mut any = found.is_ok();
        match found {
            Ok(index) => is_chosen
                .iter_mut()
                .skip(index)
                .take(1)
                .for_each(|one| *one = true),
            Err(_) if is_pattern(word) => {
                let pattern = Pattern::parse(word).ok_or_else(|| {
                    Error::usage(format!("`{}`: a [ without its ]", shown(word)))
                        .hint("quote the pattern; [[] means the letter [")
                })?;
                for (name, is_chosen) in names.iter().zip(&mut is_chosen) {
                    let fits = pattern.matches(name);
                    any |= fits;
                    *is_chosen |= fits;
                }
            }
            Err(_) => {}
        }
        if !any {
            idle.push(word.clone());
        }
    }
    let chosen = names.iter().zip(is_chosen);
    let chosen = chosen.filter(|(_, is_chosen)| *is_chosen);
    Ok((chosen.map(|(name, _)| *name).collect(), idle))
}

/// The local file in `folder` for a file of a volume.
///
/// # Errors
/// The name would lead out of the folder, or to no file.
pub fn local(folder: &Path, name: &str) -> Result<PathBuf> {
    // `a//b` and `a/./b` would be `a/b`, and one file replace the other.
    match misfit(name) {
        None => Ok(folder.join(name)),
        Some(why) => Err(Error::usage(format!(
            "`{}` cannot be the name of a local file: {why}",
            shown(name)
        ))
        .hint(words!["straightway get ", remedy::Device, " NAME FILE"])),
    }
}

/// The first names of a long list, for messages.
pub fn some<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let count = names.len();
    let first: Vec<String> = names
        .take(MOST_NAMES)
        .map(|name| format!("`{}`", shown(name)))
        .collect();
    match count.saturating_sub(MOST_NAMES) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Whether files have this name and a `/` before theirs: those of a folder.
pub fn is_folder<'n>(name: &str, mut names: impl Iterator<Item = &'n str>) -> bool {
    let folder = name.trim_end_matches('/');
    names.any(|file| {
        let rest = file.strip_prefix(folder);
        rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

/// The error of names or patterns that choose none of the `names` that there are.
pub fn none_of(idle: &[String], names: &[&str], device: &str) -> Error {
    let words = some(idle.iter().map(String::as_str));
    let failure = Error::new(ErrorKind::NotFound, format!("no file is called {words}"));
    let mut folders = idle.iter().map(|name| name.trim_end_matches('/'));
    failure.hint(
        match folders.find(|name| is_folder(name, names.iter().copied())) {
            Some(folder) => in_folder(folder),
            None => format!("straightway ls {device}").into(),
        },
    )
}

/// What to give instead of a folder's name.
pub(crate) fn in_folder(folder: &str) -> Remedy {
    words![
        format!("'{folder}/*' is what is in the folder: straightway ls "),
        remedy::Device,
        format!(" '{folder}/*'")
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    #[test]
    fn a_folder_s_files_have_its_name_before_theirs() {
        let folder = Folder::new();
        let top = folder.0.join("photos");
        fs::create_dir_all(top.join("2026/may")).unwrap();
        for file in ["a", "2026/b", "2026/may/c"] {
            fs::write(top.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        fs::create_dir(top.join("2026/none")).unwrap();
        let tree = Tree::of(std::slice::from_ref(&top)).unwrap();
        let names: Vec<&str> = tree.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["photos/2026/b", "photos/2026/may/c", "photos/a"]);
        let mut skipped = tree.skipped.clone();
        skipped.sort();
        assert_eq!(skipped, [top.join("2026/none"), top.join("link")]);
        // A folder without a name of its own adds none; a link that is named is followed.
        let tree = Tree::of(&[top.join("a"), top.join("2026/..")]);
        assert!(tree.is_err(), "two files are called a");
        let tree = Tree::of(&[top.join("2026/.."), top.join("link")]).unwrap();
        assert_eq!(
            tree.files.keys().collect::<Vec<_>>(),
            ["2026/b", "2026/may/c", "a", "link"]
        );
        assert!(Tree::of(&[folder.0.join("none")]).is_err());
    }

    #[test]
    fn words_choose_names_and_patterns_choose_all_that_fit() {
        let names = ["a", "a*", "b.dat", "d/c.dat", "é"];
        let choose = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            choose(&words, &names)
        };
        let chosen = |words| choose(words).unwrap().0;
        assert_eq!(chosen(&["a", "b.dat", "a"]), ["a", "b.dat"]);
        // A file of just this name comes first.
        assert_eq!(chosen(&["a*"]), ["a*"]);
        assert_eq!(chosen(&["*.dat"]), ["b.dat", "d/c.dat"]);
        assert_eq!(chosen(&["?", "d/*"]), ["a", "d/c.dat", "é"]);
        assert_eq!(chosen(&["*"]), names);
        let (some, idle) = choose(&["x", "a", "z*"]).unwrap();
        assert_eq!(
            (some, idle),
            (vec!["a"], vec!["x".to_owned(), "z*".to_owned()])
        );
        assert!(choose(&["[a"]).is_err());
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let at = Path::new("/to");
        assert_eq!(local(at, "a/b").unwrap(), Path::new("/to/a/b"));
        for name in ["", "/", "/a", "..", "a/../b", ".", "./a", "a/"] {
            assert!(local(at, name).is_err(), "{name}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names = ["a"; 8];
        assert_eq!(some(names[..2].iter().copied()), "`a`, `a`");
        assert!(some(names.iter().copied()).ends_with("`a` and 3 more"));
    }
}
