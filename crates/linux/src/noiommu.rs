// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A PCI function in user space without an IOMMU: sysfs for its registers, huge pages for its
//! memory.
//!
//! Nothing prevents the device from writing anywhere: a wrong address in a command overwrites
//! arbitrary memory, and so may a device whose process died without disabling bus mastering. This
//! is for machines without an IOMMU, where the kernel's own drivers are no better protected.
//!
//! Completion is polled: sysfs offers no interrupts. A huge page's bus address is its physical one,
//! from `/proc/self/pagemap`; the kernel moves reserved huge pages only when memory is taken
//! offline. Pages of another owner are held where they are ([`Function::grant`]).

use crate::bridges;
use crate::clock::TscClock;
use crate::coherence;
use crate::memory::{HostMemory, check_grant};
use crate::pci::{Controller, PciAddress};
use crate::sys::arena::PAGE_BYTES;
use crate::sys::map::{HUGE_PAGE_BYTES, Mapping, Mmio};
use crate::sys::pin::Pinned;
use crate::sysfs;
use crate::{Error, Result, Roots};
use block::Clock;
use nvme::{BusRun, Dma, PagedDma, PciId, Registers};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

/// A page of the kernel's, for grants.
const PAGE_SHIFT: u8 = 12;
const HUGE_PAGE_SHIFT: u8 = HUGE_PAGE_BYTES.trailing_zeros() as u8;
/// The command register of the configuration space, and its bits.
const COMMAND: u64 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
/// An entry of pagemap (Documentation/admin-guide/mm/pagemap.rst): page present, and its number.
/// How often a page that is held may be out of the table when it is looked for.
const MOST_LOOKS: u32 = 1000;
const PAGE_PRESENT: u64 = 1 << 63;
const PAGE_NUMBER: u64 = (1 << 55) - 1;
/// How long a slow path sleeps between two reads of a register.
const RELAX: Duration = Duration::from_micros(50);

/// Options for opening a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much memory the device can reach, in bytes; rounded up to 2 MiB.
    pub memory_bytes: usize,
    /// Whether to reserve the huge pages that are missing. They stay reserved afterwards.
    pub reserve_huge_pages: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 16 << 20,
            reserve_huge_pages: false,
        }
    }
}

/// A PCI function with its registers and its memory.
#[derive(Debug)]
pub struct Function {
    // The fields of the I/O path come first.
    start: usize,
    bus_pages: Box<[u64]>,
    clock: TscClock,
    registers: Mmio,
    config: Config,
    pci_id: PciId,
    // Dropped last: until bus mastering is off the device may write to it.
    memory: HostMemory,
    granted: Vec<Granted>,
}

/// Another owner's memory that the device reaches.
#[derive(Debug)]
struct Granted {
    start: usize,
    bus_pages: Box<[u64]>,
    _pinned: Pinned,
}

