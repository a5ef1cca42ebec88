// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function by its own node and an address space of iommufd, opened with a clear error for each
//! thing that is missing.

use super::space::AddressSpace;
use super::{isolation, not_bound, open_node};
use crate::bind::VFIO_PCI;
use crate::pci::PciAddress;
use crate::sys::iommufd as sys;
use crate::sys::translator::Translator;
use crate::sysfs;
use crate::{Error, Result, Roots};
use rustix::fd::OwnedFd;
use std::io;
use std::path::{Path, PathBuf};

/// Of iommufd.
pub(super) fn iommufd_node(roots: &Roots) -> PathBuf {
    roots.dev.join("iommu")
}

/// Of the function, while it is bound to vfio-pci and if the kernel has such nodes. Their numbers
/// change with each binding.
pub(super) fn node(roots: &Roots, address: PciAddress) -> Option<PathBuf> {
    let folder = roots.pci_device(address).join("vfio-dev");
    // Kernels without nodes have the folder as well.
    let name = sysfs::names(&folder)
        .into_iter()
        .find(|name| folder.join(name).join("dev").exists())?;
    Some(roots.dev.join("vfio/devices").join(name))
}

/// Opens the device, and bus addresses for it.
pub(super) fn open(
    roots: &Roots,
    address: PciAddress,
    group: u32,
) -> Result<(AddressSpace, OwnedFd)> {
    let node = node(roots, address).ok_or_else(|| not_bound(roots, address))?;
    let path = iommufd_node(roots);
    let iommufd = open_node(&path).map_err(|source| open_failed(&path, source))?;
    let device = open_node(&node).map_err(|source| open_failed(&node, source))?;
    sys::bind(&device, &iommufd)
        .map_err(|source| bind_failed(roots, address, group, node.clone(), source))?;
    let io = |doing| {
        let path = path.clone();
        move |source: io::Error| Error::io(doing, &path, source)
    };
    let ioas = sys::alloc_ioas(&iommufd).map_err(io("making an address space of"))?;
    sys::attach(&device, ioas).map_err(|source| Error::io("setting up", &node, source))?;
    // Only now without the addresses that this device cannot use.
    let usable = sys::ranges(&iommufd, ioas).map_err(io("asking the bus addresses of"))?;
    let space = AddressSpace::new(Translator::Iommufd { iommufd, ioas }, path, usable);
    Ok((space, device.into()))
}

/// vfio-pci loads iommufd, and the kernel makes both nodes: one that is missing was left out of a
/// container.
fn open_failed(path: &Path, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::NotPermitted {
            doing: "opening",
            hint: format!("sudo chown $USER {}", path.display()).into(),
            path: path.to_path_buf(),
        },
        Some(libc::ENOENT) => Error::Unsupported {
            what: "VFIO",
            why: format!("there is no {}", path.display()),
            hint: Some(format!("in a container, pass it on: --device {}", path.display()).into()),
        },
        _ => Error::io("opening", path, source),
    }
}

fn bind_failed(
    roots: &Roots,
    address: PciAddress,
    group: u32,
    node: PathBuf,
    source: io::Error,
) -> Error {
    match source.raw_os_error() {
        // It, or its group, is open.
        Some(libc::EINVAL | libc::EBUSY) => Error::GroupBusy { group, node },
        Some(libc::EPERM) => owned_or_not_isolated(roots, address, group),
        _ => Error::io("giving iommufd", &node, source),
    }
}

/// The kernel returns EPERM both if the group has another owner, and if the IOMMU does not isolate
/// interrupts.
fn owned_or_not_isolated(roots: &Roots, address: PciAddress, group: u32) -> Error {
    let others = isolation::others(roots, group);
    if !others.is_empty() {
        return Error::GroupNotViable { group, others };
    }
    let is_other = |(device, driver): &(String, Option<String>)| {
        *device != address.to_string() && driver.as_deref() == Some(VFIO_PCI)
    };
    if isolation::members(roots, group).iter().any(is_other) {
        Error::GroupBusy {
            group,
            node: roots.dev.join("vfio/devices/*"),
        }
    } else {
        isolation::no_interrupt_remapping("iommufd")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn address() -> PciAddress {
        "01:00.0".parse().unwrap()
    }

    #[test]
    fn each_missing_node_is_named() {
        let tree = Tree::with_drive();
        let error = || open(&tree.roots(), address(), 4).unwrap_err();
        let folder = "sys/devices/pci0000:00/0000:01:00.0/vfio-dev/vfio3";
        std::fs::create_dir_all(tree.path().join(folder)).unwrap();
        // Linux 6.1 has the folder and no node.
        assert!(matches!(error(), Error::NotBound { .. }));
        tree.file(&format!("{folder}/dev"), "510:3\n");
        assert!(error().to_string().ends_with("dev/iommu"), "{}", error());
        tree.file("dev/iommu", "");
        let hint = error().hint().unwrap().to_string();
        assert!(hint.ends_with("dev/vfio/devices/vfio3"), "{hint}");
    }

    #[test]
    fn a_refused_binding_is_explained() {
        let tree = Tree::with_drive();
        let roots = tree.roots();
        let error = |number| {
            let source = io::Error::from_raw_os_error(number);
            bind_failed(
                &roots,
                address(),
                4,
                "/dev/vfio/devices/vfio0".into(),
                source,
            )
        };
        let busy = error(libc::EINVAL);
        assert!(
            busy.hint()
                .unwrap()
                .to_string()
                .ends_with("/dev/vfio/devices/vfio0")
        );
        // The drive itself is at nvme here, as another function of the group could be.
        assert!(matches!(error(libc::EPERM), Error::GroupNotViable { .. }));
        let driver = tree.path().join("sys/bus/pci/devices/0000:01:00.0/driver");
        std::fs::remove_file(driver).unwrap();
        let hint = error(libc::EPERM).hint().unwrap().to_string();
        assert!(hint.contains("/iommufd/parameters/allow_unsafe"), "{hint}");
        let device = "sys/bus/pci/devices/0000:00:06.0";
        tree.link("sys/kernel/iommu_groups/4/devices/0000:00:06.0", device);
        tree.link(&format!("{device}/driver"), "sys/bus/pci/drivers/vfio-pci");
        assert!(matches!(error(libc::EPERM), Error::GroupBusy { .. }));
    }
}
