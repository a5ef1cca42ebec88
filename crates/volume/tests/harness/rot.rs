// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effects of bit rot: each structure, each field, each copy; the table of `docs/bit-rot.md`.

use std::collections::BTreeSet;

use block::Device;
use crash::{Config, Medium};
use straightway_volume::{MountOptions, OpenFile, Volume, blocking};

use super::independent::{Regions, superblock, u64_at};
use super::ops::Op;
use super::oracle::{NAMES, byte};
use super::starts::{self, NODE};
use super::support::{buffer, free, memory};

/// A structure that has two copies.
struct Structure {
    name: &'static str,
    /// The addresses of its two copies.
    at: [u64; 2],
    /// Offsets of its fields.
    fields: &'static [usize],
    seq: usize,
}

const SUPERBLOCK: &[usize] = &[
    0, 8, 12, 14, 16, 24, 40, 48, 49, 50, 51, 52, 56, 60, 64, 68, 72, 80, 88, 96, 104, 112, 120,
    128, 132, 136, 140, 144, 208,
];
const SLOT: &[usize] = &[
    0, 4, 8, 16, 24, 32, 40, 48, 56, 57, 58, 60, 64, 68, 72, 80, 144, 152, 156, 255,
];
const BITMAP: &[usize] = &[0, 4, 8, 16, 24, 32, 128, 255];
const LEAF: &[usize] = &[0, 4, 8, 16, 24, 32, 40, 44, 64, 72, 76, 255];

/// A clean volume: file a0 without checksums and with a leaf, file b0 with checksums.
fn image() -> (Medium, Medium) {
    let (medium, oracle) = starts::fragmented(512, 7);
    let grow = [Op::Open(0), Op::Append(0), Op::Close(0)];
    let older = starts::after("grown", &medium, &oracle, &grow);
    let more = [
        Op::Open(0),
        Op::Append(0),
        Op::Append(0),
        Op::CreateChecked(1),
        Op::Append(1),
        Op::Close(0),
        Op::Close(1),
    ];
    let newest = starts::after("grown again", &older.medium, &older.oracle, &more);
    (newest.medium, older.medium)
}

fn structures(bytes: &[u8], r: &Regions) -> Vec<Structure> {
    let slot = |name: &str| {
        let node = r.node as u64;
        let is_it = |slot: &u64| {
            r.slots_at.iter().any(|table| {
                let at = (table + slot * node) as usize;
                bytes[at + 80..at + 82] == *name.as_bytes()
            })
        };
        let slot = (0..r.slots).find(is_it).unwrap();
        r.slots_at.map(|table| table + slot * node)
    };
    let slot_a = slot(NAMES[0][0]);
    let leaf = u64_at(bytes, slot_a[0] as usize + 152);
    vec![
        Structure {
            name: "superblock",
            at: [0, 65_536],
            fields: SUPERBLOCK,
            seq: 16,
        },
        Structure {
            name: "file slot",
            at: slot_a,
            fields: SLOT,
            seq: 8,
        },
        Structure {
            name: "map leaf",
            at: r.leaf_at(leaf),
            fields: LEAF,
            seq: 8,
        },
        Structure {
            name: "bitmap",
            at: r.bitmaps_at,
            fields: BITMAP,
            seq: 8,
        },
    ]
}

/// The results of reading everything, and then of a check.
fn outcome(medium: &Medium) -> (String, String) {
    let mut files: [OpenFile; 2] = Default::default();
    let options = MountOptions::default();
    let disk = medium.open(Config::default());
    let volume = match Volume::mount(disk, memory(NODE, 7), &mut files, &options) {
        Ok(volume) => volume,
        Err(unmounted) => {
            unmounted.memory.into_iter().flatten().for_each(free);
            let error = unmounted.result.unwrap_err();
            return (format!("mount refused: {error}"), "not reached".into());
        }
    };
    let mut notes = BTreeSet::new();
    for name in [NAMES[0][0], NAMES[1][0]] {
        if let Err(note) = read(&volume, name) {
            notes.insert(note);
        }
    }
    if let Err(error) = blocking::run(&volume, volume.free_units()) {
        notes.insert(error.to_string());
    }
    let mut scratch = [0; 4096];
    let mut findings = BTreeSet::new();
    let mut report = |finding: straightway_volume::Finding| {
        findings.insert(kind(&finding.to_string()));
    };
    let checked = blocking::run(&volume, volume.check(&mut scratch, &mut report));
    if let Err(error) = checked {
        findings.insert(format!("stops: {error}"));
    }
    volume.abandon().memory.into_iter().flatten().for_each(free);
    let text = |all: BTreeSet<String>, nothing: &str| {
        let all: Vec<String> = all.into_iter().map(|note| kind(&note)).collect();
        if all.is_empty() {
            nothing.to_string()
        } else {
            all.join("; ")
        }
    };
    (text(notes, "all is read"), text(findings, "nothing found"))
}

/// A text without its numbers, so that rows can be merged.
fn kind(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if plain.ends_with('N') => {}
            '0'..='9' => plain.push('N'),
            other => plain.push(other),
        }
    }
    plain
}

