// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labels of all members: written, read, and compared before an array is used.

use crate::label::{ArrayKind, LABEL_BYTES, Label, MirrorState};
use crate::{Layout, MOST_MEMBERS};
use block::{Buffer, Device, Error, Geometry, blocking};
use core::fmt;

/// Why members are not an array. Members are counted from 0; `Display` counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// Not 1 to 8 members (mirrors: 2 to 8), or a stripe that is not a power of two.
    Shape,
    /// The member has no label.
    Unlabelled {
        /// Which.
        member: usize,
    },
    /// The member is part of another array than the first.
    AnotherArray {
        /// Which.
        member: usize,
    },
    /// The member is another one of this array.
    Swapped {
        /// Which.
        member: usize,
        /// What its label says.
        is: usize,
    },
    /// The array has another number of members.
    Count {
        /// As the labels say.
        labelled: usize,
        /// As given.
        given: usize,
    },
    /// The array is of another kind, or has another stripe.
    Kind {
        /// As the labels say.
        labelled: ArrayKind,
    },
    /// The member is not as large as the first, or not as its label says.
    Size {
        /// Which.
        member: usize,
        /// Its blocks of data.
        blocks: u64,
        /// What they should be.
        expected: u64,
    },
    /// The member has another block size than the first, or than its label says.
    BlockSize {
        /// Which.
        member: usize,
    },
    /// Each of two members of a mirror was used without the other: both have changed.
    Diverged {
        /// One.
        member: usize,
        /// The other.
        other: usize,
    },
    /// None of the members that are present is up to date.
    NotCurrent {
        /// The members that are, as the newest label says: bit i is member i.
        current: u8,
    },
    /// A member is missing from a stripe.
    Missing {
        /// Which.
        member: usize,
    },
    /// The memory for labels and copies is too small.
    Memory,
    /// The member failed.
    Device {
        /// Which.
        member: usize,
        /// Its error.
        error: Error,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Shape => f.write_str(
                "an array has 1 to 8 members, a mirror 2 to 8, and a stripe is a power of two",
            ),
            Self::Unlabelled { member } => {
                write!(f, "member {} has no label of an array", member + 1)
            }
            Self::AnotherArray { member } => {
                write!(f, "member {} belongs to another array", member + 1)
            }
            Self::Swapped { member, is } => write!(
                f,
                "members are swapped: member {} is member {} of the array",
                member + 1,
                is + 1
            ),
            Self::Count { labelled, given } => {
                write!(
                    f,
                    "the array has {labelled} members, and {given} were named"
                )
            }
            Self::Kind {
                labelled: ArrayKind::Mirror,
            } => f.write_str("the members are a mirror"),
            Self::Kind {
                labelled: ArrayKind::Striped { stripe_blocks },
            } => write!(f, "the members are striped, {stripe_blocks} blocks each"),
            Self::Size {
                member,
                blocks,
                expected,
            } => write!(
                f,
                "member {} has {blocks} blocks of data, not {expected} as the array",
                member + 1
            ),
            Self::BlockSize { member } => {
                write!(
                    f,
                    "member {} has another block size than the array",
                    member + 1
                )
            }
            Self::Diverged { member, other } => write!(
                f,
                "members {} and {} were each used without the other, so both have changes",
                member + 1,
                other + 1
            ),
            Self::NotCurrent { current } => write!(
                f,
                "none of the members present is up to date (mask of those that are: {current:#b})"
            ),
            Self::Missing { member } => write!(f, "member {} is missing", member + 1),
            Self::Memory => f.write_str("the memory for labels and copies is too small"),
            Self::Device { member, error } => write!(f, "member {}: {error}", member + 1),
        }
    }
}

impl core::error::Error for SetError {}

/// Why a label could not be read.
pub type LabelError = Error;

/// Blocks of a copy of the label.
pub(crate) const fn label_blocks(geometry: &Geometry) -> u64 {
    (LABEL_BYTES as u64).div_ceil(geometry.block_size_bytes() as u64)
}

