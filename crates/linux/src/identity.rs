// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of a drive. An address or a name refers to whatever is plugged in: after a drive is
//! replaced, `/dev/nvme0n1` is another one.

use crate::pci::{Controller, PciAddress};
use crate::{Error, Result, Roots};

/// What identifies a drive, as far as the kernel's driver showed it: the serial number, and each
/// namespace's worldwide identifier (sysfs `wwid`, from UUID, NGUID or EUI64).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    serial: Option<String>,
    /// Namespace and identifier.
    wwids: Vec<(u32, String)>,
}

impl Identity {
    /// The identity of a controller as the kernel shows it now.
    pub fn of(controller: &Controller) -> Self {
        let wwid = |namespace: &crate::pci::Namespace| {
            Some((namespace.nsid?, namespace.wwid.as_ref()?.clone()))
        };
        Self {
            serial: controller.serial.clone(),
            wwids: controller.namespaces.iter().filter_map(wwid).collect(),
        }
    }

    /// Refuses another drive at `address`, to which the old names now refer. What the kernel does
    /// not show now, or did not show before, is not compared.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], with both identities.
    pub fn refuse_another(&self, roots: &Roots, address: PciAddress) -> Result<()> {
        let Ok(shown) = Controller::at(roots, address) else {
            return Ok(());
        };
        let shown = Self::of(&shown);
        if let Some(serial) = &shown.serial {
            self.refuse_serial(address, serial)?;
        }
        for (nsid, wwid) in &shown.wwids {
            match self.wwid(*nsid) {
                Some(before) if before != wwid => return Err(another(address, before, wwid)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses a drive that itself reports another serial number.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], with both values.
    pub fn refuse_serial(&self, address: PciAddress, serial: &str) -> Result<()> {
        match &self.serial {
            Some(before) if before != serial => Err(another(address, before, serial)),
            _ => Ok(()),
        }
    }

    /// Refuses a namespace that itself reports another EUI64 or NGUID; zero means none.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], with both values.
    pub fn refuse_namespace(
        &self,
        address: PciAddress,
        nsid: u32,
        eui64: [u8; 8],
        nguid: [u8; 16],
    ) -> Result<()> {
        // A UUID is in no field of the namespace's page, and `nvme.` precedes a serial number.
        let before = self.wwid(nsid).and_then(|wwid| wwid.strip_prefix("eui."));
        let Some(before) = before else {
            return Ok(());
        };
        let given = [hex(&nguid), hex(&eui64)];
        if given.iter().any(|given| given == before) {
            Ok(())
        } else {
            let [nguid, eui64] = given;
            let shown = if before.len() == nguid.len() {
                nguid
            } else {
                eui64
            };
            Err(another(address, before, &shown))
        }
    }

    fn wwid(&self, nsid: u32) -> Option<&str> {
        let mut all = self.wwids.iter();
        let (_, wwid) = all.find(|(number, _)| *number == nsid)?;
        Some(wwid)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn another(address: PciAddress, before: &str, now: &str) -> Error {
    Error::NoSuchDevice {
        name: address.to_string(),
        why: format!("the drive {before} was replaced by another, {now}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    const DEVICE: &str = "sys/devices/pci0000:00/0000:01:00.0";

    fn address() -> PciAddress {
        "0000:01:00.0".parse().unwrap()
    }

    fn identity(tree: &Tree) -> Identity {
        Identity::of(&Controller::at(&tree.roots(), address()).unwrap())
    }

    #[test]
    fn another_drive_at_the_same_address_is_noticed() {
        let tree = Tree::with_drive();
        let wwid = format!("{DEVICE}/nvme/nvme0/nvme0n1/wwid");
        tree.file(&wwid, "eui.5254000000000001\n");
        let before = identity(&tree);
        let check = || before.refuse_another(&tree.roots(), address());
        assert!(check().is_ok());
        // A clone of the drive with the same serial number.
        tree.file(&wwid, "eui.5254000000000002\n");
        let error = check().unwrap_err().to_string();
        assert!(error.contains("5254000000000001"), "{error}");
        assert!(error.contains("5254000000000002"), "{error}");
        tree.file(&wwid, "eui.5254000000000001\n");
        tree.file(&format!("{DEVICE}/nvme/nvme0/serial"), "abc 2\n");
        let error = check().unwrap_err().to_string();
        assert!(
            error.contains("abc 1") && error.contains("abc 2"),
            "{error}"
        );
        assert!(
            Identity::default()
                .refuse_another(&tree.roots(), address())
                .is_ok()
        );
        // Nothing is known of a drive with another driver, or one that was removed.
        std::fs::remove_dir_all(tree.path().join("sys/devices")).unwrap();
        assert!(check().is_ok());
    }

    #[test]
    fn a_namespace_answers_with_the_identifier_that_the_kernel_showed() {
        let tree = Tree::with_drive();
        let wwid = format!("{DEVICE}/nvme/nvme0/nvme0n1/wwid");
        let eui64 = [0x52, 0x54, 0, 0, 0, 0, 0, 1];
        let nguid = [7; 16];
        for (text, is_right, is_wrong) in [
            ("eui.5254000000000001\n", true, true),
            ("eui.07070707070707070707070707070707\n", true, true),
            // These are in neither field.
            ("uuid.f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n", true, false),
            ("nvme.1b36-61626331-51454d55-00000001\n", true, false),
        ] {
            tree.file(&wwid, text);
            let before = identity(&tree);
            let check = |nsid, eui64, nguid| {
                let checked = before.refuse_namespace(address(), nsid, eui64, nguid);
                checked.is_ok()
            };
            assert_eq!(check(1, eui64, nguid), is_right, "{text}");
            assert_eq!(!check(1, [0; 8], [0; 16]), is_wrong, "{text}");
            assert!(check(2, [0; 8], [0; 16]), "{text}");
        }
    }
}
