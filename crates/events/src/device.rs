// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiling timer `rtl/timer`: its registers, and events through them.

use crate::Recorder;
use crate::lane::{Anchor, Lane, LaneEvent};
use crate::memory::{Page, monotonic_ns};
use std::fs::File;
use std::io;
use std::path::Path;

/// Offsets of the registers in bytes (`rtl/timer/README.md`).
pub mod register {
    #![allow(missing_docs)]
    pub const ID: u32 = 0x00;
    pub const SHAPE: u32 = 0x04;
    pub const CONTROL: u32 = 0x08;
    pub const STATUS: u32 = 0x0c;
    pub const EVENT: u32 = 0x10;
    pub const LINES: u32 = 0x14;
    pub const TRIGGER: u32 = 0x18;
    pub const STORED: u32 = 0x20;
    pub const LOST: u32 = 0x24;
    pub const NOW_LOW: u32 = 0x28;
    pub const NOW_HIGH: u32 = 0x2c;
    pub const AT_LOW: u32 = 0x30;
    pub const AT_HIGH: u32 = 0x34;
    pub const TAG: u32 = 0x38;
    pub const SOURCE: u32 = 0x3c;
    pub const NEXT: u32 = 0x40;
    pub const WRITTEN: u32 = 0x44;
    pub const BASE_LOW: u32 = 0x48;
    pub const BASE_HIGH: u32 = 0x4c;
    pub const LIMIT: u32 = 0x50;
    pub const COUNT: u32 = 0x80;
}

const ID: u32 = u32::from_le_bytes(*b"TIMR");
/// CONTROL.
const RECORD: u32 = 1;
const ARM: u32 = 2;
const CLEAR: u32 = 4;
const STREAM: u32 = 8;
/// STATUS.
const RECORDS: u32 = 1;
const ARMED: u32 = 2;
const READABLE: u32 = 4;
const FAILED: u32 = 16;
const STREAMING: u32 = 32;

/// Access to the timer's registers.
pub trait Registers {
    /// Reads a register.
    ///
    /// # Errors
    /// The device cannot be reached, or refused the access.
    fn read(&mut self, register: u32) -> io::Result<u32>;

    /// Writes a register.
    ///
    /// # Errors
    /// The device cannot be reached, or refused the access.
    fn write(&mut self, register: u32, value: u32) -> io::Result<()>;
}

/// A timer's registers in this process's memory: a UIO device, or a part of `/dev/mem` or of a PCI
/// function.
#[derive(Debug)]
pub struct Window(Page);

impl Window {
    /// Maps the first page of a device's file (`/dev/uio0`, or `resource0` of a PCI function).
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        // Beyond a regular file's end an access would be a signal.
        let facts = file.metadata()?;
        if facts.is_file() && facts.len() < Page::BYTES as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "shorter than a timer's 4 KiB of registers",
            ));
        }
        Ok(Self(Page::of(&file)?))
    }
}

impl Registers for Window {
    #[inline(always)]
    fn read(&mut self, register: u32) -> io::Result<u32> {
        Ok(self.0.read(register as usize))
    }

    #[inline(always)]
    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        self.0.write(register as usize, value);
        Ok(())
    }
}

/// What a timer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Interrupt lines.
    pub lines: u32,
    /// Events that its buffer holds.
    pub capacity: u64,
    /// Cycles with events that may wait for the buffer.
    pub groups: u32,
    /// Whether it can stream events to memory.
    pub streams: bool,
}

/// A timer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerStatus {
    /// It records.
    pub records: bool,
    /// It waits for the trigger.
    pub armed: bool,
    /// The memory refused a write: the stream has ended.
    pub stream_failed: bool,
    /// Writes to memory are outstanding, or events wait for it.
    pub streaming: bool,
    /// Events in the buffer.
    pub stored: u32,
    /// Events that found no room; 2^32 - 1 means at least so many.
    pub lost: u32,
    /// Events that are in memory.
    pub written: u32,
}

/// A profiling timer.
#[derive(Debug)]
pub struct Device<R> {
    registers: R,
    shape: Shape,
    begin: Anchor,
    streams: bool,
}

