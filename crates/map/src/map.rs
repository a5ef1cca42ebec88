// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A map and the loop that serves it.
//!
//! The device stays on the thread that opened it: that thread runs the [`Server`], and any other
//! thread uses the [`Map`].

use crate::error::{Error, PageError, Result};
use crate::pager::{Counters, Lane, Limits, Pager, Range, Reports, Shared, check, micros};
use crate::share::Hello;
use crate::sys::{Faults, Listener, Region, Stores, Userfault};
use crate::window::Window;
use block::{Buffer, Device, Geometry};
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long a server without work sleeps before it looks for its users' end.
const IDLE_US: u64 = 1_000_000;
/// The shortest age at which a page is written.
const LEAST_AGE_US: u64 = 1000;
/// How long a server sleeps for a device that wakes it, at most.
const BUSY_US: u64 = 10_000;
/// How long a server sleeps for a request that is under way before it looks for faults.
pub(crate) const POLL_US: u32 = 50;

/// How a range is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagerOptions {
    /// Whether threads may store.
    pub writable: bool,
    /// Finds stores by the content of the pages that threads touched, as on kernels without
    /// userfaultfd's write protection (before Linux 5.19, and not on x86-64). There it is always
    /// so.
    ///
    /// A page that was touched counts as dirty until it is looked at, which a sync, an eviction and
    /// the limits do, and is written if it has changed.
    pub stores_by_content: bool,
    /// Bytes of a page, which is what one fault reads: a power of two from 4 KiB to 2 MiB, at
    /// least a page of the kernel.
    pub page_bytes: usize,
    /// The most bytes of memory that hold the map's content; at least four pages, which one
    /// instruction may touch.
    pub resident_bytes: usize,
    /// Above this many bytes that were stored to, the server writes the oldest of them. A page
    /// counts at least, or no store to it could ever be made.
    pub dirty_bytes: usize,
    /// A page is written when its first store is this old; less than a millisecond counts as one,
    /// in which the thread stores.
    pub dirty_age: Option<Duration>,
    /// How long an access waits for the device: then it is an error (ETIMEDOUT), as if the device
    /// had refused to read the page. Drivers have deadlines of their own; this holds for any
    /// device.
    pub read_deadline: Option<Duration>,
    /// How long a sync, a pin or the end of the map waits while the device ends nothing for it:
    /// then it is [`Error::Late`]. What was stored stays in memory, for the next sync.
    pub call_deadline: Option<Duration>,
    /// How long a server without work looks for faults before it sleeps. A fault in this time wakes
    /// no sleeping processor, but the server takes one whole. A map that serves itself has no
    /// server.
    pub spin: Duration,
    /// Bytes that are read behind a page that a thread touches, for accesses in ascending order. A
    /// thread that follows finds its pages in memory, and one fault for half of these bytes.
    pub read_ahead_bytes: usize,
}

impl Default for PagerOptions {
    /// Read-only, in pages of 4 KiB, with 64 MiB of memory, half of which may be dirty for any
    /// time, without read-ahead, and servers that sleep at once; an access, and a call for which
    /// the device does nothing, wait for a minute at most.
    fn default() -> Self {
        Self {
            writable: false,
            stores_by_content: false,
            page_bytes: 4 << 10,
            resident_bytes: 64 << 20,
            dirty_bytes: 32 << 20,
            dirty_age: None,
            read_deadline: Some(Duration::from_secs(60)),
            call_deadline: Some(Duration::from_secs(60)),
            spin: Duration::ZERO,
            read_ahead_bytes: 0,
        }
    }
}

impl PagerOptions {
    /// The limits in pages.
    pub(crate) fn limits(&self) -> Limits {
        let pages = |bytes: usize| bytes.checked_div(self.page_bytes).unwrap_or(0);
        Limits {
            page_bytes: self.page_bytes,
            resident_pages: pages(self.resident_bytes),
            // A page is writable from the thread's fault on, so a write at once would only lead to
            // the next fault.
            dirty_pages: pages(self.dirty_bytes).max(1),
            dirty_age_us: self.dirty_age.map(|age| micros(age).max(LEAST_AGE_US)),
            read_deadline_us: self.read_deadline.map(micros),
            call_deadline_us: self.call_deadline.map(micros),
            read_ahead_pages: pages(self.read_ahead_bytes),
        }
    }

    /// How the stores shall be found.
    pub(crate) const fn stores(&self) -> Stores {
        match (self.writable, self.stores_by_content) {
            (false, _) => Stores::None,
            (true, false) => Stores::Told,
            (true, true) => Stores::Hidden,
        }
    }

