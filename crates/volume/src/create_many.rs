// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making several small files in one operation, so that they share its flushes. `FORMAT.md`,
//! "Operations".

use block::Device;

use crate::io::{NO_SLOT, SPARE, State, WORK};
use crate::layout::{CHUNK_BYTES, LISTED_SLOTS, RECORD_SLOTS, Shape, member_of};
use crate::lookup::{FreeSlot, Search};
use crate::map::{self, Extent};
use crate::name::NameRef;
use crate::order::{Mutation, Order};
use crate::slot::{ATTRIBUTE_CHECKSUMS, Slot, State as SlotState};
use crate::steps::Step;
use crate::superblock::{Operation, Run, Runs, Slots};
use crate::token::SlotNode;
use crate::{Error, Volume, bitmap};

/// A gap between two files on the device that is written rather than skipped, in bytes.
const JOINED_BYTES: u64 = 4096;

/// A file to be made by [`Volume::create_many`].
#[derive(Clone, Copy, Debug)]
pub struct NewFile<'d> {
    /// Its name.
    pub name: &'d str,
    /// Everything that it will hold: less than 64 KiB.
    pub data: &'d [u8],
    /// When it was modified, in nanoseconds since 1970.
    pub mtime_ns: u64,
    /// A number for the application to keep.
    pub app_tag: u64,
}

/// What [`Volume::create_many`] made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// How many of the files: the first ones.
    pub files: usize,
    /// Device commands for their data.
    pub data_commands: u32,
}

/// The place of a new file, or of one that is removed with others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub slot: u32,
    /// The number of the slot's newest member.
    pub seq: u64,
    /// Of the last operation on the slot.
    pub last_op: u64,
    pub file_id: u64,
    /// Its first unit; units that it owns.
    pub unit: u64,
    pub units: u32,
    /// Which of the files it is.
    pub file: u32,
}

/// Whether one of these new files gets the slot.
pub(crate) fn is_taken(taken: &[Place], slot: u32) -> bool {
    taken.iter().any(|place| place.slot == slot)
}

