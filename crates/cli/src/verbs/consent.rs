// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments that say whose data may be lost, of `format` and `wipe`.

use crate::Context;
use crate::grave::GRAVE;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::error::Result;
use files::consent::Consent;
use serde::Serialize;

/// Whose data may be lost, by which path, and how it is reported.
#[derive(Clone, Debug, Args)]
pub struct ConsentArgs {
    /// The drive's serial number: its data will be lost
    #[arg(long, value_name = "SERIAL", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// Go on although a file holds data, which will be lost
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
    /// Check everything, report what would be wiped or made, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ConsentArgs {
    /// Without the parser.
    pub fn plain(&self) -> Consent {
        Consent {
            destroy_data: self.destroy_data.clone(),
            force: self.force,
            dry_run: self.dry_run,
            route: *self.route,
        }
    }

    /// Prints the result.
    ///
    /// # Errors
    /// Standard output does not take it.
    pub fn print<R: Serialize>(
        &self,
        context: &Context,
        report: &R,
        text: impl FnOnce(&R) -> String,
    ) -> Result<()> {
        if self.json {
            context.console.json(report)
        } else {
            context.console.print_outcome(&text(report))
        }
    }
}
