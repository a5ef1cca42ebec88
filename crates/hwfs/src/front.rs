// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io::{self, Read, Write};

use crate::{Board, CoreStatus, Error};

/// The longest name, in bytes.
pub const NAME_MAX: usize = 64;

const ID: u32 = 0x4648_5753; // "SWHF", the first letter in the lowest bits
const VERSION: u8 = 1;
const ENTRY_BYTES: usize = 80;
/// A stream's file gets space for as much again as it has, and for this much at most.
const MOST_AHEAD_BYTES: u64 = 16 << 20;

/// Registers, by their byte offset (`rtl/hwfs_axi/README.md`).
mod register {
    pub const ID: u32 = 0x00;
    pub const SHAPE: u32 = 0x04;
    pub const CONTROL: u32 = 0x08;
    pub const STATUS: u32 = 0x0c;
    pub const COMMAND: u32 = 0x10;
    pub const OFFSET: u32 = 0x18;
    pub const LENGTH: u32 = 0x20;
    pub const ADDRESS: u32 = 0x28;
    pub const VALUE: u32 = 0x30;
    pub const DISK: u32 = 0x40;
    pub const NAME: u32 = 0x80;
    pub const NAME2: u32 = 0xc0;
}

/// Bits of CONTROL and STATUS.
const START: u32 = 1 << 0;
const INTERRUPT: u32 = 1 << 1;
const ACKNOWLEDGE: u32 = 1 << 2;
const BUSY: u32 = 1 << 0;
const DONE: u32 = 1 << 1;
const READY: u32 = 1 << 2;

#[derive(Clone, Copy)]
#[repr(u32)]
enum Operation {
    Mount = 0,
    Unmount = 1,
    Open = 2,
    Create = 3,
    Read = 4,
    Write = 5,
    Reserve = 6,
    Close = 9,
    Delete = 10,
    Rename = 11,
    List = 12,
}

/// A file of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its slot in the volume's table.
    pub slot: u32,
}

/// What the front's registers report about it and its device, without a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Version of the registers.
    pub version: u8,
    /// Files that the core can have open at once.
    pub open_files: u8,
    /// The longest name in bytes.
    pub name_bytes: u8,
    /// The device's block in bytes; 0 if the front reports a size that no device has.
    pub block_bytes: u64,
    /// The device's blocks; `None` while it is not ready.
    pub block_count: Option<u64>,
}

impl Shape {
    /// The device's size in bytes; `None` while it is not ready.
    pub fn drive_bytes(&self) -> Option<u64> {
        let blocks = self.block_count?;
        Some(blocks.saturating_mul(self.block_bytes))
    }
}

/// The parameters of a command besides its operation. The file's number is always 0: one file is
/// open at a time.
#[derive(Clone, Copy, Default)]
struct Arguments<'a> {
    names: [&'a str; 2],
    flags: u32,
    offset: u64,
    length: u64,
}

/// Reads until `bytes` is full or the source has ended; how many there are.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn little_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The file system in hardware, on a board with exclusive access.
#[derive(Debug)]
pub struct Front<B> {
    board: B,
}

impl<B: Board> Front<B> {
    /// Checks that there is a front with a known version of the registers, and that no command is
    /// in progress.
    pub fn new(mut board: B) -> Result<Self, Error> {
        match board.read(register::ID)? {
            ID => {}
            other => return Err(Error::NoFront(other)),
        }
        match board.read(register::SHAPE)? as u8 {
            VERSION => {}
            other => return Err(Error::Version(other)),
        }
        if board.read(register::STATUS)? & BUSY != 0 {
            return Err(Error::Busy);
        }
        Ok(Self { board })
    }

    /// What the registers report about the front and its device.
    pub fn shape(&mut self) -> Result<Shape, Error> {
        let [version, open_files, block_log2, name_bytes] =
            self.board.read(register::SHAPE)?.to_le_bytes();
        let is_ready = self.board.read(register::STATUS)? & READY != 0;
        let block_count = if is_ready {
            Some(self.read_pair(register::DISK)?)
        } else {
            None
        };
        Ok(Shape {
            version,
            open_files,
            name_bytes,
            block_bytes: 1u64.checked_shl(block_log2.into()).unwrap_or(0),
            block_count,
        })
    }

