//! Transfers between buffers and files of a volume, many of them under way.

use super::AnyVolume;
use super::turns::pass;
use block::Buffer;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use volume::{Direction, Error, Event, File, Need, Progress, Transfer};

/// The transfers under way.
pub struct Moves<'v, 'a> {
    volume: &'v AnyVolume<'a>,
    /// Completions that their transfer has not taken, by tag.
    events: RefCell<HashMap<u16, Vec<Event>>>,
    last_tag: Cell<u16>,
}

impl<'v, 'a> Moves<'v, 'a> {
    /// None yet.
    pub fn new(volume: &'v AnyVolume<'a>) -> Self {
        Self {
            volume,
            events: RefCell::default(),
            last_tag: Cell::new(0),
        }
    }

    /// Keeps a completion for its transfer.
    pub fn take_back(&self, event: Event) {
        let mut events = self.events.borrow_mut();
        events.entry(event.tag).or_default().push(event);
    }

    /// Moves `len` bytes; `provide` supplies what the transfer stops for. The buffer comes back unless the device kept it.
    pub async fn run(
        &self,
        file: File,
        way: Direction,
        offset: u64,
        buffer: Buffer,
        len: usize,
        provide: impl AsyncFn(Need) -> Result<(), Error>,
    ) -> (Option<Buffer>, Result<(), Error>) {
        let (volume, tag) = (self.volume, self.tag());
        let mut transfer = Transfer::new(file, way, offset, buffer, len, tag);
        loop {
            let events = self.events.borrow_mut().remove(&tag);
            for event in events.into_iter().flatten() {
                transfer.take_back(event);
            }
            match transfer.go_on(volume) {
                Progress::Done => break,
                Progress::Submitted | Progress::Blocked => pass().await,
                Progress::Needs(need) => {
                    if let Err(error) = provide(need).await {
                        transfer.fail(error);
                    }
                }
            }
        }
        if transfer.failure().is_some() && way == Direction::Append {
            // What was appended before the failure stays; the rest is discarded.
            let _ = volume.rewind(file);
        }
        transfer.end()
    }

    /// A tag that no transfer under way has: there are fewer than tags.
    fn tag(&self) -> u16 {
        let tag = self.last_tag.get().wrapping_add(1);
        self.last_tag.set(tag);
        tag
    }
}
