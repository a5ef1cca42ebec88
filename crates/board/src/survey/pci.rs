// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The drives' PCI functions and the bridges above them, from sysfs: identifiers, link, errors,
//! interrupts.

use super::reader::Reader;
use linux::Roots;
use linux::pci::PciAddress;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The attributes that are taken (`Documentation/ABI/testing/sysfs-bus-pci`).
const ATTRIBUTES: [&str; 27] = [
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "class",
    "revision",
    "enable",
    "irq",
    "numa_node",
    "local_cpulist",
    "dma_mask_bits",
    "consistent_dma_mask_bits",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "power_state",
    "d3cold_allowed",
    "reset_method",
    "driver_override",
    "aer_dev_correctable",
    "aer_dev_fatal",
    "aer_dev_nonfatal",
    "aer_rootport_total_err_cor",
    "aer_rootport_total_err_fatal",
    "resource",
    "power/control",
];
/// The part of the configuration space that has a standard header.
const HEADER_BYTES: usize = 64;

/// A PCI function.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Function {
    /// Its address.
    pub address: String,
    /// The functions above it, the host bridge's first.
    pub below: Vec<String>,
    /// Its kernel driver.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub iommu_group: Option<String>,
    /// Its node of the device tree.
    pub device_tree_node: Option<String>,
    /// Whether the link runs below the speed or width that this function supports; null if it has
    /// no link.
    pub degraded_link: Option<bool>,
    /// Interrupts in use (MSI, MSI-X).
    pub msi_count: usize,
    /// The kernel's attributes of it.
    pub attributes: BTreeMap<String, String>,
    /// The first 64 bytes of its configuration space in hexadecimal digits.
    pub header: Option<String>,
}

/// The functions at `addresses` and each above them, sorted, each once.
pub fn functions(roots: &Roots, reader: &mut Reader, addresses: &[String]) -> Vec<Function> {
    let mut found: BTreeMap<String, Function> = BTreeMap::new();
    for address in addresses {
        let link = roots.sys.join("bus/pci/devices").join(address);
        let folder = match std::fs::canonicalize(&link) {
            Ok(folder) => folder,
            Err(error) => {
                reader.failed(link.display().to_string(), error.to_string());
                continue;
            }
        };
        let mut chain: Vec<(String, &Path)> = Vec::new();
        for folder in folder.ancestors() {
            let name = folder.file_name().and_then(|name| name.to_str());
            match name.filter(|name| name.parse::<PciAddress>().is_ok()) {
                Some(name) => chain.insert(0, (name.to_owned(), folder)),
                None => break,
            }
        }
        for (level, (name, folder)) in chain.iter().enumerate() {
            if !found.contains_key(name) {
                let above = chain.iter().take(level).map(|(name, _)| name.clone());
                let function = function(reader, name, above.collect(), folder);
                found.insert(name.clone(), function);
            }
        }
    }
    found.into_values().collect()
}

fn function(reader: &mut Reader, address: &str, below: Vec<String>, folder: &Path) -> Function {
    let attributes = reader.attributes(folder, &ATTRIBUTES);
    let link = |name: &str| {
        let target = std::fs::canonicalize(folder.join(name)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    let header = match std::fs::read(folder.join("config")) {
        Ok(bytes) => {
            let bytes = bytes.iter().take(HEADER_BYTES);
            Some(bytes.map(|byte| format!("{byte:02x}")).collect())
        }
        Err(error) => {
            let path = folder.join("config").display().to_string();
            reader.failed(path, error.to_string());
            None
        }
    };
    Function {
        address: address.to_owned(),
        below,
        driver: link("driver"),
        iommu_group: link("iommu_group"),
        device_tree_node: std::fs::canonicalize(folder.join("of_node"))
            .ok()
            .map(|path| path.display().to_string()),
        degraded_link: degraded(&attributes),
        msi_count: reader.names(&folder.join("msi_irqs")).len(),
        attributes,
        header,
    }
}

/// Whether the link is slower or narrower than the function supports. Speeds begin with a number:
/// `8.0 GT/s PCIe`.
fn degraded(attributes: &BTreeMap<String, String>) -> Option<bool> {
    let number = |name: &str| {
        let first = attributes.get(name)?.split_whitespace().next()?;
        first.parse::<f64>().ok().filter(|value| *value > 0.0)
    };
    let is_slower = number("current_link_speed")? < number("max_link_speed")?;
    let is_narrower = number("current_link_width")? < number("max_link_width")?;
    Some(is_slower || is_narrower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_narrow_link_is_recognised() {
        let of = |speed: &str, width: &str| {
            let pairs = [
                ("current_link_speed", speed),
                ("max_link_speed", "8.0 GT/s PCIe"),
                ("current_link_width", width),
                ("max_link_width", "4"),
            ];
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            degraded(&BTreeMap::from(pairs))
        };
        assert_eq!(of("8.0 GT/s PCIe", "4"), Some(false));
        assert_eq!(of("5.0 GT/s PCIe", "4"), Some(true));
        assert_eq!(of("8.0 GT/s PCIe", "1"), Some(true));
        assert_eq!(of("Unknown", "4"), None);
    }
}
