//! Paths that need no drive: a file, and memory.

use super::{Bench, PLAIN, Target};
use crate::failure::{Failure, Result};
use block::{Buffer, Device, RamDisk};
use linux::{RingOptions, SyncFile, Uring};
use measure::{Counters, Missing, Path};
use std::rc::Rc;

/// Requests that the RAM disk takes.
const RAM_DEPTH: usize = 64;

/// A file, by one of three ways, or memory.
pub(super) struct PlainPath {
    bench: Rc<Bench>,
    name: &'static str,
    /// What further threads share, while a synchronous path is open.
    twin: Option<SyncFile>,
}

impl PlainPath {
    pub(super) fn new(bench: &Rc<Bench>, name: &'static str) -> Self {
        let bench = Rc::clone(bench);
        Self {
            bench,
            name,
            twin: None,
        }
    }

    fn open_device(&mut self) -> Result<Box<dyn Device>> {
        if self.name == "ram" {
            return self.ram();
        }
        let Target::File(file) = &self.bench.target else {
            return Err(Failure::unsupported("the device is no file").hint("file:PATH"));
        };
        if self.name == "file-io_uring" {
            let options = RingOptions {
                queue_depth: self.bench.queue_depth.clamp(1, 4096),
                ..RingOptions::default()
            };
            return Ok(Box::new(Uring::open(&self.bench.claim(file)?, &options)?));
        }
        let claim = self.bench.claim(file)?;
        let opened = match self.is_buffered() {
            true => SyncFile::open(&claim)?,
            false => SyncFile::open_direct(&claim)?,
        };
        self.twin = super::twin(&opened, file)?;
        Ok(Box::new(opened))
    }

    fn ram(&self) -> Result<Box<dyn Device>> {
        let bytes = self.bench.span_bytes;
        let too_large = || Failure::unsupported(format!("no memory for a disk of {bytes} bytes"));
        let len = usize::try_from(bytes).map_err(|_| too_large())?;
        let mut disk: Vec<u8> = Vec::new();
        disk.try_reserve_exact(len).map_err(|_| too_large())?;
        // Not zeroes alone: pages that were never written are one page to the kernel.
        disk.resize(len, 0x5a);
        let device = RamDisk::<_, RAM_DEPTH>::new(disk, 9)
            .map_err(|error| Failure::request("making the RAM disk", error))?;
        Ok(Box::new(device))
    }
}

impl Path for PlainPath {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&self) -> &str {
        PLAIN
    }

    fn polls(&self) -> bool {
        self.name == "ram"
    }

    fn is_buffered(&self) -> bool {
        self.name == "file-buffered"
    }

    fn queue_depth(&self) -> u16 {
        match self.name {
            "ram" => RAM_DEPTH as u16,
            "file-io_uring" => self.bench.queue_depth,
            _ => 1,
        }
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        Ok(self.open_device()?)
    }

    fn another(&mut self) -> Result<Box<dyn Device + Send>, Missing> {
        super::another(self.twin.as_ref())
    }

    fn close(&mut self, device: Box<dyn Device>) {
        self.twin = None;
        drop(device);
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        Ok(self.bench.allocate(len_bytes)?)
    }

    fn release(&mut self, buffer: Buffer) {
        // One of other memory stays out, which costs its memory and no more.
        let _ = self.bench.memory.give_back(buffer);
    }

    fn counters(&mut self) -> Counters {
        Counters::uncounted(match self.name {
            "ram" => "memory takes no commands",
            _ => "a file's commands cannot be told from those of others",
        })
    }
}
