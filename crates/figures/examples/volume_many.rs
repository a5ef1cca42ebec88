// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what many files cost a volume, on memory, where every count repeats exactly.
//!
//! `volume_many put FILES` makes FILES new files of 4 KiB in batches, as `put` of a folder does, on
//! a volume as `format` makes it. `volume_many rm FILES` makes them and removes all of them, as
//! `rm` of a pattern does, and counts that. `volume_many one FILES` fills a volume with FILES empty
//! files, and then counts the reads of one operation on one file, the mount included, and of a
//! check. Prints lines of `NAME VALUE`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "support/cached.rs"]
mod cached;

use block::Buffer;
use cached::Cached;
use crash::{Counter, Counting, Counts};
use linux::HostMemory;
use volume::{
    CreateOptions, FormatOptions, MountOptions, NewFile, OpenFile, Volume, blocking, format,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Disk = Counting<Cached>;

/// Files of one operation, and the memory of a mount, as the command has them.
const BATCH: usize = 1024;
const NODES: [usize; 3] = [16 << 10, 128 << 10, 128 << 10];
/// Operations of a kind, on names that are spread over the table.
const SAMPLES: u64 = 64;
const FILE_BYTES: usize = 4096;

/// A disk, and the memory of its mount and of one transfer.
struct World {
    disk: Option<Disk>,
    counter: Counter,
    nodes: Option<[Buffer; 3]>,
    data: Option<Buffer>,
}

impl World {
    fn new(size_bytes: usize, unit_bytes: Option<u64>) -> Result<Self> {
        let memory = HostMemory::new(2 << 20)?;
        let mut disk = Counting::new(Cached::new(size_bytes as u64, 9)?);
        let options = FormatOptions {
            unit_bytes,
            checksums: true,
            uuid: [0x5a; 16],
            ..FormatOptions::default()
        };
        let (made, _) = format(&mut disk, memory.allocate(1 << 20)?, &options);
        made?;
        let [a, b, c] = NODES.map(|len| memory.allocate(len));
        Ok(Self {
            counter: disk.counter(),
            disk: Some(disk),
            nodes: Some([a?, b?, c?]),
            data: Some(memory.allocate(FILE_BYTES)?),
        })
    }

    /// Mounts, runs `body` and unmounts; returns what that took.
    fn mounted<T>(
        &mut self,
        body: impl FnOnce(&Volume<'_, Disk>, &mut Option<Buffer>) -> Result<T>,
    ) -> Result<(T, Counts)> {
        let before = self.counter.counts();
        let mut files = [const { OpenFile::new() }; 2];
        let (disk, nodes) = (self.disk.take().unwrap(), self.nodes.take().unwrap());
        let options = MountOptions::default();
        let volume = match Volume::mount(disk, nodes, &mut files, &options) {
            Ok(volume) => volume,
            Err(failed) => return Err(format!("mount: {:?}", failed.result).into()),
        };
        let result = body(&volume, &mut self.data)?;
        let unmounted = volume.unmount();
        unmounted.result?;
        self.disk = Some(unmounted.device);
        self.nodes = Some(unmounted.memory.map(Option::unwrap));
        Ok((result, self.counter.counts() - before))
    }
}

fn name(number: u64) -> String {
    format!("photo{number:08}.jpg")
}

/// Makes files in batches, in a table with room for `more`; returns the commands for their data,
/// and the batches.
fn put(volume: &Volume<'_, Disk>, files: u64, more: u64, data: &[u8]) -> Result<(u64, u64)> {
    let (mut commands, mut batches) = (0, 0);
    blocking::run(volume, volume.grow_table_for(u32::try_from(files + more)?))?;
    let names: Vec<String> = (0..files).map(name).collect();
    let new = |name| NewFile {
        name,
        data,
        mtime_ns: 1,
        app_tag: 0,
    };
    let all: Vec<NewFile<'_>> = names.iter().map(|name| new(name)).collect();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(BATCH)];
        let made = volume.with_space(|| volume.create_batch::<BATCH>(batch, true));
        let made = blocking::run(volume, made)?;
        commands += u64::from(made.data_commands);
        rest = &rest[made.files..];
        batches += 1;
    }
    Ok((commands, batches))
}

fn many(files: u64) -> Result<()> {
    let mut world = World::new(8 << 30, None)?;
    let put = |volume: &Volume<'_, Disk>, _: &mut Option<Buffer>| {
        let made = put(volume, files, 0, &[7; FILE_BYTES])?;
        println!("slots {}\nmoves {}", volume.slots(), volume.moves());
        Ok(made)
    };
    let ((commands, batches), counts) = world.mounted(put)?;
    println!("batches {batches}");
    let nodes = counts.writes.commands - commands;
    println!("flushes {}", counts.flushes);
    println!("node_writes {}", nodes as f64 / files as f64);
    println!("data_commands {commands}");
    println!("reads {}", counts.reads.commands as f64 / files as f64);
    Ok(())
}

