// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root complex through ECAM (PCI Express base specification, "Enhanced Configuration Access
//! Mechanism"): finds each function behind each bridge, and assigns bus addresses to the NVMe
//! controllers.
//!
//! Buses are numbered in the order in which they are found. Only NVMe functions get memory; a
//! bridge forwards only what lies behind it. There is no recursion: the path back up is a stack of
//! fixed depth.

use crate::fdt::Machine;
use crate::log;

/// Bridges one behind the other.
const DEPTH: usize = 8;
/// Controllers that can be distinguished.
pub const DRIVES: usize = 8;

const IDENTITY: u16 = 0x00;
const COMMAND: u16 = 0x04;
const CLASS: u16 = 0x08;
const HEADER: u16 = 0x0c;
const BAR0: u16 = 0x10;
const BUSES: u16 = 0x18;
const MEMORY_WINDOW: u16 = 0x20;
const PREFETCHABLE_WINDOW: u16 = 0x24;
const PREFETCHABLE_HIGH: u16 = 0x28;
const NVME_CLASS: u32 = 0x01_0802;
const BRIDGE_HEADER: u32 = 1;
const MEMORY_AND_MASTER: u32 = 0x6;
const NO_INTX: u32 = 1 << 10;
/// A bridge forwards whole MiB.
const BRIDGE_UNIT: u64 = 1 << 20;

/// A function's address: bus, device, function, in the format of a requester ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address(pub u16);

/// A machine's configuration space.
#[derive(Clone, Copy, Debug)]
pub struct Ecam {
    start: usize,
    buses: u16,
}

/// A drive that was found and has addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drive {
    /// Its PCI address.
    pub address: Address,
    /// Its registers, as the processor addresses them.
    pub registers: usize,
    /// Their length in bytes.
    pub register_bytes: usize,
}

/// The result of the walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// The drives.
    pub drives: [Drive; DRIVES],
    /// The number of drives.
    pub drive_count: usize,
    /// Functions of any kind.
    pub functions: u32,
    /// Bridges among them.
    pub bridges: u32,
}

/// The free part of the windows; bus addresses.
struct Space {
    /// Next free address and end, below 4 GiB; and what to add to reach it from the processor.
    low: (u64, u64, u64),
    high: (u64, u64, u64),
}

impl Ecam {
    /// The machine's root complex, if it has one.
    pub fn of(machine: &Machine) -> Option<Self> {
        let start = usize::try_from(machine.ecam.start).ok()?;
        let buses = (machine.ecam.bytes >> 20).min(256) as u16;
        (buses > 0).then_some(Self { start, buses })
    }

    fn pointer(&self, address: Address, offset: u16) -> *mut u32 {
        (self.start + (usize::from(address.0) << 12) + usize::from(offset & 0xffc)) as *mut u32
    }

    /// Reads a register; all ones where there is no function.
    pub fn read(&self, address: Address, offset: u16) -> u32 {
        if address.0 >> 8 >= self.buses {
            return u32::MAX;
        }
        // SAFETY: inside the configuration space that the device tree names.
        unsafe { self.pointer(address, offset).read_volatile() }
    }

    /// Writes a register.
    pub fn write(&self, address: Address, offset: u16, value: u32) {
        if address.0 >> 8 < self.buses {
            // SAFETY: as in `read`.
            unsafe { self.pointer(address, offset).write_volatile(value) }
        }
    }

    /// Enables or disables a function's memory decoding and bus mastering.
    pub fn connect(&self, address: Address, connected: bool) {
        let on = if connected { MEMORY_AND_MASTER } else { 0 };
        // The upper half is status, where writing ones clears bits.
        let kept = self.read(address, COMMAND) & 0xffff & !MEMORY_AND_MASTER;
        self.write(address, COMMAND, kept | NO_INTX | on);
    }

