// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only modules that access the kernel and the hardware with `unsafe`, with the reason for
//! each:
//!
//! * `arena`: hands out [`block::Buffer`]s over memory that it owns.
//! * `blkid`: functions of libblkid, which is loaded at run time.
//! * `chario`: requests of CharIO's driver, which moves data to memory by address.
//! * `closed`: looks at the standard descriptors before `main`.
//! * `coprocessor`: the window that is shared with a coprocessor, and locks on its clients' pages.
//! * `counter`: the processor's time counter has no safe instruction.
//! * `datagram`: options of a socket, and messages with control data, which name memory.
//! * `iommufd`: iommufd's requests, which VFIO has instead of its own to let a device reach memory.
//! * `ioctl`: requests of the block layer and the NVMe driver.
//! * `map`: mapped memory and device registers.
//! * `marker`: no-operations that the lab's counter of instructions knows.
//! * `pin`: references to pages of another owner, for a device without an IOMMU.
//! * `ring`: the kernel writes to buffers while a request is in an io_uring.
//! * `sched`: the scheduling policy of the calling thread.
//! * `translator`: lets a device reach memory by one or the other.
//! * `ublk`: commands of the ublk driver, which name memory.
//! * `vfio`: VFIO's requests, among them the one that lets a device reach memory.

pub(crate) mod arena;
pub(crate) mod blkid;
#[cfg(feature = "chario")]
pub(crate) mod chario;
pub(crate) mod closed;
#[cfg(feature = "coprocessor")]
pub(crate) mod coprocessor;
pub(crate) mod counter;
pub(crate) mod datagram;
pub(crate) mod ioctl;
#[cfg(feature = "vfio")]
pub(crate) mod iommufd;
pub(crate) mod map;
pub(crate) mod marker;
#[cfg(feature = "vfio")]
pub(crate) mod pin;
#[cfg(feature = "io-uring")]
pub(crate) mod ring;
#[cfg(feature = "io-uring")]
pub(crate) mod ring_file;
#[cfg(feature = "io-uring")]
pub(crate) mod ring_nvme;
pub(crate) mod sched;
#[cfg(feature = "vfio")]
pub(crate) mod translator;
#[cfg(feature = "io-uring")]
pub(crate) mod ublk;
#[cfg(feature = "vfio")]
pub(crate) mod vfio;
