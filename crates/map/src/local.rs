//! A map that is served by the thread that uses it: no other thread is woken, and the device is polled
//! where the page is needed.

use crate::error::{Error, Failure, Result};
use crate::map::{Options, POLL_US, micros};
use crate::pager::{Counters, Pager, Range, Reports};
use crate::space::Fault;
use crate::sys::{Faults, Region, Serve, Served, Stores, Userfault};
use block::{Buffer, Device};
use std::cell::RefCell;
use std::io;
use std::ops;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// A range of a device as memory of one thread, which serves its own faults.
///
/// A load or store of a page that is absent is a SIGBUS whose handler reads the page from the device,
/// polls until it has come, and lets the instruction go on. Only the thread that made the map may use
/// its memory: another thread's access is an error, and so is a system call that is given a page
/// which is absent (EFAULT). An access that cannot be served gets the SIGBUS that it would have had
/// without a handler, and [`take_failures`](Self::take_failures) has the reason.
///
/// Pages that were read ahead arrive when the next one is missing, or at a call of
/// [`turn`](Self::turn).
#[derive(Debug)]
pub struct LocalMap<D: Device + 'static> {
    /// None once it is closed.
    served: Option<Served<State<D>>>,
    region: Arc<Region>,
    reports: Arc<Reports>,
    size_bytes: u64,
    page_bytes: u64,
}

#[derive(Debug)]
struct State<D: Device> {
    pager: RefCell<Pager<D, Userfault>>,
    page_bytes: usize,
    started: Instant,
}

/// Maps `range` of `device` for this thread. `buffers` are memory that the device reaches, of a page
/// each: as many as requests may be under way.
///
/// # Errors
/// [`Error::Options`], or those of the kernel.
pub fn map_local<D: Device + 'static>(
    device: D,
    range: Range,
    options: &Options,
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
    let pager = Pager::new(device, space, range, limits, buffers, Arc::clone(&reports));
    let start = region.start().as_ptr() as usize;
    let served = Served::new(
        start..start + len,
        State {
            pager: RefCell::new(pager),
            page_bytes: page,
            started: Instant::now(),
        },
    )?;
    Ok(LocalMap {
        served: Some(served),
        region,
        reports,
        size_bytes: range.size_bytes,
        page_bytes: page as u64,
    })
}

impl<D: Device + 'static> LocalMap<D> {
    /// The first byte. Until the map is dropped, this thread can load from `size_bytes` bytes from
    /// there on, and store to them if the map is writable.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.start()
    }

    /// Length in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of memory that hold content now.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn resident_bytes(&self) -> Result<u64> {
        self.region.resident_bytes()
    }

    /// Writes what was stored until now, and makes it durable.
    ///
    /// # Errors
    /// [`Error::Unwritten`], [`Error::Flush`], or [`Error::System`].
    pub fn sync(&self) -> Result<()> {
        match &self.served {
            Some(served) => served.get().sync(),
            None => Err(Error::Ended),
        }
    }

    /// Reads a range soon, as much of it, from its start, as there is memory for: the reads begin
    /// now, and the pages arrive as in [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`Error::Options`] if the range is not in the map, or [`Error::System`].
    pub fn prefetch(&self, bytes: ops::Range<u64>) -> Result<()> {
        let pages = crate::map::pages(bytes, self.size_bytes, self.page_bytes)?;
        let served = self.served.as_ref().ok_or(Error::Ended)?;
        served.get().pager.borrow_mut().prefetch(pages);
        served.get().turn().map(drop).map_err(serving)
    }

    /// Does what can be done without waiting: pages whose reads have ended appear, and writes of old
    /// pages begin. Returns whether there was something.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn turn(&self) -> Result<bool> {
        let served = self.served.as_ref().ok_or(Error::Ended)?;
        served.get().turn().map_err(serving)
    }

    /// Accesses that were errors and pages that could not be written, since the last call; the
    /// oldest thousand.
    pub fn take_failures(&self) -> Vec<Failure> {
        self.reports.take_failures()
    }

    /// Has `callback` called with each failure, before the access that it ends: in the handler of that
    /// access's signal, so it must touch no map of this thread.
    ///
    /// # Errors
    /// [`Error::Options`]: the map has a callback.
    pub fn on_failure(&self, callback: impl Fn(Failure) + Send + Sync + 'static) -> Result<()> {
        self.reports.call(callback)
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.reports.counters()
    }

    /// Ends the map: writes what was stored and makes it durable, and returns the device and the
    /// buffers.
    ///
    /// # Errors
    /// The last sync failed, or [`Error::System`].
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

fn finish<D: Device>(served: Served<State<D>>) -> Result<(D, Vec<Buffer>)> {
    let synced = served.get().sync();
    served.get().pager.borrow_mut().end_ahead();
    let state = served.into_inner();
    while state.pager.borrow().is_busy() {
        if !state.turn().map_err(serving)? {
            state.pager.borrow_mut().wait(POLL_US);
        }
    }
    let closed = state.pager.into_inner().close().map_err(serving)?;
    synced.map(|()| closed)
}

const fn serving(error: io::Error) -> Error {
    Error::System {
        doing: "serving page faults",
        error,
    }
}

impl<D: Device> State<D> {
    fn turn(&self) -> io::Result<bool> {
        let now_us = micros(self.started.elapsed());
        self.pager.borrow_mut().turn(now_us)
    }

    fn sync(&self) -> Result<()> {
        self.pager.borrow_mut().begin_sync();
        loop {
            let has_moved = self.turn().map_err(serving)?;
            let mut pager = self.pager.borrow_mut();
            if let Some(result) = pager.take_synced() {
                return result;
            }
            if !has_moved {
                pager.wait(POLL_US);
            }
        }
    }
}

impl<D: Device> Serve for State<D> {
    fn serve(&self, offset: usize, store: bool) -> bool {
        // The pager touches no page of the region, so a fault inside it is an error of the device's.
        let Ok(mut pager) = self.pager.try_borrow_mut() else {
            return false;
        };
        let page = (offset / self.page_bytes) as u64;
        if pager.is_poisoned(page) {
            return false;
        }
        // No other thread's fault can have been served since, so a page in memory has no mapping.
        let unmapped = true;
        pager.space_mut().give(Fault {
            page,
            store,
            unmapped,
        });
        loop {
            let now_us = micros(self.started.elapsed());
            if pager.turn(now_us).is_err() {
                return false;
            }
            if pager.is_settled(page) {
                // Of a page that could not be read, the next access is an error as well.
                return !pager.is_poisoned(page);
            }
            if pager.is_busy() {
                pager.wait(POLL_US);
            }
        }
    }
}
