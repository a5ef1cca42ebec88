// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A board with the file system in hardware (`rtl/hwfs_axi`), through a UIO device: its registers,
//! its interrupt, and a buffer in memory that its DMA reaches.
//!
//! The device has two memory maps, as `uio_pdrv_genirq` makes them of a device-tree node with two
//! `reg` entries: map 0 is the registers, map 1 the buffer, reserved from Linux. The kernel maps
//! both uncached, so no cache needs maintenance.

use crate::sys::map::{Mapping, Mmio};
use crate::{Error, Result, Roots, sysfs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The registers of a front, in bytes.
const REGISTER_BYTES: u64 = 4096;
/// The smallest buffer that a front can use, in bytes: an entry of the volume's table.
const MIN_BUFFER_BYTES: u64 = 80;
/// The longest wait for a command. The core ends each within its own time-out; this one is for
/// memory that never answers.
const LIMIT: Duration = Duration::from_secs(60);

/// A UIO device with the registers, the interrupt and the buffer of a front.
#[derive(Debug)]
pub struct Uio {
    registers: Mmio,
    buffer: Mmio,
    buffer_address: u64,
    /// Reads give the number of interrupts so far; a write of 1 enables the next one.
    interrupt: File,
    limit: Duration,
}

/// A memory map of a UIO device, from sysfs.
struct Map {
    address: u64,
    bytes: u64,
}

impl Uio {
    /// Opens the UIO device at `path` (`/dev/uio0`), for this process alone.
    ///
    /// # Errors
    /// It is not a UIO device with two suitable memory maps, or another process uses it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(&Roots::system(), path)
    }

    fn open_in(roots: &Roots, path: &Path) -> Result<Self> {
        let bad = |why| Error::BadName {
            name: path.display().to_string(),
            why,
        };
        let name = path.file_name().unwrap_or_default();
        let maps = roots.sys.join("class/uio").join(name).join("maps");
        let registers = map_of(&maps.join("map0"))
            .ok_or(bad("it is not a UIO device whose map 0 begins at a page"))?;
        let buffer = map_of(&maps.join("map1")).ok_or(bad(
            "its map 1, the buffer, is missing or does not begin at a page",
        ))?;
        if registers.bytes < REGISTER_BYTES {
            return Err(bad("its map 0 is shorter than the 4 KiB of registers"));
        }
        if buffer.bytes < MIN_BUFFER_BYTES || buffer.bytes % 4 != 0 {
            return Err(bad(
                "its map 1, the buffer, is not a multiple of 4 bytes and at least 80",
            ));
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| Error::io("opening", path, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::InUse {
                    device: path.display().to_string(),
                    reasons: vec!["another process uses the file system in hardware".into()],
                });
            }
            Err(source) => return Err(Error::io("locking", path, source)),
        }
        let mapped = |number: u64, bytes: u64| {
            // A UIO device's map N begins at page N of its file.
            let offset = number * rustix::param::page_size() as u64;
            let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let mapping = Mapping::device(&file, offset, bytes)?;
            Mmio::new(mapping).ok_or_else(|| io::ErrorKind::InvalidInput.into())
        };
        let mapped = |number, bytes| {
            mapped(number, bytes).map_err(|source: io::Error| Error::io("mapping", path, source))
        };
        Ok(Self {
            registers: mapped(0, REGISTER_BYTES)?,
            buffer: mapped(1, buffer.bytes)?,
            buffer_address: buffer.address,
            interrupt: file,
            limit: LIMIT,
        })
    }

    /// Waits until the interrupt's file has something to read.
    fn await_interrupt(&self) -> io::Result<()> {
        let until = Instant::now() + self.limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut event = [PollFd::new(&self.interrupt, PollFlags::IN)];
            match poll(&mut event, Some(&timeout)) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "no interrupt from the file system in hardware",
                    ));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A map that begins at a page, and its first byte's physical address.
fn map_of(folder: &Path) -> Option<Map> {
    let address = sysfs::hex(&folder.join("addr"))?;
    let bytes = sysfs::hex(&folder.join("size"))?;
    let offset = sysfs::hex(&folder.join("offset"))?;
    (offset == 0).then_some(Map { address, bytes })
}

fn out_of_range(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what} is out of range"),
    )
}

impl hwfs::Board for Uio {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        // A bus that refuses an access faults on most boards; `Front` makes none that the registers
        // refuse.
        Ok(self.registers.read32(register as usize))
    }

    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        self.registers.write32(register as usize, value);
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        // The interrupt is a level: enabled after it was raised, it is seen as well.
        self.interrupt.write_all(&1_u32.to_ne_bytes())?;
        self.await_interrupt()?;
        self.interrupt.read_exact(&mut [0; 4])
    }

    fn buffer_address(&self) -> u64 {
        self.buffer_address
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        if bytes.len() > self.buffer.len() {
            return Err(out_of_range("a read of the buffer"));
        }
        for (index, part) in bytes.chunks_mut(4).enumerate() {
            let word = self.buffer.read32(4 * index).to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.buffer.len() {
            return Err(out_of_range("a write of the buffer"));
        }
        for (index, part) in bytes.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            self.buffer.write32(4 * index, u32::from_le_bytes(word));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
