//! `straightway compare DEVICE`: what each path to a drive costs.

use crate::Context;
use crate::bench::compared::{compare, operations, settings};
use crate::bench::{self, Bench, Plan, Target, setup};
use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::guard::Grant;
use crate::output::{Artefacts, Saving};
use crate::units::{Size, Time};
use clap::Args;
use measure::{Comparison, DeviceInfo, Operation, Pattern, Settings};
use std::path::PathBuf;

/// Measure what each path to a drive costs.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// The drive
    pub device: String,
    /// The drive's serial number: its data will be overwritten. Needed for writes and for ext4
    #[arg(long, value_name = "SERIAL")]
    pub destroy_data: Option<String>,
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
    /// Paths [default: all]: ext4-buffered, ext4-direct, block-buffered, block-direct, io_uring,
    /// io_uring-polled, passthrough, chario, chario-poll, chario-registered, chario-phys,
    /// straightway-poll, straightway-interrupt; and coprocessor
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub paths: Vec<String>,
    /// The window of a storage coprocessor: adds the path `coprocessor`, to the drive behind it
    #[arg(long, value_name = "FILE")]
    pub coprocessor: Option<PathBuf>,
    /// How much of the drive each path uses, as far as it fits
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub span: Size,
    /// Decides the order, the offsets and the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub namespace: Option<u32>,
    /// Where its report is saved
    #[command(flatten)]
    pub saving: Saving,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
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
        self.saving.check(context, "compare")?;
        let drive = Drive::find_and_say(&context.roots, &self.device, &context.console)?;
        let writes = self.operations.contains(&Operation::Write);
        let named = self.destroy_data.as_deref();
        let grant = Grant::to_measure(&context.roots, drive, writes, named)?;
        let (target, device) = setup::target(context, &grant, self.namespace)?;
        let names = self.path_names(&target);
        let plan = self.plan(&target, &device)?;
        let window = setup::window(&target, self.coprocessor.as_deref())?;
        let bench = Bench::new(&context.roots, grant, target, &plan, window)?;
        // A name that is no path is told before anything is written.
        bench::paths(&bench, &names)?;
        self.saving.make_folder()?;
        let settings = self.settings(&plan);
        let least = settings.least_duration(names.len());
        context.console.say(format_args!(
            "{} paths, each over {}, at least {} s",
            names.len(),
            Size(plan.span_bytes),
            least.as_secs()
        ));
        if plan.destroys && bench.target.is_nvme() {
            context.console.say("preparing the drive");
            let with_ext4 = names.iter().any(|name| name.starts_with("ext4-"));
            bench::prepare(&bench, with_ext4, self.seed, &context.cancel)?;
        }
        let comparison = compare(context, &bench, &device, &names, &settings)?;
        self.report(context, &comparison)
    }

    fn path_names(&self, target: &Target) -> Vec<String> {
        match self.paths.is_empty() {
            true => setup::names_of(target, self.coprocessor.is_some()),
            false => self.paths.clone(),
        }
    }

    fn plan(&self, target: &Target, device: &DeviceInfo) -> Result<Plan> {
        let sizes = self.sizes.iter().map(|size| size.0);
        let largest = sizes.max().unwrap_or(0);
        let plan = Plan {
            queue_depth: self.queue_depth,
            destroys: self.destroy_data.is_some(),
            ..Plan::of(target, device, self.span.0, largest)
        };
        if plan.span_bytes < largest {
            return Err(Failure::usage(format!(
                "operations of {} do not fit: each path has {} of this drive",
                Size(largest),
                Size(plan.span_bytes)
            ))
            .hint("smaller --sizes, a larger --span, or a larger drive"));
        }
        Ok(plan)
    }

    fn settings(&self, plan: &Plan) -> Settings {
        Settings {
            operations: operations(&self.operations, plan.destroys),
            patterns: self.patterns.clone(),
            block_sizes_bytes: self.sizes.iter().map(|size| size.0).collect(),
            rounds: self.rounds,
            queue_depth: self.queue_depth,
            ..settings(self.cell_duration.0, plan.span_bytes, self.seed)
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
        artefacts.leave(context, &self.saving, self.json)?;
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