impl<R: Registers> Device<R> {
    /// Takes over a timer, as it is.
    ///
    /// # Errors
    /// It cannot be reached, or is not a timer.
    pub fn new(mut registers: R) -> io::Result<Self> {
        let id = registers.read(register::ID)?;
        if id != ID {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not a profiling timer: its first register is {id:#010x}, not {ID:#010x}"),
            ));
        }
        let shape = registers.read(register::SHAPE)?;
        let shape = Shape {
            lines: shape & 0x7f,
            capacity: 1 << (shape >> 8 & 0x1f),
            groups: shape >> 16,
            streams: shape & 0x80 != 0,
        };
        Ok(Self {
            registers,
            shape,
            begin: Anchor::default(),
            streams: false,
        })
    }

    /// What it consists of.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Its state.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn status(&mut self) -> io::Result<TimerStatus> {
        let status = self.registers.read(register::STATUS)?;
        Ok(TimerStatus {
            records: status & RECORDS != 0,
            armed: status & ARMED != 0,
            stream_failed: status & FAILED != 0,
            streaming: status & STREAMING != 0,
            stored: self.registers.read(register::STORED)?,
            lost: self.registers.read(register::LOST)?,
            written: if self.shape.streams {
                self.registers.read(register::WRITTEN)?
            } else {
                0
            },
        })
    }

    /// Selects the interrupt lines that are stamped, one bit each.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn stamp_lines(&mut self, mask: u32) -> io::Result<()> {
        self.registers.write(register::LINES, mask)
    }

    /// How often a line has risen since the last clear, stamped or not.
    ///
    /// # Errors
    /// The device cannot be reached, or has no such line.
    pub fn rises(&mut self, line: u32) -> io::Result<u32> {
        if line >= self.shape.lines {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the timer has {} lines", self.shape.lines),
            ));
        }
        self.registers.read(register::COUNT + 4 * line)
    }

    /// Streams the events to memory from now on: records of 16 bytes from `address` on, a bus
    /// address and a multiple of 16, for at most `limit` events. Events beyond the limit stay in
    /// the buffer until it is full.
    ///
    /// # Errors
    /// The timer has no stream, is streaming, or cannot be reached.
    pub fn stream(&mut self, address: u64, limit: u32) -> io::Result<()> {
        if !self.shape.streams || address % 16 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                if self.shape.streams {
                    "the memory of a stream begins at a multiple of 16"
                } else {
                    "this timer was built without a stream (parameter Stream)"
                },
            ));
        }
        if self.status()?.streaming {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the timer is streaming: pause it, and wait until its status says that it has ended",
            ));
        }
        self.registers.write(register::BASE_LOW, address as u32)?;
        self.registers
            .write(register::BASE_HIGH, (address >> 32) as u32)?;
        self.registers.write(register::LIMIT, limit)?;
        self.streams = true;
        let control = self.registers.read(register::CONTROL)?;
        self.control(control)
    }

    /// Ends streaming; what is outstanding is still written.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn end_stream(&mut self) -> io::Result<()> {
        self.streams = false;
        let control = self.registers.read(register::CONTROL)?;
        self.control(control)
    }

    fn control(&mut self, bits: u32) -> io::Result<()> {
        let stream = if self.streams { STREAM } else { 0 };
        self.registers
            .write(register::CONTROL, bits & !STREAM | stream)
    }

    fn anchor(&mut self) -> io::Result<Anchor> {
        let before = monotonic_ns();
        let low = self.registers.read(register::NOW_LOW)?;
        let after = monotonic_ns();
        let high = self.registers.read(register::NOW_HIGH)?;
        Ok(Anchor {
            counter: u64::from(high) << 32 | u64::from(low),
            ns: before + (after - before) / 2,
        })
    }

    /// The lane that streamed events belong to: pauses, and returns what is in the buffer after
    /// those in memory.
    fn lane(&mut self) -> io::Result<Lane> {
        let status = self.status()?;
        let mut lane = Lane {
            name: "timer".to_owned(),
            lost: status.lost.into(),
            begin: self.begin,
            end: self.anchor()?,
            ..Lane::default()
        };
        for _ in 0..status.stored {
            if self.registers.read(register::STATUS)? & READABLE == 0 {
                break;
            }
            let low = self.registers.read(register::AT_LOW)?;
            let high = self.registers.read(register::AT_HIGH)?;
            lane.events.push(LaneEvent {
                at: u64::from(high) << 32 | u64::from(low),
                tag: self.registers.read(register::TAG)?,
                is_line: self.registers.read(register::SOURCE)? & 1 != 0,
            });
            self.registers.write(register::NEXT, 0)?;
        }
        Ok(lane)
    }
}

impl<R: Registers> Recorder for Device<R> {
    #[inline(always)]
    fn stamp(&mut self, tag: u32) -> io::Result<()> {
        self.registers.write(register::EVENT, tag)
    }

    fn record(&mut self) -> io::Result<()> {
        if self.begin == Anchor::default() {
            self.begin = self.anchor()?;
        }
        self.control(RECORD)
    }

    fn pause(&mut self) -> io::Result<()> {
        self.control(0)
    }

    fn arm(&mut self) -> io::Result<()> {
        self.begin = self.anchor()?;
        self.control(ARM)
    }

