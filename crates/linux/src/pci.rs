// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVMe controllers on the PCI bus, as sysfs shows them.
//!
//! Only reads; nothing here opens a device.

use crate::sysfs;
use crate::{Error, Result, Roots};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Mass storage, non-volatile memory, NVM Express (PCI code and ID assignment specification).
const CLASS_NVME: u64 = 0x01_08_02;

/// A function's place on the PCI bus: domain, bus, device and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Its domain, which ACPI calls a segment.
    pub const fn domain(&self) -> u32 {
        self.domain
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = Error;

    /// `0000:01:00.0`, or `01:00.0` in domain 0.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = || {
            let (rest, function) = text.rsplit_once('.')?;
            let mut parts = rest.rsplit(':');
            let device = digits(parts.next()?, 2)? as u8;
            let bus = digits(parts.next()?, 2)? as u8;
            let domain = parts.next().map_or(Some(0), |domain| digits(domain, 8))?;
            let function = digits(function, 1)? as u8;
            (parts.next().is_none() && device < 32 && function < 8).then_some(Self {
                domain,
                bus,
                device,
                function,
            })
        };
        parsed().ok_or_else(|| Error::BadName {
            name: text.to_owned(),
            why: "a PCI address is domain:bus:device.function in hexadecimal digits",
        })
    }
}

fn digits(text: &str, at_most: usize) -> Option<u32> {
    let valid = (1..=at_most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// A namespace with the names that the kernel's driver gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The namespace's identifier, if the kernel reports it.
    pub nsid: Option<u32>,
    /// The block device, such as `nvme0n1`.
    pub block: Option<String>,
    /// The character device for passthrough, such as `ng0n1`.
    pub character: Option<String>,
    /// CharIO's device, such as `chardisk0n1`, while the controller is bound to its driver.
    pub chario: Option<String>,
    /// Its worldwide identifier, such as `eui.` and its EUI64 or NGUID, while it is bound to the
    /// kernel's NVMe driver.
    pub wwid: Option<String>,
}

/// An NVMe controller.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Its address.
    pub address: PciAddress,
    /// The PCI vendor ID.
    pub vendor: u16,
    /// The PCI device ID.
    pub device: u16,
    /// The kernel's driver for it, such as `nvme` or `vfio-pci`.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// Length of its register space.
    pub bar0_bytes: u64,
    /// `nvme0`, while it is bound to the kernel's NVMe driver.
    pub kernel_name: Option<String>,
    /// Its serial number, while it is bound to the kernel's NVMe driver.
    pub serial: Option<String>,
    /// Its model, while it is bound to the kernel's NVMe driver.
    pub model: Option<String>,
    /// Its namespaces, while it is bound to the kernel's NVMe driver.
    pub namespaces: Vec<Namespace>,
}

impl Controller {
    /// The controller at `address`.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], or [`Error::NotPciNvme`] if it is something else.
    pub fn at(roots: &Roots, address: PciAddress) -> Result<Self> {
        let folder = roots.pci_device(address);
        let name = address.to_string();
        let Some(class) = sysfs::hex(&folder.join("class")) else {
            let why = format!("{} does not exist", folder.display());
            return Err(Error::NoSuchDevice { name, why });
        };
        if class != CLASS_NVME {
            let why = format!("its class is {class:#08x}, and NVMe is {CLASS_NVME:#08x}");
            return Err(Error::NotPciNvme { name, why });
        }
        Ok(Self::read(&folder, address))
    }

    /// Its vendor and device identifiers, by which quirks are looked up.
    #[cfg(feature = "nvme")]
    pub const fn pci_id(&self) -> nvme::PciId {
        nvme::PciId {
            vendor: self.vendor,
            device: self.device,
        }
    }

    fn read(folder: &Path, address: PciAddress) -> Self {
        let kernel_name = sysfs::names(&folder.join("nvme")).into_iter().next();
        let nvme = kernel_name
            .as_ref()
            .map(|name| folder.join("nvme").join(name));
        let read = |file: &str| sysfs::text(&nvme.as_ref()?.join(file));
        let id = |file: &str| sysfs::hex(&folder.join(file)).unwrap_or(0) as u16;
        let chario = chario_namespaces(folder);
        Self {
            address,
            vendor: id("vendor"),
            device: id("device"),
            driver: sysfs::link_name(&folder.join("driver")),
            iommu_group: sysfs::link_name(&folder.join("iommu_group"))
                .and_then(|name| name.parse().ok()),
            // The kernel writes -1 for "no node".
            numa_node: sysfs::number(&folder.join("numa_node")),
            bar0_bytes: bar0_bytes(folder),
            serial: read("serial").or_else(|| chario_text(folder, &chario, "serial")),
            model: read("model").or_else(|| chario_text(folder, &chario, "model")),
            namespaces: nvme.as_deref().map_or(chario, namespaces),
            kernel_name,
        }
    }
}