impl Function {
    /// Opens the function at `address`, maps its registers and memory, and enables bus mastering.
    /// It must have no driver ([`bind::to_nothing`](crate::bind::to_nothing)).
    ///
    /// # Errors
    /// [`Error::InUse`] while it has a driver, [`Error::NotCoherent`], [`Error::IommuActive`],
    /// [`Error::NoHugePages`], [`Error::NotPermitted`] and others, each for one missing
    /// prerequisite.
    pub fn open(roots: &Roots, address: PciAddress, options: &Options) -> Result<Self> {
        let controller = Controller::at(roots, address)?;
        let pci_id = controller.pci_id();
        if let Some(driver) = controller.driver {
            return Err(Error::InUse {
                device: address.to_string(),
                reasons: vec![format!("it is bound to the driver {driver}")],
            });
        }
        coherence::require(roots, address)?;
        refuse_translation(roots, address)?;
        bridges::require(roots, address)?;
        let folder = roots.pci_device(address);
        let config = Config::open(&folder)?;
        let registers = map_registers(&folder, controller.bar0_bytes)?;
        let mapping = huge_memory(roots, options)?;
        let (start, bus_pages) = (mapping.address(), bus_pages(roots, &mapping)?);
        let function = Self {
            start,
            bus_pages,
            clock: TscClock::new(),
            registers,
            config,
            pci_id,
            memory: HostMemory::over(mapping),
            granted: Vec::new(),
        };
        function
            .config
            .change(COMMAND_MEMORY | COMMAND_BUS_MASTER, 0)?;
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

    /// Lets the driver here access `len` bytes of another owner's memory, whole pages, and holds
    /// the pages where they are until the function is dropped. Returns the bus address of each 4
    /// KiB, for the function's own program. It is the administrator's grant: nothing stops the
    /// device from other accesses.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for parts of pages, or pages of the kernel that are not 4 KiB;
    /// [`Error::NotPermitted`] without `CAP_SYS_ADMIN`, to which the kernel tells physical
    /// addresses; the kernel's, such as EFAULT for memory that is not mapped.
    ///
    /// # Safety
    /// While the function exists, memory that its program has it write to can change at any time,
    /// also if it is mapped to read only; and buffers of it are only used while it is mapped.
    #[allow(unsafe_code)]
    pub unsafe fn grant(
        &mut self,
        roots: &Roots,
        start: NonNull<u8>,
        len: usize,
    ) -> Result<&[u64]> {
        let start = start.as_ptr().addr();
        if rustix::param::page_size() != PAGE_BYTES {
            return Err(Error::Unsupported {
                what: "a grant of memory without an IOMMU",
                why: "the kernel's pages are not 4 KiB".into(),
                hint: Some("use an IOMMU".into()),
            });
        }
        let granted = Granted {
            start,
            _pinned: pinned(roots, start, len)?,
            bus_pages: physical_pages(roots, start, len)?,
        };
        self.granted.push(granted);
        Ok(self
            .granted
            .last()
            .map_or(&[], |granted| &granted.bus_pages))
    }

    /// The bus address of each 2 MiB of [`memory`](Function::memory).
    pub fn bus_pages(&self) -> &[u64] {
        &self.bus_pages
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.isolate();
        // A controller that is still enabled would continue once the next driver enables bus
        // mastering. CC is at 14h; EN is its bit 0 (NVMe base specification, "Controller
        // Configuration").
        let configuration = self.read32(0x14);
        if configuration != u32::MAX && configuration & 1 != 0 {
            self.write32(0x14, configuration & !1);
        }
    }
}

/// The configuration space, as a file of sysfs.
#[derive(Debug)]
struct Config {
    file: File,
    path: PathBuf,
}

impl Config {
    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("config");
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|source| Error::io("opening", &path, source))?;
        Ok(Self { file, path })
    }

    /// Sets and clears bits of the command register.
    fn change(&self, set: u16, clear: u16) -> Result<()> {
        let change = || {
            let mut bytes = [0; 2];
            self.file.read_exact_at(&mut bytes, COMMAND)?;
            let value = (u16::from_le_bytes(bytes) | set) & !clear;
            self.file.write_all_at(&value.to_le_bytes(), COMMAND)
        };
        change().map_err(|source| Error::io("changing the command register in", &self.path, source))
    }
}

/// An IOMMU whose group has the type "identity" leaves addresses as they are; any other type
/// translates them, and physical addresses are then invalid.
fn refuse_translation(roots: &Roots, address: PciAddress) -> Result<()> {
    let link = roots.pci_device(address).join("iommu_group");
    let Some(group) = sysfs::link_name(&link) else {
        return Ok(());
    };
    let file = roots.sys.join(format!("kernel/iommu_groups/{group}/type"));
    // A kernel that does not report it (before 4.11) must be assumed to translate.
    let group_type = sysfs::text(&file).unwrap_or_else(|| "unknown".into());
    if group_type == "identity" {
        return Ok(());
    }
    Err(Error::IommuActive {
        device: address.to_string(),
        group_type,
    })
}

fn map_registers(folder: &Path, len: u64) -> Result<Mmio> {
    let path = folder.join("resource0");
    let file = File::options().read(true).write(true).open(&path);
    let file = file.map_err(|source| Error::io("opening", &path, source))?;
    let mapping =
        Mapping::device(&file, 0, len as usize).map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM) => Error::NotPermitted {
                doing: "mapping",
                path: path.clone(),
                hint:
                    "the kernel is locked down, as with Secure Boot: switch that off, or use VFIO"
                        .into(),
            },
            _ => Error::io("mapping", &path, source),
        })?;
    Mmio::new(mapping).ok_or_else(|| Error::Unsupported {
        what: "the controller",
        why: format!("{} is empty", path.display()),
        hint: None,
    })
}

fn huge_memory(roots: &Roots, options: &Options) -> Result<Mapping> {
    let bytes = options.memory_bytes;
    let rounded = bytes.max(1).checked_next_multiple_of(HUGE_PAGE_BYTES);
    let len = rounded.ok_or(Error::NoMemory { bytes })?;
    let needed_pages = len / HUGE_PAGE_BYTES;
    let folder = roots.sys.join("kernel/mm/hugepages/hugepages-2048kB");
    let free = || sysfs::number::<usize>(&folder.join("free_hugepages")).unwrap_or(0);
    if options.reserve_huge_pages && free() < needed_pages {
        let file = folder.join("nr_hugepages");
        let reserved: usize = sysfs::number(&file).unwrap_or(0);
        let wanted = reserved + needed_pages - free();
        sysfs::write(&file, &wanted.to_string())?;
    }
    // Checked first, because touching a missing page kills the process.
    let free_pages = free();
    if free_pages < needed_pages {
        return Err(Error::NoHugePages {
            needed_pages,
            free_pages,
        });
    }
    Mapping::huge(len).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOMEM) => Error::NoHugePages {
            needed_pages,
            free_pages: free(),
        },
        _ => Error::io("mapping huge pages of", &folder, source),
    })
}

