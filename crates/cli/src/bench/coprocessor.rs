//! The path through a storage coprocessor: the drive is its own, so the stretch is a part of that.

use super::{Bench, COPROCESSOR, Plan};
use crate::failure::{Failure, Result};
use block::{Buffer, Device, Geometry};
use linux::coprocessor::CoprocessorOptions;
use linux::{Coprocessor, DmaMemory};
use measure::{Counters, Missing, Path, Region};
use std::rc::Rc;

/// Commands that one client may have under way.
const DEPTH: u16 = coprocessor::layout::CREDITS as u16;

/// The path, and its session's memory while it is open.
pub(super) struct CoprocessorPath {
    bench: Rc<Bench>,
    memory: Option<DmaMemory>,
}

impl CoprocessorPath {
    pub(super) fn new(bench: &Rc<Bench>) -> Self {
        Self {
            bench: Rc::clone(bench),
            memory: None,
        }
    }

    fn open_device(&mut self) -> Result<Coprocessor> {
        let window = self.bench.window.as_ref().ok_or_else(|| {
            Failure::missing("no coprocessor was named").hint("--coprocessor FILE, its window")
        })?;
        let options = CoprocessorOptions {
            write: self.bench.destroys,
            poll: true,
        };
        let device = Coprocessor::open(window, options)?;
        self.memory = Some(device.memory().clone());
        Ok(device)
    }
}

impl Path for CoprocessorPath {
    fn name(&self) -> &str {
        COPROCESSOR
    }

    fn group(&self) -> &str {
        COPROCESSOR
    }

    fn polls(&self) -> bool {
        true
    }

    fn queue_depth(&self) -> u16 {
        DEPTH
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        Ok(Box::new(self.open_device()?))
    }

    fn close(&mut self, device: Box<dyn Device>) {
        drop(device);
        self.memory = None;
    }

    fn region(&self, geometry: &Geometry) -> Region {
        let plan = Plan::new(geometry.size_bytes(), self.bench.span_bytes, 0);
        Region {
            first_lba: plan.raw_offset_bytes >> geometry.block_size_log2,
            block_count: plan.span_bytes >> geometry.block_size_log2,
        }
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        match &self.memory {
            Some(memory) => memory
                .allocate(len_bytes)
                .map_err(|error| Failure::from(error).into()),
            None => Err(Failure::missing("the coprocessor's session is closed").into()),
        }
    }

    fn release(&mut self, buffer: Buffer) {
        linux::coprocessor::give_back_to(self.memory.as_ref(), buffer);
    }

    fn counters(&mut self) -> Counters {
        Counters::uncounted("the drive's health log is the coprocessor's own")
    }
}
