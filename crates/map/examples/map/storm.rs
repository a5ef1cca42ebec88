// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that load and store in maps whose devices fail at random and whose memory holds a part:
//! each access ends, memory stays within its limit, and the disk has every store that was made.
//!
//! `map storm [LIVES | SECONDS s]`, as root: `map storm 50` makes 50 pairs of maps, `map storm
//! 600s` as many as ten minutes allow. `STRAIGHTWAY_SEED` repeats a run. One map of a pair has
//! handler threads, each with a queue of its own; at the same time the threads of the other serve
//! themselves, each with a queue. Accesses to the first are those of system calls, which return an
//! error where a thread would get the signal; those to the second are loads and stores, whose
//! signal is handled.

use crate::queue::{Disk, Queue, queues};
use crate::{Result, tolerant};
use crash::{CommandKind, Fault, Faults, Faulty, On, Rule};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{Advice, madvise};
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use straightway_map::block::{self, Buffer, blocking};
use straightway_map::{
    Counters, LocalLanes, LocalMap, Map, PagerOptions, Range, map_lanes, map_local,
};

const KERNEL_PAGE: usize = 4096;
const LEN: usize = 64 * KERNEL_PAGE;
const WHOLE: Range = Range {
    lba: 0,
    size_bytes: LEN as u64,
};
/// Threads that use a map.
const THREADS: usize = 4;
/// The most threads that serve a map with handlers.
const SERVERS: usize = 3;
const ACCESSES: usize = 600;
/// A count of memory that stays above the limit for so long is one.
const SETTLES: Duration = Duration::from_secs(1);
/// A run without an access for so long has a thread that waits in vain.
const HANG: Duration = Duration::from_secs(120);

type Lane = (Faulty<Queue>, Vec<Buffer>);
/// What a thread has stored in its byte of each of the kernel's pages, and how many accesses were
/// errors.
type Used = (Vec<u8>, u64);

/// Accesses that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// What has happened to maps of one way to serve.
#[derive(Default)]
struct Life {
    lanes: usize,
    counters: Counters,
    refused: u64,
    most_resident_percent: u64,
}

impl Life {
    fn add(&mut self, other: &Self) {
        self.lanes += other.lanes;
        self.counters.evictions += other.counters.evictions;
        self.counters.failures += other.counters.failures;
        self.refused += other.refused;
        self.most_resident_percent = self.most_resident_percent.max(other.most_resident_percent);
    }
}

