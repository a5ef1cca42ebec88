// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A map that is served by the thread that uses it: no other thread is woken, and the device is
//! polled where the page is needed.

use crate::error::{Error, PageError, Result};
use crate::map::{POLL_US, PagerOptions, serving};
use crate::pager::{Counters, Lane, Range, Reports, Shared};
use crate::space::Fault;
use crate::sys::{Faults, Region, Serve, Served, Stores, Userfault};
use block::{Buffer, Device};
use std::cell::Cell;
use std::io;
use std::ops;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A range of a device as memory of one thread, which serves its own faults.
///
/// A load or store of a page that is absent is a SIGBUS whose handler reads the page from the
/// device, polls until it has come, and lets the instruction go on. Only the thread that made the
/// map may use its memory: another thread's access is an error, and so is a system call that is
/// given a page which is absent (EFAULT). An access that cannot be served gets the SIGBUS that it
/// would have had without a handler, and [`take_failures`](Self::take_failures) has the reason.
///
/// Pages that were read ahead arrive when the next one is missing, or at a call of
/// [`turn`](Self::turn).
#[derive(Debug)]
pub struct LocalMap<D: Device + 'static> {
    /// None once it is closed.
    served: Option<Served<Thread<D>>>,
    local: Arc<Local<D>>,
    range: Range,
    reports: Arc<Reports>,
}

/// What all threads of a map have.
#[derive(Debug)]
struct Local<D> {
    shared: Shared<Userfault>,
    region: Arc<Region>,
    options: PagerOptions,
    /// Those of all threads. A thread helps the others when its page is read by one of them.
    lanes: Mutex<Vec<Arc<Mutex<Lane<D>>>>>,
}

/// What one thread serves its faults with. A thread has one of these locked at a time, and none
/// while it waits for another.
#[derive(Debug)]
struct Thread<D> {
    local: Arc<Local<D>>,
    lane: Arc<Mutex<Lane<D>>>,
    /// The thread decides: a fault now is an error of the device's, which touches the map.
    is_inside: Cell<bool>,
}

/// Maps `range` of `device` for this thread. `buffers` are memory that the device reaches, of a
/// page each: as many as requests may be under way.
///
/// # Errors
/// [`Error::Options`], or those of the kernel.
pub fn map_local<D: Device + 'static>(
    device: D,
    range: Range,
    options: &PagerOptions,
    buffers: Vec<Buffer>,
) -> Result<LocalMap<D>> {
    let len = options.check(device.geometry(), range, &buffers)?;
    let page = options.page_bytes;
    let stores = match options.stores() {
        // Only there the signal says whether the access was a store.
        Stores::Told if !cfg!(target_arch = "x86_64") => Stores::Hidden,
        stores => stores,
    };
    let space = Userfault::new(len, page, stores, Faults::BySignal)?;
    let region = Arc::clone(space.region());
    let reports = Arc::new(Reports::default());
    let limits = options.limits();
    let local = Arc::new(Local {
        shared: Shared::new(space, range, limits, Arc::clone(&reports)),
        region,
        options: *options,
        lanes: Mutex::new(Vec::new()),
    });
    Ok(LocalMap {
        served: Some(Thread::serve(Arc::clone(&local), device, buffers)?),
        local,
        range,
        reports,
    })
}

impl<D: Device + 'static> LocalMap<D> {
    /// The first byte. Until the map is dropped, this thread can load from `size_bytes` bytes from
    /// there on, and store to them if the map is writable.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.local.region.start()
    }

    /// Length in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.range.size_bytes
    }

    /// Bytes of memory that hold content now.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn resident_bytes(&self) -> Result<u64> {
        self.local.region.resident_bytes()
    }

    /// Writes what was stored until now, and makes it durable.
    ///
    /// # Errors
    /// [`Error::Unwritten`], [`Error::Flush`], [`Error::Late`] or [`Error::System`].
    pub fn sync(&self) -> Result<()> {
        self.thread()?.sync()
    }

    /// Reads a range soon, as much of it, from its start, as there is memory for: the reads begin
    /// now, and the pages arrive as in [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`Error::Options`] if the range is not in the map, or [`Error::System`].
    pub fn prefetch(&self, bytes: ops::Range<u64>) -> Result<()> {
        let page_bytes = self.local.options.page_bytes as u64;
        let pages = crate::map::pages(bytes, self.range.size_bytes, page_bytes)?;
        self.thread()?
            .with_lane(|lane, shared| lane.pager(shared).prefetch(pages));
        self.turn().map(drop)
    }

    /// Does what can be done without waiting: pages whose reads have ended appear, and writes of
    /// old pages begin. Returns whether there was something.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn turn(&self) -> Result<bool> {
        self.thread()?.turn().map_err(serving)
    }

    /// For other threads, which may use the map, too, once each has joined it.
    pub fn lanes(&self) -> LocalLanes<D> {
        LocalLanes {
            local: Arc::clone(&self.local),
            range: self.range,
        }
    }

    fn thread(&self) -> Result<&Thread<D>> {
        Ok(self.served.as_ref().ok_or(Error::Ended)?.get())
    }

    /// Accesses that were errors and pages that could not be written, since the last call; the
    /// oldest thousand.
    pub fn take_failures(&self) -> Vec<PageError> {
        self.reports.take_failures()
    }

    /// Has `callback` called with each failure, before the access that it ends: in the handler of
    /// that access's signal, so it must touch no map of this thread.
    ///
    /// # Errors
    /// [`Error::Options`]: the map has a callback.
    pub fn on_failure(&self, callback: impl Fn(PageError) + Send + Sync + 'static) -> Result<()> {
        self.reports.call(callback)
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.reports.counters()
    }

    /// Ends the map: writes what was stored and makes it durable, and returns the device and the
    /// buffers. From then on an access of a thread that has joined the map is an error.
    ///
    /// # Errors
    /// The last sync failed, [`Error::Late`] or [`Error::System`].
    pub fn close(mut self) -> Result<(D, Vec<Buffer>)> {
        match self.served.take() {
            Some(served) => finish(served),
            None => Err(Error::Ended),
        }
    }
}

