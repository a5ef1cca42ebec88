// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open files of a mounted volume. All who have opened a file share the volume's one: it is open to
//! write if any of them writes.

use super::tail::Writer;
use ::volume::File;
use files::turns::{Gate, Inside, wait_for};
use std::cell::{Cell, RefCell};

/// A file that is open.
pub struct Open {
    /// One change at a time; a read of a file that is written is one, too.
    pub(super) gate: Gate,
    /// Reads that are not inside the gate.
    reading: Cell<u32>,
    /// Appends must not mix.
    pub(super) appends: Gate,
    /// The volume's; it is another one after each change of what it is open for.
    pub(super) file: Cell<File>,
    pub(super) uses: Cell<Uses>,
    /// What is written, while someone may write.
    pub(super) writer: RefCell<Option<Writer>>,
}

/// How often a file is open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// To read only.
    pub reads: u32,
    /// To write.
    pub writes: u32,
}

/// A read that is under way.
pub struct Reading<'a>(&'a Cell<u32>);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Open {
    /// A file that was just opened once.
    pub(super) fn new(file: File, writer: Option<Writer>, writes: bool) -> Self {
        let open = Self {
            gate: Gate::default(),
            reading: Cell::new(0),
            appends: Gate::default(),
            file: Cell::new(file),
            uses: Cell::default(),
            writer: RefCell::new(writer),
        };
        open.count(writes, 1);
        open
    }

    /// Waits until nothing else is under way.
    pub(super) async fn alone(&self) -> Inside<'_> {
        let inside = self.gate.enter().await;
        wait_for(|| (self.reading.get() == 0).then_some(())).await;
        inside
    }

    /// One more read outside the gate.
    pub(super) fn reading(&self) -> Reading<'_> {
        self.reading.set(self.reading.get() + 1);
        Reading(&self.reading)
    }

    /// Counts one more who has opened it, or one less.
    pub(super) fn count(&self, writes: bool, one: i32) {
        let mut uses = self.uses.get();
        let count = if writes {
            &mut uses.writes
        } else {
            &mut uses.reads
        };
        *count = count.saturating_add_signed(one);
        self.uses.set(uses);
    }
}