pub fn main(arguments: &[String]) -> Result<()> {
    let limit = match arguments {
        [] => "50",
        [limit] => limit,
        _ => return Err("usage: map storm [LIVES | SECONDS s]".into()),
    };
    let (mut lives, mut left) = (u64::MAX, Duration::MAX);
    match limit.strip_suffix('s') {
        Some(seconds) => left = Duration::from_secs(seconds.parse()?),
        None => lives = limit.parse()?,
    }
    let mut random = fastrand::Rng::with_seed(crate::seed()?);
    tolerant::install()?;
    thread::spawn(watch);
    let (began, mut made) = (Instant::now(), 0);
    let mut sums = [Life::default(), Life::default()];
    while made < lives && began.elapsed() < left {
        let life = live_twice(&mut random).map_err(|error| format!("life {made}: {error}"))?;
        sums.iter_mut()
            .zip(&life)
            .for_each(|(sum, life)| sum.add(life));
        made += 1;
    }
    println!(
        "{made} lives of two maps, {} accesses",
        ENDED.load(Ordering::Relaxed)
    );
    for (who, sum) in ["handler threads", "threads that serve themselves"]
        .iter()
        .zip(&sums)
    {
        println!(
            "{} {who}: {} accesses were errors; {} failures of the device, {} evictions; at most {} % of the memory's limit",
            sum.lanes,
            sum.refused,
            sum.counters.failures,
            sum.counters.evictions,
            sum.most_resident_percent
        );
    }
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

/// A map with handler threads, and at the same time one without.
fn live_twice(random: &mut fastrand::Rng) -> Result<[Life; 2]> {
    let mut other = random.fork();
    thread::scope(|scope| {
        let own = scope.spawn(move || live_by_itself(&mut other));
        let served = live_served(random);
        let own = own.join().map_err(|_| "the map's thread panicked")?;
        Ok([served?, own?])
    })
}

/// Reads that fail are few, because each makes its page an error; writes are tried again.
fn rules(random: &mut fastrand::Rng) -> Vec<Rule> {
    let medium = block::Error::Nvme { status: 0x281 };
    let mut rules = Vec::new();
    for (kind, count, range) in [
        (CommandKind::Read, 6, 1..2000),
        (CommandKind::Write, 40, 1..1000),
        (CommandKind::Flush, 2, 1..20),
    ] {
        for _ in 0..random.usize(..=count) {
            let fault = match (random.u8(..3), kind) {
                (0, _) | (_, CommandKind::Flush) => Fault::Fail(medium),
                (1, _) => Fault::FailDone(medium),
                (_, _) => Fault::Short { done_blocks: 1 },
            };
            rules.push(Rule::once(On::Kind(kind), random.u64(range.clone()), fault));
        }
    }
    rules
}

fn options(random: &mut fastrand::Rng) -> PagerOptions {
    let page_bytes = KERNEL_PAGE << random.u8(..3);
    PagerOptions {
        writable: true,
        stores_by_content: random.bool(),
        page_bytes,
        resident_bytes: page_bytes * random.usize(4..10),
        dirty_bytes: page_bytes * random.usize(..6),
        dirty_age: random.bool().then_some(Duration::from_millis(1)),
        read_ahead_bytes: page_bytes * random.usize(..4),
        spin: Duration::from_micros(random.u64(..2) * 20),
        ..PagerOptions::default()
    }
}

/// So many queues of an empty disk that fail, each with buffers, and the handles to their failures.
fn lanes(
    count: usize,
    page_bytes: usize,
    random: &mut fastrand::Rng,
) -> Result<(Vec<Lane>, Vec<Faults>)> {
    let disk: Disk = block::RamDisk::new(vec![0; LEN], 9)?;
    let queues = queues(disk, count, random).into_iter();
    let lanes: Vec<Lane> = queues
        .map(|queue| {
            let buffers = (0..random.usize(1..6)).map(|_| buffer(page_bytes));
            (Faulty::new(queue, rules(random)), buffers.collect())
        })
        .collect();
    let faults = lanes.iter().map(|(device, _)| device.faults()).collect();
    Ok((lanes, faults))
}

fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

/// What the disk has must be what each thread has stored in its byte of each of the kernel's pages.
fn compare(device: Faulty<Queue>, stored: &[Vec<u8>]) -> Result<()> {
    let queue = device.into_inner();
    let mut disk = queue.disk.lock().unwrap_or_else(PoisonError::into_inner);
    for at in (0..LEN).step_by(KERNEL_PAGE) {
        let read = blocking::read(&mut *disk, (at / 512) as u64, buffer(512));
        read.result?;
        for (thread, bytes) in stored.iter().enumerate() {
            let (found, stored) = (read.buffer[thread], bytes[at / KERNEL_PAGE]);
            if found != stored {
                return Err(format!("byte {at} + {thread} is {found}, not {stored}").into());
            }
        }
    }
    Ok(())
}

/// A map with handler threads, from an empty disk to the comparison of what is on it.
fn live_served(random: &mut fastrand::Rng) -> Result<Life> {
    let options = options(random);
    let count = random.usize(1..=SERVERS);
    let (lanes, faults) = lanes(count, options.page_bytes, random)?;
    let (map, servers) = map_lanes(lanes, WHOLE, &options)?;
    let (devices, used) = thread::scope(|scope| {
        let servers = servers.into_iter();
        let servers: Vec<_> = servers
            .map(|server| scope.spawn(move || server.run()))
            .collect();
        let used = use_served(&map, &options, random, &faults);
        drop(map);
        let ended = servers.into_iter().map(|server| {
            let ended = server.join().map_err(|_| "a server panicked")?;
            Ok(ended?.0)
        });
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
            ended.collect::<Result<Vec<_>>>()?,
            used?,
        ))
    })?;
    let (life, stored) = used;
    let device = devices.into_iter().next().ok_or("no device came back")?;
    compare(device, &stored)?;
    Ok(Life {
        lanes: count,
        ..life
    })
}

/// What each thread has stored, and how many accesses were errors.
fn joined(users: Vec<thread::ScopedJoinHandle<'_, Result<Used>>>) -> Result<(Vec<Vec<u8>>, u64)> {
    let users = users
        .into_iter()
        .map(|user| user.join().map_err(|_| "a thread panicked")?);
    let (stored, refused): (Vec<_>, Vec<u64>) =
        users.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok((stored, refused.iter().sum()))
}

