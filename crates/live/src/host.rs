// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answers to readers, on the thread that has mounted the volume: one at a time, beside the
//! recording.

use super::door::Letter;
use super::{Answer, Ask, Data, READ_BYTES, RecordingStatus};
use block::Buffer;
use devices::error::Result;
use files::listing::Listing;
use files::moves::{Moves, WHOLE_CHUNKS_BYTES};
use files::reports::{FileReport, VolumeReport};
use files::service::Job;
use files::turns::wait_for;
use files::{Mounted, failed, shown};
use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use volume::{DataEvent, Error, File};

/// The buffer for reads.
pub const BUFFER_BYTES: usize = READ_BYTES + WHOLE_CHUNKS_BYTES;

/// How long a read waits for a recording that needs the drive.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file as the last answer found it, to answer without the drive when nothing has changed.
struct Known {
    name: String,
    data: Data,
    /// What was durable of the recording then.
    durable_bytes: u64,
}

/// What answers need.
pub struct Host<'m, 'a> {
    mounted: &'m Mounted<'m, 'a>,
    moves: Moves<'m, 'a>,
    buffer: RefCell<Option<Buffer>>,
    known: RefCell<Option<Known>>,
    /// The recording needs the drive for itself.
    is_pressed: Cell<bool>,
    durable_bytes: Cell<u64>,
}

/// The request under way, and those to come.
pub struct Answers<'h, 'm, 'a> {
    host: &'h Host<'m, 'a>,
    letters: Receiver<Letter>,
    job: Option<Job<'h>>,
}

impl<'m, 'a> Host<'m, 'a> {
    /// Prepares answers.
    ///
    /// # Errors
    /// There is no memory for a buffer.
    pub fn new(mounted: &'m Mounted<'m, 'a>) -> Result<Self> {
        Ok(Self {
            mounted,
            moves: Moves::new(mounted.volume),
            buffer: RefCell::new(Some(mounted.memory.allocate(BUFFER_BYTES)?)),
            known: RefCell::default(),
            is_pressed: Cell::new(false),
            durable_bytes: Cell::new(0),
        })
    }

    async fn answer(&self, ask: Ask) -> (Answer, Vec<u8>) {
        let volume = self.mounted.volume;
        let answer = match ask {
            // Answered from the recording's counters, and by the door.
            Ask::Status | Ask::Events(_) => Err(devices::Error::other("nothing records")),
            Ask::List => Listing::gather(volume)
                .await
                .map(Answer::List)
                .map_err(|error| failed(format_args!("listing {}", self.mounted.drive), error)),
            Ask::Volume => VolumeReport::gather(volume)
                .await
                .map(|report| Answer::Volume(Box::new(report)))
                .map_err(|error| failed(format_args!("querying {}", self.mounted.drive), error)),
            Ask::File(name) => FileReport::gather(volume, &name)
                .await
                .map(|report| Answer::File(Box::new(report)))
                .map_err(|error| failed(format_args!("querying `{}`", shown(&name)), error)),
            Ask::Read {
                name,
                offset_bytes,
                length_bytes,
            } => match self.read(&name, offset_bytes, length_bytes).await {
                Ok((data, bytes)) => return (Answer::Data(data), bytes),
                Err(error) => Err(failed(format_args!("reading `{}`", shown(&name)), error)),
            },
        };
        let refused = |failure: devices::Error| Answer::from(&failure);
        (answer.unwrap_or_else(refused), Vec::new())
    }

