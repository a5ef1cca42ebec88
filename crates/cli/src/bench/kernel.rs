//! The paths through the kernel: a file system, the block layer, io_uring, passthrough.

use super::filesystem::Mounted;
use super::{Bench, EXT4, KERNEL, counters};
use crate::failure::{Failure, Result};
use crate::path::kernel::open_passthrough;
use block::{Buffer, Device, Geometry};
use linux::{Claim, RingOptions, SyncFile, Uring};
use measure::{Counters, Missing, Path, Region};
use std::rc::Rc;

/// One path through the kernel.
pub(super) struct KernelPath {
    bench: Rc<Bench>,
    name: &'static str,
    /// What further threads share, while a synchronous path is open.
    twin: Option<SyncFile>,
}

impl KernelPath {
    pub(super) fn new(bench: &Rc<Bench>, name: &'static str) -> Self {
        let bench = Rc::clone(bench);
        Self {
            bench,
            name,
            twin: None,
        }
    }

    fn is_ext4(&self) -> bool {
        self.name.starts_with("ext4-")
    }

    fn is_ring(&self) -> bool {
        self.name.starts_with("io_uring") || self.name == "passthrough"
    }

    fn open_file(&mut self, claim: &Claim) -> Result<Box<dyn Device>> {
        let opened = match self.is_buffered() {
            true => SyncFile::open(claim)?,
            false => SyncFile::open_direct(claim)?,
        };
        self.twin = super::twin(&opened, claim.path())?;
        Ok(Box::new(opened))
    }

    fn open_device(&mut self) -> Result<Box<dyn Device>> {
        let bench = Rc::clone(&self.bench);
        if self.is_ext4() {
            let file = self.bench.mounted.borrow().as_ref().map(Mounted::file);
            let file = file.ok_or_else(|| Failure::missing("the file system is not mounted"))?;
            return self.open_file(&bench.claim(&file)?);
        }
        let nodes = self.bench.nodes()?;
        if !self.is_ring() {
            return self.open_file(&bench.claim(&nodes.block)?);
        }
        let options = RingOptions {
            queue_depth: self.bench.queue_depth.clamp(1, 4096),
            poll: self.polls(),
            register_file: true,
            // The plain ring is what a program has that does nothing special. Passthrough is
            // quicker unregistered than with pieces as long as the longest block.
            fixed_memory: self.polls().then(|| self.bench.memory.clone()),
            ..RingOptions::default()
        };
        if self.name != "passthrough" {
            let device = Uring::open(&bench.claim(&nodes.block)?, &options)?;
            return Ok(Box::new(device));
        }
        let path = nodes.character.ok_or_else(|| {
            Failure::unsupported("the namespace has no character device")
                .hint("use Linux 5.13 or later")
        })?;
        let (device, _) = open_passthrough(&bench.roots, &bench.claim(&path)?, options)?;
        Ok(Box::new(device))
    }
}

impl Path for KernelPath {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&self) -> &str {
        if self.is_ext4() { EXT4 } else { KERNEL }
    }

    fn polls(&self) -> bool {
        self.name == "io_uring-polled"
    }

    fn is_buffered(&self) -> bool {
        self.name.ends_with("-buffered")
    }

    fn queue_depth(&self) -> u16 {
        if self.is_ring() {
            self.bench.queue_depth
        } else {
            1
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

    fn region(&self, geometry: &Geometry) -> Region {
        match self.is_ext4() {
            true => Region::whole(geometry),
            false => raw_region(&self.bench, geometry),
        }
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        Ok(self.bench.allocate(len_bytes)?)
    }

    fn release(&mut self, buffer: Buffer) {
        // One of other memory stays out, which costs its memory and no more.
        let _ = self.bench.memory.give_back(buffer);
    }

    fn counters(&mut self) -> Counters {
        match self.bench.nodes() {
            Ok(nodes) => counters::of_kernel(&nodes),
            Err(failure) => Counters::uncounted(failure.to_string()),
        }
    }
}

/// The stretch that all raw paths share.
pub(super) fn raw_region(bench: &Bench, geometry: &Geometry) -> Region {
    Region {
        first_lba: bench.raw_offset_bytes >> geometry.block_size_log2,
        block_count: bench.span_bytes >> geometry.block_size_log2,
    }
}
