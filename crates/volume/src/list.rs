// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries: files, space, the volume itself.

use block::Device;

use crate::file::{self, File, WINDOW};
use crate::layout::Shape;
use crate::lookup::Search;
use crate::map::Extent;
use crate::name::Name;
use crate::run::Table;
use crate::slot::{Slot, State as SlotState, name};
use crate::superblock::Counts;
use crate::unsettled::Unsettled;
use crate::{Error, Node, Volume, bitmap};

/// A file, as its slot describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name.
    pub name: Name,
    /// Its slot.
    pub slot: u32,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Bytes that it occupies on the volume, including its reservation and checksums, without
    /// leaves.
    pub allocated_bytes: u64,
    /// When it was last committed, in nanoseconds since 1970; 0 where no clock was set.
    pub mtime_ns: u64,
    /// The application's number.
    pub app_tag: u64,
    /// Whether it has a checksum for each 64 KiB.
    pub checksums: bool,
    /// Levels of leaves under the slot: 0, 1 or 2.
    pub map_level: u8,
}

impl StoredFile {
    pub(crate) fn new(header: &Slot, bytes: &[u8], shape: &Shape) -> Option<Self> {
        Some(Self {
            name: name(bytes)?.to_name(),
            slot: header.index,
            size_bytes: header.size_bytes,
            allocated_bytes: header.alloc_units << shape.unit_log2,
            mtime_ns: header.mtime_ns,
            app_tag: header.app_tag,
            checksums: header.has_checksums(),
            map_level: header.map_level,
        })
    }
}

/// A run of a file's data on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Its first byte in the file.
    pub offset_bytes: u64,
    /// Its first block on the device.
    pub lba: u64,
    /// Its length in blocks of the device.
    pub block_count: u64,
}

/// A file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Size as last committed.
    pub committed_bytes: u64,
    /// The offset of the next append.
    pub appended_bytes: u64,
    /// Everything before this has been written, whatever is in flight after it.
    pub completed_bytes: u64,
    /// Bytes that can be appended before space must be reserved.
    pub reserved_bytes: u64,
    /// Whether it has checksums.
    pub checksums: bool,
}

/// A mounted volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Its shape.
    pub shape: Shape,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its label, padded with zeroes.
    pub label: [u8; 32],
    /// The number of mounts that changed it.
    pub mount_count: u32,
    /// Files may have checksums.
    pub checksums: bool,
    /// The volume is read-only.
    pub read_only: bool,
    /// An operation failed half-way: mount again.
    pub needs_mount: bool,
    /// It was cleanly unmounted and not changed since.
    pub clean: bool,
}

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Units that no file has.
    pub free_units: u64,
    /// Files.
    pub files: u32,
}

