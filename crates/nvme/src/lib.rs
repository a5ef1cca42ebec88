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
//! | `layout`, `memory` | how the caller's memory is cut up; the only `unsafe` |
//! | `prp`, `doorbell` | where the data is; telling the controller |
//! | `admin`, `controller`, `inquiry` | enable, ask, shut down |
//! | `slots`, `queue`, `io` | a queue pair, and the I/O path: submit, kick, poll |
//! | `wait`, `service`, `recovery` | interrupts; deadlines; abort, delete, reset |
//!
//! A [`Controller`] is shared by the threads that own its [`QueuePair`]s. A queue pair is a
//! [`block::Device`]. Each accepted request is completed exactly once, whatever the drive does.
//!
//! ```
//! # extern crate block as straightway_block;
//! # extern crate model as straightway_model;
//! use straightway_block::{Device, Operation, Request};
//! use straightway_nvme::{Controller, Options, QueuePair, controller_memory_bytes};
//!
//! // A model drive here; a VFIO function or a board's registers elsewhere.
//! let memory = straightway_model::BusMemory::linear(1 << 20).unwrap();
//! let drive = straightway_model::Model::new(straightway_model::Config::test(), memory.clone()).unwrap();
//!
//! let own = memory.allocate(controller_memory_bytes(4096)).unwrap();
//! let controller = Controller::enable(drive, own, Options::default());
//! let controller = controller.map_err(|failed| failed.error).unwrap();
//! let namespace = controller.namespace(1).unwrap();
//!
//! type Queue<'c> = QueuePair<straightway_model::Model, &'c Controller<straightway_model::Model>, 32>;
//! let own = memory.allocate(Queue::memory_bytes(128 << 10, 4096)).unwrap();
//! let queue = Queue::create(&controller, &namespace, own, 128 << 10);
//! let mut queue = queue.map_err(|failed| failed.error).unwrap();
//!
//! let buffer = memory.allocate(4096).unwrap();
//! let operation = Operation::Read { lba: 0, buffer };
//! queue.submit(Request { tag: 7, operation }).unwrap();
//! queue.kick();
//! let completion = loop {
//!     if let Some(completion) = queue.poll() {
//!         break completion;
//!     }
//! };
//! assert_eq!((completion.tag, completion.result), (7, Ok(())));
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod admin;
mod bytes;
mod command;
mod controller;
mod deadline;
mod doorbell;
mod error;
mod identify;
mod inquiry;
mod io;
mod layout;
mod log;
mod memory;
mod platform;
mod prp;
mod queue;
mod recovery;
mod registers;
mod service;
mod slots;
mod status;
mod wait;

pub use controller::{Controller, EnableFailed, Options};
pub use doorbell::MAX_QUEUES;
pub use error::{Error, Unsupported};
pub use identify::{
    ControllerInfo, Descriptor, NamespaceInfo, Text, active_namespaces, check_command_set,
    descriptors,
};
pub use layout::{
    controller_memory_bytes, controller_memory_bytes_without_shadows, queue_memory_bytes,
};
pub use log::{ErrorEntry, Event, FirmwareSlots, Smart};
pub use platform::{BusRun, Dma, InterruptRefused, LinearDma, PagedDma, Platform, Registers};
pub use queue::{CreateFailed, QueuePair};
pub use registers::{Capabilities, ControllerStatus};
pub use service::Statistics;
pub use status::Status;
pub use wait::CompletionMode;
