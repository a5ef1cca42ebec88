//! The paths through CharIO's driver: plain, polled, with registered memory, with a window's.

use super::kernel::raw_region;
use super::{Bench, CHARIO, Target, counters};
use crate::failure::{Failure, Result};
use crate::path::chario::{borrow, node};
use crate::path::held::Held;
use block::{Buffer, Device, Geometry};
use linux::chario::{Window, windows};
use linux::resolve::Resolved;
use linux::{Chario, CharioOptions, DmaMemory};
use measure::{Counters, Missing, Path, Region};
use std::path::PathBuf;
use std::rc::Rc;

/// One path through CharIO's driver.
pub(super) struct CharioPath {
    bench: Rc<Bench>,
    name: &'static str,
    /// Of the window, while the path with physical addresses is open.
    window_memory: Option<DmaMemory>,
    /// What buffers of the window's memory are aligned to.
    align_bytes: usize,
}

/// Gives the drive to CharIO's driver.
pub(super) fn take(bench: &Bench) -> Result<()> {
    let loan = borrow(&bench.roots, namespace_of(bench)?.0)?;
    *bench.loan.borrow_mut() = loan;
    Ok(())
}

fn namespace_of(bench: &Bench) -> Result<(&Resolved, u32)> {
    match &bench.target {
        Target::Nvme {
            resolved,
            namespace,
        } => Ok((resolved, *namespace)),
        _ => Err(Failure::unsupported(
            "this drive is not known to the kernel",
        )),
    }
}

impl CharioPath {
    pub(super) fn new(bench: &Rc<Bench>, name: &'static str) -> Self {
        Self {
            bench: Rc::clone(bench),
            name,
            window_memory: None,
            align_bytes: 1,
        }
    }

    fn node(&self) -> Result<PathBuf> {
        let (resolved, namespace) = namespace_of(&self.bench)?;
        node(&self.bench.roots, resolved, Some(namespace))
    }

    fn is_phys(&self) -> bool {
        self.name == "chario-phys"
    }

    fn open_device(&mut self) -> Result<Box<dyn Device>> {
        let node = self.node()?;
        let path = self.bench.roots.dev.join(&node);
        let registered = self.name == "chario-registered";
        let options = CharioOptions {
            poll: self.polls(),
            registered: registered.then(|| self.bench.memory.clone()),
        };
        let claim = self.bench.claim(&path)?;
        let loan = self.bench.loan.borrow().clone();
        let device = Held::open(loan, || {
            if !self.is_phys() {
                return Ok(Chario::open(&claim, &options)?);
            }
            let window = self.window(&node)?;
            let (device, memory) = Chario::open_window(&claim, &options, window)?;
            self.window_memory = Some(memory);
            self.align_bytes = device.geometry().buffer_align_bytes as usize;
            Ok(device)
        })?;
        Ok(Box::new(device))
    }

    fn window(&self, node: &std::path::Path) -> Result<Window> {
        let needed = self.bench.buffer_bytes as u64;
        let name = node.to_string_lossy();
        let mut all = windows(&self.bench.roots, &name).into_iter();
        let found = all.find(|window| window.length_bytes >= needed);
        found.ok_or_else(|| {
            Failure::unsupported(format!(
                "no window of {needed} bytes of physical memory is granted"
            ))
            .hint(
                "boot with memmap=64M$0x20000000, then: \
                 insmod chario.ko windows=0x20000000:64M",
            )
        })
    }
}

impl Path for CharioPath {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&self) -> &str {
        CHARIO
    }

    fn polls(&self) -> bool {
        self.name == "chario-poll"
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        Ok(self.open_device()?)
    }

    fn close(&mut self, device: Box<dyn Device>) {
        drop(device);
        self.window_memory = None;
    }

    fn region(&self, geometry: &Geometry) -> Region {
        raw_region(&self.bench, geometry)
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        match &self.window_memory {
            Some(memory) => {
                let buffer = memory.aligned_to(self.align_bytes).allocate(len_bytes);
                buffer.map_err(|error| Failure::from(error).into())
            }
            None => Ok(self.bench.allocate(len_bytes)?),
        }
    }

    fn release(&mut self, buffer: Buffer) {
        // One of other memory stays out, which costs its memory and no more.
        let _ = match &self.window_memory {
            Some(memory) => memory.give_back(buffer),
            None => self.bench.memory.give_back(buffer),
        };
    }

    fn counters(&mut self) -> Counters {
        match self.node() {
            Ok(node) => counters::of_chario(&self.bench.roots, &node.to_string_lossy()),
            Err(failure) => Counters::uncounted(failure.to_string()),
        }
    }
}
