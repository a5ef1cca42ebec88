// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway completions SHELL`.

use crate::exit::Exit;
use crate::{Context, arguments};
use clap::Args;
use clap_complete::Shell;
use devices::error::Result;

/// Print completions for a shell.
#[derive(Clone, Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

impl Completions {
    /// Runs the verb.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let mut text = Vec::new();
        let mut command = arguments::command();
        clap_complete::generate(self.shell, &mut command, "straightway", &mut text);
        context.console.print(&String::from_utf8_lossy(&text))?;
        Ok(Exit::Done)
    }
}