/// Blocks of data on a member with this geometry: all but the two labels; 0 if it is too small.
pub const fn data_blocks(geometry: &Geometry) -> u64 {
    geometry
        .block_count
        .saturating_sub(2 * label_blocks(geometry))
}

/// Bytes of a label that are read and written: whole blocks, one unless it has less than 256 bytes.
pub(crate) const fn label_bytes(geometry: &Geometry) -> usize {
    let block_bytes = geometry.block_size_bytes();
    256usize.div_ceil(block_bytes) * block_bytes
}

/// Reads a member's newest label; `None` if it has no valid one. `buffer` has at least
/// [`LABEL_BYTES`], or a block's length if that is longer; the part of it that was used is
/// returned.
pub fn read_label<D: Device + ?Sized>(
    device: &mut D,
    buffer: Buffer,
) -> (Buffer, Result<Option<Label>, LabelError>) {
    let geometry = *device.geometry();
    let mut newest: Option<Label> = None;
    if buffer.len() < label_bytes(&geometry) {
        return (buffer, Err(Error::Unaligned));
    }
    let (mut buffer, _) = buffer.split_at(label_bytes(&geometry));
    let data = data_blocks(&geometry);
    if data == 0 {
        return (buffer, Ok(None));
    }
    for copy in 0..2 {
        let lba = data + copy * label_blocks(&geometry);
        let read = blocking::read(device, lba, buffer);
        buffer = read.buffer;
        if let Err(error) = read.result {
            return (buffer, Err(error));
        }
        let label = Label::decode(&buffer);
        if label.is_some_and(|label| newest.is_none_or(|known| known.sequence < label.sequence)) {
            newest = label;
        }
    }
    (buffer, Ok(newest))
}

/// Writes the labels of a new array on all members, and makes them durable. The members' data is
/// left as it is: a mirror is marked to be made equal from its first member.
///
/// # Errors
/// Everything is checked before the first write: the shape, equal sizes and block sizes. Then
/// [`SetError::Device`].
pub fn create<D: Device>(
    members: &mut [D],
    kind: ArrayKind,
    array: [u8; 16],
    mut buffer: Buffer,
) -> Result<(), SetError> {
    let count = members.len();
    let is_legal = match kind {
        ArrayKind::Striped { stripe_blocks } => Layout::new(count, stripe_blocks).is_some(),
        ArrayKind::Mirror => (2..=MOST_MEMBERS).contains(&count),
    };
    let Some(first) = members.first().map(|member| *member.geometry()) else {
        return Err(SetError::Shape);
    };
    if !is_legal {
        return Err(SetError::Shape);
    }
    let expected = data_blocks(&first);
    for (member, device) in members.iter().enumerate() {
        let geometry = device.geometry();
        if geometry.block_size_log2 != first.block_size_log2 {
            return Err(SetError::BlockSize { member });
        }
        let blocks = data_blocks(geometry);
        let least = match kind {
            ArrayKind::Striped { stripe_blocks } => u64::from(stripe_blocks),
            ArrayKind::Mirror => 1,
        };
        if blocks != expected || blocks < least {
            let expected = expected.max(least);
            return Err(SetError::Size {
                member,
                blocks,
                expected,
            });
        }
        if geometry.features.read_only {
            let error = Error::ReadOnly;
            return Err(SetError::Device { member, error });
        }
    }
    if buffer.len() < label_bytes(&first) {
        return Err(SetError::Memory);
    }
    (buffer, _) = buffer.split_at(label_bytes(&first));
    for (member, device) in members.iter_mut().enumerate() {
        // The second copy first: if power is cut between them, the member is labelled by the newer.
        for sequence in [1, 2] {
            let all = ((1u16 << count) - 1) as u8;
            let label = Label {
                array,
                kind,
                members: count as u8,
                member: member as u8,
                block_size_log2: first.block_size_log2,
                data_blocks: expected,
                sequence,
                mirror: match kind {
                    ArrayKind::Striped { .. } => MirrorState::default(),
                    ArrayKind::Mirror => MirrorState {
                        current: 1,
                        rebuilding: all & !1,
                        is_dirty: false,
                        rebuilt_blocks: 0,
                    },
                },
                seen: [2; MOST_MEMBERS],
            };
            label.encode(&mut buffer);
            let lba = expected + (sequence % 2) * label_blocks(&first);
            let written = blocking::write(device, lba, buffer, false);
            buffer = written.buffer;
            let result = written.result.and_then(|()| blocking::flush(device));
            result.map_err(|error| SetError::Device { member, error })?;
        }
    }
    Ok(())
}

