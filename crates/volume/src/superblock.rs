// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The superblock: a pair, far apart, with the volume's shape and the one operation record.
//! `FORMAT.md`, "Superblock".

use crate::bytes::{array, get_u8, get_u16, get_u32, get_u64, put, put_u32, put_u64};
use crate::checksum;
use crate::layout::{
    BUCKET_SLOTS, FEATURE_CHECKSUMS, FEATURE_CREATE_LIST, FEATURE_CREATE_MANY, FEATURE_GROWN,
    FEATURE_LONG_NAMES, FEATURE_REMOVE_LIST, FEATURE_RESIZED, LISTED_SLOTS, MAJOR, MINOR,
    RECORD_SLOTS, RUN_BYTES, RUNS, SEQ_END, SHORT_NAME_BYTES, SUPERBLOCK_BYTES, Shape, magic,
    superblock as at,
};
use crate::table::{MOST_BUCKETS, TABLE_NODE};
use crate::{Error, error::Node};

/// A run of units, within one allocation group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: u64,
    pub len: u32,
}

/// At most [`RUNS`] runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: [Run; RUNS],
    count: u8,
}

impl Runs {
    pub(crate) fn as_slice(&self) -> &[Run] {
        self.runs.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Adds a run; false when there is no room.
    #[inline(never)]
    pub(crate) fn push(&mut self, run: Run) -> bool {
        match self.runs.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = run;
                self.count += 1;
                true
            }
            None => false,
        }
    }

    pub(crate) fn room(&self) -> usize {
        RUNS - usize::from(self.count)
    }
}

/// The slots of new files, at most [`RECORD_SLOTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    slots: [u32; RECORD_SLOTS],
    count: u8,
}

impl Slots {
    pub(crate) fn as_slice(&self) -> &[u32] {
        self.slots
            .get(..usize::from(self.count))
            .unwrap_or_default()
    }

    /// Adds a slot; false when there is no room.
    pub(crate) fn push(&mut self, slot: u32) -> bool {
        match self.slots.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = slot;
                self.count += 1;
                true
            }
            None => false,
        }
    }
}

/// The operation in progress: every change that touches several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    None,
    /// `slot` gains the runs: their bits are set.
    Reserve {
        slot: u32,
        runs: Runs,
    },
    /// `slot` gives up the runs: their bits are cleared.
    Release {
        slot: u32,
        runs: Runs,
    },
    /// The file in `from` moves to the slot `to`.
    Rename {
        from: u32,
        to: u32,
    },
    /// New files in `slots`, which share the run, if there is one: its bits are set.
    Create {
        runs: Runs,
        slots: Slots,
    },
    /// So many new files, whose slots are in a list at the start of the one run.
    CreateList {
        runs: Runs,
        count: u32,
    },
    /// This number of removed files, whose slots are in a list at the start of the one run.
    #[cfg(feature = "grow")]
    RemoveList {
        runs: Runs,
        count: u32,
    },
}

impl Operation {
    /// The features that a reader of the record needs.
    const fn features(&self) -> u32 {
        match self {
            Self::Create { .. } => FEATURE_CREATE_MANY,
            Self::CreateList { .. } => FEATURE_CREATE_LIST,
            #[cfg(feature = "grow")]
            Self::RemoveList { .. } => FEATURE_REMOVE_LIST,
            _ => 0,
        }
    }
}

/// What a volume holds, as far as it is known without reading its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// [`u64::MAX`] if nothing is known.
    free_units: u64,
    files: u32,
}

impl Counts {
    pub(crate) const UNKNOWN: Self = Self {
        free_units: u64::MAX,
        files: 0,
    };

    pub(crate) const fn new(free_units: u64, files: u32) -> Self {
        Self { free_units, files }
    }

    /// Free units and files.
    pub(crate) fn known(&self) -> Option<(u64, u32)> {
        (self.free_units != u64::MAX).then_some((self.free_units, self.files))
    }

