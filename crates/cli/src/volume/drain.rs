//! A file out to a stream. The bytes are never copied. Where checksums are compared, or the device
//! itself keeps this thread busy, another thread does that and writes to where the data goes.

use crate::failure::{Exit, Failure, Result};
use crate::signals::Cancel;
use crate::volume::chunks::differences;
use crate::volume::fill::{Pace, allocate};
use crate::volume::flow::{Finished, Flow};
use crate::volume::{Mounted, failed, shown};
use block::Buffer;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use volume::layout::CHUNK_BYTES;
use volume::{Direction, Error, File};

/// How long one wait may last before the user's wish to end is looked at.
const WAIT_US: u32 = 100_000;
/// Checksums that are asked for at once: a block of 4 KiB has so many.
const SUMS: usize = 1024;

/// Takes each piece in order.
pub type Sink<'s> = dyn FnMut(&[u8]) -> Result<()> + Send + 's;

/// Which checksums the data must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sums {
    /// None are compared.
    Ignored,
    /// Those that the volume keeps.
    Stored,
    /// These, from the file's first chunk on.
    Given(Vec<u32>),
}

/// What to read.
#[derive(Clone, Debug)]
pub struct Part<'n> {
    /// The file, and its name for messages.
    pub file: File,
    /// Its name.
    pub name: &'n str,
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// The file's size.
    pub size_bytes: u64,
    /// What it is compared with.
    pub sums: Sums,
    /// Whether to read on after a chunk that is not what was written.
    pub past_rot: bool,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Bytes that the sink took.
    pub bytes: u64,
    /// Device commands for them.
    pub requests: u64,
    /// Offsets of the chunks that are not what was written.
    pub rot: Vec<u64>,
}

/// A buffer with data, and what its chunks must have.
struct Full {
    buffer: Buffer,
    offset_bytes: u64,
    len: usize,
    expected: Vec<u32>,
}

/// Reads `part` into `sink`. Nothing is in flight when it returns.
///
/// # Errors
/// The volume's, the sink's, the user's wish to end, or data that does not have its checksum,
/// which ends with [`Exit::Rot`]. Everything before the failure was delivered.
pub fn drain(
    mounted: &Mounted<'_, '_>,
    part: &Part<'_>,
    pace: Pace,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Drained> {
    if part.length_bytes == 0 {
        return Ok(Drained::default());
    }
    let pace = match part.sums {
        Sums::Ignored => pace,
        // Each buffer has whole chunks, so that each can be compared.
        _ => Pace {
            buffer_bytes: pace.buffer_bytes.next_multiple_of(CHUNK_BYTES as usize),
            ..pace
        },
    };
    let buffers = allocate(mounted, pace)?;
    let geometry = mounted.volume.geometry();
    let is_async = geometry.is_ok_and(|geometry| geometry.queue_depth > 1);
    let has_failed = AtomicBool::new(false);
    let writer = Writer {
        part,
        sink,
        has_failed: &has_failed,
        result: Ok(Drained::default()),
    };
    match is_async && part.sums == Sums::Ignored {
        // The device works while this thread writes: another would only cost its waking.
        true => drain_here(mounted, part, pace, buffers, writer, progress, cancel),
        false => drain_beside(mounted, part, pace, buffers, writer, progress, cancel),
    }
}

/// Writes in this thread.
fn drain_here(
    mounted: &Mounted<'_, '_>,
    part: &Part<'_>,
    pace: Pace,
    buffers: Vec<Buffer>,
    mut writer: Writer<'_, '_, '_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Drained> {
    let mut reader = Reader::new(mounted, part, pace, buffers)?;
    let has_failed = writer.has_failed;
    let mut output = |full| Some(writer.take(full));
    let result = reader.run(&mut output, None, progress, cancel, has_failed);
    reader.end();
    ended(result, writer.result)
}

/// Compares and writes in a thread of its own.
fn drain_beside(
    mounted: &Mounted<'_, '_>,
    part: &Part<'_>,
    pace: Pace,
    buffers: Vec<Buffer>,
    mut writer: Writer<'_, '_, '_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Drained> {
    let (full_to, full) = channel::<Full>();
    let (idle_to, idle) = channel();
    let mut reader = Reader::new(mounted, part, pace, buffers)?;
    thread::scope(|scope| {
        let has_failed = writer.has_failed;
        let thread = scope.spawn(move || {
            while let Ok(full) = full.recv() {
                // The other side takes all of them back at the end.
                let _ = idle_to.send(writer.take(full));
            }
            writer.result
        });
        let mut output = |full| full_to.send(full).err().map(|refused| refused.0.buffer);
        let result = reader.run(&mut output, Some(&idle), progress, cancel, has_failed);
        drop(full_to);
        let written = thread.join();
        reader.buffers.extend(idle.try_iter());
        reader.end();
        let written =
            written.unwrap_or_else(|_| Err(Failure::new(Exit::No, "the writing thread ended")));
        ended(result, written)
    })
}

fn ended(result: Result<u64>, written: Result<Drained>) -> Result<Drained> {
    match (result, written) {
        // The sink's failure is why the volume's side ended early.
        (_, Err(failure)) | (Err(failure), _) => Err(failure),
        (Ok(requests), Ok(drained)) => Ok(Drained {
            requests,
            ..drained
        }),
    }
}

/// What takes the data.
struct Writer<'w, 'n, 's> {
    part: &'w Part<'n>,
    sink: &'w mut Sink<'s>,
    has_failed: &'w AtomicBool,
    result: Result<Drained>,
}

