// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway label DEVICE [LABEL]`: shows or changes the label of a volume.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use files::names::check_label;
use files::reports::label_of;
use files::{Store, route, shown};
use schemars::JsonSchema;
use serde::Serialize;

/// Show or change the label of a volume.
#[derive(Clone, Debug, Args)]
pub struct Label {
    /// The device with the volume
    pub device: String,
    /// The new label, at most 32 bytes; '' removes it [show the label]
    pub label: Option<String>,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The label of a volume.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Labelled {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The label; empty if it has none.
    pub label: String,
    /// It was changed.
    pub changed: bool,
}

impl Label {
    /// Runs the verb.
    ///
    /// # Errors
    /// The label is refused, or the device or the volume failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.label.as_deref().map_or(Ok(()), check_label)?;
        let options = route::open_options(&self.route.with_buffers(4096, 1), self.label.is_some());
        let labelled = Store::with(context, &self.device, &options, |mounted| {
            let before = label_of(mounted.volume);
            if let Some(label) = &self.label {
                let doing = format!("labelling {}", mounted.drive);
                mounted.run(doing, mounted.volume.set_label(label))?;
            }
            let label = label_of(mounted.volume);
            Ok(Labelled {
                schema_version: SCHEMA_VERSION,
                device: mounted.drive.to_string(),
                changed: label != before,
                label,
            })
        })?;
        if self.json {
            context.console.json(&labelled)?
        } else if self.label.is_none() {
            let line = format!("{}\n", shown(&labelled.label));
            context.console.print(&line)?;
        }
        Ok(Exit::Done)
    }
}