fn read<D: Device>(volume: &Volume<'_, D>, name: &str) -> Result<(), String> {
    let text = |error: straightway_volume::Error| error.to_string();
    let entry = blocking::run(volume, volume.find(name)).map_err(text)?;
    let file = blocking::run(volume, volume.open(name)).map_err(text)?;
    let len = (entry.size_bytes as usize).next_multiple_of(NODE);
    let outcome = blocking::read(volume, file, 0, buffer(len));
    let data = outcome.buffer[..entry.size_bytes as usize].to_vec();
    free(outcome.buffer);
    outcome.result.map_err(text)?;
    blocking::run(volume, volume.close(file)).map_err(text)?;
    if (0..)
        .zip(&data)
        .any(|(at, is)| *is != byte(entry.app_tag, at, 0))
    {
        return Err("wrong bytes are given, unnoticed".into());
    }
    let whole = EXPECTED.iter().find(|(known, _)| *known == name);
    match whole {
        Some((_, size)) if *size != entry.size_bytes => {
            Err("an older size is shown, unnoticed".into())
        }
        _ => Ok(()),
    }
}

/// Sizes of the two files of the image.
const EXPECTED: [(&str, u64); 2] = [("a0", 7 * 512 + 6 * 256), ("b0", 512)];

fn row(rows: &mut Vec<[String; 4]>, what: &str, fault: &str, media: &[Medium]) {
    let outcomes: BTreeSet<(String, String)> = media.iter().map(outcome).collect();
    for (seen, check) in outcomes {
        rows.push([what.into(), fault.into(), seen, check]);
    }
}

/// The table: the fault, the result of reading, the result of a check.
pub fn table() -> String {
    let (medium, before) = image();
    let bytes = medium.to_bytes();
    let (r, _, _) = superblock(&bytes).unwrap();
    let log2 = medium.block_size_log2();
    let flip = |medium: &Medium, at: u64, field: usize| {
        let mut medium = medium.clone();
        medium.flip_bit(at >> log2, field as u32 * 8).unwrap();
        medium
    };
    let mut rows = Vec::new();
    row(&mut rows, "nothing", "none", std::slice::from_ref(&medium));
    for structure in structures(&bytes, &r) {
        let seq = |at: &u64| u64_at(&bytes, *at as usize + structure.seq);
        let mut at = structure.at;
        at.sort_by_key(|at| std::cmp::Reverse(seq(at)));
        let [newest, older] = at;
        let each = |at: u64| -> Vec<Medium> {
            let fields = structure.fields.iter();
            fields.map(|field| flip(&medium, at, *field)).collect()
        };
        let fields = structure.fields.len();
        let one = |which: &str| format!("a bit of the {which} copy flips ({fields} fields, each)");
        row(&mut rows, structure.name, &one("newest"), &each(newest));
        row(&mut rows, structure.name, &one("older"), &each(older));
        let both: Vec<Medium> = structure
            .fields
            .iter()
            .map(|field| flip(&flip(&medium, newest, *field), older, *field))
            .collect();
        row(
            &mut rows,
            structure.name,
            "a bit of both copies flips",
            &both,
        );
        let lost = |both: bool| {
            let mut stale = medium.clone();
            for at in if both {
                vec![newest, older]
            } else {
                vec![newest]
            } {
                let mut block = vec![0; NODE];
                before.read(at >> log2, &mut block).unwrap();
                stale.write(at >> log2, &block).unwrap();
            }
            stale
        };
        row(
            &mut rows,
            structure.name,
            "the newest copy reads as it was before",
            &[lost(false)],
        );
        row(
            &mut rows,
            structure.name,
            "both copies read as they were before",
            &[lost(true)],
        );
        let mut astray = medium.clone();
        let node = bytes[newest as usize..newest as usize + NODE].to_vec();
        astray.write(older >> log2, &node).unwrap();
        row(
            &mut rows,
            structure.name,
            "the newest copy is also written over the older",
            &[astray],
        );
    }
    data_rows(&mut rows, &medium, &bytes);
    let mut text =
        String::from("| structure | what goes wrong | reading | a check |\n|---|---|---|---|\n");
    for [what, fault, seen, check] in rows {
        text.push_str(&format!("| {what} | {fault} | {seen} | {check} |\n"));
    }
    text
}

fn data_rows(rows: &mut Vec<[String; 4]>, medium: &Medium, bytes: &[u8]) {
    let scan = super::independent::Scan::new(bytes).unwrap();
    for (name, what) in [(NAMES[0][0], "data"), (NAMES[1][0], "data with checksums")] {
        let file = scan.files.iter().find(|file| file.name == name).unwrap();
        let units: Vec<u64> = file
            .extents
            .iter()
            .flat_map(|(start, len)| *start..start + len)
            .collect();
        let unit = units[usize::from(file.checksums)];
        let at = scan.regions.data_start + unit * scan.regions.unit;
        let mut flipped = medium.clone();
        flipped
            .flip_bit(at >> medium.block_size_log2(), 77)
            .unwrap();
        row(rows, what, "a bit flips", &[flipped]);
    }
}
