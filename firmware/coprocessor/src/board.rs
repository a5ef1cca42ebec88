// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The firmware's configuration from the machine's description: its window, the memory that the
//! drive may reach, which drive to use, and the mode. Every fixed number of a board is here or in
//! its linker script.

use core::ptr::NonNull;

use hardware::fdt::{self, Machine, Range};
use hardware::machine::RUNS;
use hardware::pci::{Address, Drive, Found};
use hardware::{log, machine, uart};
use interface::{Code, Window};

/// The memory node that is shared with the main CPU. The node before it is the coprocessor's own.
const WINDOW_NODE: usize = 1;
/// No firmware address is below this: excludes the null pointer.
const LOWEST: u64 = 4096;

/// The firmware's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Serve the main CPU.
    Serve,
    /// Read and write the whole drive and compare what was read.
    SelfTest,
    /// Only read, and compare.
    Verify,
    /// Measure sequential reads and writes.
    Benchmark,
    /// Serve the main CPU, and count instructions.
    #[cfg(feature = "check")]
    Count,
    /// Serve the application on the second hart.
    #[cfg(feature = "mapped")]
    Map,
}

/// The modes by their names. A table: a pattern of bytes would be compared byte by byte in line.
const MODES: &[(&[u8], Mode)] = &[
    (b"serve", Mode::Serve),
    (b"self-test", Mode::SelfTest),
    (b"verify", Mode::Verify),
    (b"benchmark", Mode::Benchmark),
    #[cfg(feature = "check")]
    (b"count", Mode::Count),
    #[cfg(feature = "mapped")]
    (b"map", Mode::Map),
];

/// The machine and its configuration.
#[derive(Debug)]
pub struct Board {
    /// The device tree's contents.
    pub machine: Machine,
    /// The mode.
    pub mode: Mode,
    /// The seed of the self-test's data.
    pub seed: u64,
    /// The drive accepts force unit access but ignores it, as some do: flush instead.
    pub ignores_fua: bool,
    drive: Option<Address>,
}

impl Board {
    /// Reads the device tree at `tree`, and starts the log and the timer.
    pub fn find(tree: usize) -> Result<Self, Code> {
        let start = NonNull::new(tree as *mut u8).ok_or(Code::BadMachine)?;
        // SAFETY: the boot protocol: a1 is the address of a device tree; its length is at most what
        // is read here, and all of it is memory.
        let blob = unsafe { core::slice::from_raw_parts(start.as_ptr(), 8) };
        let total = blob
            .get(4..8)
            .and_then(|word| word.try_into().ok())
            .map(u32::from_be_bytes);
        let total = total.unwrap_or(0) as usize;
        if total > fdt::MAX_BYTES {
            return Err(Code::BadMachine);
        }
        // SAFETY: as above, now with its length.
        let blob = unsafe { core::slice::from_raw_parts(start.as_ptr(), total) };
        let machine = fdt::parse(blob).ok_or(Code::BadMachine)?;
        uart::set(machine.uart.start as usize);
        machine::begin(&machine);
        let window = machine.memory.get(WINDOW_NODE).copied().unwrap_or_default();
        let reachable = usize::try_from(window.end()).is_ok();
        if window.start < LOWEST || window.start % 4096 != 0 || !reachable {
            log!(
                "failed: no memory node #, or out of reach",
                WINDOW_NODE as u64
            );
            return Err(Code::BadMachine);
        }
        let mut board = Self {
            machine,
            mode: Mode::Serve,
            seed: 1,
            ignores_fua: false,
            drive: None,
        };
        board.take_orders();
        Ok(board)
    }

