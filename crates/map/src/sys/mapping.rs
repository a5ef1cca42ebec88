// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory whose faults a userfaultfd reports: the mapping, and what the kernel is asked to do with
//! it.
//!
//! The memory is a file (memfd) as long as the map. Several processes can have a mapping of it,
//! each with its own userfaultfd.
#![allow(unsafe_code)]

use super::abi;
use crate::error::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{Errno, read, write};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Memory of a map. Its users keep it; the pager serves its faults.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    pub(super) len: usize,
    /// Bytes of addresses behind it whose accesses are errors.
    tail: usize,
    is_writable: bool,
    /// The content: sparse, as long as the mapping.
    pub(super) memory: OwnedFd,
    /// Wakes a pager that waits for faults.
    pub(super) wakeup: OwnedFd,
}

// SAFETY: the mapping is shared memory that belongs to no thread; whoever uses the pointer
// synchronises the accesses to its bytes.
unsafe impl Send for Region {}
// SAFETY: as for Send; `&Region` gives out numbers and a pointer only.
unsafe impl Sync for Region {}

impl Region {
    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes, whole pages.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether stores are possible.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Bytes of memory that the content occupies. While several lanes give and take pages, the
    /// kernel may count one that has been taken for some microseconds more.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = rustix::fs::fstat(&self.memory).map_err(|error| Error::System {
            doing: "fstat",
            error: error.into(),
        })?;
        Ok(u64::try_from(status.st_blocks).unwrap_or(0) * 512)
    }

    /// Wakes a pager that waits.
    pub fn notify(&self) {
        // It fails only if 2^64 - 1 notifications are pending.
        let _ = write(&self.wakeup, &1u64.to_ne_bytes());
    }

    fn protection(&self) -> ProtFlags {
        if self.is_writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the last handle, and who has a pointer keeps a handle.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len + self.tail) };
    }
}

/// Who serves the faults of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Another thread, which gets a message; the kernel stops the thread that faults.
    ByMessage,
    /// The thread that faults, which gets SIGBUS.
    BySignal,
}

/// How the stores to a region are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// There are none.
    None,
    /// The kernel tells the first store to a page that is protected: Linux 5.19 on x86-64.
    Told,
    /// The kernel tells an access to a page that has no mapping, and no more.
    Hidden,
}

/// An error of the system call that was doing this.
pub(super) fn failed(doing: &'static str) -> impl Fn(Errno) -> Error {
    move |error| Error::System {
        doing,
        error: error.into(),
    }
}

/// A region and the userfaultfd of this process for it.
#[derive(Debug)]
pub struct Mapping {
    pub(super) region: Arc<Region>,
    pub(super) uffd: OwnedFd,
    /// A file without bytes: an access to a mapping of it is a SIGBUS.
    empty: OwnedFd,
}

impl Mapping {
    /// New memory of `len` bytes, whole pages of the kernel that are all absent. Returns how its
    /// stores are found: hidden if the kernel cannot tell them.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] or [`Error::System`].
    pub fn new(len: usize, stores: Stores, faults: Faults) -> Result<(Self, Stores)> {
        let memory =
            memfd_create("straightway-map", MemfdFlags::CLOEXEC).map_err(failed("memfd_create"))?;
        ftruncate(&memory, len as u64).map_err(failed("setting the size of memory"))?;
        let (uffd, stores) = open(stores, faults)?;
        let protects = if stores == Stores::Told {
            abi::REGISTER_WP
        } else {
            0
        };
        let modes = abi::REGISTER_MISSING | abi::REGISTER_MINOR | protects;
        let is_writable = stores != Stores::None;
        let mapping = Self::of(memory, (len, 0), is_writable, uffd, modes)?;
        Ok((mapping, stores))
    }

