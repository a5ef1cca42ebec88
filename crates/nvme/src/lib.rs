// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An NVMe driver without an operating system, an allocator or locks on the I/O path.
//!
//! It runs unchanged in user space over VFIO, without an IOMMU, and in firmware. The machine is
//! behind three small traits ([`Registers`], [`Dma`], [`block::Clock`]); the memory is the
//! caller's ([`controller_memory_bytes`], [`queue_memory_bytes`]).
//!
//! Read it in this order:
//!
//! | module | what it is |
//! | --- | --- |
//! | `platform` | what the driver needs from the machine |
//! | `registers`, `command`, `status`, `identify`, `log` | the specification's structures |
//! | `layout`, `memory` | the layout of the caller's memory; the only `unsafe` blocks |
//! | `prp`, `encode`, `doorbell` | data pointers; commands; notifying the controller |
//! | `admin`, `controller`, `inquiry`, `open` | enable, query, shut down |
//! | `quirks`, `quirk_table`, `power` | known defects; power states and their latencies |
//! | `generic` | commands that the driver does not interpret |
//! | `slots`, `rings`, `queue`, `io` | a queue pair, and the I/O path: submit, kick, poll |
//! | `wait`, `watch`, `service`, `recovery` | interrupts; deadlines; abort, delete, reset |
//!
//! A [`Controller`] is shared by the threads that own its [`QueuePair`]s. A queue pair is a
//! [`block::Device`]. Each accepted request is completed exactly once, whatever the drive does.
//!
//! ```
//! use straightway_model::{BusMemory, Config, Model};
//! use straightway_nvme::block::blocking;
//! use straightway_nvme::{Allocate, Controller, ControllerOptions, QueuePair};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model drive here; a VFIO function or a board's registers elsewhere.
//! let memory = BusMemory::linear(2 << 20).ok_or("no memory")?;
//! let drive = Model::new(Config::ram(64 << 20), memory.clone())?;
//!
//! let controller = Controller::open(drive, &memory, ControllerOptions::default())?;
//! let mut queue = QueuePair::<_, _, 32>::open(&controller, 1, 128 << 10, &memory)?;
//! let buffer = memory.allocate_dma(4096, 4096).ok_or("no memory")?;
//! let read = blocking::read(&mut queue, 0, buffer);
//! read.result?;
//! assert_eq!(read.buffer[..4], [0; 4]);
//! # Ok(())
//! # }
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

/// The block interface, for programs that need no second dependency.
pub use block;

mod admin;
mod command;
mod controller;
mod deadline;
mod doorbell;
mod encode;
mod error;
mod generic;
mod identify;
mod inquiry;
mod io;
mod layout;
mod log;
mod memory;
mod open;
mod platform;
mod power;
mod prp;
mod queue;
mod quirk_table;
mod quirks;
mod recovery;
mod registers;
mod rings;
mod service;
mod slots;
mod status;
mod wait;
mod watch;

pub use controller::{Controller, ControllerOptions, EnableFailed};
pub use doorbell::MAX_QUEUES;
pub use error::{Error, GenericRefusal, Unsupported};
pub use generic::{Direction, GenericCommand, GenericData};
pub use identify::{
    ControllerInfo, Descriptor, NamespaceInfo, PAGE_BYTES as IDENTIFY_BYTES, Text,
    active_namespaces, check_command_set, cns, descriptors,
};
pub use layout::{
    controller_memory_bytes, controller_memory_bytes_without_shadows, queue_memory_bytes,
};
pub use log::{
    DriveEvent, ERROR_ENTRY_BYTES, ErrorEntry, FIRMWARE_BYTES, FirmwareSlots, SMART_BYTES, Smart,
    lid,
};
pub use open::Allocate;
pub use platform::{BusRun, Dma, InterruptRefused, LinearDma, PagedDma, Platform, Registers};
pub use power::{MAX_POWER_STATES, PowerState, PowerStates, Transitions};
pub use queue::{CreateFailed, QueuePair};
pub use quirks::{PciId, QUIRKS, QuirkFacts, Quirks};
pub use registers::{Capabilities, ControllerStatus};
pub use service::Statistics;
pub use status::StatusField;
pub use wait::CompletionMode;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
