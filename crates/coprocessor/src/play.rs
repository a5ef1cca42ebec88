// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback through the coprocessor, for the main CPU: the coprocessor reads ahead into blocks in
//! the session's part of the window and delivers each when it is due.

use block::{Buffer, Clock};
use stream::{PlayOptions, PlayReport};

use crate::command::Opcode;
use crate::files::{FileNumber, FilesClient};
use crate::layout::STREAM_PLACES;
use crate::order::{ORDER_VERIFY, Order, decode_play};
use crate::record::{divide, places};
use crate::status::{Code, Error};

/// How to play.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlayingOptions {
    /// Length of a block; a multiple of the drive's, and of 64 KiB to compare checksums.
    pub block_bytes: u32,
    /// Rate, deadline, checksums.
    pub play: PlayOptions,
}

/// A block for the consumer, to be given back with [`Playing::give_back`].
#[derive(Debug)]
pub struct Delivered {
    /// The block; what lies past `len_bytes` is padding.
    pub buffer: Buffer,
    /// Its length.
    pub len_bytes: usize,
    /// Where in the file it is.
    pub offset_bytes: u64,
    /// Whether it was delivered after its deadline.
    pub is_late: bool,
}

/// A playback.
#[derive(Debug)]
pub struct Playing {
    file: FileNumber,
    /// Blocks that the coprocessor has.
    held: [Option<Buffer>; STREAM_PLACES],
    places: u64,
    size_bytes: u64,
    asked: u64,
    answered: u64,
    delivered: u64,
    returned: u64,
    is_over: bool,
}

impl Playing {
    /// Begins to play `file` from its beginning to its end as committed now. `ring` is in the
    /// session's data and is divided as for a recording.
    ///
    /// # Errors
    /// The coprocessor's error; nothing has begun then.
    pub fn begin<C: Clock>(
        client: &mut FilesClient<C>,
        file: FileNumber,
        ring: Buffer,
        options: &PlayingOptions,
    ) -> Result<Self, Error> {
        let play = &options.play;
        let order = Order {
            ring_offset: client.place_of(&ring)?,
            block_bytes: options.block_bytes,
            places: places(&ring, options.block_bytes),
            flags: if play.verify { ORDER_VERIFY } else { 0 },
            bytes_per_second: play.bytes_per_second,
            deadline_us: play.deadline_us,
            retries: u32::from(play.retries),
            ..Order::default()
        };
        let size_bytes = client.begin_stream(Opcode::Play, file, &order)?;
        let mut playing = Self {
            file,
            held: [const { None }; STREAM_PLACES],
            places: u64::from(order.places),
            size_bytes,
            asked: 0,
            answered: 0,
            delivered: 0,
            returned: 0,
            is_over: false,
        };
        divide(ring, order.block_bytes, order.places, &mut playing.held);
        // A block is requested as soon as there is a place for it.
        for _ in 0..playing.places {
            playing.ask(client)?;
        }
        Ok(playing)
    }

    fn ask<C: Clock>(&mut self, client: &mut FilesClient<C>) -> Result<(), Error> {
        let place = (self.asked % self.places) as u8;
        client.send_block(Opcode::PlayBlock, self.file, place, self.returned, 0)?;
        self.asked += 1;
        Ok(())
    }

    /// The number of bytes to play.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The next block, if it is due and has been read.
    ///
    /// # Errors
    /// Why there will be no more: the session has ended, or the playback failed.
    pub fn next<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
    ) -> Result<Option<Delivered>, Error> {
        loop {
            let Some(answer) = client.take_block(self.file)? else {
                return Ok(None);
            };
            self.answered += 1;
            let (offset_bytes, len) = match answer.result {
                Ok(found) => found,
                Err(failure) => {
                    self.is_over = true;
                    if failure == Error::Interface(Code::StreamEnded) {
                        continue;
                    }
                    return Err(failure);
                }
            };
            let place = (self.delivered % self.places) as usize;
            let block = self.held.get_mut(place).and_then(Option::take);
            let buffer = block.ok_or(Error::Interface(Code::NotTaken))?;
            self.delivered += 1;
            return Ok(Some(Delivered {
                len_bytes: buffer.len().min(len as usize),
                buffer,
                offset_bytes,
                is_late: answer.is_late,
            }));
        }
    }

    /// Whether the last block was delivered, or the playback has failed.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Gives back the oldest delivered block, to be filled again.
    ///
    /// # Errors
    /// If no block is with the consumer, or the session has ended.
    pub fn give_back<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
        block: Buffer,
    ) -> Result<(), Error> {
        if self.returned == self.delivered {
            return Err(Error::Interface(Code::NotTaken));
        }
        let place = (self.returned % self.places) as usize;
        if let Some(held) = self.held.get_mut(place) {
            *held = Some(block);
        }
        self.returned += 1;
        if self.is_over {
            Ok(())
        } else {
            self.ask(client)
        }
    }

    /// Ends the playback, if it has not ended, and returns its report.
    ///
    /// # Errors
    /// If the session has ended. How the *playback* ended is in the result.
    #[allow(clippy::type_complexity)]
    pub fn finish<C: Clock>(
        &mut self,
        client: &mut FilesClient<C>,
    ) -> Result<(Result<(), stream::Error>, PlayReport), Error> {
        let table = client.end_stream(Opcode::PlayEnd, self.file, 0)?;
        // Requested blocks were completed before the end was.
        while self.answered < self.asked {
            match client.take_block(self.file) {
                Ok(Some(_)) => self.answered += 1,
                Ok(None) | Err(_) => break,
            }
        }
        self.is_over = true;
        Ok(decode_play(&table))
    }

    /// The blocks that belong to the caller alone again.
    pub fn into_blocks<C: Clock>(self, client: &FilesClient<C>) -> [Option<Buffer>; STREAM_PLACES] {
        let is_released = client.is_released() || (self.is_over && self.answered == self.asked);
        if is_released {
            self.held
        } else {
            [const { None }; STREAM_PLACES]
        }
    }
}