    /// The same of memory that exists, with so many bytes of addresses behind it.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    fn of(
        memory: OwnedFd,
        (len, tail): (usize, usize),
        is_writable: bool,
        uffd: OwnedFd,
        modes: u64,
    ) -> Result<Self> {
        let empty = memfd_create("straightway-map-error", MemfdFlags::CLOEXEC)
            .map_err(failed("memfd_create"))?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("eventfd"))?;
        let mut region = Region {
            start: NonNull::dangling(),
            len: 0,
            tail: 0,
            is_writable,
            memory,
            wakeup,
        };
        let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
        let reserved = len
            .checked_add(tail)
            .ok_or(Error::Options("the map is too long"))?;
        // SAFETY: no address is requested, so no existing mapping changes; the first `len` bytes of
        // it are replaced by the memory.
        let start = unsafe {
            let start = mmap(ptr::null_mut(), reserved, read, shared, &empty, 0);
            let start = start.map_err(failed("reserving addresses"))?;
            region.start = NonNull::new(start.cast()).ok_or(Error::Ended)?;
            (region.len, region.tail) = (len, tail);
            mmap(
                start,
                len,
                region.protection(),
                shared | MapFlags::FIXED,
                &region.memory,
                0,
            )
        };
        let start = start.map_err(failed("mapping memory"))?;
        // A child's accesses would be served with the parent's mapping: it gets SIGSEGV instead.
        // SAFETY: the range is this mapping, whole, and the advice keeps its contents.
        unsafe { madvise(start, reserved, Advice::LinuxDontFork) }
            .map_err(failed("MADV_DONTFORK"))?;
        // SAFETY: as above. Pages of 4 KiB come and go; refused where the kernel has no huge pages.
        let _ = unsafe { madvise(start, len, Advice::LinuxNoHugepage) };
        let mapping = Self {
            region: Arc::new(region),
            uffd,
            empty,
        };
        let mut register = abi::Register {
            range: mapping.range(0, len),
            mode: modes,
            ioctls: 0,
        };
        // SAFETY: the structure is the request's, and the range is our own mapping.
        unsafe { mapping.request(abi::UFFDIO_REGISTER, &mut register) }.map_err(|error| {
            Error::System {
                doing: "UFFDIO_REGISTER",
                error,
            }
        })?;
        Ok(mapping)
    }

    /// The memory of another process, to read: only faults of absent pages are reported, because a
    /// page that is there appears by itself. The `tail` bytes of addresses behind it are errors.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn attached(memory: OwnedFd, len: usize, tail: usize) -> Result<Self> {
        let size_bytes = rustix::fs::fstat(&memory).map_err(failed("fstat"))?.st_size;
        if len == 0 || u64::try_from(size_bytes) != Ok(len as u64) {
            return Err(Error::Options(
                "the memory is not as long as its server says",
            ));
        }
        let (uffd, _) = open(Stores::None, Faults::ByMessage)?;
        Self::of(memory, (len, tail), false, uffd, abi::REGISTER_MISSING)
    }

    /// Makes each access to a part an error (SIGBUS), also those that wait.
    ///
    /// # Errors
    /// The system call failed.
    pub fn end(&self, offset: usize, len: usize) -> io::Result<()> {
        self.map_empty(offset, len)?;
        self.wake_range(self.range(offset, len))
    }

    /// Makes each access an error: SIGBUS, or SIGSEGV if the process has as many regions as the
    /// kernel allows, so that it can have no other mapping.
    pub fn end_all(&self) {
        if self.end(0, self.region.len).is_err() {
            let start = self.region.start.as_ptr().cast();
            // SAFETY: it takes rights from the region alone, whose users hold pointers.
            let _ = unsafe { mprotect(start, self.region.len, MprotectFlags::empty()) };
            let _ = self.wake_range(self.range(0, self.region.len));
        }
    }

    /// The file that reports the faults.
    pub fn uffd(&self) -> BorrowedFd<'_> {
        self.uffd.as_fd()
    }

    /// The memory, for its users.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// A part of the mapping as the kernel is told it.
    pub(super) fn range(&self, offset: usize, len: usize) -> abi::Range {
        let start = (self.region.start.as_ptr() as usize + offset) as u64;
        abi::Range {
            start,
            len: len as u64,
        }
    }

    /// Calls `request` with `argument`, again while the kernel changes what it needs (EAGAIN); for
    /// a copy, of which a part may have been made then, [`try_request`](Self::try_request) is the
    /// right call.
    ///
    /// # Safety
    /// As of [`try_request`](Self::try_request).
    pub(super) unsafe fn request<T>(&self, request: u32, argument: &mut T) -> io::Result<()> {
        loop {
            // SAFETY: the caller's promise.
            match unsafe { self.try_request(request, argument) } {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    /// Calls `request` with `argument`.
    ///
    /// # Safety
    /// `argument` is the structure of this request, and what it makes the kernel do to this
    /// process's memory concerns the region alone.
    pub(super) unsafe fn try_request<T>(&self, request: u32, argument: &mut T) -> io::Result<()> {
        // SAFETY: the structure is valid for reads and writes, and the rest is the caller's
        // promise.
        let result =
            unsafe { libc::ioctl(self.uffd.as_raw_fd(), request as _, ptr::from_mut(argument)) };
        match result {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps the file without bytes over a part of the region.
    pub fn map_empty(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range is inside the region, whose bytes no reference of this crate covers;
        // what its users hold are pointers, whose accesses get SIGBUS from now on.
        unsafe {
            let start = self.region.start.as_ptr().add(offset).cast();
            mmap(
                start,
                len,
                self.region.protection(),
                MapFlags::SHARED | MapFlags::FIXED,
                &self.empty,
                0,
            )?;
            madvise(start, len, Advice::LinuxDontFork)?;
        }
        Ok(())
    }

    pub(super) fn wake_range(&self, mut range: abi::Range) -> io::Result<()> {
        // SAFETY: it lets threads continue, which fault again if they have to.
        unsafe { self.request(abi::UFFDIO_WAKE, &mut range) }
    }
}

/// A thread that waits at a userfaultfd.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub address: u64,
    pub thread: u64,
    pub store: bool,
    /// The page is in memory, without a mapping.
    pub unmapped: bool,
}

/// Messages that one system call reads.
const TOUCHES: usize = 8;

/// Calls `take` with each thread that waits at a userfaultfd, as many as one system call reads.
///
/// # Errors
/// The file is no userfaultfd, the system call failed, or `take` did.
pub(super) fn take_touches(
    uffd: BorrowedFd<'_>,
    mut take: impl FnMut(Touch) -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = [0; TOUCHES * size_of::<abi::Message>()];
    let read = match read(uffd, &mut bytes) {
        Ok(read) if read > 0 && read % size_of::<abi::Message>() == 0 => read,
        Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for message in bytes[..read].chunks_exact(size_of::<abi::Message>()) {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&message[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        // No other event was asked for.
        if message[0] != abi::EVENT_PAGEFAULT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        take(Touch {
            address: word(16),
            thread: word(24) & u64::from(u32::MAX),
            store: word(8) & abi::PAGEFAULT_FLAG_WRITE != 0,
            unmapped: word(8) & abi::PAGEFAULT_FLAG_MINOR != 0,
        })?;
    }
    Ok(())
}

/// A userfaultfd with what the map needs.
fn open(stores: Stores, faults: Faults) -> Result<(OwnedFd, Stores)> {
    let flags = libc::c_long::from(libc::O_CLOEXEC | libc::O_NONBLOCK);
    let mut refusal = None;
    // An unprivileged process may serve its own loads and stores, not those of system calls. By a
    // signal nobody can serve those.
    let order = match faults {
        Faults::ByMessage => [flags, flags | abi::USER_MODE_ONLY],
        Faults::BySignal => [flags | abi::USER_MODE_ONLY, flags],
    };
    for flags in order {
        // SAFETY: the call has one number as its argument, and returns a file or an error.
        let file = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if file >= 0 {
            // SAFETY: the kernel has just returned it, so it is ours alone.
            let uffd = unsafe { OwnedFd::from_raw_fd(file as i32) };
            return match shake_hands(&uffd, stores, faults) {
                Ok(()) => Ok((uffd, stores)),
                Err(_) if stores == Stores::Told => open(Stores::Hidden, faults),
                Err(error) => Err(error),
            };
        }
        // A kernel that does not know the other flags would say only that.
        refusal.get_or_insert(io::Error::last_os_error());
    }
    let unknown = || io::Error::from(io::ErrorKind::PermissionDenied);
    Err(Error::NotPermitted(refusal.unwrap_or_else(unknown)))
}

fn shake_hands(uffd: &OwnedFd, stores: Stores, faults: Faults) -> Result<()> {
    let mut features =
        abi::FEATURE_MISSING_SHMEM | abi::FEATURE_MINOR_SHMEM | abi::FEATURE_THREAD_ID;
    if stores == Stores::Told {
        features |= abi::FEATURE_WP | abi::FEATURE_WP_SHMEM;
    }
    if faults == Faults::BySignal {
        features |= abi::FEATURE_SIGBUS;
    }
    let mut api = abi::Api {
        api: abi::API,
        features,
        ioctls: 0,
    };
    // SAFETY: the structure is the request's.
    let result =
        unsafe { libc::ioctl(uffd.as_fd().as_raw_fd(), abi::UFFDIO_API as _, &raw mut api) };
    match result {
        0.. => Ok(()),
        _ => Err(Error::System {
            doing: "UFFDIO_API",
            error: io::Error::last_os_error(),
        }),
    }
}
