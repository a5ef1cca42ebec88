// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway selftest DEVICE --destroy-data SERIAL`: tests a drive in a new board.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use board::selftest::{self, Bounds, Choice, SelfTested};
use clap::Args;
use devices::drive::Drive;
use devices::error::Result;
use devices::guard::{Grant, Purpose};
use devices::path::Mode;
use std::fmt::Write;
use units::Size;

/// The paths to an NVMe drive, each with one way to wait.
const NVME: [Choice; 4] = [
    ("io_uring", None),
    ("straightway", Some(Mode::Poll)),
    ("straightway", Some(Mode::Interrupt)),
    ("chario", None),
];
const MODEL: [Choice; 2] = [
    ("straightway", Some(Mode::Poll)),
    ("straightway", Some(Mode::Interrupt)),
];
const OTHER: [Choice; 1] = [("auto", None)];

/// Test a drive and the board around it; overwrites part of it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
On every path that this machine has: writes and reads patterns of different sizes, offsets, alignments and queue depths, with \
buffers across pages; the same block in the same memory, for stale cache lines; overlapping writes, flush, discard, write zeroes, \
a read that \
misses a deadline of a microsecond, which the driver ends (Abort, deleting the queue, a reset), and a reset with a read in flight. Each path first reads what the one before it wrote, and the first is opened again at the end. Data depends on seed, block and pass, so a block that is stale, lost, torn, swapped or misplaced is named. Exit \
status 1 means that something failed.")]
pub struct Selftest {
    /// The drive
    pub device: String,
    /// The drive's serial number: its data in the tested range will be overwritten. For file: and
    /// model:...,file= the file's path or name; not needed for memory
    #[arg(long, value_name = "SERIAL", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// First byte of the tested range
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: Size,
    /// Length of the tested range
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub size: Size,
    /// The seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Selftest {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, the range does not fit, or the drive could not be returned to its
    /// driver.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let drive = Drive::find_and_say(context, &self.device)?;
        let choices = match &drive {
            Drive::Nvme(_) => &NVME[..],
            Drive::Model(_) => &MODEL,
            _ => &OTHER,
        };
        let purpose = Purpose::Destroy(self.destroy_data.as_deref());
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let bounds = Bounds {
            seed: self.seed,
            offset_bytes: self.offset.0,
            size_bytes: self.size.0,
        };
        let tested = selftest::run(context, &grant, choices, bounds)?;
        context.console.report(self.json, &tested, text)?;
        Ok(if tested.ok { Exit::Done } else { Exit::No })
    }
}

fn text(tested: &SelfTested) -> String {
    let mut text = format!(
        "{}: {} bytes from byte {}, seed {}\n",
        tested.device, tested.size_bytes, tested.offset_bytes, tested.seed
    );
    for path in &tested.paths {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", path.path);
        for check in &path.checks {
            let outcome = check.outcome.name();
            let _ = writeln!(text, "  {outcome:12}  {:24}  {}", check.name, check.detail);
            if let Some(hint) = &check.hint {
                let _ = writeln!(text, "  {:12}  {:24}  hint: {hint}", "", "");
            }
        }
    }
    text
}
