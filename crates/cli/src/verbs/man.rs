//! `straightway man [DIR]`.

use crate::failure::{Exit, Failure, Result};
use crate::{Context, arguments, manual};
use clap::Args;
use std::fs;
use std::path::PathBuf;

/// Write the manual pages.
#[derive(Clone, Debug, Args)]
pub struct Man {
    /// Folder for a page for each verb; without it the main page goes to standard output
    pub dir: Option<PathBuf>,
}

impl Man {
    /// Runs it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let mut command = arguments::command().disable_help_subcommand(true);
        command.build();
        let failed = |error| Failure::new(Exit::No, format!("making a manual page: {error}"));
        let main = manual::main_page(&command).map_err(failed)?;
        let Some(dir) = &self.dir else {
            context.console.print(&main)?;
            return Ok(Exit::Done);
        };
        fs::create_dir_all(dir).map_err(|error| Failure::io("making", dir, &error))?;
        let mut pages = vec![("straightway.1".to_owned(), main)];
        for verb in command.get_subcommands() {
            let page = manual::verb_page(verb).map_err(failed)?;
            pages.push((format!("straightway-{}.1", verb.get_name()), page));
        }
        for (name, page) in pages {
            let path = dir.join(name);
            fs::write(&path, page).map_err(|error| Failure::io("writing", &path, &error))?;
        }
        Ok(Exit::Done)
    }
}
