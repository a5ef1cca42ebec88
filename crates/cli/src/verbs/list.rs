//! `straightway list`: the NVMe drives in sysfs.

use crate::failure::{Exit, Result};
use crate::units::rounded;
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use linux::pci::{self, Controller};
use linux::{Roots, usage};
use measure::format::aligned;
use schemars::JsonSchema;
use serde::Serialize;

/// List NVMe controllers and namespaces, and what uses them.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Every NVMe controller of the machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Listing {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// By PCI address.
    pub controllers: Vec<Entry>,
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
    /// The block device.
    pub block_device: Option<String>,
    /// The passthrough device.
    pub character_device: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Logical block.
    pub block_size_bytes: Option<u64>,
    /// Whether something uses it; null if this user lacks the permission to know.
    pub in_use: Option<bool>,
    /// What uses it.
    pub uses: Vec<String>,
}

impl Listing {
    /// Reads the list from sysfs.
    pub fn read(roots: &Roots) -> Self {
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
                .map(|namespace| namespace_entry(roots, namespace))
                .collect(),
        };
        Self {
            schema_version: SCHEMA_VERSION,
            controllers: pci::controllers(roots).iter().map(entry).collect(),
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
            ]
            .map(str::to_owned),
        ];
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        for one in &self.controllers {
            let row =
                |name: Option<String>, size: Option<u64>, block: Option<u64>, r#use: String| {
                    [
                        dash(name),
                        one.pci_address.clone(),
                        dash(one.driver.clone()),
                        dash(one.iommu_group.map(|group| group.to_string())),
                        dash(size.map(rounded)),
                        dash(block.map(|bytes| bytes.to_string())),
                        dash(one.model.clone()),
                        dash(one.serial.clone()),
                        r#use,
                    ]
                };
            if one.namespaces.is_empty() {
                let held = match one.borrowed_by_pid {
                    Some(1) => "bound by straightway bind".to_owned(),
                    Some(pid) => format!("borrowed by process {pid}"),
                    None => "-".to_owned(),
                };
                rows.push(row(one.kernel_name.clone(), None, None, held));
            }
            for namespace in &one.namespaces {
                let uses = match (namespace.in_use, namespace.uses.as_slice()) {
                    (_, [_, ..]) => namespace.uses.join("; "),
                    (Some(_), []) => "free".to_owned(),
                    (None, []) => "unknown".to_owned(),
                };
                let name = namespace.block_device.clone();
                let name = name.or_else(|| namespace.character_device.clone());
                rows.push(row(
                    name,
                    namespace.size_bytes,
                    namespace.block_size_bytes,
                    uses,
                ));
            }
        }
        aligned(&rows, usize::MAX)
    }
}

fn namespace_entry(roots: &Roots, namespace: &pci::Namespace) -> NamespaceEntry {
    let number = |file: &str| {
        let folder = roots
            .sys
            .join("class/block")
            .join(namespace.block.as_ref()?);
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let uses = match &namespace.block {
        Some(block) => usage::of_block_device(roots, block).ok(),
        None => None,
    };
    NamespaceEntry {
        namespace: namespace.nsid,
        block_device: namespace.block.clone(),
        character_device: namespace.character.clone(),
        // The kernel counts units of 512 bytes, whatever the block size is.
        size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
        block_size_bytes: number("queue/logical_block_size"),
        in_use: uses.as_ref().map(|uses| !uses.is_empty()),
        uses: uses.iter().flatten().map(usage::Use::to_string).collect(),
    }
}

impl List {
    /// Runs the verb.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let listing = Listing::read(&context.roots);
        if self.json {
            context.console.json(&listing)?;
            return Ok(Exit::Done);
        }
        if listing.controllers.is_empty() {
            context.say("no NVMe controller found; `model:1GiB` is a model of one");
            return Ok(Exit::Done);
        }
        context.console.print(&listing.table())?;
        Ok(Exit::Done)
    }
}