    /// Mounts the volume; the number of its slots, which is the most files it can have.
    /// `read_only`: nothing on the drive is changed, not even to recover it.
    pub fn mount(&mut self, read_only: bool) -> Result<u64, Error> {
        self.run(
            Operation::Mount,
            Arguments {
                flags: read_only.into(),
                ..Arguments::default()
            },
        )
    }

    /// Unmounts the volume cleanly.
    pub fn unmount(&mut self) -> Result<(), Error> {
        self.run(Operation::Unmount, Arguments::default())
            .map(|_| ())
    }

    /// All files, in the order of the volume's table.
    pub fn list(&mut self) -> Result<Vec<CoreFile>, Error> {
        let mut found = Vec::new();
        let mut slot = 0;
        loop {
            match self.run(
                Operation::List,
                Arguments {
                    offset: slot,
                    ..Arguments::default()
                },
            ) {
                Ok(next) => slot = next,
                Err(Error::Status(CoreStatus::NOT_FOUND, _)) => return Ok(found),
                Err(error) => return Err(error),
            }
            let mut entry = [0; ENTRY_BYTES];
            self.board.load(&mut entry)?;
            let (size, rest) = entry.split_at(8);
            let length = usize::from(rest[4]).min(NAME_MAX);
            found.push(CoreFile {
                name: String::from_utf8_lossy(&rest[8..8 + length]).into_owned(),
                bytes: little_endian(size),
                slot: little_endian(&rest[..4]) as u32,
            });
        }
    }

    /// A file's size in bytes.
    pub fn size(&mut self, name: &str) -> Result<u64, Error> {
        self.opened(name, |_, size| Ok(size))
    }

    /// Copies the whole file into `sink`; its size.
    pub fn get(&mut self, name: &str, sink: &mut impl Write) -> Result<u64, Error> {
        self.opened(name, |front, size| {
            front.copy_out(0, size, sink)?;
            Ok(size)
        })
    }

    /// Copies `length` bytes from byte `offset` on into `sink`; all of them are in the file, or
    /// none is copied.
    pub fn get_part(
        &mut self,
        name: &str,
        offset: u64,
        length: u64,
        sink: &mut impl Write,
    ) -> Result<(), Error> {
        self.opened(name, |front, size| match offset.checked_add(length) {
            Some(end) if end <= size => front.copy_out(offset, end, sink),
            _ => Err(Error::Status(CoreStatus::PAST_END, 0)),
        })
    }

