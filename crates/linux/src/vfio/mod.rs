// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A PCI function in user space behind an IOMMU: VFIO.
//!
//! [`Function`] is a platform for the NVMe driver. It owns the register space, the interrupts and
//! the device's memory; bind the controller to vfio-pci first
//! ([`bind::to_vfio`](crate::bind::to_vfio)). It is opened by its IOMMU group in a container of
//! type 1, or where the kernel has no groups by its own node with iommufd. It needs no root
//! privileges if its [`nodes`] (and `/dev/iommu` without groups) belong to the user and the memory
//! is within RLIMIT_MEMLOCK.
//!
//! On drop the device is cut off from memory before anything is unmapped: bus mastering is
//! disabled, the function is reset, and the IOMMU's mappings are removed.

mod cdev;
mod group;
mod interrupts;
mod iova;
mod isolation;
mod recall;
mod space;

use crate::bridges;
use crate::clock::TscClock;
use crate::coherence;
use crate::memory::check_grant;
use crate::memory::{self, HostMemory};
use crate::pci::PciAddress;
use crate::sys::map::{Mapping, Mmio};
use crate::sys::vfio as sys;
use crate::sysfs;
use crate::{Error, Result, Roots};
use block::Clock;
use interrupts::Interrupts;
pub(crate) use isolation::members;
use nvme::{BusRun, Dma, InterruptRefused, LinearDma, PciId, Registers};
use recall::Recall;
use rustix::fd::OwnedFd;
use space::AddressSpace;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

/// The command register of the configuration space, and its bits.
const COMMAND: u64 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
/// How long a slow path sleeps between two reads of a register.
const RELAX: Duration = Duration::from_micros(50);

/// Whether functions are opened by their groups: where there are containers, or no iommufd either.
pub(crate) fn has_groups(roots: &Roots) -> bool {
    group::container_node(roots).exists() || !cdev::iommufd_node(roots).exists()
}

/// The nodes of the function that a process which uses it has open one of.
pub fn nodes(roots: &Roots, address: PciAddress) -> Vec<PathBuf> {
    let group = isolation::group_of(roots, address).ok();
    let group = group.map(|number| group::node(roots, number));
    group
        .into_iter()
        .chain(cdev::node(roots, address))
        .collect()
}

fn open(roots: &Roots, address: PciAddress) -> Result<(AddressSpace, OwnedFd)> {
    let group = isolation::group_of(roots, address)?;
    let is_by_group = match cdev::node(roots, address) {
        // A container may have been given only one of them.
        Some(_) => has_groups(roots) && group::node(roots, group).exists(),
        None => has_groups(roots),
    };
    if is_by_group {
        group::open(roots, address, group)
    } else {
        cdev::open(roots, address, group)
    }
}

fn open_node(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn not_bound(roots: &Roots, address: PciAddress) -> Error {
    Error::NotBound {
        device: address.to_string(),
        driver: sysfs::link_name(&roots.pci_device(address).join("driver")),
    }
}

/// Options for opening a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much memory the device can reach, in bytes: queues and buffers.
    pub memory_bytes: usize,
    /// How many interrupt vectors to enable, if the function has that many. 0 to poll only.
    pub interrupt_vectors: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 16 << 20,
            interrupt_vectors: 8,
        }
    }
}

/// A PCI function with its registers, its interrupts and its memory.
#[derive(Debug)]
pub struct Function {
    // The fields of the I/O path come first.
    first: LinearDma,
    clock: TscClock,
    registers: Mmio,
    interrupts: Interrupts,
    recall: Recall,
    granted: Vec<LinearDma>,
    config_offset: u64,
    can_reset: bool,
    pci_id: Option<PciId>,
    // Dropped in this order: the device, then the mappings, then the memory.
    device: OwnedFd,
    space: AddressSpace,
    memory: HostMemory,
}

