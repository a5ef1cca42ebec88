// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arrays and remote drives in counts: for `make figures ONLY=fabric`.
//!
//! `fabric_count stripes` prints a line `DRIVES TICKS LEAST MOST`: how long simulated drives take,
//! each of which serves one command at a time in a fixed number of ticks, for a volume's worth of
//! large reads, and the least and the most commands of a drive. `fabric_count tcp ADDRESS:PORT NQN
//! DEPTH CALLS` and `fabric_count uring DEVICE DEPTH CALLS` read 4 KiB, DEPTH at a time, each batch
//! between the markers of lab/count. `fabric_count empty` counts nothing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, unsafe_code)]

use block::{
    Buffer, Completion, Device, Features, Geometry, Operation, Refused, Request, blocking,
};
use linux::fabric::{Tcp, connect, host};
use linux::{Claim, HostMemory, RingOptions, Roots, Uring};
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use stripe::Striped;

const PAGE: usize = 4096;

/// Runs a batch between the markers (lab/count/marker.h), which do nothing without the plugin.
#[inline(always)]
fn counted<T>(batch: impl FnOnce() -> T) -> T {
    // SAFETY: no operation of these instructions accesses memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("nop dword ptr [rax + 1398210560 + 256 + 1]");
    }
    let result = batch();
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("nop dword ptr [rax + 1398210560 + 256 + 2]");
    }
    result
}

fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

/// A drive that serves one command after another, a tick for each 4 KiB and 4 for each command.
struct SlowDrive {
    geometry: Geometry,
    now: Rc<Cell<u64>>,
    queue: VecDeque<(u64, Request)>,
    is_free_at: u64,
    commands: Rc<Cell<u64>>,
}

impl SlowDrive {
    fn new(now: &Rc<Cell<u64>>) -> Self {
        Self {
            geometry: Geometry {
                block_size_log2: 9,
                block_count: 1 << 20,
                max_transfer_blocks: 1024,
                queue_depth: 32,
                buffer_align_bytes: 1,
                features: Features::default(),
            },
            now: Rc::clone(now),
            queue: VecDeque::new(),
            is_free_at: 0,
            commands: Rc::default(),
        }
    }
}

impl Device for SlowDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if self.queue.len() == usize::from(self.geometry.queue_depth) {
            let error = block::Error::QueueFull;
            return Err(Refused { error, request });
        }
        let Operation::Read { buffer, .. } = &request.operation else {
            panic!("only reads");
        };
        let ticks = 4 + (buffer.len() / PAGE) as u64;
        self.is_free_at = self.is_free_at.max(self.now.get()) + ticks;
        self.queue.push_back((self.is_free_at, request));
        self.commands.set(self.commands.get() + 1);
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        if self.queue.front()?.0 > self.now.get() {
            return None;
        }
        let (_, request) = self.queue.pop_front()?;
        Some(Completion {
            tag: request.tag,
            buffer: request.operation.into_buffer(),
            result: Ok(()),
        })
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }

    fn wait(&mut self, _: u32) {
        self.now.set(self.now.get() + 1);
    }
}

/// Reads 64 MiB by requests of 64 KiB, 16 at a time for each drive.
fn stripes(drives: usize) {
    let now = Rc::default();
    let members: Vec<_> = (0..drives).map(|_| SlowDrive::new(&now)).collect();
    let commands: Vec<_> = members.iter().map(|one| Rc::clone(&one.commands)).collect();
    let mut array = Striped::<_, _, _, 256>::new(members, 128, 1 << 20, ()).unwrap();
    let count: u64 = 1000;
    let mut free: Vec<Buffer> = (0..16 * drives).map(|_| buffer(64 << 10)).collect();
    let (mut sent, mut done) = (0, 0);
    while done < count {
        while sent < count {
            let Some(buffer) = free.pop() else { break };
            let operation = Operation::Read {
                lba: sent * 128,
                buffer,
            };
            array.submit(Request { tag: 0, operation }).unwrap();
            sent += 1;
        }
        array.kick();
        match array.poll() {
            Some(completion) => {
                completion.result.unwrap();
                free.push(completion.buffer.unwrap());
                done += 1;
            }
            None => array.wait(1),
        }
    }
    let commands: Vec<u64> = commands.iter().map(|one| one.get()).collect();
    let (least, most) = (
        commands.iter().min().unwrap(),
        commands.iter().max().unwrap(),
    );
    println!("{drives} {} {least} {most}", now.get());
}

fn batches(device: &mut dyn Device, depth: usize, calls: usize) {
    let memory = HostMemory::new(depth * PAGE).unwrap();
    let mut buffers: Vec<Buffer> = (0..depth).map(|_| memory.allocate(PAGE).unwrap()).collect();
    let blocks = (PAGE >> device.geometry().block_size_log2) as u64;
    let pages = device.geometry().block_count / blocks;
    let mut next = 0;
    for _ in 0..calls {
        counted(|| {
            for tag in 0..depth as u32 {
                next += 1;
                let lba = next * 7919 % pages * blocks;
                let buffer = buffers.pop().unwrap();
                let operation = Operation::Read { lba, buffer };
                device.submit(Request { tag, operation }).unwrap();
            }
            device.kick();
            while buffers.len() < depth {
                match device.poll() {
                    Some(completion) => {
                        completion.result.unwrap();
                        buffers.push(completion.buffer.unwrap());
                    }
                    None => device.wait(100_000),
                }
            }
        });
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().unwrap();
    match words.as_slice() {
        ["stripes"] => [1, 2, 4].into_iter().for_each(stripes),
        ["empty", calls] => (0..number(calls)).for_each(|_| counted(|| ())),
        ["tcp", address, nqn, depth, calls] => {
            let (ip, port) = address.rsplit_once(':').unwrap();
            let (host_nqn, host_id) = host().unwrap();
            let options = fabric::RemoteOptions {
                subsystem_nqn: fabric::Name::new(nqn).unwrap(),
                host_nqn,
                host_id,
                ..fabric::RemoteOptions::default()
            };
            let target = Tcp::new(ip, port.parse().unwrap()).unwrap();
            let mut device = connect(target, options, buffer(PAGE)).unwrap();
            batches(&mut device, number(depth), number(calls));
            blocking::read(&mut device, 0, buffer(PAGE)).result.unwrap();
        }
        ["uring", path, depth, calls] => {
            let claim = Claim::to_read(&Roots::default(), Path::new(path)).unwrap();
            let options = RingOptions {
                queue_depth: 64,
                ..RingOptions::default()
            };
            let mut device = Uring::open(&claim, &options).unwrap();
            batches(&mut device, number(depth), number(calls));
        }
        _ => panic!("see the first comment"),
    }
}
