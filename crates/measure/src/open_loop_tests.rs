// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::access::{Access, Offsets, Operation, Pattern};
use crate::path::Region;
use crate::tail::quantile;
use block::{Buffer, Completion, Error, Features, Geometry, Refused, Request};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

const MS: u64 = 1_000_000;

#[derive(Default)]
struct Virtual(Rc<Cell<u64>>);

impl Clock for Virtual {
    fn now_ns(&self) -> u64 {
        // Reading the clock takes time, so a loop that spins makes progress.
        self.0.set(self.0.get() + 100);
        self.0.get()
    }
    fn sleep_ns(&self, duration_ns: u64) {
        self.0.set(self.0.get() + duration_ns);
    }
}

/// A device on a virtual clock: each request takes `service_ns`, one after another, and nothing is
/// served within `frozen`. A synchronous one does its work inside `kick`.
struct Server {
    now: Rc<Cell<u64>>,
    geometry: Geometry,
    service_ns: u64,
    frozen: std::ops::Range<u64>,
    synchronous: bool,
    free_at: u64,
    queue: VecDeque<(u64, Request)>,
    fail_from: u64,
    seen: u64,
    kicks: u64,
}

impl Server {
    fn new(clock: &Virtual, depth: u16, service_ns: u64, frozen: std::ops::Range<u64>) -> Self {
        Self {
            now: Rc::clone(&clock.0),
            geometry: Geometry {
                block_size_log2: 9,
                block_count: 1 << 20,
                max_transfer_blocks: 8,
                queue_depth: depth,
                buffer_align_bytes: 1,
                features: Features::default(),
            },
            service_ns,
            frozen,
            synchronous: depth == 1,
            free_at: 0,
            queue: VecDeque::new(),
            fail_from: u64::MAX,
            seen: 0,
            kicks: 0,
        }
    }
}

impl Device for Server {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let mut begin = self.free_at.max(self.now.get());
        if self.frozen.contains(&begin) {
            begin = self.frozen.end;
        }
        self.free_at = begin + self.service_ns;
        self.queue.push_back((self.free_at, request));
        if self.synchronous {
            self.now.set(self.free_at);
        }
        Ok(())
    }
    fn kick(&mut self) {
        self.kicks += 1;
    }
    fn poll(&mut self) -> Option<Completion> {
        if self.queue.front()?.0 > self.now.get() {
            return None;
        }
        let (_, Request { tag, operation }) = self.queue.pop_front()?;
        self.seen += 1;
        let result = if self.seen > self.fail_from {
            Err(Error::Gone)
        } else {
            Ok(())
        };
        Some(Completion {
            tag,
            buffer: operation.into_buffer(),
            result,
        })
    }
    fn outstanding(&self) -> usize {
        self.queue.len()
    }
    fn wait(&mut self, timeout_us: u32) {
        let until = self.queue.front().map_or(u64::MAX, |(at, _)| *at);
        let timeout = self.now.get() + u64::from(timeout_us.max(1)) * 1000;
        self.now.set(self.now.get().max(until.min(timeout)));
    }
}

fn buffers(count: usize, len: usize) -> Vec<Buffer> {
    (0..count)
        .map(|_| Buffer::from_static(Box::leak(vec![0; len].into_boxed_slice())))
        .collect()
}

fn open(depth: usize, block: u64) -> OpenLoop {
    let access = Access {
        operation: Operation::Write,
        pattern: Pattern::Sequential,
        block_size_bytes: block,
    };
    let clock = Virtual::default();
    let server = Server::new(&clock, 1, 1, 0..0);
    let region = Region::whole(&server.geometry);
    let offsets = Offsets::new(access, 1 << 20, 1, 0);
    let made = Operations::new(
        access,
        offsets,
        1 << 20,
        region,
        &server.geometry,
        buffers(depth, block as usize),
    );
    OpenLoop::new(made.unwrap())
}

fn run(
    depth: usize,
    per_second: f64,
    seconds: u64,
    server: &mut Server,
    clock: &Virtual,
) -> OpenRun {
    let schedule = Schedule::new(per_second, seconds * 1000 * MS, 2000 * MS).unwrap();
    open(depth, 4096).run(server, clock, &schedule, &AtomicBool::new(false))
}

/// The exact response times after one stall that ends at `thaw`, if the device then catches up at
/// its own pace.
fn model(count: u64, interval: u64, frozen: std::ops::Range<u64>, service: u64) -> Vec<u64> {
    let mut free = 0;
    (0..count)
        .map(|index| {
            let due = index * interval;
            let mut begin = free.max(due);
            if frozen.contains(&begin) {
                begin = frozen.end;
            }
            free = begin + service;
            free - due
        })
        .collect()
}

