//! A container with one IOMMU group in it, opened with a clear error for each thing that is
//! missing.

use super::iova;
use crate::pci::PciAddress;
use crate::sys::map::Mapping;
use crate::sys::vfio as sys;
use crate::sysfs;
use crate::{Error, Result, Roots};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, getrlimit};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Maps memory for the group's devices. Closing it removes all mappings.
#[derive(Debug)]
pub(crate) struct Container {
    container: File,
    // Keeps the group in the container.
    _group: File,
    path: PathBuf,
    usable: Vec<(u64, u64)>,
    /// Start and length of each mapping.
    taken: Vec<(u64, u64)>,
}

impl Container {
    /// Opens the group of `address`, and the device.
    pub(crate) fn open(roots: &Roots, address: PciAddress) -> Result<(Self, OwnedFd)> {
        let path = roots.dev.join("vfio/vfio");
        let group_number = group_of(roots, address)?;
        let container = open(&path).map_err(|source| match source.kind() {
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
        set().map_err(|source| no_interrupt_remapping(&path, source))?;
        let name = CString::new(address.to_string()).unwrap_or_default();
        let device =
            sys::open_device(&group, &name).map_err(|source| open_failed(address, source))?;
        let info = sys::iommu_info(&container).map_err(io("asking the bus addresses of"))?;
        let usable = iova::usable_ranges(&info);
        let container = Self {
            container,
            _group: group,
            path,
            usable,
            taken: Vec::new(),
        };
        Ok((container, device))
    }

    /// Lets the device access `mapping`; returns its bus address.
    pub(crate) fn map(&mut self, mapping: &Mapping) -> Result<u64> {
        self.map_by(mapping.len(), |container, start| {
            sys::map_dma(container, mapping, start)
        })
    }

    /// Lets the device access memory of another owner.
    ///
    /// # Safety
    /// That of [`sys::map_range`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn map_range(
        &mut self,
        range: (usize, usize),
        writable: bool,
    ) -> Result<u64> {
        self.map_by(range.1, |container, start| {
            // SAFETY: the caller's.
            unsafe { sys::map_range(container, range, start, writable) }
        })
    }

    fn map_by(
        &mut self,
        len: usize,
        map: impl FnOnce(&File, u64) -> io::Result<()>,
    ) -> Result<u64> {
        let len = len as u64;
        let Some(start) = iova::place(&self.usable, &self.taken, len) else {
            return Err(Error::NoBusAddresses {
                needed_bytes: len,
                usable: self.usable.clone(),
            });
        };
        map(&self.container, start).map_err(|source| self.map_failed(len, source))?;
        self.taken.push((start, len));
        Ok(start)
    }

    /// Takes a mapping away from the device.
    pub(crate) fn unmap(&mut self, bus_start: u64) -> Result<()> {
        let found = self.taken.iter().position(|&(start, _)| start == bus_start);
        debug_assert!(found.is_some(), "{bus_start:#x} is not mapped");
        let Some((start, len)) = found.map(|found| self.taken.swap_remove(found)) else {
            return Ok(());
        };
        let unmapped = sys::unmap_dma(&self.container, start, len);
        unmapped
            .map_err(|source| Error::io("unmapping memory of the device in", &self.path, source))
    }

    /// The usable bus addresses: first and last of each range.
    pub(crate) fn usable(&self) -> &[(u64, u64)] {
        &self.usable
    }

    /// The kernel returns ENOMEM both at the limit and without memory.
    fn map_failed(&self, len: u64, source: io::Error) -> Error {
        let locked: u64 = self.taken.iter().map(|(_, len)| len).sum();
        let needed_bytes = locked + len;
        match source.raw_os_error() {
            Some(libc::ENOMEM) => match getrlimit(Resource::Memlock).current {
                Some(limit_bytes) if limit_bytes < needed_bytes => Error::LockLimit {
                    needed_bytes,
                    limit_bytes,
                },
                _ => Error::NoMemory {
                    bytes: len as usize,
                },
            },
            _ => Error::io("mapping memory for the device in", &self.path, source),
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Closing does the same; this does it before the owner's other fields are dropped.
        for (start, len) in self.taken.drain(..) {
            let _ = sys::unmap_dma(&self.container, start, len);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn group_of(roots: &Roots, address: PciAddress) -> Result<u32> {
    let folder = roots.pci_device(address);
    let group = sysfs::link_name(&folder.join("iommu_group"));
    group
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| Error::NoIommu {
            device: address.to_string(),
        })
}

fn open_group(roots: &Roots, number: u32, address: PciAddress) -> Result<File> {
    let path = roots.dev.join(format!("vfio/{number}"));
    open(&path).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => Error::GroupBusy { group: number },
        Some(libc::EACCES | libc::EPERM) => Error::NotPermitted {
            doing: "opening",
            hint: format!("sudo chown $USER {}", path.display()),
            path,
        },
        // The group's node exists while one of its devices is bound to a VFIO driver.
        Some(libc::ENOENT) => Error::NotBound {
            device: address.to_string(),
            driver: sysfs::link_name(&roots.pci_device(address).join("driver")),
        },
        _ => Error::io("opening", &path, source),
    })
}

fn check_viable(roots: &Roots, number: u32, group: &File) -> Result<()> {
    let path = roots.dev.join(format!("vfio/{number}"));
    let viable = sys::group_is_viable(group);
    if viable.map_err(|source| Error::io("asking the state of", &path, source))? {
        return Ok(());
    }
    let others = members(roots, number)
        .into_iter()
        .filter_map(|(device, driver)| Some((device, driver?)))
        .filter(|(_, driver)| driver != crate::bind::VFIO_PCI && driver != "pcieport")
        .map(|(device, driver)| format!("{device} (driver {driver})"))
        .collect();
    Err(Error::GroupNotViable {
        group: number,
        others,
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

/// `VFIO_SET_IOMMU` returns EPERM if the IOMMU does not isolate interrupts.
fn no_interrupt_remapping(path: &Path, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM) => Error::Unsupported {
            what: "VFIO",
            why: "the IOMMU cannot remap interrupts, so a device could forge them".into(),
            hint: Some(
                "switch interrupt remapping on in the firmware; or, if the device is trusted: \
                 echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
                    .into(),
            ),
        },
        _ => Error::io("setting up", path, source),
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

    fn error(tree: &Tree) -> Error {
        Container::open(&tree.roots(), "01:00.0".parse().unwrap()).unwrap_err()
    }

    #[test]
    fn each_missing_thing_is_named() {
        let tree = Tree::with_drive();
        assert!(matches!(
            error(&tree),
            Error::NoModule {
                module: "vfio-pci",
                ..
            }
        ));
        std::fs::remove_file(
            tree.path()
                .join("sys/bus/pci/devices/0000:01:00.0/iommu_group"),
        )
        .unwrap();
        assert!(matches!(error(&tree), Error::NoIommu { .. }));
    }

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
