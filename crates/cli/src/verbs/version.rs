// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway version`: which build this is.

use crate::Context;
use crate::exit::Exit;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use schemars::JsonSchema;
use serde::Serialize;

/// Show which build of the command this is, and which formats of a volume it reads and writes.
#[derive(Clone, Debug, Args)]
pub struct Version {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A build.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Build {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The version.
    pub version: &'static str,
    /// The commit of the sources; null if whoever built it did not give `STRAIGHTWAY_COMMIT`.
    pub commit: Option<&'static str>,
    /// The processor's architecture, as `x86_64`.
    pub architecture: &'static str,
    /// What was built in, sorted: parts that a build may leave out.
    pub features: Vec<&'static str>,
    /// The formats of a volume that it reads and writes.
    pub volume_formats: Vec<&'static str>,
}

impl Version {
    /// Runs the verb.
    ///
    /// # Errors
    /// Standard output failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let build = build();
        if self.json {
            context.console.json(&build)?;
            return Ok(Exit::Done);
        }
        let commit = build.commit.unwrap_or("not known");
        let rows = [
            ("straightway", build.version.to_owned()),
            ("commit", commit.to_owned()),
            ("architecture", build.architecture.to_owned()),
            ("features", build.features.join(", ")),
            ("formats of a volume", build.volume_formats.join(", ")),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<20} {value}\n"));
        context.console.print(&lines.concat())?;
        Ok(Exit::Done)
    }
}

fn build() -> Build {
    let features = [
        ("fuse", cfg!(feature = "fuse")),
        ("measuring", cfg!(feature = "measuring")),
        ("servers", cfg!(feature = "servers")),
        ("tls", cfg!(feature = "tls")),
        ("ublk", cfg!(feature = "ublk")),
    ];
    let features = features.into_iter().filter(|(_, is_there)| *is_there);
    Build {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("STRAIGHTWAY_COMMIT").filter(|commit| !commit.is_empty()),
        architecture: std::env::consts::ARCH,
        features: features.map(|(name, _)| name).collect(),
        volume_formats: vec!["1.0", "1.1"],
    }
}