    /// A bitmap had `before` free units, and has `after`.
    pub(crate) fn move_units(&mut self, before: u32, after: u32) {
        let moved = self.known().and_then(|(free_units, files)| {
            let more = free_units.checked_add(u64::from(after))?;
            Some(Self::new(more.checked_sub(u64::from(before))?, files))
        });
        *self = moved.unwrap_or(Self::UNKNOWN);
    }

    /// So many files more, or fewer.
    pub(crate) fn move_files(&mut self, more: i32) {
        let moved = self.known().and_then(|(free_units, files)| {
            Some(Self::new(free_units, files.checked_add_signed(more)?))
        });
        *self = moved.unwrap_or(Self::UNKNOWN);
    }

    /// The same, if a volume of this shape can have them: counts that rot made wrong are not
    /// known.
    fn within(self, shape: &Shape, slots: u32) -> Self {
        if self.free_units <= shape.unit_count() && self.files <= slots {
            self
        } else {
            Self::UNKNOWN
        }
    }
}

/// The superblock's fields in decoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub shape: Shape,
    pub uuid: [u8; 16],
    pub label: [u8; 32],
    pub seq: u64,
    /// Cleanly unmounted: no operation is open and no node can be torn.
    pub clean: bool,
    pub mount_count: u32,
    /// Files may have checksums.
    pub checksums: bool,
    /// A slot may have a name of more than 64 bytes.
    pub long_names: bool,
    /// The first unit of the table node's pair, if the slot table has grown.
    pub table_unit: Option<u32>,
    /// It has unknown features that only a reader may ignore, and is never written; or it was
    /// mounted to be read.
    pub read_only: bool,
    pub compat_features: u32,
    pub group_hint: u32,
    /// Only stored with the mark that the volume is clean.
    pub counts: Counts,
}

impl Superblock {
    /// The longest name that a slot of the volume may have now, in bytes.
    pub(crate) const fn most_name_bytes(&self) -> usize {
        if self.long_names {
            self.shape.longest_name_bytes()
        } else {
            SHORT_NAME_BYTES
        }
    }
}

/// The slots that a volume can have; how many a table that has grown has is in its node.
const fn most_slots(shape: &Shape, table_unit: Option<u32>) -> u32 {
    if table_unit.is_some() {
        MOST_BUCKETS * BUCKET_SLOTS
    } else {
        shape.slot_count()
    }
}

/// Cleanly unmounted.
const STATE_CLEAN: u32 = 1;
/// The counts are those of the volume; only where it is clean.
const STATE_COUNTS: u32 = 2;

/// Bytes that a superblock's transfer takes: a block, or 256.
pub(crate) const fn superblock_len(block_log2: u8) -> usize {
    if block_log2 < 8 {
        SUPERBLOCK_BYTES
    } else {
        1 << block_log2
    }
}

