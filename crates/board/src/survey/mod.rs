// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `doctor --report` writes: everything about a machine and its NVMe drives that helps to
//! answer a question about them.
//!
//! It only reads: files of the kernel, and Identify commands to drives that the kernel's NVMe
//! driver holds. A drive on another driver is not opened, unless the user named it: then every path
//! reads from it. What could not be read is part of the report, with the reason.

pub mod finding;
mod machine;
mod pci;
mod reader;
mod reads;
mod redact;

use devices::Context;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::facts::{self, Facts};
use devices::guard::Output;
use finding::Finding;
use linux::pci::{Controller, controllers};
use linux::{Roots, admin};
use pci::Function;
use reader::{Reader, Unread};
use reads::Reads;
use redact::Redactor;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Parts of the Identify Controller page that name one drive, or may: SN, FGUID, SUBNQN, and what
/// belongs to the vendor.
const CONTROLLER_SECRETS: [std::ops::Range<usize>; 4] = [4..24, 112..128, 768..1024, 3072..4096];
/// The same of the Identify Namespace page: NGUID, EUI64, and what belongs to the vendor.
const NAMESPACE_SECRETS: [std::ops::Range<usize>; 2] = [104..128, 384..4096];

/// The report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Survey {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// Always `doctor report`.
    pub kind: String,
    /// Version of the command.
    pub straightway_version: String,
    /// Whether the drives' serial numbers are in it.
    pub with_serials: bool,
    /// Whether the command ran as root.
    pub root: bool,
    /// What doctor found.
    pub checks: Vec<Finding>,
    /// Kernel, processor, page size, firmware's description of the board, memory.
    pub machine: BTreeMap<String, String>,
    /// The limits of the process.
    pub limits: Vec<String>,
    /// Versions and parameters of the kernel modules that a path may use.
    pub modules: BTreeMap<String, BTreeMap<String, String>>,
    /// The drives.
    pub drives: Vec<SurveyedDrive>,
    /// The PCI functions of the drives and of every bridge above them.
    pub functions: Vec<Function>,
    /// The members of each IOMMU group that has a drive.
    pub iommu_groups: BTreeMap<String, Vec<String>>,
    /// The nodes in `/dev/vfio` and `/dev/vfio/devices`.
    pub vfio_nodes: Vec<String>,
    /// Reads by every path of the drive that was named; null if none was.
    pub reads: Option<Reads>,
    /// Lines of the kernel's log about drives, PCIe and the IOMMU, oldest first.
    pub kernel_log: Vec<String>,
    /// What could not be read, and why.
    pub unread: Vec<Unread>,
}

/// One NVMe drive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SurveyedDrive {
    /// Its PCI address.
    pub address: String,
    /// Its kernel driver.
    pub driver: Option<String>,
    /// The kernel's name, while its NVMe driver holds the drive.
    pub kernel_name: Option<String>,
    /// Whether it sees the processors' caches.
    pub coherent: bool,
    /// What says so.
    pub coherence_source: String,
    /// What it reports about itself, quirks included; null if it could not be asked.
    pub facts: Option<Facts>,
    /// The Identify Controller page in hexadecimal digits, without zeroes at its end.
    pub identify_controller: Option<String>,
    /// The Identify Namespace page of each namespace, the same way.
    pub identify_namespaces: BTreeMap<String, String>,
}

/// The new file at `path`, checked before anything is collected.
///
/// # Errors
/// It exists, or may not be written.
pub fn output(context: &Context, path: &Path, drive: Option<&Drive>) -> Result<Output> {
    Output::check(&context.roots, path, false, drive)
        .map_err(|failure| failure.hint("name a new file"))
}

/// Collects everything and writes it to a new file. Returns how many things could not be read.
///
/// # Errors
/// The file cannot be written.
pub fn write(
    context: &Context,
    output: Output,
    checks: Vec<Finding>,
    with_serials: bool,
    drive: Option<&Drive>,
) -> Result<usize> {
    let reads = drive.map(|drive| reads::of(context, drive));
    let survey = collect(&context.roots, checks, with_serials, reads);
    let failed = |error: serde_json::Error| Error::other(format!("making the report: {error}"));
    let mut value = serde_json::to_value(&survey).map_err(failed)?;
    redactor(&context.roots, with_serials).value(&mut value);
    let text = serde_json::to_string_pretty(&value).map_err(failed)? + "\n";
    let mut file = output.open(&context.cancel)?;
    file.take(text.as_bytes())?;
    file.finish()?;
    Ok(survey.unread.len())
}

/// What identifies this machine, its users and, unless `with_serials`, its drives.
fn redactor(roots: &Roots, with_serials: bool) -> Redactor {
    let mut redactor = Redactor::default();
    if !with_serials {
        for (index, controller) in controllers(roots).iter().enumerate() {
            let number = index + 1;
            if let Some(serial) = &controller.serial {
                redactor.add(serial, format!("SERIAL-{number}"));
            }
            for (index, namespace) in controller.namespaces.iter().enumerate() {
                if let Some(wwid) = &namespace.wwid {
                    let placeholder = format!("WWID-{number}.{}", index + 1);
                    if let Some((_, bare)) = wwid.split_once('.') {
                        redactor.add(bare, placeholder.clone());
                    }
                    redactor.add(wwid, placeholder);
                }
            }
        }
    }
    for file in ["sys/kernel/hostname", "sys/kernel/domainname"] {
        let name = std::fs::read_to_string(roots.proc.join(file)).unwrap_or_default();
        if !["localhost", "(none)"].contains(&name.trim()) {
            redactor.add(&name, "HOST");
        }
    }
    for user in machine::users() {
        redactor.add(&user, "USER");
    }
    redactor
}

