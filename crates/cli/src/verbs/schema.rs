// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway schema VERB`.

use crate::Context;
use crate::exit::Exit;
use crate::verbs::schemas;
use clap::Args;
use clap::builder::PossibleValuesParser;
use devices::error::{Error, Result};

/// Print the JSON Schema of what a verb prints with --json.
#[derive(Clone, Debug, Args)]
pub struct Schema {
    /// The verb
    #[arg(value_parser = PossibleValuesParser::new(schemas().map(|(name, _)| name)))]
    pub verb: String,
}

impl Schema {
    /// Runs the verb.
    ///
    /// # Errors
    /// Standard output failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let found = schemas().find(|(name, _)| *name == self.verb);
        let (_, schema) = found.ok_or_else(|| Error::usage("no such verb"))?;
        context.console.json(&schema())?;
        Ok(Exit::Done)
    }
}
