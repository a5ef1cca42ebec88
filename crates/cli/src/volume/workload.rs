//! A workload's files on a volume.
//!
//! A volume has one user at a time, so the workload's threads send their operations to the thread
//! that has mounted it, and wait for the answer, as with a storage service. Data is written from,
//! and read into, memory that the device can access; the threads' own buffers are not changed.

use crate::failure::Result;
use crate::volume::{Mounted, failed, shown};
use block::{Buffer, Lent};
use measure::workload::{Ask, LONGEST, Op, Store};
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use volume::blocking::{self, Outcome};
use volume::{CreateOptions, Error, File};

/// The prefix of the names of a workload's files.
const PREFIX: &str = "workload.";

/// An operation of a thread on the volume.
type Want = Box<dyn FnOnce(&mut Served<'_, '_, '_>) -> Answer + Send>;
type Answer = io::Result<u64>;
type Done = std::result::Result<u64, Error>;

/// The threads' end.
pub struct VolumeFiles {
    place: String,
    wants: Mutex<Sender<(Want, Sender<Answer>)>>,
}

/// The end of the thread that has mounted the volume.
pub struct Service(Receiver<(Want, Sender<Answer>)>);

/// Both ends, for a volume on `place`.
pub fn files_of(place: String) -> (VolumeFiles, Service) {
    let (sender, receiver) = channel();
    let wants = Mutex::new(sender);
    (VolumeFiles { place, wants }, Service(receiver))
}

impl VolumeFiles {
    fn ask(&self, want: impl FnOnce(&mut Served<'_, '_, '_>) -> Answer + Send + 'static) -> Answer {
        let ended = || io::Error::other("the volume is no longer mounted");
        let (sender, receiver) = channel();
        let wants = self.wants.lock().map_err(|_| ended())?.clone();
        wants.send((Box::new(want), sender)).map_err(|_| ended())?;
        receiver.recv().map_err(|_| ended())?
    }
}

impl Store for VolumeFiles {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn begin(&self) -> io::Result<()> {
        self.ask(|served| served.begin()).map(|_| ())
    }

    fn act(&self, ask: &Ask<'_>, _buffer: &mut [u8]) -> io::Result<u64> {
        let name = format!("{PREFIX}{}.{}", ask.set, ask.number);
        let ask = Ask { set: "", ..*ask };
        self.ask(move |served| {
            served
                .act(&name, &ask)
                .map_err(|error| io_error(&name, error))
        })
    }

    fn clear(&self) -> io::Result<()> {
        self.ask(|served| served.clear()).map(|_| ())
    }
}

impl Service {
    /// Performs operations until all senders have been dropped.
    ///
    /// # Errors
    /// There is no memory for a buffer.
    pub fn serve(self, mounted: &Mounted<'_, '_>) -> Result<()> {
        let mut memory = mounted.memory.allocate(LONGEST as usize)?;
        for (index, byte) in memory.iter_mut().enumerate() {
            *byte = ((index * 31) >> 3) as u8;
        }
        let mut served = Served {
            mounted,
            buffer: Some(memory),
        };
        while let Ok((want, answer)) = self.0.recv() {
            let _ = answer.send(want(&mut served));
        }
        if let Some(buffer) = served.buffer.take() {
            mounted.memory.give_back(buffer);
        }
        Ok(())
    }
}

struct Served<'m, 'v, 'a> {
    mounted: &'m Mounted<'v, 'a>,
    /// [`LONGEST`] bytes; absent only while the device has them.
    buffer: Option<Buffer>,
}

impl Served<'_, '_, '_> {
    fn begin(&mut self) -> Answer {
        match self.first_of_ours(0)? {
            None => Ok(0),
            Some((_, name)) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!(
                    "`{0}` already exists: straightway rm {1} '{0}'",
                    shown(&name),
                    self.mounted.drive
                ),
            )),
        }
    }

    /// The first file of a workload from slot `from` on, and the slot after it.
    fn first_of_ours(&self, mut from: u32) -> io::Result<Option<(u32, String)>> {
        let volume = self.mounted.volume;
        loop {
            let found = blocking::run(volume, volume.next_file(from));
            let found = found.map_err(|error| io_error("the volume's files", error))?;
            let Some(entry) = found else {
                return Ok(None);
            };
            from = entry.slot + 1;
            let name = entry.name.as_str();
            if name.starts_with(PREFIX) {
                return Ok(Some((from, name.to_owned())));
            }
        }
    }

    fn clear(&mut self) -> Answer {
        let (volume, mut from) = (self.mounted.volume, 0);
        while let Some((next, name)) = self.first_of_ours(from)? {
            let removed = blocking::run(volume, volume.remove(&name));
            removed.map_err(|error| io_error(&name, error))?;
            from = next;
        }
        Ok(0)
    }

    fn act(&mut self, name: &str, ask: &Ask<'_>) -> Done {
        let volume = self.mounted.volume;
        match ask.op {
            Op::Pause => Ok(0),
            Op::Delete => blocking::run(volume, volume.remove(name)).map(|()| 0),
            Op::Stat => blocking::run(volume, volume.find(name)).map(|_| 0),
            Op::CreateFile => {
                let options = CreateOptions {
                    reserve_bytes: ask.len_bytes,
                    ..CreateOptions::default()
                };
                let create = volume.with_space(|| volume.create(name, &options));
                let file = blocking::run(volume, create)?;
                self.append(file, ask, ask.len_bytes)
            }
            Op::Append => {
                let file = blocking::run(volume, volume.open_to_write(name))?;
                self.append(file, ask, ask.piece_bytes)
            }
            Op::ReadFile | Op::ReadBlock => {
                let file = blocking::run(volume, volume.open(name))?;
                let ask = Ask {
                    sync: false,
                    ..*ask
                };
                self.touch(file, &ask, |at, piece| {
                    blocking::read(volume, file, at, piece)
                })
            }
            Op::Rewrite | Op::WriteBlock => {
                let file = blocking::run(volume, volume.open_to_write(name))?;
                self.touch(file, ask, |at, piece| {
                    blocking::overwrite(volume, file, at, piece)
                })
            }
        }
    }

    fn append(&mut self, file: File, ask: &Ask<'_>, bytes: u64) -> Done {
        let volume = self.mounted.volume;
        self.pieces(file, ask, Ok((0, bytes)), |_, piece| {
            let len = piece.len();
            blocking::append(volume, file, piece, len)
        })
    }

    /// Reads or overwrites a file, or a piece of it.
    fn touch(
        &mut self,
        file: File,
        ask: &Ask<'_>,
        transfer: impl Fn(u64, Buffer) -> Outcome,
    ) -> Done {
        let status = self.mounted.volume.file_status(file);
        let range = status.map(|now| part(ask, now.completed_bytes));
        self.pieces(file, ask, range, transfer)
    }

    /// Moves the file's range piece by piece, makes it durable if requested, and closes the file.
    fn pieces(
        &mut self,
        file: File,
        ask: &Ask<'_>,
        range: std::result::Result<(u64, u64), Error>,
        transfer: impl Fn(u64, Buffer) -> Outcome,
    ) -> Done {
        let volume = self.mounted.volume;
        let done = range.and_then(|(begin, end)| {
            let mut at = begin;
            while at < end {
                let len = ask.piece_bytes.min(end - at);
                self.moved(len, |piece| transfer(at, piece))?;
                at += len;
            }
            if ask.sync {
                blocking::run(volume, volume.sync(file))?;
            }
            Ok(at - begin)
        });
        blocking::run(volume, volume.close(file)).and(done)
    }

    /// Lends `len` bytes of the buffer to a transfer.
    fn moved(
        &mut self,
        len: u64,
        transfer: impl FnOnce(Buffer) -> Outcome,
    ) -> std::result::Result<(), Error> {
        let whole = self.buffer.take().ok_or(Error::Busy)?;
        let mut lent = Lent::new(whole);
        let outcome = transfer(lent.lend(len as usize));
        // It is the piece that was just lent, so both are taken back.
        if lent.give_back(outcome.buffer).is_ok() {
            self.buffer = lent.into_whole().ok();
        }
        outcome.result
    }
}

