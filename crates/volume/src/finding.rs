// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a check finds.

use crate::error::Node;
use crate::list::Usage;

/// Something that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// One copy of this structure is invalid, the other is in force. After a power cut this is the
    /// copy that was being written; otherwise it is bit rot that lost nothing. A repair rewrites
    /// the copy.
    OneCopy(Node),
    /// The block of the superblock at this address holds something of another owner: the device was
    /// given to it, and nothing of the volume may be changed ([`crate::Error::Overwritten`]).
    Overwritten {
        /// The address in bytes.
        address: u64,
    },
    /// Neither copy is valid, or the valid one contradicts itself, or it is the only valid one of
    /// a bitmap, which may be out of date. With a slot its file is lost, with a leaf a part of a
    /// file; a repair rebuilds a bitmap when every slot and leaf can be read.
    Damaged(Node),
    /// A slot's name belongs in another bucket: the file cannot be opened.
    WrongBucket {
        /// The slot.
        slot: u32,
    },
    /// Two slots have the same name; only one can be opened.
    SameName {
        /// The slot that cannot be opened.
        slot: u32,
        /// The slot that is opened.
        other: u32,
    },
    /// Units belong to two files, or to an existing file and one that no longer exists.
    Shared {
        /// The slot whose map names them too.
        slot: u32,
        /// First unit.
        start: u64,
        /// Number of units.
        len: u64,
    },
    /// A file that was removed or renamed shows again: one copy of its slot is invalid, and its
    /// units are free, or another file has some. It cannot be opened or removed; a repair frees the
    /// slot.
    Revived {
        /// The slot.
        slot: u32,
    },
    /// Units are in use but not marked so. A repair marks them.
    NotMarked {
        /// The group.
        group: u64,
        /// How many.
        units: u64,
    },
    /// Units are marked as used, but belong to no file. A repair frees them when every slot and
    /// leaf can be read.
    Leaked {
        /// The group.
        group: u64,
        /// How many.
        units: u64,
    },
    /// The superblock counts other free units or files than the tables have. A repair sets the
    /// counts when everything can be read.
    Counts {
        /// What the superblock has.
        known: Usage,
        /// What the tables have.
        found: Usage,
    },
    /// A writer reserved these units past the end of a file's data and never closed the file.
    /// [`crate::Volume::reclaim`] gives them back.
    Reserved {
        /// The file's slot.
        slot: u32,
        /// How many.
        units: u64,
    },
    /// The volume was not unmounted, and its last operation may be half done. The next mount that
    /// may write completes or undoes it; until then this many units, or an old name, disagree with
    /// the files.
    Unfinished {
        /// How many; 0 for a rename.
        units: u64,
    },
}

impl Finding {
    /// Whether no data is affected: a single copy, which the next write completes, or what a power
    /// cut or a killed program leaves and the next write cleans up.
    pub const fn is_harmless(&self) -> bool {
        matches!(
            self,
            Finding::OneCopy(_) | Finding::Reserved { .. } | Finding::Unfinished { .. }
        )
    }
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Finding::OneCopy(node) => write!(f, "one copy of {node} is invalid; the other is used"),
            Finding::Overwritten { address } => {
                write!(
                    f,
                    "another owner has written over the superblock at byte {address}"
                )
            }
            Finding::Damaged(node) => write!(f, "{node} is damaged"),
            Finding::WrongBucket { slot } => {
                write!(
                    f,
                    "the name in slot {slot} belongs elsewhere: the file cannot be opened"
                )
            }
            Finding::SameName { slot, other } => {
                write!(f, "slot {slot} has the same name as slot {other}")
            }
            Finding::Shared { slot, start, len } => {
                write!(
                    f,
                    "{len} units from {start} on belong to slot {slot} and to another file"
                )
            }
            Finding::Revived { slot } => {
                write!(
                    f,
                    "slot {slot} shows a file that was removed or renamed: its only valid copy is \
                     old, and its units are free or another file's"
                )
            }
            Finding::NotMarked { group, units } => {
                write!(
                    f,
                    "{units} units in group {group} are in use but not marked"
                )
            }
            Finding::Leaked { group, units } => {
                write!(
                    f,
                    "{units} units in group {group} are marked but belong to no file"
                )
            }
            Finding::Counts { known, found } => {
                write!(
                    f,
                    "the superblock counts {} free units and {} files; the tables have {} and {}",
                    known.free_units, known.files, found.free_units, found.files
                )
            }
            Finding::Reserved { slot, units } => {
                write!(
                    f,
                    "the file in slot {slot} has {units} units reserved by a writer that never \
                     closed it"
                )
            }
            Finding::Unfinished { units: 0 } => f.write_str("a rename was cut short"),
            Finding::Unfinished { units } => {
                write!(f, "an operation on {units} units was cut short")
            }
        }
    }
}

/// The counters of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files.
    pub files: u64,
    /// Removed files whose units have not been given back yet.
    pub to_reap: u64,
    /// Bytes of data in files.
    pub data_bytes: u64,
    /// Units in use, leaves included.
    pub used_units: u64,
    /// Findings that affect data.
    pub damages: u64,
    /// Findings that do not affect data.
    pub harmless: u64,
    /// Nodes that a repair wrote.
    pub repaired: u64,
    /// Every slot and leaf could be read, so units that belong to no file are free.
    pub complete: bool,
}
