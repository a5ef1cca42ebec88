// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrapper for any device that injects faults according to rules.
//!
//! A command with a fault is answered here, or passed on with a change: another address, a part of
//! its buffer, a bit inverted while it is stored. The change is undone before the buffer is given
//! back, so the caller's buffers and tags are always its own. Time-outs are
//! `Fault::Fail(Error::TimedOut)`, without effect, and `Fault::FailDone(Error::TimedOut)`.

use crate::command::Command;
use crate::content::Content;
use crate::disk::{POISON, complete};
use crate::medium::{Medium, flip};
use crate::plan::{Fault, Faults, Rule, State};
use crate::tags::Tags;
use block::{Buffer, Completion, Device, Error, Geometry, Lent, Operation, Refused, Request, Tag};
use std::collections::{HashMap, VecDeque};

/// What to do when a passed-on command completes.
#[derive(Debug)]
enum Then {
    Nothing,
    Fail(Error),
    /// The rest of the caller's buffer.
    Short(Lent),
    FlipRead(u32),
    FlipWrite(u32),
    Stale(Medium),
    Misdirected,
}

#[derive(Debug)]
struct Passed {
    tag: Tag,
    /// The caller's request.
    lba: u64,
    is_read: bool,
    then: Then,
}

/// `D` with faults.
#[derive(Debug)]
pub struct Faulty<D> {
    device: D,
    faults: Faults,
    passed: Tags<Passed>,
    /// Requests that are answered here, in order; the first `kicked` may be polled.
    answered: VecDeque<Completion>,
    kicked: usize,
    versions: HashMap<u64, Versions>,
}

/// The newest content of a written block, and the previous one.
#[derive(Debug)]
struct Versions {
    newest: Content,
    before: Option<Content>,
}