/// Holds whole pages where they are.
fn pinned(roots: &Roots, start: usize, len: usize) -> Result<Pinned> {
    check_grant(start, len)?;
    let path = roots.proc.join("self/mem");
    Pinned::new(start, len).map_err(|source| Error::io("holding pages of", &path, source))
}

/// The physical address of each 4 KiB of memory that is held.
fn physical_pages(roots: &Roots, start: usize, len: usize) -> Result<Box<[u64]>> {
    let path = roots.proc.join("self/pagemap");
    let failed = |source| Error::io("reading physical addresses in", &path, source);
    let file = File::open(&path).map_err(failed)?;
    let memory = roots.proc.join("self/mem");
    let memory_failed = |source| Error::io("reading", &memory, source);
    let bytes = File::open(&memory).map_err(memory_failed)?;
    let pages = (start..start + len).step_by(PAGE_BYTES).map(|address| {
        let look = || {
            let mut entry = [0; 8];
            file.read_exact_at(&mut entry, (address / PAGE_BYTES * 8) as u64)?;
            Ok(u64::from_ne_bytes(entry))
        };
        let touch = || bytes.read_exact_at(&mut [0], address as u64);
        settled(look, touch)
            .and_then(|entry| parse_entry(entry, PAGE_BYTES))
            .map_err(failed)
    });
    pages.collect()
}

/// The entry of a page that is held. The kernel takes such a page out of the table for a moment
/// when it compacts memory, sees that it is held, and puts it back; an access to the page waits for
/// that.
fn settled(
    mut look: impl FnMut() -> io::Result<u64>,
    mut touch: impl FnMut() -> io::Result<()>,
) -> io::Result<u64> {
    let mut entry = look()?;
    for _ in 0..MOST_LOOKS {
        if entry & PAGE_PRESENT != 0 {
            break;
        }
        touch()?;
        entry = look()?;
    }
    Ok(entry)
}

/// The physical address of each huge page.
fn bus_pages(roots: &Roots, mapping: &Mapping) -> Result<Box<[u64]>> {
    let path = roots.proc.join("self/pagemap");
    let failed = |source| Error::io("reading", &path, source);
    let file = File::open(&path).map_err(failed)?;
    let page_bytes = rustix::param::page_size();
    let look_up = |index: usize| {
        let page = (mapping.address() + index * HUGE_PAGE_BYTES) / page_bytes;
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, 8 * page as u64)
            .map_err(failed)?;
        let address = parse_entry(u64::from_ne_bytes(entry), page_bytes).map_err(failed)?;
        match address % HUGE_PAGE_BYTES as u64 {
            0 => Ok(address),
            _ => Err(failed(io::Error::other("a page is not a huge page"))),
        }
    };
    (0..mapping.len() / HUGE_PAGE_BYTES).map(look_up).collect()
}

/// The address in an entry of pagemap. Without `CAP_SYS_ADMIN` the number is always 0.
fn parse_entry(entry: u64, page_bytes: usize) -> io::Result<u64> {
    if entry & PAGE_PRESENT == 0 {
        return Err(io::Error::other("a page is not present"));
    }
    let address = (entry & PAGE_NUMBER) * page_bytes as u64;
    match address {
        0 => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(address),
    }
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
        let _ = self.config.change(0, COMMAND_BUS_MASTER);
    }

    fn connect(&self) {
        let _ = self.config.change(COMMAND_MEMORY | COMMAND_BUS_MASTER, 0);
    }

    fn relax(&self) {
        std::thread::sleep(RELAX);
    }

    fn pci_id(&self) -> Option<PciId> {
        Some(self.pci_id)
    }
}

// SAFETY: each huge page is present, locked and at the physical address that was read for it, as is
// each page of a grant, which is held; no IOMMU translates; `memory` keeps them mapped until this
// is dropped, which disables bus mastering first. The two addresses of a huge page have the same
// offset within a controller page.
#[allow(unsafe_code)]
unsafe impl Dma for Function {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        let dma = PagedDma {
            start: self.start,
            page_shift: HUGE_PAGE_SHIFT,
            bus_pages: &self.bus_pages,
        };
        let run = dma.run(address, len);
        run.or_else(|| {
            self.granted.iter().find_map(|granted| {
                let dma = PagedDma {
                    start: granted.start,
                    page_shift: PAGE_SHIFT,
                    bus_pages: &granted.bus_pages,
                };
                dma.run(address, len)
            })
        })
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

