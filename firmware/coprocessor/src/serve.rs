// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The main loop: serves clients' commands until power-off.

use core::convert::Infallible;

use block::Device;
use drive::Drive;
use hardware::log;
use hardware::machine::{self, Timer};
use interface::layout::CLIENTS;
use interface::{Code, Drive as Identity, Grant, Service, Want, Window};

use crate::meter::Meter;

/// Serves and never returns. Out of line, like its callees: the stack bound is that of the deepest
/// path, and setting up the drive is a separate one.
#[inline(never)]
pub fn run(
    mut drive: Drive<'_>,
    window: &Window,
    identity: &Identity,
    mut meter: Meter,
) -> Result<Infallible, Code> {
    let geometry = *drive.geometry();
    let grants: [Grant; CLIENTS] =
        core::array::from_fn(|index| Grant::whole(window.len(), index, geometry.block_count));
    let service = Service::new(window, geometry, identity, grants, &Timer);
    let mut service = service.ok_or(Code::BadMachine)?;
    let mut memory = files::Memory::take();
    log!("ready");
    loop {
        blocks(&mut service, &mut drive, &mut meter);
        files::serve(&mut service, &mut drive, &mut memory, &mut meter);
    }
}

/// Until a client wants files and no block command is in flight.
fn blocks(service: &mut Service, drive: &mut Drive<'_>, meter: &mut Meter) {
    while service.want() == Want::Blocks || !service.is_idle(drive) {
        machine::progress();
        meter.round(|| service.step(drive, &Timer));
        meter.tell(service);
        if let Some(event) = service.take_event() {
            tell(event);
        }
    }
}

#[inline(never)]
fn tell(event: interface::ClientEvent) {
    log!("client #: #", event.client as u64, event.code.text());
}

#[cfg(not(feature = "files"))]
mod files {
    use super::{Code, Drive, Meter, Service};

    /// No wake-up is needed.
    pub struct Memory;

    impl Memory {
        pub fn take() -> Self {
            Self
        }
    }

    pub fn serve(service: &mut Service, _: &mut Drive<'_>, _: &mut Memory, _: &mut Meter) {
        service.refuse_files(Code::BadOpcode);
    }
}

#[cfg(feature = "files")]
mod files {
    use core::pin::pin;

    use block::Buffer;
    use hardware::log;
    use hardware::machine::{self, Timer};
    use interface::{Code, CompletionStatus, Files, Service};
    use volume::{MountOptions, OpenFile, Volume};

    use super::{Drive, Meter, tell};
    use crate::memory;

    /// The memory of a mounted volume.
    pub struct Memory {
        nodes: Option<[Buffer; 3]>,
        open_files: &'static mut [OpenFile],
    }

    impl Memory {
        /// Takes all of it; only the first call succeeds.
        pub fn take() -> Self {
            Self {
                nodes: Some(memory::nodes()),
                open_files: memory::open_files(),
            }
        }
    }

    /// Mounts the volume, serves its files until no client wants them, and unmounts it.
    #[inline(never)]
    pub fn serve(
        service: &mut Service,
        drive: &mut Drive<'_>,
        memory: &mut Memory,
        meter: &mut Meter,
    ) {
        let Some(nodes) = memory.nodes.take() else {
            return service.refuse_files(Code::Unusable);
        };
        let volume = match mount(drive, nodes, memory.open_files) {
            Ok(volume) => volume,
            Err(nodes) => {
                memory.nodes = nodes;
                return service.refuse_files(Code::NoVolume);
            }
        };
        log!("mounted");
        {
            let files = Files::new(service, &volume, &Timer);
            let mut work = pin!(files.work());
            loop {
                machine::progress();
                let has_moved = meter.round(|| files.step(work.as_mut()));
                if let Some(event) = files.take_event() {
                    tell(event);
                }
                if !has_moved && files.is_over() {
                    break;
                }
            }
        }
        memory.nodes = unmount(volume);
    }

    // Not inlined, like the next one: their futures must not share a stack frame with those of
    // serving.
    #[inline(never)]
    fn mount<'v, 'd>(
        drive: &'v mut Drive<'d>,
        nodes: [Buffer; 3],
        open_files: &'v mut [OpenFile],
    ) -> Result<Volume<'v, &'v mut Drive<'d>>, Option<[Buffer; 3]>> {
        let mounted = Volume::mount(drive, nodes, open_files, &MountOptions::default());
        mounted.map_err(|unmounted| {
            let why = unmounted.result.err().map(CompletionStatus::from);
            let why = why.map_or(0, |status| status.code);
            log!("mount: status #", u64::from(why));
            whole(unmounted.memory)
        })
    }

    #[inline(never)]
    fn unmount(volume: Volume<'_, &mut Drive<'_>>) -> Option<[Buffer; 3]> {
        let unmounted = volume.unmount();
        match unmounted.result {
            Ok(()) => log!("unmounted"),
            Err(error) => log!(
                "unmount: status #",
                u64::from(CompletionStatus::from(error).code)
            ),
        }
        whole(unmounted.memory)
    }

    fn whole(nodes: [Option<Buffer>; 3]) -> Option<[Buffer; 3]> {
        match nodes {
            [Some(first), Some(second), Some(third)] => Some([first, second, third]),
            _ => None,
        }
    }
}
