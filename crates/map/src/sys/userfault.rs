//! Shared memory whose faults come to this process, by userfaultfd.
//!
//! The memory is a file in memory (memfd) as long as the map. A page's content is copied into it from
//! the buffer that the device filled (UFFDIO_COPY): the buffer is memory that the device reaches, which
//! stays pinned, while the file's pages come and go, so only as many pages are pinned as requests are
//! under way. Memory is taken by a hole in the file, which unmaps the page everywhere.
#![allow(unsafe_code)]

use super::abi;
use crate::error::{Error, Result};
use crate::space::{Fault, Space};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, pread, read, retry_on_intr, write};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Memory of a map. Its users keep it; the pager serves its faults.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    is_writable: bool,
    /// The content: sparse, as long as the mapping.
    memory: OwnedFd,
    /// Wakes a pager that waits for faults.
    wakeup: OwnedFd,
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

    /// Whether stores are possible.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Bytes of memory that the content occupies.
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
        match self.is_writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the last handle, and who has a pointer keeps a handle.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
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

/// The pager's side of a region.
#[derive(Debug)]
pub struct Userfault {
    region: Arc<Region>,
    uffd: OwnedFd,
    /// A file without bytes: an access to a mapping of it is a SIGBUS.
    empty: OwnedFd,
    page_bytes: usize,
    faults: Faults,
    /// The fault of a signal.
    given: Option<Fault>,
    /// One page's content, while it is protected again.
    scratch: Vec<u8>,
    is_closed: bool,
}