    /// Checks what is mapped; returns the length of the memory: whole pages.
    pub(crate) fn check(
        &self,
        geometry: &Geometry,
        range: Range,
        buffers: &[Buffer],
    ) -> Result<usize> {
        check(geometry, range, self.limits(), buffers)?;
        if self.page_bytes % rustix::param::page_size() != 0 {
            return Err(Error::Options("a page has at least a page of the kernel"));
        }
        if self.writable && geometry.features.read_only {
            return Err(Error::Options("the device is read-only"));
        }
        let len = usize::try_from(range.size_bytes).ok();
        let len = len.and_then(|len| len.checked_next_multiple_of(self.page_bytes));
        let len = len.filter(|&len| isize::try_from(len).is_ok());
        len.ok_or(Error::Options("the map is too long"))
    }
}

/// A user's order to the server.
#[derive(Debug)]
enum Order {
    Sync(SyncSender<Result<()>>),
    /// Pages, as in all of these.
    Prefetch(ops::Range<u64>),
    Pin(ops::Range<u64>, SyncSender<Result<()>>),
    Unpin(ops::Range<u64>),
    Evict(ops::Range<u64>),
    Stored(ops::Range<u64>, SyncSender<()>),
    Resident(SyncSender<Vec<u64>>),
    Share(Listener, SyncSender<()>),
}

/// A range of a device as memory.
///
/// Accesses are loads and stores through [`as_ptr`](Map::as_ptr); the [`Server`] serves them while
/// it runs. An access that cannot be served, because the device fails or the server has ended, gets
/// SIGBUS with the address, and [`take_failures`](Map::take_failures) has the reason. A child
/// process does not inherit the map: after a fork its accesses get SIGSEGV.
#[derive(Debug)]
pub struct Map {
    region: Arc<Region>,
    size_bytes: u64,
    page_bytes: u64,
    orders: Sender<Order>,
    reports: Arc<Reports>,
}

