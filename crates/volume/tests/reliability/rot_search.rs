// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rot of any one block of metadata, on volumes of this build and of one that freed slots in one
//! member, unmounted or cut anywhere; then operations. No file that none of them names loses a
//! byte, a name that was removed is not read, and success never stands beside a loss.

use std::collections::{BTreeMap, BTreeSet};

use crash::{Config, CrashDisk, Cut, Medium, Sampling};
use straightway_volume::{CreateOptions, Error, MountOptions, NewFile, OpenFile, Volume, blocking};

use crate::harness::independent::{Regions, superblock, u32_at, u64_at};
use crate::harness::search::Mutation;
use crate::harness::seed;
use crate::harness::support::{buffer, filled, free, make, memory};

const NODE: usize = 512;
const UNIT: usize = 1024;
const BLOCKS: u64 = 1024;
const ROUNDS: u64 = 400;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The promises: a name has these bytes, or is removed, or was in an operation that did not end.
#[derive(Clone, Debug, Default)]
struct Model {
    files: BTreeMap<&'static str, Vec<u8>>,
    unknown: BTreeSet<&'static str>,
}

impl Model {
    fn forget(&mut self, name: &'static str) {
        self.files.remove(name);
        self.unknown.insert(name);
    }
}

type Mounted<'a> = Volume<'a, CrashDisk>;

fn append(volume: &Mounted<'_>, name: &str, data: &[u8]) -> Result<(), Error> {
    let file = blocking::run(volume, volume.open_to_write(name))?;
    let outcome = blocking::append(volume, file, filled(data, NODE), data.len());
    free(outcome.buffer);
    let closed = blocking::run(volume, volume.close(file));
    outcome.result.and(closed)
}

fn read(volume: &Mounted<'_>, name: &str) -> Result<Vec<u8>, Error> {
    let size = blocking::run(volume, volume.find(name))?.size_bytes as usize;
    let file = blocking::run(volume, volume.open(name))?;
    let mut data = Vec::new();
    let mut result = Ok(());
    if size > 0 {
        let memory = buffer(size.next_multiple_of(NODE));
        let outcome = blocking::read(volume, file, 0, memory);
        data.extend_from_slice(&outcome.buffer[..size]);
        free(outcome.buffer);
        result = outcome.result.map(|_| ());
    }
    let _ = blocking::run(volume, volume.close(file));
    result.map(|()| data)
}

/// One operation. What it promises is in the model when it returns.
fn operate(volume: &Mounted<'_>, random: &mut fastrand::Rng, model: &mut Model) {
    let name = NAMES[random.usize(..NAMES.len())];
    let data: Vec<u8> = (0..random.usize(0..12) * 700)
        .map(|_| random.u8(..))
        .collect();
    match random.u32(0..12) {
        0..4 => {
            let options = CreateOptions {
                reserve_bytes: if random.bool() { data.len() as u64 } else { 0 },
                checksums: volume.status().checksums && random.bool(),
                app_tag: 0,
            };
            let made = blocking::run(volume, volume.create(name, &options));
            match made {
                Ok(file) => {
                    let closed = blocking::run(volume, volume.close(file));
                    match closed.and_then(|()| append(volume, name, &data)) {
                        Ok(()) => {
                            model.unknown.remove(name);
                            model.files.insert(name, data);
                        }
                        Err(_) => model.forget(name),
                    }
                }
                // Nothing was changed.
                Err(Error::Exists | Error::NoSpace | Error::TableFull) => {}
                Err(_) => {
                    if !model.files.contains_key(name) {
                        model.forget(name);
                    }
                }
            }
        }
        4..6 => match append(volume, name, &data) {
            Ok(()) => {
                // An empty file may have come back.
                if !model.unknown.contains(name) {
                    model.files.entry(name).or_default().extend(data);
                }
            }
            Err(Error::NotFound) => {}
            Err(_) => model.forget(name),
        },
        6..9 => {
            let removed = if random.bool() {
                blocking::run(volume, volume.remove(name))
            } else {
                blocking::run(volume, volume.remove_whole(name))
            };
            match removed {
                Ok(()) => {
                    model.files.remove(name);
                    model.unknown.remove(name);
                }
                Err(Error::NotFound) => {}
                Err(_) => model.forget(name),
            }
        }
        9 => {
            let to = NAMES[random.usize(..NAMES.len())];
            match blocking::run(volume, volume.rename(name, to)) {
                Ok(()) => {
                    let (data, unknown) = (model.files.remove(name), model.unknown.remove(name));
                    model.unknown.remove(to);
                    if let Some(data) = data {
                        model.files.insert(to, data);
                    } else if unknown {
                        model.unknown.insert(to);
                    }
                }
                Err(Error::NotFound | Error::Exists) => {}
                Err(_) => {
                    model.forget(name);
                    model.forget(to);
                }
            }
        }
        10 => {
            let new = NewFile {
                name,
                data: &data[..data.len().min(4000)],
                mtime_ns: 0,
                app_tag: 0,
            };
            match blocking::run(volume, volume.create_many(&[new], false)) {
                Ok(made) if made.files == 1 => {
                    model.unknown.remove(name);
                    model.files.insert(name, new.data.to_vec());
                }
                // One that this operation cannot make.
                Ok(_) => {}
                Err(_) if model.files.contains_key(name) => {}
                Err(_) => model.forget(name),
            }
        }
        _ => {
            let mut next = Some(0);
            while let Some(from) = next {
                next = blocking::run(volume, volume.reclaim(from)).unwrap_or_default();
            }
        }
    }
}