/// Checks that labelled members are the array that is meant, in this order. For each member: its
/// geometry and its label, or `None` if it is missing, which only a mirror allows. Returns the
/// newest label.
///
/// # Errors
/// What is wrong, with the member.
pub fn check(
    kind: ArrayKind,
    members: &[Option<(Geometry, Option<Label>)>],
) -> Result<Label, SetError> {
    let mut first: Option<Label> = None;
    for (member, found) in members.iter().enumerate() {
        let Some((geometry, label)) = found else {
            if kind == ArrayKind::Mirror {
                continue;
            }
            return Err(SetError::Missing { member });
        };
        let label = label.ok_or(SetError::Unlabelled { member })?;
        let known = *first.get_or_insert(label);
        if label.array != known.array {
            return Err(SetError::AnotherArray { member });
        }
        if label.kind != kind {
            let labelled = label.kind;
            return Err(SetError::Kind { labelled });
        }
        if usize::from(label.members) != members.len() {
            return Err(SetError::Count {
                labelled: usize::from(label.members),
                given: members.len(),
            });
        }
        let is = usize::from(label.member);
        if is != member {
            return Err(SetError::Swapped { member, is });
        }
        if label.block_size_log2 != geometry.block_size_log2 {
            return Err(SetError::BlockSize { member });
        }
        let (blocks, expected) = (data_blocks(geometry), known.data_blocks);
        if blocks != expected || label.data_blocks != expected {
            return Err(SetError::Size {
                member,
                blocks,
                expected,
            });
        }
    }
    let newest = newest_of(members).ok_or(SetError::Shape)?;
    if kind == ArrayKind::Mirror {
        check_mirror(&newest, members)?;
    }
    Ok(newest)
}

/// A member, if it is there, and its label.
type Found = Option<(Geometry, Option<Label>)>;

fn labels(members: &[Found]) -> impl Iterator<Item = Label> {
    members.iter().flatten().filter_map(|(_, label)| *label)
}

/// Whether `label` counts for more than `other`.
///
/// It does if it was written in knowledge of the other, and not the reverse. Where neither knows of
/// the other, one may use the member of that which does not use its own: then power was cut, or the
/// process ended, while the first was being stored, so that nothing was acknowledged under it, and
/// the other member went on without.
fn outweighs(label: &Label, other: &Label) -> bool {
    if label.may_have_seen(other) || other.may_have_seen(label) {
        return !other.may_have_seen(label);
    }
    other.mirror.uses(label.member) && !label.mirror.uses(other.member)
}

/// The label that says what the array is.
fn newest_of(members: &[Found]) -> Option<Label> {
    let greater = |one: Label, other: Label| {
        if other.sequence > one.sequence {
            other
        } else {
            one
        }
    };
    let leads = |label: &Label| !labels(members).any(|other| outweighs(&other, label));
    let newest = labels(members).filter(leads).reduce(greater);
    newest.or_else(|| labels(members).reduce(greater))
}

/// Refuses a mirror that has two histories, or none.
fn check_mirror(newest: &Label, members: &[Found]) -> Result<(), SetError> {
    for other in labels(members) {
        // It went on by itself, after it was last used together with the newest.
        if !newest.may_have_seen(&other) && !outweighs(newest, &other) {
            return Err(SetError::Diverged {
                member: usize::from(newest.member.min(other.member)),
                other: usize::from(newest.member.max(other.member)),
            });
        }
    }
    let present = labels(members).fold(0u8, |mask, label| mask | 1 << label.member);
    let current = newest.mirror.current;
    match current & present {
        0 => Err(SetError::NotCurrent { current }),
        _ => Ok(()),
    }
}
