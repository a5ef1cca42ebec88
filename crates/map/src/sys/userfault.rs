// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared memory whose faults come to this process, by userfaultfd.
//!
//! The memory is a file in memory (memfd) as long as the map. A page's content is copied into it
//! from the buffer that the device filled (UFFDIO_COPY): the buffer is memory that the device
//! reaches, which stays pinned, while the file's pages come and go, so only as many pages are
//! pinned as requests are under way. Memory is taken by a hole in the file, which unmaps the page
//! everywhere.
#![allow(unsafe_code)]

use super::abi;
use super::guests::{Guests, Listener, poll_files};
use super::mapping::{Faults, Mapping, Region, Stores, failed, take_touches};
use crate::error::Result;
use crate::space::{Fault, Space};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};
use rustix::io::{Errno, pread, pwrite, read, retry_on_intr, write};
use rustix::mm::{Advice, madvise};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has woken a lane.
const FAULTS: u64 = 0;
const CALLS: u64 = 1;
const DEVICE: u64 = 2;

const HELP: EventfdFlags = EventfdFlags::CLOEXEC
    .union(EventfdFlags::NONBLOCK)
    .union(EventfdFlags::SEMAPHORE);

/// The pager's side of a region.
#[derive(Debug)]
pub struct Userfault {
    mapping: Mapping,
    /// Other processes with the same memory.
    guests: Mutex<Guests>,
    page_bytes: usize,
    faults: Faults,
    stores: Stores,
    /// A semaphore: each count wakes a lane that is not the main one. When the map has ended, it
    /// stays above zero.
    help: OwnedFd,
    is_closed: AtomicBool,
}

impl Userfault {
    /// Memory of `len` bytes, a multiple of `page_bytes`, whose pages are all absent, and whose
    /// faults are served as `faults` says. Stores are told if that is asked for and the kernel can.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] or [`Error::System`].
    pub fn new(len: usize, page_bytes: usize, stores: Stores, faults: Faults) -> Result<Self> {
        let (mapping, stores) = Mapping::new(len, stores, faults)?;
        Ok(Self {
            mapping,
            guests: Mutex::new(Guests::new(len, page_bytes)),
            page_bytes,
            faults,
            stores,
            help: eventfd(0, HELP).map_err(failed("eventfd"))?,
            is_closed: AtomicBool::new(false),
        })
    }

    /// The memory, for its users.
    pub fn region(&self) -> &Arc<Region> {
        self.mapping.region()
    }

