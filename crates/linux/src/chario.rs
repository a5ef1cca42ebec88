// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CharIO: a namespace as a character device, `/dev/chardiskXnY` (docs/chario.md).
//!
//! The driver is synchronous: it splits and queues a call of any length, and returns when all of it
//! is done. So one request at a time runs here, inside `kick` or `poll`, and the largest takes many
//! commands. There are three modes: plain (pread and pwrite), with registered memory, and with
//! memory in a window that the administrator granted.

use crate::memory::HostMemory;
use crate::single::{Single, io_error, os_error};
use crate::sys::chario::{self as sys, Stretch};
use crate::sys::map::Mapping;
use crate::usage::Use;
use crate::{Claim, Error, Result, Roots, sysfs};
use block::{Buffer, Completion, Device, Features, Geometry, Operation, Refused, Request};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;
use std::path::Path;

/// The longest transfer that one request may ask for: sixteen of the driver's units.
const MAX_TRANSFER_BYTES: u32 = 64 << 20;

/// Options for opening a device.
#[derive(Clone, Debug, Default)]
pub struct CharioOptions {
    /// Poll for completions instead of using interrupts.
    pub poll: bool,
    /// Register this memory, which saves pinning and mapping its pages for each request. Other
    /// buffers still work, unregistered. At most 1 GiB; it counts against RLIMIT_MEMLOCK.
    pub registered: Option<HostMemory>,
}

/// A namespace behind CharIO's driver.
#[derive(Debug)]
pub struct Chario {
    descriptor: OwnedFd,
    geometry: Geometry,
    reach: Reach,
    polls_without_interrupts: bool,
    request: Single,
}

/// Memory that the driver reaches without pinning pages for each call.
#[derive(Debug)]
enum Reach {
    Nothing,
    /// Held, so that the range stays mapped as long as the driver maps addresses in it to these
    /// pages.
    Registered {
        _memory: HostMemory,
    },
    Window {
        memory: HostMemory,
        physical: u64,
    },
}

/// A range of physical memory that the administrator granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First physical address.
    pub address: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// The windows of the controller of `name`, such as `chardisk0n1`.