/// Mounts, runs `body`, and unmounts, or ends as a killed program does.
fn mounted(
    disk: CrashDisk,
    mutation: Mutation,
    is_killed: bool,
    body: impl FnOnce(&Mounted<'_>),
) -> Result<(), Error> {
    let mut files: [OpenFile; 2] = Default::default();
    let options = MountOptions {
        crc32c: ::crc32c::crc32c_append,
        ..MountOptions::default()
    };
    let unmounted =
        match Volume::mount_mutated(disk, memory(NODE, 7), &mut files, &options, mutation) {
            Ok(volume) => {
                body(&volume);
                if is_killed {
                    volume.abandon()
                } else {
                    volume.unmount()
                }
            }
            Err(unmounted) => unmounted,
        };
    unmounted.memory.into_iter().flatten().for_each(free);
    unmounted.result
}

/// Addresses of all metadata nodes, those of slots first. A bitmap that rots while a record names
/// its group is taken for torn: `docs/bit-rot.md`.
fn nodes(bytes: &[u8], r: &Regions, is_clean: bool) -> Vec<u64> {
    let slots = (0..r.slots).flat_map(|slot| r.slots_at.map(|at| at + slot * NODE as u64));
    let groups = if is_clean { 0..r.groups } else { 0..0 };
    let groups = groups.flat_map(|group| r.bitmap_at(group));
    let units = (0..r.units).map(|unit| r.data_start + unit * r.unit);
    let halves = units.flat_map(|at| [at, at + NODE as u64]);
    let leaves = halves.filter(|at| bytes[*at as usize..][..4] == *b"SWlf");
    slots
        .chain(groups)
        .chain(leaves)
        .chain([0, 65_536])
        .collect()
}

/// Names of slots whose two members differ after a cut: without the newest one, the file steps back
/// to its last commit but one; and while the record is in force, a removal that freed one member,
/// or a rename, is undone.
fn undecided(medium: &Medium, software: Mutation) -> Vec<&'static str> {
    let bytes = medium.to_bytes();
    let (r, seq, _) = superblock(&bytes).unwrap();
    let record = &bytes[65_536 * (seq as usize % 2) + 128..][..12];
    let is_rename = u32_at(record, 0) == 3;
    let renamed = [4, 8].map(|at| u64::from(u32_at(record, at)));
    let mut names = Vec::new();
    for slot in 0..r.slots {
        let mut members = r.slots_at.map(|table| {
            let at = (table + slot * NODE as u64) as usize;
            &bytes[at..at + NODE]
        });
        members.sort_by_key(|member| std::cmp::Reverse(u64_at(member, 8)));
        let [newest, older] = members;
        let is_freed = newest[56] == 0 && software == Mutation::None;
        let is_moved = is_rename && renamed.contains(&slot);
        if is_moved || newest[16..] != older[16..] && !is_freed {
            let is_named = |name: &&str| {
                members
                    .iter()
                    .any(|member| member[80] == name.as_bytes()[0])
            };
            names.extend(NAMES.into_iter().filter(is_named));
        }
    }
    names
}