    const GROUP_TYPE: &str = "sys/kernel/iommu_groups/4/type";

    fn address() -> PciAddress {
        "01:00.0".parse().unwrap()
    }

    #[test]
    fn a_held_page_that_is_being_moved_is_looked_for_again() {
        let moving = 1 << 62;
        let mut entries = [moving, moving, PAGE_PRESENT | 5].into_iter();
        let mut touched = 0;
        let touch = || {
            touched += 1;
            Ok(())
        };
        let entry = settled(|| Ok(entries.next().unwrap()), touch).unwrap();
        assert_eq!((entry, touched), (PAGE_PRESENT | 5, 2));
        // One that never comes back is an error, in bounded time.
        let entry = settled(|| Ok(moving), || Ok(())).unwrap();
        assert!(parse_entry(entry, PAGE_BYTES).is_err());
        assert!(settled(|| Ok(moving), || Err(io::ErrorKind::Other.into())).is_err());
    }

    #[test]
    fn an_iommu_that_translates_is_refused() {
        let tree = Tree::with_drive();
        let check = || refuse_translation(&tree.roots(), address());
        assert!(matches!(check(), Err(Error::IommuActive { .. })));
        tree.file(GROUP_TYPE, "DMA-FQ\n");
        assert!(check().unwrap_err().to_string().contains("DMA-FQ"));
        tree.file(GROUP_TYPE, "identity\n");
        assert!(check().is_ok());
        std::fs::remove_file(
            tree.path()
                .join("sys/bus/pci/devices/0000:01:00.0/iommu_group"),
        )
        .unwrap();
        assert!(check().is_ok());
    }

    #[test]
    fn a_bound_device_is_refused() {
        let tree = Tree::with_drive();
        let error = Function::open(&tree.roots(), address(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains("it is bound to the driver nvme"));
    }

    #[test]
    fn missing_huge_pages_are_counted_and_reserved_only_when_asked() {
        let tree = Tree::new();
        let folder = "sys/kernel/mm/hugepages/hugepages-2048kB";
        tree.file(&format!("{folder}/free_hugepages"), "3\n");
        tree.file(&format!("{folder}/nr_hugepages"), "5\n");
        let mut options = Options {
            memory_bytes: (8 << 20) + 1,
            reserve_huge_pages: false,
        };
        let error = huge_memory(&tree.roots(), &options).unwrap_err();
        assert!(matches!(
            error,
            Error::NoHugePages {
                needed_pages: 5,
                free_pages: 3
            }
        ));
        assert!(error.hint().unwrap().to_string().contains("+ 2"));
        assert_eq!(tree.read(&format!("{folder}/nr_hugepages")), "5\n");
        options.reserve_huge_pages = true;
        huge_memory(&tree.roots(), &options).unwrap_err();
        assert!(
            tree.read(&format!("{folder}/nr_hugepages"))
                .starts_with('7')
        );
    }

    #[test]
    fn pagemap_entries_are_checked() {
        let entry = |number: u64| PAGE_PRESENT | 1 << 61 | number;
        assert_eq!(parse_entry(entry(0x200), 4096).unwrap(), 0x20_0000);
        assert!(parse_entry(0x200, 4096).is_err());
        let denied = parse_entry(entry(0), 4096).unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn pages_of_another_owner_are_held_and_their_addresses_are_the_kernel_s() {
        let roots = Roots::system();
        // Read only, and touched by no one: holding brings the pages.
        let memory = Mapping::anonymous(5 * PAGE_BYTES).unwrap();
        let (start, len) = (memory.address(), memory.len());
        let held = pinned(&roots, start, len).unwrap();
        match physical_pages(&roots, start, len) {
            Ok(pages) => assert!(pages.len() == 5 && pages.iter().all(|page| page % 4096 == 0)),
            Err(error) => assert!(matches!(error, Error::NotPermitted { .. }), "{error}"),
        }
        drop(held);
        // Nothing is mapped there.
        let error = pinned(&roots, PAGE_BYTES, PAGE_BYTES).unwrap_err();
        assert!(error.to_string().contains("holding pages"), "{error}");
        let part = pinned(&roots, start, len - 1).unwrap_err();
        assert!(part.to_string().contains("not whole pages"), "{part}");
    }
}
