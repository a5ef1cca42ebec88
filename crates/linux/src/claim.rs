// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The right to use a file or a device, which everything that opens one for writing demands.
//!
//! Only this module makes a [`Claim`], after every reason for refusal was checked, and nothing is
//! created, truncated or written before that. While it is held no other process gets the right to
//! write:
//!
//! | target | refused because of | how others are kept out afterwards |
//! | --- | --- | --- |
//! | block device, to write | every use of [`usage`]; another process that can write to it | `O_EXCL`, `flock` |
//! | block device, to read | another claim to write | a shared `flock` |
//! | file, to write | loop devices over it, swap, another process that can write to it | `flock` |
//! | file, to read | another claim to write | a shared `flock` |
//! | passthrough's node | same as for its block device | same |
//! | CharIO's device | another process that has it open | the driver's own `O_EXCL` |
//! | a whole controller, to take it from its driver | every use; any process that has it open | `O_EXCL` until it is taken |
//!
//! A process that has just opened the device, as udev does after each write, is waited for, up to
//! [`GRACE`].

use crate::pci::Controller;
use crate::usage::{self, Exclusive, FileId, Node, Use, file_nodes, holders};
use crate::{Error, Result, Roots, sysfs};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a process that has a device open is waited for.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 2 });
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The right to read or to write one file or device, as long as any clone of it lives.
#[derive(Clone, Debug)]
pub struct Claim(Arc<Held>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// The device and inode at the path.
    identity: (u64, u64),
    kind: FileType,
    write: bool,
    /// Holds `O_EXCL` and the lock.
    _file: Option<File>,
}

impl Claim {
    /// The right to read, shared with other readers.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has a claim to write; and those of [`Claim::to_write`].
    pub fn to_read(roots: &Roots, path: &Path) -> Result<Self> {
        Self::new(roots, path, false)
    }

    /// The right to write, without any other writer.
    ///
    /// # Errors
    /// [`Error::InUse`] with each use, [`Error::ReadOnly`], [`Error::NotPermitted`], or
    /// [`Error::BadName`] for what is neither a file nor a block device.
    pub fn to_write(roots: &Roots, path: &Path) -> Result<Self> {
        Self::new(roots, path, true)
    }

    fn new(roots: &Roots, path: &Path, write: bool) -> Result<Self> {
        let stat = rustix::fs::stat(path).map_err(|error| Error::io("opening", path, error))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let file = match (kind, write) {
            (FileType::RegularFile, _) => Some(claim_file(roots, path, write)?),
            (FileType::BlockDevice, true) => {
                let name = block_name(roots, path, stat.st_rdev);
                Some(write_block_device(roots, path, &name)?.ok_or_else(|| {
                    let why = "it has no medium".to_owned();
                    Error::NoSuchDevice { name, why }
                })?)
            }
            (FileType::BlockDevice, false) => Some(read_block_device(roots, path)?),
            (FileType::CharacterDevice, _) => {
                claim_character_device(roots, path, stat.st_rdev, write)?
            }
            _ => {
                return Err(Error::BadName {
                    name: path.display().to_string(),
                    why: "it is neither a file nor a block device",
                });
            }
        };
        Ok(Self(Arc::new(Held {
            path: path.to_owned(),
            identity: (stat.st_dev, stat.st_ino),
            kind,
            write,
            _file: file,
        })))
    }

    /// What was claimed.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether it may be written.
    pub fn is_to_write(&self) -> bool {
        self.0.write
    }

    pub(crate) fn is_file(&self) -> bool {
        self.0.kind == FileType::RegularFile
    }

    pub(crate) fn is_block_device(&self) -> bool {
        self.0.kind == FileType::BlockDevice
    }

    /// Opens what was claimed, with the claim's access.
    pub(crate) fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let access = if self.0.write {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let flags = flags | access | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&self.0.path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(descriptor.as_fd())?;
        if (stat.st_dev, stat.st_ino) == self.0.identity {
            Ok(descriptor)
        } else {
            // The name refers to something else by now.
            Err(Errno::STALE)
        }
    }
}

/// Whether the controller could be taken from its driver: what [`bind`](crate::bind) checks first.
///
/// # Errors
/// [`Error::InUse`] with each use, or [`Error::NotPermitted`].
pub fn can_be_taken(roots: &Roots, controller: &Controller) -> Result<()> {
    claim_controller(roots, controller).map(drop)
}

