// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording through the coprocessor, for the main CPU: the producer fills blocks in the
//! session's part of the window, and the drive reads them there.

use block::{Buffer, Clock};
use stream::{RecordOptions, RecordReport};

use crate::command::Opcode;
use crate::files::{FileNumber, FilesClient};
use crate::layout::STREAM_PLACES;
use crate::order::{ORDER_GAPS, Order, decode_record};
use crate::status::{Code, Error};

/// How to record.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordingOptions {
    /// Length of a block; a multiple of the drive's.
    pub block_bytes: u32,
    /// The rate at which blocks arrive, in bytes per second, by the coprocessor's clock, from the
    /// first one on. 0: each arrives when it is handed in.
    pub bytes_per_second: u64,
    /// Deadline, commits, and space ahead.
    pub record: RecordOptions,
}

/// A block that was written, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How much of the file is durable.
    pub durable_bytes: u64,
    /// Deadlines that the recording has missed so far.
    pub misses: u32,
    /// Whether this block's place became empty only after its deadline.
    pub is_late: bool,
}

/// A recording. Its calls are those of [`stream::Recorder`], but the coprocessor does the work.
/// Other files of the same session can be used in the meantime.
#[derive(Debug)]
pub struct Recording {
    file: FileNumber,
    /// Blocks that are empty, and blocks that the coprocessor has.
    empty: [Option<Buffer>; STREAM_PLACES],
    held: [Option<Buffer>; STREAM_PLACES],
    gap_block: Option<Buffer>,
    places: u64,
    taken: u64,
    handed: u64,
    answered: u64,
    /// The number of the producer's next block.
    next: u64,
    durable_bytes: u64,
}

impl Recording {
    /// Begins to record into `file`, which is open for writing. `ring` is divided into blocks; a
    /// remainder, and blocks past [`STREAM_PLACES`], are not used. `gaps` is a second file, empty
    /// and open for writing, and a block of the drive: lost blocks are then recorded there as gaps.
    /// Without it, a lost block ends the recording. All memory is in the session's data.
    ///
    /// # Errors
    /// The coprocessor's error; nothing has begun then.
    pub fn begin<C: Clock>(
        client: &mut FilesClient<C>,
        file: FileNumber,
        ring: Buffer,
        gaps: Option<(FileNumber, Buffer)>,
        options: &RecordingOptions,
    ) -> Result<Self, Error> {
        let record = &options.record;
        let mut order = Order {
            ring_offset: client.place_of(&ring)?,
            block_bytes: options.block_bytes,
            places: places(&ring, options.block_bytes),
            bytes_per_second: options.bytes_per_second,
            deadline_us: record.deadline_us,
            commit_bytes: record.commit_bytes,
            commit_us: record.commit_us,
            low_water_bytes: record.low_water_bytes,
            reserve_bytes: record.reserve_bytes,
            total_bytes: record.total_bytes.unwrap_or(0),
            retries: u32::from(record.retries),
            ..Order::default()
        };
        if let Some((file, block)) = &gaps {
            order.flags = ORDER_GAPS;
            order.gap_file = u64::from(file.0);
            order.gap_offset = client.place_of(block)?;
        }
        let durable_bytes = client.begin_stream(Opcode::Record, file, &order)?;
        let mut recording = Self {
            file,
            empty: [const { None }; STREAM_PLACES],
            held: [const { None }; STREAM_PLACES],
            gap_block: gaps.map(|(_, block)| block),
            places: u64::from(order.places),
            taken: 0,
            handed: 0,
            answered: 0,
            next: 0,
            durable_bytes,
        };
        divide(ring, order.block_bytes, order.places, &mut recording.empty);
        Ok(recording)
    }

    /// An empty block for the producer to fill; it may have several. `None`: each place is
    /// occupied.
    pub fn take(&mut self) -> Option<Buffer> {
        let block = self.empty.get_mut((self.taken % self.places) as usize)?;
        let block = block.take()?;
        self.taken += 1;
        Some(block)
    }

