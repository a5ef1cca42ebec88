// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block device of Linux whose requests this process serves: its ublk driver (Linux 6.6 and
//! later, module `ublk_drv`).
//!
//! Requests come in an io_uring; their data is copied by pread and pwrite (UBLK_F_USER_COPY), from
//! and to any memory. The node appears when [`Ublk::is_started`] says so, which needs requests to
//! be served: the kernel looks for partitions first.

use crate::sys::ublk::{self as sys, Control, Queue};
use crate::{Error, Result, Roots};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags of a device: commands are encoded as ioctls, and data is copied by pread and pwrite.
const FLAGS: u64 = 1 << 6 | 1 << 7;
/// Marks our devices in the field that is the server's: "straight".
const OURS: u64 = u64::from_be_bytes(*b"straight");
const INFO_BYTES: usize = 64;
const PARAMETER_BYTES: usize = 64;
const SECTOR_LOG2: u8 = 9;
/// Sectors of a discard or of a zeroing: 2 GiB.
const RANGE_SECTORS: u32 = 1 << 22;
/// Where the data of requests begins in the queue's file, and the bits of an offset in one.
const DATA_OFFSET: u64 = 0x8000_0000;
const DATA_BITS: u32 = 25;
/// How long the kernel may take to delete a device.
const DELETE_LIMIT: Duration = Duration::from_secs(10);
const FUA: u32 = 1 << 13;

/// What the kernel shall see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size in bytes; what does not fill a block at its end is not seen.
    pub size_bytes: u64,
    /// The logical block is `1 << block_size_log2` bytes; 9 to 12 where pages have 4 KiB.
    pub block_size_log2: u8,
    /// The longest read or write, in bytes.
    pub max_transfer_bytes: u32,
    /// Requests at the same time.
    pub depth: u16,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Ranges can be given back.
    pub discard: bool,
    /// Ranges can be zeroed.
    pub write_zeroes: bool,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Return bytes.
    Read,
    /// Store bytes.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Give a range back.
    Discard,
    /// Zero a range.
    WriteZeroes,
    /// Something that was not offered.
    Other,
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number: one request at a time has it.
    pub tag: u16,
    /// What it does.
    pub kind: RequestKind,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub len_bytes: u64,
    /// Complete only when durable.
    pub fua: bool,
}

/// A device that this process serves. When this is dropped without [`delete`](Ublk::delete),
/// requests fail and `/dev/ublkcN` is left.
pub struct Ublk {
    control: Control,
    queue: Queue,
    number: u32,
    /// Tags that the kernel has not given back for good.
    tags: u16,
    started: bool,
    stopped: bool,
}

