// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps of a volume's files.

mod permitted;

use block::{Buffer, Device, RamDisk};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use std::thread;
use straightway_map::{Error, FileDevice, Map, PagerOptions, Range, TableError, map, window_table};
use volume::{CreateOptions, Finding, FormatOptions, MountOptions, OpenFile, Volume, blocking};

const PAGE: usize = 4096;

fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

type Disk = RamDisk<Vec<u8>, 8>;

/// A volume with two files that grew in turns, so that both are in many pieces, with the bytes of
/// the first.
fn volume_with_files() -> (Disk, Vec<u8>) {
    let mut disk = Disk::new(vec![0; 4 << 20], 9).expect("a RAM disk");
    let options = FormatOptions {
        checksums: true,
        ..FormatOptions::default()
    };
    volume::format(&mut disk, buffer(4096), &options)
        .0
        .expect("a volume");
    let mut files = [const { OpenFile::new() }; 2];
    let volume = mounted(disk, &mut files);
    let plain = CreateOptions::default();
    let one = blocking::run(&volume, volume.create("one", &plain)).expect("a file");
    let summed = CreateOptions {
        checksums: true,
        ..plain
    };
    let two = blocking::run(&volume, volume.create("summed", &summed)).expect("a file");
    let mut random = fastrand::Rng::with_seed(7);
    let mut content = Vec::new();
    // The file's last block is not full.
    for piece in 0..40 {
        let len = if piece == 39 { 1000 } else { 8192 };
        let mut data = buffer(8192);
        random.fill(&mut data);
        content.extend_from_slice(&data[..len]);
        blocking::append(&volume, one, data, len)
            .result
            .expect("an append");
        blocking::append(&volume, two, buffer(8192), 8192)
            .result
            .expect("an append");
        blocking::run(&volume, volume.sync(one)).expect("a sync");
    }
    for file in [one, two] {
        blocking::run(&volume, volume.close(file)).expect("closed");
    }
    (volume.unmount().device, content)
}

fn mounted<'f>(disk: Disk, files: &'f mut [OpenFile]) -> Volume<'f, Disk> {
    let nodes = [(); 3].map(|()| buffer(4096));
    let mounted = Volume::mount(disk, nodes, files, &MountOptions::default());
    mounted
        .map_err(|unmounted| unmounted.result)
        .expect("a mount")
}

fn options(writable: bool) -> PagerOptions {
    PagerOptions {
        writable,
        resident_bytes: 6 * PAGE,
        dirty_bytes: 2 * PAGE,
        ..PagerOptions::default()
    }
}

/// Runs `body` with a map of all of `device` on another thread.
fn with_map<D: Device>(
    device: D,
    writable: bool,
    body: impl FnOnce(Map) + Send,
) -> Result<(), Error> {
    let size_bytes = device.geometry().size_bytes();
    let buffers = (0..4).map(|_| buffer(PAGE)).collect();
    let (map, server) = map(
        device,
        Range { lba: 0, size_bytes },
        &options(writable),
        buffers,
    )?;
    thread::scope(|scope| {
        let user = scope.spawn(|| body(map));
        let ended = server.run();
        user.join().expect("the test's own thread");
        ended.map(drop)
    })
}

fn load(map: &Map, at: usize) -> u8 {
    // SAFETY: inside the map, whose bytes only this test changes, on this thread.
    unsafe { map.as_ptr().add(at).read_volatile() }
}

#[test]
fn a_file_in_many_pieces_is_one_range_of_memory() {
    if permitted::is_missing(false) {
        return;
    }
    let (disk, content) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open("one")).expect("the file");
    let device = FileDevice::new(&volume, file, false).expect("a device");
    assert_eq!(device.size_bytes(), content.len() as u64);
    let ended = with_map(device, false, |map| {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..3000 {
            let at = random.usize(..content.len());
            assert_eq!(load(&map, at), content[at], "byte {at}");
        }
        // The rest of the last block and of the last page.
        for at in [content.len(), content.len().next_multiple_of(PAGE) - 1] {
            assert_eq!(load(&map, at), 0);
        }
        // SAFETY: as for `load`.
        let all = unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr(), content.len()) };
        assert!(all == content);
    });
    ended.expect("a clean end");
    blocking::run(&volume, volume.close(file)).expect("closed");
    volume.unmount().result.expect("unmounted");
}