impl Function {
    /// Opens the function at `address`, maps its registers and memory, and lets it access memory.
    /// All interrupts are disabled.
    ///
    /// # Errors
    /// [`Error::NotCoherent`], [`Error::NoIommu`], [`Error::NoModule`], [`Error::NotBound`],
    /// [`Error::GroupBusy`], [`Error::GroupNotViable`], [`Error::NotPermitted`],
    /// [`Error::LockLimit`], [`Error::NoBusAddresses`] and others, each for one missing
    /// prerequisite.
    pub fn open(roots: &Roots, address: PciAddress, options: &Options) -> Result<Self> {
        coherence::require(roots, address)?;
        let path = PathBuf::from(address.to_string());
        let clock = TscClock::new();
        let (mut space, device) = open(roots, address)?;
        // The kernel has enabled the bridges now, unless it did so before.
        bridges::require(roots, address)?;
        let io = |doing| {
            let path = path.clone();
            move |source: io::Error| Error::io(doing, &path, source)
        };
        let config = sys::region(&device, sys::REGION_CONFIG).map_err(io("reading about"))?;
        let can_reset = sys::can_reset(&device).map_err(io("reading about"))?;
        let registers = map_registers(&device, &path)?;
        let interrupts = Interrupts::enable(&device, options.interrupt_vectors)
            .map_err(io("enabling interrupts of"))?;
        let recall = Recall::watch(&device);
        let (memory, first) = map_memory(&mut space, options.memory_bytes)?;
        let function = Self {
            first,
            clock,
            registers,
            interrupts,
            recall,
            granted: Vec::new(),
            config_offset: config.offset,
            can_reset,
            pci_id: crate::pci::Controller::at(roots, address)
                .ok()
                .map(|controller| controller.pci_id()),
            device,
            space,
            memory,
        };
        // VFIO lets the function drive its interrupt line, which may be shared, before anything
        // handles it.
        function
            .set_command(COMMAND_INTX_DISABLE, 0)
            .and_then(|()| function.set_command(COMMAND_MEMORY | COMMAND_BUS_MASTER, 0))
            .map_err(io("switching bus mastering on in"))?;
        if function.read32(0) == u32::MAX && function.read32(8) == u32::MAX {
            let device = address.to_string();
            return Err(Error::Silent { device });
        }
        Ok(function)
    }

    /// The memory that buffers and queues are taken from.
    pub fn memory(&self) -> HostMemory {
        self.memory.clone()
    }

    /// Lets the function access `len` bytes of another owner's memory, whole pages: to read, and to
    /// write if `writable`. Returns their bus address, for the function's own program; the driver
    /// here accepts buffers in them too. The IOMMU keeps the pages until
    /// [`revoke`](Function::revoke), or until the function is dropped.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for parts of pages; [`Error::LockLimit`], [`Error::NoMemory`],
    /// [`Error::NoBusAddresses`]; the kernel's, such as EFAULT for memory that is not mapped, or
    /// may not be written to.
    ///
    /// # Safety
    /// While the function has it, memory that it may write to can change at any time; and buffers
    /// of it are only used while it is mapped.
    #[allow(unsafe_code)]
    pub unsafe fn grant(&mut self, start: NonNull<u8>, len: usize, writable: bool) -> Result<u64> {
        let start = start.as_ptr().addr();
        check_grant(start, len)?;
        // SAFETY: the caller's.
        let bus_start = unsafe { self.space.map_range((start, len), writable) }?;
        self.granted.push(LinearDma {
            start,
            len,
            bus_start,
        });
        Ok(bus_start)
    }

    /// Takes memory away again that [`grant`](Function::grant) gave, by its bus address.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: no such grant; the kernel's.
    pub fn revoke(&mut self, bus_start: u64) -> Result<()> {
        let granted = self
            .granted
            .iter()
            .position(|dma| dma.bus_start == bus_start);
        match granted {
            Some(found) => drop(self.granted.swap_remove(found)),
            None => {
                return Err(Error::Unsupported {
                    what: "revoking memory",
                    why: format!("nothing was granted at bus address {bus_start:#x}"),
                    hint: None,
                });
            }
        }
        self.space.unmap(bus_start)
    }

    /// The bus address of the first byte of [`memory`](Function::memory).
    pub fn bus_start(&self) -> u64 {
        self.first.bus_start
    }

    /// Changes bits of the command register. The function has no I/O space to lose, and VFIO keeps
    /// the other bits.
    fn set_command(&self, set: u16, clear: u16) -> io::Result<()> {
        let at = self.config_offset + COMMAND;
        let mut bytes = [0; 2];
        rustix::io::pread(&self.device, &mut bytes, at)?;
        let value = (u16::from_le_bytes(bytes) | set) & !clear;
        rustix::io::pwrite(&self.device, &value.to_le_bytes(), at)?;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn run_in_granted(&self, address: usize, len: usize) -> Option<BusRun> {
        self.granted.iter().find_map(|dma| dma.run(address, len))
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.isolate();
        if self.can_reset {
            // Ends the controller's activity, so that the next driver finds it freshly reset.
            let _ = sys::reset(&self.device);
        }
        // The device and the address space close next, in the order of the fields.
    }
}

fn map_registers(device: &OwnedFd, path: &Path) -> Result<Mmio> {
    let io = |doing| move |source: io::Error| Error::io(doing, path, source);
    let bar = sys::region(device, sys::REGION_BAR0).map_err(io("reading about BAR0 of"))?;
    let unsupported = |why: &str| Error::Unsupported {
        what: "the controller",
        why: format!("BAR0 of {} {why}", path.display()),
        hint: None,
    };
    if !bar.can_map {
        return Err(unsupported("cannot be mapped"));
    }
    let len = usize::try_from(bar.size).map_err(|_| unsupported("is too long"))?;
    let mapping = Mapping::device(device, bar.offset, len).map_err(io("mapping BAR0 of"))?;
    Mmio::new(mapping).ok_or_else(|| unsupported("is empty"))
}

fn map_memory(space: &mut AddressSpace, len: usize) -> Result<(HostMemory, LinearDma)> {
    let mapping = memory::anonymous(len)?;
    let bus_start = space.map(&mapping)?;
    let run = LinearDma {
        start: mapping.address(),
        len: mapping.len(),
        bus_start,
    };
    Ok((HostMemory::over(mapping), run))
}

impl Registers for Function {
    fn len_bytes(&self) -> usize {
        self.registers.len()
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        self.registers.read32(offset)
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        self.registers.write32(offset, value);
    }

