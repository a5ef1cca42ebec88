// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors, and what to do about them.

use core::fmt;

use block::PackedError;

use crate::table::TABLE_NODE;

/// The structure of the volume that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Both superblocks, or a value in the one that is valid.
    Superblock,
    /// This file slot; 2^30 - 1 is the node of a slot table that has grown.
    Slot(u32),
    /// The bitmap of this allocation group.
    Bitmap(u32),
    /// A leaf of the map of the file in this slot.
    Map(u32),
}

/// A [`Node`] in 32 bits, so that an [`Error`] fits two registers of a small machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Damage(u32);

impl Damage {
    /// Whether the volume cannot be used without the structure, of which both copies are invalid,
    /// so that no check finds more.
    pub const fn is_whole_volume(self) -> bool {
        matches!(self.node(), Node::Superblock | Node::Slot(TABLE_NODE))
    }

    /// The structure.
    pub const fn node(self) -> Node {
        let number = self.0 >> 2;
        match self.0 & 3 {
            0 => Node::Superblock,
            1 => Node::Slot(number),
            2 => Node::Bitmap(number),
            _ => Node::Map(number),
        }
    }
}

impl core::fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node().fmt(f)
    }
}

impl From<Node> for Error {
    fn from(node: Node) -> Self {
        Error::Corrupt(Damage(match node {
            Node::Superblock => 0,
            Node::Slot(slot) => slot << 2 | 1,
            Node::Bitmap(group) => group << 2 | 2,
            Node::Map(slot) => slot << 2 | 3,
        }))
    }
}

/// Why an operation on a volume failed. A variant's data takes 32 bits, so that a result stays in
/// two registers of a small machine. Unless the variant says otherwise, nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The device failed. If the operation had begun to change metadata, the volume refuses
    /// further changes until it is mounted again; mounting completes or undoes the operation.
    Device(PackedError),
    /// The device has no superblock of this format.
    NotAVolume,
    /// The volume's format has a newer major version.
    NewerVersion {
        /// The version found on the device.
        major: u32,
    },
    /// The volume needs features that this software does not know.
    UnknownFeatures {
        /// The unknown bits.
        bits: u32,
    },
    /// The device is smaller than the volume: the image is truncated, or the volume was made on
    /// another device.
    Truncated {
        /// How much is missing, in KiB; `u32::MAX` if it is more.
        missing_kib: u32,
    },
    /// A structure fails its checksum or contradicts itself. Run a check.
    Corrupt(Damage),
    /// The superblock is older than a node that it governs: its newer copy was lost. Nothing may be
    /// changed; files can be read.
    StaleSuperblock,
    /// The sequence numbers of the volume or of a node are used up. Nothing may be changed; files
    /// can be read.
    SequenceEnd,
    /// One superblock's block holds something of another owner, such as a partition table: the
    /// device was given to it, and this volume is what its other superblock remembers. Files can be
    /// read; nothing may be changed, because that would overwrite what the other owner has there.
    Overwritten,
    /// The volume cannot be used on this device: its blocks are longer than the volume's nodes or
    /// units, its largest transfer is shorter than a node, or it is too small.
    Unsuitable,
    /// The parameters of a new volume are out of range or contradict each other.
    BadParameters,
    /// The caller's memory is shorter than three nodes, or not aligned as the device needs.
    Memory,
    /// The volume is mounted read-only.
    ReadOnly,
    /// Invalid name: a name has 1 to 255 bytes of UTF-8, without NUL; 1 to 64 where nodes have 256
    /// bytes.
    BadName,
    /// No file has this name.
    NotFound,
    /// A file has this name already.
    Exists,
    /// Both buckets of this name are full, and the table of slots was not grown or cannot grow:
    /// remove files, or choose another name.
    TableFull,
    /// Not enough free space. What was reserved before stays reserved.
    NoSpace,
    /// The file has as many extents as its map can hold.
    MapFull,
    /// The file is open for writing elsewhere, or is to be removed or renamed while it is open.
    InUse,
    /// The table of open files that was supplied at mount is full.
    TooManyOpen,
    /// The token's file is not open.
    NotOpen,
    /// The file was opened for reading only.
    NotWritable,
    /// The offset is past the end of what can be read or overwritten.
    PastEnd,
    /// Offset, length or address is not a multiple of the device's block size.
    Unaligned,
    /// One call moves one contiguous piece: split the buffer.
    Split {
        /// The longest piece that can be moved now, in bytes.
        at_bytes: u32,
    },
    /// The file's map around this offset is not in memory: call `prepare`.
    NeedsMap,
    /// The append would exceed the reservation: call `reserve`.
    NeedsReservation,
    /// The checksums in memory are full: call `store_checksums` or `commit`.
    NeedsCommit,
    /// The file's end is inside a block: a later append must rewrite the block's beginning.
    UnalignedEnd,
    /// An earlier append failed: retry it, or rewind.
    AppendFailed,
    /// This piece is not a failed append of the file.
    NothingToRetry,
    /// Other requests are outstanding, or the queue has no room: poll, then call again.
    Busy,
    /// An operation before this one failed or was dropped half-way: mount again.
    NeedsMount,
    /// The data's checksum does not match: the drive returned other bytes than were written.
    Rot {
        /// The first bad chunk of 64 KiB, counted from the file's beginning.
        chunk: u32,
    },
    /// The operation is not offered for this file.
    Unsupported,
}