impl std::fmt::Debug for Ublk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ublk")
            .field("number", &self.number)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Ublk {
    /// Makes a device and begins to start it.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: the kernel has no ublk driver, or an older one;
    /// [`Error::NotPermitted`]; the kernel's.
    pub fn create(roots: &Roots, disk: &Disk) -> Result<Self> {
        let path = control_path(roots);
        let mut control = open_control(&path)?;
        let mut info = [0; INFO_BYTES];
        info[..2].copy_from_slice(&1u16.to_ne_bytes());
        info[2..4].copy_from_slice(&disk.depth.to_ne_bytes());
        info[8..12].copy_from_slice(&disk.max_transfer_bytes.to_ne_bytes());
        info[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        info[24..32].copy_from_slice(&FLAGS.to_ne_bytes());
        info[32..40].copy_from_slice(&OURS.to_ne_bytes());
        let added = control.run(sys::ADD_DEV, u32::MAX, &mut info, 0);
        added.map_err(|source| failed("adding a device by", &path, source))?;
        let number = word(&info, 12);
        let granted = u64::from(word(&info, 24));
        let begun = if granted & FLAGS == FLAGS {
            begin(roots, &mut control, number, disk)
        } else {
            Err(unsupported(
                "the kernel's ublk driver cannot copy data by pread (Linux 6.6)",
            ))
        };
        match begun {
            Ok(queue) => Ok(Self {
                control,
                queue,
                number,
                tags: disk.depth,
                started: false,
                stopped: false,
            }),
            Err(error) => {
                let _ = control.run(sys::DEL_DEV, number, &mut [], 0);
                Err(error)
            }
        }
    }

    /// Its block device.
    pub fn node(&self, roots: &Roots) -> PathBuf {
        roots.dev.join(format!("ublkb{}", self.number))
    }

    /// Whether the block device is there. Requests must be served until it is.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_started(&mut self) -> Result<bool> {
        if !self.started && !self.stopped {
            if let Some(result) = self.control.done() {
                result.map_err(|source| failed("starting", Path::new("ublk"), source))?;
                self.started = true;
            }
        }
        Ok(self.started)
    }

    /// The next request.
    pub fn request(&mut self) -> Option<Request> {
        loop {
            let (tag, result) = self.queue.next()?;
            if result < 0 {
                self.tags = self.tags.saturating_sub(1);
                continue;
            }
            let described = self.queue.described(tag);
            return Some(Request {
                tag,
                kind: match described.op_flags & 0xff {
                    0 => RequestKind::Read,
                    1 => RequestKind::Write,
                    2 => RequestKind::Flush,
                    3 => RequestKind::Discard,
                    5 => RequestKind::WriteZeroes,
                    _ => RequestKind::Other,
                },
                offset_bytes: described.start << SECTOR_LOG2,
                len_bytes: u64::from(described.sectors) << SECTOR_LOG2,
                fua: described.op_flags & FUA != 0,
            });
        }
    }

    /// Loads bytes of a write's data, from byte `at` of it on.
    ///
    /// # Errors
    /// The kernel's: the device is being stopped.
    pub fn load(&self, tag: u16, at: usize, bytes: &mut [u8]) -> io::Result<()> {
        let offset = data_offset(tag, at);
        match rustix::io::pread(self.queue.file(), &mut *bytes, offset)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Stores bytes of a read's data, from byte `at` of it on.
    ///
    /// # Errors
    /// The kernel's: the device is being stopped.
    pub fn store(&self, tag: u16, at: usize, bytes: &[u8]) -> io::Result<()> {
        let offset = data_offset(tag, at);
        match rustix::io::pwrite(self.queue.file(), bytes, offset)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Ends a request: bytes that were moved, or an error's number. The kernel sees it at the next
    /// [`submit`](Ublk::submit).
    ///
    /// # Errors
    /// The ring is full, which is a defect.
    pub fn end(&mut self, tag: u16, result: std::result::Result<u32, i32>) -> io::Result<()> {
        let result = match result {
            Ok(bytes) => bytes as i32,
            Err(errno) => -errno,
        };
        self.queue.commit(tag, result)
    }

    /// Gives the kernel what was ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn submit(&mut self) -> io::Result<()> {
        self.queue.submit()
    }

    /// Files that are readable when requests may have come, or the start or the stop is over.
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.queue.ring_file(), self.control.ring_file()]
    }

    /// Begins to take the block device away. Requests must be served until
    /// [`is_stopped`](Ublk::is_stopped).
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&mut self) -> io::Result<()> {
        self.control.begin(sys::STOP_DEV, self.number, 0)
    }

    /// Whether it was stopped, and each request is the kernel's again.
    pub fn is_stopped(&mut self) -> bool {
        self.stopped = self.stopped || self.control.done().is_some();
        self.stopped && self.tags == 0
    }

    /// Deletes the device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete(self) -> io::Result<()> {
        let Self {
            mut control,
            queue,
            number,
            ..
        } = self;
        // The kernel waits until its file is closed.
        drop(queue);
        control.begin(sys::DEL_DEV, number, 0)?;
        let began = Instant::now();
        loop {
            match control.done() {
                Some(result) => return result,
                None if began.elapsed() > DELETE_LIMIT => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Deletes what servers of this kind left that were killed; returns the numbers. Devices of other
/// programs, and those that still have a server, stay.
///
/// # Errors
/// Those of [`Ublk::create`].
pub fn delete_leftovers(roots: &Roots) -> Result<Vec<u32>> {
    let path = control_path(roots);
    let mut control = open_control(&path)?;
    let mut deleted = Vec::new();
    let Ok(entries) = std::fs::read_dir(&roots.dev) else {
        return Ok(deleted);
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix("ublkc").map(str::parse);
        let Some(Ok(number)) = number else {
            continue;
        };
        let mut info = [0; INFO_BYTES];
        let found = control.run(sys::GET_DEV_INFO, number, &mut info, 0);
        let is_ours = info[32..40] == OURS.to_ne_bytes();
        // State 0: no block device, and none that waits for another server.
        let is_dead = info[4..6] == [0, 0];
        // One process at a time has the file: a server that is about to start it, too.
        let has_server = || open_file(&entry.path()).is_err();
        if found.is_ok() && is_ours && is_dead && !has_server() {
            let removed = control.run(sys::DEL_DEV, number, &mut [], 0);
            deleted.extend(removed.is_ok().then_some(number));
        }
    }
    deleted.sort_unstable();
    Ok(deleted)
}

fn control_path(roots: &Roots) -> PathBuf {
    roots.dev.join("ublk-control")
}

fn open_control(path: &Path) -> Result<Control> {
    let file = open_file(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => unsupported("there is no /dev/ublk-control"),
        _ => failed("opening", path, source),
    })?;
    Control::new(file).map_err(|source| failed("an io_uring for", path, source))
}

fn open_file(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Sets a new device's parameters, asks for its requests, and begins to start it.
fn begin(roots: &Roots, control: &mut Control, number: u32, disk: &Disk) -> Result<Queue> {
    let path = roots.dev.join(format!("ublkc{number}"));
    let mut bytes = parameters(disk);
    let set = control.run(sys::SET_PARAMS, number, &mut bytes, 0);
    set.map_err(|source| failed("setting the parameters of", &path, source))?;
    let queue = open_file(&path).and_then(|file| Queue::new(file, disk.depth));
    let mut queue = queue.map_err(|source| failed("opening", &path, source))?;
    let io = |source| failed("starting", &path, source);
    for tag in 0..disk.depth {
        queue.fetch(tag).map_err(io)?;
    }
    queue.submit().map_err(io)?;
    let process = u64::from(std::process::id());
    control.begin(sys::START_DEV, number, process).map_err(io)?;
    Ok(queue)
}

/// `struct ublk_params`: basic ones, and those of discards where the disk has them.
fn parameters(disk: &Disk) -> [u8; PARAMETER_BYTES] {
    let has_ranges = disk.discard || disk.write_zeroes;
    let shift = disk.block_size_log2;
    let sectors = |has: bool| if has { RANGE_SECTORS } else { 0 };
    // Read-only; a volatile cache and FUA, so that flushes and durable writes come.
    let attributes = if disk.read_only {
        1u32
    } else {
        1 << 2 | 1 << 3
    };
    let mut all = Vec::with_capacity(PARAMETER_BYTES);
    all.extend((PARAMETER_BYTES as u32).to_ne_bytes());
    all.extend((1u32 | u32::from(has_ranges) << 1).to_ne_bytes());
    all.extend(attributes.to_ne_bytes());
    all.extend([shift, shift, shift, shift]);
    all.extend((disk.max_transfer_bytes >> SECTOR_LOG2).to_ne_bytes());
    all.extend(0u32.to_ne_bytes());
    let blocks = disk.size_bytes >> shift;
    all.extend((blocks << (shift - SECTOR_LOG2)).to_ne_bytes());
    all.extend(0u64.to_ne_bytes());
    all.extend(0u32.to_ne_bytes());
    all.extend((1u32 << shift).to_ne_bytes());
    all.extend(sectors(disk.discard).to_ne_bytes());
    all.extend(sectors(disk.write_zeroes).to_ne_bytes());
    all.extend(u16::from(disk.discard).to_ne_bytes());
    all.resize(PARAMETER_BYTES, 0);
    all.try_into().unwrap_or([0; PARAMETER_BYTES])
}

fn data_offset(tag: u16, at: usize) -> u64 {
    DATA_OFFSET + (u64::from(tag) << DATA_BITS) + at as u64
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::io(doing, path, source)
}

fn unsupported(why: &str) -> Error {
    Error::Unsupported {
        what: "a block device of this process (ublk)",
        why: why.to_owned(),
        hint: Some(
            "modprobe ublk_drv, with Linux 6.6 or later (Debian 12: its backports kernel)".into(),
        ),
    }
}
