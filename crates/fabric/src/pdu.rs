// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The headers of protocol data units (NVMe/TCP transport specification, "PDU definitions").

use block::fields::{put, u32_at};
use crc::{CRC_32_ISCSI, Crc, Table};

const CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Types.
pub mod kind {
    #![allow(missing_docs)]
    pub const IC_REQ: u8 = 0;
    pub const IC_RESP: u8 = 1;
    pub const H2C_TERM: u8 = 2;
    pub const C2H_TERM: u8 = 3;
    pub const COMMAND: u8 = 4;
    pub const RESPONSE: u8 = 5;
    pub const H2C_DATA: u8 = 6;
    pub const C2H_DATA: u8 = 7;
    pub const R2T: u8 = 9;
}

/// Flags.
pub mod flag {
    #![allow(missing_docs)]
    pub const HEADER_DIGEST: u8 = 1;
    pub const DATA_DIGEST: u8 = 2;
    pub const LAST: u8 = 4;
    pub const SUCCESS: u8 = 8;
}

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// Bytes of a connection request and its answer.
pub const IC_BYTES: usize = 128;
/// Bytes of the header of a command: the common header and a submission queue entry.
pub const COMMAND_BYTES: usize = 72;
/// Bytes of the headers of data, R2T and responses.
pub const DATA_BYTES: usize = 24;

/// A CRC-32C that is computed in parts.
pub struct Digest(crc::Digest<'static, u32, Table<16>>);

impl Default for Digest {
    fn default() -> Self {
        static TABLES: Crc<u32, Table<16>> = CRC;
        Self(TABLES.digest())
    }
}

impl Digest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest, as it is sent.
    pub fn bytes(self) -> [u8; DIGEST_BYTES] {
        self.0.finalize().to_le_bytes()
    }
}

/// The digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = Digest::default();
    digest.update(bytes);
    digest.bytes()
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u8,
    /// Of [`flag`].
    pub flags: u8,
    /// Bytes of the header.
    pub header_bytes: u8,
    /// Where the data begins.
    pub data_at: u8,
    /// Bytes of the whole PDU.
    pub bytes: u32,
}

impl Header {
    /// Parses the first 8 bytes.
    pub fn parse(bytes: &[u8]) -> Self {
        let [kind, flags, header_bytes, data_at] = u32_at(bytes, 0).to_le_bytes();
        Self {
            kind,
            flags,
            header_bytes,
            data_at,
            bytes: u32_at(bytes, 4),
        }
    }

    /// Writes the first 8 bytes.
    pub fn write(&self, bytes: &mut [u8]) {
        put(
            bytes,
            0,
            &[self.kind, self.flags, self.header_bytes, self.data_at],
        );
        put(bytes, 4, &self.bytes.to_le_bytes());
    }
}
