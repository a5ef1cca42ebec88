// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function by VFIO's groups: a container with the function's IOMMU group in it, opened with a
//! clear error for each thing that is missing.

use super::space::AddressSpace;
use super::{iova, isolation, not_bound, open_node};
use crate::pci::PciAddress;
use crate::sys::translator::Translator;
use crate::sys::vfio as sys;
use crate::{Error, Result, Roots};
use rustix::fd::OwnedFd;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Of containers.
pub(super) fn container_node(roots: &Roots) -> PathBuf {
    roots.dev.join("vfio/vfio")
}

/// Of a group: it exists while one of the group's devices is bound to a VFIO driver.
pub(super) fn node(roots: &Roots, group: u32) -> PathBuf {
    roots.dev.join(format!("vfio/{group}"))
}

/// Opens the device, and the bus addresses of its group.
pub(super) fn open(
    roots: &Roots,
    address: PciAddress,
    group_number: u32,
) -> Result<(AddressSpace, OwnedFd)> {
    let path = container_node(roots);
    let container = open_node(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NoModule {
            module: "vfio-pci",
            why: format!("there is no {}", path.display()),
        },
        _ => Error::io("opening", &path, source),
    })?;
    let io = |doing| {
        let path = path.clone();
        move |source: io::Error| Error::io(doing, &path, source)
    };
    let version = sys::api_version(&container).map_err(io("asking the version of"))?;
    let type1 = sys::has_extension(&container, sys::TYPE1V2_IOMMU);
    if version != sys::API_VERSION || !type1.map_err(io("asking what is supported by"))? {
        return Err(Error::NoModule {
            module: "vfio_iommu_type1",
            why: format!("VFIO has version {version} and no type 1 IOMMU"),
        });
    }
    let group = open_group(roots, group_number, address)?;
    check_viable(roots, group_number, &group)?;
    let set = || {
        sys::set_container(&group, &container)?;
        sys::set_iommu(&container, sys::TYPE1V2_IOMMU)
    };
    // EPERM if the IOMMU does not isolate interrupts.
    set().map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM) => isolation::no_interrupt_remapping("vfio_iommu_type1"),
        _ => Error::io("setting up", &path, source),
    })?;
    let name = CString::new(address.to_string()).unwrap_or_default();
    let device = sys::open_device(&group, &name).map_err(|source| open_failed(address, source))?;
    let info = sys::iommu_info(&container).map_err(io("asking the bus addresses of"))?;
    let translator = Translator::Container {
        container,
        _group: group,
    };
    let space = AddressSpace::new(translator, path, iova::usable_ranges(&info));
    Ok((space, device))
}

fn open_group(roots: &Roots, number: u32, address: PciAddress) -> Result<File> {
    let path = node(roots, number);
    open_node(&path).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => Error::GroupBusy {
            group: number,
            node: path,
        },
        Some(libc::EACCES | libc::EPERM) => Error::NotPermitted {
            doing: "opening",
            hint: format!("sudo chown $USER {}", path.display()).into(),
            path,
        },
        Some(libc::ENOENT) => not_bound(roots, address),
        _ => Error::io("opening", &path, source),
    })
}

fn check_viable(roots: &Roots, number: u32, group: &File) -> Result<()> {
    let viable = sys::group_is_viable(group);
    let path = node(roots, number);
    if viable.map_err(|source| Error::io("asking the state of", &path, source))? {
        Ok(())
    } else {
        Err(Error::GroupNotViable {
            group: number,
            others: isolation::others(roots, number),
        })
    }
}

fn open_failed(address: PciAddress, source: io::Error) -> Error {
    let device = address.to_string();
    match source.raw_os_error() {
        // The group belongs to VFIO through another of its devices.
        Some(libc::ENODEV) => Error::NotBound {
            device,
            driver: None,
        },
        _ => Error::io("opening through VFIO", Path::new(&device), source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    #[test]
    fn a_group_without_a_node_is_not_bound() {
        let tree = Tree::with_drive();
        // As on machines whose ports isolate nothing: the port comes first.
        let group = tree.path().join("sys/kernel/iommu_groups/4/devices");
        std::fs::create_dir_all(group.join("0000:00:05.0")).unwrap();
        let address = "0000:01:00.0".parse().unwrap();
        let error = open_group(&tree.roots(), 4, address).unwrap_err();
        let Error::NotBound { device, driver } = &error else {
            unreachable!("{error}");
        };
        assert_eq!(
            (device.as_str(), driver.as_deref()),
            ("0000:01:00.0", Some("nvme"))
        );
    }
}
