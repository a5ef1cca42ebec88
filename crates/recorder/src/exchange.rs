// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The turns between the thread that reads a source and the recorders.

use crate::chain::{Chain, Segments, Target, Turn};
use crate::producer::Message;
use crate::recording::gap_file_at_its_end;
use block::{Buffer, Clock};
use devices::error::Result;
use files::Mounted;
use std::time::Duration;
use stream::{GapFile, RecordOptions};
use volume::File;

/// How long the recording may sleep while the device works, or while it waits for space.
pub const IDLE: Duration = Duration::from_micros(200);
/// The longest sleep while there is nothing to do. Blocks and readers end it; what is only looked
/// at, such as whether the machine wants the drive back, may be this late.
const IDLE_MAX: Duration = Duration::from_millis(250);

/// The other side of a recording, which fills buffers.
pub trait Exchange {
    /// Passes empty buffers on.
    fn lend(&mut self, take: impl FnMut() -> Option<Buffer>);

    /// What it has sent.
    fn next(&mut self) -> Option<Message>;

    /// The same, after at most this time.
    fn wait(&mut self, most: Duration) -> Option<Message>;

    /// Sleeps.
    fn sleep(&mut self, time: Duration);
}

/// What is constant from turn to turn.
#[derive(Clone, Copy, Debug)]
pub struct Turned {
    /// The length of a block.
    pub block_bytes: u64,
    /// Whether nothing is lost if the source waits.
    pub can_wait: bool,
}

/// How a recording begins: its segments, its first file and its companion, and the options of its
/// recorders.
pub type Begun<'s, 'a> = (Option<Turn<'s, 'a>>, File, Option<GapFile>, RecordOptions);

impl<'s, 'a> Target<'s, 'a> {
    /// The first file, and the options of its recorder.
    ///
    /// # Errors
    /// The companion cannot be read.
    pub fn begin(
        self,
        mounted: &Mounted<'_, 'a>,
        options: &RecordOptions,
    ) -> Result<Begun<'s, 'a>> {
        match self {
            Target::File(file, gap_file) => {
                let gaps = gap_file.map(|file| gap_file_at_its_end(mounted, file));
                Ok((None, file, gaps.transpose()?, *options))
            }
            Target::Segments(segments) => {
                let segments: Segments<'s, 'a> = *segments;
                let (turn, file, gaps) = Turn::new(segments, options.total_bytes);
                let options = RecordOptions {
                    total_bytes: turn.segment_bytes(),
                    waits_for_space: turn.is_ring(),
                    ..*options
                };
                Ok((Some(turn), file, gaps, options))
            }
        }
    }
}

impl<C: Clock> Chain<'_, '_, '_, '_, C> {
    /// One turn, after a [`step`](Chain::step): lends empty buffers and takes what arrived, or
    /// waits. The bytes that arrived. `is_ended` becomes true with the source's end.
    pub fn exchange(&mut self, ends: &mut impl Exchange, turn: Turned, is_ended: &mut bool) -> u64 {
        ends.lend(|| self.take());
        let is_held = self.holds(turn.block_bytes, turn.can_wait);
        // A block that is held is known to have come: space is made for data, not for the end.
        let received = match self.held.take() {
            None if is_held => match ends.next() {
                block @ Some(Message::Block { .. }) => {
                    self.held = block;
                    None
                }
                other => other,
            },
            None => ends.next(),
            block if is_held => {
                self.held = block;
                None
            }
            block => block,
        };
        let message = match received {
            Some(message) => Some(message),
            None if self.is_working() => {
                self.wait(IDLE.as_micros() as u32);
                None
            }
            None if is_held => {
                ends.sleep(IDLE);
                None
            }
            None if *is_ended => None,
            None => {
                let sleep = self.idle().map_or(IDLE, |due| due.clamp(IDLE, self.nap));
                self.nap = (self.nap * 2).min(IDLE_MAX);
                ends.wait(sleep)
            }
        };
        if message.is_some() || self.is_working() {
            self.nap = IDLE;
        }
        match message {
            Some(Message::Block {
                buffer,
                len,
                arrival,
                losses,
            }) => {
                self.hand_in(buffer, len, arrival, &losses);
                return len as u64;
            }
            // The recording ends by itself, with a reason.
            Some(Message::Lost { len, arrival }) => self.overrun(len, arrival),
            Some(Message::End) => {
                *is_ended = true;
                self.finish();
            }
            // The next turn looks at what is asked.
            Some(Message::Asked) | None => {}
        }
        0
    }

    /// Takes the buffer back of a block that was still held when the recording ended.
    pub fn release_held(&mut self) {
        if let Some(Message::Block { buffer, .. }) = self.held.take() {
            self.give_back(buffer);
        }
    }
}
