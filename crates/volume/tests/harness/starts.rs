// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Start images: tiny volumes, made once and cloned. Nodes and blocks of 256 bytes, so that a slot
//! has 7 entries and a leaf 12, and a file of 150 units needs every level of the map.

use std::cell::RefCell;
use std::rc::Rc;

use block::Device;
use crash::{Config, Medium};
use straightway_volume::{CreateOptions, FormatOptions, OpenFile, Volume, blocking};

use super::independent::crc32c;
use super::ops::Op;
use super::oracle::{Live, NAMES, Oracle, bytes};
pub use super::runner::Start;
use super::runner::{self, Manner};
use super::search::{Depth, FILLER, Mutation, Search, mount};
use super::support::{buffer, filled, free};

/// The size of a device's block and of a node.
pub const NODE: usize = 256;
const LBA_LOG2: u8 = 8;

/// An empty volume with `units` data units of `unit_bytes`, over a device that was used before.
pub fn empty(slots: u32, unit_bytes: u64, units: u64) -> Medium {
    empty_with((NODE, LBA_LOG2), slots, unit_bytes, units)
}

/// The same with nodes of `node` bytes, and blocks of `1 << lba_log2`.
pub fn empty_with(
    (node, lba_log2): (usize, u8),
    slots: u32,
    unit_bytes: u64,
    units: u64,
) -> Medium {
    let tables = 131_072 + 2 * u64::from(slots) * node as u64;
    // One bitmap covers 1,024 units; a second one where the tables count as units too.
    let bytes = tables + 2 * 2 * node as u64 + units * unit_bytes;
    let blocks = bytes.next_multiple_of(unit_bytes) >> lba_log2;
    let medium = Medium::new(lba_log2, blocks).unwrap();
    let mut disk = medium.open(Config::default());
    let options = FormatOptions {
        unit_bytes: Some(unit_bytes),
        node_bytes: Some(node as u32),
        slots: Some(slots),
        checksums: true,
        uuid: [9; 16],
        ..FormatOptions::default()
    };
    let (shape, memory) = straightway_volume::format(&mut disk, buffer(1 << 14), &options);
    free(memory.unwrap());
    let shape = shape.unwrap();
    let mut medium = disk.current();
    // Old content must never show: the data area is full of left-overs.
    let mut random = fastrand::Rng::with_seed(units);
    for lba in shape.data_start() >> lba_log2..medium.block_count() {
        medium.edit(lba, |block| random.fill(block)).unwrap();
    }
    medium
}

/// A volume on which file 0 has `extents` extents of a unit each, all full of data, and a filler
/// has the units between.
pub fn fragmented(unit_bytes: u64, extents: u64) -> (Medium, Oracle) {
    fragmented_with((NODE, LBA_LOG2), unit_bytes, extents)
}

/// The same with nodes of `node` bytes, and blocks of `1 << lba_log2`.
pub fn fragmented_with(shape: (usize, u8), unit_bytes: u64, extents: u64) -> (Medium, Oracle) {
    let turns: Vec<usize> = (0..extents).flat_map(|_| [0, 1]).collect();
    let medium = empty_with(shape, 8, unit_bytes, 2 * extents + 64);
    fragmented_by(medium, shape.0, unit_bytes, &turns)
}

/// A closed file whose leaf is in a unit with an even number, and only free units follow: a new
/// table node, which takes the first two units like that, takes this one if the file is removed.
pub fn leaf_before_free_units() -> Start {
    // A slot has seven entries. The units are 0, 2, ... 12; 15; and 16 for the leaf.
    let mut turns = [0, 1].repeat(7);
    turns.extend([1, 0]);
    let medium = empty(8, 4096, 24);
    let (medium, oracle) = fragmented_by(medium, NODE, 4096, &turns);
    Start {
        name: "a leaf before free units",
        medium,
        oracle,
        prefix: Vec::new(),
    }
}