impl Superblock {
    pub(crate) fn encode(&self, bytes: &mut [u8], address: u64, operation: &Operation) {
        bytes.fill(0);
        put(bytes, at::MAGIC, &magic::SUPERBLOCK);
        put(bytes, at::MAJOR, &MAJOR.to_le_bytes());
        put(bytes, at::MINOR, &MINOR.to_le_bytes());
        put_u64(bytes, at::SEQ, self.seq);
        put(bytes, at::UUID, &self.uuid);
        let shape = &self.shape;
        put_u64(bytes, at::VOLUME_BYTES, shape.volume_bytes);
        put(bytes, at::UNIT_LOG2, &[shape.unit_log2]);
        put(bytes, at::NODE_LOG2, &[shape.node_log2]);
        put(bytes, at::BUCKETS_LOG2, &[shape.buckets_log2]);
        put(bytes, at::LBA_LOG2, &[shape.lba_log2]);
        let slots = most_slots(shape, self.table_unit);
        let counts = self.counts.within(shape, slots).known();
        let counts = counts.filter(|_| self.clean);
        if let Some((free_units, files)) = counts {
            put_u64(bytes, at::FREE_UNITS, free_units);
            put_u32(bytes, at::FILE_COUNT, files);
        }
        let state =
            u32::from(self.clean) * STATE_CLEAN + u32::from(counts.is_some()) * STATE_COUNTS;
        put_u32(bytes, at::STATE, state);
        let mut features = if self.checksums { FEATURE_CHECKSUMS } else { 0 };
        if shape.table_groups > 0 {
            features |= FEATURE_RESIZED;
        }
        if self.long_names {
            features |= FEATURE_LONG_NAMES;
        }
        if let Some(unit) = self.table_unit {
            features |= FEATURE_GROWN;
            put_u32(bytes, at::TABLE_UNIT, unit);
        }
        put_u32(bytes, at::INCOMPAT, features | operation.features());
        put_u32(bytes, at::COMPAT, self.compat_features);
        put_u32(bytes, at::MOUNT_COUNT, self.mount_count);
        for (field, value) in regions(shape) {
            put_u64(bytes, field, value);
        }
        put_u32(bytes, at::GROUP_HINT, self.group_hint);
        put_u32(bytes, at::TABLE_GROUPS, shape.table_groups);
        put(bytes, at::LABEL, &self.label);
        encode_operation(bytes, operation);
        let crc = crc_of(bytes, address);
        put_u32(bytes, at::CRC, crc);
    }

    /// Reads one member. `Ok(None)` means that it is not a valid superblock of any version.
    pub(crate) fn decode(bytes: &[u8], address: u64) -> Result<Option<(Self, Operation)>, Error> {
        let bytes = bytes.get(..SUPERBLOCK_BYTES).unwrap_or_default();
        let valid = array(bytes, at::MAGIC) == magic::SUPERBLOCK
            && get_u32(bytes, at::CRC) == crc_of(bytes, address);
        if !valid {
            return Ok(None);
        }
        let major = get_u16(bytes, at::MAJOR);
        if major != MAJOR {
            return Err(Error::NewerVersion {
                major: u32::from(major),
            });
        }
        let features = get_u32(bytes, at::INCOMPAT);
        const OF_RECORDS: u32 = if cfg!(feature = "grow") {
            FEATURE_CREATE_MANY | FEATURE_CREATE_LIST | FEATURE_REMOVE_LIST
        } else {
            FEATURE_CREATE_MANY | FEATURE_CREATE_LIST
        };
        const OF_VOLUMES: u32 =
            FEATURE_CHECKSUMS | FEATURE_RESIZED | FEATURE_LONG_NAMES | FEATURE_GROWN;
        let bits = features & !(OF_VOLUMES | OF_RECORDS);
        if bits != 0 {
            return Err(Error::UnknownFeatures { bits });
        }
        let shape = Shape {
            volume_bytes: get_u64(bytes, at::VOLUME_BYTES),
            unit_log2: get_u8(bytes, at::UNIT_LOG2),
            node_log2: get_u8(bytes, at::NODE_LOG2),
            buckets_log2: get_u8(bytes, at::BUCKETS_LOG2),
            lba_log2: get_u8(bytes, at::LBA_LOG2),
            table_groups: get_u32(bytes, at::TABLE_GROUPS),
        };
        let bad = Error::from(Node::Superblock);
        if (shape.table_groups > 0) != (features & FEATURE_RESIZED != 0) {
            return Err(bad);
        }
        shape.validate().map_err(|_| bad)?;
        let long_names = features & FEATURE_LONG_NAMES != 0;
        if long_names && shape.longest_name_bytes() == SHORT_NAME_BYTES {
            return Err(bad);
        }
        let unit = get_u32(bytes, at::TABLE_UNIT);
        let table_unit = (features & FEATURE_GROWN != 0).then_some(unit);
        let pair = shape.pair_units();
        let fits = u64::from(unit) + pair <= shape.unit_count() && u64::from(unit) % pair == 0;
        if !fits && table_unit.is_some() || unit != 0 && table_unit.is_none() {
            return Err(bad);
        }
        if regions(&shape)
            .iter()
            .any(|&(field, value)| get_u64(bytes, field) != value)
        {
            return Err(bad);
        }
        if get_u64(bytes, at::SEQ) >= SEQ_END / 2 {
            return Err(bad);
        }
        let slots = most_slots(&shape, table_unit);
        let operation = decode_operation(bytes, &shape, slots).ok_or(bad)?;
        if operation.features() != features & OF_RECORDS {
            return Err(bad);
        }
        let mut counts = Counts::UNKNOWN;
        const COUNTED: u32 = STATE_CLEAN | STATE_COUNTS;
        if get_u32(bytes, at::STATE) & COUNTED == COUNTED {
            let free_units = get_u64(bytes, at::FREE_UNITS);
            let files = get_u32(bytes, at::FILE_COUNT);
            counts = Counts::new(free_units, files).within(&shape, slots);
        }
        let superblock = Self {
            shape,
            uuid: array(bytes, at::UUID),
            label: array(bytes, at::LABEL),
            seq: get_u64(bytes, at::SEQ),
            clean: get_u32(bytes, at::STATE) & STATE_CLEAN != 0,
            counts,
            mount_count: get_u32(bytes, at::MOUNT_COUNT),
            checksums: features & FEATURE_CHECKSUMS != 0,
            long_names,
            table_unit,
            read_only: get_u32(bytes, at::RO_COMPAT) != 0,
            compat_features: get_u32(bytes, at::COMPAT),
            group_hint: get_u32(bytes, at::GROUP_HINT),
        };
        Ok(Some((superblock, operation)))
    }
}