/// Collects everything. Nothing is redacted yet, except for the Identify pages.
fn collect(
    roots: &Roots,
    checks: Vec<Finding>,
    with_serials: bool,
    reads: Option<Reads>,
) -> Survey {
    let mut reader = Reader::default();
    let controllers = controllers(roots);
    if controllers.is_empty() {
        reader.failed("drives", "this machine has no NVMe controller on PCI");
    }
    let drives = controllers
        .iter()
        .map(|one| drive(roots, &mut reader, one, with_serials))
        .collect();
    let addresses: Vec<String> = controllers
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    let functions = pci::functions(roots, &mut reader, &addresses);
    let groups = functions.iter().filter_map(|one| one.iommu_group.clone());
    let groups: Vec<String> = groups.collect();
    let iommu_groups = groups
        .into_iter()
        .map(|group| {
            let folder = roots.sys.join("kernel/iommu_groups").join(&group);
            let members = reader.names(&folder.join("devices"));
            (group, members)
        })
        .collect();
    Survey {
        schema_version: SCHEMA_VERSION,
        kind: "doctor report".to_owned(),
        straightway_version: env!("CARGO_PKG_VERSION").to_owned(),
        with_serials,
        root: rustix::process::geteuid().is_root(),
        checks,
        machine: machine::describe(roots, &mut reader),
        limits: machine::limits(roots, &mut reader),
        modules: machine::modules(roots, &mut reader),
        drives,
        functions,
        iommu_groups,
        vfio_nodes: vfio_nodes(roots, &mut reader),
        reads,
        kernel_log: machine::kernel_log(roots, &mut reader),
        unread: reader.unread,
    }
}

fn vfio_nodes(roots: &Roots, reader: &mut Reader) -> Vec<String> {
    let mut nodes = reader.names(&roots.dev.join("vfio"));
    nodes.retain(|name| name != "devices");
    let devices = reader.names(&roots.dev.join("vfio/devices"));
    nodes.extend(devices.iter().map(|name| format!("devices/{name}")));
    nodes
}

fn drive(
    roots: &Roots,
    reader: &mut Reader,
    controller: &Controller,
    with_serials: bool,
) -> SurveyedDrive {
    let address = controller.address.to_string();
    let coherence = linux::coherence::of(roots, controller.address);
    let mut drive = SurveyedDrive {
        driver: controller.driver.clone(),
        kernel_name: controller.kernel_name.clone(),
        coherent: coherence.is_coherent,
        coherence_source: coherence.why,
        facts: None,
        identify_controller: None,
        identify_namespaces: BTreeMap::new(),
        address,
    };
    let what = format!("Identify data of {}", drive.address);
    let Some(name) = &controller.kernel_name else {
        let driver = drive.driver.as_deref().unwrap_or("no driver");
        reader.failed(
            what,
            format!(
                "the drive has {driver}, and a report opens only drives on the kernel's nvme driver; \
                 hint: straightway release {}",
                drive.address
            ),
        );
        return drive;
    };
    let path = roots.dev.join(name);
    match facts::of_kernel(drive.address.clone(), &path, controller.pci_id()) {
        Ok(facts) => drive.facts = Some(facts),
        Err(failure) => {
            let hint = failure.remedy().map(|hint| format!("; hint: {hint}"));
            reader.failed(what, format!("{failure}{}", hint.unwrap_or_default()));
            return drive;
        }
    }
    let Ok(file) = File::open(&path) else {
        reader.failed(
            what,
            format!("{} could not be opened again", path.display()),
        );
        return drive;
    };
    match admin::identify_controller(&file) {
        Ok(page) => {
            let page = shown(&page[..], &CONTROLLER_SECRETS, with_serials);
            drive.identify_controller = Some(page);
        }
        Err(error) => reader.failed(what, error.to_string()),
    }
    let namespaces = drive.facts.iter().flat_map(|facts| &facts.namespaces);
    for nsid in namespaces.map(|one| one.namespace).collect::<Vec<_>>() {
        match admin::identify_namespace(&file, nsid) {
            Ok(page) => {
                let page = shown(&page[..], &NAMESPACE_SECRETS, with_serials);
                drive.identify_namespaces.insert(nsid.to_string(), page);
            }
            Err(error) => reader.failed(
                format!("Identify data of {}, namespace {nsid}", drive.address),
                error.to_string(),
            ),
        }
    }
    drive
}

/// A page in hexadecimal digits, `--` for each byte that is left out, without zeroes at its end.
fn shown(page: &[u8], secrets: &[std::ops::Range<usize>], with_serials: bool) -> String {
    let is_secret = |at: usize| !with_serials && secrets.iter().any(|range| range.contains(&at));
    let end = page
        .iter()
        .enumerate()
        .rposition(|(at, byte)| *byte != 0 && !is_secret(at));
    let bytes = page.iter().enumerate().take(end.map_or(0, |end| end + 1));
    bytes
        .map(|(at, byte)| {
            if is_secret(at) && *byte != 0 {
                "--".to_owned()
            } else {
                format!("{byte:02x}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_no_serial_number() {
        let mut page = [0_u8; 4096];
        page[0] = 0x44;
        page[4..24].fill(b'S');
        page[30] = 0x7f;
        page[800] = b'S';
        let text = shown(&page, &CONTROLLER_SECRETS, false);
        assert_eq!(text.len(), 31 * 2);
        assert!(text.starts_with("44000000----") && text.ends_with("7f"));
        assert!(!text.contains("53"));
        assert!(shown(&page, &CONTROLLER_SECRETS, true).ends_with("53"));
    }
}
