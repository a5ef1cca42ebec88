// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every entry point of the driver, once, over a platform that is only volatile memory: what
//! `make figures ONLY=nvme` measures the size of. It is never run against a drive.

use std::ptr::{read_volatile, write_volatile};

use block::{Buffer, Clock, Completion, Device, Operation, Refused, Request};
use straightway_nvme::{
    BusRun, CompletionMode, Controller, ControllerOptions, Dma, EnableFailed, LinearDma,
    NamespaceInfo, QueuePair, Registers,
};

/// A function on a small system on chip: registers at a fixed address, memory identity-mapped.
pub struct Board {
    registers: usize,
    timer: usize,
}

impl Registers for Board {
    fn len_bytes(&self) -> usize {
        0x4000
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        // SAFETY: never run; the driver keeps offsets inside the space.
        unsafe { read_volatile((self.registers + offset) as *const u32) }
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as in `read32`.
        unsafe { write_volatile((self.registers + offset) as *mut u32, value) }
    }

    fn isolate(&self) {
        self.write32(0, 0);
    }

    #[inline(always)]
    fn is_any_drive(&self) -> bool {
        false
    }
}

// SAFETY: never run.
unsafe impl Dma for Board {
    #[inline(always)]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        let all = LinearDma {
            start: 0,
            len: usize::MAX / 2,
            bus_start: 0,
        };
        all.run(address, len)
    }
}

impl Clock for Board {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        // SAFETY: never run.
        unsafe { read_volatile(self.timer as *const u64) }
    }

    fn ticks_per_second(&self) -> u64 {
        10_000_000
    }
}

/// The queue that a firmware would have.
pub type Queue = QueuePair<Board, &'static Controller<Board>, 32>;

/// Sets up a controller.
///
/// # Errors
/// Those of [`Controller::enable`].
#[inline(never)]
#[allow(clippy::result_large_err)]
pub fn footprint_enable(
    board: Board,
    memory: Buffer,
) -> Result<Controller<Board>, EnableFailed<Board>> {
    Controller::enable(board, memory, ControllerOptions::default())
}

/// Identifies a namespace.
#[inline(never)]
pub fn footprint_namespace(controller: &Controller<Board>) -> Option<NamespaceInfo> {
    let mut list = [0; 1];
    controller.namespaces(0, &mut list).ok()?;
    controller.namespace(list[0]).ok()
}

/// Makes a queue.
#[inline(never)]
pub fn footprint_queue(
    controller: &'static Controller<Board>,
    namespace: &NamespaceInfo,
    memory: Buffer,
) -> Option<Queue> {
    let mut queue = Queue::create(controller, namespace, memory, 128 << 10).ok()?;
    queue.set_completion_mode(CompletionMode::Poll).ok()?;
    Some(queue)
}

/// Submits any request.
///
/// # Errors
/// Those of [`Device::submit`].
#[inline(never)]
#[allow(clippy::result_large_err)]
pub fn footprint_submit(queue: &mut Queue, request: Request) -> Result<(), Refused> {
    queue.submit(request)
}

/// Starts and polls.
#[inline(never)]
pub fn footprint_poll(queue: &mut Queue) -> Option<Completion> {
    queue.kick();
    let completion = queue.poll();
    queue.wait(1000);
    completion
}

/// Shuts everything down.
#[inline(never)]
pub fn footprint_close(queue: Queue) -> Buffer {
    queue.close()
}

fn main() {
    // Reachable for the linker, not for the processor.
    if !std::hint::black_box(false) {
        println!("controller {}", size_of::<Controller<Board>>());
        println!("queue_pair_32 {}", size_of::<Queue>());
        return;
    }
    let memory = || Buffer::from_static(vec![0; 1 << 20].leak());
    let board = Board {
        registers: 0,
        timer: 0,
    };
    let Ok(controller) = footprint_enable(board, memory()) else {
        return;
    };
    let controller: &'static _ = Box::leak(Box::new(controller));
    let Some(namespace) = footprint_namespace(controller) else {
        return;
    };
    let Some(mut queue) = footprint_queue(controller, &namespace, memory()) else {
        return;
    };
    let operation = Operation::Flush;
    let _ = footprint_submit(&mut queue, Request { tag: 0, operation });
    let _ = footprint_poll(&mut queue);
    let _ = controller.smart();
    footprint_close(queue);
}