impl<D: Device> Faulty<D> {
    /// `device` with `rules`.
    pub fn new(device: D, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            device,
            faults: Faults::new(rules),
            passed: Tags::new(),
            answered: VecDeque::new(),
            kicked: 0,
            versions: HashMap::new(),
        }
    }

    /// The handle to the rules and their effects.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// Removes the wrapper. Outstanding requests stay with the inner device, under other tags.
    pub fn into_inner(self) -> D {
        self.device
    }

    fn answer(&mut self, request: Request, result: Result<(), Error>) {
        self.answered.push_back(complete(request, result));
    }

    /// Passes `request` on, and undoes what was changed in it if it is refused.
    fn pass(&mut self, mut request: Request, then: Then) -> Result<(), Refused> {
        let lba = lba_mut(&mut request.operation).map_or(0, |lba| *lba);
        self.pass_to(request, lba, then)
    }

    /// Like [`pass`](Faulty::pass), for a request that the caller addressed to `lba`.
    fn pass_to(&mut self, mut request: Request, lba: u64, then: Then) -> Result<(), Refused> {
        let tag = request.tag;
        let is_read = matches!(request.operation, Operation::Read { .. });
        let written = self.written(&request.operation);
        request.tag = self.passed.put(Passed {
            tag,
            lba,
            is_read,
            then,
        });
        let Err(mut refused) = self.device.submit(request) else {
            self.keep_versions(written);
            return Ok(());
        };
        if let Some(passed) = self.passed.take(refused.request.tag) {
            refused.request.tag = passed.tag;
            if let Some(place) = lba_mut(&mut refused.request.operation) {
                *place = passed.lba;
            }
            if let Some(buffer) = buffer_mut(&mut refused.request.operation) {
                put_right(buffer, passed.then);
            }
        }
        Err(refused)
    }

    fn apply(&mut self, mut request: Request, fault: Fault) -> Result<(), Refused> {
        match fault {
            Fault::Refuse(error) => return Err(Refused { error, request }),
            Fault::Fail(error) => self.answer(request, Err(error)),
            Fault::FailDone(error) => return self.pass(request, Then::Fail(error)),
            Fault::Remove => {
                self.faults.with(|state| state.is_removed = true);
                self.answer(request, Err(Error::Gone));
            }
            Fault::Lose => self.answer(request, Ok(())),
            Fault::Short { done_blocks } => return self.short(request, done_blocks),
            Fault::Misdirect { by_blocks } => {
                let size = self.device.geometry().block_size_log2;
                let command = Command::new(0, &request.operation, size);
                let room = self.device.geometry().block_count - u64::from(command.block_count) + 1;
                if let Some(lba) = lba_mut(&mut request.operation) {
                    let moved = i128::from(*lba) + i128::from(by_blocks);
                    *lba = u64::try_from(moved.rem_euclid(i128::from(room))).unwrap_or(0);
                }
                return self.pass_to(request, command.lba, Then::Misdirected);
            }
            Fault::Stale { before } => return self.pass(request, Then::Stale(before)),
            Fault::FlipRead { bit } => return self.pass(request, Then::FlipRead(bit)),
            Fault::FlipWrite { bit } => {
                if let Some(buffer) = buffer_mut(&mut request.operation) {
                    flip(buffer, bit);
                }
                return self.pass(request, Then::FlipWrite(bit));
            }
        }
        Ok(())
    }

    fn short(&mut self, request: Request, done_blocks: u32) -> Result<(), Refused> {
        let block_size = self.device.geometry().block_size_bytes();
        let Request { tag, operation } = request;
        let (lba, buffer, write_fua) = match operation {
            Operation::Read { lba, buffer } => (lba, buffer, None),
            Operation::Write { lba, buffer, fua } => (lba, buffer, Some(fua)),
            operation => return self.pass(Request { tag, operation }, Then::Nothing),
        };
        let with = |buffer| match write_fua {
            None => Operation::Read { lba, buffer },
            Some(fua) => Operation::Write { lba, buffer, fua },
        };
        let done_bytes = (done_blocks as usize).saturating_mul(block_size);
        let done_bytes = done_bytes.min(buffer.len() - block_size);
        if done_bytes == 0 {
            let operation = with(buffer);
            self.answer(
                Request { tag, operation },
                Err(Error::ShortTransfer { done_bytes: 0 }),
            );
            return Ok(());
        }
        let mut lent = Lent::new(buffer);
        let operation = with(lent.lend(done_bytes));
        self.pass(Request { tag, operation }, Then::Short(lent))
    }

    /// The blocks that `operation` writes, if a rule asks for older versions.
    fn written(&self, operation: &Operation) -> Vec<(u64, Content)> {
        if !self.faults.with(|state| state.keeps_versions()) {
            return Vec::new();
        }
        let block_size = self.device.geometry().block_size_bytes();
        match operation {
            Operation::Write { lba, buffer, .. } => (*lba..)
                .zip(buffer.chunks_exact(block_size))
                .map(|(lba, block)| (lba, Content::new(block)))
                .collect(),
            Operation::Discard { lba, block_count }
            | Operation::WriteZeroes {
                lba, block_count, ..
            } => {
                // For other blocks the previous version is that of the image before in any case.
                let range = *lba..*lba + u64::from(*block_count);
                let known = self.versions.keys().filter(|lba| range.contains(lba));
                let zeroes = Content::new(&vec![0; block_size]);
                known.map(|lba| (*lba, zeroes.clone())).collect()
            }
            Operation::Read { .. } | Operation::Flush => Vec::new(),
        }
    }

    fn keep_versions(&mut self, written: Vec<(u64, Content)>) {
        for (lba, newest) in written {
            let before = self.versions.remove(&lba).map(|versions| versions.newest);
            self.versions.insert(lba, Versions { newest, before });
        }
    }

    /// Fills `buffer` with the content of `lba` before its newest write.
    fn give_stale(&self, lba: u64, buffer: &mut [u8], before: &Medium) -> Result<(), Error> {
        let block_size = self.device.geometry().block_size_bytes();
        for (lba, block) in (lba..).zip(buffer.chunks_exact_mut(block_size)) {
            let version = self.versions.get(&lba);
            match version.and_then(|versions| versions.before.as_ref()) {
                Some(content) => block.copy_from_slice(content.bytes()),
                None => before.read(lba, block)?,
            }
        }
        Ok(())
    }

    /// The caller's completion of a command that was passed on.
    fn finish(&mut self, completion: Completion) -> Completion {
        let Some(passed) = self.passed.take(completion.tag) else {
            return completion;
        };
        let mut completion = Completion {
            tag: passed.tag,
            ..completion
        };
        let mut moved = 0;
        match (passed.then, &mut completion.buffer) {
            (Then::Fail(error), _) => completion.result = Err(error),
            (Then::FlipRead(bit) | Then::FlipWrite(bit), Some(buffer)) => flip(buffer, bit),
            (Then::Stale(before), Some(buffer)) if completion.result.is_ok() => {
                completion.result = self.give_stale(passed.lba, buffer, &before);
            }
            (then @ Then::Short(_), Some(buffer)) => {
                moved = buffer.len();
                put_right(buffer, then);
                let done_bytes = u32::try_from(moved).unwrap_or(u32::MAX);
                let short = Err(Error::ShortTransfer { done_bytes });
                completion.result = completion.result.and(short);
            }
            _ => {}
        }
        if self.faults.with(|state| state.is_removed) {
            completion.result = Err(Error::Gone);
        }
        if let (true, Err(_), Some(buffer)) =
            (passed.is_read, completion.result, &mut completion.buffer)
        {
            buffer[moved..].fill(POISON);
        }
        completion
    }
}