#[test]
fn data_that_does_not_match_its_checksum_is_an_error_and_the_rest_is_read() {
    if permitted::is_missing(false) {
        return;
    }
    const CHUNK: usize = 64 << 10;
    let mut memory = vec![0; 4 << 20];
    let mut content = vec![0; 3 * CHUNK + 1000];
    fastrand::Rng::with_seed(3).fill(&mut content);
    {
        let mut disk = RamDisk::<_, 8>::new(memory.as_mut_slice(), 9).expect("a RAM disk");
        let options = FormatOptions {
            checksums: true,
            ..FormatOptions::default()
        };
        let formatted = volume::format(&mut disk, buffer(4096), &options);
        formatted.0.expect("a volume");
        let mut files = [const { OpenFile::new() }; 1];
        let nodes = [(); 3].map(|()| buffer(4096));
        let volume = Volume::mount(disk, nodes, &mut files, &MountOptions::default());
        let volume = volume
            .map_err(|unmounted| unmounted.result)
            .expect("a mount");
        let summed = CreateOptions {
            checksums: true,
            ..CreateOptions::default()
        };
        let file = blocking::run(&volume, volume.create("summed", &summed)).expect("a file");
        let mut data = buffer(content.len().next_multiple_of(512));
        data[..content.len()].copy_from_slice(&content);
        let appended = blocking::append(&volume, file, data, content.len());
        appended.result.expect("an append");
        blocking::run(&volume, volume.close(file)).expect("closed");
        volume.unmount().result.expect("unmounted");
    }
    // A bit of the second chunk, and one of the last.
    for at in [CHUNK + 77, 3 * CHUNK + 999] {
        let part = &content[at - 60..=at];
        let mut places = memory.windows(part.len());
        let place = places.position(|bytes| bytes == part).expect("the data") + 60;
        memory[place] ^= 4;
    }
    let disk = Disk::new(memory, 9).expect("a RAM disk");
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open("summed")).expect("the file");
    let mut device = FileDevice::verifying(&volume, file).expect("a device");
    assert_eq!(device.geometry().size_bytes(), 4 * CHUNK as u64);
    for chunk in 0..4 {
        let read = block::blocking::read(&mut device, chunk, buffer(CHUNK));
        match chunk {
            0 | 2 => {
                assert_eq!(read.result, Ok(()));
                let start = chunk as usize * CHUNK;
                assert!(read.buffer[..] == content[start..start + CHUNK]);
            }
            _ => {
                let errno = libc::EBADMSG;
                assert_eq!(read.result, Err(block::Error::Os { errno }));
            }
        }
    }
    // Pages that are shorter than what has a checksum.
    assert!(with_map(device, false, |_| {}).is_err());
    blocking::run(&volume, volume.close(file)).expect("closed");
}

#[test]
fn stores_change_the_file_and_nothing_else() {
    if permitted::is_missing(false) {
        return;
    }
    let (disk, mut content) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open_to_write("one")).expect("the file");
    let device = FileDevice::new(&volume, file, true).expect("a device");
    let expected = &mut content;
    let ended = with_map(device, true, |map| {
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..1500 {
            let at = random.usize(..expected.len());
            assert_eq!(load(&map, at), expected[at], "round {round}, byte {at}");
            expected[at] = random.u8(..);
            // SAFETY: as for `load`.
            unsafe { map.as_ptr().add(at).write_volatile(expected[at]) };
            if round % 300 == 0 {
                map.sync().expect("a sync");
            }
        }
    });
    ended.expect("a clean end");
    blocking::run(&volume, volume.close(file)).expect("closed");
    let disk = volume.unmount().device;
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open("one")).expect("the file");
    let read = blocking::read(
        &volume,
        file,
        0,
        buffer(content.len().next_multiple_of(512)),
    );
    read.result.expect("the file");
    assert!(read.buffer[..content.len()] == content[..]);
    blocking::run(&volume, volume.close(file)).expect("closed");
    let (mut scratch, mut findings) = (vec![0; 4096], Vec::new());
    let mut report = |finding| findings.push(finding);
    blocking::run(&volume, volume.check(&mut scratch, &mut report)).expect("a check");
    assert!(findings.is_empty(), "{findings:?}");
}