    /// Lets other processes have the memory too, to read.
    pub fn share(&self, listener: Listener) {
        debug_assert!(!self.region().is_writable(), "a map that is stored to");
        self.guests().open(listener);
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        // Each of its calls leaves it whole.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that becomes readable when a thread waits, and for the main lane when it is notified;
    /// for another one when the main lane asks for help; and while the lane's device may have ended
    /// a request, if it has a file that tells. Of several lanes that sleep, a fault wakes one.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System).
    pub fn doorbell(&self, is_main: bool, completion_file: Option<i32>) -> Result<OwnedFd> {
        let files = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll_create"))?;
        let other = self.calls(is_main);
        let one = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        let add = |file, data, flags| {
            let added = epoll::add(&files, file, epoll::EventData::new_u64(data), flags);
            added.map_err(failed("epoll_ctl"))
        };
        add(self.mapping.uffd.as_fd(), FAULTS, one)?;
        add(other.as_fd(), CALLS, one)?;
        if let Some(file) = completion_file {
            // SAFETY: the lane's device says that it is open.
            let file = unsafe { BorrowedFd::borrow_raw(file) };
            add(file, DEVICE, epoll::EventFlags::IN)?;
        }
        Ok(files)
    }

    /// Sleeps until a lane's [`doorbell`](Self::doorbell) or `timeout_us` have passed. The main
    /// lane sleeps for the other processes, too. Returns whether threads may have begun to wait.
    ///
    /// # Errors
    /// The system call failed.
    pub fn wait(&self, doorbell: &OwnedFd, is_main: bool, timeout_us: u64) -> io::Result<bool> {
        let timeout = Timespec {
            tv_sec: (timeout_us / 1_000_000) as i64,
            tv_nsec: (timeout_us % 1_000_000) as i64 * 1000,
        };
        let others = if is_main {
            self.guests().files()
        } else {
            Vec::new()
        };
        let (mut has_faults, mut has_calls) = (true, true);
        let slept = if others.is_empty() {
            let mut events = [MaybeUninit::uninit(); 3];
            epoll::wait(doorbell, &mut events, Some(&timeout)).map(|(ready, _)| {
                let has = |tag| ready.iter().any(|event| event.data.u64() == tag);
                (has_faults, has_calls) = (has(FAULTS), has(CALLS));
            })
        } else {
            let mut files = poll_files(&others);
            files.push(PollFd::new(doorbell, PollFlags::IN));
            poll(&mut files, Some(&timeout)).map(drop)
        };
        match slept {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if has_calls {
            let mut count = [0; 8];
            match read(self.calls(is_main), &mut count) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(has_faults)
    }

    /// The counter by which a lane is woken for something else than a fault.
    fn calls(&self, is_main: bool) -> &OwnedFd {
        if is_main {
            &self.region().wakeup
        } else {
            &self.help
        }
    }

    fn offset(&self, page: u64) -> usize {
        let offset = page as usize * self.page_bytes;
        debug_assert!(offset + self.page_bytes <= self.region().len, "page {page}");
        offset
    }

    fn map_again(&self, page: u64, protected: bool) -> io::Result<()> {
        if protected && self.stores == Stores::Told {
            if self.has_hole(page)? {
                return Err(Errno::FAULT.into());
            }
            // Linux before 6.4 maps it writable, so a store could pass unseen: it is given again.
            let mut content = vec![0; self.page_bytes];
            self.read_memory(page, &mut content)?;
            self.hole(page)?;
            return self.copy_in(page, &content, true);
        }
        let mut argument = abi::Continue {
            range: self.page_range(page),
            ..abi::Continue::default()
        };
        // SAFETY: it maps pages of the region's own file into the region.
        match unsafe { self.mapping.request(abi::UFFDIO_CONTINUE, &mut argument) } {
            // Parts of a page of several kernel pages may be mapped already.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => self.continue_each(page),
            result => result,
        }
    }

    fn page_range(&self, page: u64) -> abi::Range {
        self.mapping.range(self.offset(page), self.page_bytes)
    }

    /// Copies `data` to an absent page, in as many calls as it takes.
    fn copy_in(&self, page: u64, data: &[u8], protected: bool) -> io::Result<()> {
        let is_protected = protected && self.stores == Stores::Told;
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
            match unsafe { self.mapping.try_request(abi::UFFDIO_COPY, &mut copy) } {
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
            fallocate(&self.region().memory, flags, offset, len)
        })?)
    }

    /// The first byte from `at` on without memory.
    fn next_hole(&self, at: u64) -> io::Result<u64> {
        Ok(seek(&self.region().memory, SeekFrom::Hole(at))?)
    }

    /// Gives an absent page its content, and no mapping.
    fn write_memory(&self, page: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = (self.offset(page) + done) as u64;
            done += retry_on_intr(|| pwrite(&self.region().memory, &data[done..], at))?;
        }
        Ok(())
    }

    fn read_memory(&self, page: u64, data: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = (self.offset(page) + done) as u64;
            match retry_on_intr(|| pread(&self.region().memory, &mut data[done..], at))? {
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
        unsafe {
            self.mapping
                .request(abi::UFFDIO_WRITEPROTECT, &mut argument)
        }
    }
}

impl Space for Userfault {
    fn tells_stores(&self) -> bool {
        self.stores != Stores::Hidden
    }

    fn take_faults(&self, faults: &mut Vec<Fault>) -> io::Result<()> {
        if self.faults == Faults::BySignal {
            return Ok(());
        }
        let start = self.region().start().as_ptr() as u64;
        take_touches(self.mapping.uffd.as_fd(), |touch| {
            let offset = touch.address.wrapping_sub(start);
            debug_assert!(offset < self.region().len as u64, "{:#x}", touch.address);
            faults.push(Fault {
                page: offset / self.page_bytes as u64,
                thread: touch.thread,
                store: touch.store,
                unmapped: touch.unmapped,
            });
            Ok(())
        })?;
        let memory = self.mapping.region().memory.as_fd();
        self.guests().take_faults(memory, faults)
    }

