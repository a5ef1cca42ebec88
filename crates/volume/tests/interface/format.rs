// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `FORMAT.md` and the constants of the code agree.

use straightway_volume::layout::{self, bitmap, leaf, list, node, slot, superblock};

/// The rows `| offset | bytes | `NAME` | ...` of a section: name and offset.
fn rows(section: &str) -> Vec<(String, usize)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../FORMAT.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with('#') {
            inside = line.trim_start_matches('#').trim() == section;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(3).and_then(|cell| cell.strip_prefix('`'));
        if let (true, Some(name), Ok(offset)) = (inside, name, cells.get(1).unwrap_or(&"").parse())
        {
            rows.push((name.trim_end_matches('`').to_string(), offset));
        }
    }
    rows
}

macro_rules! expected {
    ($module:ident: $($name:ident)*) => {
        vec![$((stringify!($name).to_string(), $module::$name)),*]
    };
}

#[test]
fn each_offset_of_the_document_is_the_code_s() {
    assert_eq!(
        rows("Superblock"),
        expected!(superblock: MAGIC CRC MAJOR MINOR SEQ UUID VOLUME_BYTES UNIT_LOG2 NODE_LOG2
            BUCKETS_LOG2 LBA_LOG2 STATE INCOMPAT RO_COMPAT COMPAT MOUNT_COUNT SLOTS_A SLOTS_B
            BITMAP_A BITMAP_B DATA_START UNIT_COUNT GROUP_HINT TABLE_GROUPS OP_KIND OP_SLOT OP_SLOT2
            OP_RUN_COUNT OP_RUNS OP_SLOTS LABEL FREE_UNITS FILE_COUNT
            TABLE_UNIT)
    );
    assert_eq!(rows("Nodes"), expected!(node: MAGIC CRC SEQ LAST_OP));
    assert_eq!(
        rows("File slot"),
        expected!(slot: FILE_ID SIZE_BYTES ALLOC_UNITS MTIME_NS STATE MAP_LEVEL NAME_LEN
            ENTRY_COUNT ATTRIBUTES TAIL_CRC APP_TAG NAME ENTRIES)
    );
    assert_eq!(
        rows("File map"),
        expected!(leaf: FILE_ID FIRST_LOGICAL COUNT LEVEL ENTRIES)
    );
    assert_eq!(rows("Bitmap"), expected!(bitmap: GROUP FREE_UNITS));
    assert_eq!(rows("List of files"), expected!(list: FIRST COUNT SLOTS));
}

#[test]
fn each_place_and_magic_of_the_document_is_the_code_s() {
    let text = include_str!("../../../../FORMAT.md");
    for words in [
        format!("| {} | superblock B |", "65,536"),
        format!("| {} | slot table A", "131,072"),
        format!("\"{}\"", layout::magic::SUPERBLOCK.escape_ascii()),
        format!("\"{}\" slot", layout::magic::SLOT.escape_ascii()),
        format!("\"{}\" bitmap", layout::magic::BITMAP.escape_ascii()),
        format!("\"{}\" leaf", layout::magic::LEAF.escape_ascii()),
        format!("\"{}\" list", layout::magic::LIST.escape_ascii()),
    ] {
        assert!(text.contains(&words), "FORMAT.md lacks {words}");
    }
    assert_eq!((layout::SUPERBLOCK_B, layout::TABLES), (65_536, 131_072));
    assert_eq!((layout::CHUNK_BYTES, layout::SPAN_UNITS), (65_536, 16_384));
    assert_eq!(layout::SUPERBLOCK_BYTES, superblock::LABEL + 32 + 16);
}

/// A format zeroes what other file systems and partition tables write in front of the tables.
#[test]
fn nothing_but_superblocks_is_left_in_front_of_the_tables() {
    for (lba_log2, memory) in [(9, 1 << 20), (9, 512), (9, 7 * 512), (6, 256)] {
        let mut disk = block::RamDisk::<_, 8>::new(vec![0xa5; 1 << 20], lba_log2).unwrap();
        let options = straightway_volume::FormatOptions {
            node_bytes: Some(if lba_log2 == 9 { 512 } else { 256 }),
            uuid: [3; 16],
            ..straightway_volume::FormatOptions::default()
        };
        let (shape, memory) =
            straightway_volume::format(&mut disk, crate::support::buffer(memory), &options);
        crate::support::free(memory.unwrap());
        shape.unwrap();
        let outcome = block::blocking::read(&mut disk, 0, crate::support::buffer(131_072));
        outcome.result.unwrap();
        for (at, byte) in outcome.buffer.iter().enumerate() {
            assert!(at % 65_536 < 256 || *byte == 0, "byte {at} is {byte:#x}");
        }
        crate::support::free(outcome.buffer);
    }
}
