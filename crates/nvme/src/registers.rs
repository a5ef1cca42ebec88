// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller's registers (NVMe base specification, "Controller Properties").

use crate::platform::Registers;

pub(crate) const CAP: usize = 0x00;
pub(crate) const VS: usize = 0x08;
pub(crate) const CC: usize = 0x14;
pub(crate) const CSTS: usize = 0x1c;
pub(crate) const AQA: usize = 0x24;
pub(crate) const ASQ: usize = 0x28;
pub(crate) const ACQ: usize = 0x30;
/// The first doorbell.
pub(crate) const DOORBELLS: usize = 0x1000;

pub(crate) const CC_ENABLE: u32 = 1;
pub(crate) const CC_SHUTDOWN_NORMAL: u32 = 1 << 14;
pub(crate) const CC_SHUTDOWN_MASK: u32 = 3 << 14;

/// Controller Capabilities (CAP), checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Most entries in a queue, 2 to 65,536 (MQES + 1).
    pub max_queue_entries: u32,
    /// Queues must be contiguous; ours always are (CQR).
    pub contiguous_queues_required: bool,
    /// Doorbells are `4 << doorbell_stride_log2` bytes apart (DSTRD).
    pub doorbell_stride_log2: u8,
    /// Longest time that enabling or disabling takes, in milliseconds (TO); at least 500.
    pub ready_timeout_ms: u32,
    /// Smallest page size is `1 << min_page_shift` bytes (MPSMIN).
    pub min_page_shift: u8,
    /// Largest page size is `1 << max_page_shift` bytes (MPSMAX).
    pub max_page_shift: u8,
    /// The NVM command set is supported (CSS bit 0).
    pub nvm_command_set: bool,
    /// A subsystem reset is possible (NSSRS).
    pub subsystem_reset: bool,
}

impl Capabilities {
    /// Decodes CAP. Any value is accepted: unusable values are refused where they are used.
    pub const fn from_register(cap: u64) -> Self {
        let timeout_units = ((cap >> 24) & 0xff) as u32;
        Self {
            max_queue_entries: (cap & 0xffff) as u32 + 1,
            contiguous_queues_required: cap >> 16 & 1 != 0,
            doorbell_stride_log2: (cap >> 32 & 0xf) as u8,
            // 0 is reserved; use the smallest valid time-out.
            ready_timeout_ms: if timeout_units == 0 { 1 } else { timeout_units } * 500,
            min_page_shift: 12 + (cap >> 48 & 0xf) as u8,
            max_page_shift: 12 + (cap >> 52 & 0xf) as u8,
            nvm_command_set: cap >> 37 & 1 != 0,
            subsystem_reset: cap >> 36 & 1 != 0,
        }
    }

    /// Byte offset of a queue's doorbell: submission tail, or completion head.
    pub(crate) const fn doorbell(&self, queue: u16, completion: bool) -> usize {
        let index = 2 * queue as usize + completion as usize;
        DOORBELLS + index * (4 << self.doorbell_stride_log2)
    }
}

/// Controller Status (CSTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    pub(crate) fn read<R: Registers>(registers: &R) -> Self {
        Self(registers.read32(CSTS))
    }

    /// The controller takes commands (RDY).
    pub const fn is_ready(self) -> bool {
        self.0 & 1 != 0
    }

    /// The controller found a fatal error in itself (CFS).
    pub const fn is_fatal(self) -> bool {
        self.0 & 2 != 0
    }

    /// A shutdown is complete (SHST = 10b).
    pub const fn is_shut_down(self) -> bool {
        self.0 >> 2 & 3 == 2
    }

    /// The device is no longer on the bus: every read returns all ones.
    pub const fn is_gone(self) -> bool {
        self.0 == u32::MAX
    }
}

/// The value of CC that enables the NVM command set with pages of `1 << page_shift` bytes, round
/// robin arbitration, and entries of 64 and 16 bytes.
pub(crate) const fn enable_value(page_shift: u8) -> u32 {
    CC_ENABLE | ((page_shift - 12) as u32) << 7 | 6 << 16 | 4 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_of_all_zeroes_and_all_ones() {
        let zero = Capabilities::from_register(0);
        assert_eq!((zero.max_queue_entries, zero.ready_timeout_ms), (1, 500));
        let ones = Capabilities::from_register(u64::MAX);
        assert_eq!(ones.max_queue_entries, 65_536);
        assert_eq!((ones.min_page_shift, ones.doorbell_stride_log2), (27, 15));
        assert_eq!(ones.ready_timeout_ms, 127_500);
    }

    #[test]
    fn doorbells_follow_the_stride() {
        let packed = Capabilities::from_register(0);
        assert_eq!(packed.doorbell(1, false), 0x1008);
        assert_eq!(packed.doorbell(1, true), 0x100c);
        let spread = Capabilities::from_register(4 << 32);
        assert_eq!(spread.doorbell(2, true), 0x1000 + 5 * 64);
    }

    #[test]
    fn enable_value_of_4_kib_pages() {
        assert_eq!(enable_value(12), 0x0046_0001);
        assert_eq!(enable_value(16), 0x0046_0201);
    }
}