    async fn read(
        &self,
        name: &str,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(Data, Vec<u8>), Error> {
        let now = self.durable_bytes.get();
        if let Some(known) = &*self.known.borrow() {
            let is_same = known.name == name && known.durable_bytes == now;
            if is_same && known.data.is_growing && offset >= known.data.size_bytes {
                return Ok((known.data, Vec::new()));
            }
        }
        let volume = self.mounted.volume;
        let slot = volume.find(name).await?.slot;
        // In this order: what is no more written has its last size.
        let is_growing = volume.is_being_written(slot);
        let entry = volume.find(name).await?;
        let mut data = Data {
            length_bytes: 0,
            size_bytes: entry.size_bytes,
            is_growing,
            verified: entry.checksums,
            modified_ns: entry.mtime_ns,
        };
        *self.known.borrow_mut() = Some(Known {
            name: name.to_owned(),
            data,
            durable_bytes: now,
        });
        if length == 0 || offset >= entry.size_bytes {
            return Ok((data, Vec::new()));
        }
        self.calm().await;
        // Open for this read only: an open file cannot be removed, and the oldest segment must be.
        let file = volume.open(name).await?;
        let bytes = self.read_open(file, offset, length).await;
        volume.close(file).await?;
        let bytes = bytes?;
        data.length_bytes = bytes.len() as u64;
        Ok((data, bytes))
    }

    /// Waits until the recording can spare the drive. A source without a pace of its own always
    /// fills all buffers, so not for long.
    async fn calm(&self) {
        let until = Instant::now() + PATIENCE;
        wait_for(|| (!self.is_pressed.get() || Instant::now() >= until).then_some(())).await;
    }

    async fn read_open(
        &self,
        file: File,
        offset: u64,
        length: u64,
    ) -> std::result::Result<Vec<u8>, Error> {
        let buffer = self.buffer.take().ok_or(Error::from(block::Error::Gone))?;
        let length = length.min(READ_BYTES as u64) as usize;
        let (buffer, range) = self.moves.read(file, offset, length, buffer).await;
        let bytes = match (&buffer, range) {
            (Some(buffer), Ok(range)) => Ok(buffer.get(range).unwrap_or_default().to_vec()),
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => Err(Error::from(block::Error::Gone)),
        };
        *self.buffer.borrow_mut() = buffer;
        bytes
    }
}

impl Drop for Host<'_, '_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.mounted.memory.give_back(buffer);
        }
    }
}

impl<'h, 'm, 'a> Answers<'h, 'm, 'a> {
    /// The answers to these letters.
    pub const fn new(host: &'h Host<'m, 'a>, letters: Receiver<Letter>) -> Self {
        Self {
            host,
            letters,
            job: None,
        }
    }

    /// Takes a completion of data that is not the recording's.
    pub fn take_back(&self, event: DataEvent) {
        self.host.moves.take_back(event);
    }

    /// Whether a request is under way.
    pub const fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Makes progress. A read waits while the recording `is_pressed`; how much of it is durable
    /// tells when there may be something new. `status` is asked for when a reader asks.
    pub fn step(
        &mut self,
        durable_bytes: u64,
        is_pressed: impl FnOnce() -> bool,
        status: impl FnOnce() -> Option<RecordingStatus>,
    ) {
        let host = self.host;
        if self.job.is_none() {
            let Ok(Letter { ask, reply }) = self.letters.try_recv() else {
                return;
            };
            if let (Ask::Status, Some(status)) = (&ask, status()) {
                // One that has left needs no answer.
                let _ = reply.send((Answer::Status(status), Vec::new()));
                return;
            }
            host.durable_bytes.set(durable_bytes);
            self.job = Some(Box::pin(async move {
                // One that has left needs no answer.
                let _ = reply.send(host.answer(ask).await);
            }));
        }
        host.is_pressed.set(is_pressed());
        let mut context = Context::from_waker(Waker::noop());
        if let Some(job) = &mut self.job {
            if job.as_mut().poll(&mut context).is_ready() {
                self.job = None;
            }
        }
        host.mounted.volume.kick();
    }

    /// Completes the request under way; those after it get no answer. No data of others may be in
    /// flight.
    pub fn end(&mut self) {
        let volume = self.host.mounted.volume;
        // Whoever waits for an answer sees that none will come.
        self.letters = channel().1;
        while self.job.is_some() {
            while let Some(event) = volume.poll() {
                self.take_back(event);
            }
            self.step(self.host.durable_bytes.get(), || false, || None);
            if volume.outstanding() > 0 {
                volume.wait(1_000);
            }
        }
    }
}
