// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several threads, each with its own queue pair, on one controller in real time, while commands
//! hang and the controller is reset under all of them.

use std::sync::Barrier;

use crate::support::{Bench, DEPTH, Queue};
use block::{Device, Error, Operation, Request, Tag};
use straightway_model::{Config, FaultKind, On, Rule, Time, When};
use straightway_nvme::{CompletionMode, Controller, ControllerOptions, controller_memory_bytes};

const THREADS: usize = 4;
const REQUESTS: u32 = 3000;

/// Reads with the queue full; returns how the requests ended: done, recovered, gone.
fn worker(
    bench: &Bench,
    controller: &Controller<straightway_model::Model>,
    ready: &Barrier,
    number: usize,
) -> [u32; 3] {
    let namespace = controller.namespace(1).unwrap();
    let needed = Queue::memory_bytes(128 << 10, controller.page_bytes());
    let memory = bench.memory.allocate_contiguous(needed, 4096).unwrap();
    let queue = Queue::create(controller, &namespace, memory, 128 << 10);
    let mut queue = queue.map_err(|failed| failed.error).unwrap();
    let mode = [CompletionMode::Poll, CompletionMode::Interrupt][number % 2];
    queue.set_completion_mode(mode).unwrap();
    // No requests before every thread has its queue.
    ready.wait();
    let mut ends = [0; 3];
    let mut outstanding = std::collections::HashSet::<Tag>::new();
    let mut next = 0;
    while next < REQUESTS || !outstanding.is_empty() {
        while next < REQUESTS && outstanding.len() < DEPTH {
            let buffer = bench.memory.allocate(4096).unwrap();
            let lba = u64::from(next % 1000) * 8;
            let operation = Operation::Read { lba, buffer };
            match queue.submit(Request {
                tag: next,
                operation,
            }) {
                Ok(()) => assert!(outstanding.insert(next)),
                Err(refused) => {
                    let buffer = refused.request.operation.into_buffer().unwrap();
                    bench.memory.give_back(buffer).unwrap();
                    match refused.error {
                        Error::QueueFull => break,
                        Error::Gone => ends[2] += 1,
                        error => panic!("{error}"),
                    }
                }
            }
            next += 1;
        }
        queue.kick();
        match queue.poll() {
            None => queue.wait(1000),
            Some(completion) => {
                assert!(
                    outstanding.remove(&completion.tag),
                    "reported twice or never asked"
                );
                bench.memory.give_back(completion.buffer.unwrap()).unwrap();
                match completion.result {
                    Ok(()) => ends[0] += 1,
                    Err(Error::TimedOut | Error::Aborted) => ends[1] += 1,
                    Err(Error::Gone) => ends[2] += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    bench.memory.give_back(queue.close()).unwrap();
    ends
}

fn run(rules: &[Rule]) -> [u32; 3] {
    let config = Config {
        time: Time::Real,
        ..Config::test()
    };
    let bench = Bench::new(config, rules, false);
    let memory = controller_memory_bytes(4096);
    let memory = bench.memory.allocate_contiguous(memory, 4096).unwrap();
    let options = ControllerOptions {
        io_timeout_us: 30_000,
        admin_timeout_us: 100_000,
        abort_grace_us: 5_000,
        ..ControllerOptions::default()
    };
    let controller = Controller::enable(bench.model.clone(), memory, options);
    let controller = controller.map_err(|failed| failed.error).unwrap();
    let mut total = [0; 3];
    let ready = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let (bench, controller, ready) = (&bench, &controller, &ready);
        let start = |number| scope.spawn(move || worker(bench, controller, ready, number));
        let workers: Vec<_> = (0..THREADS).map(start).collect();
        for worker in workers {
            let ends = worker.join().unwrap();
            total
                .iter_mut()
                .zip(ends)
                .for_each(|(sum, one)| *sum += one);
        }
    });
    assert_eq!(total.iter().sum::<u32>(), THREADS as u32 * REQUESTS);
    bench.memory.give_back(controller.shutdown()).unwrap();
    bench.check_memory();
    total
}

#[test]
fn threads_share_a_healthy_controller() {
    assert_eq!(run(&[]), [THREADS as u32 * REQUESTS, 0, 0]);
}

#[test]
fn hangs_and_resets_under_all_threads() {
    let hang = Rule::new(
        On::Io,
        When::Chance {
            per_million: 500,
            seed: 3,
        },
        FaultKind::NeverComplete { abortable: false },
    );
    // Deleting a queue fails, so that each hang ends in a reset of the controller.
    let status = FaultKind::Status {
        sct: 0,
        sc: 6,
        dnr: false,
    };
    let delete = Rule::new(
        On::AdminOpcode(0),
        When::Chance {
            per_million: 700_000,
            seed: 4,
        },
        status,
    );
    let [done, recovered, gone] = run(&[hang, delete]);
    println!("done {done}, recovered {recovered}, gone {gone}");
    assert!(recovered > 0, "no hang was recovered from");
    assert!(done > THREADS as u32 * REQUESTS / 2);
    assert_eq!(gone, 0, "the controller was given up");
}

#[test]
fn a_removal_ends_every_thread() {
    let removal = Rule::new(On::Io, When::Nth(2000), FaultKind::Remove);
    let [done, recovered, gone] = run(&[removal]);
    println!("done {done}, recovered {recovered}, gone {gone}");
    assert!(gone > 0);
}