    /// Opens a file to read, runs `body` with its size, and closes it.
    fn opened<T>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Self, u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let arguments = Arguments {
            names: [name, ""],
            ..Arguments::default()
        };
        let size = self.run(Operation::Open, arguments)?;
        let result = body(self, size);
        let closed = self.run(Operation::Close, Arguments::default());
        result.and_then(|value| closed.map(|_| value))
    }

    fn copy_out(&mut self, from: u64, end: u64, sink: &mut impl Write) -> Result<(), Error> {
        let mut bytes = vec![0; self.board.buffer_bytes()];
        let mut offset = from;
        while offset < end {
            let length = (end - offset).min(bytes.len() as u64);
            self.run(
                Operation::Read,
                Arguments {
                    offset,
                    length,
                    ..Arguments::default()
                },
            )?;
            let part = &mut bytes[..length as usize];
            self.board.load(part)?;
            sink.write_all(part)?;
            offset += length;
        }
        Ok(())
    }

    /// Makes a new file of the `length` bytes from `source`, durable when this returns. If that
    /// fails the file is deleted, unless the hardware fails to do that too.
    pub fn put(&mut self, name: &str, length: u64, source: &mut impl Read) -> Result<(), Error> {
        self.put_all(name, Some(length), source).map(|_| ())
    }

    /// The same with all that `source` gives, however much that is; the file's size. Space is
    /// reserved as it grows.
    pub fn put_stream(&mut self, name: &str, source: &mut impl Read) -> Result<u64, Error> {
        self.put_all(name, None, source)
    }

    fn put_all(
        &mut self,
        name: &str,
        length: Option<u64>,
        source: &mut impl Read,
    ) -> Result<u64, Error> {
        self.run(
            Operation::Create,
            Arguments {
                names: [name, ""],
                length: length.unwrap_or(0),
                ..Arguments::default()
            },
        )?;
        let copied = self.copy_in(length, source);
        let closed = self.run(Operation::Close, Arguments::default());
        let result = copied.and_then(|size| closed.map(|_| size));
        if result.is_err() {
            // Report the first error.
            let _ = self.delete(name);
        }
        result
    }

    fn copy_in(&mut self, length: Option<u64>, source: &mut impl Read) -> Result<u64, Error> {
        let mut bytes = vec![0; self.board.buffer_bytes()];
        let (mut offset, mut room) = (0, length.unwrap_or(0));
        loop {
            let part = match length {
                Some(length) => {
                    let part = (length - offset).min(bytes.len() as u64) as usize;
                    source.read_exact(&mut bytes[..part])?;
                    &bytes[..part]
                }
                None => {
                    let part = fill(source, &mut bytes)?;
                    &bytes[..part]
                }
            };
            let part_bytes = part.len() as u64;
            if part_bytes == 0 {
                return Ok(offset);
            }
            if room < part_bytes {
                room = self.make_room(part_bytes, offset)?;
            }
            self.board.store(part)?;
            self.run(
                Operation::Write,
                Arguments {
                    offset,
                    length: part_bytes,
                    ..Arguments::default()
                },
            )?;
            offset += part_bytes;
            room -= part_bytes;
        }
    }

    /// Reserves space behind the open file's `size` bytes: for `wanted` at least, and for more
    /// where there is more.
    fn make_room(&mut self, wanted: u64, size: u64) -> Result<u64, Error> {
        for length in [wanted.max(size.min(MOST_AHEAD_BYTES)), wanted] {
            let arguments = Arguments {
                length,
                ..Arguments::default()
            };
            match self.run(Operation::Reserve, arguments) {
                Ok(room) if room >= wanted => return Ok(room),
                Ok(_) | Err(Error::Status(CoreStatus::NO_SPACE, _)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Status(CoreStatus::NO_SPACE, 0))
    }

    /// Deletes a file.
    pub fn delete(&mut self, name: &str) -> Result<(), Error> {
        self.run(
            Operation::Delete,
            Arguments {
                names: [name, ""],
                ..Arguments::default()
            },
        )
        .map(|_| ())
    }

    /// Renames a file; no file may have the new name.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), Error> {
        self.run(
            Operation::Rename,
            Arguments {
                names: [from, to],
                ..Arguments::default()
            },
        )
        .map(|_| ())
    }

    /// Reads a register of 64 bits: its low word, then its high word.
    fn read_pair(&mut self, register: u32) -> Result<u64, Error> {
        let low = u64::from(self.board.read(register)?);
        Ok(low | u64::from(self.board.read(register + 4)?) << 32)
    }

    /// Runs a command to its end; returns its value.
    fn run(&mut self, operation: Operation, arguments: Arguments<'_>) -> Result<u64, Error> {
        let board = &mut self.board;
        for (first, name) in [register::NAME, register::NAME2]
            .into_iter()
            .zip(arguments.names)
        {
            if name.len() > NAME_MAX {
                return Err(Error::Status(CoreStatus::BAD_NAME, 0));
            }
            for (register, part) in (first..).step_by(4).zip(name.as_bytes().chunks(4)) {
                board.write(register, little_endian(part) as u32)?;
            }
        }
        let address = board.buffer_address();
        for (register, value) in [
            (register::OFFSET, arguments.offset),
            (register::LENGTH, arguments.length),
            (register::ADDRESS, address),
        ] {
            board.write(register, value as u32)?;
            board.write(register + 4, (value >> 32) as u32)?;
        }
        let [name, name2] = arguments.names.map(|name| name.len() as u32);
        board.write(
            register::COMMAND,
            operation as u32 | arguments.flags << 4 | name << 16 | name2 << 24,
        )?;

        let before = board.read(register::STATUS)?;
        board.write(register::CONTROL, START | INTERRUPT)?;
        board.wait()?;
        let status = board.read(register::STATUS)?;
        board.write(register::CONTROL, INTERRUPT | ACKNOWLEDGE)?;
        let ended = (status >> 24) as u8;
        if status & (BUSY | DONE) != DONE || ended != ((before >> 24) as u8).wrapping_add(1) {
            return Err(Error::OutOfStep(status));
        }
        let value = self.read_pair(register::VALUE)?;
        match CoreStatus((status >> 8 & 63) as u8) {
            CoreStatus::OK => Ok(value),
            failed => Err(Error::Status(failed, value)),
        }
    }
}

#[cfg(test)]
mod tests;
