// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server offers.

use crate::wire::export_flag;
use block::Geometry;

/// A device under a name, as clients see it. The empty name, the protocol's default export, means
/// it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// A line about it, for people.
    pub description: String,
    /// Its size in bytes. A writable export has whole blocks.
    pub size_bytes: u64,
    /// Writes, trims and zeroes are multiples of this and so are their offsets: the device's
    /// logical block, a power of two.
    pub block_bytes: u32,
    /// The longest read or write in bytes.
    pub max_payload_bytes: u32,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether ranges can be given back to the device.
    pub trim: bool,
    /// Whether ranges can be zeroed without their bytes.
    pub write_zeroes: bool,
}

impl Export {
    /// A device as an export.
    pub fn of(geometry: &Geometry, name: &str, write: bool, max_payload_bytes: u32) -> Self {
        let read_only = !write || geometry.features.read_only;
        Self {
            name: name.to_owned(),
            description: String::new(),
            size_bytes: geometry.size_bytes(),
            block_bytes: 1 << geometry.block_size_log2,
            max_payload_bytes,
            read_only,
            trim: !read_only && geometry.features.discard,
            write_zeroes: !read_only && geometry.features.write_zeroes,
        }
    }

    /// The smallest unit of a request, as it is announced: a byte where nothing is written, because
    /// a read of a part of a block reads the block.
    pub const fn minimum_bytes(&self) -> u32 {
        if self.read_only { 1 } else { self.block_bytes }
    }

    /// The unit that costs nothing extra.
    pub const fn preferred_bytes(&self) -> u32 {
        if self.block_bytes > 4096 {
            self.block_bytes
        } else {
            4096
        }
    }

    /// Transmission flags. Several connections see each other's writes, and a flush of one makes
    /// the completed writes of all durable, because all are on one device; so CAN_MULTI_CONN always
    /// holds.
    pub fn flags(&self, structured: bool) -> u16 {
        let mut flags = export_flag::HAS_FLAGS | export_flag::SEND_FLUSH;
        flags |= export_flag::CAN_MULTI_CONN;
        for (has, flag) in [
            (self.read_only, export_flag::READ_ONLY),
            (!self.read_only, export_flag::SEND_FUA),
            (self.trim, export_flag::SEND_TRIM),
            (self.write_zeroes, export_flag::SEND_WRITE_ZEROES),
            (structured, export_flag::SEND_DF),
        ] {
            if has {
                flags |= flag;
            }
        }
        flags
    }
}