impl<D: Device> Volume<'_, D> {
    /// The first file whose slot is `from` or later. Calling this again with `entry.slot + 1` lists
    /// all files, not sorted by name; [`Volume::files`] reads less for that.
    ///
    /// # Errors
    /// Those of [`Volume::files`].
    pub async fn next_file(&self, from: u32) -> Result<Option<StoredFile>, Error> {
        let mut next = None;
        self.files(from, |entry| {
            next = Some(entry);
            false
        })
        .await?;
        Ok(next)
    }

    /// Calls `each` with the files whose slot is `from` or later, in the order of the slots, until
    /// it returns false. Changes made in the meantime are seen or not, and a file that is moved in
    /// the meantime to make room for another name is seen once, twice or not at all: see
    /// [`Volume::moves`]. `each` may ask [`Volume::is_being_written`], and must not use the volume
    /// otherwise.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names a damaged slot: continue with the next one. [`Error::NeedsMount`],
    /// a device's error.
    pub async fn files(
        &self,
        from: u32,
        mut each: impl FnMut(StoredFile) -> bool,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let mut slot = from;
        while slot < self.slot_count() {
            // Others have their turn between two runs.
            let turn = self.turn().await?;
            let slots = self.slot_count();
            let count = self.read_slots(slot, slots - slot).await?;
            for index in 0..count {
                let found = self.slot_in_run(slot, index, |found, bytes| {
                    let live = found.state == SlotState::Live;
                    live.then(|| StoredFile::new(found, bytes, &shape))
                        .flatten()
                })?;
                match found {
                    None => return Err(Error::from(Node::Slot(slot + index))),
                    Some(Some(entry)) if !each(entry) => {
                        turn.done();
                        return Ok(());
                    }
                    Some(_) => {}
                }
            }
            turn.done();
            slot += count;
        }
        Ok(())
    }

    /// How many files were moved to another slot, to make room for other names, since the volume
    /// was mounted, modulo 256. While a list is read in several calls this tells whether it may
    /// lack a file.
    pub fn moves(&self) -> u8 {
        self.state().moves
    }

    /// Whether the file in this slot is open for writing.
    pub fn is_being_written(&self, slot: u32) -> bool {
        let state = self.state();
        let mut open = state.files.iter();
        open.any(|open| open.writable && open.slot == Some(slot))
    }

    /// The file of this name.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NotFound`], [`Error::Corrupt`], [`Error::NeedsMount`], a
    /// device's error.
    pub async fn find(&self, name: &str) -> Result<StoredFile, Error> {
        let wanted = self.checked_name(name)?;
        let mut turn = self.turn().await?;
        let Search::Found(found) = self.search(wanted, &[]).await? else {
            return Err(Error::NotFound);
        };
        let mut header = Slot::EMPTY;
        let loaded = self.load_found(turn.slot.lend(), found, &mut header)?;
        let entry = {
            let state = self.state();
            StoredFile::new(&header, state.slot(loaded), &state.shape())
        };
        turn.done();
        entry.ok_or(Error::NotFound)
    }

    /// How many extents a file has: 1 when it is contiguous. `most` bounds the count.
    ///
    /// # Errors
    /// Those of [`Volume::find`].
    pub async fn extent_count(&self, name: &str, most: u64) -> Result<u64, Error> {
        let mut count = 0;
        self.each_extent(name, |_, _| {
            count += 1;
            count < most
        })
        .await?;
        Ok(count)
    }

    /// Calls `each` with the extents of a file's data, in the file's order, until it returns false.
    /// They cover the file's space, so the last ones may be past its size. Checksum units are left
    /// out. `each` must not use the volume.
    ///
    /// # Errors
    /// Those of [`Volume::find`].
    pub async fn extents(
        &self,
        name: &str,
        mut each: impl FnMut(FileExtent) -> bool,
    ) -> Result<(), Error> {
        let shape = self.shape();
        let block_log2 = self.geometry().block_size_log2;
        self.each_extent(name, |extent, checksums| {
            let mut rest = extent;
            while rest.len > 0 {
                let part = rest.take_data(checksums);
                let found = FileExtent {
                    offset_bytes: part.logical << shape.unit_log2,
                    lba: shape.unit_address(part.start) >> block_log2,
                    block_count: (u64::from(part.len) << shape.unit_log2) >> block_log2,
                };
                if part.len > 0 && !each(found) {
                    return false;
                }
            }
            true
        })
        .await
    }

    /// The same in units, with those of checksums; the flag says that the file has some.
    async fn each_extent(
        &self,
        name: &str,
        mut each: impl FnMut(Extent, bool) -> bool,
    ) -> Result<(), Error> {
        let wanted = self.checked_name(name)?;
        let mut turn = self.turn().await?;
        let Search::Found(found) = self.search(wanted, &[]).await? else {
            return Err(Error::NotFound);
        };
        let node = turn.slot.lend();
        let found = self.refuse_doubtful(node, found, false).await?;
        let mut header = Slot::EMPTY;
        let loaded = self.load_found(turn.slot.lend(), found, &mut header)?;
        let mut unit = 0;
        // Each iteration passes at least one extent.
        'all: while unit < header.alloc_units {
            let mut window = [Extent::default(); WINDOW];
            self.window(loaded, &header, unit, &mut window).await?;
            for extent in window.iter().filter(|extent| extent.len > 0) {
                if !each(*extent, header.has_checksums()) {
                    break 'all;
                }
                unit = extent.logical_end();
            }
        }
        turn.done();
        Ok(())
    }

    /// Free units of the volume. Reads every bitmap.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NeedsMount`], a device's error.
    pub async fn free_units(&self) -> Result<u64, Error> {
        let shape = self.shape();
        let groups = shape.group_count() as u32;
        let (mut group, mut free) = (0, 0);
        while group < groups {
            // Others have their turn between two runs.
            let turn = self.turn().await?;
            let unsettled = self.unsettled().await?;
            let (count, more) = self.free_in_run(group, groups - group, &unsettled).await?;
            free += more;
            turn.done();
            group += count;
        }
        Ok(free)
    }

    /// Free units and files, where they are known without reading a table: the volume was clean
    /// when it was mounted, by a program that keeps these counts.
    pub fn known_usage(&self) -> Option<Usage> {
        let counts = self.state().superblock.counts.known();
        counts.map(|(free_units, files)| Usage { free_units, files })
    }

    /// Free units and files. Where they are not known, reads every slot and bitmap, in one turn,
    /// and knows them from then on: an unmount stores them.
    ///
    /// # Errors
    /// Those of [`Volume::free_units`]; [`Error::Corrupt`] if a slot is damaged.
    pub async fn usage(&self) -> Result<Usage, Error> {
        if let Some(usage) = self.known_usage() {
            return Ok(usage);
        }
        let shape = self.shape();
        let turn = self.turn().await?;
        let (mut files, mut slot) = (0, 0);
        let slots = self.slot_count();
        while slot < slots {
            let count = self.read_slots(slot, slots - slot).await?;
            for index in 0..count {
                let is_live = |found: &Slot, _: &[u8]| found.state == SlotState::Live;
                let live = self.slot_in_run(slot, index, is_live)?;
                files += u32::from(live.ok_or(Error::from(Node::Slot(slot + index)))?);
            }
            slot += count;
        }
        let groups = shape.group_count() as u32;
        let unsettled = self.unsettled().await?;
        let (mut group, mut free_units) = (0, 0);
        while group < groups {
            let (count, free) = self.free_in_run(group, groups - group, &unsettled).await?;
            free_units += free;
            group += count;
        }
        self.state().superblock.counts = Counts::new(free_units, files);
        turn.done();
        Ok(Usage { free_units, files })
    }

    /// The free units of up to `most` groups from `group` on, and of how many groups.
    async fn free_in_run(
        &self,
        group: u32,
        most: u32,
        unsettled: &Unsettled,
    ) -> Result<(u32, u64), Error> {
        let shape = self.shape();
        let count = self.read_run(Table::Bitmaps, group, most).await?;
        let mut free = 0;
        for index in 0..count {
            let state = self.state();
            let both = state.both_in_run(Table::Bitmaps, group, index);
            let newest = state.newest_in_run(Table::Bitmaps, group, index);
            let damage = Error::from(Node::Bitmap(group + index));
            // R7: a torn member was rewritten at mount, or the next one will do so.
            let is_torn = unsettled.has_group(group + index, &shape);
            let bytes = newest.filter(|_| both || is_torn).ok_or(damage)?;
            bitmap::check(bytes, group + index, &shape)?;
            free += u64::from(bitmap::free_units(bytes));
        }
        Ok((count, free))
    }

    /// An open file's state. Reads nothing from the device.
    ///
    /// # Errors
    /// [`Error::NotOpen`].
    pub fn file_status(&self, file: File) -> Result<FileStatus, Error> {
        let mut state = self.state();
        let shape = state.shape();
        let open = file::find(state.files, file)?;
        Ok(FileStatus {
            committed_bytes: open.committed,
            appended_bytes: open.appended,
            completed_bytes: open.completed,
            reserved_bytes: open.reserved_bytes(&shape),
            checksums: open.checksums,
        })
    }

    /// The volume's state. Reads nothing from the device.
    pub fn status(&self) -> VolumeStatus {
        let state = self.state();
        let superblock = &state.superblock;
        VolumeStatus {
            shape: superblock.shape,
            uuid: superblock.uuid,
            label: superblock.label,
            mount_count: superblock.mount_count,
            checksums: superblock.checksums,
            read_only: state.superblock.read_only,
            needs_mount: state.failed,
            clean: superblock.clean,
        }
    }

    /// The minor version of the format that a reader must know: 1 if the volume has a name of more
    /// than 64 bytes or a slot table that has grown. The superblock says so by bits of `INCOMPAT`.
    pub fn minor_version(&self) -> u16 {
        let superblock = &self.state().superblock;
        u16::from(superblock.long_names || superblock.table_unit.is_some())
    }

    /// The device's geometry.
    pub fn geometry(&self) -> block::Geometry {
        *self.state().device.geometry()
    }
}
