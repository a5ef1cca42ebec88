// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the bridges above a PCI function pass on its accesses to memory.
//!
//! A bridge forwards a request from below only while the bus master bit of its own command register
//! is set (PCI-to-PCI bridge architecture specification, "Command register"). The kernel sets it
//! when it enables a function below, and does not look again: a bridge that was reset since, or
//! changed by firmware or another program, filters the drive's reads of its queues and every
//! completion, and each command is late.

use crate::pci::PciAddress;
use crate::{Error, Result, Roots, sysfs};
use std::fs::File;
use std::os::unix::fs::FileExt;

const COMMAND: u64 = 4;
const COMMAND_BUS_MASTER: u16 = 1 << 2;

/// The first bridge above the function at `address` that filters its accesses to memory, from the
/// function up. A bridge whose configuration space cannot be read counts as one that passes them
/// on.
pub fn filtering(roots: &Roots, address: PciAddress) -> Option<PciAddress> {
    let device = sysfs::canonical(&roots.pci_device(address));
    let mut above = device.ancestors().skip(1).map_while(|folder| {
        let bridge: PciAddress = sysfs::name_of(folder)?.parse().ok()?;
        Some((bridge, folder))
    });
    above.find_map(|(bridge, folder)| {
        let mut command = [0; 2];
        let file = File::open(folder.join("config")).ok()?;
        file.read_exact_at(&mut command, COMMAND).ok()?;
        (u16::from_le_bytes(command) & COMMAND_BUS_MASTER == 0).then_some(bridge)
    })
}

/// The command that has a bridge pass on accesses to memory.
pub fn hint(bridge: PciAddress) -> String {
    format!("setpci -s {bridge} COMMAND=4:4")
}

/// Refuses a function below a bridge that filters.
///
/// # Errors
/// [`Error::Unsupported`].
pub(crate) fn require(roots: &Roots, address: PciAddress) -> Result<()> {
    match filtering(roots, address) {
        None => Ok(()),
        Some(bridge) => Err(Error::Unsupported {
            what: "the drive",
            why: format!(
                "the bridge {bridge} above {address} has bus mastering off, so it passes on none of the drive's accesses to memory"
            ),
            hint: Some(hint(bridge).into()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    /// A drive below a switch: the command registers of the port, and of the switch's two bridges.
    fn tree(commands: [&str; 3]) -> Tree {
        let tree = Tree::new();
        let mut folder = "sys/devices/pci0000:00".to_owned();
        for (name, command) in ["0000:00:05.0", "0000:01:00.0", "0000:02:08.0"]
            .iter()
            .zip(commands)
        {
            folder += &format!("/{name}");
            tree.file(&format!("{folder}/config"), &format!("1234{command}"));
        }
        folder += "/0000:03:00.0";
        // The drive's own bit is the driver's.
        tree.file(&format!("{folder}/config"), "1234\0\0");
        tree.link("sys/bus/pci/devices/0000:03:00.0", &folder);
        tree
    }

    #[test]
    fn the_nearest_bridge_that_filters_is_named() {
        let drive = "0000:03:00.0".parse().unwrap();
        for (commands, expected) in [
            (["\x06\x05", "\x07\0", "\x04\0"], None),
            (["\x02\x04", "\x06\0", "\x06\0"], Some("0000:00:05.0")),
            (["\x02\0", "\x03\0", "\x06\0"], Some("0000:01:00.0")),
            (["\x06\0", "\x06\0", "\0\0"], Some("0000:02:08.0")),
            // Shorter than a header: unreadable.
            (["\x06\0", "\x06\0", ""], None),
        ] {
            let tree = tree(commands);
            let found = filtering(&tree.roots(), drive);
            assert_eq!(
                found,
                expected.map(|name| name.parse().unwrap()),
                "{commands:?}"
            );
            let refused = require(&tree.roots(), drive).err();
            assert_eq!(
                refused.and_then(|error| error.hint()),
                expected.map(|name| format!("setpci -s {name} COMMAND=4:4").into())
            );
        }
    }

    #[test]
    fn a_drive_at_the_host_bridge_has_no_bridge() {
        let tree = Tree::with_drive();
        assert_eq!(
            filtering(&tree.roots(), "0000:01:00.0".parse().unwrap()),
            None
        );
    }
}