    fn trigger(&mut self) -> io::Result<()> {
        self.registers.write(register::TRIGGER, 0)
    }

    fn clear(&mut self) -> io::Result<()> {
        let control = self.registers.read(register::CONTROL)?;
        self.begin = match control & RECORD {
            0 => Anchor::default(),
            _ => self.anchor()?,
        };
        self.control(control | CLEAR)
    }

    fn take(&mut self) -> io::Result<Lane> {
        self.pause()?;
        self.lane()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A timer as its registers describe it, with a cycle per access.
    #[derive(Default)]
    struct Played {
        now: u64,
        control: u32,
        events: VecDeque<(u64, u32)>,
        lost: u32,
        written: Vec<(u32, u32)>,
    }

    impl Registers for Played {
        fn read(&mut self, register: u32) -> io::Result<u32> {
            self.now += 1;
            let head = self.events.front().copied().unwrap_or_default();
            Ok(match register {
                register::ID => ID,
                register::SHAPE => 8 << 16 | 2 << 8 | 0x80 | 4,
                register::CONTROL => self.control & 0xb,
                register::STATUS => {
                    self.control & 3 | if self.events.is_empty() { 0 } else { READABLE }
                }
                register::STORED => self.events.len() as u32,
                register::LOST => self.lost,
                register::NOW_LOW => self.now as u32,
                register::NOW_HIGH => (self.now >> 32) as u32,
                register::AT_LOW => head.0 as u32,
                register::AT_HIGH => (head.0 >> 32) as u32,
                register::TAG => head.1,
                register::SOURCE => 2,
                _ => 0,
            })
        }

        fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
            self.now += 1;
            match register {
                register::CONTROL => {
                    self.control = value;
                    if value & CLEAR != 0 {
                        self.events.clear();
                        self.lost = 0;
                    }
                }
                register::EVENT if self.control & RECORD == 0 => {}
                register::EVENT if self.events.len() == 4 => self.lost += 1,
                register::EVENT => self.events.push_back((self.now, value)),
                register::NEXT => drop(self.events.pop_front()),
                register::TRIGGER if self.control & ARM != 0 => self.control = RECORD,
                _ => self.written.push((register, value)),
            }
            Ok(())
        }
    }

    #[test]
    fn a_device_records_as_a_ring_does() {
        let mut device = Device::new(Played {
            now: u64::from(u32::MAX) - 3,
            ..Played::default()
        })
        .unwrap();
        assert_eq!(
            device.shape(),
            Shape {
                lines: 4,
                capacity: 4,
                groups: 8,
                streams: true
            }
        );
        device.stamp(1).unwrap();
        device.arm().unwrap();
        device.stamp(2).unwrap();
        device.trigger().unwrap();
        for tag in 3..9 {
            device.stamp(tag).unwrap();
        }
        let lane = device.take().unwrap();
        let tags: Vec<u32> = lane.events.iter().map(|event| event.tag).collect();
        assert_eq!((tags, lane.lost), (vec![3, 4, 5, 6], 2));
        assert!(lane.begin.counter < lane.events[0].at && lane.events[3].at < lane.end.counter);
        device.clear().unwrap();
        assert_eq!(device.take().unwrap().lost, 0);
    }

    #[test]
    fn a_stream_is_refused_before_it_begins() {
        let mut device = Device::new(Played::default()).unwrap();
        assert!(device.stream(8, 1).is_err());
        device.stream(0x1_0000_0010, 5).unwrap();
        let wrote = &device.registers.written;
        assert_eq!(
            wrote[..],
            [
                (register::BASE_LOW, 0x10),
                (register::BASE_HIGH, 1),
                (register::LIMIT, 5)
            ]
        );
        device.record().unwrap();
        assert_eq!(device.registers.control, RECORD | STREAM);
        assert!(device.rises(4).is_err());
    }

    #[test]
    fn another_device_and_a_short_file_are_refused() {
        let path = std::env::temp_dir().join(format!("events-window-{}", std::process::id()));
        std::fs::write(&path, [0; 100]).unwrap();
        assert!(Window::open(&path).is_err());
        std::fs::write(&path, vec![0; Page::BYTES]).unwrap();
        let error = Device::new(Window::open(&path).unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("not a profiling timer"),
            "{error}"
        );
        let mut page = vec![0; Page::BYTES];
        page[..4].copy_from_slice(b"TIMR");
        page[4..8].copy_from_slice(&0x0008_1004_u32.to_le_bytes());
        std::fs::write(&path, page).unwrap();
        let mut device = Device::new(Window::open(&path).unwrap()).unwrap();
        device.stamp(0x1234_5678).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[0x10..0x14], 0x1234_5678_u32.to_le_bytes());
        std::fs::remove_file(&path).unwrap();
    }
}
