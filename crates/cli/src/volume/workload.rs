//! A workload's files on a volume.
//!
//! A volume has one user at a time, so the workload's threads hand what they ask to the thread that
//! has it mounted, and wait for the answer: the way of a storage service. Data is written from, and
//! read into, memory that the device reaches; the threads' own buffers stay as they are.

use crate::failure::Result;
use crate::volume::{Mounted, failed, shown};
use block::{Buffer, Lent};
use measure::workload::{Ask, LONGEST, Op, Store};
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use volume::blocking::{self, Outcome};
use volume::{CreateOptions, Error, File};

/// What the names of a workload's files begin with.
const PREFIX: &str = "workload.";

/// What a thread wants of the volume.
enum Want {
    Begin,
    Act {
        op: Op,
        name: String,
        len_bytes: u64,
        piece_bytes: u64,
        pick: u64,
        sync: bool,
    },
    Clear,
}

type Answer = io::Result<u64>;

/// The threads' end.
pub struct VolumeFiles {
    place: String,
    wants: Mutex<Sender<(Want, Sender<Answer>)>>,
}

/// The end of the thread that has the volume mounted.
pub struct Service(Receiver<(Want, Sender<Answer>)>);

/// Both ends, for a volume on `place`.
pub fn files_of(place: String) -> (VolumeFiles, Service) {
    let (sender, receiver) = channel();
    let wants = Mutex::new(sender);
    (VolumeFiles { place, wants }, Service(receiver))
}

impl VolumeFiles {
    fn ask(&self, want: Want) -> Answer {
        let ended = || io::Error::other("the volume is not mounted any more");
        let (sender, receiver) = channel();
        let wants = self.wants.lock().map_err(|_| ended())?.clone();
        wants.send((want, sender)).map_err(|_| ended())?;
        receiver.recv().map_err(|_| ended())?
    }
}

impl Store for VolumeFiles {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn begin(&self) -> io::Result<()> {
        self.ask(Want::Begin).map(|_| ())
    }

    fn act(&self, ask: &Ask<'_>, _buffer: &mut [u8]) -> io::Result<u64> {
        self.ask(Want::Act {
            op: ask.op,
            name: format!("{PREFIX}{}.{}", ask.set, ask.number),
            len_bytes: ask.len_bytes,
            piece_bytes: ask.piece_bytes,
            pick: ask.pick,
            sync: ask.sync,
        })
    }

    fn clear(&self) -> io::Result<()> {
        self.ask(Want::Clear).map(|_| ())
    }
}

impl Service {
    /// Does what is asked until all who could ask are gone.
    ///
    /// # Errors
    /// There is no memory for a buffer.
    pub fn serve(self, mounted: &Mounted<'_, '_>) -> Result<()> {
        let mut memory = mounted.memory.allocate(LONGEST as usize)?;
        // Not all zeros: a drive may treat those in a way of its own.
        for (index, byte) in memory.iter_mut().enumerate() {
            *byte = ((index * 31) >> 3) as u8;
        }
        let mut served = Served {
            mounted,
            buffer: Some(memory),
        };
        while let Ok((want, answer)) = self.0.recv() {
            // A thread that has gone wants no answer.
            let _ = answer.send(served.answer(want));
        }
        if let Some(buffer) = served.buffer.take() {
            mounted.memory.give_back(buffer);
        }
        Ok(())
    }
}

struct Served<'m, 'v, 'a> {
    mounted: &'m Mounted<'v, 'a>,
    /// [`LONGEST`] bytes; away only while the device has them.
    buffer: Option<Buffer>,
}