    /// `mode=WORD seed=N drive=BUS:DEVICE.FUNCTION fua=off`, in any order; unknown words are
    /// logged.
    fn take_orders(&mut self) {
        let (bytes, len) = self.machine.arguments;
        let text = bytes.get(..len).unwrap_or_default();
        for word in text
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty())
        {
            let is_known = if let Some(mode) = word.strip_prefix(b"mode=") {
                self.take_mode(mode)
            } else if let Some(digits) = word.strip_prefix(b"seed=") {
                self.seed = digits.iter().fold(0, |sum: u64, digit| {
                    sum.wrapping_mul(10)
                        .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
                });
                true
            } else if let Some(drive) = word.strip_prefix(b"drive=") {
                self.drive = parse_address(drive);
                self.drive.is_some()
            } else if let Some(fua) = word.strip_prefix(b"fua=") {
                self.ignores_fua = fua == b"off";
                self.ignores_fua || fua == b"on"
            } else {
                is_of_contexts(word)
            };
            if !is_known {
                log!("not understood: #", word);
            }
        }
    }

    /// The boot arguments.
    #[cfg(feature = "mapped")]
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, len) = &self.machine.arguments;
        let text = bytes.get(..*len).unwrap_or_default();
        text.split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty())
    }

    fn take_mode(&mut self, word: &[u8]) -> bool {
        let found = MODES.iter().find(|(name, _)| *name == word);
        self.mode = found.map_or(self.mode, |(_, mode)| *mode);
        found.is_some()
    }

    /// The memory that is shared with the main CPU.
    pub fn window(&self) -> Window {
        let range = self
            .machine
            .memory
            .get(WINDOW_NODE)
            .copied()
            .unwrap_or_default();
        let start = NonNull::new(range.start as usize as *mut u8).unwrap_or(NonNull::dangling());
        // SAFETY: a separate memory node that holds nothing of the firmware; checked by `find` to
        // begin at a page and to be in reach.
        unsafe { Window::new(start, range.bytes as usize) }
    }

    /// The memory that the drive may reach: the firmware's own, the board's memory for queues and
    /// buffers, and the window. Adjacent ranges are merged; empty ones are dropped.
    pub fn reach(&self) -> [Range; RUNS] {
        unsafe extern "C" {
            static __own_start: u8;
            static __own_end: u8;
            static __queues_start: u8;
            static __queues_end: u8;
            static __buffers_start: u8;
            static __buffers_end: u8;
        }
        let between = |start: *const u8, end: *const u8| Range {
            start: start as u64,
            bytes: (end as u64).saturating_sub(start as u64),
        };
        let window = self.machine.memory.get(WINDOW_NODE).copied();
        let mut runs = [
            window.unwrap_or_default(),
            between(&raw const __own_start, &raw const __own_end),
            between(&raw const __queues_start, &raw const __queues_end),
            between(&raw const __buffers_start, &raw const __buffers_end),
        ];
        join(&mut runs);
        runs
    }

    /// The selected drive.
    pub fn choose<'f>(&self, found: &'f Found) -> Result<&'f Drive, Code> {
        let drives = found.drives.get(..found.drive_count).unwrap_or_default();
        match (drives, self.drive) {
            ([], _) => Err(Code::NoDrive),
            (_, Some(address)) => {
                let chosen = drives.iter().find(|drive| drive.address == address);
                chosen.ok_or(Code::NoDrive)
            }
            ([only], None) => Ok(only),
            (several, None) => {
                for drive in several {
                    let address = u64::from(drive.address.0);
                    log!(
                        "a drive at bus #, device #, function #",
                        address >> 8,
                        address >> 3 & 31,
                        address & 7
                    );
                }
                Err(Code::SeveralDrives)
            }
        }
    }
}

/// Whether `mapped` reads this word.
#[cfg(feature = "mapped")]
fn is_of_contexts(word: &[u8]) -> bool {
    word.starts_with(b"context=") || word.starts_with(b"frames=")
}

#[cfg(not(feature = "mapped"))]
#[inline(always)]
const fn is_of_contexts(_: &[u8]) -> bool {
    false
}

/// Merges adjacent ranges; the first of them grows, the others become empty.
fn join(runs: &mut [Range; RUNS]) {
    // Each iteration empties one of them.
    while let Some((first, second, both)) = touching(runs) {
        if let Some(place) = runs.get_mut(second) {
            *place = Range::default();
        }
        if let Some(place) = runs.get_mut(first) {
            *place = both;
        }
    }
}

/// Two adjacent ranges, and their union.
fn touching(runs: &[Range; RUNS]) -> Option<(usize, usize, Range)> {
    for (second, other) in runs.iter().enumerate() {
        for (first, one) in runs.iter().enumerate().take(second) {
            let touch = one.start <= other.end() && other.start <= one.end();
            if touch && one.bytes > 0 && other.bytes > 0 {
                let start = one.start.min(other.start);
                let bytes = one.end().max(other.end()) - start;
                return Some((first, second, Range { start, bytes }));
            }
        }
    }
    None
}

/// `BUS:DEVICE.FUNCTION` in hexadecimal.
fn parse_address(text: &[u8]) -> Option<Address> {
    let mut parts = text.split(|&byte| byte == b':' || byte == b'.');
    let mut number = |most: u32| {
        let part = parts.next().filter(|part| (1..=4).contains(&part.len()))?;
        let mut value = 0;
        for &byte in part {
            value = value << 4 | char::from(byte).to_digit(16)?;
        }
        (value <= most).then_some(value as u16)
    };
    Some(Address(number(255)? << 8 | number(31)? << 3 | number(7)?))
}

/// The status for a client if the drive could not be set up.
pub fn code(error: &nvme::Error) -> Code {
    match error {
        nvme::Error::NotReady { .. } | nvme::Error::TimedOut { .. } => Code::NotReady,
        nvme::Error::NoNamespace { .. } => Code::NoDrive,
        _ => Code::Unusable,
    }
}

/// The same for the log.
pub fn reason(error: &nvme::Error) -> &'static str {
    match error {
        nvme::Error::Gone => "the controller does not answer",
        nvme::Error::Fatal => "the controller reports a fatal error",
        nvme::Error::NotReady { .. } => "CSTS.RDY did not change in time",
        nvme::Error::TimedOut { .. } => "an admin command got no answer in time",
        nvme::Error::Status { .. } => "an admin command failed",
        nvme::Error::Unsupported(_) => "the controller lacks something that the driver needs",
        nvme::Error::Memory { .. } => {
            "the driver's memory is too short, or out of the drive's reach"
        }
        nvme::Error::NoNamespace { .. } => "there is no active namespace",
        _ => "the controller could not be used",
    }
}