/// Runs the threads that use the map.
fn use_served(
    map: &Map,
    options: &PagerOptions,
    random: &mut fastrand::Rng,
    faults: &[Faults],
) -> Result<(Life, Vec<Vec<u8>>)> {
    let has_ended = AtomicBool::new(false);
    let (used, most) = thread::scope(|scope| {
        let users = (0..THREADS).map(|thread| {
            let random = random.fork();
            scope.spawn(move || access(&BySystemCalls::new(map)?, thread, random))
        });
        let users: Vec<_> = users.collect();
        let random = random.fork();
        let adviser = scope.spawn(|| advise(map, options, random, &has_ended));
        let used = joined(users);
        has_ended.store(true, Ordering::Relaxed);
        (used, adviser.join())
    });
    let (stored, refused) = used?;
    let most_resident_percent = most.map_err(|_| "the adviser panicked")??;
    // What could not be written was kept, and a device that is well again takes it.
    faults.iter().for_each(Faults::clear);
    // A write that had begun before may have failed.
    map.sync().or_else(|_| map.sync())?;
    let life = Life {
        lanes: 0,
        counters: map.counters(),
        refused,
        most_resident_percent,
    };
    Ok((life, stored))
}

/// A map whose threads serve themselves, as [`live_served`].
fn live_by_itself(random: &mut fastrand::Rng) -> Result<Life> {
    let options = options(random);
    let (mut lanes, faults) = lanes(THREADS + 1, options.page_bytes, random)?;
    let (device, buffers) = lanes.pop().ok_or("no lane")?;
    let map = map_local(device, WHOLE, &options, buffers)?;
    let left = AtomicU64::new(THREADS as u64);
    let (used, most) = thread::scope(|scope| {
        let users = lanes.into_iter().enumerate().map(|(thread, lane)| {
            let (lanes, random, left) = (map.lanes(), random.fork(), &left);
            scope.spawn(move || {
                let used = join_and_access(&lanes, lane, thread, random);
                left.fetch_sub(1, Ordering::Relaxed);
                used
            })
        });
        let users: Vec<_> = users.collect();
        let most = advise_itself(&map, &options, random.fork(), &left);
        (joined(users), most)
    });
    let (stored, refused) = used?;
    faults.iter().for_each(Faults::clear);
    map.sync().or_else(|_| map.sync())?;
    let counters = map.counters();
    let (device, _) = map.close()?;
    compare(device, &stored)?;
    Ok(Life {
        lanes: THREADS + 1,
        counters,
        refused,
        most_resident_percent: most?,
    })
}

fn join_and_access(
    lanes: &LocalLanes<Faulty<Queue>>,
    (device, buffers): Lane,
    thread: usize,
    random: fastrand::Rng,
) -> Result<Used> {
    let lane = lanes.join(device, buffers)?;
    let used = access(&ByItself(lane.as_ptr().as_ptr()), thread, random);
    lane.close()?;
    used
}

/// A map's bytes; an access that is an error returns None.
trait Bytes {
    fn load(&self, at: usize) -> Result<Option<u8>>;
    fn store(&self, at: usize, value: u8) -> Result<Option<()>>;
}

/// The kernel accesses them.
struct BySystemCalls<'m> {
    map: &'m Map,
    /// Each value of a byte, at its offset.
    values: OwnedFd,
    loaded: OwnedFd,
}

impl<'m> BySystemCalls<'m> {
    fn new(map: &'m Map) -> Result<Self> {
        let values = memfd_create("values", MemfdFlags::CLOEXEC)?;
        pwrite(&values, &(0..=255).collect::<Vec<u8>>(), 0)?;
        let loaded = memfd_create("loaded", MemfdFlags::CLOEXEC)?;
        Ok(Self {
            map,
            values,
            loaded,
        })
    }
}

