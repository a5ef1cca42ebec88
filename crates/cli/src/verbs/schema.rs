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
    Sustain,
    Sweep,
    Trace,
    Explain,
    Profile,
    Speed,
    Workload,
    Periodic,
    Import,
    Format,
    Put,
    Get,
    Ls,
    Rm,
    Mv,
    Stat,
    Check,
    Record,
    Play,
    /// What a verb prints with --json when it fails
    Error,
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
            Reporter::Format => schema_for!(verbs::format::Report),
            Reporter::Put | Reporter::Get => schema_for!(verbs::put::Report),
            Reporter::Ls => schema_for!(verbs::ls::Listing),
            Reporter::Rm => schema_for!(verbs::rm::Removed),
            Reporter::Mv => schema_for!(verbs::mv::Renamed),
            Reporter::Stat => schema_for!(verbs::stat::Status),
            Reporter::Check => schema_for!(verbs::check::Checked),
            Reporter::Record => schema_for!(crate::stream::report::RecordedFile),
            Reporter::Play => schema_for!(crate::stream::report::PlayedFile),
            Reporter::Error => schema_for!(crate::console::ErrorReport),
            Reporter::Sustain => schema_for!(measure::sustain::Sustained),
            Reporter::Sweep => schema_for!(measure::sweep::Sweep),
            Reporter::Trace => schema_for!(measure::trace::Traced),
            Reporter::Periodic => schema_for!(measure::periodic::Periodic),
            Reporter::Explain => schema_for!(measure::explain::Explained),
            Reporter::Profile => schema_for!(measure::profile::Profiled),
            Reporter::Speed => schema_for!(measure::speed::Speed),
            Reporter::Workload => schema_for!(measure::workload::Worked),
            Reporter::Compare | Reporter::Import => return measure::json_schema(),
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
