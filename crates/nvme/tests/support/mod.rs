// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the driver over the model controller with one fault, and records the outcome of every
//! request. Used by the fault matrix's tests and by the example that writes its table.

// Each test binary uses only a part of it.
#![allow(dead_code)]

use std::collections::HashMap;

use block::{Buffer, Completion, Device, Error, Operation, Request};
use straightway_model::{BusMemory, Config, Faults, Model, Rule, Time, Violation};
use straightway_nvme::{
    CompletionMode, Controller, ControllerOptions, QueuePair, Statistics, controller_memory_bytes,
    controller_memory_bytes_without_shadows,
};

pub const DEPTH: usize = 8;
const REQUESTS: u32 = 64;
const MAX_TRANSFER: usize = 256 << 10;
/// Polls after which a run counts as hung; the slowest fault needs a tenth of it.
const MOST_POLLS: u64 = 40_000_000;

pub type Queue<'c> = QueuePair<Model, &'c Controller<Model>, DEPTH>;

/// Virtual time in coarse steps and time-outs of milliseconds, so that simulated minutes take no
/// time.
pub fn options() -> ControllerOptions {
    ControllerOptions {
        io_timeout_us: 50_000,
        admin_timeout_us: 100_000,
        abort_grace_us: 20_000,
        queues: 4,
        shadow_doorbells: true,
        ..ControllerOptions::default()
    }
}

pub fn config() -> Config {
    Config {
        time: Time::Virtual {
            step_us: 100,
            relax_us: 1000,
        },
        ..Config::test()
    }
}

/// How requests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub done: u32,
    pub status: u32,
    pub timed_out: u32,
    pub aborted: u32,
    pub gone: u32,
    pub refused: u32,
}

/// The driver's outcome for a fault.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The controller, the namespace or the queue could not be set up.
    Refused(String),
    /// Requests were run.
    Ran(Ends, Statistics),
}

/// A drive for one run.
pub struct Bench {
    pub memory: BusMemory,
    pub model: Model,
}

impl Bench {
    pub fn new(config: Config, rules: &[Rule], scattered: bool) -> Self {
        let memory = if scattered {
            BusMemory::scattered(4 << 20, 8 << 20, 12, 7).unwrap()
        } else {
            BusMemory::linear(12 << 20).unwrap()
        };
        let faults = Faults::new(rules);
        let model = Model::with_faults(config, memory.clone(), faults).unwrap();
        Self { memory, model }
    }

    fn contiguous(&self, len: usize, page_bytes: usize) -> Buffer {
        self.memory.allocate_contiguous(len, page_bytes).unwrap()
    }

    /// Enables the controller and runs `action` with a queue on the first namespace.
    pub fn with_queue<R>(
        &self,
        options: ControllerOptions,
        action: impl FnOnce(&mut Queue<'_>) -> R,
    ) -> Result<R, String> {
        let page = Controller::page_bytes_of(&self.model).map_err(|e| e.to_string())?;
        let len = if options.shadow_doorbells {
            controller_memory_bytes(page)
        } else {
            controller_memory_bytes_without_shadows(page)
        };
        let memory = self.contiguous(len, page);
        let controller = match Controller::enable(self.model.clone(), memory, options) {
            Ok(controller) => controller,
            Err(failed) => {
                assert_eq!(failed.memory.len(), len, "the memory was not given back");
                self.memory.give_back(failed.memory).unwrap();
                return Err(failed.error.to_string());
            }
        };
        let result = self.with_controller(&controller, action);
        self.memory.give_back(controller.shutdown()).unwrap();
        result
    }

    fn with_controller<R>(
        &self,
        controller: &Controller<Model>,
        action: impl FnOnce(&mut Queue<'_>) -> R,
    ) -> Result<R, String> {
        let mut list = [0; 8];
        let listed = controller.namespaces(0, &mut list);
        let _ = controller.descriptors(1, |_| ());
        let _ = controller.smart();
        let _ = controller.firmware_slots();
        listed.map_err(|e| e.to_string())?;
        let namespace = controller.namespace(1).map_err(|e| e.to_string())?;
        let needed = Queue::memory_bytes(MAX_TRANSFER, controller.page_bytes());
        let memory = self.contiguous(needed, controller.page_bytes());
        match Queue::create(controller, &namespace, memory, MAX_TRANSFER) {
            Ok(mut queue) => {
                let result = action(&mut queue);
                self.memory.give_back(queue.close()).unwrap();
                Ok(result)
            }
            Err(failed) => {
                assert_eq!(failed.memory.len(), needed, "the memory was not given back");
                self.memory.give_back(failed.memory).unwrap();
                Err(failed.error.to_string())
            }
        }
    }

    /// Runs the standard requests with a fault and checks every promise.
    pub fn run(&self, mode: CompletionMode) -> Outcome {
        let run = |queue: &mut Queue<'_>| {
            if queue.set_completion_mode(mode).is_err() {
                queue.set_completion_mode(CompletionMode::Poll).unwrap();
            }
            let ends = Run::new(&self.memory, queue).finish();
            (ends, *queue.statistics())
        };
        let outcome = match self.with_queue(options(), run) {
            Ok((ends, statistics)) => Outcome::Ran(ends, statistics),
            Err(error) => Outcome::Refused(error),
        };
        self.check_memory();
        outcome
    }

    /// The controller was never given an address outside the driver's buffers, and nothing was
    /// written there.
    pub fn check_memory(&self) {
        let violations = self.model.violations();
        assert!(violations.is_empty(), "{}", Listed(&violations));
        assert!(
            self.memory.check_guards().is_empty(),
            "a guard was overwritten"
        );
    }
}

struct Listed<'a>(&'a [Violation]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().take(8).try_for_each(|v| writeln!(f, "{v}"))
    }
}

