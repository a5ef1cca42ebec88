//! `straightway schema VERB`.

use crate::Context;
use crate::failure::{Exit, Result};
use crate::verbs;
use clap::{Args, ValueEnum};
use schemars::schema_for;

/// Print the JSON Schema of what a verb prints with --json.
#[derive(Clone, Copy, Debug, Args)]
pub struct Schema {
    /// The verb
    pub verb: Reporter,
}

/// A verb that reports.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)]
pub enum Reporter {
    List,
    Doctor,
    Info,
    Bind,
    Release,
    Read,
    Write,
    Compare,
}

impl Reporter {
    /// The schema.
    pub fn schema(self) -> serde_json::Value {
        let schema = match self {
            Reporter::List => schema_for!(verbs::list::Listing),
            Reporter::Doctor => schema_for!(verbs::doctor::Diagnosis),
            Reporter::Info => schema_for!(crate::facts::Facts),
            Reporter::Bind | Reporter::Release => schema_for!(verbs::bind::Bound),
            Reporter::Read | Reporter::Write => schema_for!(verbs::read::Report),
            Reporter::Compare => return measure::json_schema(),
        };
        schema.to_value()
    }
}

impl Schema {
    /// Runs it.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn run(self, context: &Context) -> Result<Exit> {
        context.console.json(&self.verb.schema())?;
        Ok(Exit::Done)
    }
}