/// Claims each namespace for this process, so that none can be mounted while it is unbound.
///
/// # Errors
/// [`Error::InUse`] with each use, or [`Error::NotPermitted`].
pub(crate) fn claim_controller(roots: &Roots, controller: &Controller) -> Result<Vec<File>> {
    let device = match &controller.kernel_name {
        Some(name) => format!("{} ({name})", controller.address),
        None => controller.address.to_string(),
    };
    let mut claims = Vec::new();
    let blocks = controller.namespaces.iter();
    for block in blocks.filter_map(|n| n.block.as_ref()) {
        let path = roots.dev.join(block);
        claims.extend(exclusive(roots, &path, block).map_err(|error| named(error, &device))?);
    }
    // For CharIO's device, which counts its open files itself.
    let uses = usage::of_chario(roots, controller);
    refuse(&device, uses)?;
    refuse(
        &device,
        wait_for_none(|| usage::openers_of(roots, controller)),
    )?;
    Ok(claims)
}

/// The kernel's exclusive claim, after the uses that it does not track were checked. `None` if
/// there is no node.
fn exclusive(roots: &Roots, path: &Path, name: &str) -> Result<Option<File>> {
    let claimed = usage::claim_at(path)?;
    let uses = usage::layers_on(roots, name);
    refuse(name, uses)?;
    match claimed {
        Exclusive::Ours(file) => Ok(Some(file)),
        Exclusive::Absent => Ok(None),
        Exclusive::Busy => {
            let device = name.to_owned();
            // A process that claims a partition exclusively also blocks the disk.
            let uses = usage::of_block_device(roots, name).unwrap_or_default();
            refuse(name, uses)?;
            refuse(name, vec![Use::OpenExclusively { device }])?;
            Ok(None)
        }
    }
}

fn write_block_device(roots: &Roots, path: &Path, name: &str) -> Result<Option<File>> {
    let Some(file) = exclusive(roots, path, name)? else {
        return Ok(None);
    };
    let folder = roots.sys.join("class/block").join(name);
    if sysfs::number::<u32>(&folder.join("ro")).is_some_and(|ro| ro != 0) {
        let device = name.to_owned();
        return Err(Error::ReadOnly { device });
    }
    lock_device(
        roots,
        path,
        name,
        &file,
        FlockOperation::NonBlockingLockExclusive,
    )?;
    refuse(name, wait_for_none(|| usage::writers_of(roots, name)))?;
    Ok(Some(file))
}

fn read_block_device(roots: &Roots, path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(|error| Error::io("opening", path, error))?);
    let name = path.display().to_string();
    lock_device(
        roots,
        path,
        &name,
        &file,
        FlockOperation::NonBlockingLockShared,
    )?;
    Ok(file)
}

/// Locks a block device's node. systemd's udev takes the same lock, but only briefly.
fn lock_device(
    _roots: &Roots,
    path: &Path,
    name: &str,
    file: &File,
    operation: FlockOperation,
) -> Result<()> {
    let mut failure = None;
    let uses = wait_for_none(|| match flock(file, operation) {
        Ok(()) => Vec::new(),
        Err(Errno::WOULDBLOCK) => {
            let device = name.to_owned();
            vec![Use::Locked { device }]
        }
        Err(error) => {
            failure = Some(Error::io("locking", path, error));
            Vec::new()
        }
    });
    match failure {
        Some(error) => Err(error),
        None => refuse(name, uses),
    }
}

fn claim_file(roots: &Roots, path: &Path, write: bool) -> Result<File> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let opened = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(opened.map_err(|error| Error::io("opening", path, error))?);
    let name = path.display().to_string();
    let operation = if write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    let id = FileId::of(path);
    let nodes = id.map(|id| file_nodes(path, id));
    let nodes: &[(Node, String)] = nodes.as_ref().map_or(&[], |nodes| nodes);
    match flock(&file, operation) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let device = name.clone();
            let mut uses = holders(roots, nodes, !write);
            if uses.is_empty() {
                uses.push(Use::Locked { device });
            }
            refuse(&name, uses)?;
        }
        Err(error) => return Err(Error::io("locking", path, error)),
    }
    if let (true, Some(id)) = (write, id) {
        refuse(&name, usage::layers_on_file(roots, path, id))?;
        refuse(&name, wait_for_none(|| holders(roots, nodes, true)))?;
    }
    Ok(file)
}

