// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a PCI function sees the processors' caches, decided before any memory is given to it.
//!
//! Memory that a program maps is cached. Where PCIe does not snoop the caches, a device reads old
//! data from memory, and dirty lines later overwrite what it wrote: silently. User space cannot
//! clean or invalidate caches reliably, so such a function is left to the kernel, whose DMA
//! interface does. The decision follows the kernel's own:
//!
//! - x86 snoops always.
//! - With a device tree: `dma-coherent` or `dma-noncoherent` in a node from the function up to its
//!   host bridge and the buses above; without either, Arm is not coherent, and RISC-V and PowerPC
//!   are.
//! - With ACPI: the root complex's cache coherency attribute in IORT, by PCI segment; without IORT,
//!   every `_CCA` in DSDT and SSDTs.
//! - Nothing of this: not coherent.
//!
//! VFIO's own answer (`VFIO_DMA_CC_IOMMU`) is not used: it says whether an IOMMU overrides the
//! device's no-snoop attribute, not whether the device is coherent.

use crate::pci::PciAddress;
use crate::{Error, Result, Roots, sysfs};
use std::path::{Path, PathBuf};

/// Whether a function is coherent, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coherence {
    /// It sees the processors' caches.
    pub is_coherent: bool,
    /// Where that is written.
    pub why: String,
}

impl Coherence {
    fn new(is_coherent: bool, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { is_coherent, why }
    }
}

/// Decides for the function at `address` on this machine.
pub fn of(roots: &Roots, address: PciAddress) -> Coherence {
    decide(roots, address, std::env::consts::ARCH)
}

/// Refuses a function that is not coherent.
///
/// # Errors
/// [`Error::NotCoherent`].
pub fn require(roots: &Roots, address: PciAddress) -> Result<()> {
    require_on(roots, address, std::env::consts::ARCH)
}

fn require_on(roots: &Roots, address: PciAddress, arch: &str) -> Result<()> {
    match decide(roots, address, arch) {
        Coherence {
            is_coherent: true, ..
        } => Ok(()),
        Coherence { why, .. } => Err(Error::NotCoherent {
            device: address.to_string(),
            why,
        }),
    }
}

fn decide(roots: &Roots, address: PciAddress, arch: &str) -> Coherence {
    if matches!(arch, "x86_64" | "x86") {
        return Coherence::new(true, "x86 snoops the caches always");
    }
    by_device_tree(roots, address, arch)
        .or_else(|| by_iort(roots, address))
        .or_else(|| by_cca(roots))
        .unwrap_or_else(|| {
            Coherence::new(
                false,
                "neither a device tree nor ACPI tables say that it is",
            )
        })
}

/// The function's node, or the one of the nearest device above it that has one.
fn node_of(roots: &Roots, address: PciAddress) -> Option<PathBuf> {
    let device = sysfs::canonical(&roots.pci_device(address));
    let mut above = device.ancestors();
    above.find_map(|folder| {
        let link = folder.join("of_node");
        link.exists().then(|| sysfs::canonical(&link))
    })
}

fn by_device_tree(roots: &Roots, address: PciAddress, arch: &str) -> Option<Coherence> {
    let node = node_of(roots, address)?;
    let base = sysfs::canonical(&roots.sys.join("firmware/devicetree/base"));
    let within = |node: &&Path| node.starts_with(&base);
    let nodes = || node.ancestors().take_while(within);
    let name = |node: &Path| match node.strip_prefix(&base) {
        Ok(path) => format!("/{}", path.display()),
        Err(_) => node.display().to_string(),
    };
    // A bridge that is not coherent spoils whatever is above and below it.
    if let Some(node) = nodes().find(|node| node.join("dma-noncoherent").exists()) {
        let why = format!("dma-noncoherent in the device tree's {}", name(node));
        return Some(Coherence::new(false, why));
    }
    if let Some(node) = nodes().find(|node| node.join("dma-coherent").exists()) {
        let why = format!("dma-coherent in the device tree's {}", name(node));
        return Some(Coherence::new(true, why));
    }
    let is_coherent = matches!(arch, "riscv64" | "riscv32" | "powerpc64" | "powerpc");
    let why = format!(
        "no dma-coherent in the device tree from {} up, which on {arch} means {}coherent",
        name(&node),
        if is_coherent { "" } else { "not " }
    );
    Some(Coherence::new(is_coherent, why))
}