/// The bytes of `name` on the volume, which has no findings but space that a writer did not give
/// back.
fn content_of(disk: Disk, name: &str) -> (Vec<u8>, Disk) {
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open(name)).expect("the file");
    let size = volume.file_status(file).expect("open").committed_bytes as usize;
    let read = blocking::read(&volume, file, 0, buffer(size.next_multiple_of(512)));
    read.result.expect("the file");
    blocking::run(&volume, volume.close(file)).expect("closed");
    let (mut scratch, mut findings) = (vec![0; 4096], Vec::new());
    let mut report = |finding| findings.push(finding);
    blocking::run(&volume, volume.check(&mut scratch, &mut report)).expect("a check");
    findings.retain(|finding| !matches!(finding, Finding::Reserved { .. }));
    assert!(findings.is_empty(), "{findings:?}");
    (read.buffer[..size].to_vec(), volume.unmount().device)
}

#[test]
fn a_file_grows_by_what_is_stored_when_its_user_says_so() {
    if permitted::is_missing(false) {
        return;
    }
    let (mut disk, content) = volume_with_files();
    const CAPACITY: usize = 900_000;
    for (name, spare_bytes, seed) in [
        ("one", 512, 1),
        ("empty", 3 * PAGE, 2),
        ("far", 64 << 10, 3),
    ] {
        let mut expected = vec![0; CAPACITY];
        let mut files = [const { OpenFile::new() }; 1];
        let volume = mounted(disk, &mut files);
        let before = match name {
            "one" => content.len(),
            _ => {
                let options = CreateOptions::default();
                let created = volume.create(name, &options);
                let file = blocking::run(&volume, created).expect("a file");
                blocking::run(&volume, volume.close(file)).expect("closed");
                0
            }
        };
        expected[..before].copy_from_slice(&content[..before]);
        let file = blocking::run(&volume, volume.open_to_write(name)).expect("the file");
        let growing = FileDevice::growing(&volume, file, CAPACITY as u64, buffer(spare_bytes));
        let (device, size) = growing.expect("a device");
        assert_eq!(size.get(), before as u64);
        let (memory, length) = (&mut expected, size.clone());
        let ended = with_map(device, true, move |map| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut last = before;
            for round in 0..600 {
                // Mostly a little further than the last, so that much is appended in order.
                let at = match random.u8(..8) {
                    0 => random.usize(..CAPACITY - 100_000),
                    _ => (last + random.usize(..3000)) % (CAPACITY - 100_000),
                };
                last = at;
                assert_eq!(load(&map, at), memory[at], "round {round}, byte {at}");
                memory[at] = random.u8(..);
                // SAFETY: as for `load`.
                unsafe { map.as_ptr().add(at).write_volatile(memory[at]) };
                if round % 100 == 0 {
                    length.grow_to(at as u64 + 1).expect("within the capacity");
                    map.sync().expect("a sync");
                }
            }
            let refused = length.grow_to(CAPACITY as u64 + 1);
            assert_eq!(refused, Err(volume::Error::PastEnd));
            length
                .grow_to(CAPACITY as u64 - 777)
                .expect("within the capacity");
            map.sync().expect("a sync");
            // Not part of the file.
            // SAFETY: as for `load`.
            unsafe { map.as_ptr().add(CAPACITY - 1).write_volatile(1) };
        });
        ended.expect("a clean end");
        assert_eq!(size.get(), CAPACITY as u64 - 777);
        let status = volume.file_status(file).expect("open");
        assert_eq!(status.committed_bytes, CAPACITY as u64 - 777);
        blocking::run(&volume, volume.close(file)).expect("closed");
        let (found, after) = content_of(volume.unmount().device, name);
        assert!(found == expected[..CAPACITY - 777], "{name}");
        let mut files = [const { OpenFile::new() }; 1];
        let volume = mounted(after, &mut files);
        blocking::run(&volume, volume.remove(name)).expect("removed");
        blocking::run(&volume, volume.reclaim_all()).expect("its space");
        disk = volume.unmount().device;
    }
}