pub fn windows(roots: &Roots, name: &str) -> Vec<Window> {
    let file = roots.sys.join("class/chario").join(name).join("windows");
    let parse = |line: &str| {
        let (address, length) = line.split_once(':')?;
        Some(Window {
            address: sysfs::parse_hex(address)?,
            length_bytes: length.trim().parse().ok()?,
        })
    };
    let text = sysfs::text(&file).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

impl Chario {
    /// Opens `/dev/chardiskXnY` with the access of the claim; for writing, exclusively (`O_EXCL`).
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotPermitted`], [`Error::LockLimit`], [`Error::BadName`] and
    /// others, each for a specific cause.
    pub fn open(claim: &Claim, options: &CharioOptions) -> Result<Self> {
        let path = claim.path();
        let mut device = Self::open_plain(claim, options)?;
        if let Some(memory) = &options.registered {
            let (address, length) = (memory.arena().address(), memory.len_bytes());
            sys::register(&device.descriptor, address, length).map_err(|source| {
                match source.raw_os_error() {
                    Some(libc::ENOMEM) => register_failed(length),
                    _ => Error::io("registering memory with", path, source),
                }
            })?;
            device.reach = Reach::Registered {
                _memory: memory.clone(),
            };
        }
        Ok(device)
    }

    /// Opens it for memory in `window`, which becomes the memory of its buffers.
    ///
    /// # Errors
    /// Those of [`open`](Chario::open), and if the window cannot be mapped.
    pub fn open_window(
        claim: &Claim,
        options: &CharioOptions,
        window: Window,
    ) -> Result<(Self, HostMemory)> {
        let path = claim.path();
        let mut device = Self::open_plain(claim, options)?;
        let length = usize::try_from(window.length_bytes).unwrap_or(usize::MAX);
        let mapping = Mapping::device(&device.descriptor, window.address, length)
            .map_err(|source| Error::io("mapping the window of", path, source))?;
        let memory = HostMemory::over(mapping);
        device.reach = Reach::Window {
            memory: memory.clone(),
            physical: window.address,
        };
        Ok((device, memory))
    }

    fn open_plain(claim: &Claim, options: &CharioOptions) -> Result<Self> {
        let path = claim.path();
        let flags = if claim.is_to_write() {
            OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let descriptor = claim.open(flags).map_err(|error| match error {
            Errno::BUSY => in_use(path),
            Errno::NOENT | Errno::NODEV => Error::NoSuchDevice {
                name: path.display().to_string(),
                why: "CharIO's driver does not show it".into(),
            },
            error => Error::io("opening", path, error),
        })?;
        let info = sys::info(&descriptor).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL) => Error::BadName {
                name: path.display().to_string(),
                why: "it is not a CharIO device such as /dev/chardisk0n1",
            },
            _ => Error::io("asking the size of", path, source),
        })?;
        let geometry = geometry(&info, claim.is_to_write())?;
        if options.poll {
            sys::set_polling(&descriptor, true)
                .map_err(|source| Error::io("polling", path, source))?;
        }
        Ok(Self {
            descriptor,
            geometry,
            reach: Reach::Nothing,
            polls_without_interrupts: info.flags & sys::INFO_POLL_QUEUES != 0,
            request: Single::default(),
        })
    }

    /// Whether polling avoids interrupts: the controller has enough queues.
    pub fn polls_without_interrupts(&self) -> bool {
        self.polls_without_interrupts
    }

    fn run(&self, request: Request) -> Completion {
        let Request { tag, operation } = request;
        let (result, buffer) = match operation {
            Operation::Read { lba, mut buffer } => {
                let result = self.move_all(lba, &mut buffer, 0);
                (result, Some(buffer))
            }
            Operation::Write {
                lba,
                mut buffer,
                fua,
            } => {
                let flags = sys::WRITE | if fua { sys::FUA } else { 0 };
                let result = self.move_all(lba, &mut buffer, flags);
                (result, Some(buffer))
            }
            Operation::Flush => (
                rustix::fs::fdatasync(&self.descriptor).map_err(os_error),
                None,
            ),
            Operation::Discard { .. } | Operation::WriteZeroes { .. } => {
                (Err(block::Error::Unsupported), None)
            }
        };
        Completion {
            tag,
            buffer,
            result,
        }
    }

    /// Until the whole buffer is moved; each iteration moves at least one block, or ends the loop.
    fn move_all(
        &self,
        lba: u64,
        buffer: &mut Buffer,
        flags: u32,
    ) -> std::result::Result<(), block::Error> {
        let start = lba << self.geometry.block_size_log2;
        let mut done = 0;
        while done < buffer.len() {
            let moved = match self.move_some(start + done as u64, buffer, done, flags) {
                Ok(0) => {
                    let done_bytes = done as u32;
                    return Err(block::Error::ShortTransfer { done_bytes });
                }
                Err(block::Error::Os {
                    errno: libc::EINTR, ..
                }) => 0,
                moved => moved?,
            };
            done += moved;
        }
        Ok(())
    }

    fn move_some(
        &self,
        position: u64,
        buffer: &mut Buffer,
        done: usize,
        flags: u32,
    ) -> std::result::Result<usize, block::Error> {
        // A buffer in other memory is pinned for the call, as with read().
        if let Reach::Window { memory, physical } = &self.reach {
            let (start, len) = (memory.address(), memory.len_bytes());
            if let Some(stretch) = Stretch::of(buffer, done, start, len) {
                let from = (*physical, stretch);
                return sys::phys(&self.descriptor, from, position, flags, buffer)
                    .map_err(io_error);
            }
        }
        self.plain(position, buffer, done, flags)
    }

    fn plain(
        &self,
        position: u64,
        buffer: &mut Buffer,
        done: usize,
        flags: u32,
    ) -> std::result::Result<usize, block::Error> {
        let rest = buffer.get_mut(done..).unwrap_or_default();
        let moved = match flags {
            0 => rustix::io::pread(&self.descriptor, rest, position),
            _ => {
                let how = match flags & sys::FUA {
                    0 => ReadWriteFlags::empty(),
                    _ => ReadWriteFlags::DSYNC,
                };
                rustix::io::pwritev2(&self.descriptor, &[IoSlice::new(rest)], position, how)
            }
        };
        moved.map_err(os_error)
    }
}

fn register_failed(length: usize) -> Error {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    match limit.current {
        Some(limit_bytes) if limit_bytes < length as u64 => Error::LockLimit {
            needed_bytes: length as u64,
            limit_bytes,
        },
        _ => Error::NoMemory { bytes: length },
    }
}

fn in_use(path: &Path) -> Error {
    let device = path.display().to_string();
    let name = sysfs::name_of(path).unwrap_or_else(|| device.clone());
    let reasons = vec![Use::OpenExclusively { device: name }.to_string()];
    Error::InUse { device, reasons }
}

fn geometry(info: &sys::Info, write: bool) -> Result<Geometry> {
    let unsupported = |why: String| Error::Unsupported {
        what: "CharIO",
        why,
        hint: Some("load the module that belongs to this version of straightway".into()),
    };
    if info.version != sys::VERSION {
        let version = info.version;
        return Err(unsupported(format!(
            "its driver has version {version} of the interface, and this needs {}",
            sys::VERSION
        )));
    }
    if !info.block_bytes.is_power_of_two() || !(512..=65536).contains(&info.block_bytes) {
        return Err(unsupported(format!(
            "its blocks have {} bytes",
            info.block_bytes
        )));
    }
    let block_size_log2 = info.block_bytes.ilog2() as u8;
    Ok(Geometry {
        block_size_log2,
        block_count: info.size_bytes >> block_size_log2,
        max_transfer_blocks: MAX_TRANSFER_BYTES >> block_size_log2,
        queue_depth: 1,
        buffer_align_bytes: info.buffer_align_bytes,
        features: Features {
            volatile_write_cache: info.flags & sys::INFO_WRITE_CACHE != 0,
            fua: true,
            discard: false,
            write_zeroes: false,
            read_only: !write || info.flags & sys::INFO_READ_ONLY != 0,
        },
    })
}

impl Device for Chario {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        self.request.submit(&self.geometry, request)
    }

    fn kick(&mut self) {
        if let Some(request) = self.request.start() {
            let completion = self.run(request);
            self.request.finish(completion);
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.kick();
        self.request.poll()
    }

    fn outstanding(&self) -> usize {
        self.request.outstanding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn info() -> sys::Info {
        sys::Info {
            version: sys::VERSION,
            flags: sys::INFO_WRITE_CACHE,
            nsid: 1,
            block_bytes: 4096,
            buffer_align_bytes: 4096,
            size_bytes: 1 << 30,
            ..sys::Info::default()
        }
    }

    #[test]
    fn the_shape_is_the_driver_s() {
        let shape = geometry(&info(), true).unwrap();
        assert_eq!((shape.block_size_log2, shape.block_count), (12, 1 << 18));
        assert_eq!(shape.max_transfer_blocks, 16384);
        assert!(shape.features.volatile_write_cache && !shape.features.read_only);
        assert!(geometry(&info(), false).unwrap().features.read_only);
    }

    #[test]
    fn another_version_and_odd_blocks_are_refused() {
        let mut other = info();
        other.version += 1;
        let error = geometry(&other, false).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        for block_bytes in [0, 100, 256, 1 << 20] {
            let mut odd = info();
            odd.block_bytes = block_bytes;
            assert!(geometry(&odd, false).is_err());
        }
    }

    #[test]
    fn windows_are_read_from_sysfs() {
        let tree = Tree::new();
        let text = "0x20000000:67108864\n0x40000000:4096\n";
        tree.file("sys/class/chario/chardisk0n1/windows", text);
        let found = windows(&tree.roots(), "chardisk0n1");
        assert_eq!(found.len(), 2);
        let first = Window {
            address: 0x2000_0000,
            length_bytes: 64 << 20,
        };
        assert_eq!(found[0], first);
        assert!(windows(&tree.roots(), "chardisk9n9").is_empty());
    }

    #[test]
    fn what_is_no_chario_device_is_refused() {
        let options = CharioOptions::default();
        let error = Claim::to_read(&Roots::system(), Path::new("/dev/null"))
            .and_then(|claim| Chario::open(&claim, &options))
            .unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{error}");
        let error =
            Claim::to_read(&Roots::system(), Path::new("/nonexistent/chardisk0n1")).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Missing, "{error}");
    }
}