impl Writer<'_, '_, '_> {
    /// Takes the data and gives the buffer back; after a failure only that.
    fn take(&mut self, full: Full) -> Buffer {
        let delivered = match &mut self.result {
            Ok(drained) => deliver(self.part, self.sink, &full, drained),
            Err(_) => Ok(()),
        };
        if let Err(failure) = delivered {
            self.has_failed.store(true, Ordering::Relaxed);
            self.result = Err(failure);
        }
        full.buffer
    }
}

fn deliver(part: &Part<'_>, sink: &mut Sink<'_>, full: &Full, drained: &mut Drained) -> Result<()> {
    let data = full.buffer.get(..full.len).unwrap_or_default();
    let mut good = data.len() as u64;
    for at in differences(data, &full.expected) {
        if !part.past_rot {
            good = at;
            break;
        }
        drained.rot.push(full.offset_bytes + at);
    }
    let first = part.offset_bytes.saturating_sub(full.offset_bytes);
    let end = part.offset_bytes + part.length_bytes;
    let last = end.saturating_sub(full.offset_bytes).min(good);
    let wanted = data.get(first as usize..last as usize).unwrap_or_default();
    if !wanted.is_empty() {
        sink(wanted)?;
        drained.bytes += wanted.len() as u64;
    }
    match good < data.len() as u64 {
        true => Err(rot(part.name, full.offset_bytes + good)),
        false => Ok(()),
    }
}

/// The failure of a file whose chunk at `offset` is not what was written.
fn rot(name: &str, offset: u64) -> Failure {
    Failure::new(
        Exit::Rot,
        format!(
            "`{}` has rotted: the {} KiB at offset {offset} do not have their checksum",
            shown(name),
            CHUNK_BYTES >> 10
        ),
    )
    .hint("restore the file from a copy; --offset and --length read what is around it")
}

struct Reader<'m, 'v, 'a> {
    mounted: &'m Mounted<'v, 'a>,
    part: &'m Part<'m>,
    pace: Pace,
    flow: Flow<'v, 'a>,
    buffers: Vec<Buffer>,
    /// Next offset to read, and where reading ends.
    next: u64,
    end: u64,
    /// Read, but not all of its checksums are there.
    waiting: VecDeque<Finished>,
    /// Checksums from chunk `first_sum` on.
    sums: VecDeque<u32>,
    first_sum: u64,
}

impl<'m, 'v, 'a> Reader<'m, 'v, 'a> {
    fn new(
        mounted: &'m Mounted<'v, 'a>,
        part: &'m Part<'m>,
        pace: Pace,
        buffers: Vec<Buffer>,
    ) -> Result<Self> {
        let doing = || format!("reading `{}`", part.name);
        let geometry = mounted.volume.geometry();
        let geometry = geometry.map_err(|error| failed(doing(), error))?;
        let align = match part.sums {
            Sums::Ignored => geometry.block_size_bytes() as u64,
            _ => CHUNK_BYTES,
        };
        let flow = Flow::new(mounted.volume, part.file, Direction::Read);
        let next = part.offset_bytes / align * align;
        let end = (part.offset_bytes + part.length_bytes).next_multiple_of(align);
        let first_sum = next / CHUNK_BYTES;
        let given = match &part.sums {
            Sums::Given(sums) => sums.iter().skip(first_sum as usize).copied().collect(),
            _ => VecDeque::new(),
        };
        Ok(Self {
            mounted,
            part,
            pace,
            flow,
            buffers,
            next,
            end: end.min(part.size_bytes),
            waiting: VecDeque::new(),
            sums: given,
            first_sum,
        })
    }

