//! Everything about Linux that the paths to a drive need.
//!
//! | path | type | interrupts | what it needs |
//! | --- | --- | --- | --- |
//! | user space behind an IOMMU | [`vfio::Function`] | MSI-X, MSI or INTx by eventfd | vfio-pci |
//! | user space without an IOMMU | [`noiommu::Function`] | none: polled | root, huge pages |
//! | NVMe passthrough | [`Passthrough`] | the kernel's | `/dev/ngXnY`, io_uring |
//! | io_uring | [`Uring`] | the kernel's | a file or a block device |
//! | CharIO | [`Chario`] | CharIO's, or none | its module, `/dev/chardiskXnY` |
//! | a storage coprocessor | [`Coprocessor`] | none: polled | its window, a file |
//! | pread and pwrite | [`SyncFile`] | the kernel's | a file or a block device |
//!
//! The first two are a platform for the NVMe driver (`nvme::Platform`); the others are a
//! [`block::Device`] themselves. Around them: which device a name means ([`pci`], [`resolve`]), who
//! is using it ([`usage`]), taking it from its driver and giving it back ([`bind`]), and what this
//! machine lacks ([`doctor`]).
//!
//! The library never prints, exits or panics. `unsafe` is in the modules under `sys` alone, each of
//! which says why, and in the two `unsafe impl nvme::Dma`, whose promise only the owner of the
//! mapping can give.
#![deny(unsafe_code)]

pub mod admin;
pub mod bind;
pub mod chario;
mod claim;
mod clock;
pub mod coprocessor;
pub mod cpufreq;
pub mod doctor;
mod error;
pub mod identity;
mod lanes;
mod memory;
pub mod noiommu;
mod passthrough;
pub mod pci;
pub mod resolve;
mod roots;
mod schedule;
mod shown;
mod single;
mod state;
mod sync_file;
mod sys;
mod sysfs;
mod target;
mod uring;
pub mod usage;
pub mod vfio;

pub use chario::{Chario, CharioOptions};
pub use claim::{Claim, can_be_taken};
pub use clock::{ClockSource, TscClock};
pub use coprocessor::Coprocessor;
pub use error::{Error, Kind, Result, namespace_hint, permission_hint};
pub use memory::{DmaMemory, HostMemory};
pub use passthrough::Passthrough;
pub use roots::Roots;
pub use schedule::RealTime;
pub use sync_file::SyncFile;
pub use uring::{RingOptions, Uring};
