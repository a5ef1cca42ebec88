// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway list`: the drives in sysfs, what uses them and what is on them.

use crate::Context;
use crate::exit::Exit;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::Result;
use files::found::{self, Ends};
use linux::disk::Disk;
use linux::pci::{self, Controller};
use linux::{Roots, usage};
use schemars::JsonSchema;
use serde::Serialize;
use units::aligned;
use units::rounded;

/// List NVMe controllers, namespaces and other disks, what uses them and what is on them.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Read nothing from the drives: not what is on them, but at once, even if one does not answer
    #[arg(long)]
    pub quick: bool,
}

/// Every NVMe controller and every other disk of the machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Listing {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// By PCI address.
    pub controllers: Vec<Entry>,
    /// Block devices that are not namespaces of them, by name.
    pub disks: Vec<DiskEntry>,
    /// What looked for what is on them: libblkid, with its version, and a table, or the table
    /// alone; null with `--quick`.
    pub judged_by: Option<String>,
}

/// A block device that is not a namespace of an NVMe controller on PCI.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiskEntry {
    /// What it is: `a SCSI, SATA or USB disk`.
    pub kind: String,
    /// Its model.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// What it shares with a namespace.
    #[serde(flatten)]
    pub block: BlockEntry,
}

/// A block device: its size, and what is on it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockEntry {
    /// The block device.
    pub block_device: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Logical block.
    pub block_size_bytes: Option<u64>,
    /// Whether something uses it; null if this user lacks the permission to know.
    pub in_use: Option<bool>,
    /// What uses it.
    pub uses: Vec<String>,
    /// What its magic numbers say is on it; null if this user may not read it, or with `--quick`.
    pub holds: Option<Vec<String>>,
}

/// A controller.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Entry {
    /// Its PCI address.
    pub pci_address: String,
    /// The kernel driver that holds it.
    pub driver: Option<String>,
    /// Its name, while the kernel's NVMe driver holds it.
    pub kernel_name: Option<String>,
    /// Its model, while the kernel's NVMe driver holds it.
    pub model: Option<String>,
    /// Its serial number, while the kernel's NVMe driver holds it.
    pub serial: Option<String>,
    /// The IOMMU group.
    pub iommu_group: Option<u32>,
    /// The closest NUMA node.
    pub numa_node: Option<u32>,
    /// The PCI vendor ID.
    pub pci_vendor: u16,
    /// The PCI device ID.
    pub pci_device: u16,
    /// The process that has borrowed it; 1 for a drive that `straightway bind` took.
    pub borrowed_by_pid: Option<u32>,
    /// Its namespaces, while the kernel's NVMe driver holds it.
    pub namespaces: Vec<NamespaceEntry>,
}

/// A namespace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamespaceEntry {
    /// The namespace's identifier.
    pub namespace: Option<u32>,
    /// The passthrough device.
    pub character_device: Option<String>,
    /// What it shares with other disks.
    #[serde(flatten)]
    pub block: BlockEntry,
}

impl Listing {
    /// Reads the list from sysfs, and what is on the drives from them unless `quick`.
    pub fn read(roots: &Roots, quick: bool) -> Self {
        let borrowed = linux::bind::borrowed(roots);
        let entry = |controller: &Controller| Entry {
            pci_address: controller.address.to_string(),
            driver: controller.driver.clone(),
            kernel_name: controller.kernel_name.clone(),
            model: controller.model.clone(),
            serial: controller.serial.clone(),
            iommu_group: controller.iommu_group,
            numa_node: controller.numa_node,
            pci_vendor: controller.vendor,
            pci_device: controller.device,
            borrowed_by_pid: borrowed
                .iter()
                .find(|(address, ..)| *address == controller.address)
                .map(|(_, pid, _)| *pid),
            namespaces: controller
                .namespaces
                .iter()
                .map(|namespace| namespace_entry(roots, namespace, quick))
                .collect(),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            judged_by: (!quick).then(found::judge),
            controllers: pci::controllers(roots).iter().map(entry).collect(),
            disks: Disk::all(roots)
                .into_iter()
                .map(|disk| DiskEntry {
                    kind: disk.kind.to_owned(),
                    block: block_entry(roots, Some(&disk.name), quick),
                    model: disk.model,
                    serial: disk.serial,
                })
                .collect(),
        }
    }

