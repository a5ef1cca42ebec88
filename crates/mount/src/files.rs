// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's files, as the kernel uses them: what the operations on them share.

use super::answers::Answers;
use super::open::Open;
use super::tree::{Number, SharedTree};
use ::volume::{Error, Removed};
use block::Buffer;
use devices::error::Result;
use files::Mounted;
use files::moves::{Moves, WHOLE_CHUNKS_BYTES};
use files::turns::{Gate, wait_for};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The longest read of the kernel, and the longest write to the volume.
pub const MOVE_BYTES: usize = 1 << 20;
/// A buffer: such a read, in whole chunks that have checksums.
const BUFFER_BYTES: usize = MOVE_BYTES + WHOLE_CHUNKS_BYTES;
/// Reads and writes under way.
const BUFFERS: usize = 16;
/// Memory for all buffers.
pub const MEMORY_BYTES: u64 = (BUFFERS * BUFFER_BYTES) as u64;

/// The result of an operation on the volume.
pub type Done<T> = std::result::Result<T, Error>;

/// The volume's files, as the kernel uses them.
pub struct Files<'m, 'v, 'a> {
    pub(super) mounted: &'m Mounted<'v, 'a>,
    pub(super) tree: &'m SharedTree,
    pub(super) moves: Moves<'v, 'a>,
    pub(super) open: RefCell<HashMap<Number, Rc<Open>>>,
    /// What changes `open` or a name.
    pub(super) names: Gate,
    buffers: RefCell<Vec<Buffer>>,
    /// Has the buffers that the kernel copies.
    pub(super) answers: Answers,
    /// Slots of the volume that have no place in the tree.
    pub(super) hidden: u64,
    /// Changes of the space so far.
    pub(super) changes: Cell<u64>,
    /// Changes, and the free units after them.
    pub(super) known_free: Cell<Option<(u64, u64)>>,
    /// Removed files whose space is not free yet.
    pub(super) removed: RefCell<Vec<Removed>>,
    /// The first failure of the end.
    pub(super) failure: Cell<Option<Error>>,
}

impl<'m, 'v, 'a> Files<'m, 'v, 'a> {
    /// No file is open. `hidden` slots of the volume have no place in the tree.
    ///
    /// # Errors
    /// There is no memory for buffers.
    pub(super) fn new(
        mounted: &'m Mounted<'v, 'a>,
        tree: &'m SharedTree,
        hidden: u64,
    ) -> Result<Self> {
        let mut buffers = Vec::new();
        for _ in 0..BUFFERS {
            match mounted.memory.allocate(BUFFER_BYTES) {
                Ok(buffer) => buffers.push(buffer),
                Err(failure) => {
                    buffers
                        .into_iter()
                        .for_each(|buffer| mounted.memory.give_back(buffer));
                    return Err(failure);
                }
            }
        }
        Ok(Self {
            mounted,
            tree,
            moves: Moves::new(mounted.volume),
            open: RefCell::default(),
            names: Gate::default(),
            buffers: RefCell::new(buffers),
            answers: Answers::new(),
            hidden,
            changes: Cell::new(0),
            known_free: Cell::new(None),
            removed: RefCell::default(),
            failure: Cell::new(None),
        })
    }

    /// Gives the memory back.
    pub(super) fn release(self) {
        for buffer in self.answers.end().chain(self.buffers.take()) {
            self.mounted.memory.give_back(buffer);
        }
    }

    /// An open file.
    pub(super) fn opened(&self, number: Number) -> Done<Rc<Open>> {
        self.open
            .borrow()
            .get(&number)
            .cloned()
            .ok_or(Error::NotOpen)
    }

    /// The name of a file in the volume.
    pub(super) fn name(&self, number: Number) -> Done<String> {
        let name = self
            .tree
            .with(|tree| tree.file(number).map(|facts| facts.name.clone()));
        name.ok_or(Error::NotFound)
    }

    /// Waits for a buffer.
    pub(super) async fn buffer(&self) -> Buffer {
        wait_for(|| {
            let mut buffers = self.buffers.borrow_mut();
            buffers.extend(self.answers.answered());
            if buffers.is_empty() && self.mounted.volume.outstanding() == 0 {
                buffers.extend(self.answers.next_answered());
            }
            buffers.pop()
        })
        .await
    }

    /// Gives a buffer back, unless the device has kept it.
    pub(super) fn give_back(&self, buffer: Option<Buffer>) {
        self.buffers.borrow_mut().extend(buffer);
    }

    /// The free space has changed.
    pub(super) fn space_changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }
}
