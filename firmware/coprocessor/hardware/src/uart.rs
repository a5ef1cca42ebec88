//! The log: words and numbers on the UART (16550), without the weight of `core::fmt`.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The registers' address; none before the device tree was read.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);
const STATUS: usize = 5;
const CAN_TAKE: u8 = 1 << 5;
/// Looks at a transmitter that takes nothing; then the byte is dropped.
const PATIENCE: u32 = 1 << 20;

/// Where the UART is from now on.
pub fn set(registers: usize) {
    REGISTERS.store(registers, Ordering::Relaxed);
}

fn put(byte: u8) {
    let registers = REGISTERS.load(Ordering::Relaxed);
    if registers == 0 {
        return;
    }
    for _ in 0..PATIENCE {
        // SAFETY: the device tree names eight byte-wide registers there.
        let status = unsafe { ((registers + STATUS) as *const u8).read_volatile() };
        if status & CAN_TAKE != 0 {
            // SAFETY: as above; the first is the transmitter.
            unsafe { (registers as *mut u8).write_volatile(byte) };
            return;
        }
    }
}

/// What can stand in a line of the log.
pub enum Part<'t> {
    /// Words.
    Text(&'t str),
    /// Bytes that should be text; what does not print becomes a dot.
    Bytes(&'t [u8]),
    /// A decimal number.
    Number(u64),
    /// A hexadecimal number.
    Hex(u64),
}

/// Writes a line.
#[inline(never)]
pub fn log(parts: &[Part<'_>]) {
    for part in parts {
        match part {
            Part::Text(text) => text.bytes().for_each(put),
            Part::Bytes(bytes) => bytes.iter().for_each(|&byte| {
                put(if (32..127).contains(&byte) {
                    byte
                } else {
                    b'.'
                });
            }),
            Part::Number(number) => digits(*number, 10),
            Part::Hex(number) => {
                put(b'0');
                put(b'x');
                digits(*number, 16);
            }
        }
    }
    put(b'\r');
    put(b'\n');
}

fn digits(mut number: u64, base: u64) {
    let mut text = [0u8; 20];
    let mut used = 0;
    for place in text.iter_mut().rev() {
        let digit = (number % base) as u8;
        *place = if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        };
        number /= base;
        used += 1;
        if number == 0 {
            break;
        }
    }
    let len = text.len();
    text.iter().skip(len - used).for_each(|&byte| put(byte));
}

/// A line of words and numbers: `log!("a ", 1, " b")`.
#[macro_export]
macro_rules! log {
    ($($part:expr),+ $(,)?) => {
        $crate::uart::log(&[$($crate::uart::Part::from($part)),+])
    };
}

impl<'t> From<&'t str> for Part<'t> {
    fn from(text: &'t str) -> Self {
        Part::Text(text)
    }
}

impl<'t> From<&'t [u8]> for Part<'t> {
    fn from(bytes: &'t [u8]) -> Self {
        Part::Bytes(bytes)
    }
}

impl From<u64> for Part<'_> {
    fn from(number: u64) -> Self {
        Part::Number(number)
    }
}

impl From<u32> for Part<'_> {
    fn from(number: u32) -> Self {
        Part::Number(u64::from(number))
    }
}
