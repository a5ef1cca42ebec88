// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller that fails in any step of its start is closed before its loan ends.

use super::*;
use model::{FaultKind, Faults, On, Rule, SparseRam, Store, Time, When};
use std::io;
use std::sync::Mutex;

/// What ended, in order.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A loan that records its end.
struct Lender(Log);

impl Drop for Lender {
    fn drop(&mut self) {
        self.0.add("given back");
    }
}

impl Ends for Lender {
    fn end(self) -> Result<()> {
        Ok(())
    }
}

/// A store that records when the last handle to its controller is dropped.
#[derive(Debug)]
struct Watched(SparseRam, Log);

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.add("closed");
    }
}

impl Store for Watched {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn read(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, target)
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> io::Result<()> {
        self.0.write(offset, source)
    }

    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.0.zero(offset, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

const SIZE_BYTES: u64 = 1 << 20;
const IN_ORDER: [&str; 2] = ["closed", "given back"];

/// Starts a controller with these faults, on a loan.
fn start(rules: &[Rule], log: &Log) -> Result<Controlled<Model, Lender>> {
    start_in(
        BusMemory::linear(overhead_bytes(LEAST_QUEUES) * 3).unwrap(),
        rules,
        log,
    )
}

fn start_in(memory: BusMemory, rules: &[Rule], log: &Log) -> Result<Controlled<Model, Lender>> {
    let config = Config {
        time: Time::Virtual {
            step_us: 100,
            relax_us: 1000,
        },
        ..Config::ram(SIZE_BYTES)
    };
    let store = Box::new(Watched(SparseRam::new(SIZE_BYTES), log.clone()));
    let platform = Held::open(Lender(log.clone()), || {
        let faults = Faults::new(rules);
        Ok(Model::with_stores(config, memory.clone(), faults, vec![store]).unwrap())
    })?;
    Controlled::enable(platform, Memory::Bus(memory), "model", &Needs::one_queue(0))
}

#[test]
fn a_controller_refused_by_any_fault_is_closed_before_it_is_given_back() {
    let log = Log::default();
    let mut refused = Vec::new();
    for fault in model::all() {
        match start(&fault.rules, &log) {
            Ok(handle) => drop(handle),
            Err(_) => refused.push(fault.name.clone()),
        }
        assert_eq!(log.take(), IN_ORDER, "{fault}");
    }
    // Faults in reads of CAP and in the first answers must be refused: none may pass by accident.
    for step in ["cap-", "identify-", "ready-"] {
        let of_step = refused.iter().filter(|name| name.starts_with(step));
        assert!(of_step.count() > 0, "none of {step}: {refused:?}");
    }
}

#[test]
fn a_controller_that_leaves_at_any_step_is_closed_before_it_is_given_back() {
    let log = Log::default();
    let mut refusals = 0;
    // The loop ends when a removal comes too late to affect the start.
    for access in 1.. {
        let rule = Rule::new(On::Register, When::From(access), FaultKind::Remove);
        let started = start(&[rule], &log);
        let is_up = started.is_ok();
        drop(started);
        assert_eq!(log.take(), IN_ORDER, "gone at register access {access}");
        if is_up {
            break;
        }
        refusals += 1;
    }
    assert!(refusals > 10, "{refusals}");
    for command in 1..=3 {
        let hang = FaultKind::NeverComplete { abortable: false };
        let failed = FaultKind::Status {
            sct: 0,
            sc: 6,
            dnr: true,
        };
        // The third step, shadow doorbells, is optional.
        let kinds = if command < 3 {
            vec![hang, failed]
        } else {
            vec![hang]
        };
        for kind in kinds {
            let rule = Rule::new(On::Admin, When::Nth(command), kind);
            assert!(start(&[rule], &log).is_err(), "{rule}");
            assert_eq!(log.take(), IN_ORDER, "{rule}");
        }
    }
}

#[test]
fn too_little_memory_is_refused_in_the_same_order() {
    let log = Log::default();
    let memory = BusMemory::linear(1).unwrap();
    let mut taken = Vec::new();
    while let Some(buffer) = memory.allocate(4096) {
        taken.push(buffer);
    }
    assert!(start_in(memory.clone(), &[], &log).is_err());
    assert_eq!(log.take(), IN_ORDER);
    for buffer in taken {
        memory.give_back(buffer).unwrap();
    }
}

#[test]
fn the_last_queue_closes_a_controller_that_its_rig_left_open() {
    let log = Log::default();
    let handle = start(&[], &log).map_err(|failure| failure.to_string());
    let handle = Box::new(handle.unwrap());
    let queue = handle.open_queue(1, CompletionMode::Poll);
    let queue = queue.map_err(|failure| failure.to_string()).unwrap();
    assert!(handle.close().is_err());
    assert_eq!(log.take(), [""; 0]);
    drop(queue);
    assert_eq!(log.take(), IN_ORDER);
    let handle = start(&[], &log).map_err(|failure| failure.to_string());
    Box::new(handle.unwrap())
        .close()
        .map_err(|e| e.to_string())
        .unwrap();
    assert_eq!(log.take(), IN_ORDER);
}

/// A controller's page may be longer than a page of this machine.
#[test]
fn queues_begin_at_a_controller_s_page() {
    for min_page_shift in 12..=16 {
        let config = Config {
            min_page_shift,
            ..Config::ram(SIZE_BYTES)
        };
        let memory = BusMemory::linear(overhead_bytes(LEAST_QUEUES) * 3).unwrap();
        // So that the next free page is not aligned to a larger page.
        let buffer = memory.allocate(4096).unwrap();
        let platform = Held::open((), || Ok(Model::new(config, memory.clone()).unwrap()));
        let handle = platform.and_then(|platform| {
            Controlled::enable(
                platform,
                Memory::Bus(memory.clone()),
                "model",
                &Needs::one_queue(0),
            )
        });
        let handle = handle.map_err(|failure| failure.to_string()).unwrap();
        let queue = handle.open_queue(1, CompletionMode::Poll);
        drop(queue.map_err(|failure| failure.to_string()).unwrap());
        drop(handle);
        memory.give_back(buffer).unwrap();
    }
}
