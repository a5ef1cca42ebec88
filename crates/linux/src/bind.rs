// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Borrowing a controller from its driver, and giving it back.
//!
//! The change goes through `driver_override`, which lasts no longer than until it is undone or the
//! machine restarts. Before anything is changed, a record is written of who borrowed the device and
//! which driver it had: if the borrower is killed, the next run's [`restore_stale`] undoes the
//! change.

use crate::claim::claim_controller;
use crate::identity::Identity;
use crate::pci::{Controller, PciAddress};
use crate::shown::wait_for_namespaces;
use crate::state::{self, Process, Record};
use crate::sysfs;
use crate::usage;
use crate::{Error, Result, Roots};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// VFIO's driver for PCI functions.
pub const VFIO_PCI: &str = "vfio-pci";
/// CharIO's driver.
pub const CHARIO: &str = "chario";
/// A `driver_override` that matches no driver: the device stays unbound.
const NO_DRIVER: &str = "none";
/// How long a device may take to be released once it is closed everywhere.
const LEAVING_LIMIT: Duration = Duration::from_secs(2);

/// A borrowed controller. Dropping it gives the controller back; errors are then left for
/// [`restore_stale`], so use [`release`](Binding::release) where an error can be reported.
#[derive(Debug)]
pub struct Binding {
    roots: Roots,
    folder: PathBuf,
    record: Record,
    /// The drive's identity, as its driver showed it.
    identity: Identity,
    released: bool,
}

/// Gives the controller to vfio-pci, which is loaded if necessary.
///
/// # Errors
/// [`Error::InUse`], [`Error::Owned`], [`Error::NoModule`], [`Error::NotPermitted`],
/// [`Error::BindFailed`]; the controller then keeps its driver.
pub fn to_vfio(roots: &Roots, address: PciAddress) -> Result<Binding> {
    borrow(roots, address, Some(VFIO_PCI))
}

/// Gives the controller to CharIO's driver, which is loaded if it is installed.
///
/// # Errors
/// Those of [`to_vfio`].
pub fn to_chario(roots: &Roots, address: PciAddress) -> Result<Binding> {
    borrow(roots, address, Some(CHARIO))
}

/// Unbinds the controller from its driver, for the path without an IOMMU.
///
/// # Errors
/// Those of [`to_vfio`].
pub fn to_nothing(roots: &Roots, address: PciAddress) -> Result<Binding> {
    borrow(roots, address, None)
}

/// A controller that was given back after its borrower had died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Where it is.
    pub address: PciAddress,
    /// The driver that it has again.
    pub driver: Option<String>,
    /// The process that had borrowed it.
    pub dead_pid: u32,
}