impl Served<'_, '_, '_> {
    fn answer(&mut self, want: Want) -> Answer {
        match want {
            Want::Begin => self.begin(),
            Want::Clear => self.clear(),
            Want::Act {
                op,
                name,
                len_bytes,
                piece_bytes,
                pick,
                sync,
            } => {
                let done = match op {
                    Op::CreateFile => self.create(&name, len_bytes, piece_bytes, sync),
                    Op::Delete => self.remove(&name),
                    Op::Stat => self.stat(&name),
                    Op::Pause => Ok(0),
                    Op::ReadFile | Op::ReadBlock | Op::Rewrite | Op::WriteBlock => {
                        self.touch(op, &name, piece_bytes, pick, sync)
                    }
                    Op::Append => self.append(&name, piece_bytes, sync),
                };
                done.map_err(|error| told(&name, error))
            }
        }
    }

    fn begin(&mut self) -> Answer {
        match self.first_of_ours(0)? {
            None => Ok(0),
            Some((_, name)) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!(
                    "`{0}` is there already: straightway rm {1} '{0}'",
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
            let found = found.map_err(|error| told("the volume's files", error))?;
            let Some(entry) = found else {
                return Ok(None);
            };
            // Each turn passes a slot.
            from = entry.slot + 1;
            let name = entry.name.as_str();
            if name.starts_with(PREFIX) {
                return Ok(Some((from, name.to_owned())));
            }
        }
    }

    fn clear(&mut self) -> Answer {
        let mut from = 0;
        while let Some((next, name)) = self.first_of_ours(from)? {
            self.remove(&name).map_err(|error| told(&name, error))?;
            from = next;
        }
        Ok(0)
    }

    fn create(
        &mut self,
        name: &str,
        len_bytes: u64,
        piece_bytes: u64,
        sync: bool,
    ) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        let options = CreateOptions {
            reserve_bytes: len_bytes,
            ..CreateOptions::default()
        };
        let create = volume.with_space(|| volume.create(name, &options));
        let file = blocking::run(volume, create)?;
        self.on(file, |this| {
            let mut done = 0;
            while done < len_bytes {
                let len = piece_bytes.min(len_bytes - done);
                this.moved(len, |piece| {
                    blocking::append(volume, file, piece, len as usize)
                })?;
                done += len;
            }
            if sync {
                blocking::run(volume, volume.sync(file))?;
            }
            Ok(done)
        })
    }

    fn append(
        &mut self,
        name: &str,
        piece_bytes: u64,
        sync: bool,
    ) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        let file = blocking::run(volume, volume.open_to_write(name))?;
        self.on(file, |this| {
            let len = piece_bytes as usize;
            this.moved(piece_bytes, |piece| {
                blocking::append(volume, file, piece, len)
            })?;
            if sync {
                blocking::run(volume, volume.sync(file))?;
            }
            Ok(piece_bytes)
        })
    }

    /// Reads or overwrites a file, or a piece of it.
    fn touch(
        &mut self,
        op: Op,
        name: &str,
        piece_bytes: u64,
        pick: u64,
        sync: bool,
    ) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        let reads = matches!(op, Op::ReadFile | Op::ReadBlock);
        let file = match reads {
            true => blocking::run(volume, volume.open(name))?,
            false => blocking::run(volume, volume.open_to_write(name))?,
        };
        self.on(file, |this| {
            let size = volume.file_status(file)?.completed_bytes;
            let (mut at, end) = part(op, size, piece_bytes, pick);
            let begin = at;
            while at < end {
                let len = piece_bytes.min(end - at);
                this.moved(len, |piece| match reads {
                    true => blocking::read(volume, file, at, piece),
                    false => blocking::overwrite(volume, file, at, piece),
                })?;
                at += len;
            }
            if sync && !reads {
                blocking::run(volume, volume.sync(file))?;
            }
            Ok(at - begin)
        })
    }

    fn remove(&mut self, name: &str) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        blocking::run(volume, volume.remove(name)).map(|()| 0)
    }

    fn stat(&mut self, name: &str) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        blocking::run(volume, volume.find(name)).map(|_| 0)
    }

    /// Does something with an open file, and closes it.
    fn on(
        &mut self,
        file: File,
        work: impl FnOnce(&mut Self) -> std::result::Result<u64, Error>,
    ) -> std::result::Result<u64, Error> {
        let volume = self.mounted.volume;
        let done = work(self);
        let closed = blocking::run(volume, volume.close(file));
        closed.and(done)
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
        // It is the piece that was lent a moment ago, so both are taken back.
        if lent.give_back(outcome.buffer).is_ok() {
            self.buffer = lent.into_whole().ok();
        }
        outcome.result
    }
}

/// The bytes that an operation touches of a file of `size` bytes.
fn part(op: Op, size: u64, piece_bytes: u64, pick: u64) -> (u64, u64) {
    match op {
        Op::ReadBlock | Op::WriteBlock => {
            let at = pick % (size / piece_bytes).max(1) * piece_bytes;
            (at, size.min(at + piece_bytes))
        }
        _ => (0, size),
    }
}

/// The volume's error as a store tells it.
fn told(name: &str, error: Error) -> io::Error {
    match error {
        Error::NotFound => io::Error::from(io::ErrorKind::NotFound),
        Error::TableFull => io::Error::other(
            "the volume has no room for more files: fewer by a smaller --dataset, or straightway \
             format with more --slots",
        ),
        _ => io::Error::other(failed(format_args!("`{}`", shown(name)), error).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_lies_inside_its_file() {
        for pick in 0..40 {
            let (at, end) = part(Op::ReadBlock, 40_960, 16_384, pick);
            assert!(at % 16_384 == 0 && end <= 40_960 && at < end, "{pick}");
        }
        assert_eq!(part(Op::ReadBlock, 4096, 16_384, 7), (0, 4096));
        assert_eq!(part(Op::ReadFile, 40_960, 16_384, 7), (0, 40_960));
    }
}