/// Passthrough's node is another view of a block device; CharIO's driver claims its own.
fn claim_character_device(
    roots: &Roots,
    path: &Path,
    rdev: u64,
    write: bool,
) -> Result<Option<File>> {
    let name = sysfs::name_of(&sysfs::canonical(path)).unwrap_or_default();
    if let Some(rest) = name.strip_prefix("ng") {
        let block = format!("nvme{rest}");
        let path = roots.dev.join(&block);
        return if write {
            write_block_device(roots, &path, &block)
        } else {
            // A user who may use passthrough may lack permission to open the block device.
            match read_block_device(roots, &path) {
                Ok(file) => Ok(Some(file)),
                Err(error @ Error::InUse { .. }) => Err(error),
                Err(_) => Ok(None),
            }
        };
    }
    if write {
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        let nodes = [(Node::Character(major, minor), name.clone())];
        refuse(&name, wait_for_none(|| holders(roots, &nodes, true)))?;
    }
    Ok(None)
}

fn block_name(roots: &Roots, path: &Path, rdev: u64) -> String {
    let by_path = || sysfs::name_of(&sysfs::canonical(path));
    let name = usage::block_name(roots, rdev).or_else(by_path);
    name.unwrap_or_else(|| path.display().to_string())
}

/// Checks until there is no use left, or for as long as a process may hold a device just to probe
/// it.
fn wait_for_none(mut look: impl FnMut() -> Vec<Use>) -> Vec<Use> {
    let begin = Instant::now();
    loop {
        let uses = look();
        if uses.is_empty() || begin.elapsed() >= GRACE {
            return uses;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn refuse(device: &str, uses: Vec<Use>) -> Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    Err(Error::InUse {
        device: device.to_owned(),
        reasons: uses.iter().map(Use::to_string).collect(),
    })
}

fn named(error: Error, name: &str) -> Error {
    match error {
        Error::InUse { reasons, .. } => Error::InUse {
            device: name.to_owned(),
            reasons,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn claimed(tree: &Tree, write: bool) -> Result<Claim> {
        Claim::new(&tree.roots(), &tree.path().join("disk.img"), write)
    }

    #[test]
    fn one_writes_or_several_read() {
        let tree = Tree::new();
        tree.file("disk.img", "data");
        let writer = claimed(&tree, true).unwrap();
        let clone = writer.clone();
        drop(writer);
        for write in [false, true] {
            let error = claimed(&tree, write).unwrap_err();
            assert!(matches!(error, Error::InUse { .. }), "{error}");
        }
        drop(clone);
        let readers = [false, false].map(|write| claimed(&tree, write).unwrap());
        assert!(claimed(&tree, true).is_err());
        drop(readers);
        assert!(claimed(&tree, true).is_ok());
    }

    #[test]
    fn a_file_behind_a_loop_device_is_read_and_not_written() {
        let tree = Tree::new();
        tree.file("disk.img", "data");
        let path = tree.path().join("disk.img").display().to_string();
        tree.file("sys/class/block/loop0/loop/backing_file", &path);
        let error = claimed(&tree, true).unwrap_err();
        assert!(
            error.to_string().contains("backing store of loop0"),
            "{error}"
        );
        assert!(claimed(&tree, false).is_ok());
    }

    #[test]
    fn a_file_that_another_process_can_write_is_refused() {
        let tree = Tree::new();
        tree.file("disk.img", "data").file("proc/77/comm", "dd\n");
        std::fs::create_dir_all(tree.path().join("proc/77/fd")).unwrap();
        let link = tree.path().join("proc/77/fd/1");
        std::os::unix::fs::symlink(tree.path().join("disk.img"), &link).unwrap();
        let error = claimed(&tree, true).unwrap_err();
        assert!(error.to_string().contains("process 77 (dd)"), "{error}");
        assert!(claimed(&tree, false).is_ok());
    }

    #[test]
    fn what_the_name_leads_to_must_stay_the_same() {
        let tree = Tree::new();
        tree.file("disk.img", "data").file("other", "another's");
        let claim = claimed(&tree, true).unwrap();
        std::fs::rename(tree.path().join("other"), tree.path().join("disk.img")).unwrap();
        assert_eq!(claim.open(OFlags::empty()).unwrap_err(), Errno::STALE);
    }

    #[test]
    fn what_holds_no_data_is_not_claimed() {
        let tree = Tree::new();
        let error = Claim::to_write(&tree.roots(), tree.path()).unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{error}");
    }
}
