// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway doctor [DEVICE]`: what this machine supports, what is missing, and how to fix it;
//! `--report FILE` writes a report for a question about a board.

use crate::Context;
use crate::exit::Exit;
use crate::remedies::CommandLine;
use board::survey;
use board::survey::finding::Finding;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::Result;
use linux::doctor::{Check, State};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Show what this machine has and lacks for each path.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
--report writes one JSON file to attach to a question: the checks, kernel, processor, page size, device tree or ACPI, PCIe \
topology and links, each drive's Identify data and quirks, IOMMU groups, modules, limits, lines of the kernel's log about \
drives, and what could not be read and why. With a DEVICE each path that leads to it reads 8 MiB, and the checksums are compared; \
a straight path takes the drive from its driver for this time, unless it is in use. It only reads. Host name, user names, network addresses and the drives' serial \
numbers are replaced by placeholders; read the file before you publish it. Root can read more.")]
pub struct Doctor {
    /// Check only this drive
    pub device: Option<String>,
    /// Also write everything about the machine and its drives to a new file, redacted
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Leave the drives' serial numbers in the report
    #[arg(long, requires = "report")]
    pub with_serials: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// Whether nothing that a path needs is missing.
    pub ok: bool,
    /// The checks.
    pub checks: Vec<Finding>,
}

impl Diagnosis {
    fn of(checks: &[Check]) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            ok: checks.iter().all(|check| check.state != State::Missing),
            checks: checks
                .iter()
                .map(|check| Finding::of(check, &CommandLine))
                .collect(),
        }
    }

    fn text(&self) -> String {
        let width = self
            .checks
            .iter()
            .map(|check| check.name.chars().count())
            .max();
        let width = width.unwrap_or(0);
        let mut text = String::new();
        for Finding {
            name,
            state,
            found,
            hint,
        } in &self.checks
        {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{state:8} {name:width$}  {found}");
            if let Some(hint) = hint {
                let _ = writeln!(text, "{:8} {:width$}  hint: {hint}", "", "");
            }
        }
        text
    }
}

impl Doctor {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device does not exist, the report exists or cannot be written, or standard output was
    /// closed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let drive = match &self.device {
            Some(device) => Some(Drive::find_and_say(context, device)?),
            None => None,
        };
        let report = match &self.report {
            Some(path) => Some(survey::output(context, path, drive.as_ref())?),
            None => None,
        };
        let mut checks = linux::doctor::examine(&context.roots);
        if let (Some(path), Some(output)) = (&self.report, report) {
            let all = Diagnosis::of(&checks).checks;
            let unread = survey::write(context, output, all, self.with_serials, drive.as_ref())?;
            context.say(format_args!(
                "wrote {}; not readable: {unread} (in `unread`, with reasons)",
                path.display()
            ));
        }
        if let Some(drive) = &drive {
            let own = match drive {
                Drive::Nvme(resolved) => Some(resolved.controller.address.to_string()),
                _ => None,
            };
            checks.retain(|check| is_about(check, own.as_deref()));
        }
        let diagnosis = Diagnosis::of(&checks);
        let console = &context.console;
        console.report(self.json, &diagnosis, Diagnosis::text)?;
        if !diagnosis.ok && self.device.is_none() {
            context.say(
                "without a drive, plain files, ram:SIZE and model:SIZE work: straightway format disk.img --size 1G",
            );
        }
        Ok(if diagnosis.ok { Exit::Done } else { Exit::No })
    }
}

/// Whether a check concerns the machine, or the drive at `own`.
fn is_about(check: &Check, own: Option<&str>) -> bool {
    let drive = ["controller ", "borrowed "];
    let named = drive.iter().find_map(|kind| check.name.strip_prefix(kind));
    if let Some(address) = named {
        return Some(address) == own;
    }
    if check.name == "NVMe controllers" {
        return own.is_some();
    }
    // The checks of these list the members of an IOMMU group, or the function.
    let is_group = check
        .name
        .rsplit('/')
        .next()
        .is_some_and(|last| last.parse::<u32>().is_ok());
    let is_node = check.name.contains("/vfio/devices/");
    !(is_group || is_node) || own.is_some_and(|own| check.found.contains(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, state: State) -> Check {
        Check {
            name: name.into(),
            state,
            found: "0000:01:00.0".into(),
            hint: Some("do it".into()),
        }
    }

    #[test]
    fn only_what_is_missing_makes_the_verdict_no() {
        assert!(Diagnosis::of(&[check("a", State::Ok), check("b", State::Warning)]).ok);
        let diagnosis = Diagnosis::of(&[check("a", State::Ok), check("b", State::Missing)]);
        assert!(!diagnosis.ok);
        assert!(diagnosis.text().contains("hint: do it"));
    }

    #[test]
    fn other_drives_are_left_out() {
        let own = Some("0000:01:00.0");
        assert!(is_about(&check("IOMMU", State::Ok), own));
        assert!(is_about(&check("controller 0000:01:00.0", State::Ok), own));
        assert!(!is_about(&check("controller 0000:02:00.0", State::Ok), own));
        for node in ["/dev/vfio/3", "/dev/vfio/devices/vfio3"] {
            assert!(is_about(&check(node, State::Ok), own));
            assert!(!is_about(&check(node, State::Ok), Some("0000:02:00.0")));
        }
        for node in ["/dev/vfio/vfio", "/dev/iommu"] {
            assert!(is_about(&check(node, State::Ok), Some("0000:02:00.0")));
        }
    }
}
