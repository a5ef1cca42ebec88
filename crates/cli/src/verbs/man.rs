//! `straightway man [DIR]`.

use crate::failure::{Exit, Failure, Result};
use crate::{Arguments, Context};
use clap::{Args, CommandFactory};
use clap_mangen::Man as Page;
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
        let mut command = Arguments::command();
        command.build();
        let Some(dir) = &self.dir else {
            let page = render(&command)?;
            context.console.print(&String::from_utf8_lossy(&page))?;
            return Ok(Exit::Done);
        };
        fs::create_dir_all(dir).map_err(|error| Failure::io("making", dir, &error))?;
        let verbs = command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "help");
        let mut pages = vec![("straightway.1".to_owned(), render(&command)?)];
        for verb in verbs {
            let name = format!("straightway-{}", verb.get_name());
            let page = render(&verb.clone().name(name.clone()))?;
            pages.push((format!("{name}.1"), page));
        }
        for (name, page) in pages {
            let path = dir.join(name);
            fs::write(&path, page).map_err(|error| Failure::io("writing", &path, &error))?;
        }
        Ok(Exit::Done)
    }
}

fn render(command: &clap::Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let rendered = Page::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::new(Exit::No, format!("making a manual page: {error}")))?;
    Ok(page)
}
