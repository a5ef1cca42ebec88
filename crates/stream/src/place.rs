//! A place in a ring: one block, from the moment its buffer is filled until it is empty again.

use block::{Buffer, Lent};

/// A place in a stream's ring, lent by the caller with its buffer. The buffer is a block of the
/// stream: a whole number of the device's blocks, in memory that the device reaches.
#[derive(Debug, Default)]
pub struct Place {
    /// Here while the place is empty, or holds a block that was read.
    pub(crate) buffer: Option<Buffer>,
    /// Here while the device has pieces of it.
    lent: Option<Lent>,
    /// Bytes of data, and with the padding of the last device block.
    pub(crate) len_bytes: usize,
    whole_bytes: usize,
    /// Where in the file the block is.
    pub(crate) offset_bytes: u64,
    /// When it was to arrive, or when it is due, in ticks.
    pub(crate) time: u64,
    /// Pieces that the device or the list of failed ones has.
    pieces_out: u32,
    /// Lines of gaps that lie before it.
    pub(crate) gaps_before: u64,
    /// Read, and its checksums compared where they are to be.
    pub(crate) is_ready: bool,
}

impl Place {
    /// A place with its buffer.
    pub const fn new(buffer: Buffer) -> Self {
        Self {
            buffer: Some(buffer),
            lent: None,
            len_bytes: 0,
            whole_bytes: 0,
            offset_bytes: 0,
            time: 0,
            pieces_out: 0,
            gaps_before: 0,
            is_ready: false,
        }
    }

    /// The buffer, when the stream is over. None where the producer or consumer has it still, or
    /// the device never gave it back.
    pub fn into_buffer(self) -> Option<Buffer> {
        self.buffer
    }

    /// Makes the block ready to be moved in pieces.
    pub(crate) fn begin(&mut self, buffer: Buffer, len_bytes: usize, device_block: usize) {
        self.lent = Some(Lent::new(buffer));
        self.len_bytes = len_bytes;
        self.whole_bytes = len_bytes.next_multiple_of(device_block);
        self.pieces_out = 0;
        self.is_ready = false;
    }

    /// Bytes of the block that are in pieces already.
    pub(crate) fn lent_bytes(&self) -> usize {
        self.lent.as_ref().map_or(0, Lent::offset_bytes)
    }

    /// Whether each piece of the block was submitted.
    pub(crate) fn is_submitted(&self) -> bool {
        self.lent_bytes() >= self.whole_bytes
    }

    /// The next piece, and how much of it is data. None: there is none left.
    pub(crate) fn next_piece(&mut self, most_bytes: usize) -> Option<(Buffer, usize)> {
        let from = self.lent_bytes();
        let len = self.whole_bytes.saturating_sub(from).min(most_bytes);
        if len == 0 {
            return None;
        }
        let piece = self.lent.as_mut()?.lend(len);
        let data = self.len_bytes.saturating_sub(from).min(piece.len());
        self.pieces_out += 1;
        Some((piece, data))
    }

    /// Undoes `next_piece`.
    pub(crate) fn put_back(&mut self, piece: Buffer) {
        if let Some(lent) = &mut self.lent {
            lent.unlend(piece);
            self.pieces_out -= 1;
        }
    }

    /// Takes a finished piece, and says where in the block it was. None: it is not of this block.
    pub(crate) fn take_back(&mut self, piece: Buffer) -> Option<usize> {
        let offset = self.lent.as_mut()?.give_back(piece).ok()?;
        self.pieces_out = self.pieces_out.saturating_sub(1);
        Some(offset)
    }

    /// Where in the block a piece of it is.
    pub(crate) fn offset_of(&self, piece: &Buffer) -> u64 {
        let first = self.lent.as_ref().map_or(0, Lent::address);
        piece.address().wrapping_sub(first) as u64
    }

    /// Whether the whole block was moved; its buffer is then in `buffer`.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.is_submitted() && self.pieces_out == 0 && self.reclaim()
    }

    /// Takes the buffer back, once no piece is out.
    pub(crate) fn reclaim(&mut self) -> bool {
        match self.lent.take().map(Lent::into_whole) {
            Some(Ok(buffer)) => {
                self.buffer = Some(buffer);
                true
            }
            Some(Err(lent)) => {
                self.lent = Some(lent);
                false
            }
            None => self.buffer.is_some(),
        }
    }
}

/// Whether each place has a buffer that is a multiple of `unit_bytes`.
pub(crate) fn are_good(places: &[Place], unit_bytes: usize) -> bool {
    let good = |place: &Place| {
        let buffer = place.buffer.as_ref();
        buffer.is_some_and(|buffer| !buffer.is_empty() && buffer.len() % unit_bytes == 0)
    };
    (1..=1 << 16).contains(&places.len()) && places.iter().all(good)
}
