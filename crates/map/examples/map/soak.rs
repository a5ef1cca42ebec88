// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random loads and stores in a map of a RAM disk, each compared with a copy, and a sync now and
//! then, with each way to find stores and to serve faults: `map soak [ROUNDS]`; `STRAIGHTWAY_SEED`
//! repeats it. With `short` instead of ROUNDS the kernel refuses memory for a while, by
//! vm.overcommit_memory, in the whole machine.

use crate::Result;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::thread;
use straightway_map::block::{Buffer, RamDisk, blocking};
use straightway_map::{Map, PageError, PagerOptions, Range, map, map_local};

const PAGE: usize = 4096;
const PAGES: usize = 64;

pub fn main(arguments: &[String]) -> Result<()> {
    let rounds = match arguments {
        [] => 20000,
        [word] if word == "short" => return short_of_memory(),
        [word] => word.parse()?,
        _ => return Err("usage: map soak [ROUNDS | short]".into()),
    };
    let seed = crate::seed()?;
    for stores_by_content in [false, true] {
        soak(rounds, seed, stores_by_content, false)?;
        soak(rounds, seed, stores_by_content, true)?;
    }
    println!("{rounds} rounds, and the disk has every store");
    Ok(())
}

fn soak(rounds: u64, seed: u64, stores_by_content: bool, serves_itself: bool) -> Result<()> {
    let disk = RamDisk::<_, 8>::new(vec![0; PAGES * PAGE], 9)?;
    let options = PagerOptions {
        writable: true,
        stores_by_content,
        resident_bytes: 16 * PAGE,
        dirty_bytes: 4 * PAGE,
        ..PagerOptions::default()
    };
    let range = Range {
        lba: 0,
        size_bytes: (PAGES * PAGE) as u64,
    };
    let buffer = || Buffer::from_static(vec![0; PAGE].leak());
    let buffers = (0..4).map(|_| buffer()).collect();
    let (mut disk, copy) = if serves_itself {
        let map = map_local(disk, range, &options, buffers)?;
        let copy = work(
            map.as_ptr(),
            rounds,
            seed,
            (&|| map.sync(), &|| map.resident_bytes()),
        )?;
        (map.close()?.0, copy)
    } else {
        let (map, server) = map(disk, range, &options, buffers)?;
        thread::scope(|scope| {
            let user = scope.spawn(move || {
                work(
                    map.as_ptr(),
                    rounds,
                    seed,
                    (&|| map.sync(), &|| map.resident_bytes()),
                )
            });
            let (disk, _) = server.run()?;
            let copy = user.join().map_err(|_| "the user's thread panicked")??;
            Ok::<_, Box<dyn Error + Send + Sync>>((disk, copy))
        })?
    };
    for (page, expected) in copy.chunks(PAGE).enumerate() {
        let read = blocking::read(&mut disk, (page * PAGE / 512) as u64, buffer());
        read.result?;
        if read.buffer[..] != *expected {
            return Err(format!("page {page} is not on the disk").into());
        }
    }
    Ok(())
}

/// Pages that are copied while the kernel has no memory for them are errors, which are told; all
/// others are served, before and after.
fn short_of_memory() -> Result<()> {
    let disk = RamDisk::<_, 8>::new(vec![5; PAGES * PAGE], 9)?;
    let range = Range {
        lba: 0,
        size_bytes: (PAGES * PAGE) as u64,
    };
    let buffers = vec![Buffer::from_static(vec![0; PAGE].leak())];
    let (map, server) = map(disk, range, &PagerOptions::default(), buffers)?;
    thread::scope(|scope| {
        let user = scope.spawn(move || loads_amid_a_shortage(&map));
        server.run()?;
        user.join().map_err(|_| "the user's thread panicked")?
    })
}

fn loads_amid_a_shortage(map: &Map) -> Result<()> {
    let (_reader, mut writer) = UnixStream::pair()?;
    // A system call that is given a page which cannot be read fails with EFAULT.
    let mut is_served = |page: usize| {
        // SAFETY: inside the map, and only the kernel reads the byte.
        let byte = unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr().add(page * PAGE), 1) };
        writer.write(byte).is_ok()
    };
    let served = |pages: std::ops::Range<usize>, is_served: &mut dyn FnMut(usize) -> bool| {
        pages.filter(|&page| is_served(page)).count()
    };
    let before = served(0..16, &mut is_served);
    fs::write("/proc/sys/vm/overcommit_kbytes", "1")?;
    fs::write("/proc/sys/vm/overcommit_memory", "2")?;
    let amid = served(16..20, &mut is_served);
    fs::write("/proc/sys/vm/overcommit_memory", "0")?;
    let (after, again) = (
        served(20..64, &mut is_served),
        served(16..20, &mut is_served),
    );
    let failures = map.take_failures();
    let pages = failures
        .iter()
        .map(|failure| failure.offset_bytes as usize / PAGE);
    let errno = libc::ENOMEM;
    let is_told =
        |failure: &PageError| failure.error == straightway_map::block::Error::Os { errno };
    println!("served {before} before, {amid} amid, {after} after; again {again}");
    match (before, amid, after, again) {
        (16, 0, 44, 0) if pages.eq(16..20) && failures.iter().all(is_told) => Ok(()),
        _ => Err(format!("{failures:?}").into()),
    }
}

/// What a map answers.
type Call<'c, T> = &'c dyn Fn() -> straightway_map::Result<T>;

/// Loads and stores in the map at `start`; returns what is in it.
fn work(
    start: NonNull<u8>,
    rounds: u64,
    seed: u64,
    (sync, resident_bytes): (Call<'_, ()>, Call<'_, u64>),
) -> Result<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut copy = vec![0; PAGES * PAGE];
    for round in 0..rounds {
        let at = random.usize(..copy.len());
        // SAFETY: inside the map, which this thread alone uses.
        let byte = unsafe { start.add(at) };
        // SAFETY: as above.
        let loaded = unsafe { byte.read_volatile() };
        if loaded != copy[at] {
            return Err(format!("round {round}: byte {at} is {loaded}, not {}", copy[at]).into());
        }
        if random.bool() {
            copy[at] = random.u8(..);
            // SAFETY: as above, and the map is writable.
            unsafe { byte.write_volatile(copy[at]) };
        }
        if random.u8(..200) == 0 {
            sync()?;
        }
        let resident = resident_bytes()?;
        if resident > 16 * PAGE as u64 {
            return Err(format!("round {round}: {resident} bytes are in memory").into());
        }
    }
    Ok(copy)
}