fn struck(medium: &Medium, random: &mut fastrand::Rng) -> (Medium, String) {
    let bytes = medium.to_bytes();
    let (r, _, is_clean) = superblock(&bytes).unwrap();
    let nodes = nodes(&bytes, &r, is_clean);
    // Half of them where a removed file may come back.
    let slots = 2 * r.slots as usize;
    let at = if random.bool() {
        nodes[random.usize(..slots)]
    } else {
        nodes[random.usize(..nodes.len())]
    };
    let kind = random.u32(0..5);
    let mut medium = medium.clone();
    let other = nodes[random.usize(..nodes.len())] as usize;
    medium
        .edit(at / NODE as u64, |block| match kind {
            0 => block.fill(0xff),
            1 => block.fill(0),
            2 => block[random.usize(..NODE)] ^= 1 << random.u32(..8),
            3 => block.copy_from_slice(&bytes[other..other + NODE]),
            _ => block.fill_with(|| random.u8(..)),
        })
        .unwrap();
    let seq = u64_at(&bytes, at as usize + 8);
    (medium, format!("fault {kind} at byte {at}, number {seq}"))
}

/// What is read is what was promised, or an error.
fn compare(volume: &Mounted<'_>, model: &Model) -> Result<(), String> {
    for name in NAMES {
        let found = read(volume, name);
        match (model.files.get(name), found) {
            _ if model.unknown.contains(name) => {}
            (Some(data), Ok(found)) if *data == found => {}
            (Some(_), Ok(_)) => return Err(format!("`{name}` has other bytes")),
            (Some(_), Err(Error::NotFound)) => return Err(format!("`{name}` is missing")),
            (Some(_), Err(Error::Rot { chunk })) => {
                return Err(format!("data of `{name}` has changed: chunk {chunk}"));
            }
            (Some(_), Err(_)) => {}
            // Its removal has no record, and it has no unit of anybody's.
            (None, Ok(found)) if found.is_empty() => {}
            (None, Ok(_)) => return Err(format!("`{name}` was removed, and is read")),
            (None, Err(_)) => {}
        }
    }
    Ok(())
}

fn round(seed: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disk = Medium::new(9, BLOCKS).unwrap().open(Config::default());
    let options = straightway_volume::FormatOptions {
        unit_bytes: Some(UNIT as u64),
        node_bytes: Some(NODE as u32),
        slots: Some(16),
        checksums: random.bool(),
        uuid: [6; 16],
        ..straightway_volume::FormatOptions::default()
    };
    make(&mut disk, &options);
    let mut model = Model::default();
    let mut medium = disk.current();
    for _ in 0..random.u32(1..4) {
        let software = if random.bool() {
            Mutation::HalfFree
        } else {
            Mutation::None
        };
        let disk = medium.open(Config::default());
        let is_cut = random.u32(0..3) == 0;
        if is_cut {
            disk.stop_after(random.u64(1..120), Cut::During);
        }
        let mount = mounted(disk.clone(), software, is_cut, |volume| {
            for _ in 0..random.u32(2..14) {
                operate(volume, &mut random, &mut model);
            }
        });
        if mount.is_err() && !disk.is_off() {
            return Err(format!("a sound volume: {mount:?}"));
        }
        medium = if is_cut {
            let images: Vec<_> = disk.images(&Sampling::default()).take(40).collect();
            images[random.usize(..images.len())].medium.clone()
        } else {
            disk.current()
        };
        if is_cut {
            for name in undecided(&medium, software) {
                model.forget(name);
            }
        }
    }
    let (medium, what) = struck(&medium, &mut random);
    let disk = medium.open(Config::default());
    let mut result = Ok(());
    for _ in 0..random.u32(1..3) {
        // A mount may be refused.
        let _ = mounted(disk.clone(), Mutation::None, false, |volume| {
            if random.u32(0..3) == 0 {
                let mut scratch = [0; 4096];
                let _ = blocking::run(volume, volume.repair(&mut scratch, &mut |_| {}));
            }
            result = result.clone().and(compare(volume, &model));
            for _ in 0..random.u32(1..8) {
                operate(volume, &mut random, &mut model);
                result = result.clone().and(compare(volume, &model));
            }
        });
    }
    result.map_err(|why| format!("seed {seed}: {what}: {why}"))
}

#[test]
fn rot_of_one_block_of_metadata_takes_nothing_from_another_file() {
    let budget = crash::Budget::or(crash::Budget::of_states(ROUNDS)).unwrap();
    let first = seed("rot");
    let mut rounds = 0;
    while budget.allows(rounds) {
        let done = round(first.wrapping_add(rounds));
        done.unwrap_or_else(|why| panic!("{why}"));
        rounds += 1;
    }
}
