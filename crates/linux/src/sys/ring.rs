// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests in an io_uring.
//!
//! The ring owns each request, its buffer included, from `start` until its completion is polled, so
//! that nothing else accesses the memory while the kernel reads or writes it. A dropped ring waits
//! for outstanding requests; one that does not end in time keeps its memory indefinitely.
#![allow(unsafe_code)]

use crate::memory::HostMemory;
use crate::single::errno_error;
use block::{Completion, Error, Operation, Refused, Request};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::time::{Duration, Instant};

/// How long a ring that is dropped waits for its requests.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// The longest range of memory that the kernel registers as one buffer.
pub(crate) const MAX_FIXED_BYTES: usize = 1 << 30;

/// A few bytes that a request may need besides its buffer, at a fixed address.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scratch(pub [u8; 16]);

/// What was registered with the kernel beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registered {
    /// The device's file is number 0.
    pub file: bool,
    /// The memory whose pieces are buffers.
    pub memory: Option<RegisteredMemory>,
}

/// Memory in equal pieces, each a buffer with its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisteredMemory {
    start: usize,
    len: usize,
    piece_bytes: usize,
}

impl Registered {
    /// The number of the registered buffer that contains all of these bytes, at least one.
    #[inline]
    pub(crate) fn buffer(&self, address: usize, len: usize) -> Option<u16> {
        let memory = self.memory.as_ref()?;
        let offset = address.wrapping_sub(memory.start);
        let room = memory.len.checked_sub(len)?;
        let piece = offset / memory.piece_bytes;
        let fits = offset <= room && (offset + len.max(1) - 1) / memory.piece_bytes == piece;
        fits.then_some(piece as u16)
    }
}

/// How a kind of device encodes a request as a submission.
///
/// # Safety
/// Each submission makes the kernel access no memory except the operation's buffer and the scratch,
/// within their lengths, and write to the buffer only for a read. Its completion comes exactly
/// once.
pub(crate) unsafe trait Encode {
    type Sqe: squeue::EntryMarker;
    type Cqe: cqueue::EntryMarker;

    /// The submission for a stage of `operation`, counted from 0; `None` after the last one. There
    /// is always a first.
    fn encode(
        &self,
        operation: &Operation,
        stage: u32,
        registered: Registered,
        scratch: &mut Scratch,
    ) -> Option<Self::Sqe>;

    /// Interprets the kernel's result of a stage.
    fn result(&self, operation: &Operation, answer: i32) -> Result<(), Error>;

    /// The device's file.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Writes the index of the request into the submission.
    fn name(submission: Self::Sqe, place: u64) -> Self::Sqe;

    /// The index of the request, and the kernel's result.
    fn answer(completion: &Self::Cqe) -> (u64, i32);
}

struct Active {
    request: Request,
    stage: u32,
    /// The number of its last submission, counted from the first in the ring.
    sequence: u64,
}

/// Up to `depth` requests in an io_uring.
pub(crate) struct Ring<E: Encode> {
    ring: IoUring<E::Sqe, E::Cqe>,
    encode: E,
    registered: Registered,
    places: Vec<Option<Active>>,
    scratch: Box<[Scratch]>,
    free: Vec<u16>,
    /// How many submissions were written.
    written: u64,
    /// The kernel did not take all of them: retry.
    again: bool,
    /// The kernel refuses the ring altogether. Submissions from the given number on were not taken.
    broken: Option<(i32, u64)>,
    // Keeps the registered memory mapped.
    _memory: Option<HostMemory>,
}

/// Parameters of a ring.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub depth: u16,
    pub poll: bool,
    pub register_file: bool,
    pub memory: Option<HostMemory>,
    /// The memory is registered in pieces of this length; at most 16,384 of them.
    pub piece_bytes: usize,
}

