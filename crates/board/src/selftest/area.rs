// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tested range of a device: what each of its blocks should have, and transfers that are
//! checked against that.

use super::pattern::{Damage, Pattern};
use block::{Buffer, Device, Error, Lent, Operation, Request};
use devices::path::memory::Memory;
use std::fmt;

/// Fills buffers before a read: dirty lines that must not survive it.
const JUNK: u8 = 0xa5;
/// Surrounds a buffer, to notice a transfer that leaves it.
const CANARY: u8 = 0x5a;
/// Bytes in front of and behind a buffer: a page of the controller, so that any offset within a
/// page can be had.
pub const MARGIN_BYTES: usize = 4096;
/// How long one sleep for a completion lasts; the loop then polls again.
const WAIT_US: u32 = 100_000;

/// What a block should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Anything.
    Any,
    /// The data of a pass.
    Pass(u32),
    /// That of one of two writes that overlapped.
    Either(u32, u32),
    /// Zeroes.
    Zeroes,
}

/// Why a step failed.
#[derive(Debug)]
pub enum Fault {
    /// The device or its memory refused or failed.
    Device(String),
    /// The data is wrong.
    Data(String),
    /// Bytes outside of the buffer changed.
    Overrun,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(what) | Self::Data(what) => f.write_str(what),
            Self::Overrun => f.write_str("bytes next to the buffer were overwritten"),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Device(error.to_string())
    }
}

/// A transfer: first block (of the area), number of blocks, and the buffer's offset in a page.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First block, counted from the area's.
    pub first: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Where in a page of 4 KiB the buffer begins.
    pub page_offset: usize,
}

/// The tested range, whatever path it is reached by.
#[derive(Debug)]
pub struct Area {
    pattern: Pattern,
    first_lba: u64,
    block_bytes: usize,
    contents: Vec<Content>,
    pass: u32,
}

/// A buffer within a page-aligned allocation.
struct Placed {
    lent: Lent,
    head: Option<Buffer>,
    tail: Option<Buffer>,
}

impl Placed {
    fn new(memory: &Memory, span: Span, block_bytes: usize) -> Result<(Self, Buffer), Fault> {
        let len = span.blocks * block_bytes;
        let mut whole = memory
            .allocate(len + 2 * MARGIN_BYTES)
            .map_err(|failure| Fault::Device(failure.to_string()))?;
        whole.fill(CANARY);
        let mut lent = Lent::new(whole);
        let head = lent.lend(MARGIN_BYTES + span.page_offset);
        let middle = lent.lend(len);
        let tail = lent.lend(MARGIN_BYTES);
        let placed = Self {
            lent,
            head: Some(head),
            tail: Some(tail),
        };
        Ok((placed, middle))
    }

    /// Frees the memory; whether its margins are as they were.
    fn end(mut self, middle: Buffer, memory: &Memory) -> bool {
        let mut is_intact = true;
        for margin in [self.head.take(), self.tail.take()].into_iter().flatten() {
            is_intact &= margin.iter().all(|byte| *byte == CANARY);
            let _ = self.lent.give_back(margin);
        }
        let _ = self.lent.give_back(middle);
        if let Ok(whole) = self.lent.into_whole() {
            memory.give_back(whole);
        }
        is_intact
    }
}

