// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The active streams, and their clients' requests.

use volume::{DataEvent, File};

use super::transfer::Asker;
use crate::layout::STREAM_PLACES;
use crate::order::Order;
use crate::status::Code;

/// Streams that can be active at the same time.
const STREAMS: usize = 2;

/// A stream to begin. Every number in it was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) asker: Asker,
    pub(crate) order: Order,
    pub(crate) file: File,
    pub(crate) gap_file: Option<File>,
    pub(super) handle: u8,
    pub(super) gap_handle: u8,
    pub(super) is_play: bool,
    /// The offsets in the window of the ring, and of the block for the companion's lines.
    pub(super) ring: usize,
    pub(super) gap_block: usize,
}

/// A block that the client handed in, or requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockCommand {
    pub(crate) id: u16,
    pub(crate) len_bytes: u32,
    /// The block's number, or how many were given back.
    pub(crate) number: u64,
    pub(crate) seen_at: u32,
}

/// The client's request to end the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndCommand {
    pub(super) asker: Asker,
    /// The offset of the report in the window.
    pub(super) data: usize,
    /// Blocks that the producer had, handed in or not.
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) start: Start,
    /// Its future runs: events of its files belong to the stream.
    pub(super) has_begun: bool,
    pub(super) blocks: [BlockCommand; STREAM_PLACES],
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) end: Option<EndCommand>,
}

/// The active streams, and an event of the volume for one of them.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(super) slots: [Option<Slot>; STREAMS],
    pub(super) event: Option<(usize, DataEvent)>,
}

impl Streams {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const { None }; STREAMS],
            event: None,
        }
    }

    pub(crate) const fn has_event(&self) -> bool {
        self.event.is_some()
    }

    /// The client no longer waits for the event.
    pub(crate) fn drop_event(&mut self) {
        self.event = None;
    }

    pub(super) fn slot(&mut self, index: usize) -> Option<&mut Slot> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// The stream of an open file.
    pub(super) fn of(&mut self, handle: usize, is_play: bool) -> Result<&mut Slot, Code> {
        let mut slots = self.slots.iter_mut().flatten();
        let found = slots
            .find(|slot| usize::from(slot.start.handle) == handle && slot.start.is_play == is_play);
        found.ok_or(Code::NoStream)
    }

    /// Keeps an event for its stream; returns events that belong to no stream.
    pub(crate) fn keep(&mut self, event: DataEvent) -> Option<DataEvent> {
        let is_its = |slot: &Slot| {
            let start = &slot.start;
            slot.has_begun && (start.file == event.file || start.gap_file == Some(event.file))
        };
        let mut slots = self.slots.iter();
        match slots.position(|slot| slot.as_ref().is_some_and(is_its)) {
            Some(index) => {
                self.event = Some((index, event));
                None
            }
            None => Some(event),
        }
    }
}
