// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log: words and numbers on the UART (16550), without the weight of `core::fmt`.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The registers' address; zero before the device tree was read.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);
const STATUS: usize = 5;
const CAN_TAKE: u8 = 1 << 5;
/// Checks of a busy transmitter before a byte is dropped.
const PATIENCE: u32 = 1 << 20;

/// Sets the UART's address.
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

/// A value in a line of the log.
pub enum Part<'t> {
    /// Bytes that should be text; unprintable ones become dots.
    Text(&'t [u8]),
    /// A number: decimal, or hexadecimal after `0x`.
    Number(u64),
}

/// Writes a line: `text`, with each `#` replaced by the next of `parts`. A number after `0x` is
/// hexadecimal. One string and its numbers take a third of the code of a list of both.
#[inline(never)]
pub fn log(text: &str, parts: &[Part<'_>]) {
    let mut parts = parts.iter();
    let mut before = 0;
    for byte in text.bytes() {
        match (byte, parts.as_slice().first()) {
            (b'#', Some(part)) => {
                match part {
                    Part::Text(bytes) => bytes.iter().for_each(|&byte| {
                        put(if (32..127).contains(&byte) {
                            byte
                        } else {
                            b'.'
                        });
                    }),
                    Part::Number(number) => digits(*number, if before == b'x' { 16 } else { 10 }),
                }
                parts.next();
            }
            _ => put(byte),
        }
        before = byte;
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

/// A line of the log: `log!("window # bytes at 0x#", len, address)`.
#[macro_export]
macro_rules! log {
    ($text:expr $(, $part:expr)* $(,)?) => {
        $crate::uart::log($text, &[$($crate::uart::Part::from($part)),*])
    };
}

impl<'t> From<&'t str> for Part<'t> {
    fn from(text: &'t str) -> Self {
        Part::Text(text.as_bytes())
    }
}

impl<'t> From<&'t [u8]> for Part<'t> {
    fn from(bytes: &'t [u8]) -> Self {
        Part::Text(bytes)
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
