// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller's access to memory: blocked, and counted, while it is isolated or removed.

use crate::memory::BusMemory;
use crate::violation::Access;

/// Each of the controller's accesses goes through here.
#[derive(Debug)]
pub(crate) struct Bus {
    memory: BusMemory,
    /// Bus Master Enable.
    pub(crate) isolated: bool,
    pub(crate) removed: bool,
    pub(crate) suppressed: u64,
}

impl Bus {
    pub(crate) fn new(memory: BusMemory) -> Self {
        Self {
            memory,
            isolated: false,
            removed: false,
            suppressed: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.isolated && !self.removed
    }

    /// The memory, if access is open; otherwise counts the attempt.
    pub(crate) fn memory(&mut self) -> Option<&BusMemory> {
        if !self.is_open() {
            self.suppressed += 1;
            return None;
        }
        Some(&self.memory)
    }

    pub(crate) fn read(&mut self, bus: u64, target: &mut [u8], access: Access) -> Option<()> {
        self.memory()?.read(bus, target, access)
    }

    pub(crate) fn write(&mut self, bus: u64, source: &[u8], access: Access) -> Option<()> {
        self.memory()?.write(bus, source, access)
    }

    pub(crate) fn load<const N: usize>(&mut self, bus: u64, access: Access) -> Option<[u32; N]> {
        self.memory()?.load(bus, access)
    }

    pub(crate) fn store<const N: usize>(
        &mut self,
        bus: u64,
        words: [u32; N],
        access: Access,
    ) -> Option<()> {
        self.memory()?.store(bus, words, access)
    }
}