/// What a request was, to check its end against.
struct Asked {
    address: usize,
    len: usize,
    lba: u64,
    is_read: bool,
    fill: Option<u8>,
}

/// One run of the standard requests.
struct Run<'q, 'c> {
    memory: &'q BusMemory,
    queue: &'q mut Queue<'c>,
    asked: HashMap<u32, Asked>,
    /// What each written range reads as, by LBA and length, where that is known.
    contents: HashMap<(u64, usize), u8>,
    ends: Ends,
}

impl<'q, 'c> Run<'q, 'c> {
    fn new(memory: &'q BusMemory, queue: &'q mut Queue<'c>) -> Self {
        Self {
            memory,
            queue,
            asked: HashMap::new(),
            contents: HashMap::new(),
            ends: Ends::default(),
        }
    }

    fn finish(mut self) -> Ends {
        let mut next = 0;
        let mut polls = 0;
        let mut polls_since_progress = 0;
        while next < REQUESTS || !self.asked.is_empty() {
            while next < REQUESTS && self.asked.len() < DEPTH && self.submit(next) {
                next += 1;
            }
            self.queue.kick();
            match self.queue.poll() {
                Some(completion) => {
                    self.check(completion);
                    polls_since_progress = 0;
                }
                None => self.queue.wait(1000),
            }
            polls += 1;
            polls_since_progress += 1;
            assert!(polls < MOST_POLLS, "hung: {:?}", self.queue.statistics());
            let refused = self.asked.is_empty() && polls_since_progress > 100_000;
            if self.queue.controller().is_gone() && self.asked.is_empty() || refused {
                self.ends.refused += REQUESTS - next;
                break;
            }
        }
        assert_eq!(
            self.queue.outstanding(),
            0,
            "a reported request is still counted"
        );
        for _ in 0..10_000 {
            assert!(self.queue.poll().is_none(), "a request was reported twice");
        }
        self.ends
    }

