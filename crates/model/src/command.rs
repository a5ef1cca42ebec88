// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A submission queue entry as fields, and the status codes of its completion (NVMe base
//! specification 1.4, "Submission Queue Entry" and "Status Field Definition").

/// Status: SC in bits 7:0, SCT in 10:8, More in 13, Do Not Retry in 14.
pub(crate) mod status {
    pub(crate) const SUCCESS: u16 = 0;
    pub(crate) const INVALID_OPCODE: u16 = DNR | 0x01;
    pub(crate) const INVALID_FIELD: u16 = DNR | 0x02;
    pub(crate) const COMMAND_ID_CONFLICT: u16 = DNR | 0x03;
    pub(crate) const DATA_TRANSFER: u16 = 0x04;
    pub(crate) const ABORT_REQUESTED: u16 = 0x07;
    pub(crate) const ABORTED_DELETION: u16 = 0x08;
    pub(crate) const INVALID_NAMESPACE: u16 = DNR | 0x0b;
    pub(crate) const SEQUENCE: u16 = DNR | 0x0c;
    pub(crate) const PRP_OFFSET: u16 = DNR | 0x13;
    pub(crate) const LBA_RANGE: u16 = DNR | 0x80;
    pub(crate) const COMPLETION_QUEUE: u16 = DNR | 0x100;
    pub(crate) const QUEUE_ID: u16 = DNR | 0x101;
    pub(crate) const QUEUE_SIZE: u16 = DNR | 0x102;
    pub(crate) const ABORT_LIMIT: u16 = 0x103;
    pub(crate) const ASYNC_EVENT_LIMIT: u16 = DNR | 0x105;
    pub(crate) const INTERRUPT_VECTOR: u16 = DNR | 0x108;
    pub(crate) const LOG_PAGE: u16 = DNR | 0x109;
    pub(crate) const QUEUE_DELETION: u16 = DNR | 0x10c;
    pub(crate) const NOT_SAVEABLE: u16 = DNR | 0x10d;
    pub(crate) const WRITE_FAULT: u16 = 0x280;
    pub(crate) const READ_ERROR: u16 = 0x281;
    const DNR: u16 = 1 << 14;
}

/// Admin opcodes.
pub mod admin {
    #![allow(missing_docs)]
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
}

/// NVM command set opcodes.
pub mod io {
    #![allow(missing_docs)]
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// A submission queue entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) opcode: u8,
    /// FUSE and PSDT (bits 9:8 and 15:14 of dword 0), which must be zero here.
    pub(crate) flags: u8,
    pub(crate) cid: u16,
    pub(crate) nsid: u32,
    pub(crate) prp1: u64,
    pub(crate) prp2: u64,
    words: [u32; 16],
}

impl Command {
    pub(crate) fn parse(words: [u32; 16]) -> Self {
        let pair = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        Self {
            opcode: words[0] as u8,
            flags: (words[0] >> 8) as u8 & 0xc3,
            cid: (words[0] >> 16) as u16,
            nsid: words[1],
            prp1: pair(6),
            prp2: pair(8),
            words,
        }
    }

    /// Command dword `N`, 10 to 15.
    pub(crate) fn dword<const N: usize>(&self) -> u32 {
        self.words[N]
    }

    /// Starting LBA, in command dwords 10 and 11.
    pub(crate) fn lba(&self) -> u64 {
        u64::from(self.words[10]) | u64::from(self.words[11]) << 32
    }

    /// Number of blocks; dword 12 has it less one.
    pub(crate) fn block_count(&self) -> u64 {
        u64::from(self.words[12] & 0xffff) + 1
    }

    pub(crate) fn fua(&self) -> bool {
        self.words[12] >> 30 & 1 != 0
    }
}

/// The outcome of a command: dword 0 of its completion, or an error status.
pub(crate) type Outcome = Result<u32, u16>;