impl Userfault {
    /// Memory of `len` bytes, a multiple of `page_bytes`, whose pages are all absent, and whose faults
    /// are served as `faults` says.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::NoWriteProtection`] or [`Error::System`].
    pub fn new(len: usize, page_bytes: usize, is_writable: bool, faults: Faults) -> Result<Self> {
        let failed = |doing: &'static str| {
            move |error: Errno| Error::System {
                doing,
                error: error.into(),
            }
        };
        let memory =
            memfd_create("straightway-map", MemfdFlags::CLOEXEC).map_err(failed("memfd_create"))?;
        ftruncate(&memory, len as u64).map_err(failed("setting the size of memory"))?;
        let empty = memfd_create("straightway-map-error", MemfdFlags::CLOEXEC)
            .map_err(failed("memfd_create"))?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("eventfd"))?;
        let uffd = open(is_writable, faults)?;
        let mut region = Region {
            start: NonNull::dangling(),
            len: 0,
            is_writable,
            memory,
            wakeup,
        };
        // SAFETY: no address is requested, so no existing mapping changes.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                region.protection(),
                MapFlags::SHARED,
                &region.memory,
                0,
            )
        };
        let start = start.map_err(failed("mapping memory"))?;
        region.start = NonNull::new(start.cast()).ok_or(Error::Options("the map is too long"))?;
        region.len = len;
        // A child's accesses would be served with the parent's mapping: it gets SIGSEGV instead.
        // SAFETY: the range is this mapping, whole, and the advice keeps its contents.
        unsafe { madvise(start, len, Advice::LinuxDontFork) }.map_err(failed("MADV_DONTFORK"))?;
        // SAFETY: as above. Pages of 4 KiB come and go; refused where the kernel has no huge pages.
        let _ = unsafe { madvise(start, len, Advice::LinuxNoHugepage) };
        let space = Self {
            region: Arc::new(region),
            uffd,
            empty,
            page_bytes,
            faults,
            given: None,
            scratch: vec![0; page_bytes],
            is_closed: false,
        };
        let protects = if is_writable { abi::REGISTER_WP } else { 0 };
        let mut register = abi::Register {
            range: space.range(0, len),
            mode: abi::REGISTER_MISSING | abi::REGISTER_MINOR | protects,
            ioctls: 0,
        };
        // SAFETY: the structure is the request's, and the range is our own mapping.
        unsafe { space.request(abi::UFFDIO_REGISTER, &mut register) }.map_err(|error| {
            Error::System {
                doing: "UFFDIO_REGISTER",
                error,
            }
        })?;
        Ok(space)
    }

    /// The memory, for its users.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The fault of this thread, which is the next to be served.
    pub fn give(&mut self, fault: Fault) {
        self.given = Some(fault);
    }

    /// Sleeps until a thread waits, it is notified, or `timeout_ms` have passed.
    ///
    /// # Errors
    /// The system call failed.
    pub fn wait(&self, timeout_ms: u32) -> io::Result<()> {
        let mut files = [
            PollFd::new(&self.uffd, PollFlags::IN),
            PollFd::new(&self.region.wakeup, PollFlags::IN),
        ];
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut count = [0; 8];
        match read(&self.region.wakeup, &mut count) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn offset(&self, page: u64) -> usize {
        let offset = page as usize * self.page_bytes;
        debug_assert!(offset + self.page_bytes <= self.region.len, "page {page}");
        offset
    }

    fn range(&self, offset: usize, len: usize) -> abi::Range {
        let start = (self.region.start.as_ptr() as usize + offset) as u64;
        abi::Range {
            start,
            len: len as u64,
        }
    }

    fn page_range(&self, page: u64) -> abi::Range {
        self.range(self.offset(page), self.page_bytes)
    }

    /// Calls `request` with `argument`.
    ///
    /// # Safety
    /// `argument` is the structure of this request, and what it makes the kernel do to this
    /// process's memory concerns the region alone.
    unsafe fn request<T>(&self, request: u32, argument: &mut T) -> io::Result<()> {
        // SAFETY: the structure is valid for reads and writes, and the rest is the caller's promise.
        let result =
            unsafe { libc::ioctl(self.uffd.as_raw_fd(), request as _, ptr::from_mut(argument)) };
        match result {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies `data` to an absent page, in as many calls as it takes.
    fn copy_in(&self, page: u64, data: &[u8], protected: bool) -> io::Result<()> {
        let is_protected = protected && self.region.is_writable;
        let range = self.page_range(page);
        let mut done = 0;
        while done < self.page_bytes.min(data.len()) {
            let mut copy = abi::Copy {
                dst: range.start + done as u64,
                src: data.as_ptr() as u64 + done as u64,
                len: range.len - done as u64,
                mode: if is_protected { abi::COPY_MODE_WP } else { 0 },
                copied: 0,
            };
            // SAFETY: it reads `data`, which has these bytes, and fills absent pages of the region.
            match unsafe { self.request(abi::UFFDIO_COPY, &mut copy) } {
                Ok(()) => break,
                // A part was copied, or another thread changes the mappings.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    done += usize::try_from(copy.copied).unwrap_or(0);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hole(&self, page: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (offset, len) = (self.offset(page) as u64, self.page_bytes as u64);
        Ok(retry_on_intr(|| {
            fallocate(&self.region.memory, flags, offset, len)
        })?)
    }

    fn read_memory(&self, page: u64, data: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = (self.offset(page) + done) as u64;
            match retry_on_intr(|| pread(&self.region.memory, &mut data[done..], at))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => done += bytes,
            }
        }
        Ok(())
    }

    fn set_protection(&self, page: u64, mode: u64) -> io::Result<()> {
        let mut argument = abi::WriteProtect {
            range: self.page_range(page),
            mode,
        };
        // SAFETY: it changes the protection of the region's pages alone.
        unsafe { self.request(abi::UFFDIO_WRITEPROTECT, &mut argument) }
    }

    /// Maps the file without bytes over a part of the region.
    fn map_empty(&self, offset: usize, len: usize) -> io::Result<()> {
        // SAFETY: the range is inside the region, whose bytes no reference of this crate covers; what
        // its users hold are pointers, whose accesses get SIGBUS from now on.
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

    fn wake_range(&self, mut range: abi::Range) -> io::Result<()> {
        // SAFETY: it lets threads continue, which fault again if they have to.
        unsafe { self.request(abi::UFFDIO_WAKE, &mut range) }
    }
}

impl Space for Userfault {
    fn next_fault(&mut self) -> io::Result<Option<Fault>> {
        if self.faults == Faults::BySignal {
            return Ok(self.given.take());
        }
        let mut bytes = [0; size_of::<abi::Message>()];
        match read(&self.uffd, &mut bytes) {
            Ok(read) if read == bytes.len() => {}
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let message = abi::Message {
            event: bytes[0],
            flags: word(8),
            address: word(16),
            ..abi::Message::default()
        };
        debug_assert_eq!(
            message.event,
            abi::EVENT_PAGEFAULT,
            "no other event was asked for"
        );
        let offset = message
            .address
            .wrapping_sub(self.region.start.as_ptr() as u64);
        debug_assert!(offset < self.region.len as u64, "{message:?}");
        Ok(Some(Fault {
            page: offset / self.page_bytes as u64,
            store: message.flags & abi::PAGEFAULT_FLAG_WRITE != 0,
        }))
    }

    fn copy_out(&mut self, page: u64, data: &mut [u8]) -> io::Result<()> {
        self.read_memory(page, data)
    }

    fn install(&mut self, page: u64, data: &[u8], protected: bool) -> io::Result<()> {
        self.copy_in(page, data, protected)
    }

    fn remap(&mut self, page: u64, protected: bool) -> io::Result<()> {
        if protected && self.region.is_writable {
            // Linux before 6.4 maps it writable, so a store could pass unseen: it is given again.
            let mut content = std::mem::take(&mut self.scratch);
            let given = self.read_memory(page, &mut content);
            let given = given.and_then(|()| self.hole(page));
            let given = given.and_then(|()| self.copy_in(page, &content, true));
            self.scratch = content;
            return given;
        }
        let mut argument = abi::Continue {
            range: self.page_range(page),
            ..abi::Continue::default()
        };
        // SAFETY: it maps pages of the region's own file into the region.
        match unsafe { self.request(abi::UFFDIO_CONTINUE, &mut argument) } {
            // Parts of a page of several kernel pages may be mapped already.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => self.continue_each(page),
            result => result,
        }
    }

    fn unprotect(&mut self, page: u64) -> io::Result<()> {
        self.set_protection(page, 0)
    }

    fn protect(&mut self, page: u64) -> io::Result<()> {
        self.set_protection(page, abi::WRITEPROTECT_MODE_WP)
    }

    fn unmap(&mut self, page: u64) -> io::Result<()> {
        // SAFETY: of shared memory this drops the mapping, not the content, and the next access faults.
        unsafe {
            let start = self.region.start.as_ptr().add(self.offset(page)).cast();
            madvise(start, self.page_bytes, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }

    fn evict(&mut self, page: u64) -> io::Result<()> {
        self.hole(page)
    }

    fn poison(&mut self, page: u64) -> io::Result<()> {
        self.map_empty(self.offset(page), self.page_bytes)?;
        self.hole(page)?;
        self.wake(page)
    }

    fn wake(&mut self, page: u64) -> io::Result<()> {
        // The thread repeats its access when its handler returns.
        if self.faults == Faults::BySignal {
            return Ok(());
        }
        self.wake_range(self.page_range(page))
    }

    fn close(&mut self) -> io::Result<()> {
        self.is_closed = true;
        self.map_empty(0, self.region.len)?;
        self.wake_range(self.range(0, self.region.len))
    }
}

impl Userfault {
    /// Maps the kernel's pages of a page one by one.
    fn continue_each(&self, page: u64) -> io::Result<()> {
        let step = rustix::param::page_size();
        for at in (0..self.page_bytes).step_by(step) {
            let range = self.range(self.offset(page) + at, step);
            let mut argument = abi::Continue {
                range,
                ..abi::Continue::default()
            };
            // SAFETY: as in `remap`.
            match unsafe { self.request(abi::UFFDIO_CONTINUE, &mut argument) } {
                Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
                _ => {}
            }
        }
        self.wake_range(self.page_range(page))
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        // Without a pager an access would find zeroes.
        if !self.is_closed {
            let _ = self.close();
        }
    }
}

/// A userfaultfd with what the map needs.
fn open(is_writable: bool, faults: Faults) -> Result<OwnedFd> {
    let flags = libc::c_long::from(libc::O_CLOEXEC | libc::O_NONBLOCK);
    let mut last = io::Error::from(io::ErrorKind::PermissionDenied);
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
            return shake_hands(uffd, is_writable, faults);
        }
        last = io::Error::last_os_error();
    }
    Err(Error::NotPermitted(last))
}

fn shake_hands(uffd: OwnedFd, is_writable: bool, faults: Faults) -> Result<OwnedFd> {
    let mut features = abi::FEATURE_MISSING_SHMEM | abi::FEATURE_MINOR_SHMEM;
    if is_writable {
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
    match (result, is_writable) {
        (0.., _) => Ok(uffd),
        (_, true) => Err(Error::NoWriteProtection),
        (_, false) => Err(Error::System {
            doing: "UFFDIO_API",
            error: io::Error::last_os_error(),
        }),
    }
}