impl Map {
    /// The first byte. Until the map is dropped, `size_bytes` bytes from there on can be loaded
    /// from, and stored to if it is writable; threads that do so at once synchronise as with any
    /// memory.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.start()
    }

    /// Length in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether stores are possible.
    pub fn is_writable(&self) -> bool {
        self.region.is_writable()
    }

    /// Bytes of memory that hold content now. While several servers give and take pages, the kernel
    /// may count one that has been taken for some microseconds more.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn resident_bytes(&self) -> Result<u64> {
        self.region.resident_bytes()
    }

    /// Writes what was stored until now, and makes it durable.
    ///
    /// # Errors
    /// [`Error::Unwritten`], [`Error::Flush`] or [`Error::Ended`].
    pub fn sync(&self) -> Result<()> {
        self.ask(Order::Sync)?
    }

    /// Reads a range soon, without waiting: as much of it, from its start, as there is memory for.
    /// A page that cannot be read is tried again when it is touched.
    ///
    /// # Errors
    /// [`Error::Options`] if the range is not in the map, [`Error::Ended`].
    pub fn prefetch(&self, bytes: ops::Range<u64>) -> Result<()> {
        self.tell(Order::Prefetch(self.pages(bytes)?))
    }

    /// Reads a range and keeps it in memory until it is unpinned: accesses to it do not wait, but
    /// for stores to pages that are being written. A page is unpinned when it was as often as it
    /// was pinned.
    ///
    /// # Errors
    /// The range is not pinned: [`Error::Options`] if it is not in the map, or if all pinned pages
    /// would leave less than four for others; [`Error::Unread`]; [`Error::Ended`].
    pub fn pin(&self, bytes: ops::Range<u64>) -> Result<()> {
        let pages = self.pages(bytes)?;
        self.ask(|answer| Order::Pin(pages, answer))?
    }

    /// Lets the memory of a range that was pinned be used for others again.
    ///
    /// # Errors
    /// [`Error::Options`] if the range is not in the map, [`Error::Ended`].
    pub fn unpin(&self, bytes: ops::Range<u64>) -> Result<()> {
        self.tell(Order::Unpin(self.pages(bytes)?))
    }

    /// Gives another device access to a range, by DMA: `grant` is told the memory, which is pinned,
    /// and makes it reachable, as `linux::vfio::Function::grant` does behind an IOMMU.
    ///
    /// What the device has stored is written like other stores once [`Window::written`] was called;
    /// the map must be writable for it.
    ///
    /// # Errors
    /// Those of [`pin`](Self::pin), and the grant's.
    pub fn window<G, E: From<Error>>(
        &self,
        bytes: ops::Range<u64>,
        grant: impl FnOnce(NonNull<u8>, usize) -> std::result::Result<G, E>,
    ) -> std::result::Result<Window<'_, G>, E> {
        Window::new(self, bytes, grant)
    }

    /// Has the server do what a store to each of these pages, all of them in memory, makes it do.
    pub(crate) fn stored(&self, bytes: ops::Range<u64>) -> Result<()> {
        let pages = self.pages(bytes)?;
        self.ask(|answer| Order::Stored(pages, answer))
    }

    /// Gives back the memory of a range that is not needed soon. Pages that are pinned, or that
    /// were stored to since their last write, stay.
    ///
    /// # Errors
    /// [`Error::Options`] if the range is not in the map, [`Error::Ended`].
    pub fn evict(&self, bytes: ops::Range<u64>) -> Result<()> {
        self.tell(Order::Evict(self.pages(bytes)?))
    }

    /// What is in memory now, in ascending ranges of bytes: a working set that the next run can
    /// [`prefetch`](Self::prefetch).
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn resident_ranges(&self) -> Result<Vec<ops::Range<u64>>> {
        let pages = self.ask(Order::Resident)?;
        let mut ranges: Vec<ops::Range<u64>> = Vec::new();
        for page in pages {
            let start = page * self.page_bytes;
            let end = (start + self.page_bytes).min(self.size_bytes);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    /// Lets other processes of this user map the first `size_bytes` to read, by
    /// [`attach`](crate::attach) with the path of the socket that this makes. It is removed when
    /// the map ends; one that a killed server has left is replaced.
    ///
    /// They hold the memory itself, so a process that shares must be trusted not to store to it by
    /// other means; nothing that it stores reaches the device.
    ///
    /// # Errors
    /// [`Error::Options`]: the map may be stored to, or is shorter; [`Error::Exists`];
    /// [`Error::System`]: the socket could not be made; [`Error::Ended`].
    pub fn share(&self, path: &Path, size_bytes: u64) -> Result<()> {
        if self.is_writable() {
            return Err(Error::Options("a map that may be stored to is not shared"));
        }
        if size_bytes > self.size_bytes {
            return Err(Error::Options("the map is shorter than what is shared"));
        }
        let hello = Hello {
            len: self.size_bytes.next_multiple_of(self.page_bytes),
            page_bytes: self.page_bytes,
            size_bytes,
        };
        let listener = Listener::new(path, hello)?;
        self.ask(|answer| Order::Share(listener, answer))
    }

    fn pages(&self, bytes: ops::Range<u64>) -> Result<ops::Range<u64>> {
        pages(bytes, self.size_bytes, self.page_bytes)
    }

    fn tell(&self, order: Order) -> Result<()> {
        self.orders.send(order).map_err(|_| Error::Ended)?;
        self.region.notify();
        Ok(())
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T> {
        let (answer, result) = sync_channel(1);
        self.tell(order(answer))?;
        result.recv().map_err(|_| Error::Ended)
    }

    /// Accesses that were errors and pages that could not be written, since the last call; the
    /// oldest thousand.
    pub fn take_failures(&self) -> Vec<PageError> {
        self.reports.take_failures()
    }

    /// Has `callback` called with each failure, before the access that it ends: by the server's
    /// thread, so it must touch no map that this server serves, nor wait for one.
    ///
    /// # Errors
    /// [`Error::Options`]: the map has a callback.
    pub fn on_failure(&self, callback: impl Fn(PageError) + Send + Sync + 'static) -> Result<()> {
        self.reports.call(callback)
    }

    /// What the server has done so far.
    pub fn counters(&self) -> Counters {
        self.reports.counters()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // The channel's end is noticed at the next turn.
        let (orders, _) = channel();
        self.orders = orders;
        self.region.notify();
    }
}

/// The pages that a range of bytes touches in a map of `size_bytes`.
pub(crate) fn pages(
    bytes: ops::Range<u64>,
    size_bytes: u64,
    page_bytes: u64,
) -> Result<ops::Range<u64>> {
    if bytes.start > bytes.end || bytes.end > size_bytes {
        return Err(Error::Options("the range is not in the map"));
    }
    if bytes.is_empty() {
        return Ok(0..0);
    }
    Ok(bytes.start / page_bytes..bytes.end.div_ceil(page_bytes))
}

/// Serves a map's faults.
#[derive(Debug)]
pub struct Server<D> {
    lane: Lane<D>,
    shared: Arc<Shared<Userfault>>,
    /// What becomes readable when a thread waits, or the device has ended a request if it has this
    /// file.
    doorbell: OwnedFd,
    completion_file: Option<i32>,
    /// Whether the next turn looks for threads that wait.
    looks: bool,
    spin: Duration,
    /// When the server last had work, if it spins.
    moved: Option<Instant>,
    call_deadline: Option<Duration>,
    /// Only the first server has it.
    users: Option<Users>,
}

/// The users' orders, and who waits for a result.
#[derive(Debug)]
struct Users {
    orders: Receiver<Order>,
    syncs: VecDeque<SyncSender<Result<()>>>,
    pins: HashMap<u64, SyncSender<Result<()>>>,
    next_pin: u64,
    is_last: bool,
}

/// Maps `range` of `device`. `buffers` are memory that the device reaches, of a page each: as many
/// as requests may be under way.
///
/// # Errors
/// [`Error::Options`], or those of the kernel.
pub fn map<D: Device>(
    device: D,
    range: Range,
    options: &PagerOptions,
    buffers: Vec<Buffer>,
) -> Result<(Map, Server<D>)> {
    let (map, mut servers) = map_lanes(vec![(device, buffers)], range, options)?;
    let server = servers.pop().ok_or(Error::Ended)?;
    Ok((map, server))
}

/// Maps `range` of a device that has several queues, each of which is a device here with its own
/// buffers: as many servers, for as many threads, serve the map together. A flush of one device
/// makes durable what all have written, as the queues of a drive and several openings of a file do.
///
/// # Errors
/// As of [`map`].
pub fn map_lanes<D: Device>(
    lanes: Vec<(D, Vec<Buffer>)>,
    range: Range,
    options: &PagerOptions,
) -> Result<(Map, Vec<Server<D>>)> {
    if lanes.is_empty() {
        return Err(Error::Options("a map has at least one device"));
    }
    let mut len = 0;
    for (device, buffers) in &lanes {
        len = options.check(device.geometry(), range, buffers)?;
    }
    let space = Userfault::new(len, options.page_bytes, options.stores(), Faults::ByMessage)?;
    let region = Arc::clone(space.region());
    let reports = Arc::new(Reports::default());
    let limits = options.limits();
    let shared = Arc::new(Shared::new(space, range, limits, Arc::clone(&reports)));
    let (orders, received) = channel();
    let map = Map {
        region,
        size_bytes: range.size_bytes,
        page_bytes: options.page_bytes as u64,
        orders,
        reports,
    };
    let mut users = Some(Users {
        orders: received,
        syncs: VecDeque::new(),
        pins: HashMap::new(),
        next_pin: 0,
        is_last: false,
    });
    let servers = lanes.into_iter().map(|(device, buffers)| {
        let users = users.take();
        let completion_file = device.completion_file();
        Ok(Server {
            lane: Lane::new(device, buffers),
            doorbell: shared.space().doorbell(users.is_some(), completion_file)?,
            completion_file,
            looks: true,
            spin: options.spin,
            moved: None,
            shared: Arc::clone(&shared),
            call_deadline: options.call_deadline,
            users,
        })
    });
    let servers = servers.collect::<Result<_>>()?;
    Ok((map, servers))
}

impl<D: Device> Server<D> {
    /// Serves the map until it is dropped, then writes what was stored and makes it durable, and
    /// returns the device and the buffers. Of several servers the first does so, and the others end
    /// with it.
    ///
    /// # Errors
    /// [`Error::System`]: a system call failed, and the map has ended. [`Error::Unwritten`] or
    /// [`Error::Flush`]: the last sync failed. [`Error::Late`]: the device does not answer; it, and
    /// the buffers, are never released, because it may still use them. [`Error::Ended`]: another
    /// server has failed.
    pub fn run(mut self) -> Result<(D, Vec<Buffer>)> {
        let served = match self.users.take() {
            Some(users) => self.serve_first(users),
            None => self.serve_also(),
        };
        let closed = self.shared.close().map_err(serving);
        // The first server wakes up to end, whichever has failed.
        self.shared.space().region().notify();
        let back = self.lane.close(self.call_deadline);
        served.and(closed).and(back)
    }

    /// Serves until the users' last sync, whose result this returns.
    fn serve_first(&mut self, mut users: Users) -> Result<()> {
        while !self.shared.has_ended() {
            let mut has_moved = self.turn()?;
            match users.turn(self.lane.pager(&self.shared)).map_err(serving)? {
                Turned::Last(result) => return result,
                Turned::Moved => has_moved = true,
                Turned::Idle => {}
            }
            self.sleep_unless(has_moved, true)?;
        }
        Err(Error::Ended)
    }

    fn serve_also(&mut self) -> Result<()> {
        while !self.shared.has_ended() {
            let has_moved = self.turn()?;
            if has_moved && self.shared.has_news() {
                self.shared.space().region().notify();
            }
            self.sleep_unless(has_moved, false)?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<bool> {
        let turned = self.lane.turn(&self.shared, self.looks);
        // Every other turn is enough: a lane that has nothing to do sleeps, and is woken if a
        // thread waits.
        self.looks = !self.looks;
        turned.map_err(serving)
    }

    /// Whether the server looks for work again at once.
    fn spins(&mut self) -> bool {
        let spins = !self.spin.is_zero()
            && self.moved.get_or_insert_with(Instant::now).elapsed() < self.spin;
        self.looks |= spins;
        if !spins {
            self.moved = None;
        }
        spins
    }

    fn sleep_unless(&mut self, has_moved: bool, is_first: bool) -> Result<()> {
        if has_moved {
            self.moved = None;
            return Ok(());
        }
        if self.spins() {
            return Ok(());
        }
        let (is_busy, file) = (self.lane.is_busy(), self.lane.completion_file());
        if is_busy && (file.is_none() || file != self.completion_file) {
            self.lane.wait(POLL_US);
            self.looks = true;
            return Ok(());
        }
        let mut pager = self.lane.pager(&self.shared);
        let (hold_us, due_us) = (pager.hold_us(), is_first.then(|| pager.due_us()).flatten());
        drop(pager);
        let left_us = due_us.map(|due_us| due_us.saturating_sub(self.shared.now_us()));
        // In whole milliseconds what is for the pages' age: they are many.
        let left_us = left_us.map(|left_us| left_us.next_multiple_of(1000));
        // A deadline may pass for what the device has not ended.
        let busy_us = is_busy.then_some(BUSY_US);
        let sleep_us = [hold_us, left_us, busy_us].into_iter().flatten().min();
        let sleep_us = sleep_us.unwrap_or(IDLE_US).min(IDLE_US);
        let space = self.shared.space();
        let woken = space.wait(&self.doorbell, is_first, sleep_us);
        self.looks = woken.map_err(serving)?;
        if !is_first {
            self.shared.answer();
        }
        Ok(())
    }
}

pub(crate) const fn serving(error: io::Error) -> Error {
    Error::System {
        doing: "serving page faults",
        error,
    }
}

/// What a turn for the users has done.
enum Turned {
    Idle,
    Moved,
    /// The last sync has ended.
    Last(Result<()>),
}

impl Users {
    /// Takes an order, and answers those that have ended.
    fn turn<D: Device>(&mut self, mut pager: Pager<'_, D, Userfault>) -> io::Result<Turned> {
        let mut turned = Turned::Idle;
        if let Some(result) = pager.take_synced() {
            turned = Turned::Moved;
            match self.syncs.pop_front() {
                // A user that no longer waits has dropped the other end.
                Some(answer) => drop(answer.send(result)),
                None => return Ok(Turned::Last(result)),
            }
        }
        match self.orders.try_recv() {
            Ok(order) => {
                self.take(order, &mut pager)?;
                turned = Turned::Moved;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.is_last = true,
        }
        while let Some((ticket, result)) = pager.take_pinned() {
            turned = Turned::Moved;
            if let Some(answer) = self.pins.remove(&ticket) {
                drop(answer.send(result));
            }
        }
        if !pager.is_syncing() && (self.is_last || !self.syncs.is_empty()) {
            pager.begin_sync();
            turned = Turned::Moved;
        }
        Ok(turned)
    }

    fn take<D: Device>(
        &mut self,
        order: Order,
        pager: &mut Pager<'_, D, Userfault>,
    ) -> io::Result<()> {
        match order {
            Order::Sync(answer) => self.syncs.push_back(answer),
            Order::Prefetch(pages) => pager.prefetch(pages),
            Order::Pin(pages, answer) => {
                self.pins.insert(self.next_pin, answer);
                pager.begin_pin(self.next_pin, pages);
                self.next_pin += 1;
            }
            Order::Unpin(pages) => pager.unpin(pages),
            Order::Evict(pages) => pager.evict(&pages)?,
            Order::Stored(pages, answer) => {
                pager.store(pages)?;
                let _ = answer.send(());
            }
            Order::Share(listener, answer) => {
                pager.space().share(listener);
                let _ = answer.send(());
            }
            Order::Resident(answer) => drop(answer.send(pager.resident_pages())),
        }
        Ok(())
    }
}
