//! Threads that load and store in maps whose device fails at random and whose memory holds a part: each
//! access ends, memory stays within its limit, and the device has every store that was made.
//!
//! `cargo run --release -p straightway-map --example map_storm -- [LIVES | SECONDS s]`, as root:
//! `map_storm 50` makes 50 maps, `map_storm 600s` as many as ten minutes allow. `STRAIGHTWAY_SEED`
//! repeats a run. The accesses are those of system calls, which return an error where a thread would
//! get the signal.

use crash::{Fault, Faults, Faulty, Kind, On, Rule};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::mm::{Advice, madvise};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use straightway_map::block::{self, Buffer, RamDisk, blocking};
use straightway_map::{Counters, Map, Options, Range, map};

const KERNEL_PAGE: usize = 4096;
const LEN: usize = 64 * KERNEL_PAGE;
const THREADS: usize = 4;
const ACCESSES: usize = 600;
/// A run without an access for so long has a thread that waits in vain.
const HANG: Duration = Duration::from_secs(120);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
type Disk = RamDisk<Vec<u8>, 8>;

/// Accesses that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<()> {
    let limit = std::env::args().nth(1).unwrap_or("50".to_owned());
    let (mut lives, mut left) = (u64::MAX, Duration::MAX);
    match limit.strip_suffix('s') {
        Some(seconds) => left = Duration::from_secs(seconds.parse()?),
        None => lives = limit.parse()?,
    }
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = seed.map(|text| text.parse()).transpose()?;
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    thread::spawn(watch);
    let mut random = fastrand::Rng::with_seed(seed);
    let (began, mut made, mut sum) = (Instant::now(), 0, Counters::default());
    let (mut refused, mut most) = (0, 0);
    while made < lives && began.elapsed() < left {
        let life = live(&mut random).map_err(|error| format!("life {made}: {error}"))?;
        made += 1;
        refused += life.refused;
        most = life.most_resident.max(most);
        sum.evictions += life.counters.evictions;
        sum.failures += life.counters.failures;
    }
    println!(
        "{made} lives, {} accesses, {refused} of them errors; {} failures of the device, {} evictions; at most {most} % of the memory's limit",
        ENDED.load(Ordering::Relaxed),
        sum.failures,
        sum.evictions,
    );
    Ok(())
}

/// Ends the process if no access ends.
fn watch() {
    let (mut before, mut since) = (0, Instant::now());
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = ENDED.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        } else if since.elapsed() > HANG {
            eprintln!("no access has ended for {HANG:?}");
            std::process::exit(1);
        }
    }
}

struct Life {
    counters: Counters,
    refused: u64,
    most_resident: u64,
}

fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

/// Reads that fail are few, because each makes its page an error; writes are tried again.
fn rules(random: &mut fastrand::Rng) -> Vec<Rule> {
    let medium = block::Error::Nvme { status: 0x281 };
    let mut rules = Vec::new();
    for (kind, count, range) in [
        (Kind::Read, 6, 1..2000),
        (Kind::Write, 40, 1..1000),
        (Kind::Flush, 2, 1..20),
    ] {
        for _ in 0..random.usize(..=count) {
            let fault = match (random.u8(..3), kind) {
                (0, _) | (_, Kind::Flush) => Fault::Fail(medium),
                (1, _) => Fault::FailDone(medium),
                (_, _) => Fault::Short { done_blocks: 1 },
            };
            rules.push(Rule::once(On::Kind(kind), random.u64(range.clone()), fault));
        }
    }
    rules
}

/// One map, from an empty disk to the comparison of what is on it.
fn live(random: &mut fastrand::Rng) -> Result<Life> {
    let disk: Disk = RamDisk::new(vec![0; LEN], 9)?;
    let page_bytes = KERNEL_PAGE << random.u8(..3);
    let options = Options {
        writable: true,
        stores_by_content: random.bool(),
        page_bytes,
        resident_bytes: page_bytes * random.usize(2..10),
        dirty_bytes: page_bytes * random.usize(..6),
        dirty_age: random.bool().then_some(Duration::from_millis(1)),
        read_ahead_bytes: page_bytes * random.usize(..4),
        ..Options::default()
    };
    let range = Range {
        lba: 0,
        size_bytes: LEN as u64,
    };
    let memory = (0..random.usize(1..6)).map(|_| buffer(page_bytes));
    let device = Faulty::new(disk, rules(random));
    let faults = device.faults();
    let (map, server) = map(device, range, &options, memory.collect())?;
    let seeds = [(); THREADS + 1].map(|()| random.u64(..));
    let (device, users) = thread::scope(|scope| {
        let users = scope.spawn(move || use_map(&map, &options, seeds, &faults));
        let served = server.run();
        let users = users.join().map_err(|_| "a user's thread panicked")?;
        Ok::<_, Box<dyn Error + Send + Sync>>((served?.0, users?))
    })?;
    let (life, lanes) = users;
    let mut disk = device.into_inner();
    for at in (0..LEN).step_by(KERNEL_PAGE) {
        let read = blocking::read(&mut disk, (at / 512) as u64, buffer(512));
        read.result?;
        for (thread, lane) in lanes.iter().enumerate() {
            let (found, stored) = (read.buffer[thread], lane[at / KERNEL_PAGE]);
            if found != stored {
                return Err(format!("byte {at} + {thread} is {found}, not {stored}").into());
            }
        }
    }
    Ok(life)
}