    /// Hands in the first `len_bytes` of a block that was [taken](Self::take), in the order in
    /// which they were taken. All except the last are whole multiples of the drive's block.
    ///
    /// # Errors
    /// With the block: the session has ended, or the block is not the next one.
    pub fn hand_in<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
        block: Buffer,
        len_bytes: usize,
    ) -> Result<(), (Error, Buffer)> {
        if self.handed == self.taken || len_bytes > block.len() {
            return Err((Error::Interface(Code::NotTaken), block));
        }
        let place = (self.handed % self.places) as u8;
        let len = len_bytes as u32;
        let sent = client.send_block(Opcode::RecordBlock, self.file, place, self.next, len);
        if let Err(failure) = sent {
            return Err((failure, block));
        }
        if let Some(held) = self.held.get_mut(usize::from(place)) {
            *held = Some(block);
        }
        self.handed += 1;
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// Reports that the producer had blocks but no place for them. The coprocessor learns this with
    /// the next block, or at the end.
    pub const fn overrun(&mut self, blocks: u64) {
        self.next = self.next.saturating_add(blocks);
    }

    /// The next completed block. Its place is empty again.
    ///
    /// # Errors
    /// Why the block was not written: the recording, or the session, has ended.
    pub fn poll<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
    ) -> Result<Option<Written>, Error> {
        let Some(answer) = client.take_block(self.file)? else {
            return Ok(None);
        };
        let place = usize::from(answer.place);
        if let (Some(held), Some(empty)) = (self.held.get_mut(place), self.empty.get_mut(place)) {
            *empty = held.take();
            self.answered += 1;
        }
        let (durable_bytes, misses) = answer.result?;
        self.durable_bytes = durable_bytes;
        Ok(Some(Written {
            durable_bytes,
            misses,
            is_late: answer.is_late,
        }))
    }

    /// Blocks that were handed in and have not completed.
    pub const fn outstanding(&self) -> u64 {
        self.handed - self.answered
    }

    /// How much of the file is durable, according to the last completion.
    pub const fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    /// Ends the recording: waits until everything that was handed in is written and durable, and
    /// returns the report. The file then belongs to the session again, to be closed.
    ///
    /// # Errors
    /// If the session has ended. How the *recording* ended is in the result.
    #[allow(clippy::type_complexity)]
    pub fn finish<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
    ) -> Result<(Result<(), stream::Error>, RecordReport), Error> {
        let table = client.end_stream(Opcode::RecordEnd, self.file, self.next)?;
        // The blocks were completed before the end was.
        while self.outstanding() > 0 {
            let answered = self.answered;
            let _ = self.poll(client);
            if self.answered == answered {
                break;
            }
        }
        let (result, report) = decode_record(&table);
        self.durable_bytes = report.durable_bytes;
        Ok((result, report))
    }

    /// The blocks that belong to the caller alone again, the one for gaps last.
    pub fn into_blocks<C: Clock>(
        mut self,
        client: &FilesClient<C>,
    ) -> [Option<Buffer>; STREAM_PLACES + 1] {
        let is_released = client.is_released() || self.outstanding() == 0;
        core::array::from_fn(|place| {
            let held = self.held.get_mut(place).and_then(Option::take);
            let empty = self.empty.get_mut(place).and_then(Option::take);
            match place {
                STREAM_PLACES => self.gap_block.take().filter(|_| is_released),
                _ => empty.or(held.filter(|_| is_released)),
            }
        })
    }
}

/// The number of places in a ring.
pub(crate) fn places(ring: &Buffer, block_bytes: u32) -> u32 {
    let places = ring.len().checked_div(block_bytes as usize);
    places.map_or(0, |places| places.min(STREAM_PLACES) as u32)
}

/// Divides a ring into its places.
pub(crate) fn divide(
    ring: Buffer,
    block_bytes: u32,
    places: u32,
    into: &mut [Option<Buffer>; STREAM_PLACES],
) {
    let mut rest = ring;
    for place in into.iter_mut().take(places as usize) {
        let (block, after) = rest.split_at(block_bytes as usize);
        *place = Some(block);
        rest = after;
    }
}
