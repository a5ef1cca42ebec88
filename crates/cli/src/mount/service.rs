//! The thread that has mounted the volume: it has many of the kernel's requests under way.

use super::asks::{Ask, Space, errno};
use super::open::Open;
use super::tree::{Number, SharedTree};
use crate::failure::Result;
use crate::volume::moves::{Moves, WHOLE_CHUNKS_BYTES};
use crate::volume::turns::{Gate, wait_for};
use crate::volume::{Mounted, failed, service};
use ::volume::Error;
use block::Buffer;
use fuser::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};

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
    /// Slots of the volume that have no place in the tree.
    hidden: u64,
    /// Changes of the space so far.
    changes: Cell<u64>,
    /// Changes, and the free units after them.
    known_free: Cell<Option<(u64, u64)>>,
    /// A file was removed whose space may not be free yet.
    pub(super) has_removed: Cell<bool>,
    /// The first failure of the end.
    failure: Cell<Option<Error>>,
}

/// Serves requests until all senders have been dropped, or `must_end` says so. Then everything that was written is made durable.
///
/// # Errors
/// There is no memory for buffers, or something could not be made durable at the end.
pub fn serve(
    mounted: &Mounted<'_, '_>,
    tree: &SharedTree,
    hidden: u64,
    asks: &Receiver<Ask>,
    must_end: &dyn Fn() -> bool,
) -> Result<()> {
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
    let files = Files {
        mounted,
        tree,
        moves: Moves::new(mounted.volume),
        open: RefCell::default(),
        names: Gate::default(),
        buffers: RefCell::new(buffers),
        hidden,
        changes: Cell::new(0),
        known_free: Cell::new(None),
        has_removed: Cell::new(false),
        failure: Cell::new(None),
    };
    let begin = |ask: Ask| -> service::Job<'_> {
        let files = &files;
        Box::pin(async move { files.serve(ask).await })
    };
    let take_back = |event| files.moves.take_back(event);
    service::serve(mounted.volume, asks, must_end, &begin, &take_back);
    // The kernel does not wait for the last files to be closed.
    let (last, asked) = channel();
    if last.send(Ask::End).is_ok() {
        drop(last);
        service::serve(mounted.volume, &asked, &|| false, &begin, &take_back);
    }
    for buffer in files.buffers.take() {
        mounted.memory.give_back(buffer);
    }
    match files.failure.take() {
        Some(error) => Err(failed("writing what was not yet on the volume", error)),
        None => Ok(()),
    }
}

impl Files<'_, '_, '_> {
    async fn serve(&self, ask: Ask) {
        match ask {
            Ask::Open(number, writes, answer) => {
                answer(self.open(number, writes).await.map_err(errno));
            }
            Ask::Close(number, writes, answer) => {
                answer(self.close(number, writes).await.map_err(errno));
            }
            Ask::Read(number, offset, len, data) => {
                let (buffer, result) = self.read(number, offset, len).await;
                match (&buffer, result) {
                    (Some(buffer), Ok(range)) => data(buffer.get(range).ok_or(Errno::EIO)),
                    (_, Err(error)) => data(Err(errno(error))),
                    (None, Ok(_)) => data(Err(errno(Error::from(block::Error::Gone)))),
                }
                self.give_back(buffer);
            }
            Ask::Write(number, place, data, answer) => {
                self.write(number, place, &data, answer).await;
            }
            Ask::Commit(number, durable, answer) => {
                answer(self.commit(number, durable).await.map_err(errno));
            }
            Ask::Change(number, change, answer) => {
                answer(self.change(number, change).await.map_err(errno));
            }
            Ask::Reserve(number, end, answer) => {
                answer(self.reserve(number, end).await.map_err(errno));
            }
            Ask::Create(folder, name, is_new, answer) => {
                answer(self.create(folder, &name, is_new).await);
            }
            Ask::Remove(folder, name, answer) => answer(self.remove(folder, &name).await),
            Ask::Rename(renaming, answer) => answer(self.rename(&renaming).await),
            Ask::Space(answer) => answer(self.space().await.map_err(errno)),
            Ask::Save => self.save().await,
            Ask::End => self.end().await,
        }
    }

    /// Waits for a buffer.
    pub(super) async fn buffer(&self) -> Buffer {
        wait_for(|| self.buffers.borrow_mut().pop()).await
    }

    /// Gives a buffer back, unless the device has kept it.
    pub(super) fn give_back(&self, buffer: Option<Buffer>) {
        self.buffers.borrow_mut().extend(buffer);
    }

    /// The free space has changed.
    pub(super) fn space_changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    async fn space(&self) -> Done<Space> {
        let volume = self.mounted.volume;
        self.reclaim().await?;
        let changes = self.changes.get();
        let free = match self.known_free.get() {
            Some((then, free)) if then == changes => free,
            _ => {
                let free = volume.free_units().await?;
                self.known_free.set(Some((changes, free)));
                free
            }
        };
        let shape = volume.status().shape;
        let (unit_bytes, files) = (shape.unit_bytes(), u64::from(shape.slot_count()));
        let used = self.tree.with(|tree| tree.file_count()) + self.hidden;
        Ok(Space {
            capacity_bytes: shape.unit_count() * unit_bytes,
            free_bytes: free * unit_bytes,
            files,
            free_files: files.saturating_sub(used),
            unit_bytes,
        })
    }

    /// Frees the space of large files that were removed.
    async fn reclaim(&self) -> Done<()> {
        if self.has_removed.replace(false) {
            self.mounted.volume.reclaim_all().await?;
            self.space_changed();
        }
        Ok(())
    }

    /// Makes everything that was written durable. Who wrote it gets an error at its next request.
    async fn save(&self) {
        let all: Vec<Number> = self.open.borrow().keys().copied().collect();
        for number in all {
            if self.is_dirty(number) {
                let _ = self.commit(number, true).await;
            }
        }
        let _ = self.reclaim().await;
    }

    /// Closes all files, however often they are open.
    async fn end(&self) {
        let all: Vec<Number> = self.open.borrow().keys().copied().collect();
        for number in all {
            if let Err(error) = self.close_all(number).await {
                self.failure.set(self.failure.take().or(Some(error)));
            }
        }
        if let Err(error) = self.reclaim().await {
            self.failure.set(self.failure.take().or(Some(error)));
        }
    }
}
