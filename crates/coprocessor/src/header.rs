// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header: information about the coprocessor, the drive, and each client's grant.

use block::{Features, Geometry};

use crate::layout::{self, CLIENTS, feature, header};
use crate::memory::Window;
use crate::status::Code;

/// The state of the coprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is looking for the drive.
    Starting,
    /// It serves commands.
    Ready,
    /// It cannot serve a drive, for this reason.
    Failed(Code),
}

/// The access of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Access {
    /// Reading blocks. Allowed beside other sessions that read blocks and one that writes them.
    ReadBlocks = 1,
    /// Reading and writing blocks: one session at a time.
    WriteBlocks = 2,
    /// Files of the volume on the drive: any number of sessions, but none for blocks.
    Files = 3,
}

impl Access {
    /// The access of this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Access::ReadBlocks),
            2 => Some(Access::WriteBlocks),
            3 => Some(Access::Files),
            _ => None,
        }
    }

    /// Its bit in a grant's rights.
    pub const fn right(self) -> u32 {
        1 << self as u32
    }
}

/// What a client may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The offset of its data in the window.
    pub data_offset: usize,
    /// The length of its data.
    pub data_bytes: usize,
    /// The first block that it may read or write.
    pub first_block: u64,
    /// The number of those blocks.
    pub block_count: u64,
    /// The kinds of [`Access`] that it may have, one bit each.
    pub rights: u32,
}

impl Grant {
    /// A grant of everything that client `index` of a window can get.
    pub const fn whole(window_bytes: usize, index: usize, block_count: u64) -> Self {
        let (data_offset, data_bytes) = layout::data_part(window_bytes, index);
        Self {
            data_offset,
            data_bytes,
            first_block: 0,
            block_count,
            rights: Access::ReadBlocks.right()
                | Access::WriteBlocks.right()
                | Access::Files.right(),
        }
    }
}

/// The drive's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Serial number, padded with spaces.
    pub serial: [u8; 20],
    /// Model, padded with spaces.
    pub model: [u8; 40],
}

impl Default for Drive {
    fn default() -> Self {
        Self {
            serial: [b' '; 20],
            model: [b' '; 40],
        }
    }
}

/// A header that was read.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The coprocessor's state.
    pub state: State,
    /// A number that changes with each start.
    pub boot: u32,
    /// A counter that advances while the coprocessor is alive.
    pub beat: u32,
    /// Commands that a client may have in flight.
    pub credits: u32,
    /// The drive's geometry; the queue depth is the number of credits.
    pub geometry: Geometry,
    /// Whether it offers file operations.
    pub files: bool,
    /// Whether it offers record and play.
    pub stream: bool,
    /// The drive.
    pub drive: Drive,
    /// The clients' grants.
    pub grants: [Grant; CLIENTS],
}

/// Why a window cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There is no coprocessor's header: it has not started, or this is another file.
    NoHeader,
    /// It has another version of the interface.
    Version {
        /// The header's version, major in the upper half.
        version: u32,
    },
    /// The numbers contradict each other or the window's length.
    Damaged,
}

impl core::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            HeaderError::NoHeader => f.write_str("no coprocessor has started in it"),
            HeaderError::Version { version } => write!(
                f,
                "its coprocessor has version {}.{} of the interface, and this is for {}",
                version >> 16,
                version & 0xffff,
                layout::VERSION >> 16
            ),
            HeaderError::Damaged => f.write_str("its header contradicts itself"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// The bits of a geometry's features.
#[cfg_attr(not(feature = "service"), allow(dead_code))]
pub(crate) fn feature_bits(features: &Features) -> u32 {
    let bits = [
        (features.volatile_write_cache, feature::VOLATILE_CACHE),
        (features.fua, feature::FUA),
        (features.discard, feature::DISCARD),
        (features.write_zeroes, feature::WRITE_ZEROES),
        (features.read_only, feature::READ_ONLY),
        (cfg!(feature = "files"), feature::FILES),
        (cfg!(feature = "stream"), feature::STREAM),
    ];
    bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum()
}

impl Header {
    /// Reads the header and checks it against the window.
    ///
    /// # Errors
    /// If there is none, or it has another version or is damaged.
    pub fn read(window: &Window) -> Result<Self, HeaderError> {
        if window.len() < layout::MIN_WINDOW_BYTES || window.read64(header::MAGIC) != layout::MAGIC
        {
            return Err(HeaderError::NoHeader);
        }
        block::barrier::after_entry();
        let version = window.read32(header::VERSION);
        if version >> 16 != layout::VERSION >> 16 {
            return Err(HeaderError::Version { version });
        }
        let state = match window.read32(header::STATE) {
            1 => State::Ready,
            2 => {
                let reason = window.read32(header::REASON) as u16;
                State::Failed(Code::from_number(reason).unwrap_or(Code::Unusable))
            }
            _ => State::Starting,
        };
        let bits = window.read32(header::FEATURES);
        let has = |bit| bits & bit != 0;
        let credits = window.read32(header::CREDITS);
        let block_log2 = window.read32(header::BLOCK_LOG2);
        let max_transfer_blocks = window.read32(header::MAX_BLOCKS);
        let align = window.read32(header::DATA_ALIGN);
        let mut drive = Drive::default();
        window.copy_out(header::SERIAL, &mut drive.serial);
        window.copy_out(header::MODEL, &mut drive.model);
        let mut grants = [Grant {
            data_offset: 0,
            data_bytes: 0,
            first_block: 0,
            block_count: 0,
            rights: 0,
        }; CLIENTS];
        for (index, grant) in grants.iter_mut().enumerate() {
            let at = header::GRANTS + index * header::GRANT_BYTES;
            let (offset, bytes) = (window.read64(at), window.read64(at + 8));
            if offset
                .checked_add(bytes)
                .is_none_or(|end| end > window.len() as u64)
            {
                return Err(HeaderError::Damaged);
            }
            *grant = Grant {
                data_offset: offset as usize,
                data_bytes: bytes as usize,
                first_block: window.read64(at + 16),
                block_count: window.read64(at + 24),
                rights: window.read32(at + 32),
            };
        }
        let is_good = (1..=layout::RING_ENTRIES).contains(&credits)
            && window.read32(header::ENTRIES) == layout::RING_ENTRIES
            && window.read32(header::CLIENTS) == CLIENTS as u32
            && (state != State::Ready
                || (6..=16).contains(&block_log2)
                    && max_transfer_blocks > 0
                    && align.is_power_of_two());
        if !is_good {
            return Err(HeaderError::Damaged);
        }
        Ok(Self {
            state,
            boot: window.read32(header::BOOT),
            beat: window.read32(header::BEAT),
            credits,
            geometry: Geometry {
                block_size_log2: block_log2 as u8,
                block_count: window.read64(header::BLOCK_COUNT),
                max_transfer_blocks,
                queue_depth: credits as u16,
                buffer_align_bytes: align,
                features: Features {
                    volatile_write_cache: has(feature::VOLATILE_CACHE),
                    fua: has(feature::FUA),
                    discard: has(feature::DISCARD),
                    write_zeroes: has(feature::WRITE_ZEROES),
                    read_only: has(feature::READ_ONLY),
                },
            },
            files: has(feature::FILES),
            stream: has(feature::STREAM),
            drive,
            grants,
        })
    }
}
