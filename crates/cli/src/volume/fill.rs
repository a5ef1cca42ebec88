//! A stream into a file: one thread reads the source into the device's buffers, this one keeps
//! the device busy. The bytes are never copied.

use crate::failure::{Failure, Result};
use crate::signals::Cancel;
use crate::volume::chunks::Chunks;
use crate::volume::flow::Flow;
use crate::volume::{Mounted, failed};
use block::Buffer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;
use volume::{Direction, Error, File};

/// How long one wait may last before the user's wish to end is looked at.
const WAIT_US: u32 = 100_000;
/// With checksums, how much is appended before they are stored: half of what the volume keeps in
/// memory.
const STORE_BYTES: u64 = 4 << 20;

/// Fills all of a buffer, or as much as there is; less than all of it at the end only. It looks at
/// the flag while it waits, and fails once that is set.
pub type Fill<'s> = dyn FnMut(&mut [u8], &AtomicBool) -> Result<usize> + Send + 's;

/// How to move it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
    /// Buffers on their way to or from the device.
    pub depth: usize,
}

/// What was put.
#[derive(Debug, Default)]
pub struct Filled {
    /// Bytes in the file.
    pub bytes: u64,
    /// Device commands for them.
    pub requests: u64,
    /// CRC32C of each 64 KiB of the source, where they were asked for.
    pub sums: Vec<u32>,
}

struct Full {
    buffer: Buffer,
    len: usize,
}

/// Appends all of the source to an empty file. Nothing is in flight when it returns, and nothing
/// is committed.
///
/// # Errors
/// The source's, the volume's, or the user's wish to end.
pub fn fill(
    mounted: &Mounted<'_, '_>,
    file: File,
    pace: Pace,
    with_sums: bool,
    source: &mut Fill<'_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Filled> {
    let buffers = allocate(mounted, pace)?;
    let (idle_to, idle) = channel();
    let (full_to, full) = channel();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let reader = scope.spawn(move || read_ahead(source, with_sums, idle, &full_to, stop));
        for buffer in buffers {
            // The thread takes them until it ends.
            let _ = idle_to.send(buffer);
        }
        let filled = run(mounted, file, pace, &full, &idle_to, progress, cancel);
        stop.store(true, Ordering::Relaxed);
        drop(idle_to);
        let ended = reader.join();
        while let Ok(full) = full.try_recv() {
            mounted.memory.give_back(full.buffer);
        }
        let Ok((left, idle, sums)) = ended else {
            return Err(Failure::new(crate::Exit::No, "the reading thread ended"));
        };
        for buffer in left.into_iter().chain(idle.try_iter()) {
            mounted.memory.give_back(buffer);
        }
        match (filled, sums) {
            // The source's failure is why the volume's side ended early, if it did.
            (Ok(_), Err(failure)) | (Err(failure), _) => Err(failure),
            (Ok(filled), Ok(sums)) => Ok(Filled { sums, ..filled }),
        }
    })
}

/// Buffers on their way, one that is filled, and one that waits.
pub(crate) fn allocate(mounted: &Mounted<'_, '_>, pace: Pace) -> Result<Vec<Buffer>> {
    let mut buffers = Vec::new();
    for _ in 0..pace.depth + 2 {
        match mounted.memory.allocate(pace.buffer_bytes) {
            Ok(buffer) => buffers.push(buffer),
            Err(failure) => {
                for buffer in buffers {
                    mounted.memory.give_back(buffer);
                }
                return Err(failure);
            }
        }
    }
    Ok(buffers)
}

/// What the reading thread leaves: buffers, where more of them may be, and the source's checksums
/// or what failed.
type Left = (Vec<Buffer>, Receiver<Buffer>, Result<Vec<u32>>);

