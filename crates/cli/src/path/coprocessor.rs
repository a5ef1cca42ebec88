//! The path through a storage coprocessor.

use crate::failure::{Failure, Result};
use crate::path::memory::Memory;
use crate::path::{Mode, Opened, Wish};
use linux::Coprocessor;
use linux::coprocessor::CoprocessorOptions;
use std::path::Path;

/// Opens it.
///
/// # Errors
/// What is missing or refused.
pub fn open(path: &Path, wish: &Wish) -> Result<Opened> {
    let (poll, name) = match wish.mode {
        Some(Mode::Poll) => (true, "coprocessor, poll"),
        None | Some(Mode::Hybrid) => (false, "coprocessor, hybrid"),
        Some(Mode::Interrupt) => {
            return Err(
                Failure::unsupported("a coprocessor's file has no interrupt")
                    .hint("--mode poll, or --mode hybrid"),
            );
        }
    };
    let options = CoprocessorOptions {
        write: wish.write,
        poll,
    };
    let device = Coprocessor::open(path, options)?;
    Ok(Opened {
        memory: Memory::Dma(device.memory().clone()),
        told_serial: Some(device.serial().to_owned()),
        device: Box::new(device),
        name: name.to_owned(),
        rig: None,
        loan: None,
        _lock: None,
    })
}