/// Each NVMe controller of this machine, sorted by address.
pub fn controllers(roots: &Roots) -> Vec<Controller> {
    sysfs::names(&roots.sys.join("bus/pci/devices"))
        .iter()
        .filter_map(|name| Controller::at(roots, name.parse().ok()?).ok())
        .collect()
}

/// The namespaces of a controller that is bound to CharIO's driver.
fn chario_namespaces(folder: &Path) -> Vec<Namespace> {
    let folder = folder.join("chario");
    let namespace = |name: String| Namespace {
        nsid: sysfs::number(&folder.join(&name).join("nsid")),
        block: None,
        character: None,
        chario: Some(name),
        wwid: None,
    };
    sysfs::names(&folder).into_iter().map(namespace).collect()
}

/// An attribute of the controller that CharIO's driver shows with each of its namespaces.
fn chario_text(folder: &Path, namespaces: &[Namespace], file: &str) -> Option<String> {
    let name = namespaces.first()?.chario.as_ref()?;
    sysfs::text(&folder.join("chario").join(name).join(file))
}

/// The first line of `resource` is BAR0: first address, last address, flags.
fn bar0_bytes(folder: &Path) -> u64 {
    let size = || {
        let text = sysfs::text(&folder.join("resource"))?;
        let mut words = text.lines().next()?.split_ascii_whitespace();
        let first = sysfs::parse_hex(words.next()?)?;
        let last = sysfs::parse_hex(words.next()?)?;
        (last > first).then(|| last - first + 1)
    };
    size().unwrap_or(0)
}

fn namespaces(nvme: &Path) -> Vec<Namespace> {
    let mut found: Vec<Namespace> = Vec::new();
    for name in sysfs::names(nvme) {
        let Some(parts) = parse_kernel_name(&name) else {
            continue;
        };
        let Some(number) = parts.namespace else {
            continue;
        };
        let nsid = sysfs::number(&nvme.join(&name).join("nsid"));
        let wwid = sysfs::text(&nvme.join(&name).join("wwid"));
        // With native multipathing `nvme0c1n1` is one path to `nvme0n1`, and only the latter has
        // a node in /dev; it is named after the subsystem.
        let character = parts.character.then(|| name.clone());
        let block = (!parts.character).then(|| format!("nvme{}n{number}", parts.instance));
        let same = |other: &&mut Namespace| {
            let names = [&other.block, &other.character];
            names.into_iter().flatten().any(|other| {
                parse_kernel_name(other).is_some_and(|other| other.namespace == Some(number))
            })
        };
        match found.iter_mut().find(same) {
            Some(other) => {
                other.nsid = other.nsid.or(nsid);
                other.wwid = other.wwid.take().or(wwid);
                other.block = other.block.take().or(block);
                other.character = other.character.take().or(character);
            }
            None => found.push(Namespace {
                nsid,
                block,
                character,
                chario: None,
                wwid,
            }),
        }
    }
    for namespace in &mut found {
        // Linux 6.1's character devices have no `nsid` file, and a multipath head's is elsewhere.
        let head = namespace.block.as_ref().map(|block| {
            let class = nvme.ancestors().find(|path| path.ends_with("sys"));
            class.map(|sys| sys.join("class/block").join(block))
        });
        let head = head.flatten();
        let nsid = || sysfs::number(&head.as_ref()?.join("nsid"));
        namespace.nsid = namespace.nsid.or_else(nsid);
        let wwid = || sysfs::text(&head.as_ref()?.join("wwid"));
        namespace.wwid = namespace.wwid.take().or_else(wwid);
    }
    found
}

/// The parts of a device name of the kernel's NVMe driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelName {
    /// Whether it is `ng0n1` rather than `nvme0n1`.
    pub character: bool,
    pub instance: u32,
    pub namespace: Option<u32>,
    pub partition: Option<u32>,
}