/// File 0 and a filler get a unit in turn, on an empty volume with nodes of `node` bytes.
fn fragmented_by(
    medium: Medium,
    node: usize,
    unit_bytes: u64,
    turns: &[usize],
) -> (Medium, Oracle) {
    let disk = medium.open(Config::default());
    let mut files: [OpenFile; 2] = Default::default();
    let volume = mount(disk.clone(), node, &mut files, Mutation::None).unwrap();
    let create = |name: &str, app_tag| {
        let options = CreateOptions {
            app_tag,
            ..CreateOptions::default()
        };
        blocking::run(&volume, volume.create(name, &options)).unwrap()
    };
    let handles = [create(NAMES[0][0], 1), create(FILLER, u64::MAX)];
    let mut units = [0, 0];
    for &turn in turns {
        let (unit, tag) = (units[turn], [1, u64::MAX][turn]);
        units[turn] += 1;
        let data = bytes(tag, unit * unit_bytes, (unit + 1) * unit_bytes);
        append(&volume, handles[turn], &data);
    }
    for handle in handles {
        blocking::run(&volume, volume.close(handle)).unwrap();
    }
    let [extents, _] = units;
    let count = blocking::run(&volume, volume.extent_count(NAMES[0][0], 9999));
    assert_eq!(count, Ok(extents));
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    let size = extents * unit_bytes;
    let live = Live::whole(1, false, size);
    let mut oracle = Oracle {
        next_incarnation: 1,
        ..Oracle::default()
    };
    oracle.files[0].now = Some(live);
    (disk.current(), oracle)
}

/// A volume with 16 slots whose first bucket is full of files that may also be in the second one,
/// which has three free slots. So `a0` and `b1`, which belong only to the first one, take a slot
/// only if another file moves.
pub fn crowded() -> Start {
    full_buckets("a full bucket", 16, &[(1, 1), (0, 1)])
}

/// A volume with 32 slots: both buckets of `a0` are full of files whose other bucket is full too,
/// of files that may also be in the fourth one, which has three free slots. So `a0` takes a slot
/// only if two other files move.
pub fn crowded_twice() -> Start {
    let hash = crc32c(NAMES[0][0].as_bytes());
    let (one, two) = (hash & 3, hash >> 16 & 3);
    let mut rest = (0..4).filter(|bucket| ![one, two].contains(bucket));
    let (next, last) = (rest.next().unwrap(), rest.next().unwrap());
    let mut fills = vec![(last, last), (next, last), (one, next)];
    if two != one {
        fills.push((two, next));
    }
    // A name that another operation uses may find room at once.
    full_buckets("buckets full of files whose other one is full", 32, &fills)
}

/// Eight files for each of these pairs of buckets, the second of which is full already; then three
/// of the first eight are removed.
fn full_buckets(name: &'static str, slots: u32, fills: &[(u32, u32)]) -> Start {
    // With units for as many buckets again, of eight each.
    let medium = empty(slots, 512, 28 + 2 * u64::from(slots));
    let disk = medium.open(Config::default());
    let mut files: [OpenFile; 2] = Default::default();
    let volume = mount(disk.clone(), NODE, &mut files, Mutation::None).unwrap();
    let mask = slots / 8 - 1;
    let of_buckets = |buckets: (u32, u32)| {
        let names = (0..).map(|number| format!("{FILLER} {number}"));
        names.filter(move |name| {
            let hash = crc32c(name.as_bytes());
            (hash & mask, hash >> 16 & mask) == buckets
        })
    };
    let names: Vec<String> = fills
        .iter()
        .flat_map(|buckets| of_buckets(*buckets).take(8))
        .collect();
    for (name, tag) in names.iter().zip(0..) {
        let app_tag = u64::MAX - tag;
        let options = CreateOptions {
            app_tag,
            ..CreateOptions::default()
        };
        let file = blocking::run(&volume, volume.create(name, &options)).unwrap();
        append(&volume, file, &bytes(app_tag, 0, 512));
        blocking::run(&volume, volume.close(file)).unwrap();
    }
    for name in names.iter().take(3) {
        blocking::run(&volume, volume.remove(name)).unwrap();
    }
    assert_eq!(volume.moves(), 0);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    Start {
        name,
        medium: disk.current(),
        oracle: Oracle {
            fillers: names.len() - 3,
            ..Oracle::default()
        },
        prefix: Vec::new(),
    }
}