    fn table(&self) -> String {
        let mut rows = vec![
            [
                "DEVICE",
                "PCI ADDRESS",
                "DRIVER",
                "IOMMU",
                "SIZE",
                "BLOCK",
                "MODEL",
                "SERIAL",
                "USE",
                "HOLDS",
            ]
            .map(str::to_owned),
        ];
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        for one in &self.controllers {
            let row = |name: Option<String>, block: Option<&BlockEntry>, r#use: String| {
                [
                    dash(name),
                    one.pci_address.clone(),
                    dash(one.driver.clone()),
                    dash(one.iommu_group.map(|group| group.to_string())),
                    dash(block.and_then(|block| block.size_bytes).map(rounded)),
                    dash(
                        block
                            .and_then(|block| block.block_size_bytes)
                            .map(|bytes| bytes.to_string()),
                    ),
                    dash(one.model.clone()),
                    dash(one.serial.clone()),
                    r#use,
                    block.map_or_else(|| "-".to_owned(), BlockEntry::held),
                ]
            };
            if one.namespaces.is_empty() {
                let held = match one.borrowed_by_pid {
                    Some(1) => "bound by straightway bind".to_owned(),
                    Some(pid) => format!("borrowed by process {pid}"),
                    None => "-".to_owned(),
                };
                rows.push(row(one.kernel_name.clone(), None, held));
            }
            for namespace in &one.namespaces {
                let name = namespace.block.block_device.clone();
                let name = name.or_else(|| namespace.character_device.clone());
                let block = &namespace.block;
                rows.push(row(name, Some(block), block.used()));
            }
        }
        rows.extend(self.disks.iter().map(|disk| {
            let block = &disk.block;
            [
                dash(block.block_device.clone()),
                "-".to_owned(),
                disk.kind.clone(),
                "-".to_owned(),
                dash(block.size_bytes.map(rounded)),
                dash(block.block_size_bytes.map(|bytes| bytes.to_string())),
                dash(disk.model.clone()),
                dash(disk.serial.clone()),
                block.used(),
                block.held(),
            ]
        }));
        aligned(&rows, usize::MAX)
    }
}

fn namespace_entry(roots: &Roots, namespace: &pci::Namespace, quick: bool) -> NamespaceEntry {
    NamespaceEntry {
        namespace: namespace.nsid,
        character_device: namespace.character.clone(),
        block: block_entry(roots, namespace.block.as_deref(), quick),
    }
}

fn block_entry(roots: &Roots, block: Option<&str>, quick: bool) -> BlockEntry {
    let number = |file: &str| {
        let folder = roots.sys.join("class/block").join(block?);
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let uses = block.and_then(|block| usage::of_block_device(roots, block).ok());
    let block_size_bytes = number("queue/logical_block_size");
    let block_bytes = block_size_bytes
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or(512);
    let ends = block
        .filter(|_| !quick)
        .and_then(|block| Ends::read(&roots.dev.join(block), block_bytes).ok());
    BlockEntry {
        block_device: block.map(str::to_owned),
        // The kernel counts units of 512 bytes, whatever the block size is.
        size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
        block_size_bytes,
        in_use: uses.as_ref().map(|uses| !uses.is_empty()),
        uses: uses.iter().flatten().map(usage::Use::to_string).collect(),
        holds: ends.map(|ends| {
            let signatures = ends.signatures();
            let names = found::names(&signatures).into_iter();
            names.map(str::to_owned).collect()
        }),
    }
}

impl BlockEntry {
    /// Whether a Straightway volume is on it, as its magic number says.
    pub fn has_volume(&self) -> bool {
        let names = self.holds.iter().flatten();
        names.into_iter().any(|name| name == found::VOLUME)
    }

    fn used(&self) -> String {
        match (self.in_use, self.uses.as_slice()) {
            (_, [_, ..]) => self.uses.join("; "),
            (Some(_), []) => "free".to_owned(),
            (None, []) => "unknown".to_owned(),
        }
    }

    fn held(&self) -> String {
        match self.holds.as_deref() {
            None => "unknown".to_owned(),
            // Data without a known beginning is possible.
            Some([]) => "nothing known".to_owned(),
            Some(names) => names.join("; "),
        }
    }
}

impl List {
    /// Runs the verb.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let listing = Listing::read(&context.roots, self.quick);
        if self.json {
            context.console.json(&listing)?;
            return Ok(Exit::Done);
        }
        if listing.controllers.is_empty() {
            context.say("no NVMe controller found; `model:1GiB` is a model of one");
            if listing.disks.is_empty() {
                return Ok(Exit::Done);
            }
        }
        context.console.print(&listing.table())?;
        Ok(Exit::Done)
    }
}