/// Undoes the changes to the caller's data in `buffer`.
fn put_right(buffer: &mut Buffer, then: Then) {
    match then {
        Then::FlipWrite(bit) => flip(buffer, bit),
        Then::Short(mut lent) => {
            let piece = std::mem::replace(buffer, Buffer::from_static(&mut []));
            match lent.give_back(piece) {
                // The only piece was given back, so this always succeeds.
                Ok(_) => {
                    if let Ok(whole) = lent.into_whole() {
                        *buffer = whole;
                    }
                }
                // The device below returned the wrong buffer: the caller must see it.
                Err(foreign) => *buffer = foreign,
            }
        }
        _ => {}
    }
}

fn lba_mut(operation: &mut Operation) -> Option<&mut u64> {
    match operation {
        Operation::Read { lba, .. }
        | Operation::Write { lba, .. }
        | Operation::Discard { lba, .. }
        | Operation::WriteZeroes { lba, .. } => Some(lba),
        Operation::Flush => None,
    }
}

fn buffer_mut(operation: &mut Operation) -> Option<&mut Buffer> {
    match operation {
        Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => Some(buffer),
        _ => None,
    }
}

impl<D: Device> Device for Faulty<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let geometry = *self.device.geometry();
        if let Err(error) = geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        if self.outstanding() >= usize::from(geometry.queue_depth) {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        }
        let (command, decided, is_removed) = self.faults.with(|state: &mut State| {
            let number = state.next_number();
            let command = Command::new(number, &request.operation, geometry.block_size_log2);
            (command, state.decide(&command), state.is_removed)
        });
        let (rule, is_refusal, done) = match decided {
            _ if is_removed => {
                self.answer(request, Err(Error::Gone));
                (None, false, Ok(()))
            }
            None => (None, false, self.pass(request, Then::Nothing)),
            Some((rule, fault)) => {
                let is_refusal = matches!(fault, Fault::Refuse(_));
                (Some(rule), is_refusal, self.apply(request, fault))
            }
        };
        if done.is_ok() || is_refusal {
            self.faults.with(|state| state.count(command, rule));
        }
        done
    }

    fn kick(&mut self) {
        self.kicked = self.answered.len();
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.kicked > 0 {
            self.kicked -= 1;
            return self.answered.pop_front();
        }
        let completion = self.device.poll()?;
        Some(self.finish(completion))
    }

    fn outstanding(&self) -> usize {
        self.answered.len() + self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.kicked == 0 {
            self.device.wait(timeout_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::buffer;
    use crate::{CommandKind, Config, CrashDisk, On};
    use block::blocking;

    /// Blocks 0 to 15, of which each byte is the block's address.
    fn disk() -> CrashDisk {
        let mut medium = Medium::new(9, 16).unwrap();
        for lba in 0..16 {
            medium.write(lba, &[lba as u8; 512]).unwrap();
        }
        medium.open(Config::default())
    }

    fn first_bytes(medium: &Medium) -> Vec<u8> {
        let bytes = medium.to_bytes();
        bytes.chunks(512).map(|block| block[0]).collect()
    }

    /// Writes blocks 4 and 5 with `fault`; returns its result and the blocks' content afterwards.
    fn write_with(fault: Fault) -> (Result<(), Error>, Vec<u8>) {
        let disk = disk();
        let rule = Rule::once(On::Kind(CommandKind::Write), 1, fault);
        let mut device = Faulty::new(disk.clone(), [rule]);
        let outcome = blocking::write(&mut device, 4, buffer(1024, 99), false);
        assert_eq!(outcome.buffer.len(), 1024, "the whole buffer is back");
        assert!(outcome.buffer.iter().all(|&byte| byte == 99));
        assert_eq!(device.faults().fired_count(), 1);
        let again = blocking::write(&mut device, 8, outcome.buffer, false);
        assert_eq!(again.result, Ok(()), "once");
        let mut blocks = first_bytes(&disk.current());
        assert_eq!(blocks[8..10], [99, 99]);
        blocks.truncate(8);
        (outcome.result, blocks)
    }

    #[test]
    fn a_write_fails_in_each_way() {
        const OLD: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
        const DONE: [u8; 8] = [0, 1, 2, 3, 99, 99, 6, 7];
        let timed_out = Error::TimedOut;
        let cases = [
            (Fault::Refuse(Error::QueueFull), Err(Error::QueueFull), OLD),
            (Fault::Fail(timed_out), Err(timed_out), OLD),
            (Fault::FailDone(timed_out), Err(timed_out), DONE),
            (Fault::Lose, Ok(()), OLD),
            (
                Fault::Short { done_blocks: 1 },
                Err(Error::ShortTransfer { done_bytes: 512 }),
                [0, 1, 2, 3, 99, 5, 6, 7],
            ),
            (
                Fault::Short { done_blocks: 0 },
                Err(Error::ShortTransfer { done_bytes: 0 }),
                OLD,
            ),
            (
                Fault::Misdirect { by_blocks: -3 },
                Ok(()),
                [0, 99, 99, 3, 4, 5, 6, 7],
            ),
            (
                Fault::FlipWrite { bit: 7 },
                Ok(()),
                [0, 1, 2, 3, 99 ^ 128, 99, 6, 7],
            ),
        ];
        for (fault, result, blocks) in cases {
            let name = format!("{fault:?}");
            assert_eq!(write_with(fault), (result, blocks.to_vec()), "{name}");
        }
    }

    #[test]
    fn a_read_fails_in_each_way() {
        let mut before = Medium::new(9, 16).unwrap();
        before.write(4, &[50; 1024]).unwrap();
        let gone = Error::Nvme { status: 0x281 };
        let cases = [
            (Fault::Fail(gone), Err(gone), [POISON; 2]),
            (Fault::FailDone(gone), Err(gone), [POISON; 2]),
            (
                Fault::Short { done_blocks: 9 },
                Err(Error::ShortTransfer { done_bytes: 512 }),
                [4, POISON],
            ),
            (Fault::Misdirect { by_blocks: 12 }, Ok(()), [1, 2]),
            (Fault::FlipRead { bit: 4096 }, Ok(()), [4, 5 ^ 1]),
            (Fault::Stale { before }, Ok(()), [50, 50]),
        ];
        for (fault, result, blocks) in cases {
            let name = format!("{fault:?}");
            let mut device = Faulty::new(disk(), [Rule::once(On::Any, 2, fault)]);
            let first = blocking::read(&mut device, 4, buffer(1024, 0));
            assert_eq!(first.result, Ok(()), "the first is good");
            let read = blocking::read(&mut device, 4, buffer(1024, 0));
            assert_eq!(read.result, result, "{name}");
            assert_eq!([read.buffer[0], read.buffer[512]], blocks, "{name}");
            let third = blocking::read(&mut device, 4, buffer(1024, 0));
            assert_eq!([third.buffer[0], third.buffer[512]], [4, 5], "once");
        }
    }

    #[test]
    fn a_stale_read_gives_the_version_before_the_newest() {
        let disk = disk();
        let before = disk.current();
        let rule = Rule::from(On::Any, 1, Fault::Stale { before });
        let mut device = Faulty::new(disk, [rule]);
        for value in [31, 32, 33] {
            let _ = blocking::write(&mut device, 6, buffer(512, value), false);
        }
        let _ = blocking::write(&mut device, 7, buffer(512, 41), false);
        let read = blocking::read(&mut device, 5, buffer(3 * 512, 0));
        let blocks: Vec<u8> = read.buffer.iter().step_by(512).copied().collect();
        assert_eq!(blocks, [5, 32, 7]);
        let zeroes = Operation::WriteZeroes {
            lba: 0,
            block_count: 16,
            fua: false,
        };
        blocking::command(&mut device, zeroes).unwrap();
        let read = blocking::read(&mut device, 5, buffer(3 * 512, 0));
        let blocks: Vec<u8> = read.buffer.iter().step_by(512).copied().collect();
        assert_eq!(blocks, [5, 33, 41]);
    }

    #[test]
    fn a_removed_device_gives_everything_back() {
        let disk = disk();
        let mut device = Faulty::new(disk, [Rule::once(On::Any, 3, Fault::Remove)]);
        for tag in 10..15 {
            let operation = Operation::Read {
                lba: u64::from(tag),
                buffer: buffer(512, 0),
            };
            device.submit(Request { tag, operation }).unwrap();
        }
        assert!(device.poll().is_none(), "nothing was kicked");
        device.kick();
        let mut tags = Vec::new();
        while let Some(completion) = device.poll() {
            assert_eq!(completion.result, Err(Error::Gone));
            assert_eq!(completion.buffer.unwrap()[..], [POISON; 512]);
            tags.push(completion.tag);
        }
        tags.sort_unstable();
        assert_eq!((tags, device.outstanding()), (vec![10, 11, 12, 13, 14], 0));
        assert_eq!(blocking::flush(&mut device), Err(Error::Gone));
        device.faults().clear();
        assert_eq!(blocking::flush(&mut device), Ok(()));
        assert_eq!(
            (device.faults().commands(), device.faults().fired_count()),
            (7, 1)
        );
    }

    #[test]
    fn what_the_inner_device_refuses_comes_back_as_it_was() {
        let flip = Rule::once(On::Any, 1, Fault::FlipWrite { bit: 0 });
        let short = Rule::once(On::Any, 1, Fault::Short { done_blocks: 1 });
        let misdirect = Rule::once(On::Any, 1, Fault::Misdirect { by_blocks: 2 });
        for rule in [flip, short, misdirect] {
            let refuse = Rule::once(On::Any, 1, Fault::Refuse(Error::QueueFull));
            let mut device = Faulty::new(Faulty::new(disk(), [refuse]), [rule]);
            let operation = Operation::Write {
                lba: 3,
                buffer: buffer(1024, 8),
                fua: false,
            };
            let refused = device.submit(Request { tag: 77, operation }).unwrap_err();
            assert_eq!((refused.error, refused.request.tag), (Error::QueueFull, 77));
            let Operation::Write { lba: 3, buffer, .. } = refused.request.operation else {
                panic!("another request came back");
            };
            assert_eq!(buffer[..], [8; 1024]);
            assert_eq!(device.faults().fired_count(), 0, "it did not happen");
            // The next one is the first that is accepted, and has the fault.
            let _ = blocking::write(&mut device, 3, buffer, false);
            assert_eq!(device.faults().fired_count(), 1);
        }
    }
}