/// Runs the threads; returns what each has stored in its byte of each of the kernel's pages.
fn use_map(
    map: &Map,
    options: &Options,
    seeds: [u64; THREADS + 1],
    faults: &Faults,
) -> Result<(Life, Vec<Vec<u8>>)> {
    let has_ended = AtomicBool::new(false);
    let (lanes, most_resident) = thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let random = fastrand::Rng::with_seed(seeds[thread]);
            scope.spawn(move || access(map, thread, random))
        });
        let threads: Vec<_> = threads.collect();
        let random = fastrand::Rng::with_seed(seeds[THREADS]);
        let adviser = scope.spawn(|| advise(map, options, random, &has_ended));
        let lanes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        has_ended.store(true, Ordering::Relaxed);
        (lanes, adviser.join())
    });
    let panicked = "a thread panicked";
    let most_resident = most_resident.map_err(|_| panicked)??;
    let lanes = lanes.into_iter().map(|lane| lane.map_err(|_| panicked)?);
    let lanes: Result<Vec<_>> = lanes.collect();
    let (lanes, refused): (Vec<_>, Vec<u64>) = lanes?.into_iter().unzip();
    // What could not be written was kept, and a device that is well again takes it.
    faults.clear();
    // A write that had begun before may have failed.
    map.sync().or_else(|_| map.sync())?;
    let life = Life {
        counters: map.counters(),
        refused: refused.iter().sum(),
        most_resident,
    };
    Ok((life, lanes))
}

/// Loads and stores the thread's byte of each page; a load that is served must find what was stored.
fn access(map: &Map, thread: usize, mut random: fastrand::Rng) -> Result<(Vec<u8>, u64)> {
    let values = memfd_create("values", MemfdFlags::CLOEXEC)?;
    pwrite(&values, &(0..=255).collect::<Vec<u8>>(), 0)?;
    let loaded = memfd_create("loaded", MemfdFlags::CLOEXEC)?;
    let (mut lane, mut refused) = (vec![0u8; LEN / KERNEL_PAGE], 0);
    for _ in 0..ACCESSES {
        let page = random.usize(..lane.len());
        let at = page * KERNEL_PAGE + thread;
        let ended = match random.bool() {
            true => store(map, at, &values, lane[page].wrapping_add(1)),
            false => load(map, at, &loaded),
        };
        match ended {
            Ok(Some(found)) if found != lane[page] => {
                return Err(format!("byte {at} is {found}, not {}", lane[page]).into());
            }
            Ok(Some(_)) => {}
            Ok(None) => lane[page] = lane[page].wrapping_add(1),
            Err(rustix::io::Errno::FAULT) => refused += 1,
            Err(error) => return Err(error.into()),
        }
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    Ok((lane, refused))
}

fn load(map: &Map, at: usize, file: &OwnedFd) -> rustix::io::Result<Option<u8>> {
    // SAFETY: inside the map, of which only this thread accesses this byte, and the kernel reads it.
    let byte = unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr().add(at), 1) };
    pwrite(file, byte, 0)?;
    let mut found = [0];
    pread(file, &mut found, 0)?;
    Ok(Some(found[0]))
}

fn store(map: &Map, at: usize, values: &OwnedFd, value: u8) -> rustix::io::Result<Option<u8>> {
    // SAFETY: as in `load`; the kernel writes it.
    let byte = unsafe { std::slice::from_raw_parts_mut(map.as_ptr().as_ptr().add(at), 1) };
    pread(values, byte, u64::from(value))?;
    Ok(None)
}

/// Advises, syncs, has the kernel unmap pages, and looks at the memory; returns the most of it that
/// was in use, in percent of the limit.
fn advise(
    map: &Map,
    options: &Options,
    mut random: fastrand::Rng,
    has_ended: &AtomicBool,
) -> Result<u64> {
    let mut most = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let start = random.u64(..LEN as u64);
        let bytes = start..random.u64(start..=LEN as u64);
        match random.u8(..6) {
            0 => map.prefetch(bytes)?,
            1 => map.evict(bytes)?,
            // It fails where the device or the memory's limit does.
            2 => drop(
                map.pin(start..start + 1)
                    .and_then(|()| map.unpin(start..start + 1)),
            ),
            3 => drop(map.sync()),
            // SAFETY: the range is the map's, and its content stays.
            4 => unsafe { madvise(map.as_ptr().as_ptr().cast(), LEN, Advice::LinuxPageOut)? },
            _ => {}
        }
        let resident = map.resident_bytes()?;
        if resident > options.resident_bytes as u64 {
            return Err(format!("{resident} bytes are in memory: {options:?}").into());
        }
        most = most.max(100 * resident / options.resident_bytes as u64);
    }
    Ok(most)
}