    fn run(
        &mut self,
        output: &mut dyn FnMut(Full) -> Option<Buffer>,
        idle: Option<&Receiver<Buffer>>,
        progress: &mut dyn FnMut(u64),
        cancel: &Cancel,
        has_failed: &AtomicBool,
    ) -> Result<u64> {
        let volume = self.mounted.volume;
        let mut moved = 0;
        let mut interrupted = false;
        let mut sent = 0usize;
        loop {
            if (cancel.is_set() && !interrupted) || has_failed.load(Ordering::Relaxed) {
                interrupted = cancel.is_set();
                self.flow.fail(self.next, Error::Busy);
            }
            let (sums, mut happened) = self.flow.turn();
            self.sums.extend(sums.into_iter().flatten());
            while let Some(finished) = self.flow.pop() {
                happened = true;
                self.waiting.push_back(finished);
            }
            while let Some(one) = self.take_ready() {
                happened = true;
                moved += one.len as u64;
                progress(moved);
                match output(one) {
                    Some(buffer) => self.buffers.push(buffer),
                    None => sent += 1,
                }
            }
            while let Some(Ok(buffer)) = idle.map(Receiver::try_recv) {
                self.buffers.push(buffer);
                sent -= 1;
                happened = true;
            }
            happened |= self.push_more();
            self.fetch_sums();
            let is_done = self.next >= self.end || self.flow.failure().is_some();
            let is_empty = self.flow.buffers() == 0 && self.waiting.is_empty();
            if is_done && is_empty && !self.flow.is_working() {
                break;
            }
            if happened {
                continue;
            }
            if volume.outstanding() > 0 {
                volume.wait(WAIT_US);
            } else if sent > 0 && self.buffers.is_empty() {
                let timeout = Duration::from_micros(u64::from(WAIT_US));
                if let Some(Ok(buffer)) = idle.map(|idle| idle.recv_timeout(timeout)) {
                    self.buffers.push(buffer);
                    sent -= 1;
                }
            }
        }
        match self.flow.failure() {
            _ if interrupted => Err(Failure::interrupted("interrupted")),
            Some((at, error)) => Err(failed(
                format_args!("reading `{}` at byte {at}", self.part.name),
                error,
            )),
            None => Ok(self.flow.requests()),
        }
    }

    /// Gives the buffers back.
    fn end(self) {
        for buffer in self.buffers {
            self.mounted.memory.give_back(buffer);
        }
    }

    fn push_more(&mut self) -> bool {
        let mut happened = false;
        while self.flow.failure().is_none()
            && self.next < self.end
            && self.flow.buffers() < self.pace.depth
        {
            let Some(buffer) = self.buffers.pop() else {
                break;
            };
            let len = (buffer.len() as u64).min(self.end - self.next);
            self.flow.push(buffer, self.next, len as usize);
            self.next += len;
            happened = true;
        }
        happened
    }

    /// Reads checksums ahead of the data.
    fn fetch_sums(&mut self) {
        let known_end = self.first_sum + self.sums.len() as u64;
        let needed_end = self.next.div_ceil(CHUNK_BYTES);
        let is_stored = self.part.sums == Sums::Stored;
        if !is_stored || known_end >= needed_end || self.flow.failure().is_some() {
            return;
        }
        let (volume, file) = (self.mounted.volume, self.part.file);
        self.flow.start(async move {
            let mut sums = vec![0; SUMS];
            let count = volume.checksums(file, known_end, &mut sums).await?;
            sums.truncate(count);
            // A file that has no more would be asked for ever.
            match count {
                0 => Err(Error::PastEnd),
                _ => Ok(sums),
            }
        });
    }

    /// The oldest buffer that was read and whose checksums are known. What cannot be delivered
    /// goes back to the idle ones.
    fn take_ready(&mut self) -> Option<Full> {
        loop {
            let oldest = self.waiting.front()?;
            let chunks = (oldest.len as u64).div_ceil(CHUNK_BYTES) as usize;
            let is_known = match self.part.sums {
                Sums::Stored => self.sums.len() >= chunks,
                _ => true,
            };
            let has_failed = self.flow.failure().is_some();
            if !is_known && !has_failed {
                return None;
            }
            let Finished {
                buffer,
                offset_bytes,
                len,
                is_moved,
            } = self.waiting.pop_front()?;
            let Some(buffer) = buffer else {
                self.flow
                    .fail(offset_bytes, Error::from(block::Error::Gone));
                continue;
            };
            if !is_moved || !is_known {
                self.buffers.push(buffer);
                continue;
            }
            let count = match self.part.sums {
                Sums::Ignored => 0,
                _ => chunks.min(self.sums.len()),
            };
            self.first_sum += count as u64;
            return Some(Full {
                buffer,
                offset_bytes,
                len,
                expected: self.sums.drain(..count).collect(),
            });
        }
    }
}
