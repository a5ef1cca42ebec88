// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model NVMe controller in memory.
//!
//! [`Model`] is what a driver needs from a machine (`nvme::Registers`, `nvme::Dma` and
//! `block::Clock`) over [`BusMemory`]: a memory-based controller according to the NVMe base
//! specification 1.4, without a thread. It has two uses: as the embedded default where there is no
//! drive, with namespaces in RAM or a file; and as a drive that fails, with [`Faults`] by number,
//! opcode or chance, for the driver's tests. What the host does wrong is recorded as a
//! [`Violation`] and not performed.
//!
//! ```
//! use straightway_model::nvme::Registers;
//! use straightway_model::nvme::block::Clock;
//! use straightway_model::{BusMemory, Config, Faults, FaultKind, Model, On, Rule, When};
//!
//! let memory = BusMemory::linear(4 << 20).unwrap();
//! let hang = FaultKind::NeverComplete { abortable: true };
//! let faults = Faults::new(&[Rule::new(On::Io, When::Nth(3), hang)]);
//! let model = Model::with_faults(Config::test(), memory.clone(), faults).unwrap();
//!
//! let buffer = memory.allocate(4096).unwrap();
//! assert_eq!(model.read32(0x08), 0x0001_0400); // VS: NVMe 1.4
//! assert!(model.ticks() < model.ticks()); // virtual time
//! assert!(model.violations().is_empty());
//! memory.give_back(buffer).unwrap();
//! ```
#![deny(unsafe_code)]

/// The driver, and within it the block interface.
pub use nvme;

mod admin;
mod bus;
mod clock;
pub mod command;
mod config;
mod controller;
mod doorbell;
mod engine;
pub mod fault;
mod features;
mod identify;
mod io;
mod logs;
mod matrix;
mod memory;
mod model;
mod namespace;
mod power;
mod prp;
mod queue;
mod quirks;
pub mod random;
mod registers;
mod statistics;
mod store;
mod violation;

#[cfg(test)]
mod tests;

pub use clock::Time;
pub use config::{Config, NamespaceConfig, PowerStateConfig};
pub use fault::{FaultKind, Faults, NamedFault, On, Rule, When, all};
pub use logs::AsyncEvent;
pub use memory::BusMemory;
pub use memory::cache::CacheSite;
pub use model::Model;
pub use statistics::Statistics;
pub use store::{FileStore, SparseRam, Store};
pub use violation::{Access, Violation};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