impl<D: Device> Volume<'_, D> {
    /// Makes the first of these files, with their data, as many as one operation takes (at most
    /// twelve), and returns how many: they are durable, and none is open. With `checksums` they
    /// have a CRC32C. After a power cut in the middle each of them is there, whole, or not at all.
    ///
    /// `files: 0` says that the first file cannot be made in this way, because it is too long or no
    /// run of free units is long enough: make it with [`Volume::create`].
    ///
    /// # Errors
    /// Those of [`Volume::create`] for the first file; a later one with an error ends the batch
    /// before it.
    pub async fn create_many(&self, files: &[NewFile<'_>], checksums: bool) -> Result<Made, Error> {
        self.create_batch::<RECORD_SLOTS>(files, checksums).await
    }

    /// Like [`Volume::create_many`], for up to `N` files, at most 4,096. With `N` above twelve
    /// their slots are in a list on the device, which takes a few free units while the operation
    /// lasts; a reader that does not know this record refuses a volume that was left in the middle
    /// of it. The future holds 48 bytes for each of the `N`.
    ///
    /// # Errors
    /// Those of [`Volume::create_many`].
    pub async fn create_batch<const N: usize>(
        &self,
        files: &[NewFile<'_>],
        checksums: bool,
    ) -> Result<Made, Error> {
        let mut turn = self.turn_to_change().await?;
        if checksums && !self.state().superblock.checksums {
            return Err(Error::Unsupported);
        }
        let is_listed = N > RECORD_SLOTS;
        let mut places = [Place::default(); N];
        let mut count = 0;
        for file in files.iter().take(N.min(LISTED_SLOTS as usize)) {
            let earlier = files.get(..count).unwrap_or_default();
            let taken = places.get(..count).unwrap_or_default();
            let node = turn.slot.lend();
            let found = self.place_for(node, file, earlier, taken, checksums).await;
            match (found, places.get_mut(count)) {
                (Ok(Some(place)), Some(entry)) => {
                    *entry = place;
                    entry.file = count as u32;
                }
                // A move that failed half-way needs a mount.
                (Err(error), _) if count == 0 || self.state().changing => return Err(error),
                _ => break,
            }
            count += 1;
        }
        let places = places.get_mut(..count).unwrap_or_default();
        let (runs, count) = self.find_run(places, is_listed).await?;
        let places = places.get_mut(..count).unwrap_or_default();
        let mut unit = runs.as_slice().first().map_or(0, |run| run.start);
        if is_listed {
            unit += u64::from(self.shape().list_units(count as u32));
        }
        for place in places.iter_mut() {
            place.unit = unit;
            unit += u64::from(place.units);
        }
        let mut made = Made::default();
        for file in files.iter().take(count) {
            let name = self.checked_name(file.name)?;
            self.state().begin_name(name);
        }
        if !places.is_empty() {
            made.files = places.len();
            made.data_commands = self.make(files, places, runs, is_listed, checksums).await?;
            let more = made.files as i32;
            self.state().superblock.counts.move_files(more);
        }
        turn.done();
        Ok(made)
    }

    /// A free slot for `file`; `None` if the file is too long, or has the name of an `earlier` one.
    /// Where both buckets are full another file is moved: that is an operation of its own, before
    /// this one.
    async fn place_for(
        &self,
        mut node: SlotNode<'_>,
        file: &NewFile<'_>,
        earlier: &[NewFile<'_>],
        taken: &[Place],
        checksums: bool,
    ) -> Result<Option<Place>, Error> {
        let name = self.checked_name(file.name)?;
        let is_repeated = earlier.iter().any(|other| other.name == file.name);
        if is_repeated || file.data.len() as u64 >= CHUNK_BYTES {
            return Ok(None);
        }
        let free = match self.search(name, taken).await? {
            Search::Found(_) => return Err(Error::Exists),
            Search::Absent(Some(free)) => free,
            Search::Absent(None) => self.make_room(node.lend(), name, None, taken).await?,
        };
        if !free.whole {
            // R8: erases the other member.
            let mut header = Slot::EMPTY;
            self.load_slot(node, free.slot, &mut header).await?;
        }
        let FreeSlot {
            slot, seq, last_op, ..
        } = free;
        let (shape, newest) = {
            let state = self.state();
            (state.shape(), state.superblock.seq)
        };
        if last_op > newest {
            return Err(Error::StaleSuperblock);
        }
        let data = (file.data.len() as u64).div_ceil(shape.unit_bytes());
        Ok(Some(Place {
            slot,
            seq,
            last_op,
            file_id: Slot::new_file_id(slot, seq + 1),
            unit: 0,
            file: 0,
            units: map::file_units(data, checksums) as u32,
        }))
    }

    /// A free run for the first of these files and, if they are listed, for the list before them;
    /// and how many that are: all, unless no run is long enough. The files' bits are set in node
    /// [`WORK`], in memory only.
    async fn find_run(&self, places: &[Place], is_listed: bool) -> Result<(Runs, usize), Error> {
        let shape = self.shape();
        let mut runs = Runs::default();
        let mut count = places.len();
        loop {
            let units = places.iter().take(count).map(|place| place.units);
            let list = if is_listed {
                shape.list_units(count as u32)
            } else {
                0
            };
            let want = list + units.sum::<u32>();
            if want == 0 {
                return Ok((runs, count));
            }
            if u64::from(want) > shape.group_units() && count > 1 {
                // No run crosses groups. As many as one could take, rather than half.
                let most = shape.group_units().saturating_sub(u64::from(list));
                let mut used = 0;
                let fit = places.iter().take(count).take_while(|place| {
                    used += u64::from(place.units);
                    used <= most
                });
                count = fit.count().clamp(1, count - 1);
                continue;
            }
            if let Some(run) = self.find_units(want).await? {
                runs.push(run);
                let list = Run { len: list, ..run };
                bitmap::set_run(self.state().node_mut(WORK), &list, &shape, false);
                return Ok((runs, count));
            }
            count /= 2;
        }
    }

    /// `want` free units in a row, from the group for new files on.
    pub(crate) async fn find_units(&self, want: u32) -> Result<Option<Run>, Error> {
        let shape = self.shape();
        if u64::from(want) > shape.group_units() {
            return Ok(None);
        }
        let groups = shape.group_count() as u32;
        let first = self.state().superblock.group_hint % groups;
        for turn in 0..groups {
            let group = (first + turn) % groups;
            match self.load_bitmap(group).await {
                Ok(()) => {}
                // A damaged group is skipped: it is unknown which of its units are free.
                Err(Error::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            }
            let mut state = self.state();
            let bytes = state.node(WORK);
            let found = if bitmap::free_units(bytes) >= want {
                bitmap::find(bytes, want, 1)
            } else {
                None
            };
            if let Some(start) = found {
                // From here on the bitmap in memory is ahead of the device.
                state.changing = true;
                bitmap::set(state.node_mut(WORK), start, want, true);
                return Ok(Some(Run {
                    start: shape.group_start(group) + u64::from(start),
                    len: want,
                }));
            }
        }
        Ok(None)
    }

    /// The operation itself. Returns the number of commands for data.
    async fn make(
        &self,
        files: &[NewFile<'_>],
        places: &mut [Place],
        runs: Runs,
        is_listed: bool,
        checksums: bool,
    ) -> Result<u32, Error> {
        let shape = self.shape();
        let op_seq = self.state().superblock.seq + 1;
        let mut slots = Slots::default();
        let fits = places.iter().all(|place| slots.push(place.slot));
        debug_assert!(fits || is_listed, "more slots than the record holds");
        let operation = if is_listed {
            let count = places.len() as u32;
            Operation::CreateList { runs, count }
        } else {
            Operation::Create { runs, slots }
        };
        // R3, and units that the last operation freed may be used only now.
        self.perform(|state| state.order(Order::NodesBeforeCreateMany))
            .await?;
        if let (true, Some(run)) = (is_listed, runs.as_slice().first()) {
            self.write_list(run, places, op_seq).await?;
        }
        let commands = self.write_data(files, places, &shape, checksums).await?;
        self.perform(|state| {
            state.put_superblock(SPARE, &operation, false);
            // The record is durable before the nodes it governs, and the data before the sizes.
            state.order(Order::CreateManyBeforeNodes);
            if let Some(run) = runs.as_slice().first() {
                state.put_bitmap(shape.group_of(run.start), op_seq);
            }
        })
        .await?;
        places.sort_unstable_by_key(|place| place.slot);
        let name_of = |place: &Place| files.get(place.file as usize).map_or("", |file| file.name);
        let next = |state: &State<'_, D>, place: &mut Place| {
            place.seq += state.seq_step(Mutation::SlotInPlace);
            let file = files.get(place.file as usize)?;
            Some(state.header_of(file, place, op_seq, checksums))
        };
        self.put_slots(places, name_of, next).await?;
        self.perform(|state| state.order(Order::CreateManyBeforeAnswer))
            .await?;
        // The other members, as closing a file leaves them. No barrier is needed: what is durable
        // is complete, and this can be repeated.
        self.put_slots(places, name_of, next).await?;
        if is_listed && !self.state().is_mutated(Mutation::KeepList) {
            // The list's units are free: before they are used again, the record that names them is
            // gone.
            self.perform(|state| state.put_superblock(SPARE, &Operation::None, false))
                .await?;
        }
        Ok(commands)
    }

    /// Writes a member of each file's slot: what `header_of` returns, which has its number. Slots
    /// that follow one another share a command: their order does not matter.
    pub(crate) async fn put_slots<'n>(
        &self,
        places: &mut [Place],
        name_of: impl Fn(&Place) -> &'n str,
        header_of: impl Fn(&State<'_, D>, &mut Place) -> Option<Slot>,
    ) -> Result<(), Error> {
        let (node, room) = {
            let state = self.state();
            let longest = state.device.geometry().max_transfer_bytes();
            let room = state.memory(SPARE).len().min(longest);
            (state.shape().node_bytes(), room)
        };
        let (mut from, mut len) = (0, 0);
        for place in places {
            let (header, address) = {
                let state = self.state();
                let Some(header) = header_of(&state, place) else {
                    continue;
                };
                let address = state.slot_address(place.slot, member_of(header.seq));
                (header, address)
            };
            if address != from + len as u64 || len + node > room {
                self.write_node(from, len).await?;
                (from, len) = (address, 0);
            }
            let mut state = self.state();
            state.fill_slot(len, &header, address, |header, bytes| {
                if header.state == SlotState::Free {
                    return;
                }
                if let Ok(name) = NameRef::new(name_of(place)) {
                    header.set_name(bytes, name);
                }
                let extent = Extent {
                    logical: 0,
                    start: place.unit,
                    len: place.units,
                };
                header.put_entry(bytes, 0, &map::extent_entry(&extent));
                header.entry_count = u32::from(place.units > 0);
            });
            state.cached_slot = NO_SLOT;
            len += node;
        }
        self.write_node(from, len).await?;
        Ok(())
    }

    /// Writes the files' data to their units, several files with one command where they are close
    /// to one another.
    async fn write_data(
        &self,
        files: &[NewFile<'_>],
        places: &[Place],
        shape: &Shape,
        checksums: bool,
    ) -> Result<u32, Error> {
        let (block, room) = {
            let state = self.state();
            let geometry = state.device.geometry();
            let block = geometry.block_size_bytes();
            let longest = state.memory(SPARE).len().min(geometry.max_transfer_bytes());
            (block, longest & !(block - 1))
        };
        // What is in the node: its place on the device, and its length.
        let (mut from, mut len) = (0, 0);
        let mut commands = 0;
        for (file, place) in files.iter().zip(places) {
            // A unit for the checksums comes first.
            let mut at = shape.unit_address(place.unit + u64::from(checksums));
            let mut rest = file.data;
            while !rest.is_empty() {
                let gap = at.wrapping_sub(from + len as u64);
                let joined = len + gap.min(JOINED_BYTES) as usize;
                if gap > JOINED_BYTES || joined >= room {
                    commands += self.write_node(from, len).await?;
                    (from, len) = (at, 0);
                } else {
                    self.state().fill(len, joined - len, &[]);
                    len = joined;
                }
                let (part, after) = rest.split_at(rest.len().min(room - len));
                let whole = part.len().next_multiple_of(block);
                self.state().fill(len, whole, part);
                len += whole;
                at += whole as u64;
                rest = after;
            }
        }
        Ok(commands + self.write_node(from, len).await?)
    }

    /// Writes the first `len` bytes of node [`SPARE`]'s buffer. Returns the number of commands.
    pub(crate) async fn write_node(&self, address: u64, len: usize) -> Result<u32, Error> {
        if len == 0 {
            return Ok(0);
        }
        self.state().changing = true;
        self.move_bytes(Step::write(SPARE), address, len).await?;
        Ok(1)
    }
}

impl<D: Device> State<'_, D> {
    /// Copies `data` into node [`SPARE`]'s buffer from byte `at` on, and zeros up to `len` bytes.
    fn fill(&mut self, at: usize, len: usize, data: &[u8]) {
        let buffer = self.nodes.get_mut(SPARE).and_then(Option::as_mut);
        let place = buffer.and_then(|buffer| buffer.get_mut(at..at + len));
        debug_assert!(place.is_some(), "the node has no room for data");
        let (whole, padding) = place.unwrap_or_default().split_at_mut(data.len().min(len));
        whole.copy_from_slice(data.get(..whole.len()).unwrap_or_default());
        padding.fill(0);
    }

    /// The header of a new file's slot.
    fn header_of(&self, file: &NewFile<'_>, place: &Place, op_seq: u64, checksums: bool) -> Slot {
        let crc32c = self.crc32c;
        let last_op = if self.is_mutated(Mutation::NoOpNumber) {
            place.last_op
        } else {
            op_seq
        };
        Slot {
            file_id: place.file_id,
            size_bytes: file.data.len() as u64,
            alloc_units: u64::from(place.units),
            mtime_ns: file.mtime_ns,
            state: SlotState::Live,
            attributes: if checksums { ATTRIBUTE_CHECKSUMS } else { 0 },
            tail_crc: if checksums { crc32c(0, file.data) } else { 0 },
            app_tag: file.app_tag,
            ..Slot::free(place.slot, place.seq, last_op)
        }
    }
}
