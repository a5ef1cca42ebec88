// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random 4 KiB reads at queue depth 32 over the kernel's fastest paths and the straight one, in
//! one boot: what `make figures ONLY=nvme` runs in the lab. It only reads.
//!
//! `iops DEVICE ROUNDS MILLISECONDS` prints a line `path NAME IOPS` for each path and round, then
//! the driver's counters: doorbells in bursts, interrupts while polling, and the commands of one
//! large read.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{Buffer, Device, Operation, Request, blocking};
use linux::{
    Claim, HostMemory, Passthrough, RingOptions, Roots, Uring, bind, noiommu, resolve, vfio,
};
use nvme::{Controller, ControllerOptions, Platform, QueuePair, controller_memory_bytes};

const DEPTH: usize = 32;
const BLOCK_BYTES: usize = 4096;
const LARGE_BYTES: usize = 16 << 20;
/// Every path is tried with each; its best result counts.
const BATCHES: [usize; 3] = [1, 8, 32];
const MAX_TRANSFER: usize = 1 << 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Queue<'p, P> = QueuePair<&'p P, Arc<Controller<&'p P>>, 64>;

/// A cheap sequence of block addresses (xorshift), the same for every path.
struct Addresses {
    state: u64,
    last: u64,
    shift: u8,
}

impl Addresses {
    fn new(device: &impl Device) -> Self {
        let geometry = device.geometry();
        let shift = 12 - geometry.block_size_log2;
        let blocks = geometry.block_count >> shift;
        Self {
            state: 0x9e37_79b9_7f4a_7c15,
            // A power of two less one, so that no division is timed.
            last: (1 << blocks.ilog2()) - 1,
            shift,
        }
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state & self.last) << self.shift
    }
}

/// Keeps the queue full for `time`; returns operations per second. Submits again once `batch`
/// operations have come back: fewer, larger submissions for a little less depth.
fn free_running(
    device: &mut impl Device,
    pool: &mut Vec<Buffer>,
    batch: usize,
    time: Duration,
) -> Result<u64> {
    let mut addresses = Addresses::new(device);
    let began = Instant::now();
    let mut done = 0_u64;
    let mut polls = 0_u32;
    let mut running = true;
    loop {
        let ready = if running { pool.len() } else { 0 };
        for buffer in pool.drain(..ready) {
            let lba = addresses.next();
            let operation = Operation::Read { lba, buffer };
            let submitted = device.submit(Request { tag: 0, operation });
            submitted.map_err(|refused| refused.error)?;
        }
        device.kick();
        let wanted = if running { batch } else { DEPTH };
        while pool.len() < wanted {
            match device.poll() {
                Some(completion) => {
                    completion.result?;
                    pool.push(completion.buffer.ok_or("a buffer was lost")?);
                    done += 1;
                }
                None => device.wait(100_000),
            }
        }
        while let Some(completion) = device.poll() {
            completion.result?;
            pool.push(completion.buffer.ok_or("a buffer was lost")?);
            done += 1;
        }
        polls += 1;
        if polls % 64 == 0 && began.elapsed() >= time {
            running = false;
        }
        if !running && pool.len() == DEPTH {
            let rate = done as f64 / began.elapsed().as_secs_f64();
            return Ok(rate as u64);
        }
    }
}

fn report(name: &str, batch: usize, rate: u64) {
    println!("path {name}-batch-{batch} {rate}");
}

fn pool_of(mut allocate: impl FnMut(usize) -> linux::Result<Buffer>) -> Result<Vec<Buffer>> {
    let buffers = (0..DEPTH).map(|_| allocate(BLOCK_BYTES));
    Ok(buffers.collect::<linux::Result<_>>()?)
}

fn kernel_round(roots: &Roots, device: &str, time: Duration) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    let block = found.block_path(roots).ok_or("no block device")?;
    let character = found.character_path(roots).ok_or("no character device")?;
    let memory = HostMemory::new(4 << 20)?;
    let mut pool = pool_of(|len| memory.allocate(len))?;
    for (name, poll, fixed) in [
        ("io_uring", false, false),
        ("io_uring-fixed", false, true),
        ("io_uring-polled-fixed", true, true),
    ] {
        let options = RingOptions {
            queue_depth: DEPTH as u16,
            poll,
            register_file: true,
            fixed_memory: fixed.then(|| memory.clone()),
            fixed_piece_bytes: Some(BLOCK_BYTES),
            ..RingOptions::default()
        };
        let mut ring = Uring::open(&Claim::to_read(roots, &block)?, &options)?;
        for batch in BATCHES {
            let rate = free_running(&mut ring, &mut pool, batch, time)?;
            report(name, batch, rate);
        }
        drop(ring);
        let mut ring = Passthrough::open(roots, &Claim::to_read(roots, &character)?, &options)?;
        let name = name.replace("io_uring", "passthrough");
        for batch in BATCHES {
            let rate = free_running(&mut ring, &mut pool, batch, time)?;
            report(&name, batch, rate);
        }
    }
    for buffer in pool {
        memory.give_back(buffer).map_err(|_| "not this memory's")?;
    }
    Ok(())
}