#[test]
fn what_could_not_be_appended_is_kept_and_a_later_sync_writes_it() {
    if permitted::is_missing(false) {
        return;
    }
    const MEDIUM: block::Error = block::Error::Nvme { status: 0x281 };
    const PAGES: usize = 20;
    let (disk, content) = volume_with_files();
    let mut memory = vec![0; disk.geometry().size_bytes() as usize];
    let mut disk = disk;
    for (block, bytes) in memory.chunks_mut(PAGE).enumerate() {
        let read = block::blocking::read(&mut disk, block as u64 * 8, buffer(PAGE));
        read.result.expect("a block");
        bytes.copy_from_slice(&read.buffer);
    }
    let (mut failed, mut recovered) = (0, 0);
    for write in 1..40 {
        let disk = Disk::new(memory.clone(), 9).expect("a RAM disk");
        let rule = Rule::once(On::Kind(CommandKind::Write), write, Fault::Fail(MEDIUM));
        let mut files = [const { OpenFile::new() }; 1];
        let nodes = [(); 3].map(|()| buffer(4096));
        let faulty = Faulty::new(disk, [rule]);
        let volume = Volume::mount(faulty, nodes, &mut files, &MountOptions::default());
        let volume = volume
            .map_err(|unmounted| unmounted.result)
            .expect("a mount");
        let file = blocking::run(&volume, volume.open_to_write("one")).expect("the file");
        let capacity_bytes = (content.len() + PAGES * PAGE) as u64;
        let growing = FileDevice::growing(&volume, file, capacity_bytes, buffer(2 * PAGE));
        let Some((device, size)) = growing.ok() else {
            failed += 1;
            continue;
        };
        let mut is_synced = false;
        let ended = with_map(device, true, |map| {
            for page in 0..PAGES {
                // SAFETY: inside the map, which only this thread accesses.
                unsafe {
                    map.as_ptr()
                        .add(content.len() + page * PAGE)
                        .write_volatile(page as u8)
                };
            }
            size.grow_to(capacity_bytes).expect("within the capacity");
            let mut synced = map.sync();
            failed += usize::from(synced.is_err());
            if synced.is_err() {
                synced = map.sync();
            }
            is_synced = synced.is_ok();
        });
        drop(ended);
        let _ = blocking::run(&volume, volume.close(file));
        let (found, _) = content_of(volume.unmount().device.into_inner(), "one");
        assert!(found.starts_with(&content), "write {write}");
        if is_synced {
            recovered += 1;
            assert_eq!(found.len() as u64, capacity_bytes, "write {write}");
            for (page, bytes) in found[content.len()..].chunks(PAGE).enumerate() {
                assert!(bytes[0] == page as u8 && bytes[1..].iter().all(|&byte| byte == 0));
            }
        }
    }
    println!("{failed} failed, {recovered} were written in the end");
    assert!(failed > 5 && recovered > 20, "{failed}, {recovered}");
}

#[test]
fn a_file_that_cannot_grow_is_refused_and_keeps_its_size() {
    if permitted::is_missing(false) {
        return;
    }
    let (disk, content) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 2];
    let volume = mounted(disk, &mut files);
    let one = blocking::run(&volume, volume.open_to_write("one")).expect("the file");
    let summed = blocking::run(&volume, volume.open_to_write("summed")).expect("the file");
    let refused = |file, capacity, spare| {
        let device = FileDevice::growing(&volume, file, capacity, buffer(spare));
        device.map(drop).expect_err("refused")
    };
    let size = content.len() as u64;
    assert_eq!(refused(one, size - 1, 512), volume::Error::PastEnd);
    assert_eq!(refused(one, size + 1, 256), volume::Error::PastEnd);
    assert_eq!(refused(one, 1 << 40, 512), volume::Error::NoSpace);
    assert_eq!(refused(one, 100 << 20, 512), volume::Error::NoSpace);
    assert_eq!(refused(summed, 1 << 20, 512), volume::Error::Unsupported);
    for file in [one, summed] {
        blocking::run(&volume, volume.close(file)).expect("closed");
    }
    let (found, _) = content_of(volume.unmount().device, "one");
    assert!(found == content);
}

#[test]
fn files_that_cannot_be_mapped_are_refused() {
    if permitted::is_missing(false) {
        return;
    }
    let (disk, _) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 2];
    let volume = mounted(disk, &mut files);
    let summed = blocking::run(&volume, volume.open_to_write("summed")).expect("the file");
    let refused = FileDevice::new(&volume, summed, true).map(drop);
    assert_eq!(refused, Err(volume::Error::Unsupported));
    let device = FileDevice::new(&volume, summed, false).expect("to read");
    let refused = with_map(device, true, |_| {});
    assert!(refused.is_err_and(|error| error.to_string().contains("read-only")));
    let one = blocking::run(&volume, volume.open("one")).expect("the file");
    let refused = FileDevice::verifying(&volume, one).map(drop);
    assert_eq!(refused, Err(volume::Error::Unsupported));
    blocking::run(&volume, volume.close(one)).expect("closed");
    let empty = blocking::run(&volume, volume.create("empty", &CreateOptions::default()));
    let refused = FileDevice::new(&volume, empty.expect("a file"), false).map(drop);
    assert_eq!(refused, Err(volume::Error::PastEnd));
}