/// The reading thread.
fn read_ahead(
    source: &mut Fill<'_>,
    with_sums: bool,
    idle: Receiver<Buffer>,
    full: &Sender<Full>,
    stop: &AtomicBool,
) -> Left {
    let mut sums = Chunks::default();
    let mut left = Vec::new();
    let mut result = Ok(());
    while let Ok(mut buffer) = idle.recv() {
        if stop.load(Ordering::Relaxed) || result.is_err() {
            left.push(buffer);
            continue;
        }
        let len = match source(&mut buffer, stop) {
            Ok(len) => len,
            Err(failure) => {
                left.push(buffer);
                result = Err(failure);
                break;
            }
        };
        if with_sums {
            sums.add(buffer.get(..len).unwrap_or_default());
        }
        let is_last = len < buffer.len();
        // What is left of the last block is padding: nothing that another file left in memory.
        buffer.get_mut(len..).unwrap_or_default().fill(0);
        if len == 0 {
            left.push(buffer);
        } else if let Err(refused) = full.send(Full { buffer, len }) {
            left.push(refused.0.buffer);
        }
        if is_last {
            break;
        }
    }
    (left, idle, result.map(|()| sums.end()))
}

fn run(
    mounted: &Mounted<'_, '_>,
    file: File,
    pace: Pace,
    full: &Receiver<Full>,
    idle: &Sender<Buffer>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Filled> {
    let doing = || format!("writing to {}", mounted.drive);
    let volume = mounted.volume;
    let status = volume.file_status(file);
    let status = status.map_err(|error| failed(doing(), error))?;
    let mut flow = Flow::new(volume, file, Direction::Append);
    let mut pushed = 0;
    let mut moved = 0;
    let mut stored = status.appended_bytes;
    let mut is_ended = false;
    let mut interrupted = false;
    loop {
        if cancel.is_set() && !interrupted {
            interrupted = true;
            flow.fail(pushed, Error::Busy);
        }
        let (_, mut happened) = flow.turn();
        while let Some(finished) = flow.pop() {
            happened = true;
            if finished.is_moved {
                moved += finished.len as u64;
                progress(moved);
            }
            match finished.buffer {
                Some(buffer) => {
                    if let Err(refused) = idle.send(buffer) {
                        mounted.memory.give_back(refused.0);
                    }
                }
                None => flow.fail(finished.offset_bytes, Error::from(block::Error::Gone)),
            }
        }
        while flow.failure().is_none() && flow.buffers() < pace.depth && !is_ended {
            match full.try_recv() {
                Ok(Full { buffer, len }) => {
                    flow.push(buffer, pushed, len);
                    pushed += len as u64;
                    happened = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_ended = true,
            }
        }
        if status.checksums && flow.failure().is_none() && !flow.is_working() {
            let appended = volume.file_status(file).map_or(0, |now| now.appended_bytes);
            if appended - stored >= STORE_BYTES {
                stored = appended;
                flow.start(async move {
                    volume.store_checksums(file).await?;
                    Ok(Vec::new())
                });
            }
        }
        let is_done = is_ended || flow.failure().is_some();
        if is_done && flow.buffers() == 0 && !flow.is_working() {
            break;
        }
        if happened {
            continue;
        }
        if volume.outstanding() > 0 {
            volume.wait(WAIT_US);
        } else if flow.buffers() == 0 && !flow.is_working() {
            // The source may be silent: without a block to write, no request would report it.
            if mounted.recall.is_requested() {
                flow.fail(pushed, Error::from(block::Error::Gone));
                continue;
            }
            let timeout = Duration::from_micros(u64::from(WAIT_US));
            match full.recv_timeout(timeout) {
                Ok(Full { buffer, len }) => {
                    flow.push(buffer, pushed, len);
                    pushed += len as u64;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_ended = true,
            }
        }
    }
    match flow.failure() {
        _ if interrupted => Err(Failure::interrupted("interrupted")),
        Some((at, error)) => Err(failed(format_args!("{} at byte {at}", doing()), error)),
        None => Ok(Filled {
            bytes: moved,
            requests: flow.requests(),
            sums: Vec::new(),
        }),
    }
}
