// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of open files: what an append or a read needs, so that neither reads metadata.

use crate::Error;
use crate::layout::{CHUNK_BYTES, SPAN_UNITS, Shape};
use crate::map::{self, Extent};
use crate::slot::Slot;

/// Appends of one file that may be in flight at the same time.
pub const APPENDS_IN_FLIGHT: usize = 32;
/// Extents known ahead of the append point, and around the read point.
pub(crate) const WINDOW: usize = 4;
/// Checksums that can wait in memory for the next commit: 8 MiB of data.
pub(crate) const CHECKSUMS: usize = 128;

/// A token for an open file. It is a plain number: using it after `close` fails with
/// [`Error::NotOpen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub(crate) index: u8,
    pub(crate) generation: u16,
}

/// An append that is in flight, or has completed before an earlier one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    /// File offset at which it begins; a multiple of the device's block.
    pub start: u64,
    /// Bytes of data, and with the padding of the last block.
    pub len_bytes: u32,
    pub whole_bytes: u32,
    /// CRC32C of the data from the last chunk boundary to its end.
    pub tail_crc: u32,
    pub state: PieceState,
}

impl Piece {
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len_bytes as u64
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PieceState {
    #[default]
    Empty,
    InFlight,
    Done,
    Failed,
}

/// An entry of the table of open files, which the caller supplies at mount: one for each file that
/// may be open at the same time.
#[derive(Debug)]
pub struct OpenFile {
    /// `None`: the entry is free.
    pub(crate) slot: Option<u32>,
    pub(crate) generation: u16,
    pub(crate) writable: bool,
    pub(crate) checksums: bool,
    /// Size in the slot as last written.
    pub(crate) committed: u64,
    /// Whether the slot's two members are equal.
    pub(crate) settled: bool,
    pub(crate) alloc_units: u64,
    /// The offset of the next append.
    pub(crate) appended: u64,
    /// Everything before this has been written.
    pub(crate) completed: u64,
    /// What lies past this is not committed.
    pub(crate) size_limit: u64,
    /// The time that the next commit stores, in place of the volume's.
    pub(crate) modified_ns: Option<u64>,
    /// The application's number that the next commit stores.
    pub(crate) app_tag: Option<u64>,
    pub(crate) committed_crc: u32,
    pub(crate) completed_crc: u32,
    pub(crate) appended_crc: u32,
    /// A ring: the oldest piece not yet folded into `completed` is at `first_piece`.
    pub(crate) pieces: [Piece; APPENDS_IN_FLIGHT],
    pub(crate) first_piece: u8,
    pub(crate) piece_count: u8,
    /// Reads and overwrites in flight.
    pub(crate) others_in_flight: u16,
    /// Overwrites in flight of the block in which the file ends.
    pub(crate) tail_overwrites: u8,
    /// In both windows `start` counts units from the device's byte 0, not from the volume's unit 0,
    /// so that an address is a single shift.
    pub(crate) ahead: [Extent; WINDOW],
    pub(crate) around: [Extent; WINDOW],
    /// The chunk of `sums[0]`, and the number of checksums.
    pub(crate) first_sum: u64,
    pub(crate) sum_count: u8,
    pub(crate) sums: [u32; CHECKSUMS],
}

impl Default for OpenFile {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenFile {
    /// A free entry.
    pub const fn new() -> Self {
        const NO_EXTENT: Extent = Extent {
            logical: 0,
            start: 0,
            len: 0,
        };
        const NO_PIECE: Piece = Piece {
            start: 0,
            len_bytes: 0,
            whole_bytes: 0,
            tail_crc: 0,
            state: PieceState::Empty,
        };
        Self {
            slot: None,
            generation: 0,
            writable: false,
            checksums: false,
            committed: 0,
            settled: true,
            alloc_units: 0,
            appended: 0,
            completed: 0,
            size_limit: u64::MAX,
            modified_ns: None,
            app_tag: None,
            committed_crc: 0,
            completed_crc: 0,
            appended_crc: 0,
            pieces: [NO_PIECE; APPENDS_IN_FLIGHT],
            first_piece: 0,
            piece_count: 0,
            others_in_flight: 0,
            tail_overwrites: 0,
            ahead: [NO_EXTENT; WINDOW],
            around: [NO_EXTENT; WINDOW],
            first_sum: 0,
            sum_count: 0,
            sums: [0; CHECKSUMS],
        }
    }

    /// Frees the entry; its tokens become invalid.
    #[inline(never)]
    pub(crate) fn reset(&mut self) {
        *self = Self {
            generation: self.generation,
            ..Self::new()
        };
    }

    /// Uses the entry for the file in `slot`.
    pub(crate) fn occupy(&mut self, slot: u32, header: &Slot, writable: bool) {
        self.reset();
        let size = header.size_bytes;
        self.generation = self.generation.wrapping_add(1);
        self.slot = Some(slot);
        self.writable = writable;
        self.checksums = header.has_checksums();
        (self.committed, self.appended, self.completed) = (size, size, size);
        self.alloc_units = header.alloc_units;
        self.committed_crc = header.tail_crc;
        self.completed_crc = header.tail_crc;
        self.appended_crc = header.tail_crc;
        self.first_sum = size / CHUNK_BYTES;
    }