/// Parses `nvme0`, `nvme0n1`, `nvme0c1n1`, `nvme0n1p2` and `ng0n1`.
pub(crate) fn parse_kernel_name(name: &str) -> Option<KernelName> {
    let (character, rest) = match name.strip_prefix("nvme") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("ng")?),
    };
    let (instance, rest) = take_number(rest)?;
    let mut parts = KernelName {
        character,
        instance,
        namespace: None,
        partition: None,
    };
    let rest = match rest.strip_prefix('c') {
        Some(path) => take_number(path)?.1,
        None => rest,
    };
    if rest.is_empty() {
        return (!character).then_some(parts);
    }
    let (namespace, rest) = take_number(rest.strip_prefix('n')?)?;
    parts.namespace = Some(namespace);
    if !rest.is_empty() {
        let (partition, rest) = take_number(rest.strip_prefix('p')?)?;
        parts.partition = Some(partition);
        if !rest.is_empty() || character {
            return None;
        }
    }
    Some(parts)
}

fn take_number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    #[test]
    fn addresses_are_read_in_both_forms_and_printed_in_one() {
        for text in ["0000:01:00.0", "01:00.0", "0:1:0.0"] {
            let address: PciAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), "0000:01:00.0");
        }
        let far: PciAddress = "10000:e1:1F.7".parse().unwrap();
        assert_eq!(far.to_string(), "10000:e1:1f.7");
        for text in [
            "",
            "01:00",
            "01:20.0",
            "01:00.8",
            "x1:00.0",
            "1:2:3:4.0",
            "+1:00.0",
            ".0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn kernel_names_are_taken_apart() {
        let parts = |name| {
            parse_kernel_name(name).map(|p| (p.character, p.instance, p.namespace, p.partition))
        };
        assert_eq!(parts("nvme3"), Some((false, 3, None, None)));
        assert_eq!(parts("nvme0n12p3"), Some((false, 0, Some(12), Some(3))));
        assert_eq!(parts("nvme0c4n1"), Some((false, 0, Some(1), None)));
        assert_eq!(parts("ng1n2"), Some((true, 1, Some(2), None)));
        for name in [
            "ng1",
            "nvme",
            "nvme0n",
            "nvme0n1p",
            "ng0n1p1",
            "sda",
            "nvme0x",
            "nvme-subsys0",
        ] {
            assert_eq!(parts(name), None, "{name}");
        }
    }

    #[test]
    fn a_drive_is_found_with_all_its_facts() {
        let tree = Tree::with_drive();
        tree.file("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
        let all = controllers(&tree.roots());
        assert_eq!(all.len(), 1);
        let drive = &all[0];
        assert_eq!((drive.vendor, drive.device), (0x1b36, 0x0010));
        assert_eq!(drive.driver.as_deref(), Some("nvme"));
        assert_eq!((drive.iommu_group, drive.numa_node), (Some(4), None));
        assert_eq!(drive.bar0_bytes, 0x4000);
        assert_eq!(drive.serial.as_deref(), Some("abc 1"));
        let namespace = Namespace {
            nsid: Some(1),
            block: Some("nvme0n1".into()),
            character: Some("ng0n1".into()),
            chario: None,
            wwid: None,
        };
        assert_eq!(drive.namespaces, [namespace]);
        let graphics = "00:02.0".parse().unwrap();
        let error = Controller::at(&tree.roots(), graphics).unwrap_err();
        assert!(matches!(error, Error::NotPciNvme { .. }), "{error}");
    }

    #[test]
    fn a_drive_at_chario_is_found_with_its_namespaces() {
        let tree = Tree::with_drive();
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        std::fs::remove_dir_all(tree.path().join(device).join("nvme")).unwrap();
        tree.file(&format!("{device}/chario/chardisk3n1/nsid"), "1\n")
            .file(&format!("{device}/chario/chardisk3n1/serial"), "abc 1\n")
            .file(
                &format!("{device}/chario/chardisk3n1/model"),
                "Test Drive\n",
            );
        let drive = controllers(&tree.roots()).remove(0);
        assert_eq!(drive.serial.as_deref(), Some("abc 1"));
        assert_eq!(drive.model.as_deref(), Some("Test Drive"));
        assert_eq!(drive.kernel_name, None);
        let namespace = &drive.namespaces[0];
        assert_eq!(namespace.chario.as_deref(), Some("chardisk3n1"));
        assert_eq!((namespace.nsid, &namespace.block), (Some(1), &None));
    }

    #[test]
    fn a_path_of_a_multipath_namespace_leads_to_its_head() {
        let tree = Tree::new();
        tree.file("sys/n/nvme1/nvme0c1n2/nsid", "7\n");
        let found = namespaces(&tree.path().join("sys/n/nvme1"));
        assert_eq!(found[0].block.as_deref(), Some("nvme0n2"));
        assert_eq!(found[0].nsid, Some(7));
    }
}