fn interrupts() -> u64 {
    let table = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter(|line| line.contains("vfio"));
    lines
        .flat_map(|line| {
            line.split_whitespace()
                .skip(1)
                .map_while(|n| n.parse::<u64>().ok())
        })
        .sum()
}

/// Bursts of 32: everything submitted together, then everything reaped.
fn bursts<P: Platform>(queue: &mut Queue<'_, P>, pool: &mut Vec<Buffer>, count: u64) -> Result<()> {
    let before = *queue.statistics();
    let interrupts_before = interrupts();
    let mut addresses = Addresses::new(queue);
    for _ in 0..count {
        for buffer in pool.drain(..) {
            let lba = addresses.next();
            let operation = Operation::Read { lba, buffer };
            let submitted = queue.submit(Request { tag: 0, operation });
            submitted.map_err(|refused| refused.error)?;
        }
        queue.kick();
        while pool.len() < DEPTH {
            if let Some(completion) = queue.poll() {
                completion.result?;
                pool.push(completion.buffer.ok_or("a buffer was lost")?);
            }
        }
    }
    let now = *queue.statistics();
    println!("burst_commands {}", count * DEPTH as u64);
    let rung = now.submission_doorbells - before.submission_doorbells;
    println!("burst_submission_doorbells {rung}");
    let rung = now.completion_doorbells - before.completion_doorbells;
    println!("burst_completion_doorbells {rung}");
    println!("polling_interrupts {}", interrupts() - interrupts_before);
    Ok(())
}

fn straight_round(roots: &Roots, device: &str, time: Duration, last: bool) -> Result<()> {
    let found = resolve::resolve(roots, device)?;
    let address = found.controller.address;
    let memory_bytes = 32 << 20;
    if found.controller.iommu_group.is_some() {
        let binding = bind::to_vfio(roots, address)?;
        let options = vfio::Options {
            memory_bytes,
            interrupt_vectors: 4,
        };
        let function = vfio::Function::open(roots, address, &options)?;
        let memory = function.memory();
        straight(function, |len| memory.allocate(len), time, last)?;
        binding.release()?;
    } else {
        let binding = bind::to_nothing(roots, address)?;
        let options = noiommu::Options {
            memory_bytes,
            reserve_huge_pages: true,
        };
        let function = noiommu::Function::open(roots, address, &options)?;
        let memory = function.memory();
        straight(function, |len| memory.allocate(len), time, last)?;
        binding.release()?;
    }
    Ok(())
}

fn straight<P: Platform>(
    function: P,
    mut allocate: impl FnMut(usize) -> linux::Result<Buffer>,
    time: Duration,
    last: bool,
) -> Result<()> {
    let page = Controller::page_bytes_of(&function)?;
    let mut own = allocate(controller_memory_bytes(page))?;
    let mut queue_memory = allocate(Queue::<'_, P>::memory_bytes(MAX_TRANSFER, page))?;
    let mut pool = pool_of(&mut allocate)?;
    // Shadow doorbells save register writes and cost the emulated drive memory accesses.
    for (name, shadow_doorbells) in [
        ("straightway-poll-shadow", true),
        ("straightway-poll", false),
    ] {
        let options = ControllerOptions {
            shadow_doorbells,
            ..ControllerOptions::default()
        };
        let controller = Controller::enable(&function, own, options);
        let controller = Arc::new(controller.map_err(|failed| failed.error)?);
        let namespace = controller.namespace(1)?;
        let queue = Queue::create(controller.clone(), &namespace, queue_memory, MAX_TRANSFER);
        let mut queue = queue.map_err(|failed| failed.error)?;
        for batch in BATCHES {
            let rate = free_running(&mut queue, &mut pool, batch, time)?;
            report(name, batch, rate);
        }
        if last && !shadow_doorbells {
            bursts(&mut queue, &mut pool, 300)?;
            let before = controller.smart()?.host_read_commands;
            blocking::read(&mut queue, 0, allocate(LARGE_BYTES)?).result?;
            let commands = controller.smart()?.host_read_commands - before;
            let longest = queue.geometry().max_transfer_bytes();
            println!("large_read_bytes {LARGE_BYTES}");
            println!("large_read_max_transfer_bytes {longest}");
            println!("large_read_commands {commands}");
        }
        queue_memory = queue.close();
        let controller = Arc::into_inner(controller).ok_or("the controller is still shared")?;
        own = controller.shutdown();
    }
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [device, rounds, milliseconds] = words.as_slice() else {
        return Err("usage: iops DEVICE ROUNDS MILLISECONDS".into());
    };
    let roots = Roots::system();
    let time = Duration::from_millis(milliseconds.parse()?);
    let rounds: u32 = rounds.parse()?;
    let pci = resolve::resolve(&roots, device)?
        .controller
        .address
        .to_string();
    for round in 1..=rounds {
        let current = resolve::resolve(&roots, &pci)?;
        let name = current.block_path(&roots);
        let name = name.map_or_else(|| device.clone(), |path| path.display().to_string());
        kernel_round(&roots, &name, time)?;
        straight_round(&roots, &pci, time, round == rounds)?;
    }
    Ok(())
}
