// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard: every write target passes through this module.
//!
//! | permission | created by | required by |
//! | --- | --- | --- |
//! | [`Grant`]: a drive may be read, changed or overwritten | [`Grant::of`], [`Grant::to_measure`] | [`path::open`](crate::path::open), the bench |
//! | [`linux::Claim`]: no other process writes the file or device | [`Grant::claim`] | each path through the kernel |
//! | [`FunctionLock`]: no other straightway process drives the function | [`FunctionLock::take`] | paths that take a drive from its driver |
//! | [`Output`]: a local file or stream may be written | [`Output::check`] | `get`, `read --output`, `play --to` |
//! | [`OutputFolder`]: files of a folder may be written | [`OutputFolder::check`] | reports, `man` |
//! | [`Journal`]: a file of lines may be written | [`Journal::open`] | `get --state` |
//!
//! Each makes all its checks before anything is created, truncated or written: what the user named
//! (`--destroy-data`), what else uses the target ([`linux::usage`]), and that it is not the
//! command's own source.

mod folder;
mod journal;
mod named;
mod output;
#[cfg(test)]
mod scratch;
mod unfinished;
mod writer;

pub use folder::OutputFolder;
pub use journal::{Journal, sync_folder};
pub use output::{
    OpenOutput, Outlet, Output, output_of, refuse_address, refuse_detours, refuse_to_mix,
    standard_output,
};
pub use writer::Writer;

use crate::drive::Drive;
use crate::error::{Error, Result};
use linux::resolve::Resolved;
use linux::{Claim, Roots, can_be_taken};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The intended use of a drive.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// Its data is read.
    Read,
    /// Files of its volume are changed.
    Change,
    /// Its data is overwritten; with the value of `--destroy-data`.
    Destroy(Option<&'a str>),
}

/// The permission to use a drive, and the lock that belongs to it, until it is dropped.
#[derive(Debug)]
pub struct Grant {
    drive: Drive,
    writes: bool,
    /// The value of `--destroy-data`.
    named: Option<String>,
    /// The claim to a drive that is a file.
    claim: Option<Claim>,
    /// Those of an array's members, in order; `None` for a missing one.
    members: Vec<Option<Grant>>,
    /// The claim to a drive that is measured.
    _lock: Option<FunctionLock>,
}

impl Grant {
    /// Permits the use of `drive`, or refuses it. Nothing is changed.
    ///
    /// # Errors
    /// It is in use, read-only or not permitted, or `--destroy-data` does not name it.
    pub fn of(roots: &Roots, drive: Drive, purpose: Purpose<'_>) -> Result<Self> {
        let writes = !matches!(purpose, Purpose::Read);
        let named = match purpose {
            Purpose::Destroy(named) => {
                named::check(&drive, named)?;
                named.map(str::to_owned)
            }
            _ => None,
        };
        let claim = match &drive {
            Drive::Nvme(resolved) if writes => {
                // Refused before any path is tried, with the name that the user gave.
                for node in nodes_of(roots, resolved) {
                    Claim::to_write(roots, &node)?;
                }
                None
            }
            Drive::Disk(disk) if writes => {
                Claim::to_write(roots, &disk.node)?;
                None
            }
            Drive::Nvme(_) | Drive::Disk(_) | Drive::Ram(_) => None,
            // The coprocessor itself admits one writer; an array's members are claimed below.
            Drive::Coprocessor(_) | Drive::Array(_) | Drive::Remote(_) => None,
            Drive::File(path) => Some(claim_file(roots, path, writes)?),
            Drive::Model(model) => match &model.file {
                Some(path) if path.exists() => Some(claim_file(roots, path, writes)?),
                _ => None,
            },
        };
        let members = match &drive {
            Drive::Array(array) => array
                .members
                .iter()
                .map(|member| {
                    let drive = member.drive.as_ref().ok().cloned();
                    // The names were checked for all members together.
                    let purpose = if writes {
                        Purpose::Change
                    } else {
                        Purpose::Read
                    };
                    drive
                        .map(|drive| Self::of(roots, drive, purpose))
                        .transpose()
                })
                .collect::<Result<_>>()?,
            _ => Vec::new(),
        };
        Ok(Self {
            drive,
            writes,
            named,
            claim,
            members,
            _lock: None,
        })
    }

    /// Permits a measurement, which takes the whole controller from its driver and returns it.
    ///
    /// # Errors
    /// The errors of [`Grant::of`], for each namespace of the controller.
    pub fn to_measure(
        roots: &Roots,
        drive: Drive,
        writes: bool,
        named: Option<&str>,
    ) -> Result<Self> {
        let purpose = if writes || named.is_some() {
            Purpose::Destroy(named)
        } else {
            Purpose::Read
        };
        let mut grant = Self::of(roots, drive, purpose)?;
        if let Drive::Nvme(resolved) = &grant.drive {
            grant._lock = Some(FunctionLock::take(roots, resolved)?);
            if grant.writes {
                can_be_taken(roots, &resolved.controller)?;
            }
        }
        Ok(grant)
    }

    /// The grants of an array's members, in order.
    pub fn members(&self) -> impl Iterator<Item = Option<&Grant>> {
        self.members.iter().map(Option::as_ref)
    }