    /// Numbers the buses, finds the drives and assigns their addresses.
    pub fn walk(&self, machine: &Machine) -> Found {
        let mut found = Found::default();
        let window = |(range, bus): (crate::fdt::Range, u64)| {
            (bus, bus + range.bytes, range.start.wrapping_sub(bus))
        };
        let mut space = Space {
            low: window(machine.window32),
            high: window(machine.window64),
        };
        // The bridges above the current bus: address, and where on their bus to continue.
        let mut above = [(Address(0), 0u16); DEPTH];
        let mut depth = 0;
        let mut next_bus: u16 = 1;
        let mut bus: u16 = 0;
        let mut slot: u16 = 0;
        // Each iteration checks one of 256 functions of a bus, or leaves a bus.
        loop {
            if slot == 256 {
                if depth == 0 {
                    break;
                }
                depth -= 1;
                let Some(&(bridge, resume)) = above.get(depth) else {
                    break;
                };
                self.close_bridge(bridge, next_bus - 1, &mut space);
                bus = bridge.0 >> 8;
                slot = resume;
                continue;
            }
            let address = Address(bus << 8 | slot);
            let function = slot & 7;
            slot += 1;
            if self.read(address, IDENTITY) & 0xffff == 0xffff {
                if function == 0 {
                    slot += 7;
                }
                continue;
            }
            found.functions += 1;
            let header = self.read(address, HEADER) >> 16;
            if function == 0 && header & 0x80 == 0 {
                slot += 7;
            }
            if header & 0x7f == BRIDGE_HEADER {
                found.bridges += 1;
                if let (Some(place), true) = (above.get_mut(depth), next_bus < self.buses) {
                    *place = (address, slot);
                    depth += 1;
                    self.open_bridge(address, next_bus, &mut space);
                    bus = next_bus;
                    next_bus += 1;
                    slot = 0;
                } else {
                    log!(
                        "pci: too many bridges at #: not scanned",
                        u64::from(address.0)
                    );
                }
            } else if self.read(address, CLASS) >> 8 == NVME_CLASS {
                self.place(address, depth > 0, &mut space, &mut found);
            }
        }
        found
    }

    fn open_bridge(&self, bridge: Address, secondary: u16, space: &mut Space) {
        let buses = 0xff << 16 | u32::from(secondary) << 8 | u32::from(bridge.0 >> 8);
        self.write(bridge, BUSES, buses);
        let (next, _, _) = &mut space.low;
        *next = next.next_multiple_of(BRIDGE_UNIT);
        self.write(bridge, MEMORY_WINDOW, (*next >> 16) as u32 & 0xfff0);
        // Nothing prefetchable: a base above its limit.
        self.write(bridge, PREFETCHABLE_WINDOW, 0x0000_fff0);
        self.write(bridge, PREFETCHABLE_HIGH, 0);
    }

    fn close_bridge(&self, bridge: Address, last_bus: u16, space: &mut Space) {
        let buses = self.read(bridge, BUSES) & 0xffff;
        self.write(bridge, BUSES, buses | u32::from(last_bus) << 16);
        let (next, _, _) = &mut space.low;
        let base = self.read(bridge, MEMORY_WINDOW) & 0xfff0;
        *next = next.next_multiple_of(BRIDGE_UNIT);
        // Nothing behind it: the limit is below the base, so nothing is forwarded.
        let last = next.saturating_sub(1);
        self.write(bridge, MEMORY_WINDOW, base | (last as u32 & 0xfff0_0000));
        self.connect(bridge, true);
    }

    /// Sizes BAR 0 and assigns its address: 32 or 64 bits.
    fn place(&self, address: Address, behind_bridge: bool, space: &mut Space, found: &mut Found) {
        self.connect(address, false);
        let kind = self.read(address, BAR0);
        let is_wide = kind & 6 == 4;
        self.write(address, BAR0, u32::MAX);
        let low = self.read(address, BAR0) & !0xf;
        let mut mask = u64::from(low) | 0xffff_ffff << 32;
        if is_wide {
            self.write(address, BAR0 + 4, u32::MAX);
            mask = u64::from(low) | u64::from(self.read(address, BAR0 + 4)) << 32;
        }
        let bytes = mask.wrapping_neg();
        if kind & 1 != 0 || low == 0 && !is_wide || !bytes.is_power_of_two() {
            log!("pci: #: BAR 0 not memory", u64::from(address.0));
            return;
        }
        // Behind a bridge the window is below 4 GiB.
        let high = (is_wide && !behind_bridge).then_some(&mut space.high);
        let placed = take(&mut space.low, bytes).or_else(|| take(high?, bytes));
        let Some((bus, registers)) = placed else {
            log!(
                "pci: #: no room for # bytes of registers",
                u64::from(address.0),
                bytes
            );
            return;
        };
        self.write(address, BAR0, bus as u32);
        if is_wide {
            self.write(address, BAR0 + 4, (bus >> 32) as u32);
        }
        let drive = Drive {
            address,
            registers,
            register_bytes: usize::try_from(bytes).unwrap_or(0),
        };
        if let Some(place) = found.drives.get_mut(found.drive_count) {
            *place = drive;
            found.drive_count += 1;
        }
    }
}

/// Allocates `bytes`, aligned to their size: the bus address, and the processor's if it can reach
/// it.
fn take(window: &mut (u64, u64, u64), bytes: u64) -> Option<(u64, usize)> {
    let (next, end, shift) = window;
    let start = next.checked_next_multiple_of(bytes)?;
    let after = start.checked_add(bytes)?;
    let registers = usize::try_from(start.wrapping_add(*shift)).ok()?;
    if after > *end || start == 0 {
        return None;
    }
    *next = after;
    Some((start, registers))
}
