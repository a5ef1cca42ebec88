// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a model controller.

use std::path::PathBuf;

use nvme::{PciId, Quirks};

use crate::clock::Time;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Namespace identifier, at least 1 and unique.
    pub id: u32,
    /// Number of logical blocks.
    pub block_count: u64,
    /// A logical block is `1 << block_size_log2` bytes; 9 and 12 are usual.
    pub block_size_log2: u8,
    /// The file that holds it; `None` for sparse RAM.
    pub file: Option<PathBuf>,
}

impl NamespaceConfig {
    /// Namespace `id` of `size_bytes` in RAM.
    pub fn ram(id: u32, size_bytes: u64, block_size_log2: u8) -> Self {
        Self {
            id,
            block_count: size_bytes >> block_size_log2,
            block_size_log2,
            file: None,
        }
    }
}

/// A power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerStateConfig {
    /// Largest power in milliwatts.
    pub max_power_mw: u32,
    /// No I/O is processed in it.
    pub non_operational: bool,
    /// How long it takes to enter it.
    pub entry_latency_us: u32,
    /// How long it takes to leave it.
    pub exit_latency_us: u32,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The active namespaces.
    pub namespaces: Vec<NamespaceConfig>,
    /// The largest valid namespace identifier (NN); at least the largest that is active.
    pub namespace_limit: u32,
    /// Most entries in a queue, 2 to 65,536 (CAP.MQES + 1).
    pub max_queue_entries: u32,
    /// Queues must be contiguous (CAP.CQR). The model accepts no others in any case.
    pub contiguous_queues_required: bool,
    /// Doorbells are `4 << doorbell_stride_log2` bytes apart (CAP.DSTRD).
    pub doorbell_stride_log2: u8,
    /// Smallest page size is `1 << min_page_shift` bytes, 12 or more (CAP.MPSMIN).
    pub min_page_shift: u8,
    /// Largest page size is `1 << max_page_shift` bytes (CAP.MPSMAX).
    pub max_page_shift: u8,
    /// Longest time to become ready, in units of 500 ms (CAP.TO).
    pub ready_timeout_units: u8,
    /// Subsystem reset is supported (CAP.NSSRS).
    pub subsystem_reset: bool,
    /// How long enabling, disabling and shutting down take.
    pub ready_delay_us: u64,
    /// Length of the register space; 0 for just enough for the doorbells, in whole pages.
    pub register_bytes: usize,
    /// Longest transfer is `1 << mdts` smallest pages; 0 for no limit (MDTS).
    pub mdts: u8,
    /// I/O queue pairs granted.
    pub io_queues: u16,
    /// Interrupt vectors; 0 for a controller that can only be polled.
    pub interrupt_vectors: u16,
    /// They are a line (INTx) to the driver. The model sends them as it sends messages.
    pub interrupt_line: bool,
    /// There is a volatile write cache: what was not flushed is lost by a power cut.
    pub volatile_write_cache: bool,
    /// Blocks that the write cache holds before it writes the lowest back by itself.
    pub write_cache_blocks: usize,
    /// Dataset Management is supported (ONCS bit 2).
    pub dataset_management: bool,
    /// Write Zeroes is supported (ONCS bit 3).
    pub write_zeroes: bool,
    /// Doorbell Buffer Config is supported (OACS bit 8).
    pub doorbell_buffers: bool,
    /// Abort commands that may be outstanding (ACL + 1).
    pub abort_limit: u8,
    /// Asynchronous event requests that may be outstanding (AERL + 1).
    pub async_event_limit: u8,
    /// Its power states, at most 32, state 0 first and deeper ones last; none for one state of 5 W.
    /// With more than one, the controller has autonomous transitions.
    pub power_states: Vec<PowerStateConfig>,
    /// Transfers that cross a multiple of this many blocks are counted
    /// ([`Statistics::boundary_crossings`](crate::Statistics::boundary_crossings)); 0 for none.
    pub boundary_blocks: u16,
    /// Its quirks: it has each one's defect.
    pub quirks: Quirks,
    /// PCI identifiers; QEMU's vendor and no known device unless set.
    pub pci_id: PciId,
    /// The clock.
    pub time: Time,
    /// Serial number, model number and firmware revision.
    pub names: [&'static str; 3],
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            namespace_limit: 1,
            max_queue_entries: 4096,
            contiguous_queues_required: true,
            doorbell_stride_log2: 0,
            min_page_shift: 12,
            max_page_shift: 16,
            ready_timeout_units: 2,
            subsystem_reset: true,
            ready_delay_us: 0,
            register_bytes: 0,
            mdts: 8,
            io_queues: 16,
            interrupt_vectors: 17,
            interrupt_line: false,
            volatile_write_cache: false,
            write_cache_blocks: 8192,
            dataset_management: true,
            write_zeroes: true,
            doorbell_buffers: true,
            abort_limit: 4,
            async_event_limit: 4,
            power_states: Vec::new(),
            boundary_blocks: 0,
            quirks: Quirks::NONE,
            pci_id: PciId {
                vendor: 0x1af4,
                device: 0xffff,
            },
            time: Time::Real,
            names: ["MODEL0001", "Straightway model controller", "1.0"],
        }
    }
}

impl Config {
    /// One namespace of `size_bytes` in RAM, with blocks of 512 bytes: for embedded use.
    pub fn ram(size_bytes: u64) -> Self {
        Self::with_namespaces(vec![NamespaceConfig::ram(1, size_bytes, 9)])
    }

    /// One namespace of `size_bytes` in a file, with blocks of 512 bytes.
    pub fn file(path: PathBuf, size_bytes: u64) -> Self {
        let mut namespace = NamespaceConfig::ram(1, size_bytes, 9);
        namespace.file = Some(path);
        Self::with_namespaces(vec![namespace])
    }

    /// A controller with these namespaces.
    pub fn with_namespaces(namespaces: Vec<NamespaceConfig>) -> Self {
        let namespace_limit = namespaces.iter().map(|one| one.id).max().unwrap_or(1);
        Self {
            namespaces,
            namespace_limit,
            ..Self::default()
        }
    }

    /// A small drive for tests: 16 MiB, a volatile write cache, and virtual time.
    pub fn test() -> Self {
        Self {
            volatile_write_cache: true,
            time: Time::VIRTUAL,
            ..Self::ram(16 << 20)
        }
    }

    /// Length of the register space.
    pub(crate) fn register_space_bytes(&self) -> usize {
        if self.register_bytes != 0 {
            return self.register_bytes;
        }
        let doorbells = 2 * (usize::from(self.io_queues) + 1) * (4 << self.doorbell_stride_log2);
        (crate::registers::DOORBELLS + doorbells).next_multiple_of(4096)
    }
}