/// Whether the block of a superblock that is not valid holds something of another owner: no trace
/// of the volume `uuid`, and yet not what is left of a superblock that was erased. `FORMAT.md`,
/// "The block of another owner", has the argument.
pub(crate) fn is_overwritten(bytes: &[u8], uuid: &[u8; 16]) -> bool {
    let is_blank = |byte: &u8| [0, 0xff].contains(byte);
    let is_erased = |word: &[u8]| word.iter().all(is_blank);
    let (low, high) = uuid.split_at(8);
    let words = [
        (at::MAGIC, &magic::SUPERBLOCK[..]),
        (at::UUID, low),
        (at::UUID + 8, high),
    ];
    let found = |offset: usize| bytes.get(offset..offset + 8).unwrap_or_default();
    let has_trace = words.iter().any(|(offset, word)| found(*offset) == *word);
    let rest = bytes.get(SUPERBLOCK_BYTES..).unwrap_or_default();
    let is_empty = words.iter().all(|(offset, _)| is_erased(found(*offset))) && is_erased(rest);
    !has_trace && !is_empty
}

fn crc_of(bytes: &[u8], address: u64) -> u32 {
    let node = bytes.get(..SUPERBLOCK_BYTES).unwrap_or_default();
    checksum::of_node(checksum::crc32c, &[], address, node, at::CRC)
}

/// Checks the regions. They are stored so that a small core need not compute them, and checked so
/// that no image can point them elsewhere.
fn regions(shape: &Shape) -> [(usize, u64); 6] {
    [
        (at::SLOTS_A, shape.slots_a()),
        (at::SLOTS_B, shape.slots_b()),
        (at::BITMAP_A, shape.bitmap_a()),
        (at::BITMAP_B, shape.bitmap_b()),
        (at::DATA_START, shape.data_start()),
        (at::UNIT_COUNT, shape.unit_count()),
    ]
}

