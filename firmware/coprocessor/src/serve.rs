//! The main loop: clients' commands until the power goes.

use core::convert::Infallible;

use block::Device;
use interface::layout::CLIENTS;
use interface::{Code, Drive, Grant, Service, Want, Window};

use crate::machine::{self, Timer};
use crate::{Queue, log};

/// Serves for ever.
pub fn run(mut queue: Queue<'_>, window: &Window, drive: &Drive) -> Result<Infallible, Code> {
    let geometry = *queue.geometry();
    let grants: [Grant; CLIENTS] =
        core::array::from_fn(|index| Grant::whole(window.len(), index, geometry.block_count));
    let service = Service::new(window, geometry, drive, grants, &Timer);
    let mut service = service.ok_or(Code::BadMachine)?;
    log!("ready");
    loop {
        blocks(&mut service, &mut queue);
        files(&mut service, &mut queue);
    }
}

/// Until somebody wants files and no block command is under way.
fn blocks(service: &mut Service, queue: &mut Queue<'_>) {
    while service.want() == Want::Blocks || !service.is_idle(queue) {
        machine::progress();
        service.step(queue, &Timer);
        report(service);
    }
}

#[inline]
fn report(service: &mut Service) {
    if let Some(event) = service.take_event() {
        log!("client ", event.client as u64, ": ", event.code.text());
    }
}

#[cfg(not(feature = "files"))]
fn files(service: &mut Service, _: &mut Queue<'_>) {
    service.refuse_files(Code::BadOpcode);
}

#[cfg(feature = "files")]
fn files(service: &mut Service, queue: &mut Queue<'_>) {
    service.refuse_files(Code::BadOpcode);
    let _ = queue;
}