impl<E: Encode> Ring<E> {
    pub(crate) fn new(encode: E, setup: &Setup) -> io::Result<Self> {
        let mut builder = IoUring::<E::Sqe, E::Cqe>::builder();
        if setup.poll {
            builder.setup_iopoll();
        }
        let entries = u32::from(setup.depth).next_power_of_two();
        let ring = builder.build(entries)?;
        let mut registered = Registered::default();
        if setup.register_file {
            let file = encode.descriptor().as_raw_fd();
            ring.submitter().register_files(&[file])?;
            registered.file = true;
        }
        if let Some(memory) = &setup.memory {
            let (start, len) = (memory.arena().address(), memory.arena().len());
            let piece_bytes = setup.piece_bytes.clamp(1, MAX_FIXED_BYTES);
            let piece = |offset| libc::iovec {
                iov_base: (start + offset) as *mut _,
                iov_len: piece_bytes.min(len - offset),
            };
            let pieces: Vec<_> = (0..len).step_by(piece_bytes).map(piece).collect();
            // SAFETY: the memory is mapped as long as the arena, which this ring keeps.
            unsafe { ring.submitter().register_buffers(&pieces) }?;
            registered.memory = Some(RegisteredMemory {
                start,
                len,
                piece_bytes,
            });
        }
        Ok(Self {
            ring,
            encode,
            registered,
            places: (0..setup.depth).map(|_| None).collect(),
            scratch: vec![Scratch::default(); usize::from(setup.depth)].into_boxed_slice(),
            free: (0..setup.depth).rev().collect(),
            written: 0,
            again: false,
            broken: None,
            _memory: setup.memory.clone(),
        })
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Accepts a request whose operation was checked; the kernel sees it at the next `kick`.
    pub(crate) fn start(&mut self, request: Request) -> Result<(), Refused> {
        if self.broken.is_some() {
            let error = Error::Gone;
            return Err(Refused { error, request });
        }
        let Some(place) = self.free.pop() else {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        };
        let active = Active {
            request,
            stage: 0,
            sequence: 0,
        };
        match self.write(place, active) {
            Ok(()) => Ok(()),
            Err(active) => {
                self.free.push(place);
                Err(Refused {
                    error: Error::QueueFull,
                    request: active.request,
                })
            }
        }
    }

    /// Writes the submission of the request's stage; returns the request if there is no such stage,
    /// or no room.
    fn write(&mut self, place: u16, mut active: Active) -> Result<(), Active> {
        let index = usize::from(place);
        let (Some(room), Some(scratch)) = (self.places.get_mut(index), self.scratch.get_mut(index))
        else {
            return Err(active);
        };
        let operation = &active.request.operation;
        let entry = self
            .encode
            .encode(operation, active.stage, self.registered, scratch);
        let Some(entry) = entry else {
            return Err(active);
        };
        let entry = E::name(entry, u64::from(place));
        // SAFETY: the entry touches only the buffer and the scratch (`Encode`'s promise), which
        // stay in this ring, unmoved and unread, until the completion has come.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Err(active);
        }
        active.sequence = self.written;
        self.written += 1;
        *room = Some(active);
        Ok(())
    }

    /// Passes all written submissions to the kernel, in one system call.
    pub(crate) fn kick(&mut self) {
        if self.broken.is_none() && (self.again || !self.ring.submission().is_empty()) {
            self.enter();
        }
    }

    fn enter(&mut self) {
        let written = self.ring.submission().len();
        let taken = self.ring.submit();
        self.entered(written, taken);
    }