fn rm(files: u64) -> Result<()> {
    let mut world = World::new(8 << 30, None)?;
    world.mounted(|volume, _| put(volume, files, 0, &[7; FILE_BYTES]))?;
    let remove = |volume: &Volume<'_, Disk>, _: &mut Option<Buffer>| {
        let names: Vec<String> = (0..files).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut rest, mut batches) = (&names[..], 0);
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(BATCH)];
            let removed = blocking::run(volume, volume.remove_batch::<BATCH>(batch))?;
            if removed == 0 {
                return Err("a file that is not removed with others".into());
            }
            rest = &rest[removed..];
            batches += 1;
        }
        Ok(batches)
    };
    let (batches, counts) = world.mounted(remove)?;
    println!("batches {batches}");
    println!("flushes {}", counts.flushes);
    println!(
        "node_writes {}",
        counts.writes.commands as f64 / files as f64
    );
    println!("reads {}", counts.reads.commands as f64 / files as f64);
    let (usage, _) = world.mounted(|volume, _| Ok(blocking::run(volume, volume.usage())?))?;
    println!("files_left {}", usage.files);
    Ok(())
}

fn one(files: u64) -> Result<()> {
    // Units as those of a volume of more than 32 GiB.
    let mut world = World::new(18 << 30, Some(1 << 20))?;
    world.mounted(|volume, _| put(volume, files, 2 * SAMPLES, &[]))?;
    let mut most = |what: &str, run: &mut dyn FnMut(&mut World, u64) -> Result<Counts>| {
        let mut worst = (0, 0);
        for sample in 0..SAMPLES {
            let counts = run(&mut world, sample * (files / SAMPLES))?;
            worst.0 = worst.0.max(counts.reads.commands);
            worst.1 = worst.1.max(counts.reads.bytes);
        }
        println!("{what}_reads {}\n{what}_read_bytes {}", worst.0, worst.1);
        Result::Ok(())
    };
    let new = |number: u64| format!("new {number}");
    most("stat", &mut |world, number| {
        let stat = |volume: &Volume<'_, Disk>, _: &mut Option<Buffer>| {
            blocking::run(volume, volume.find(&name(number)))?;
            Ok(())
        };
        Ok(world.mounted(stat)?.1)
    })?;
    most("put", &mut |world, number| {
        let put = |volume: &Volume<'_, Disk>, data: &mut Option<Buffer>| {
            let name = new(number);
            let options = CreateOptions {
                reserve_bytes: FILE_BYTES as u64,
                checksums: true,
                app_tag: 0,
            };
            let made = volume.with_space(|| volume.create(&name, &options));
            let file = blocking::run(volume, made)?;
            let outcome = blocking::append(volume, file, data.take().unwrap(), FILE_BYTES);
            *data = Some(outcome.buffer);
            outcome.result?;
            blocking::run(volume, volume.close(file))?;
            Ok(())
        };
        Ok(world.mounted(put)?.1)
    })?;
    most("get", &mut |world, number| {
        let get = |volume: &Volume<'_, Disk>, data: &mut Option<Buffer>| {
            let file = blocking::run(volume, volume.open(&new(number)))?;
            let outcome = blocking::read(volume, file, 0, data.take().unwrap());
            *data = Some(outcome.buffer);
            outcome.result?;
            blocking::run(volume, volume.close(file))?;
            Ok(())
        };
        Ok(world.mounted(get)?.1)
    })?;
    most("rm", &mut |world, number| {
        let remove = |volume: &Volume<'_, Disk>, _: &mut Option<Buffer>| {
            blocking::run(volume, volume.remove_whole(&new(number)))?;
            Ok(())
        };
        Ok(world.mounted(remove)?.1)
    })?;
    let (metadata, counts) = world.mounted(|volume, _| {
        let shape = volume.status().shape;
        let bitmaps = shape.unit_count().div_ceil(shape.group_units());
        let nodes = 2 * (u64::from(volume.slots()) + bitmaps);
        // As the command has it: bits for all units, and four bytes for each slot.
        let bits = bitmaps as usize * shape.node_bytes() / 2;
        let mut scratch = vec![0; bits + 4 * volume.slots() as usize];
        let mut found = 0;
        let mut report = |_| found += 1;
        let check = volume.check(&mut scratch, &mut report);
        let summary = blocking::run(volume, check)?;
        println!("files {}", summary.files);
        println!("findings {found}");
        println!("slots {}", volume.slots());
        Ok(nodes << shape.node_log2)
    })?;
    println!("metadata_bytes {metadata}");
    println!("check_reads {}", counts.reads.commands);
    println!("check_read_bytes {}", counts.reads.bytes);
    println!(
        "check_reads_over_64k {}",
        counts.reads.commands as f64 / (metadata as f64 / 65536.0)
    );
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["put", files] => many(files.parse()?),
        ["rm", files] => rm(files.parse()?),
        ["one", files] => one(files.parse()?),
        _ => Err("usage: volume_many put|rm|one FILES".into()),
    }
}
