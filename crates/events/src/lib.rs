#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![deny(unsafe_code)]

mod device;
mod lane;
mod memory;
mod node;
mod ring;
mod simulation;
mod tags;

pub use device::{Device, Registers, Shape, TimerStatus, Window, register};
pub use lane::{
    Anchor, BadDump, HEADER_BYTES, Lane, LaneEvent, RECORD_BYTES, Stamp, parse, records, timeline,
};
pub use memory::counter;
pub use node::Node;
pub use ring::Ring;
pub use simulation::Simulation;
pub use tags::{Names, application, chario};

use std::io;

/// A recorder of events. What finds no room is counted, and replaces nothing.
pub trait Recorder {
    /// Stamps an event with the time of this call.
    ///
    /// # Errors
    /// The device cannot be reached; memory and a mapped device never fail.
    fn stamp(&mut self, tag: u32) -> io::Result<()>;

    /// Begins or continues to record.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn record(&mut self) -> io::Result<()>;

    /// Stops recording; events are neither stored nor counted as lost until it is resumed.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn pause(&mut self) -> io::Result<()>;

    /// Stops recording until [`trigger`](Self::trigger), or a device's trigger input.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn arm(&mut self) -> io::Result<()>;

    /// Begins to record, if it is armed.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn trigger(&mut self) -> io::Result<()>;

    /// Drops all events and the count of the lost ones.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn clear(&mut self) -> io::Result<()>;

    /// Pauses, and returns what was recorded since the last clear; a device's events leave its
    /// buffer.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn take(&mut self) -> io::Result<Lane>;
}