impl From<block::Error> for Error {
    fn from(error: block::Error) -> Self {
        Error::Device(error.into())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Superblock => f.write_str("the superblock"),
            Node::Slot(TABLE_NODE) => f.write_str("the node of the slot table"),
            Node::Slot(slot) => write!(f, "file slot {slot}"),
            Node::Bitmap(group) => write!(f, "the bitmap of group {group}"),
            Node::Map(slot) => write!(f, "the map of the file in slot {slot}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::Device(error) => return error.error().fmt(f),
            Error::NewerVersion { major } => {
                return write!(
                    f,
                    "the volume has format version {major}: use newer software"
                );
            }
            Error::UnknownFeatures { bits } => {
                return write!(
                    f,
                    "the volume uses features {bits:#x} that this software does not know"
                );
            }
            Error::Truncated { missing_kib } => {
                return write!(
                    f,
                    "the device is {missing_kib} KiB smaller than the volume on it: the image is \
                     cut short or this is another device"
                );
            }
            Error::Corrupt(damage) if damage.is_whole_volume() => {
                return write!(f, "{} is damaged", damage.node());
            }
            Error::Corrupt(damage) => {
                return write!(f, "{} is damaged: run a check", damage.node());
            }
            Error::Split { at_bytes } => {
                return write!(f, "not contiguous: split the buffer at {at_bytes} bytes");
            }
            Error::Rot { chunk } => {
                let offset = u64::from(*chunk) * crate::layout::CHUNK_BYTES;
                return write!(
                    f,
                    "checksum mismatch at offset {offset}: the stored data changed"
                );
            }
            Error::NotAVolume => "no Straightway volume is on this device",
            Error::StaleSuperblock => {
                "the superblock is older than the files: its newer copy was lost; \
                 read what is needed, then run a check"
            }
            Error::SequenceEnd => {
                "the sequence numbers are used up, so nothing can be changed: copy the files to \
                 another volume"
            }
            Error::Overwritten => {
                "another owner has written over one of the volume's superblocks; what is left of the \
                 volume can only be read"
            }
            Error::Unsuitable => {
                "the device does not suit the volume: its blocks are longer than the volume's \
                 nodes or units, its largest transfer is too short, or it is too small"
            }
            Error::BadParameters => "the parameters are out of range or contradict each other",
            Error::Memory => "the memory lent is shorter than three nodes or not aligned",
            Error::ReadOnly => "the volume is mounted read-only",
            Error::BadName => {
                "a name has 1 to 255 bytes of UTF-8, without NUL (1 to 64 bytes where nodes have \
                 256 bytes)"
            }
            Error::NotFound => "no file has this name",
            Error::Exists => "a file has this name already",
            Error::TableFull => {
                "no slot is free for this name, and the table of slots cannot grow: remove files, \
                 or choose another name"
            }
            Error::NoSpace => "not enough free space",
            Error::MapFull => "the file has as many extents as its map can hold",
            Error::InUse => "the file is in use",
            Error::TooManyOpen => "too many files are open: close one",
            Error::NotOpen => "the file is not open",
            Error::NotWritable => "the file was opened for reading only",
            Error::PastEnd => "the offset is past the end of the file",
            Error::Unaligned => "not a multiple of the device's block size",
            Error::NeedsMap => "the map around this offset is not in memory: prepare it",
            Error::NeedsReservation => "past the reservation: reserve space",
            Error::NeedsCommit => "the checksums in memory are full: store them or commit",
            Error::UnalignedEnd => "the file ends inside a block",
            Error::AppendFailed => "an earlier append failed: retry it or rewind",
            Error::NothingToRetry => "no append failed at this offset",
            Error::Busy => "busy: poll, then call again",
            Error::NeedsMount => {
                "an earlier operation failed half-way: mount again, which completes or undoes it"
            }
            Error::Unsupported => "not offered for this file",
        };
        f.write_str(text)
    }
}

impl core::error::Error for Error {}