    /// The intended use.
    pub const fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Compares the serial number that the opened drive gives with the one that `--destroy-data`
    /// named, before anything is written.
    ///
    /// # Errors
    /// The serial numbers differ.
    pub fn confirm(&self, serial: Option<&str>) -> Result<()> {
        named::check_opened(&self.drive, self.named.as_deref(), serial)
    }

    /// The claim to the drive's file, or to `node`, one of its devices.
    ///
    /// # Errors
    /// It is in use, or writing was not granted.
    pub fn claim(&self, roots: &Roots, node: &Path, write: bool) -> Result<Claim> {
        if write && !self.writes {
            return Err(Error::usage(format!(
                "{} was opened for reading only",
                self.drive
            )));
        }
        match &self.claim {
            Some(claim) => Ok(claim.clone()),
            None if write => Ok(Claim::to_write(roots, node)?),
            None => Ok(Claim::to_read(roots, node)?),
        }
    }
}

/// Refuses a source that is the drive itself, by whatever name.
///
/// # Errors
/// The source is the drive, or could not be examined.
pub fn refuse_source(
    roots: &Roots,
    drive: &Drive,
    source: std::io::Result<Metadata>,
    name: &Path,
) -> Result<()> {
    let data = source.map_err(|error| Error::io("opening", name, &error))?;
    if is_part_of(roots, drive, &data) {
        let name = name.display();
        let what = format!("the source {name} is {drive} itself; nothing was done");
        Err(Error::usage(what).hint("name another source"))
    } else {
        Ok(())
    }
}

fn claim_file(roots: &Roots, path: &Path, write: bool) -> Result<Claim> {
    Ok(if write {
        Claim::to_write(roots, path)?
    } else {
        Claim::to_read(roots, path)?
    })
}

/// The affected block devices: the partition, the namespace, or all namespaces of the controller.
fn nodes_of(roots: &Roots, resolved: &Resolved) -> Vec<PathBuf> {
    if let Some(partition) = &resolved.partition {
        return vec![roots.dev.join(partition)];
    }
    let namespaces = match &resolved.namespace {
        Some(namespace) => std::slice::from_ref(namespace),
        None => resolved.controller.namespaces.as_slice(),
    };
    let blocks = namespaces.iter().filter_map(|one| one.block.as_ref());
    blocks.map(|name| roots.dev.join(name)).collect()
}

/// Whether an open file is the drive, or a part of it.
fn is_part_of(roots: &Roots, drive: &Drive, data: &Metadata) -> bool {
    let is_file = |path: &Path| {
        let same = |own: Metadata| (own.dev(), own.ino()) == (data.dev(), data.ino());
        std::fs::metadata(path).is_ok_and(same)
    };
    match drive {
        Drive::File(path) | Drive::Coprocessor(path) => is_file(path),
        Drive::Model(model) => model.file.as_deref().is_some_and(is_file),
        Drive::Ram(_) | Drive::Remote(_) => false,
        Drive::Array(array) => array.drives().any(|drive| is_part_of(roots, drive, data)),
        Drive::Disk(disk) => device_name(roots, data).is_some_and(|name| disk.has_part(&name)),
        Drive::Nvme(resolved) => {
            let Some(name) = device_name(roots, data) else {
                return false;
            };
            let is_named = |own: &Option<String>| {
                let own = own.as_ref();
                own.is_some_and(|own| name == *own || name.starts_with(&format!("{own}p")))
            };
            let namespaces = match &resolved.namespace {
                Some(namespace) => std::slice::from_ref(namespace),
                None => resolved.controller.namespaces.as_slice(),
            };
            let mut faces = namespaces
                .iter()
                .flat_map(|one| [&one.block, &one.character, &one.chario]);
            faces.any(is_named)
        }
    }
}

/// The kernel's name of the device that an open file is.
fn device_name(roots: &Roots, data: &Metadata) -> Option<String> {
    let kind = match data.file_type() {
        kind if kind.is_block_device() => "block",
        kind if kind.is_char_device() => "char",
        _ => return None,
    };
    let (major, minor) = (
        rustix::fs::major(data.rdev()),
        rustix::fs::minor(data.rdev()),
    );
    let link = roots.sys.join(format!("dev/{kind}/{major}:{minor}"));
    let folder = std::fs::canonicalize(link).ok()?;
    Some(folder.file_name()?.to_str()?.to_owned())
}

/// Keeps other straightway processes from using a PCI function. Without a kernel driver two
/// processes could drive the same function.
#[derive(Debug)]
pub struct FunctionLock(#[allow(dead_code)] File);

impl FunctionLock {
    /// Locks the function until this is dropped.
    ///
    /// # Errors
    /// Another straightway process uses the function.
    pub fn take(roots: &Roots, resolved: &Resolved) -> Result<Self> {
        let address = resolved.controller.address.to_string();
        let path = roots.sys.join("bus/pci/devices").join(address);
        let path = path.join("config");
        let file = File::open(&path).map_err(|error| Error::io("opening", &path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(Errno::WOULDBLOCK) => Err(Error::missing(format!(
                "{resolved} is in use by another process; nothing was done"
            ))
            .hint(format!("wait until it ends; fuser -v {}", path.display()))),
            Err(error) => Err(Error::io("locking", &path, &error.into())),
        }
    }
}