fn unless_refused(result: rustix::io::Result<usize>) -> Result<Option<()>> {
    match result {
        Ok(_) => Ok(Some(())),
        Err(Errno::FAULT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Bytes for BySystemCalls<'_> {
    fn load(&self, at: usize) -> Result<Option<u8>> {
        // SAFETY: inside the map, of which only this thread accesses this byte, and the kernel
        // reads it.
        let byte = unsafe { std::slice::from_raw_parts(self.map.as_ptr().as_ptr().add(at), 1) };
        let written = unless_refused(pwrite(&self.loaded, byte, 0))?;
        let mut found = [0];
        pread(&self.loaded, &mut found, 0)?;
        Ok(written.map(|()| found[0]))
    }

    fn store(&self, at: usize, value: u8) -> Result<Option<()>> {
        // SAFETY: as in `load`; the kernel writes it.
        let byte = unsafe { std::slice::from_raw_parts_mut(self.map.as_ptr().as_ptr().add(at), 1) };
        unless_refused(pread(&self.values, byte, u64::from(value)))
    }
}

/// Their thread does, which serves the faults.
struct ByItself(*mut u8);

impl Bytes for ByItself {
    fn load(&self, at: usize) -> Result<Option<u8>> {
        // SAFETY: as above.
        Ok(unsafe { tolerant::load(self.0.add(at)) })
    }

    fn store(&self, at: usize, value: u8) -> Result<Option<()>> {
        // SAFETY: as above.
        Ok(unsafe { tolerant::store(self.0.add(at), value) })
    }
}

/// Loads and stores the thread's byte of each page; a load that is served must find what was
/// stored.
fn access(bytes: &impl Bytes, thread: usize, mut random: fastrand::Rng) -> Result<Used> {
    let (mut stored, mut refused) = (vec![0u8; LEN / KERNEL_PAGE], 0);
    for _ in 0..ACCESSES {
        let page = random.usize(..stored.len());
        let (at, next) = (page * KERNEL_PAGE + thread, stored[page].wrapping_add(1));
        let is_served = if random.bool() {
            let stores = bytes.store(at, next)?.is_some();
            stored[page] = if stores { next } else { stored[page] };
            stores
        } else {
            let loaded = bytes.load(at)?;
            if loaded.is_some_and(|found| found != stored[page]) {
                return Err(format!("byte {at} is {loaded:?}, not {}", stored[page]).into());
            }
            loaded.is_some()
        };
        refused += u64::from(!is_served);
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    Ok((stored, refused))
}

/// Fails if more memory than the limit is in use; returns its part of the limit in percent.
///
/// The kernel counts a page that is being added to its file only after it is there, and takes a
/// page that is gone from the count by comparing it with the pages that are there. So while one
/// lane adds a page, one that another has taken stays in the count: a number above the limit counts
/// only if it is still there when such a call must have ended.
fn percent_of_limit(
    resident_bytes: impl Fn() -> straightway_map::Result<u64>,
    options: &PagerOptions,
) -> Result<u64> {
    let limit = options.resident_bytes as u64;
    let since = Instant::now();
    loop {
        let bytes = resident_bytes()?;
        if bytes <= limit {
            return Ok(100 * bytes / limit);
        }
        if since.elapsed() > SETTLES {
            return Err(format!("{bytes} bytes are in memory: {options:?}").into());
        }
        thread::yield_now();
    }
}

/// The kernel unmaps pages, as it does when memory is short.
fn page_out(start: std::ptr::NonNull<u8>) -> Result<()> {
    // SAFETY: the range is the map's, and its content stays.
    unsafe { madvise(start.as_ptr().cast(), LEN, Advice::LinuxPageOut) }?;
    Ok(())
}

/// Advises, syncs, has the kernel unmap pages, and looks at the memory; returns the most of it that
/// was in use, in percent of the limit.
fn advise(
    map: &Map,
    options: &PagerOptions,
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
            4 => page_out(map.as_ptr())?,
            _ => {}
        }
        most = most.max(percent_of_limit(|| map.resident_bytes(), options)?);
    }
    Ok(most)
}

/// The same by the thread that has made the map, while others are left.
fn advise_itself(
    map: &LocalMap<Faulty<Queue>>,
    options: &PagerOptions,
    mut random: fastrand::Rng,
    left: &AtomicU64,
) -> Result<u64> {
    let (mut most, mut before) = (0, 0);
    while left.load(Ordering::Relaxed) > 0 {
        let start = random.u64(..LEN as u64);
        // At most one advice for an access: prefetching all the time takes the pages before they
        // are used.
        let now = ENDED.load(Ordering::Relaxed);
        let advice = if now == before { 3 } else { random.u8(..4) };
        before = now;
        match advice {
            0 => map.prefetch(start..random.u64(start..=LEN as u64))?,
            1 => drop(map.sync()),
            2 => page_out(map.as_ptr())?,
            _ => drop(map.turn()?),
        }
        most = most.max(percent_of_limit(|| map.resident_bytes(), options)?);
    }
    Ok(most)
}
