// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What isolates a function from the rest of the machine: its IOMMU group, and the remapping of its
//! interrupts.

use crate::bind::VFIO_PCI;
use crate::pci::PciAddress;
use crate::sysfs;
use crate::{Error, Result, Roots};

/// The driver of ports, which accesses no memory by them.
const PORT: &str = "pcieport";

/// The number of the function's IOMMU group.
pub(super) fn group_of(roots: &Roots, address: PciAddress) -> Result<u32> {
    let folder = roots.pci_device(address).join("iommu_group");
    // A group that VFIO makes up for a function without an IOMMU.
    let is_real = sysfs::text(&folder.join("name")).as_deref() != Some("vfio-noiommu");
    let number = sysfs::link_name(&folder).and_then(|name| name.parse().ok());
    number.filter(|_| is_real).ok_or_else(|| Error::NoIommu {
        device: address.to_string(),
    })
}

/// Each device of a group and its driver.
pub(crate) fn members(roots: &Roots, group: u32) -> Vec<(String, Option<String>)> {
    let folder = roots
        .sys
        .join(format!("kernel/iommu_groups/{group}/devices"));
    let driver = |name: &String| sysfs::link_name(&roots.pci_device(name).join("driver"));
    sysfs::names(&folder)
        .into_iter()
        .map(|name| (name.clone(), driver(&name)))
        .collect()
}

/// The devices of a group whose drivers keep VFIO from having it, each with its driver.
pub(super) fn others(roots: &Roots, group: u32) -> Vec<String> {
    members(roots, group)
        .into_iter()
        .filter_map(|(device, driver)| Some((device, driver?)))
        .filter(|(_, driver)| driver != VFIO_PCI && driver != PORT)
        .map(|(device, driver)| format!("{device} (driver {driver})"))
        .collect()
}

/// `module` has the parameter that allows it all the same.
pub(super) fn no_interrupt_remapping(module: &str) -> Error {
    Error::Unsupported {
        what: "VFIO",
        why: "the IOMMU cannot remap interrupts, so a device could forge them".into(),
        hint: Some(
            format!(
                "switch interrupt remapping on in the firmware; or, if the device is trusted: \
             echo 1 > /sys/module/{module}/parameters/allow_unsafe_interrupts"
            )
            .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    #[test]
    fn a_group_without_an_iommu_is_none() {
        let tree = Tree::with_drive();
        let group = || group_of(&tree.roots(), "01:00.0".parse().unwrap());
        assert_eq!(group().unwrap(), 4);
        tree.file("sys/kernel/iommu_groups/4/name", "vfio-noiommu\n");
        assert!(matches!(group(), Err(Error::NoIommu { .. })));
        std::fs::remove_file(
            tree.path()
                .join("sys/bus/pci/devices/0000:01:00.0/iommu_group"),
        )
        .unwrap();
        assert!(matches!(group(), Err(Error::NoIommu { .. })));
    }

    #[test]
    fn neither_a_port_nor_a_device_at_vfio_keeps_a_group_from_it() {
        let tree = Tree::with_drive();
        for (function, driver) in [("05.0", "pcieport"), ("06.0", "vfio-pci"), ("07.0", "ahci")] {
            let device = format!("sys/bus/pci/devices/0000:00:{function}");
            tree.link(
                &format!("sys/kernel/iommu_groups/4/devices/0000:00:{function}"),
                &device,
            );
            tree.link(
                &format!("{device}/driver"),
                &format!("sys/bus/pci/drivers/{driver}"),
            );
        }
        let expected = ["0000:00:07.0 (driver ahci)", "0000:01:00.0 (driver nvme)"];
        assert_eq!(others(&tree.roots(), 4), expected);
    }
}
