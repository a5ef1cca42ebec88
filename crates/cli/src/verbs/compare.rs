//! `straightway compare DEVICE`: what each path to a drive costs.

use crate::Context;
use crate::bench::Plan;
use crate::bench::compared::{compare, operations, settings};
use crate::bench::setup::{Subject, Wants};
use crate::failure::{Exit, Failure, Result};
use crate::output::Artefacts;
use crate::path::PathChoice;
use crate::units::{Size, Time};
use clap::Args;
use measure::{Comparison, Operation, Pattern, Settings};

/// Measure what each path to a drive costs.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// How much one operation moves
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4K,128K,1M,16M"
    )]
    pub sizes: Vec<Size>,
    /// read, write [default: both with --destroy-data, read without]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = operation)]
    pub operations: Vec<Operation>,
    /// The order of offsets: sequential, random
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pattern, default_value = "sequential,random")]
    pub patterns: Vec<Pattern>,
    /// Rounds; at least 5 for confidence intervals
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// How long each path is measured with each size in each round
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub cell_duration: Time,
    /// Operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// Paths [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PathChoice::parser())]
    pub paths: Vec<PathChoice>,
}

/// Reads an operation's name.
///
/// # Errors
/// It is none.
pub fn operation(text: &str) -> std::result::Result<Operation, String> {
    match text {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        _ => Err("an operation is read or write".to_owned()),
    }
}

/// Reads a pattern's name.
///
/// # Errors
/// It is none.
pub fn pattern(text: &str) -> std::result::Result<Pattern, String> {
    match text {
        "sequential" => Ok(Pattern::Sequential),
        "random" => Ok(Pattern::Random),
        _ => Err("a pattern is sequential or random".to_owned()),
    }
}

impl Compare {
    /// Runs it.
    ///
    /// # Errors
    /// It is not permitted, makes no sense, or the drive fails while it is prepared.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "compare")?;
        let largest = self.sizes.iter().map(|size| size.0).max().unwrap_or(0);
        let ready = self.subject.ready(
            context,
            &Wants {
                paths: &self.paths,
                many: true,
                writes: self.operations.contains(&Operation::Write),
                largest_bytes: largest,
                queue_depth: self.queue_depth,
            },
        )?;
        let (plan, kinds) = (&ready.plan, &ready.kinds);
        let settings = self.settings(plan);
        let least = settings.least_duration(kinds.len());
        context.console.say(format_args!(
            "{} paths, each over {}, at least {} s",
            kinds.len(),
            Size(plan.span_bytes),
            least.as_secs()
        ));
        let comparison = compare(context, &ready.bench, &ready.device, kinds, &settings)?;
        self.report(context, &comparison)
    }

    fn settings(&self, plan: &Plan) -> Settings {
        Settings {
            operations: operations(&self.operations, plan.destroys),
            patterns: self.patterns.clone(),
            block_sizes_bytes: self.sizes.iter().map(|size| size.0).collect(),
            rounds: self.rounds,
            queue_depth: self.queue_depth,
            ..settings(self.cell_duration.0, plan.span_bytes, self.subject.seed)
        }
    }

    fn report(&self, context: &Context, comparison: &Comparison) -> Result<Exit> {
        let json = comparison.to_json();
        let json = json.map_err(|error| Failure::new(Exit::No, format!("making JSON: {error}")))?;
        let report = measure::report(comparison)
            .map_err(|error| Failure::new(Exit::No, error.to_string()))?;
        let artefacts = Artefacts {
            name: "compare",
            text: measure::table(comparison),
            json,
            schema: measure::json_schema(),
            html: report,
            files: vec![(
                "compare.csv".to_owned(),
                measure::csv::of_comparison(comparison),
            )],
        };
        artefacts.leave(context, &self.subject.saving, self.subject.json)?;
        if comparison.results.is_empty() {
            return Err(Failure::unsupported("no path could be measured")
                .hint("straightway doctor tells what is missing"));
        }
        if !comparison.valid {
            return Err(Failure::invalid(&comparison.invalid_reasons));
        }
        let errors: u64 = comparison.results.iter().map(|result| result.errors).sum();
        if errors > 0 {
            return Err(
                Failure::new(Exit::No, format!("{errors} operations failed"))
                    .hint("dmesg; straightway info DEVICE shows the drive's error log"),
            );
        }
        Ok(Exit::Done)
    }
}
