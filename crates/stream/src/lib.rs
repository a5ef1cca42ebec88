// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recording and playing files of a volume at a fixed rate, with every deadline counted.
//!
//! * [`Recorder`]: a ring of buffers between a producer with its own clock and the drive. Space is
//!   reserved ahead, and the size is made durable at set intervals of bytes or microseconds, both
//!   in parallel with the data. A block's deadline counts from its intended arrival, however late
//!   it was handed in.
//! * [`Recorder::hand_over`]: two recorders take turns, so that a recording goes on in another file
//!   without a pause.
//! * [`Player`]: reads ahead into a ring and delivers each block when it is due.
//! * [`Pace`]: when the n-th block is due at a rate.
//!
//! Both work in caller-supplied memory, without an allocator, and never sleep: the caller calls
//! `step` until the stream has ended. All metadata operations are in one future, `upkeep`, which
//! the caller pins and passes to `step`; so at most one such operation is in progress, on the
//! caller's stack, while data keeps flowing.
//!
//! When the drive does not keep up the stream reports it immediately: it ends, or it drops the
//! block and names the gap in a companion file ([`GapFile`]). Nothing is lost silently.
//!
//! ```
//! use straightway_stream::block::{Buffer, Clock, RamDisk};
//! use core::{pin::pin, task::Poll};
//! use straightway_stream::{RingPlace, RecordOptions, Recorder};
//! use straightway_stream::volume::{FormatOptions, MountOptions, OpenFile, Volume, blocking};
//!
//! struct Microseconds(std::time::Instant);
//! impl Clock for Microseconds {
//!     fn ticks(&self) -> u64 { self.0.elapsed().as_micros() as u64 }
//!     fn ticks_per_second(&self) -> u64 { 1_000_000 }
//! }
//! fn buffer(len: usize) -> Buffer { Buffer::from_static(Box::leak(vec![0; len].into_boxed_slice())) }
//!
//! let mut disk = RamDisk::<_, 32>::new(vec![0; 8 << 20], 9).unwrap();
//! straightway_stream::volume::format(&mut disk, buffer(4096), &FormatOptions::default()).0.unwrap();
//! let mut files = [const { OpenFile::new() }; 1];
//! let memory = [(); 3].map(|()| buffer(4096));
//! let volume = Volume::mount(disk, memory, &mut files, &MountOptions::default()).unwrap();
//! let file = blocking::run(&volume, volume.create("take 1", &Default::default())).unwrap();
//!
//! let clock = Microseconds(std::time::Instant::now());
//! let mut ring = [(); 4].map(|()| RingPlace::new(buffer(64 << 10)));
//! let options = RecordOptions { deadline_us: 1_000_000, ..RecordOptions::default() };
//! let recorder = Recorder::new(&volume, file, &clock, &mut ring, None, &options).unwrap();
//! let mut upkeep = pin!(recorder.upkeep());
//! let mut blocks = 0;
//! while recorder.step(upkeep.as_mut(), &mut |_| {}) == Poll::Pending {
//!     if blocks == 20 {
//!         recorder.finish();
//!     } else if let Some(mut buffer) = recorder.take() {
//!         buffer.fill(blocks);
//!         recorder.hand_in(buffer, 64 << 10, clock.ticks()).unwrap();
//!         blocks += 1;
//!     }
//! }
//! let report = recorder.report();
//! assert_eq!((report.durable_bytes, report.misses), (20 * 65_536, 0));
//! blocking::run(&volume, volume.close(file)).unwrap();
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

/// The crates that it builds on: the block interface, and volumes.
pub use {block, volume};

mod error;
mod gaps;
mod handover;
mod histogram;
mod pace;
mod place;
mod play;
mod play_state;
mod record;
mod record_state;
mod report;
mod retries;
mod ring;
mod upkeep;

pub use error::Error;
pub use gaps::{GAP_LINE_BYTES, GapFile, has_gap_sum, parse_gap, restart_line};
pub use histogram::{BUCKETS, Histogram};
pub use pace::{Pace, us_from_ticks};
pub use place::RingPlace;
pub use play::{PlayOptions, Played, Player};
pub use record::{RecordOptions, Recorder};
pub use report::{Gap, PlayReport, RecordReport};