/// Gives back what dead processes had borrowed.
///
/// # Errors
/// That of the first device that could not be given back; the others are still tried.
pub fn restore_stale(roots: &Roots) -> Result<Vec<Restored>> {
    if state::records(roots).is_empty() {
        return Ok(Vec::new());
    }
    let (_, lock) = state::lock(roots)?;
    let mut restored = Vec::new();
    let mut failure = None;
    for (folder, record) in state::records(roots) {
        if record.owner.is_alive(roots) {
            continue;
        }
        match give_back(roots, &folder, &record) {
            Ok(()) => restored.push(Restored {
                address: record.address,
                driver: record.driver,
                dead_pid: record.owner.pid,
            }),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    drop(lock);
    for one in &restored {
        wait_for_namespaces(roots, one.address);
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(restored),
    }
}

/// The borrowed devices and their borrowers: address, process number, and whether the process is
/// alive.
pub fn borrowed(roots: &Roots) -> Vec<(PciAddress, u32, bool)> {
    let tell = |(_, record): (PathBuf, Record)| {
        let alive = record.owner.is_alive(roots);
        (record.address, record.owner.pid, alive)
    };
    state::records(roots).into_iter().map(tell).collect()
}

/// Whether the controller is kept: see [`Binding::keep`].
pub fn is_kept(roots: &Roots, address: PciAddress) -> bool {
    let is_it = |(_, record): &(PathBuf, Record)| {
        record.address == address && record.owner.pid == Process::KEEPER
    };
    state::records(roots).iter().any(is_it)
}

/// Gives a kept controller back, and waits until its namespaces appear. No process may have it
/// open.
///
/// # Errors
/// [`Error::BindFailed`] or [`Error::NotPermitted`]; the record stays.
pub fn release_kept(roots: &Roots, address: PciAddress) -> Result<Option<Restored>> {
    let (_, lock) = state::lock(roots)?;
    let records = state::records(roots);
    let kept = records
        .into_iter()
        .find(|(_, record)| record.address == address && record.owner.pid == Process::KEEPER);
    let Some((folder, record)) = kept else {
        return Ok(None);
    };
    let uses = usage::of_controller(roots, &Controller::at(roots, address)?)?;
    if !uses.is_empty() {
        let reasons = uses.iter().map(usage::Use::to_string).collect();
        let device = address.to_string();
        return Err(Error::InUse { device, reasons });
    }
    give_back(roots, &folder, &record)?;
    drop(lock);
    wait_for_namespaces(roots, address);
    Ok(Some(Restored {
        address,
        driver: record.driver,
        dead_pid: record.owner.pid,
    }))
}

impl Binding {
    /// Leaves the controller bound when this process ends, until [`release_kept`]. The record then
    /// names process 1, which lives as long as the system, so that nothing is lost by a crash.
    ///
    /// # Errors
    /// If the record could not be changed; the controller was given back.
    pub fn keep(mut self) -> Result<()> {
        let _lock = state::lock(&self.roots)?;
        self.record.owner = Process::keeper(&self.roots);
        self.record.save(&self.folder)?;
        self.released = true;
        Ok(())
    }

    /// Where the controller is.
    pub fn address(&self) -> PciAddress {
        self.record.address
    }

    /// Gives the controller back, and waits until the kernel's driver shows its namespaces again.
    /// Everything that has the function open must be closed first.
    ///
    /// # Errors
    /// [`Error::BindFailed`] or [`Error::NotPermitted`]; the record stays.
    pub fn release(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        self.released = true;
        let lock = state::lock(&self.roots)?;
        give_back(&self.roots, &self.folder, &self.record)?;
        drop(lock);
        wait_for_namespaces(&self.roots, self.record.address);
        self.identity
            .refuse_another(&self.roots, self.record.address)
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        if !self.released {
            // If this fails, the record stays and states what is left to do.
            let _ = self.undo();
        }
    }
}

fn borrow(roots: &Roots, address: PciAddress, driver: Option<&str>) -> Result<Binding> {
    let (folder, lock) = state::lock(roots)?;
    for (folder, record) in state::records(roots) {
        if record.address != address {
            continue;
        }
        if record.owner.is_alive(roots) {
            return Err(Error::Owned {
                device: address.to_string(),
                pid: record.owner.pid,
            });
        }
        give_back(roots, &folder, &record)?;
        wait_for_namespaces(roots, address);
    }
    let controller = Controller::at(roots, address)?;
    // Held until the driver has released the device: a namespace that we have claimed cannot be
    // mounted in the meantime.
    let claims = claim_controller(roots, &controller)?;
    if driver == Some(VFIO_PCI) {
        if controller.iommu_group.is_none() {
            let device = address.to_string();
            return Err(Error::NoIommu { device });
        }
        load_module(roots, "vfio-pci", VFIO_PCI)?;
    }
    if driver == Some(CHARIO) {
        load_module(roots, CHARIO, CHARIO)?;
    }
    let record = Record {
        address,
        owner: Process::this(roots),
        driver: controller.driver.clone(),
        driver_override: driver_override(roots, address),
    };
    record.save(&folder)?;
    // A device that was prepared for its user, who may not be root, stays that way.
    let changed = if controller.driver.as_deref() == driver {
        Ok(())
    } else {
        change_driver(roots, address, driver, Some(driver.unwrap_or(NO_DRIVER)))
    };
    drop(claims);
    if let Err(error) = changed {
        let _ = give_back(roots, &folder, &record);
        return Err(error);
    }
    drop(lock);
    Ok(Binding {
        roots: roots.clone(),
        folder,
        record,
        identity: Identity::of(&controller),
        released: false,
    })
}

/// Restores the state in the record, then removes the record. The lock is held.
fn give_back(roots: &Roots, folder: &Path, record: &Record) -> Result<()> {
    let address = record.address;
    if roots.pci_device(address).exists() {
        if record.driver.as_deref() == Some("nvme") {
            // If that fails the device stays without a driver, and the check below reports it.
            let _ = load_module(roots, "nvme", "nvme");
        }
        restore(roots, record)?;
    }
    record.remove(folder)
}

/// Restores the driver. A device that is being unplugged, or unbound by another process, refuses
/// until that is done; afterwards it has either been removed, which is fine, or accepts the change.
fn restore(roots: &Roots, record: &Record) -> Result<()> {
    let (driver, name) = (record.driver.as_deref(), record.driver_override.as_deref());
    let began = Instant::now();
    loop {
        let error = match change_driver(roots, record.address, driver, name) {
            Ok(()) => return Ok(()),
            Err(_) if !roots.pci_device(record.address).exists() => return Ok(()),
            Err(error) => error,
        };
        // A missing permission does not go away: no retry.
        if matches!(error, Error::NotPermitted { .. }) || began.elapsed() > LEAVING_LIMIT {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gives the device to `driver`, or to none, and sets its override.
fn change_driver(
    roots: &Roots,
    address: PciAddress,
    driver: Option<&str>,
    driver_override: Option<&str>,
) -> Result<()> {
    let device = roots.pci_device(address);
    let current = || sysfs::link_name(&device.join("driver"));
    let override_file = device.join("driver_override");
    let has = current();
    if has.as_deref() != driver {
        // Set first: any matching driver may bind an unbound device, and only this one should.
        let temporary = driver.unwrap_or(NO_DRIVER);
        sysfs::write(&override_file, &format!("{temporary}\n"))?;
        if let Some(has) = &has {
            sysfs::write(&roots.pci_driver(has).join("unbind"), &address.to_string())?;
        }
        if driver.is_some() {
            sysfs::write(
                &roots.sys.join("bus/pci/drivers_probe"),
                &address.to_string(),
            )?;
        }
    }
    if self::driver_override(roots, address).as_deref() != driver_override {
        let name = driver_override.unwrap_or("");
        sysfs::write(&override_file, &format!("{name}\n"))?;
    }
    let found = current();
    if found.as_deref() != driver {
        return Err(Error::BindFailed {
            device: address.to_string(),
            driver: driver.unwrap_or("no driver").to_owned(),
            found,
        });
    }
    Ok(())
}

fn driver_override(roots: &Roots, address: PciAddress) -> Option<String> {
    let text = sysfs::text(&roots.pci_device(address).join("driver_override"))?;
    // The kernel writes "(null)" for none.
    (!text.is_empty() && text != "(null)").then_some(text)
}

/// Loads the module of a PCI driver that is missing.
fn load_module(roots: &Roots, module: &'static str, driver: &str) -> Result<()> {
    if roots.pci_driver(driver).exists() {
        return Ok(());
    }
    let failed = |why| Err(Error::NoModule { module, why });
    match Command::new(&roots.modprobe).arg(module).output() {
        Err(error) => failed(format!("cannot run {}: {error}", roots.modprobe.display())),
        Ok(output) if !output.status.success() => {
            failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(_) if !roots.pci_driver(driver).exists() => {
            failed("it was loaded but provides no driver".to_owned())
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    const ADDRESS: &str = "0000:01:00.0";

    fn address() -> PciAddress {
        ADDRESS.parse().unwrap()
    }

    #[test]
    fn a_missing_module_is_an_error_that_changes_nothing() {
        let tree = Tree::with_drive();
        let error = to_vfio(&tree.roots(), address()).unwrap_err();
        assert!(matches!(error, Error::NoModule { .. }), "{error}");
        assert_eq!(error.hint(), Some("modprobe vfio-pci".into()));
        assert_eq!(tree.read("sys/bus/pci/drivers/nvme/unbind"), "");
        assert!(borrowed(&tree.roots()).is_empty());
    }

    #[test]
    fn a_drive_that_is_open_at_chario_stays_there() {
        let tree = Tree::with_drive();
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        std::fs::remove_dir_all(tree.path().join(device).join("nvme")).unwrap();
        tree.file(&format!("{device}/chario/chardisk0n1/nsid"), "1\n")
            .file("sys/class/chario/chardisk0n1/open_files", "1\n");
        let error = to_nothing(&tree.roots(), address()).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(error.to_string().contains("chardisk0n1"), "{error}");
    }

    #[test]
    fn a_drive_in_use_is_refused_before_anything_is_written() {
        let tree = Tree::with_drive();
        tree.file(
            "proc/self/mountinfo",
            "9 1 259:1 / /data rw - xfs /dev/x rw\n",
        );
        let error = to_nothing(&tree.roots(), address()).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(error.to_string().contains("mounted at /data"), "{error}");
        assert_eq!(tree.read("sys/bus/pci/drivers/nvme/unbind"), "");
    }

    #[test]
    fn a_change_that_the_kernel_ignores_is_an_error_and_is_undone() {
        // The fake kernel takes every write and does nothing.
        let tree = Tree::with_drive();
        let error = to_nothing(&tree.roots(), address()).unwrap_err();
        assert!(matches!(error, Error::BindFailed { .. }), "{error}");
        assert_eq!(tree.read("sys/bus/pci/drivers/nvme/unbind"), ADDRESS);
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        // The fake files keep the longest content: the last write was the empty override.
        assert!(
            tree.read(&format!("{device}/driver_override"))
                .starts_with('\n')
        );
        assert!(borrowed(&tree.roots()).is_empty());
    }

    #[test]
    fn a_live_owner_keeps_its_device_and_a_dead_one_does_not() {
        let tree = Tree::with_drive();
        let roots = tree.roots();
        let (folder, lock) = state::lock(&roots).unwrap();
        drop(lock);
        let owner = Process {
            pid: 77,
            start_ticks: 5,
        };
        let record = Record {
            address: address(),
            owner,
            driver: Some("nvme".into()),
            driver_override: None,
        };
        record.save(&folder).unwrap();
        tree.file(
            "proc/77/stat",
            &format!("77 (x) S {}5 0\n", "0 ".repeat(18)),
        );
        let error = to_nothing(&roots, address()).unwrap_err();
        assert!(matches!(error, Error::Owned { pid: 77, .. }), "{error}");
        assert_eq!(restore_stale(&roots).unwrap(), []);
        std::fs::remove_file(tree.path().join("proc/77/stat")).unwrap();
        assert_eq!(borrowed(&roots), [(address(), 77, false)]);
        let restored = restore_stale(&roots).unwrap();
        assert_eq!((restored[0].dead_pid, restored.len()), (77, 1));
        assert!(borrowed(&roots).is_empty());
    }
}