fn encode_operation(bytes: &mut [u8], operation: &Operation) {
    let (kind, slot, slot2, runs): (u32, u32, u32, &[Run]) = match operation {
        Operation::None => (0, 0, 0, &[]),
        Operation::Reserve { slot, runs } => (1, *slot, 0, runs.as_slice()),
        Operation::Release { slot, runs } => (2, *slot, 0, runs.as_slice()),
        Operation::Rename { from, to } => (3, *from, *to, &[]),
        Operation::Create { runs, slots } => (4, u32::from(slots.count), 0, runs.as_slice()),
        Operation::CreateList { runs, count } => (5, *count, 0, runs.as_slice()),
        #[cfg(feature = "grow")]
        Operation::RemoveList { runs, count } => (6, *count, 0, runs.as_slice()),
    };
    put_u32(bytes, at::OP_KIND, kind);
    put_u32(bytes, at::OP_SLOT, slot);
    put_u32(bytes, at::OP_SLOT2, slot2);
    put_u32(bytes, at::OP_RUN_COUNT, runs.len() as u32);
    for (index, run) in runs.iter().enumerate() {
        let field = at::OP_RUNS + index * RUN_BYTES;
        put_u64(bytes, field, run.start);
        put_u32(bytes, field + 8, run.len);
    }
    if let Operation::Create { slots, .. } = operation {
        for (index, slot) in slots.as_slice().iter().enumerate() {
            put_u32(bytes, at::OP_SLOTS + index * 4, *slot);
        }
    }
}

