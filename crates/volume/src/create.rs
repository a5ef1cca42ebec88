// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creating and opening files.

use core::future::Future;

use block::Device;

use crate::file::{self, File};
use crate::layout::Shape;
use crate::lookup::Search;
use crate::map;
use crate::order::{Mutation, Order};
use crate::slot::{ATTRIBUTE_CHECKSUMS, Slot, State as SlotState};
use crate::{Error, Volume};

/// How to make a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    /// Space to reserve in the same operation, or in several if needed.
    pub reserve_bytes: u64,
    /// Keep a CRC32C for each 64 KiB. The volume must have been made with checksums. Set per file,
    /// because such a file cannot be overwritten; [`VolumeStatus::checksums`] tells whether the
    /// volume supports them.
    ///
    /// [`VolumeStatus::checksums`]: crate::VolumeStatus::checksums
    pub checksums: bool,
    /// A number for the application to keep.
    pub app_tag: u64,
}

impl<D: Device> Volume<'_, D> {
    /// Makes a file and opens it for writing. It is durable when this returns; its reservation is
    /// durable with the first commit, or immediately when it took a single operation.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::TableFull`], [`Error::NoSpace`] (the file
    /// was not made), [`Error::TooManyOpen`], [`Error::Unsupported`] if it asks for checksums on a
    /// volume without, [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`], a device's
    /// error.
    pub async fn create(&self, name: &str, options: &CreateOptions) -> Result<File, Error> {
        let name = self.checked_name(name)?;
        let mut turn = self.turn_to_change().await?;
        let free = match self.search(name, &[]).await? {
            Search::Found(_) => return Err(Error::Exists),
            Search::Absent(free) => free,
        };
        let shape = self.shape();
        {
            let state = self.state();
            if options.checksums && !state.superblock.checksums {
                return Err(Error::Unsupported);
            }
            if !state.files.iter().any(|open| open.slot.is_none()) {
                return Err(Error::TooManyOpen);
            }
        }
        let data = options.reserve_bytes.div_ceil(shape.unit_bytes());
        let want = map::file_units(data.min(shape.unit_count() + 1), options.checksums);
        if want > shape.unit_count() {
            return Err(Error::NoSpace);
        }
        let slot = match free {
            Some(free) => free.slot,
            None => {
                self.make_room(turn.slot.lend(), name, None, &[])
                    .await?
                    .slot
            }
        };
        let mut old = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut old).await?;
        if old.state != SlotState::Free {
            return Err(Error::from(crate::Node::Slot(slot)));
        }
        let kept = if self.state().is_mutated(Mutation::ForgetOpNumber) {
            0
        } else {
            old.last_op
        };
        let mut header = Slot {
            file_id: Slot::new_file_id(slot, old.seq + 1),
            mtime_ns: self.state().now_ns,
            state: SlotState::Live,
            attributes: if options.checksums {
                ATTRIBUTE_CHECKSUMS
            } else {
                0
            },
            app_tag: options.app_tag,
            ..Slot::free(slot, old.seq, kept)
        };
        self.state().begin_name(name);
        header.set_name(self.state().slot_mut(loaded), name);
        if want == 0 {
            self.perform(|state| {
                state.put_in_use();
                // R3: the slot's other member was the last one written.
                state.order(Order::FreeBeforeCreate);
                state.put_slot_durably(loaded, &mut header);
            })
            .await?;
        } else {
            let near = self.next_group(&shape)?;
            self.reserve_once(loaded, &mut header, want, Some(near))
                .await?;
            self.perform(|state| state.order(Order::CreateBeforeAnswer))
                .await?;
        }
        self.state().superblock.counts.move_files(1);
        turn.done();
        drop(turn);
        let file = self.occupy(slot, &header, true)?;
        // The slot's other member still describes the free slot.
        file::find(self.state().files, file)?.settled = false;
        if header.alloc_units < want {
            if let Err(error) = self.reserve(file, options.reserve_bytes).await {
                let closed = self.close(file).await;
                let removed = self.remove(name.as_str()).await;
                // A refusal says that nothing is left of the file.
                return closed.and(removed).and(Err(error));
            }
        }
        let prepared = match header.alloc_units {
            0 => Ok(()),
            _ => self.prepare_append(file).await,
        };
        self.opened(file, prepared)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::TooManyOpen`], [`Error::Corrupt`],
    /// [`Error::NeedsMount`], a device's error.
    pub fn open(&self, name: &str) -> impl Future<Output = Result<File, Error>> {
        self.open_as(name, false)
    }

    /// Opens a file for appending and overwriting. One writer at a time.
    ///
    /// # Errors
    /// Those of [`Volume::open`]; [`Error::InUse`] while another writer has it open,
    /// [`Error::ReadOnly`].
    pub fn open_to_write(&self, name: &str) -> impl Future<Output = Result<File, Error>> {
        self.open_as(name, true)
    }

    async fn open_as(&self, name: &str, writable: bool) -> Result<File, Error> {
        if writable && self.state().superblock.read_only {
            return Err(Error::ReadOnly);
        }
        let name = self.checked_name(name)?;
        let mut turn = self.turn().await?;
        let Search::Found(found) = self.search(name, &[]).await? else {
            return Err(Error::NotFound);
        };
        let node = turn.slot.lend();
        let found = self.refuse_doubtful(node, found, writable).await?;
        let mut header = Slot::EMPTY;
        self.load_found(turn.slot.lend(), found, &mut header)?;
        turn.done();
        drop(turn);
        let file = self.occupy(found.slot, &header, writable)?;
        let mut prepared = Ok(());
        if writable && header.alloc_units > 0 {
            prepared = self.prepare_append(file).await;
        }
        if prepared.is_ok() && header.size_bytes > 0 {
            prepared = self.prepare(file, 0).await;
        }
        self.opened(file, prepared)
    }

    /// The file, unless it could not be prepared: then its caller has no token to close it with.
    fn opened(&self, file: File, prepared: Result<(), Error>) -> Result<File, Error> {
        if prepared.is_err() {
            let _ = self.abandon_file(file);
        }
        prepared.map(|()| file)
    }

    fn occupy(&self, slot: u32, header: &Slot, writable: bool) -> Result<File, Error> {
        let mut state = self.state();
        let is_this = |open: &file::OpenFile| open.slot == Some(slot);
        if writable
            && state
                .files
                .iter()
                .any(|open| is_this(open) && open.writable)
        {
            return Err(Error::InUse);
        }
        // The token has eight bits for the table index, of which the device's tag carries seven.
        let free = state
            .files
            .iter()
            .take(128)
            .position(|open| open.slot.is_none());
        let index = free.ok_or(Error::TooManyOpen)?;
        let open = state.files.get_mut(index).ok_or(Error::TooManyOpen)?;
        open.occupy(slot, header, writable);
        Ok(File {
            index: index as u8,
            generation: open.generation,
        })
    }

    /// The group for a new file: each gets a different one, so that streams do not interleave.
    fn next_group(&self, shape: &Shape) -> Result<u64, Error> {
        let mut state = self.state();
        let groups = shape.group_count() as u32;
        let group = state.superblock.group_hint % groups;
        state.superblock.group_hint = (group + 1) % groups;
        Ok(shape.group_start(group))
    }

    /// Sets the time stamped on what changes from now on, in nanoseconds since 1970. The volume has
    /// no clock.
    pub fn set_time(&self, now_ns: u64) {
        self.state().now_ns = now_ns;
    }
}
