// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checksums that are stored while a file grows: without a flush, and without effect until the
//! commit that covers their data.

use crate::support::{buffer, files, free, make, memory, mount};
use block::{Buffer, Device};
use crash::{Config, CrashDisk, Medium, Sampling};
use straightway_volume::blocking::run;
use straightway_volume::checksum::crc32c;
use straightway_volume::{CreateOptions, Error, File, FormatOptions, Volume};

const BLOCK: usize = 4096;
const CHUNK: usize = 65_536;
const MEBIBYTE: usize = 1 << 20;

fn disk(megabytes: u64) -> CrashDisk {
    let config = Config {
        max_transfer_blocks: (MEBIBYTE / BLOCK) as u32,
        ..Config::default()
    };
    let mut disk = Medium::new(12, megabytes << 8).unwrap().open(config);
    let options = FormatOptions {
        checksums: true,
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn create<D: Device>(volume: &Volume<'_, D>, reserve_bytes: u64) -> File {
    let options = CreateOptions {
        checksums: true,
        reserve_bytes,
        ..CreateOptions::default()
    };
    run(volume, volume.create("sums", &options)).unwrap()
}

/// The bytes of the file from `offset` on: no two chunks alike.
fn data(offset: usize, len: usize) -> Buffer {
    let mut data = buffer(len);
    for (index, word) in data.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&((offset / 8 + index) as u64).to_le_bytes());
    }
    data
}

fn append<D: Device>(volume: &Volume<'_, D>, file: File, offset: usize, len: usize) {
    volume.append(file, data(offset, len), len, 0).unwrap();
    volume.kick();
    let event = std::iter::repeat_with(|| volume.poll()).flatten().next();
    let event = event.unwrap();
    assert_eq!(event.result, Ok(()));
    event.buffer.into_iter().for_each(free);
}

fn stored<D: Device>(volume: &Volume<'_, D>, file: File) -> Vec<u32> {
    let mut all = Vec::new();
    loop {
        let mut some = [0; 100];
        let found = run(volume, volume.checksums(file, all.len() as u64, &mut some)).unwrap();
        if found == 0 {
            return all;
        }
        all.extend(&some[..found]);
    }
}

fn expected(len: usize) -> Vec<u32> {
    let whole = data(0, len.next_multiple_of(8));
    let sums = whole[..len].chunks(CHUNK).map(|chunk| crc32c(0, chunk));
    let sums = sums.collect();
    free(whole);
    sums
}

/// More than the volume keeps in memory is appended with no flush and no commit between.
#[test]
fn a_long_append_stores_its_checksums_without_a_flush() {
    let len = 20 * MEBIBYTE + 3 * BLOCK;
    let disk = crash::Counting::new(disk(32));
    let counter = disk.counter();
    let mut files = files();
    let volume = mount(disk, memory(4096, 0), &mut files, false).unwrap();
    let file = create(&volume, len as u64);
    append(&volume, file, 0, MEBIBYTE);
    run(&volume, volume.store_checksums(file)).unwrap();
    counter.take();
    for offset in (MEBIBYTE..20 * MEBIBYTE).step_by(MEBIBYTE) {
        append(&volume, file, offset, MEBIBYTE);
        if offset % (4 * MEBIBYTE) == 0 {
            run(&volume, volume.store_checksums(file)).unwrap();
        }
    }
    assert_eq!(counter.counts().flushes, 0);
    assert_eq!(volume.file_status(file).unwrap().committed_bytes, 0);
    append(&volume, file, 20 * MEBIBYTE, 3 * BLOCK);
    assert_eq!(run(&volume, volume.sync(file)), Ok(len as u64));
    assert_eq!(stored(&volume, file), expected(len));
    let read =
        straightway_volume::blocking::read(&volume, file, 19 * MEBIBYTE as u64, buffer(MEBIBYTE));
    assert_eq!(read.result, Ok(()));
    let at = 19 * MEBIBYTE as u64;
    assert_eq!(run(&volume, volume.verify(file, at, &read.buffer)), Ok(()));
}

/// A power cut after they were stored leaves what was committed, with its checksums.
#[test]
fn checksums_stored_ahead_of_a_power_cut_change_nothing_committed() {
    let disk = disk(4);
    let mut table = files();
    let volume = mount(disk.clone(), memory(4096, 0), &mut table, false).unwrap();
    let file = create(&volume, MEBIBYTE as u64);
    append(&volume, file, 0, 3 * CHUNK);
    run(&volume, volume.sync(file)).unwrap();
    append(&volume, file, 3 * CHUNK, 2 * CHUNK);
    run(&volume, volume.store_checksums(file)).unwrap();
    let images: Vec<_> = disk.images(&Sampling::default()).collect();
    assert!(images.len() > 32, "{}", images.len());
    for image in images {
        let mut table = files();
        let volume = mount(
            image.open(Config::default()),
            memory(4096, 0),
            &mut table,
            false,
        );
        let volume = volume.map_err(|(error, _)| error).unwrap();
        let file = run(&volume, volume.open_to_write("sums")).unwrap();
        assert_eq!(stored(&volume, file), expected(3 * CHUNK));
        // And it continues from there.
        append(&volume, file, 3 * CHUNK, CHUNK);
        run(&volume, volume.sync(file)).unwrap();
        assert_eq!(stored(&volume, file), expected(4 * CHUNK));
    }
}

#[test]
fn what_keeps_no_checksums_says_so() {
    let mut table = files();
    let volume = mount(disk(4), memory(4096, 0), &mut table, false).unwrap();
    let file = run(&volume, volume.create("plain", &CreateOptions::default())).unwrap();
    let refused = run(&volume, volume.store_checksums(file));
    assert_eq!(refused, Err(Error::Unsupported));
    let refused = run(&volume, volume.checksums(file, 0, &mut [0]));
    assert_eq!(refused, Err(Error::Unsupported));
    run(&volume, volume.close(file)).unwrap();
    let file = create(&volume, 0);
    assert_eq!(stored(&volume, file), []);
    run(&volume, volume.close(file)).unwrap();
    let file = run(&volume, volume.open("sums")).unwrap();
    let refused = run(&volume, volume.store_checksums(file));
    assert_eq!(refused, Err(Error::NotWritable));
}
