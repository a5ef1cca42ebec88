// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every entry point of the driver and of volumes, once, on a bare machine. It is linked and
//! measured, never run.
#![no_std]
#![no_main]
// A loop with an instruction in it would be measured too.
#![allow(clippy::empty_loop)]

mod board;
#[cfg(feature = "volume")]
mod files;

use core::hint::black_box;
use core::panic::PanicInfo;

use block::{Buffer, Device, Operation, Request};
use nvme::{CompletionMode, Controller, ControllerOptions, QueuePair};

use board::Board;

/// The queue of a small system: eight commands deep.
pub type Queue = QueuePair<Board, &'static Controller<Board>, 8>;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Where the linker starts.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    let memory = board::memory;
    let Ok(controller) = Controller::enable(Board, memory(0), ControllerOptions::default()) else {
        loop {}
    };
    let controller: &'static Controller<Board> = board::keep(controller);
    let mut list = [0; 1];
    let _ = controller.namespaces(0, &mut list);
    let Ok(namespace) = controller.namespace(list[0]) else {
        loop {}
    };
    let _ = controller.smart();
    if let Ok(mut queue) = Queue::create(controller, &namespace, memory(1), 128 << 10) {
        let _ = queue.set_completion_mode(CompletionMode::Poll);
        let operation = Operation::Write {
            lba: black_box(0),
            buffer: black_box(memory(2)),
            fua: black_box(false),
        };
        let _ = queue.submit(Request { tag: 0, operation });
        queue.kick();
        black_box(queue.poll());
        queue.wait(1);
        #[cfg(feature = "volume")]
        files::use_all(&mut queue);
        black_box::<Buffer>(queue.close());
    }
    loop {}
}