fn decode_operation(bytes: &[u8], shape: &Shape, slots: u32) -> Option<Operation> {
    let kind = get_u32(bytes, at::OP_KIND);
    let slot = get_u32(bytes, at::OP_SLOT);
    let slot2 = get_u32(bytes, at::OP_SLOT2);
    // The first is a number of slots where there may be several.
    let is_table = slot == TABLE_NODE && slots > shape.slot_count() && matches!(kind, 1 | 2);
    if (slot >= slots && kind < 4 && !is_table) || slot2 >= slots {
        return None;
    }
    let mut runs = Runs::default();
    for index in 0..get_u32(bytes, at::OP_RUN_COUNT).min(RUNS as u32 + 1) {
        let field = at::OP_RUNS + index as usize * RUN_BYTES;
        let run = Run {
            start: get_u64(bytes, field),
            len: get_u32(bytes, field + 8),
        };
        let fits = run_is_within_a_group(&run, shape);
        if !fits || !runs.push(run) {
            return None;
        }
    }
    Some(match kind {
        0 => Operation::None,
        1 => Operation::Reserve { slot, runs },
        2 => Operation::Release { slot, runs },
        3 if slot != slot2 => Operation::Rename {
            from: slot,
            to: slot2,
        },
        4 if runs.as_slice().len() <= 1 => Operation::Create {
            runs,
            slots: decode_slots(bytes, slot, slots)?,
        },
        5 if (1..=LISTED_SLOTS).contains(&slot) => match runs.as_slice() {
            [run] if shape.list_units(slot) <= run.len => {
                Operation::CreateList { runs, count: slot }
            }
            _ => return None,
        },
        #[cfg(feature = "grow")]
        6 if (1..=LISTED_SLOTS).contains(&slot) => match runs.as_slice() {
            [run] if shape.list_units(slot) <= run.len => {
                Operation::RemoveList { runs, count: slot }
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn decode_slots(bytes: &[u8], count: u32, most: u32) -> Option<Slots> {
    let mut slots = Slots::default();
    for index in 0..count.min(RECORD_SLOTS as u32 + 1) {
        let slot = get_u32(bytes, at::OP_SLOTS + index as usize * 4);
        if slot >= most || !slots.push(slot) {
            return None;
        }
    }
    (count > 0).then_some(slots)
}

fn run_is_within_a_group(run: &Run, shape: &Shape) -> bool {
    run.len > 0
        && run.start < shape.unit_count()
        && u64::from(run.len) <= shape.unit_count() - run.start
        && u64::from(shape.unit_in_group(run.start)) + u64::from(run.len) <= shape.group_units()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            shape: Shape {
                volume_bytes: 1 << 20,
                unit_log2: 12,
                node_log2: 9,
                buckets_log2: 2,
                lba_log2: 9,
                table_groups: 0,
            },
            uuid: *b"0123456789abcdef",
            label: [b'x'; 32],
            seq: 42,
            clean: true,
            mount_count: 7,
            checksums: true,
            long_names: true,
            table_unit: Some(6),
            read_only: false,
            compat_features: 4,
            group_hint: 3,
            counts: Counts::new(5, 3),
        }
    }

    fn encoded(operation: &Operation) -> [u8; 512] {
        let mut bytes = [0xff; 512];
        superblock().encode(&mut bytes, 0, operation);
        bytes
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut runs = Runs::default();
        assert!(runs.push(Run { start: 5, len: 9 }));
        let mut slots = Slots::default();
        (0..RECORD_SLOTS as u32).for_each(|slot| assert!(slots.push(31 - slot)));
        assert!(!slots.push(1));
        for operation in [
            Operation::None,
            Operation::Reserve { slot: 3, runs },
            Operation::Release { slot: 31, runs },
            Operation::Rename { from: 1, to: 2 },
            Operation::Create { runs, slots },
            Operation::CreateList { runs, count: 900 },
            Operation::RemoveList { runs, count: 900 },
            Operation::Create {
                runs: Runs::default(),
                slots,
            },
        ] {
            let decoded = Superblock::decode(&encoded(&operation), 0);
            assert_eq!(decoded, Ok(Some((superblock(), operation))));
        }
    }

    #[test]
    fn each_flipped_bit_is_noticed() {
        let bytes = encoded(&Operation::None);
        assert_eq!(
            Superblock::decode(&bytes, 65_536),
            Ok(None),
            "the place counts"
        );
        for bit in 0..SUPERBLOCK_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&bad, 0), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn contradictions_with_a_good_checksum_are_refused() {
        let cases: [(usize, &[u8], Error); 18] = [
            (at::MAJOR, &[2, 0], Error::NewerVersion { major: 2 }),
            (at::INCOMPAT, &[170], Error::UnknownFeatures { bits: 128 }),
            (at::INCOMPAT, &[8], Error::from(Node::Superblock)),
            (at::OP_KIND, &[5], Error::from(Node::Superblock)),
            (at::INCOMPAT, &[64], Error::from(Node::Superblock)),
            (at::OP_KIND, &[6], Error::from(Node::Superblock)),
            (at::INCOMPAT, &[5], Error::from(Node::Superblock)),
            (at::TABLE_GROUPS, &[1], Error::from(Node::Superblock)),
            (at::INCOMPAT, &[2], Error::from(Node::Superblock)),
            (at::INCOMPAT, &[17], Error::from(Node::Superblock)),
            (at::TABLE_UNIT, &[255], Error::from(Node::Superblock)),
            (at::OP_KIND, &[4], Error::from(Node::Superblock)),
            (at::NODE_LOG2, &[15], Error::from(Node::Superblock)),
            (at::UNIT_LOG2, &[31], Error::from(Node::Superblock)),
            (at::SLOTS_B, &[1], Error::from(Node::Superblock)),
            (at::OP_KIND, &[9], Error::from(Node::Superblock)),
            (at::OP_RUN_COUNT, &[1], Error::from(Node::Superblock)),
            (at::OP_SLOT + 3, &[1], Error::from(Node::Superblock)),
        ];
        for (offset, value, error) in cases {
            let mut bytes = encoded(&Operation::None);
            put(&mut bytes, offset, value);
            let crc = crc_of(&bytes, 0);
            put_u32(&mut bytes, at::CRC, crc);
            assert_eq!(Superblock::decode(&bytes, 0), Err(error), "offset {offset}");
        }
    }
}
