//! The straight path: by polling, and by interrupt.

use super::kernel::raw_region;
use super::{Bench, STRAIGHTWAY, Target, counters};
use crate::failure::{Failure, Result};
use crate::path::straight::DEPTH;
use block::{Buffer, Device, Geometry};
use measure::{Counters, Missing, Path, Region};
use nvme::CompletionMode;
use std::rc::Rc;

/// The driver in user space.
pub(super) struct StraightPath {
    bench: Rc<Bench>,
    name: &'static str,
    mode: CompletionMode,
}

impl StraightPath {
    /// The path of this name, if it is one of the two.
    pub(super) fn new(bench: &Rc<Bench>, name: &'static str) -> Option<Self> {
        let mode = match name {
            "straightway-poll" => CompletionMode::Poll,
            "straightway-interrupt" => CompletionMode::Interrupt,
            _ => return None,
        };
        let bench = Rc::clone(bench);
        Some(Self { bench, name, mode })
    }

    fn open_queue(&self) -> Result<Box<dyn Device>> {
        let rig = self.bench.rig.borrow();
        let rig = rig
            .as_ref()
            .ok_or_else(|| Failure::missing("the controller is not ours"))?;
        if !self.polls() && !rig.has_interrupts() {
            return Err(Failure::unsupported(
                "without an IOMMU there are no interrupts in user space",
            )
            .hint("switch the IOMMU on; straightway doctor tells how"));
        }
        let namespace = match &self.bench.target {
            Target::Nvme { namespace, .. } => *namespace,
            _ => 1,
        };
        rig.open_queue(namespace, self.mode)
    }
}

impl Path for StraightPath {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&self) -> &str {
        STRAIGHTWAY
    }

    fn polls(&self) -> bool {
        self.mode == CompletionMode::Poll
    }

    fn queue_depth(&self) -> u16 {
        DEPTH as u16
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        Ok(self.open_queue()?)
    }

    fn region(&self, geometry: &Geometry) -> Region {
        raw_region(&self.bench, geometry)
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        let rig = self.bench.rig.borrow();
        match rig.as_ref() {
            Some(rig) => Ok(rig.memory().allocate(len_bytes)?),
            None => Err(Failure::missing("the controller is not ours").into()),
        }
    }

    fn release(&mut self, buffer: Buffer) {
        if let Some(rig) = self.bench.rig.borrow().as_ref() {
            rig.memory().give_back(buffer);
        }
    }

    fn counters(&mut self) -> Counters {
        let address = match &self.bench.target {
            Target::Nvme { resolved, .. } => Some(resolved.controller.address.to_string()),
            _ => None,
        };
        match self.bench.rig.borrow().as_ref() {
            Some(rig) => counters::of_rig(rig.as_ref(), address.as_deref(), self.polls()),
            None => Counters::uncounted("the controller is not ours"),
        }
    }
}