/// A table of ACPI; reading one takes privileges.
fn table(roots: &Roots, name: &str) -> Option<Vec<u8>> {
    std::fs::read(roots.sys.join("firmware/acpi/tables").join(name)).ok()
}

fn u32_at(table: &[u8], at: usize) -> Option<u32> {
    let bytes = table.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// The I/O Remapping Table (Arm DEN 0049): its root complex node of the function's PCI segment.
fn by_iort(roots: &Roots, address: PciAddress) -> Option<Coherence> {
    const ROOT_COMPLEX: u8 = 2;
    let iort = table(roots, "IORT")?;
    let count = u32_at(&iort, 36)?;
    let mut at = u32_at(&iort, 40)? as usize;
    // A node has at least 16 bytes, so a false count ends with the table.
    for _ in 0..count.min(iort.len() as u32 / 16) {
        let node = iort.get(at..)?;
        let [kind, len_low, len_high, ..] = *node else {
            return None;
        };
        if kind == ROOT_COMPLEX && u32_at(node, 28)? == address.domain() {
            let attribute = u32_at(node, 16)?;
            let why = format!("the root complex in ACPI's IORT has cache coherency {attribute}");
            return Some(Coherence::new(attribute == 1, why));
        }
        at += usize::from(u16::from_le_bytes([len_low, len_high])).max(16);
    }
    None
}

/// Every `_CCA` in the tables with AML, as a name with a constant: which belongs to the host bridge
/// takes an interpreter, so all must say the same.
fn by_cca(roots: &Roots) -> Option<Coherence> {
    const NAME: &[u8] = b"\x08_CCA";
    let tables = sysfs::names(&roots.sys.join("firmware/acpi/tables"));
    let with_aml = |name: &&String| *name == "DSDT" || name.starts_with("SSDT");
    let mut found = None;
    for name in tables.iter().filter(with_aml) {
        let Some(aml) = table(roots, name) else {
            return Some(Coherence::new(
                false,
                format!("ACPI's {name} cannot be read"),
            ));
        };
        for at in 0..aml.len() {
            let Some(value) = aml.get(at..).and_then(|aml| aml.strip_prefix(NAME)) else {
                continue;
            };
            // OneOp, or a BytePrefix and 1.
            if !matches!(value, [1, ..] | [0x0a, 1, ..]) {
                let why = format!("a _CCA in ACPI's {name} is not 1");
                return Some(Coherence::new(false, why));
            }
            found = Some(Coherence::new(true, "every _CCA in ACPI's tables is 1"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    const NODE: &str = "sys/firmware/devicetree/base/soc/pcie@fd500000";
    const BRIDGE: &str = "sys/devices/platform/fd500000.pcie";
    const FUNCTION: &str =
        "sys/devices/platform/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0";

    fn address() -> PciAddress {
        "0000:01:00.0".parse().unwrap()
    }

    /// A board whose host bridge has a node; the drive and the bridge above it have none.
    fn board() -> Tree {
        let tree = Tree::new();
        tree.file(&format!("{FUNCTION}/class"), "0x010802\n");
        tree.file(&format!("{NODE}/compatible"), "x\0");
        tree.link("sys/bus/pci/devices/0000:01:00.0", FUNCTION);
        tree.link(&format!("{BRIDGE}/of_node"), NODE);
        tree
    }

    fn is_coherent(tree: &Tree, arch: &str) -> bool {
        decide(&tree.roots(), address(), arch).is_coherent
    }

    #[test]
    fn x86_is_coherent_whatever_the_tree_says() {
        let tree = board();
        tree.file(&format!("{NODE}/dma-noncoherent"), "");
        assert!(is_coherent(&tree, "x86_64"));
        assert!(require(&tree.roots(), address()).is_ok() || cfg!(not(target_arch = "x86_64")));
    }

    #[test]
    fn a_device_tree_without_properties_means_what_the_architecture_says() {
        let tree = board();
        for (arch, expected) in [("aarch64", false), ("arm", false), ("riscv64", true)] {
            let found = decide(&tree.roots(), address(), arch);
            assert_eq!(found.is_coherent, expected, "{arch}");
            assert!(found.why.contains("/soc/pcie@fd500000"), "{}", found.why);
        }
        let error = require_on(&tree.roots(), address(), "aarch64").unwrap_err();
        assert!(matches!(error, Error::NotCoherent { .. }));
        let path = error
            .hint()
            .unwrap()
            .value_of(remedy::Setting::Path)
            .cloned();
        assert_eq!(path, Some("chario".into()));
    }

    #[test]
    fn a_property_of_the_host_bridge_or_of_a_bus_above_decides() {
        for place in [NODE, "sys/firmware/devicetree/base/soc"] {
            let tree = board();
            tree.file(&format!("{place}/dma-coherent"), "");
            assert!(is_coherent(&tree, "aarch64"), "{place}");
            let tree = board();
            tree.file(&format!("{place}/dma-noncoherent"), "");
            assert!(!is_coherent(&tree, "riscv64"), "{place}");
        }
        // Above the tree's root is nothing of it.
        let tree = board();
        tree.file("sys/firmware/dma-coherent", "");
        assert!(!is_coherent(&tree, "aarch64"));
    }

    #[test]
    fn a_switch_that_is_not_coherent_spoils_a_coherent_host_bridge() {
        let tree = board();
        let switch = format!("{NODE}/pcie@0,0");
        tree.file(&format!("{NODE}/dma-coherent"), "");
        tree.file(&format!("{switch}/dma-noncoherent"), "");
        tree.link(
            "sys/devices/platform/fd500000.pcie/pci0000:00/0000:00:00.0/of_node",
            &switch,
        );
        assert!(!is_coherent(&tree, "aarch64"));
    }

    /// An IORT with one node of another kind, then a root complex of this segment.
    fn iort(segment: u32, attribute: u32) -> Vec<u8> {
        let mut table = vec![0; 48];
        table[36..40].copy_from_slice(&2_u32.to_le_bytes());
        table[40..44].copy_from_slice(&48_u32.to_le_bytes());
        let mut its = vec![0; 24];
        its[1] = 24;
        let mut root = vec![0; 36];
        (root[0], root[1]) = (2, 36);
        root[16..20].copy_from_slice(&attribute.to_le_bytes());
        root[28..32].copy_from_slice(&segment.to_le_bytes());
        [table, its, root].concat()
    }

    fn with_tables(tables: &[(&str, &[u8])]) -> Tree {
        let tree = Tree::new();
        tree.file(&format!("{FUNCTION}/class"), "0x010802\n");
        tree.link("sys/bus/pci/devices/0000:01:00.0", FUNCTION);
        for (name, bytes) in tables {
            let path = format!("sys/firmware/acpi/tables/{name}");
            tree.file(&path, "");
            std::fs::write(tree.path().join(path), bytes).unwrap();
        }
        tree
    }

    #[test]
    fn acpi_says_so_in_iort_by_segment_or_in_every_cca() {
        type Tables<'t> = &'t [(&'t str, &'t [u8])];
        let cases: [(Tables<'_>, bool); 9] = [
            (&[("IORT", &iort(0, 1))], true),
            (&[("IORT", &iort(0, 0))], false),
            (&[("IORT", &iort(7, 1))], false),
            (&[("IORT", &iort(0, 1)[..60])], false),
            (&[("IORT", &[0xff; 64])], false),
            (&[("DSDT", b"..\x08_CCA\x01..")], true),
            (&[("DSDT", b"\x08_CCA\x0a\x01"), ("SSDT1", b"")], true),
            (
                &[("DSDT", b"\x08_CCA\x01"), ("SSDT1", b"\x08_CCA\x00")],
                false,
            ),
            (&[], false),
        ];
        for (index, (tables, expected)) in cases.into_iter().enumerate() {
            let tree = with_tables(tables);
            assert_eq!(is_coherent(&tree, "aarch64"), expected, "case {index}");
        }
    }
}
