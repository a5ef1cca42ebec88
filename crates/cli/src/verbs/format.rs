// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway format DEVICE`: creates an empty volume.

use crate::Context;
use crate::exit::Exit;
use crate::verbs::consent::ConsentArgs;
use clap::Args;
use devices::error::Result;
use files::format::{FormatReport, FormatSettings};
use files::shown;
use std::fmt::Write;
use units::{Size, rounded};

/// Make an empty volume on a device.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A plain file need not exist: `straightway format disk.img --size 1G` creates it.

For a drive, --destroy-data must name its serial number. A file that holds data is refused without
--force; so is a model's file.

Before it writes, format lists what the device holds: a file system, a partition table, swap space, a
part of a RAID or of a volume group. It wipes their signatures, also those at the device's end, so
that the volume is not mistaken for one of them. --dry-run only reports what it would wipe and make.")]
pub struct Format {
    /// The device, or a plain file
    pub device: String,
    /// Allocation unit, 64 bytes to 1 GiB [about 1/32768 of the volume, 4 KiB to 1 MiB]
    #[arg(long, value_name = "SIZE")]
    pub unit: Option<Size>,
    /// Metadata node, 256 bytes to 16 KiB [the device's block, at least 512]
    #[arg(long, value_name = "SIZE")]
    pub node: Option<Size>,
    /// Slots for files, rounded up to 8 times a power of two [one for each 16 MiB, at least 1024,
    /// fewer on a small device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: Option<u32>,
    /// A label, at most 32 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
    /// Give files checksums, which put and record then store; readers without support for them
    /// refuse the volume
    #[arg(long)]
    pub checksums: bool,
    /// Size of the volume; a missing or empty plain file gets this size [the whole device]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Whose data may be lost
    #[command(flatten)]
    pub consent: ConsentArgs,
}

impl Format {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, the parameters do not suit the device, or the device failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = FormatSettings {
            device: self.device.clone(),
            unit: self.unit,
            node: self.node,
            slots: self.slots,
            label: self.label.clone(),
            checksums: self.checksums,
            size: self.size,
            consent: self.consent.plain(),
        };
        let report = settings.make(context)?;
        self.consent.print(context, &report, text)?;
        Ok(Exit::Done)
    }
}

fn text(report: &FormatReport) -> String {
    let share = report.metadata_bytes as f64 * 100.0 / report.volume_bytes as f64;
    let label = match report.label.as_str() {
        "" => String::new(),
        label => format!(" `{}`", shown(label)),
    };
    let mut text = String::new();
    if report.dry_run {
        // Writing to a String cannot fail.
        for found in &report.found {
            let _ = writeln!(text, "{} (at byte {})", found.what, found.offset_bytes);
        }
        if report.found.is_empty() {
            let judge = &report.judged_by;
            let _ = writeln!(
                text,
                "no signature of a file system, a partition table or similar (by {judge})"
            );
        }
    }
    let made = if report.dry_run {
        "would wipe that and make"
    } else {
        "made"
    };
    let files = format!(
        "{} slots: at least {} files before their table grows",
        report.slots, report.slots_before_refusal
    );
    let checksums = if report.checksums {
        "files get checksums"
    } else {
        "no checksums"
    };
    let _ = writeln!(
        text,
        "{made} a volume{label} of {} on {}: room for {} in {files}; \
         units of {}, nodes of {}, metadata {} ({share:.2} %), {checksums}",
        rounded(report.volume_bytes),
        report.device,
        rounded(report.capacity_bytes),
        Size(report.unit_bytes),
        Size(report.node_bytes),
        rounded(report.metadata_bytes),
    );
    text
}
