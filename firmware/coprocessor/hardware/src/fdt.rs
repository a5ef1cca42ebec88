// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's device tree (Devicetree specification, "Flattened Devicetree Format"): reads the
//! few properties that the firmware needs, and keeps nothing of the rest.
//!
//! The blob is not trusted to be well formed: each read is checked, the walk has no recursion, and
//! its length is bounded by the blob's.

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
/// The properties that are read: a node's names and type, its registers and bus windows, its
/// number; the processors' timer; the boot arguments.
const PROPERTIES: [&[u8]; 7] = [
    b"compatible",
    b"device_type",
    b"reg",
    b"ranges",
    b"numa-node-id",
    b"timebase-frequency",
    b"bootargs",
];
/// The longest blob that is accepted.
pub const MAX_BYTES: usize = 2 << 20;
/// The most bytes of the boot arguments that are kept.
pub const ARGUMENT_BYTES: usize = 128;

/// A range of bus addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Range {
    /// The first address after it.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}

/// The machine according to the tree; a field is empty if the tree lacks it.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Memory by its node number, up to four.
    pub memory: [Range; 4],
    /// Ticks a second of the timer.
    pub timebase_hz: u32,
    /// The UART's registers (ns16550a).
    pub uart: Range,
    /// The core-local interruptor of hart 0.
    pub clint: Range,
    /// That of the second hart: QEMU gives each of its memory nodes one.
    #[cfg(feature = "second")]
    pub second_clint: Range,
    /// The word that resets the machine (sifive,test0).
    pub reset: Range,
    /// The configuration space of the root complex.
    pub ecam: Range,
    /// Its memory window below 4 GiB, as the processor addresses it and as the bus does.
    pub window32: (Range, u64),
    /// The memory window above 4 GiB.
    pub window64: (Range, u64),
    /// Boot arguments and their length.
    pub arguments: ([u8; ARGUMENT_BYTES], usize),
}

/// One node's properties, until its type is known.
#[derive(Clone, Copy, Default)]
struct Node<'t> {
    compatible: &'t [u8],
    device_type: &'t [u8],
    reg: &'t [u8],
    ranges: &'t [u8],
    numa: u32,
}

/// Reads the tree in `blob`; `None` if it is not a device tree.
pub fn parse(blob: &[u8]) -> Option<Machine> {
    let total = word(blob, 4)? as usize;
    if word(blob, 0)? != MAGIC || total > blob.len() {
        return None;
    }
    let blob = blob.get(..total)?;
    let (structure, strings) = (word(blob, 8)? as usize, word(blob, 12)? as usize);
    let mut machine = Machine {
        memory: [Range::default(); 4],
        timebase_hz: 0,
        uart: Range::default(),
        clint: Range::default(),
        #[cfg(feature = "second")]
        second_clint: Range::default(),
        reset: Range::default(),
        ecam: Range::default(),
        window32: Default::default(),
        window64: Default::default(),
        arguments: ([0; ARGUMENT_BYTES], 0),
    };
    let mut at = structure;
    let mut node = Node::default();
    loop {
        let token = word(blob, at)?;
        at += 4;
        match token {
            // A node's properties come before its children, so the node is complete at its first
            // child or its end.
            BEGIN_NODE => {
                machine.take(&node);
                node = Node::default();
                let name = blob.get(at..)?;
                at += (name.iter().position(|&byte| byte == 0)? + 4) & !3;
            }
            END_NODE => {
                machine.take(&node);
                node = Node::default();
            }
            PROPERTY => {
                let len = word(blob, at)? as usize;
                let name = strings.checked_add(word(blob, at + 4)? as usize)?;
                let value = blob.get(at + 8..(at + 8).checked_add(len)?)?;
                at += 8 + len.next_multiple_of(4);
                let rest = blob.get(name..)?;
                let end = rest.iter().position(|&byte| byte == 0)?;
                machine.property(&mut node, rest.get(..end)?, value);
            }
            NOP => {}
            _ => break,
        }
    }
    Some(machine)
}

impl Machine {
    fn property<'t>(&mut self, node: &mut Node<'t>, name: &[u8], value: &'t [u8]) {
        let number = word(value, 0).unwrap_or(0);
        // A byte-string pattern is compared inline byte by byte, which takes four times the code.
        let place = PROPERTIES.iter().position(|property| *property == name);
        match place {
            Some(0) => node.compatible = value,
            Some(1) => node.device_type = value,
            Some(2) => node.reg = value,
            Some(3) => node.ranges = value,
            Some(4) => node.numa = number,
            Some(5) => self.timebase_hz = number,
            Some(6) => {
                let (bytes, len) = &mut self.arguments;
                let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
                *len = text.len().min(bytes.len());
                bytes
                    .iter_mut()
                    .zip(text)
                    .for_each(|(place, byte)| *place = *byte);
            }
            _ => {}
        }
    }

    fn take(&mut self, node: &Node<'_>) {
        let Some(first) = range(node.reg, 0) else {
            return;
        };
        if node.device_type == b"memory\0" {
            if let Some(place) = self.memory.get_mut(node.numa as usize) {
                *place = first;
            }
        }
        #[cfg(feature = "second")]
        if is(node, b"riscv,clint0") && node.numa == 1 {
            self.second_clint = first;
        }
        if is(node, b"ns16550a") && self.uart.bytes == 0 {
            self.uart = first;
        } else if is(node, b"riscv,clint0") && node.numa == 0 {
            self.clint = first;
        } else if is(node, b"sifive,test0") {
            self.reset = first;
        } else if is(node, b"pci-host-ecam-generic") && self.ecam.bytes == 0 {
            self.ecam = first;
            self.take_windows(node.ranges);
        }
    }

    /// Three cells of bus address, two of processor address, two of length (PCI Bus Binding).
    fn take_windows(&mut self, ranges: &[u8]) {
        for entry in ranges.chunks_exact(28) {
            let (Some(kind), Some(bus)) = (word(entry, 0), double(entry, 4)) else {
                continue;
            };
            let Some(range) = range(entry, 12) else {
                continue;
            };
            match kind >> 24 & 3 {
                2 => self.window32 = (range, bus),
                3 => self.window64 = (range, bus),
                _ => {}
            }
        }
    }
}

/// Whether the node's list of names contains this one.
fn is(node: &Node<'_>, name: &[u8]) -> bool {
    node.compatible
        .split(|&byte| byte == 0)
        .any(|one| one == name)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    let high = u64::from(word(bytes, at)?);
    Some(high << 32 | u64::from(word(bytes, at + 4)?))
}

/// Two cells of address and two of length: as at the root of the supported machines.
fn range(bytes: &[u8], at: usize) -> Option<Range> {
    let (start, bytes) = (double(bytes, at)?, double(bytes, at + 8)?);
    Some(Range { start, bytes })
}
