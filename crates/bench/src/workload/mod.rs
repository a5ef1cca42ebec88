// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload's files on a volume.
//!
//! A volume has one user at a time, so the workload's threads send their operations to the thread
//! that has mounted it, and wait for the answer, as with a storage service. The service has many of
//! them under way at the same time. Data is written from, and read into, memory that the device can
//! access; the threads' own buffers are not changed.

mod files;
mod pool;
mod service;

pub use pool::POOL_BYTES;
pub use service::Service;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use workload::{Named, Session, Store, Use};

/// The prefix of the names of a workload's files.
const PREFIX: &str = "workload.";
/// Lengths and offsets are multiples of this: of every device's block.
const UNIT: u64 = 4096;

/// An operation of a thread on the volume.
#[derive(Debug)]
enum Want {
    Begin,
    Clear,
    Open(u8, String, Use),
    Read(u8, u64, u64),
    Write(u8, u64, u64),
    Append(u8, u64),
    Sync(u8),
    Close(u8),
    Remove(String),
    Stat(String),
    /// The thread has ended.
    Leave,
}

/// Bytes that were moved, or a length.
type Answer = io::Result<u64>;

/// What a thread sends: who it is, its operation, and where it waits for the answer.
#[derive(Debug)]
struct Letter {
    session: u32,
    want: Want,
    answer: Sender<Answer>,
}

/// The threads' end.
pub struct VolumeFiles {
    place: String,
    service: Mutex<Sender<Letter>>,
    sessions: AtomicU32,
}

/// Both ends, for a volume on `place`.
pub fn files_of(place: String) -> (VolumeFiles, Service) {
    let (sender, receiver) = channel();
    let files = VolumeFiles {
        place,
        service: Mutex::new(sender),
        sessions: AtomicU32::new(0),
    };
    (files, Service::new(receiver))
}

fn ended() -> io::Error {
    io::Error::other("the volume is no longer mounted")
}

impl VolumeFiles {
    fn line(&self) -> io::Result<Line> {
        let (sender, answers) = channel();
        Ok(Line {
            session: self.sessions.fetch_add(1, Ordering::Relaxed),
            service: self.service.lock().map_err(|_| ended())?.clone(),
            answer: sender,
            answers,
        })
    }
}

impl Store for VolumeFiles {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn unit_bytes(&self) -> u64 {
        UNIT
    }

    fn begin(&self) -> io::Result<()> {
        self.line()?.ask(Want::Begin).map(|_| ())
    }

    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.line()?))
    }

    fn clear(&self) -> io::Result<()> {
        self.line()?.ask(Want::Clear).map(|_| ())
    }
}

/// A thread's line to the service.
struct Line {
    session: u32,
    service: Sender<Letter>,
    answer: Sender<Answer>,
    answers: Receiver<Answer>,
}

impl Line {
    fn ask(&self, want: Want) -> Answer {
        let letter = Letter {
            session: self.session,
            want,
            answer: self.answer.clone(),
        };
        self.service.send(letter).map_err(|_| ended())?;
        self.answers.recv().map_err(|_| ended())?
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A service that has ended has closed everything.
        let _ = self.ask(Want::Leave);
    }
}

fn name_of(file: Named<'_>) -> String {
    format!("{PREFIX}{file}")
}

impl Session for Line {
    fn open(&mut self, number: u8, file: Named<'_>, how: Use) -> Answer {
        self.ask(Want::Open(number, name_of(file), how))
    }

    fn read(&mut self, number: u8, offset: u64, buffer: &mut [u8]) -> Answer {
        self.ask(Want::Read(number, offset, buffer.len() as u64))
    }

    fn write(&mut self, number: u8, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(Want::Write(number, offset, data.len() as u64))
            .map(|_| ())
    }

    fn append(&mut self, number: u8, data: &[u8]) -> io::Result<()> {
        self.ask(Want::Append(number, data.len() as u64))
            .map(|_| ())
    }

    fn sync(&mut self, number: u8) -> io::Result<()> {
        self.ask(Want::Sync(number)).map(|_| ())
    }

    fn close(&mut self, number: u8) -> io::Result<()> {
        self.ask(Want::Close(number)).map(|_| ())
    }

    fn remove(&mut self, file: Named<'_>) -> io::Result<()> {
        self.ask(Want::Remove(name_of(file))).map(|_| ())
    }

    fn stat(&mut self, file: Named<'_>) -> Answer {
        self.ask(Want::Stat(name_of(file)))
    }
}