/// The bytes that an operation touches of a file of `size` bytes.
fn part(ask: &Ask<'_>, size: u64) -> (u64, u64) {
    match ask.op {
        Op::ReadBlock | Op::WriteBlock => {
            let at = ask.pick % (size / ask.piece_bytes).max(1) * ask.piece_bytes;
            (at, size.min(at + ask.piece_bytes))
        }
        _ => (0, size),
    }
}

/// Converts the volume's error to an `io::Error` of a store.
fn io_error(name: &str, error: Error) -> io::Error {
    match error {
        Error::NotFound => io::Error::from(io::ErrorKind::NotFound),
        Error::TableFull => io::Error::other(
            "the volume has no slot for more files: use a smaller --dataset, or straightway \
             format with more --slots",
        ),
        _ => io::Error::other(failed(format_args!("`{}`", shown(name)), error).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(op: Op, size: u64, pick: u64) -> (u64, u64) {
        let ask = Ask {
            op,
            set: "",
            number: 0,
            len_bytes: 0,
            piece_bytes: 16_384,
            pick,
            sync: false,
        };
        part(&ask, size)
    }

    #[test]
    fn a_piece_lies_inside_its_file() {
        for pick in 0..40 {
            let (at, end) = part_of(Op::ReadBlock, 40_960, pick);
            assert!(at % 16_384 == 0 && end <= 40_960 && at < end, "{pick}");
        }
        assert_eq!(part_of(Op::ReadBlock, 4096, 7), (0, 4096));
        assert_eq!(part_of(Op::ReadFile, 40_960, 7), (0, 40_960));
    }
}