    fn isolate(&self) {
        // It fails only for a removed device, which writes nowhere.
        let _ = self.set_command(0, COMMAND_BUS_MASTER);
    }

    fn connect(&self) {
        let _ = self.set_command(COMMAND_MEMORY | COMMAND_BUS_MASTER, 0);
    }

    fn interrupt_vectors(&self) -> u16 {
        self.interrupts.vectors()
    }

    fn interrupts_by_line(&self) -> bool {
        self.interrupts.is_line()
    }

    fn set_interrupt(
        &self,
        vector: u16,
        enabled: bool,
    ) -> std::result::Result<(), InterruptRefused> {
        let line = self.interrupts.is_line();
        if line && !enabled {
            let _ = self.set_command(COMMAND_INTX_DISABLE, 0);
        }
        if !self.interrupts.set(&self.device, vector, enabled) {
            return Err(InterruptRefused);
        }
        (if line && enabled {
            self.set_command(0, COMMAND_INTX_DISABLE)
        } else {
            Ok(())
        })
        .map_err(|_| InterruptRefused)
    }

    fn wait_interrupt(&self, vector: u16, timeout_us: u32) -> bool {
        self.interrupts.wait(&self.device, vector, timeout_us)
    }

    fn is_recalled(&self) -> bool {
        self.recall.is_requested()
    }

    fn relax(&self) {
        std::thread::sleep(RELAX);
    }

    fn pci_id(&self) -> Option<PciId> {
        self.pci_id
    }
}

// SAFETY: each run lies in a mapping that the IOMMU has under that very address, linear from its
// start; `memory` keeps it mapped, what is granted its owner does (see `grant`), and `space` keeps
// it with the IOMMU, until this is dropped, which cuts the device off first. Both starts are
// multiples of the page.
#[allow(unsafe_code)]
unsafe impl Dma for Function {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        match self.first.run(address, len) {
            Some(run) => Some(run),
            None => self.run_in_granted(address, len),
        }
    }

    #[inline(always)]
    fn bus_address(&self, address: usize) -> Option<u64> {
        match self.first.address(address) {
            Some(bus) => Some(bus),
            None => Some(self.run_in_granted(address, 1)?.address),
        }
    }
}

impl Clock for Function {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    fn ticks_per_second(&self) -> u64 {
        self.clock.ticks_per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    const NODE: &str = "sys/devices/pci0000:00/0000:01:00.0/vfio-dev/vfio0/dev";

    fn error(tree: &Tree) -> Error {
        open(&tree.roots(), "01:00.0".parse().unwrap()).unwrap_err()
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
        // A kernel without groups, and the drive still at its own driver.
        tree.file("dev/iommu", "");
        let error = error(&tree);
        let Error::NotBound { device, driver } = &error else {
            unreachable!("{error}");
        };
        assert_eq!(
            (device.as_str(), driver.as_deref()),
            ("0000:01:00.0", Some("nvme"))
        );
    }

    #[test]
    fn groups_come_first_and_a_node_serves_where_they_are_missing() {
        let tree = Tree::with_drive();
        tree.file(NODE, "510:0\n").file("dev/iommu", "");
        // Regular files take no requests, so the error names the one that was asked.
        let asked = |file| {
            tree.file(file, "");
            error(&tree).to_string()
        };
        let by_node = asked("dev/vfio/devices/vfio0");
        assert!(by_node.contains("dev/vfio/devices/vfio0: "), "{by_node}");
        assert!(asked("dev/vfio/vfio").contains("dev/vfio/devices/vfio0: "));
        assert!(asked("dev/vfio/4").contains("dev/vfio/vfio: "));
        let nodes = nodes(&tree.roots(), "01:00.0".parse().unwrap());
        let dev = tree.roots().dev.join("vfio");
        assert_eq!(nodes, [dev.join("4"), dev.join("devices/vfio0")]);
    }
}