impl<D: Device + 'static> Drop for LocalMap<D> {
    /// As [`close`](Self::close), without its result.
    fn drop(&mut self) {
        if let Some(served) = self.served.take() {
            drop(finish(served));
        }
    }
}

fn finish<D: Device + 'static>(served: Served<Thread<D>>) -> Result<(D, Vec<Buffer>)> {
    let synced = served.get().sync();
    let closed = served.get().local.shared.close().map_err(serving);
    let back = leave(served);
    synced.and(closed).and(back)
}

/// Lets other threads join a map of [`map_local`].
///
/// ```text
/// let map = map_local(device, range, &options, buffers)?;
/// let lanes = map.lanes();
/// scope.spawn(move || {
///     let lane = lanes.join(another_queue, more_buffers)?; // its accesses are served from here on
/// ```
#[derive(Debug)]
pub struct LocalLanes<D> {
    local: Arc<Local<D>>,
    range: Range,
}

impl<D> Clone for LocalLanes<D> {
    fn clone(&self) -> Self {
        Self {
            local: Arc::clone(&self.local),
            range: self.range,
        }
    }
}

impl<D: Device + Send + 'static> LocalLanes<D> {
    /// Lets this thread use the map, and serve its own faults with a device of its own: another
    /// queue of the drive, or another opening of the file, whose flush makes durable what all have
    /// written.
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::System`], or [`Error::Ended`].
    pub fn join(&self, device: D, buffers: Vec<Buffer>) -> Result<LocalLane<D>> {
        self.local
            .options
            .check(device.geometry(), self.range, &buffers)?;
        if self.local.shared.has_ended() {
            return Err(Error::Ended);
        }
        let served = Thread::serve(Arc::clone(&self.local), device, buffers)?;
        Ok(LocalLane {
            served: Some(served),
            region: Arc::clone(&self.local.region),
        })
    }
}

/// A thread's use of a map that is served by the threads that use it.
#[derive(Debug)]
pub struct LocalLane<D: Device + 'static> {
    /// None once it is closed.
    served: Option<Served<Thread<D>>>,
    region: Arc<Region>,
}

impl<D: Device + 'static> LocalLane<D> {
    /// The map's first byte, as [`LocalMap::as_ptr`].
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.start()
    }

    /// Ends this thread's use of the map, when what it has asked of the device has ended; returns
    /// the device and the buffers.
    ///
    /// # Errors
    /// [`Error::Late`] or [`Error::System`].
    pub fn close(mut self) -> Result<(D, Vec<Buffer>)> {
        match self.served.take() {
            Some(served) => leave(served),
            None => Err(Error::Ended),
        }
    }
}

impl<D: Device + 'static> Drop for LocalLane<D> {
    /// As [`close`](Self::close), without its result.
    fn drop(&mut self) {
        if let Some(served) = self.served.take() {
            drop(leave(served));
        }
    }
}

/// Ends what this thread has asked of its device, and takes its lane from the map.
fn leave<D: Device + 'static>(served: Served<Thread<D>>) -> Result<(D, Vec<Buffer>)> {
    let started = Instant::now();
    let deadline = served.get().local.options.call_deadline;
    // Others may wait for these pages, so what was read is used; after the end of the map no thread
    // does.
    let ended = loop {
        let thread = served.get();
        let is_busy = thread.with_lane(|lane, _| lane.is_busy());
        if !is_busy || thread.local.shared.has_ended() {
            break Ok(());
        }
        match thread.turn_or_wait() {
            Ok(_) if deadline.is_some_and(|most| started.elapsed() >= most) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(serving(error)),
        }
    };
    let Thread { local, lane, .. } = served.into_inner();
    lock(&local.lanes).retain(|other| !Arc::ptr_eq(other, &lane));
    let mut lane = lane;
    let lane = loop {
        // A thread that helps has it for the time of one turn.
        match Arc::try_unwrap(lane) {
            Ok(lane) => break lane.into_inner().unwrap_or_else(PoisonError::into_inner),
            Err(shared) => lane = shared,
        }
        std::thread::yield_now();
    };
    let back = lane.close(deadline);
    ended.and(back)
}

/// Each of its users leaves what it locks whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Device + 'static> Thread<D> {
    /// Serves the faults of this thread from now on.
    fn serve(local: Arc<Local<D>>, device: D, buffers: Vec<Buffer>) -> Result<Served<Self>> {
        let start = local.region.start().as_ptr() as usize;
        let lane = Arc::new(Mutex::new(Lane::new(device, buffers)));
        let addresses = start..start + local.region.len();
        let thread = Self {
            local,
            lane,
            is_inside: Cell::new(false),
        };
        let served = Served::new(addresses, thread)?;
        let Self { local, lane, .. } = served.get();
        lock(&local.lanes).push(Arc::clone(lane));
        Ok(served)
    }

    fn with_lane<R>(&self, body: impl FnOnce(&mut Lane<D>, &Shared<Userfault>) -> R) -> R {
        let was_inside = self.is_inside.replace(true);
        let result = body(&mut lock(&self.lane), &self.local.shared);
        self.is_inside.set(was_inside);
        result
    }

    fn turn(&self) -> io::Result<bool> {
        self.with_lane(|lane, shared| lane.turn(shared, true))
    }

    /// A turn of the lanes that their threads do not use at the moment.
    fn help(&self) -> io::Result<bool> {
        let mut has_moved = false;
        for other in &*lock(&self.local.lanes) {
            if !Arc::ptr_eq(other, &self.lane) {
                if let Ok(mut lane) = other.try_lock() {
                    has_moved |= lane.is_busy() && lane.turn(&self.local.shared, true)?;
                }
            }
        }
        Ok(has_moved)
    }

    /// A turn of this lane and, if that does nothing, of others; then waits.
    fn turn_or_wait(&self) -> io::Result<bool> {
        if self.turn()? {
            return Ok(true);
        }
        let has_moved = self.help()?;
        if !has_moved {
            self.with_lane(|lane, _| {
                if lane.is_busy() {
                    lane.wait(POLL_US)
                } else {
                    std::thread::sleep(Duration::from_micros(POLL_US.into()))
                }
            });
        }
        Ok(has_moved)
    }

    fn sync(&self) -> Result<()> {
        self.with_lane(|lane, shared| lane.pager(shared).begin_sync());
        loop {
            self.turn_or_wait().map_err(serving)?;
            let result = self.with_lane(|lane, shared| lane.pager(shared).take_synced());
            if let Some(result) = result {
                return result;
            }
        }
    }

    /// Serves a fault; returns whether the access is possible now.
    fn bring(&self, page: u64, store: bool) -> bool {
        let shared = &self.local.shared;
        // If another thread's fault was served since, there is a mapping, which does not matter.
        let unmapped = true;
        let mut reported = Some(Fault {
            page,
            thread: Arc::as_ptr(&self.lane) as u64,
            store,
            unmapped,
        });
        loop {
            let moved = self.with_lane(|lane, shared| {
                if let Some(fault) = reported.take() {
                    lane.report(fault);
                }
                let moved = lane.turn(shared, true)?;
                let is_mine = lane.reads(page);
                if !moved && is_mine {
                    lane.wait(POLL_US);
                }
                Ok(moved || is_mine)
            });
            // Of a page that could not be read, the next access is an error as well.
            if let Some(is_possible) = shared.settled(page) {
                // Writes that other threads have left count against the limit of dirty pages: if no
                // thread ended them, this page could be written, and be no longer writable, again
                // and again.
                let helps = self.local.options.writable && is_possible;
                return is_possible && (!helps || self.help().is_ok());
            }
            let moved = moved.and_then(|moved| if moved { Ok(true) } else { self.turn_or_wait() });
            if io::Result::is_err(&moved) {
                return false;
            }
        }
    }
}

impl<D: Device + 'static> Serve for Thread<D> {
    fn serve(&self, offset: usize, store: bool) -> bool {
        // The pager touches no page of the region, so a fault inside it is an error of the
        // device's.
        if self.is_inside.replace(true) {
            return false;
        }
        let page = (offset / self.local.options.page_bytes) as u64;
        let is_possible = self.bring(page, store);
        self.is_inside.set(false);
        is_possible
    }
}
