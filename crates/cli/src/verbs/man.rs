// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway man [DIR]`.

use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::{Context, arguments, manual};
use clap::Args;
use devices::error::{Error, Result};
use devices::guard::OutputFolder;
use std::path::{Path, PathBuf};

/// Write the manual pages.
#[derive(Clone, Debug, Args)]
pub struct Man {
    /// Folder for one page per verb [print the main page to standard output]
    pub dir: Option<PathBuf>,
    /// Replace files of these names that are not manual pages of straightway
    #[arg(long, requires = "dir", help_heading = GRAVE)]
    pub force: bool,
}

impl Man {
    /// Runs the verb.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let mut command = arguments::command().disable_help_subcommand(true);
        command.build();
        let failed = |error| Error::other(format!("making a manual page: {error}"));
        let main = manual::main_page(&command).map_err(failed)?;
        let Some(dir) = &self.dir else {
            context.console.print(&main)?;
            return Ok(Exit::Done);
        };
        let mut pages = vec![("straightway.1".to_owned(), main)];
        for verb in command.get_subcommands() {
            let page = manual::verb_page(verb).map_err(failed)?;
            pages.push((format!("straightway-{}.1", verb.get_name()), page));
        }
        let names: Vec<String> = pages.iter().map(|(name, _)| name.clone()).collect();
        let is_own = |path: &Path| {
            let page = std::fs::read_to_string(path);
            page.is_ok_and(|page| page.contains(manual::TITLE))
        };
        let folder = OutputFolder::check(&context.roots, dir, &names, self.force, &is_own)?;
        folder.make()?;
        for (name, page) in pages {
            folder.save(&context.roots, &name, &page)?;
        }
        Ok(Exit::Done)
    }
}
