// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The storage coprocessor: an NVMe drive and the volume on it, served to a main CPU through shared
//! memory (`docs/coprocessor.md`). No operating system, no heap, one loop.
//!
//! | module | what it is |
//! | --- | --- |
//! | `start` | from reset to `main` |
//! | `hardware` | a crate: device tree, log, timer and watchdog, root complex, the drive's queue |
//! | `board`, `memory` | configuration from the machine's description; every byte of memory |
//! | `serve` | the command interface |
//! | `check` | the self-test and the benchmark |
//! | `meter` | counts the instructions of serving |
//! | `mapped`, `backing` | storage as memory for an application: serves its faults from a range or a file |
//! | `monitor` | the second hart: runs the application and forwards its faults |
#![no_std]
#![no_main]

#[cfg(feature = "mapped")]
mod backing;
mod board;
#[cfg(feature = "check")]
mod check;
#[cfg(feature = "mapped")]
mod mapped;
mod memory;
mod meter;
#[cfg(feature = "mapped")]
mod monitor;
mod serve;
mod start;

use core::panic::PanicInfo;

use drive::Drive;
use hardware::machine::{self, Platform};
use hardware::{log, pci};
use interface::{Code, Drive as Identity, Service, Window};
use nvme::{Controller, ControllerOptions, NamespaceInfo, Quirks};

use board::{Board, Mode};
use meter::Meter;

/// How long commands may take. The watchdog does not apply to these waits: each is bounded by
/// itself.
const OPTIONS: ControllerOptions = ControllerOptions {
    // Shadow doorbells take two pages, and only emulated drives have them.
    shadow_doorbells: false,
    io_timeout_us: 3_000_000,
    admin_timeout_us: 2_000_000,
    abort_grace_us: 500_000,
    queues: 1,
    quirks: Quirks::NONE,
    latency_limit_us: None,
};

#[cfg(all(feature = "mapped", not(target_pointer_width = "64")))]
compile_error!("mapped storage needs Sv39: build with --bits 64");

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    log!("panic; restarting");
    machine::restart()
}

#[unsafe(no_mangle)]
extern "C" fn firmware_trap(cause: usize, at: usize, value: usize) {
    machine::trap(cause, at, value);
}

#[unsafe(no_mangle)]
extern "C" fn firmware_main(tree: usize) -> ! {
    let board = match Board::find(tree) {
        Ok(board) => board,
        // Without a machine description there is no UART to report this, and no window.
        Err(_) => machine::restart(),
    };
    let window = board.window();
    Service::announce(&window);
    log!(
        concat!(
            "straightway coprocessor ",
            env!("CARGO_PKG_VERSION"),
            ", # bits, window # bytes at 0x#"
        ),
        usize::BITS,
        window.len() as u64,
        window.address() as u64
    );
    let failed = match bring_up(&board, &window) {
        Ok(never) => match never {},
        Err(code) => code,
    };
    log!("failed: #", failed.text());
    Service::fail(&window, failed);
    if board.mode != Mode::Serve {
        machine::power_off();
    }
    loop {
        machine::progress();
        core::hint::spin_loop();
    }
}

/// From the root complex to a served drive, or the first error.
fn bring_up(board: &Board, window: &Window) -> Result<core::convert::Infallible, Code> {
    let ecam = pci::Ecam::of(&board.machine).ok_or(Code::NoRootComplex)?;
    let found = ecam.walk(&board.machine);
    log!(
        "pci: # functions, # bridges, # drives",
        found.functions,
        found.bridges,
        found.drive_count as u64
    );
    let drive = board.choose(&found)?;
    log!(
        "drive at 0x#, registers at 0x#, # bytes",
        u64::from(drive.address.0),
        drive.registers as u64,
        drive.register_bytes as u64
    );
    let platform = Platform::new(ecam, drive, board.reach());
    let controller = enable(platform)?;
    let refused = |error| {
        log!("namespace: #", board::reason(&error));
        board::code(&error)
    };
    let namespace = first_namespace(&controller).map_err(refused)?;
    let memory = memory::queue();
    let opened = Drive::new(&controller, &namespace, memory, board.ignores_fua);
    let opened = opened.map_err(refused)?;
    let info = controller.info();
    let mut identity = Identity::default();
    let fill = |target: &mut [u8], text: &[u8]| {
        target
            .iter_mut()
            .zip(text)
            .for_each(|(place, byte)| *place = *byte);
    };
    fill(&mut identity.serial, info.serial.as_bytes());
    fill(&mut identity.model, info.model.as_bytes());
    log!(
        "namespace #: # blocks of # bytes, serial #",
        namespace.nsid,
        namespace.block_count,
        1u64 << namespace.block_size_log2,
        &identity.serial[..]
    );
    match board.mode {
        Mode::Serve => serve::run(opened, window, &identity, Meter::default()),
        #[cfg(feature = "check")]
        Mode::Count => serve::run(opened, window, &identity, Meter::counting()),
        #[cfg(feature = "mapped")]
        Mode::Map => {
            mapped::run(opened, board)?;
            drop(controller);
            machine::power_off()
        }
        #[cfg(feature = "check")]
        mode => {
            check::run(opened, mode, board.seed);
            drop(controller);
            machine::power_off()
        }
        #[cfg(not(feature = "check"))]
        _ => Err(Code::BadOpcode),
    }
}

/// Out of line, so that its stack is free again while the drive is served.
#[inline(never)]
fn enable(platform: Platform) -> Result<Controller<Platform>, Code> {
    Controller::enable(platform, memory::controller(), OPTIONS).map_err(|failed| {
        log!("enable: #", board::reason(&failed.error));
        board::code(&failed.error)
    })
}

#[inline(never)]
fn first_namespace(controller: &Controller<Platform>) -> Result<NamespaceInfo, nvme::Error> {
    let mut list = [0; 1];
    controller.namespaces(0, &mut list)?;
    controller.namespace(list[0])
}