    fn call_for_help(&self) {
        // It fails only if 2^64 - 1 calls are pending.
        let _ = write(&self.help, &1u64.to_ne_bytes());
    }

    fn appeared(&self, page: u64) {
        self.guests().wake(page);
    }

    fn copy_out(&self, page: u64, data: &mut [u8]) -> io::Result<()> {
        self.read_memory(page, data)
    }

    fn install(&self, page: u64, data: &[u8], protected: bool) -> io::Result<()> {
        if protected && self.stores == Stores::Hidden {
            self.write_memory(page, data)?;
            return self.wake(page);
        }
        self.copy_in(page, data, protected)
    }

    fn remap(&self, page: u64, protected: bool) -> io::Result<()> {
        self.map_again(page, protected)?;
        self.appeared(page);
        Ok(())
    }

    fn unprotect(&self, page: u64) -> io::Result<()> {
        if self.stores == Stores::Hidden {
            return self.map_again(page, false);
        }
        self.set_protection(page, 0)
    }

    fn protect(&self, page: u64) -> io::Result<()> {
        if self.stores == Stores::Hidden {
            return self.unmap(page);
        }
        self.set_protection(page, abi::WRITEPROTECT_MODE_WP)
    }

    fn unmap(&self, page: u64) -> io::Result<()> {
        // SAFETY: of shared memory this drops the mapping, not the content, and the next access
        // faults.
        unsafe {
            let start = self.region().start().as_ptr().add(self.offset(page)).cast();
            madvise(start, self.page_bytes, Advice::LinuxDontNeed)?;
        }
        Ok(())
    }

    fn evict(&self, page: u64) -> io::Result<()> {
        self.hole(page)
    }

    fn has_hole(&self, page: u64) -> io::Result<bool> {
        let start = self.offset(page) as u64;
        Ok(self.next_hole(start)? < start + self.page_bytes as u64)
    }

    fn fill_holes(&self, page: u64) -> io::Result<()> {
        let end = (self.offset(page) + self.page_bytes) as u64;
        let mut at = self.offset(page) as u64;
        let zeroes = vec![0; rustix::param::page_size()];
        loop {
            at = self.next_hole(at)?;
            if at >= end {
                return Ok(());
            }
            let memory = &self.region().memory;
            at += retry_on_intr(|| pwrite(memory, &zeroes, at))? as u64;
        }
    }

    fn poison(&self, page: u64, error: block::Error) -> io::Result<()> {
        self.mapping.map_empty(self.offset(page), self.page_bytes)?;
        self.hole(page)?;
        self.guests().poison(page, error);
        self.wake(page)
    }

    fn wake(&self, page: u64) -> io::Result<()> {
        // The thread repeats its access when its handler returns.
        if self.faults == Faults::BySignal {
            return Ok(());
        }
        self.appeared(page);
        self.mapping.wake_range(self.page_range(page))
    }

    fn close(&self) -> io::Result<()> {
        self.is_closed.store(true, Ordering::Relaxed);
        *self.guests() = Guests::default();
        // As many as no program wakes.
        let _ = write(&self.help, &(1u64 << 40).to_ne_bytes());
        // Accesses past a file's end are errors; this needs no region more, unlike a mapping of
        // another file.
        ftruncate(&self.region().memory, 0)?;
        self.mapping
            .wake_range(self.mapping.range(0, self.region().len))
    }
}

impl Userfault {
    /// Maps the kernel's pages of a page one by one.
    fn continue_each(&self, page: u64) -> io::Result<()> {
        let step = rustix::param::page_size();
        for at in (0..self.page_bytes).step_by(step) {
            let range = self.mapping.range(self.offset(page) + at, step);
            let mut argument = abi::Continue {
                range,
                ..abi::Continue::default()
            };
            // SAFETY: as in `remap`.
            match unsafe { self.mapping.request(abi::UFFDIO_CONTINUE, &mut argument) } {
                Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
                _ => {}
            }
        }
        self.mapping.wake_range(self.page_range(page))
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        // Without a pager an access would find zeroes.
        if !*self.is_closed.get_mut() {
            let _ = self.close();
        }
    }
}