impl Area {
    /// `blocks` blocks from `first_lba` on, about whose contents nothing is known.
    pub fn new(seed: u64, first_lba: u64, blocks: usize, block_bytes: usize) -> Self {
        Self {
            pattern: Pattern { seed },
            first_lba,
            block_bytes,
            contents: vec![Content::Any; blocks],
            pass: 0,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.contents.len()
    }

    /// Bytes in a block.
    pub const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The address on the device of a block of the area.
    pub const fn lba(&self, block: usize) -> u64 {
        self.first_lba + block as u64
    }

    fn set(&mut self, span: Span, content: Content) {
        let range = span.first..span.first + span.blocks;
        for one in self.contents.get_mut(range).unwrap_or_default() {
            *one = content;
        }
    }

    /// After a discard: the device may return anything.
    pub fn forget(&mut self, span: Span) {
        self.set(span, Content::Any);
    }

    /// After a write of zeroes.
    pub fn zeroed(&mut self, span: Span) {
        self.set(span, Content::Zeroes);
    }

    /// Writes new data to each span, all in flight at once. Spans that overlap may leave either's
    /// data in a block.
    ///
    /// # Errors
    /// The device failed.
    pub fn write(
        &mut self,
        device: &mut dyn Device,
        memory: &Memory,
        spans: &[Span],
    ) -> Result<(), Fault> {
        let mut jobs = Vec::new();
        let mut written = vec![None; self.contents.len()];
        for span in spans {
            self.pass += 1;
            let (placed, mut buffer) = Placed::new(memory, *span, self.block_bytes)?;
            for (index, block) in buffer.chunks_exact_mut(self.block_bytes).enumerate() {
                let at = span.first + index;
                self.pattern.fill(block, self.lba(at), self.pass);
                let content = match written.get(at).copied().flatten() {
                    Some(Content::Pass(other)) => Content::Either(other, self.pass),
                    Some(_) => Content::Any,
                    None => Content::Pass(self.pass),
                };
                if let Some(one) = written.get_mut(at) {
                    *one = Some(content);
                }
            }
            let operation = Operation::Write {
                lba: self.lba(span.first),
                buffer,
                fua: false,
            };
            jobs.push((placed, operation));
        }
        // What fails may have changed any of its blocks.
        spans.iter().for_each(|span| self.forget(*span));
        let mut is_intact = true;
        for (placed, buffer) in run(device, jobs)? {
            is_intact &= placed.end(buffer, memory);
        }
        for (content, written) in self.contents.iter_mut().zip(written) {
            *content = written.unwrap_or(*content);
        }
        is_intact.then_some(()).ok_or(Fault::Overrun)
    }

    /// Reads each span, all in flight at once, and checks every block.
    ///
    /// # Errors
    /// The device failed, or data is wrong: the first wrong block is named, and what it has.
    pub fn check(
        &self,
        device: &mut dyn Device,
        memory: &Memory,
        spans: &[Span],
    ) -> Result<(), Fault> {
        let mut jobs = Vec::new();
        for span in spans {
            let (placed, mut buffer) = Placed::new(memory, *span, self.block_bytes)?;
            buffer.fill(JUNK);
            let lba = self.lba(span.first);
            jobs.push((placed, Operation::Read { lba, buffer }));
        }
        let (mut wrong, mut is_intact) = (None, true);
        for ((placed, buffer), span) in run(device, jobs)?.into_iter().zip(spans) {
            let blocks = buffer.chunks_exact(self.block_bytes).enumerate();
            let found = blocks
                .map(|(index, block)| (span.first + index, block))
                .find_map(|(at, block)| Some((at, self.damage(at, block)?)));
            wrong = wrong.or(found);
            is_intact &= placed.end(buffer, memory);
        }
        match wrong {
            Some((at, damage)) => Err(self.explain(device, memory, at, damage)),
            None => is_intact.then_some(()).ok_or(Fault::Overrun),
        }
    }

    fn damage(&self, at: usize, block: &[u8]) -> Option<Damage> {
        let of = |pass| self.pattern.damage(block, self.lba(at), pass, JUNK);
        match self.contents.get(at)? {
            Content::Any => None,
            Content::Pass(pass) => of(*pass),
            Content::Either(one, other) => of(*one).and_then(|_| of(*other)),
            Content::Zeroes if block.iter().all(|byte| *byte == 0) => None,
            Content::Zeroes => of(self.pass.wrapping_add(1)),
        }
    }

    /// Names the defect: what a second read of the block returns distinguishes stale data from a
    /// lost write, and what the other block has distinguishes a swap from a misplaced write.
    fn explain(
        &self,
        device: &mut dyn Device,
        memory: &Memory,
        at: usize,
        damage: Damage,
    ) -> Fault {
        let mut again = |at: usize| -> Result<Option<Damage>, Fault> {
            let span = Span {
                first: at,
                blocks: 1,
                page_offset: 0,
            };
            let (placed, mut buffer) = Placed::new(memory, span, self.block_bytes)?;
            buffer.fill(JUNK);
            let lba = self.lba(at);
            let done = run(device, vec![(placed, Operation::Read { lba, buffer })])?;
            let mut found = None;
            for (placed, buffer) in done {
                found = self.damage(at, &buffer);
                placed.end(buffer, memory);
            }
            Ok(found)
        };
        let second = match again(at) {
            Ok(second) => second,
            Err(fault) => return fault,
        };
        let what = match (damage, second) {
            (Damage::Old { .. } | Damage::Torn { .. } | Damage::Untouched, None) => {
                "stale data: a second read is right".to_owned()
            }
            (_, None) => "only this read: a second one is right".to_owned(),
            (Damage::Old { .. }, Some(_)) => "lost write: a second read is the same".to_owned(),
            (Damage::OtherBlock { lba }, Some(_)) => {
                let other = lba.checked_sub(self.first_lba).map(|at| at as usize);
                let other = other.filter(|other| *other < self.blocks());
                let mine = Damage::OtherBlock { lba: self.lba(at) };
                match other.map(again) {
                    Some(Ok(Some(found))) if found == mine => {
                        format!("blocks {} and {lba} are swapped", self.lba(at))
                    }
                    _ => "misplaced write or read".to_owned(),
                }
            }
            (_, Some(_)) => "a second read is wrong too".to_owned(),
        };
        Fault::Data(format!("block {}: {damage} ({what})", self.lba(at)))
    }
}

/// Runs all of the jobs, as many at once as the queue holds, and returns the buffers in the jobs'
/// order.
fn run(
    device: &mut dyn Device,
    jobs: Vec<(Placed, Operation)>,
) -> Result<Vec<(Placed, Buffer)>, Fault> {
    let mut placed = Vec::new();
    let mut buffers = Vec::new();
    let mut failure = None;
    let mut waiting = jobs.into_iter().enumerate().peekable();
    loop {
        while waiting.peek().is_some()
            && failure.is_none()
            && device.outstanding() < usize::from(device.geometry().queue_depth)
        {
            let Some((index, (place, operation))) = waiting.next() else {
                break;
            };
            placed.push(Some(place));
            buffers.push(None);
            let request = Request {
                tag: index as u32,
                operation,
            };
            if let Err(refused) = device.submit(request) {
                failure = Some(refused.error);
            }
        }
        device.kick();
        if device.outstanding() == 0 {
            break;
        }
        match device.poll() {
            Some(completion) => {
                if let Err(error) = completion.result {
                    failure = failure.or(Some(error));
                }
                if let Some(slot) = buffers.get_mut(completion.tag as usize) {
                    *slot = completion.buffer;
                }
            }
            None => device.wait(WAIT_US),
        }
    }
    if let Some(error) = failure {
        return Err(error.into());
    }
    let pairs = placed.into_iter().zip(buffers);
    let pairs = pairs.map(|(place, buffer)| Some((place?, buffer?)));
    let lost = || Fault::Device("a completion did not return its buffer".to_owned());
    pairs.collect::<Option<Vec<_>>>().ok_or_else(lost)
}