    fn entered(&mut self, written: usize, taken: io::Result<usize>) {
        self.again = match taken {
            Ok(taken) => taken < written,
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM | libc::ETIME) => {
                    !self.ring.submission().is_empty()
                }
                errno => {
                    let left = self.ring.submission().len() as u64;
                    self.broken = Some((errno.unwrap_or(libc::EIO), self.written - left));
                    false
                }
            },
        };
    }

    /// The next completion, if any.
    pub(crate) fn poll(&mut self) -> Option<Completion> {
        if self.free.len() == self.places.len() {
            return None;
        }
        if self.again {
            self.enter();
        }
        // Each iteration either ends one of the ring's requests or starts its next stage.
        let mut reaped = false;
        loop {
            let next = self.ring.completion().next();
            let Some(completion) = next else {
                if reaped || !self.ring.params().is_setup_iopoll() || self.broken.is_some() {
                    return self.poll_broken();
                }
                // On a polled queue only this process checks for completions.
                self.enter();
                reaped = true;
                continue;
            };
            let (place, answer) = E::answer(&completion);
            if let Some(ended) = self.end(place, answer) {
                return Some(ended);
            }
        }
    }

    fn end(&mut self, place: u64, answer: i32) -> Option<Completion> {
        let mut active = self.places.get_mut(usize::try_from(place).ok()?)?.take()?;
        let place = place as u16;
        let result = self.encode.result(&active.request.operation, answer);
        if result.is_ok() && self.broken.is_none() {
            active.stage += 1;
            match self.write(place, active) {
                Ok(()) => {
                    self.enter();
                    return None;
                }
                // There was no further stage.
                Err(ended) => active = ended,
            }
        }
        Some(self.complete(place, active, result))
    }

    fn complete(&mut self, place: u16, active: Active, result: Result<(), Error>) -> Completion {
        self.free.push(place);
        Completion {
            tag: active.request.tag,
            buffer: active.request.operation.into_buffer(),
            result,
        }
    }

    /// Ends the requests that the kernel never took.
    fn poll_broken(&mut self) -> Option<Completion> {
        let (errno, first) = self.broken?;
        let lost = |active: &Option<Active>| active.as_ref().is_some_and(|a| a.sequence >= first);
        let place = self.places.iter().position(lost)?;
        let active = self.places.get_mut(place)?.take()?;
        Some(self.complete(place as u16, active, Err(errno_error(errno))))
    }

    /// Sleeps until a completion may be available or the time has passed. A polled ring does not
    /// sleep.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        if self.outstanding() == 0
            || self.ring.params().is_setup_iopoll()
            || !self.ring.completion().is_empty()
        {
            return;
        }
        if self.broken.is_some() {
            std::thread::sleep(timeout.min(Duration::from_millis(1)));
            return;
        }
        let limit = Timespec::new()
            .sec(timeout.as_secs())
            .nsec(timeout.subsec_nanos());
        let written = self.ring.submission().len();
        let arguments = SubmitArgs::new().timespec(&limit);
        let taken = self.ring.submitter().submit_with_args(1, &arguments);
        self.entered(written, taken);
    }

    /// The ring itself, which is readable while it has completions. None if that would never be: on
    /// a polled queue, or when the ring is broken.
    pub(crate) fn completion_file(&self) -> Option<i32> {
        let tells = !self.ring.params().is_setup_iopoll() && self.broken.is_none();
        tells.then(|| self.ring.as_raw_fd())
    }
}

impl<E: Encode> Drop for Ring<E> {
    fn drop(&mut self) {
        let began = Instant::now();
        while self.outstanding() > 0 && began.elapsed() < DROP_LIMIT {
            self.kick();
            if self.poll().is_none() {
                self.wait(Duration::from_millis(10));
            }
        }
        if self.outstanding() > 0 {
            // The kernel still has their addresses. Buffers free nothing when they are dropped and
            // still count as in use, so their memory stays; the scratch is leaked so that it stays
            // too.
            std::mem::forget(std::mem::take(&mut self.scratch));
            return;
        }
        // The kernel tears down a closed ring in the background; unregister everything now, so that
        // the next exclusive open of the device succeeds.
        if self.registered.file {
            let _ = self.ring.submitter().unregister_files();
        }
        if self.registered.memory.is_some() {
            let _ = self.ring.submitter().unregister_buffers();
        }
    }
}

impl<E: Encode> std::fmt::Debug for Ring<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.places.len())
            .field("outstanding", &self.outstanding())
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}
