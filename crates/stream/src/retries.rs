//! Pieces that failed and wait to be submitted again; each a bounded number of times.

use block::Buffer;
use volume::APPENDS_IN_FLIGHT;

/// A piece that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub offset_bytes: u64,
    pub tag: u16,
    attempts: u8,
    /// None while it is under way again.
    pub buffer: Option<Buffer>,
}

/// Failed pieces. There are never more than the volume lets be in flight.
#[derive(Debug)]
pub(crate) struct Retries {
    list: [Option<Failed>; APPENDS_IN_FLIGHT],
    count: usize,
    most: u8,
}

impl Retries {
    pub(crate) const fn new(most: u8) -> Self {
        Self {
            list: [const { None }; APPENDS_IN_FLIGHT],
            count: 0,
            most,
        }
    }

    /// Notes a failure. The buffer comes back when the piece has failed too often.
    pub(crate) fn failed(&mut self, offset_bytes: u64, tag: u16, buffer: Buffer) -> Option<Buffer> {
        let known = self.list.iter().position(|piece| {
            piece
                .as_ref()
                .is_some_and(|p| p.offset_bytes == offset_bytes)
        });
        let place = known.or_else(|| self.list.iter().position(Option::is_none));
        let Some(place) = place.and_then(|index| self.list.get_mut(index)) else {
            return Some(buffer);
        };
        let attempts = place.as_ref().map_or(0, |piece| piece.attempts);
        if attempts >= self.most {
            return Some(buffer);
        }
        self.count += usize::from(place.is_none());
        *place = Some(Failed {
            offset_bytes,
            tag,
            attempts: attempts + 1,
            buffer: Some(buffer),
        });
        None
    }

    /// Notes a success.
    pub(crate) fn succeeded(&mut self, offset_bytes: u64) {
        if self.count == 0 {
            return;
        }
        for place in &mut self.list {
            if place
                .as_ref()
                .is_some_and(|piece| piece.offset_bytes == offset_bytes)
            {
                *place = None;
                self.count -= 1;
            }
        }
    }

    /// The first piece that waits.
    pub(crate) fn waiting(&mut self) -> Option<&mut Failed> {
        if self.count == 0 {
            return None;
        }
        let mut pieces = self.list.iter_mut().flatten();
        pieces.find(|piece| piece.buffer.is_some())
    }
}