#[test]
fn a_mapped_file_is_neither_removed_nor_renamed_nor_written_by_another() {
    if permitted::is_missing(false) {
        return;
    }
    let (disk, content) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 2];
    let volume = mounted(disk, &mut files);
    let file = blocking::run(&volume, volume.open_to_write("one")).expect("the file");
    let in_use = Err(volume::Error::InUse);
    assert_eq!(
        blocking::run(&volume, volume.open_to_write("one")).map(drop),
        in_use
    );
    assert_eq!(blocking::run(&volume, volume.remove("one")), in_use);
    assert_eq!(
        blocking::run(&volume, volume.rename("one", "other")),
        in_use
    );
    let device = FileDevice::new(&volume, file, true).expect("a device");
    let ended = with_map(device, true, |map| {
        assert_eq!(load(&map, 5 * PAGE), content[5 * PAGE]);
    });
    ended.expect("a clean end");
}

#[test]
fn a_table_has_the_place_of_each_page_of_a_file() {
    let (disk, content) = volume_with_files();
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    let page = PAGE as u64;
    let table = window_table(&volume, "one", page, true).expect("a table");
    let refused =
        |name, page, writable| window_table(&volume, name, page, writable).expect_err("refused");
    for bytes in [0, 512, 2048, 5000, 128 << 10] {
        assert_eq!(refused("one", bytes, false), TableError::PageSize(bytes));
    }
    assert_eq!(refused("summed", page, true), TableError::Checksums);
    let summed = window_table(&volume, "summed", page, false).expect("to read");
    assert_eq!(summed.len(), 40 * 8192 / PAGE);
    // Its pieces of 8 KiB lie apart.
    let unaligned = refused("one", 16 << 10, false);
    assert!(
        matches!(unaligned, TableError::Unaligned { .. }),
        "{unaligned}"
    );
    let none = refused("none", page, false);
    assert_eq!(none, TableError::Volume(volume::Error::NotFound));
    let empty = blocking::run(&volume, volume.create("empty", &CreateOptions::default()));
    blocking::run(&volume, volume.close(empty.expect("a file"))).expect("closed");
    assert_eq!(refused("empty", page, false), TableError::Empty);

    let mut disk = volume.unmount().device;
    assert_eq!(table.len(), content.len().div_ceil(PAGE));
    let places: std::collections::HashSet<u32> = table.iter().copied().collect();
    assert_eq!(places.len(), table.len());
    for (entry, bytes) in table.into_iter().zip(content.chunks(PAGE)) {
        assert_eq!(entry >> 29, 0b011, "on the drive, may be written");
        let number = u64::from(entry & ((1 << 29) - 1));
        let read = block::blocking::read(&mut disk, number * 8, buffer(PAGE));
        read.result.expect("a page");
        assert!(read.buffer.starts_with(bytes));
    }
}

#[test]
fn a_file_whose_pages_are_not_pages_of_the_device_has_no_table() {
    let mut disk = Disk::new(vec![0; 4 << 20], 9).expect("a RAM disk");
    let options = FormatOptions {
        unit_bytes: Some(512),
        ..FormatOptions::default()
    };
    let formatted = volume::format(&mut disk, buffer(4096), &options);
    formatted.0.expect("a volume");
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(disk, &mut files);
    // Whole pages, a short file, and two that grow by a block in turns.
    for (names, len, times) in [
        (&["whole"][..], 4096, 2),
        (&["short"], 512, 1),
        (&["a", "b"], 512, 16),
    ] {
        for name in names {
            let plain = CreateOptions::default();
            let file = blocking::run(&volume, volume.create(name, &plain)).expect("a file");
            blocking::run(&volume, volume.close(file)).expect("closed");
        }
        for name in names.repeat(times) {
            let file = blocking::run(&volume, volume.open_to_write(name)).expect("the file");
            let appended = blocking::append(&volume, file, buffer(4096), len);
            appended.result.expect("an append");
            blocking::run(&volume, volume.close(file)).expect("closed");
        }
        for name in names {
            let table = window_table(&volume, name, 4096, false);
            match *name {
                "whole" => assert_eq!(table.map(|table| table.len()), Ok(2)),
                _ => assert!(matches!(table, Err(TableError::Unaligned { .. })), "{name}"),
            }
        }
    }
}
