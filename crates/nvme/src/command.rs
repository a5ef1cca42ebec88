// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands as the controller reads them (NVMe base specification, "Submission Queue Entry").

use crate::memory::Sqe;

/// Admin command opcodes.
pub(crate) mod admin {
    pub(crate) const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    pub(crate) const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    pub(crate) const GET_LOG_PAGE: u8 = 0x02;
    pub(crate) const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    pub(crate) const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    pub(crate) const IDENTIFY: u8 = 0x06;
    pub(crate) const ABORT: u8 = 0x08;
    pub(crate) const SET_FEATURES: u8 = 0x09;
    pub(crate) const GET_FEATURES: u8 = 0x0a;
    pub(crate) const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    pub(crate) const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
}

/// NVM command set opcodes.
pub(crate) mod io {
    pub(crate) const FLUSH: u8 = 0x00;
    pub(crate) const WRITE: u8 = 0x01;
    pub(crate) const READ: u8 = 0x02;
    pub(crate) const WRITE_ZEROES: u8 = 0x08;
    pub(crate) const DATASET_MANAGEMENT: u8 = 0x09;
}

/// Force Unit Access, bit 30 of command dword 12.
pub(crate) const FUA: u32 = 1 << 30;
/// Deallocate, bit 2 of command dword 11 of Dataset Management.
pub(crate) const DEALLOCATE: u32 = 1 << 2;

/// A command without its identifier. Command dwords 10 to 13 in order; none that the driver sends
/// uses 14 and 15.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Command {
    pub(crate) opcode: u8,
    pub(crate) nsid: u32,
    pub(crate) prp1: u64,
    pub(crate) prp2: u64,
    pub(crate) dwords: [u32; 4],
}

impl Command {
    /// The entry, with command identifier `cid`.
    #[inline(always)]
    pub(crate) fn sqe(&self, cid: u16) -> Sqe {
        let first = u64::from(self.opcode) | u64::from(cid) << 16;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [d10, d11, d12, d13] = self.dwords;
        Sqe {
            dwords_0_1: first | u64::from(self.nsid) << 32,
            prp1: self.prp1,
            prp2: self.prp2,
            dwords_10_11: pair(d10, d11),
            dwords_12_13: pair(d12, d13),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let command = Command {
            opcode: io::READ,
            nsid: 7,
            prp1: 0x1000,
            prp2: 0x2000,
            dwords: [10, 11, 12, 13],
        };
        let sqe = command.sqe(0x1234);
        assert_eq!(sqe.dwords_0_1, 0x0000_0007_1234_0002);
        assert_eq!((sqe.prp1, sqe.prp2), (0x1000, 0x2000));
        assert_eq!(sqe.dwords_10_11, 11 << 32 | 10);
        assert_eq!(sqe.dwords_12_13, 13 << 32 | 12);
    }
}