fn append<D: Device>(volume: &Volume<'_, D>, file: straightway_volume::File, data: &[u8]) {
    let block = volume.geometry().block_size_bytes();
    let outcome = blocking::append(volume, file, filled(data, block), data.len());
    free(outcome.buffer);
    outcome.result.unwrap();
}

/// Volumes with nodes and blocks of 512 bytes, so that names can be long: an empty one, and a file
/// with as many extents as its slot has room for, of which a long name leaves half.
pub fn with_long_names() -> Vec<Start> {
    let blank = empty_with((512, 9), 16, 512, 24);
    let none = Oracle {
        long_names: true,
        ..Oracle::default()
    };
    let made = [Op::CreateReserved(0), Op::Append(0), Op::Close(0)];
    let (medium, oracle) = fragmented_with((512, 9), 512, 23);
    vec![
        after("room for long names", &blank, &none, &[]),
        after("a file with a short name", &blank, &none, &made),
        Start {
            name: "a full slot",
            medium,
            oracle: Oracle {
                long_names: true,
                ..oracle
            },
            prefix: Vec::new(),
        },
    ]
}

/// Files on a volume whose nodes have two blocks, so that a write of a slot can be torn: one that
/// is closed and fills its slot, so that its entries reach into the second block, and room for
/// another.
pub fn of_two_blocks() -> Vec<Start> {
    let shape = (2 * NODE, LBA_LOG2);
    let blank = empty_with(shape, 16, 512, 24);
    let made = [Op::CreateReserved(0), Op::Append(0), Op::Close(0)];
    let (medium, oracle) = fragmented_with(shape, 512, 9);
    let long_names = |start: Start| Start {
        oracle: Oracle {
            long_names: true,
            ..start.oracle
        },
        ..start
    };
    let open = Start {
        name: "entries in both blocks",
        medium,
        oracle,
        prefix: vec![Op::Open(0)],
    };
    vec![
        open,
        long_names(after("two blocks", &blank, &Oracle::default(), &made)),
    ]
}

/// `medium` after these operations, each one awaited.
pub fn after(name: &'static str, medium: &Medium, oracle: &Oracle, ops: &[Op]) -> Start {
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    let start = Start {
        name,
        medium: medium.clone(),
        oracle: oracle.clone(),
        prefix: Vec::new(),
    };
    let mut steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
    steps.push(vec![Op::Remount]);
    let disk = runner::run(&search, &start, &steps, usize::MAX, &Manner::new(0)).unwrap();
    let oracle = search.borrow().oracle.clone();
    Start {
        medium: disk.current(),
        oracle,
        ..start
    }
}

/// Every start: an empty volume, two files closed or open, and file 0 at each edge of its map.
pub fn all() -> Vec<Start> {
    let made = [
        Op::CreateReserved(0),
        Op::Append(0),
        Op::CreateChecked(1),
        Op::AppendTail(1),
        Op::Close(0),
        Op::Close(1),
    ];
    let blank = empty(16, 512, 24);
    let none = Oracle::default();
    let open = [Op::Open(0), Op::Open(1)];
    let mut starts = vec![
        after("nothing there", &blank, &none, &[]),
        after("two files", &blank, &none, &made),
        Start {
            prefix: open.to_vec(),
            ..after("two open files", &blank, &none, &made)
        },
    ];
    // A slot has 7 entries and a leaf 12: the first leaf, a second one, the first index node, a
    // leaf in it, and a second index node (its unit is a node, so that pairs take two).
    let edges: [(&'static str, u64, u64); 5] = [
        ("a full slot", 512, 7),
        ("a full leaf", 256, 12),
        ("a full level", 256, 84),
        ("a full leaf under a node", 256, 96),
        ("a full node", 256, 144),
    ];
    for (name, unit, extents) in edges {
        let (medium, oracle) = fragmented(unit, extents);
        starts.push(Start {
            name,
            medium,
            oracle,
            prefix: vec![Op::Open(0)],
        });
    }
    starts
}