    /// Submits request `number`; false if the queue is full.
    fn submit(&mut self, number: u32) -> bool {
        let blocks = |bytes: usize| (bytes >> self.queue.geometry().block_size_log2) as u64;
        let large = number % 16 < 8 && number % 2 == 1;
        let len = if large { 128 << 10 } else { 4096 };
        let len = len.max(self.queue.geometry().block_size_bytes());
        // Each range is written in one round of sixteen requests and read in the next.
        let slot = u64::from(number % 8 + number / 32 * 8);
        let lba = slot * blocks(128 << 10);
        let mut fill = None;
        let mut is_read = false;
        let buffer = || self.memory.allocate(len).unwrap();
        let operation = match (number / 8 % 4, number % 8) {
            (0 | 1, 7) => Operation::Flush,
            (0, _) => {
                let value = number as u8 + 1;
                fill = Some(value);
                let mut buffer = buffer();
                buffer.fill(value);
                let fua = number % 4 == 2;
                Operation::Write { lba, buffer, fua }
            }
            (1, _) => {
                is_read = true;
                let buffer = buffer();
                Operation::Read { lba, buffer }
            }
            (2, _) => {
                let block_count = blocks(len) as u32;
                fill = Some(0);
                let fua = false;
                Operation::WriteZeroes {
                    lba,
                    block_count,
                    fua,
                }
            }
            (_, index) if index < 4 => {
                is_read = true;
                let buffer = buffer();
                Operation::Read { lba, buffer }
            }
            _ => Operation::Discard {
                lba,
                block_count: blocks(len) as u32,
            },
        };
        let address = match &operation {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => buffer.address(),
            _ => 0,
        };
        let changes = !is_read && !matches!(operation, Operation::Flush);
        let tag = number ^ 0xa5a5_0000;
        match self.queue.submit(Request { tag, operation }) {
            Ok(()) => {
                if changes {
                    self.contents.retain(|&(at, _), _| at != lba);
                }
                let asked = Asked {
                    address,
                    len,
                    lba,
                    is_read,
                    fill,
                };
                self.asked.insert(tag, asked);
                true
            }
            Err(refused) => {
                if let Some(buffer) = refused.request.operation.into_buffer() {
                    assert_eq!(buffer.address(), address, "another buffer was given back");
                    self.memory.give_back(buffer).unwrap();
                }
                if refused.error == Error::QueueFull || refused.error == Error::Gone {
                    return false;
                }
                self.ends.refused += 1;
                true
            }
        }
    }

    fn check(&mut self, completion: Completion) {
        let asked = self.asked.remove(&completion.tag);
        let asked = asked.expect("a request that was not outstanding was reported");
        if asked.address != 0 {
            let buffer = completion.buffer.expect("a buffer was lost");
            assert_eq!((buffer.address(), buffer.len()), (asked.address, asked.len));
            let known = self.contents.get(&(asked.lba, asked.len));
            if let (true, true, Some(value)) = (completion.result.is_ok(), asked.is_read, known) {
                assert!(
                    buffer.iter().all(|byte| byte == value),
                    "wrong data was read"
                );
            }
            self.memory.give_back(buffer).unwrap();
        }
        match completion.result {
            Ok(()) => {
                self.ends.done += 1;
                if let Some(value) = asked.fill {
                    self.contents.insert((asked.lba, asked.len), value);
                }
            }
            Err(Error::Nvme { .. }) => self.ends.status += 1,
            Err(Error::TimedOut) => self.ends.timed_out += 1,
            Err(Error::Aborted) => self.ends.aborted += 1,
            Err(Error::Gone) => self.ends.gone += 1,
            Err(error) => panic!("an error that no device returns: {error}"),
        }
    }
}

/// The fault matrix as a table: what the drive does, and how the driver handles it.
pub fn table() -> String {
    let mut text = String::from(
        "# The fault matrix\n\n\
         What the model controller does wrong, and what the driver makes of it: 64 requests at\n\
         queue depth 8, polled, with virtual time. This page is written by\n\
         `cargo run -p straightway-nvme --example faults > docs/faults.md`; a test compares it\n\
         with what the driver does now, and checks for every row, in every completion mode, that\n\
         each accepted request is reported exactly once with its own buffer, that no wrong data\n\
         is read, that the controller is never sent outside the driver's buffers, and that the\n\
         drive works again when the fault is gone.\n\n\
         The columns count requests: done, ended by the drive with an error status, timed out,\n\
         ended by another request's recovery, ended because the controller is gone, and refused;\n\
         then aborts, queue deletions, controller resets, and completions that named no request.\n\n\
         | fault | done | status | timed out | aborted | gone | refused | aborts | deletions | resets | stray |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for fault in straightway_model::fault::all() {
        let bench = Bench::new(config(), &fault.rules, false);
        let row = match bench.run(CompletionMode::Poll) {
            Outcome::Refused(error) => format!("| **{fault}** | not set up: {error} |||||||||\n"),
            Outcome::Ran(ends, counts) => format!(
                "| **{fault}** | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                ends.done,
                ends.status,
                ends.timed_out,
                ends.aborted,
                ends.gone,
                ends.refused,
                counts.aborts,
                counts.queue_deletions,
                counts.resets,
                counts.stray_completions
            ),
        };
        // The fault's name in bold, its description plain.
        text += &row.replacen(": ", "**: ", 1).replacen("** |", " |", 1);
    }
    text
}