#[test]
fn a_stall_is_seen_by_all_that_arrive_in_it_on_any_kind_of_device() {
    let frozen = 2_000 * MS..3_500 * MS;
    let truth = quantile(&model(3_000, 2 * MS, frozen.clone(), MS / 5), 0.99).unwrap();
    assert!((1_430 * MS..1_510 * MS).contains(&truth), "{truth}");
    for depth in [1usize, 4, 32] {
        let clock = Virtual::default();
        let mut server = Server::new(&clock, depth as u16, MS / 5, frozen.clone());
        let run = run(depth, 500.0, 6, &mut server, &clock);
        let p99 = quantile(&run.response_ns, 0.99).unwrap();
        let off = (p99 as f64 / truth as f64 - 1.0).abs();
        assert!(off < 0.005, "depth {depth}: {p99} is not {truth}");
        // A closed loop reports almost nothing of the stall.
        let service = quantile(&run.service_ns, 0.99).unwrap();
        assert!(depth > 4 || service < 10 * MS, "depth {depth}: {service}");
        assert_eq!((run.response_ns.len(), run.unserved), (3_000, 0));
        assert!(
            (740..=755).contains(&run.peak_backlog),
            "{}",
            run.peak_backlog
        );
        assert!(run.end_backlog <= 1);
        assert!(run.failed.iter().all(|failed| !failed));
    }
}

#[test]
fn what_waited_goes_out_together() {
    let clock = Virtual::default();
    let mut server = Server::new(&clock, 8, 10, 100 * MS..500 * MS);
    let run = run(8, 10_000.0, 1, &mut server, &clock);
    // Some 4,000 of 10,000 arrived in the stall, and then all eight slots end before one is used
    // again.
    assert_eq!((run.unserved, server.seen), (0, 10_000));
    assert!((6_000..7_000).contains(&server.kicks), "{}", server.kicks);
}

#[test]
fn a_device_that_is_too_slow_falls_behind_and_that_is_said() {
    let clock = Virtual::default();
    let mut server = Server::new(&clock, 1, 4 * MS, 0..0);
    let run = run(1, 500.0, 6, &mut server, &clock);
    // 2 s of grace: some 2,000 of 3,000 were served in 8 s.
    assert!((950..1_050).contains(&run.unserved), "{}", run.unserved);
    assert_eq!(run.response_ns.len(), 3_000);
    assert!(run.end_backlog > 1_400 && run.peak_backlog >= run.end_backlog);
    // Each arrival is at least as late as the one before it, up to those that were given up.
    assert!(run.response_ns[1_900] > 3_000 * MS);
    assert_eq!(
        run.failed.iter().filter(|failed| **failed).count() as u64,
        run.unserved
    );
}

#[test]
fn arrivals_are_on_time_and_blocks_are_split() {
    let clock = Virtual::default();
    let mut server = Server::new(&clock, 8, 1_000, 0..0);
    let schedule = Schedule::new(333.0, 3_000 * MS, 0).unwrap();
    assert_eq!(schedule.count(), 999);
    let run = open(2, 16_384).run(&mut server, &clock, &schedule, &AtomicBool::new(false));
    // 16 KiB are four requests of 4 KiB.
    assert_eq!(server.seen, 4 * 999);
    assert_eq!(run.tally.bytes, 999 * 16_384);
    let late = run
        .response_ns
        .iter()
        .zip(&run.service_ns)
        .map(|(r, s)| r - s);
    assert!(
        late.max().unwrap() < 2_000,
        "the clock's own step is 100 ns"
    );
    assert!((run.tally.elapsed_ns as f64 / 3e9 - 1.0).abs() < 0.01);
}

#[test]
fn ctrl_c_and_a_drive_that_goes_end_the_run_with_what_there_is() {
    let clock = Virtual::default();
    let mut server = Server::new(&clock, 4, MS, 0..0);
    let schedule = Schedule::new(500.0, 6_000 * MS, 0).unwrap();
    let cancelled = open(4, 4096).run(&mut server, &clock, &schedule, &AtomicBool::new(true));
    assert!(cancelled.tally.cancelled && cancelled.response_ns.len() <= 1);
    let mut server = Server::new(&clock, 4, MS, 0..0);
    server.fail_from = 10;
    let mut gone = open(4, 4096);
    let run = gone.run(&mut server, &clock, &schedule, &AtomicBool::new(false));
    assert_eq!(run.tally.first_error, Some(Error::Gone));
    assert!(
        (11..=15).contains(&run.response_ns.len()),
        "{}",
        run.response_ns.len()
    );
    assert_eq!(Operations::from(gone).into_buffers().len(), 4);
}