    /// Whether an overwrite of `len` bytes from `offset` on includes the block in which the file
    /// ends: the next append writes that block again.
    pub(crate) const fn ends_within(&self, offset: u64, len: u64) -> bool {
        offset < self.appended && self.appended < offset + len
    }

    pub(crate) const fn in_flight(&self) -> bool {
        self.others_in_flight > 0 || self.appends_in_flight()
    }

    pub(crate) const fn appends_in_flight(&self) -> bool {
        let mut index = 0;
        while index < APPENDS_IN_FLIGHT {
            if matches!(self.pieces[index].state, PieceState::InFlight) {
                return true;
            }
            index += 1;
        }
        false
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| piece.state == PieceState::Failed)
    }

    /// The size that a commit gives the file.
    pub(crate) fn committable(&self) -> u64 {
        self.completed.min(self.size_limit).max(self.committed)
    }

    /// Where the readable data ends: at the committed size, or after everything appended once
    /// nothing is in flight.
    pub(crate) fn readable_end(&self) -> u64 {
        self.completed.max(self.committed)
    }

    /// Folds finished pieces, oldest first, into `completed`. Bounded by the ring's length.
    pub(crate) fn fold(&mut self) {
        while self.piece_count > 0 {
            let index = usize::from(self.first_piece);
            match self.pieces.get_mut(index) {
                Some(piece) if piece.state == PieceState::Done => {
                    self.completed = piece.end();
                    self.completed_crc = piece.tail_crc;
                    piece.state = PieceState::Empty;
                }
                _ => break,
            }
            self.first_piece = ((index + 1) % APPENDS_IN_FLIGHT) as u8;
            self.piece_count -= 1;
        }
    }

    /// The location of the data at byte `offset`: the file's unit, and how many bytes of data
    /// follow before the map may jump.
    pub(crate) const fn place(&self, offset: u64, shape: &Shape) -> (u64, u64) {
        let data_unit = offset >> shape.unit_log2;
        let unit = map::file_unit(data_unit, self.checksums);
        let contiguous = if self.checksums {
            (((data_unit / SPAN_UNITS + 1) * SPAN_UNITS) << shape.unit_log2) - offset
        } else {
            u64::MAX
        };
        (unit, contiguous)
    }

    /// Bytes from `offset` on that are contiguous on the device, and the device address; within
    /// the extents of `window`.
    #[inline]
    pub(crate) fn find(&self, window: Window, offset: u64, shape: &Shape) -> Option<(u64, u64)> {
        let (unit, contiguous) = self.place(offset, shape);
        let window = match window {
            Window::Ahead => &self.ahead,
            Window::Around => &self.around,
        };
        let extent = window.iter().find(|extent| extent.contains(unit))?;
        let within = offset & (shape.unit_bytes() - 1);
        let address = ((extent.start + (unit - extent.logical)) << shape.unit_log2) + within;
        let to_end = ((extent.logical_end() - unit) << shape.unit_log2) - within;
        Some((address, to_end.min(contiguous)))
    }

    /// Drops the extents that the append point has passed, and adds `extent` after the rest if it
    /// continues them. False: there is no room, and `prepare` will load it later.
    pub(crate) fn extend_ahead(&mut self, extent: Extent, append_unit: u64) -> bool {
        self.drop_passed(append_unit);
        if let Some(last) = self.ahead.iter_mut().rev().find(|known| known.len > 0) {
            if last.logical_end() != extent.logical {
                return false;
            }
            if last.end() == extent.start {
                if let Some(len) = last.len.checked_add(extent.len) {
                    last.len = len;
                    return true;
                }
            }
        }
        match self.ahead.iter_mut().find(|known| known.len == 0) {
            Some(place) => {
                *place = extent;
                true
            }
            None => false,
        }
    }

    pub(crate) fn drop_passed(&mut self, append_unit: u64) {
        // At most WINDOW iterations: each drops one extent.
        for _ in 0..WINDOW {
            let [first, ..] = self.ahead;
            if first.len == 0 || first.logical_end() > append_unit {
                break;
            }
            for place in 1..WINDOW {
                self.ahead.swap(place - 1, place);
            }
            if let Some(last) = self.ahead.last_mut() {
                *last = Extent::default();
            }
        }
    }

    /// Bytes that can be appended before the allocation ends.
    pub(crate) fn reserved_bytes(&self, shape: &Shape) -> u64 {
        (map::data_units(self.alloc_units, self.checksums) << shape.unit_log2)
            .saturating_sub(self.appended)
    }
}

/// Which extents of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Ahead,
    Around,
}

/// Like [`get`], but not inlined: for code that is not on the data path.
#[inline(never)]
pub(crate) fn find(files: &mut [OpenFile], file: File) -> Result<&mut OpenFile, Error> {
    get(files, file)
}

/// Finds an open file by its token.
#[inline(always)]
pub(crate) fn get(files: &mut [OpenFile], file: File) -> Result<&mut OpenFile, Error> {
    files
        .get_mut(usize::from(file.index))
        .filter(|open| open.slot.is_some() && open.generation == file.generation)
        .ok_or(Error::NotOpen)
}
