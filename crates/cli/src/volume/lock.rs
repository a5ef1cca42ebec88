//! One writer of a volume at a time, and no reader beside it.
//!
//! The paths through the kernel open a block device with `O_EXCL` to write, and passthrough holds
//! the block device beside it. A plain file is locked with `flock`, as is a PCI function that a
//! user-space driver takes: where no driver of the kernel's stands between, two processes could
//! both have it.

use crate::Context;
use crate::drive::Drive;
use crate::failure::{Failure, Result};
use crate::path::PathKind;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Locks what is at `drive` before it is opened: for itself alone to write, with other readers
    /// to read.
    ///
    /// # Errors
    /// Another process has it.
    pub fn take(context: &Context, drive: &Drive, path: PathKind, write: bool) -> Result<Self> {
        let file = match drive {
            Drive::File(path) => Some(lock_file(path, write)?),
            Drive::Model(model) => match &model.file {
                Some(path) if path.exists() => Some(lock_file(path, write)?),
                _ => None,
            },
            // The coprocessor itself lets one writer in.
            Drive::Ram(_) | Drive::Coprocessor(_) => None,
            Drive::Nvme(resolved) => match path {
                PathKind::Auto | PathKind::Vfio | PathKind::Noiommu => {
                    let address = resolved.controller.address.to_string();
                    let config = context.roots.sys.join("bus/pci/devices").join(address);
                    // Two drivers in user space cannot share a controller, not even to read.
                    Some(lock_path(&config.join("config"), true, &drive.to_string())?)
                }
                _ => None,
            },
        };
        Ok(Self { _file: file })
    }
}

fn lock_file(path: &Path, write: bool) -> Result<File> {
    lock_path(path, write, &path.display().to_string())
}

fn lock_path(path: &Path, alone: bool, name: &str) -> Result<File> {
    let file = File::open(path).map_err(|error| Failure::io("opening", path, &error))?;
    let operation = match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(&file, operation) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(Failure::missing(format!(
            "{name} is in use by another process; nothing was done"
        ))
        .hint("wait until that ends; `fuser -v` on the file names it")),
        Err(error) => Err(Failure::io("locking", path, &error.into())),
    }
}
