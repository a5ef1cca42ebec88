// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path through a storage coprocessor.

use crate::error::Result;
use crate::path::Opened;
use crate::path::memory::Memory;
use linux::Coprocessor;
use linux::coprocessor::CoprocessorOptions;
use paths::PathKind;
use std::path::Path;

/// Opens the path.
///
/// # Errors
/// Something is missing or refused.
pub fn open(path: &Path, kind: &PathKind, write: bool) -> Result<Opened> {
    let poll = kind.polls();
    let device = Coprocessor::open(path, CoprocessorOptions { write, poll })?;
    let memory = Memory::Host(device.memory().clone());
    let serial = device.serial().to_owned();
    let mut opened = Opened::new(kind, Box::new(device), memory);
    opened.owner.serial = Some(serial);
    Ok(opened)
}
