// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory on a modelled bus. The crate's only module with `unsafe`.
//!
//! The host gets [`Buffer`]s; the controller gets bus addresses, and each of its accesses is
//! checked against the buffers that exist. An access to anything else is recorded and not
//! performed. Around each buffer is a page that has no bus address and holds a pattern, so that
//! host writes past a buffer's end are also found ([`BusMemory::check_guards`]).
//!
//! Why the accesses are sound: the memory is allocated once, and freed only when the last handle
//! has been dropped and each buffer has been given back with [`BusMemory::give_back`]; if one is
//! still in use, the memory is leaked, as a Buffer has no lifetime that could keep it. Queue
//! entries, PRP lists and shadow doorbells are read and written by atomic words, never through
//! references, as the host polls the same memory. Data is copied by raw pointer: while a command
//! with a buffer is outstanding, its submitter has no way to reach the buffer.
#![allow(unsafe_code)]

pub(crate) mod cache;

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Buffer;
use nvme::{BusRun, Dma, LinearDma, PagedDma};

use crate::Model;
use crate::random::Random;
use crate::violation::{Access, Violation, Violations};
use cache::{CacheSite, Cached};

/// Buffers start at multiples of this.
const PAGE: usize = 4096;
/// Alignment of the memory, so that any page size up to it works.
const ALIGN: usize = 2 << 20;
/// Where linear memory starts on the bus: above 4 GiB, so that a lost upper half is noticed.
const BUS_START: u64 = 0x12_3400_0000;
/// Scattered pages are between these bus addresses, apart from the linear part.
const SCATTER: Range<u64> = 0x100_0000_0000..0xf00_0000_0000;
/// The fill pattern of guard areas.
const GUARD: u8 = 0xc7;

/// Memory that a model controller can reach. A handle: clones are the same memory.
#[derive(Clone, Debug)]
pub struct BusMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: NonNull<u8>,
    layout: Layout,
    /// This many bytes at the start are contiguous on the bus; the rest is scattered.
    linear_bytes: usize,
    page_shift: u8,
    bus_pages: Vec<u64>,
    page_of_bus: HashMap<u64, usize>,
    /// How many bytes of each page, from its first one on, belong to a buffer.
    valid: Vec<AtomicU16>,
    restricted: AtomicBool,
    books: Mutex<Books>,
    violations: Violations,
    /// The memory below the host's cache, if the controller does not see that.
    cached: Option<Mutex<Cached>>,
}

#[derive(Debug, Default)]
struct Books {
    /// Sorted by `first`.
    allocations: Vec<Allocation>,
    /// Offsets that data may be transferred to while restricted.
    permitted: Vec<Range<usize>>,
}

#[derive(Debug)]
struct Allocation {
    first: usize,
    len: usize,
    returned: usize,
}

impl Allocation {
    fn end(&self) -> usize {
        self.first + self.len.next_multiple_of(PAGE)
    }
}

// SAFETY: the memory behind `start` is reached only as the module's documentation says.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let books = self.books.get_mut().unwrap_or_else(PoisonError::into_inner);
        if books.allocations.is_empty() {
            // SAFETY: allocated with this layout, and no Buffer is left that points into it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

impl BusMemory {
    /// `len` bytes that are contiguous on the bus; `None` if the memory cannot be allocated.
    pub fn linear(len: usize) -> Option<Self> {
        Self::new(len, 0, 12, 0, false)
    }

    /// The same, but the controller does not see the host's cache: what either side wrote reaches
    /// the other only after the host cleaned or invalidated it. For one thread.
    pub fn not_coherent(len: usize) -> Option<Self> {
        Self::new(len, 0, 12, 0, true)
    }

    /// `linear_len` bytes in one run for queues, and `scattered_len` bytes in pages of
    /// `1 << page_shift` bytes (12 to 21), each anywhere on the bus, as the seed determines.
    pub fn scattered(
        linear_len: usize,
        scattered_len: usize,
        page_shift: u8,
        seed: u64,
    ) -> Option<Self> {
        Self::new(linear_len, scattered_len, page_shift, seed, false)
    }

    fn new(
        linear: usize,
        scattered: usize,
        page_shift: u8,
        seed: u64,
        has_cache: bool,
    ) -> Option<Self> {
        if !(12..=21).contains(&page_shift) {
            return None;
        }
        let linear_bytes = linear.checked_next_multiple_of(ALIGN)?;
        let page = 1_usize << page_shift;
        let scattered = scattered.checked_next_multiple_of(ALIGN)?;
        let len = linear_bytes.checked_add(scattered)?;
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        if len == 0 {
            return None;
        }
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        if has_cache {
            // SAFETY: just allocated with this length.
            unsafe { start.as_ptr().write_bytes(0, len) };
        }
        let mut random = Random::new(seed);
        let mut bus_pages = Vec::with_capacity(scattered / page);
        let mut page_of_bus = HashMap::new();
        while bus_pages.len() < scattered / page {
            let span = (SCATTER.end - SCATTER.start) >> page_shift;
            let bus = SCATTER.start + (random.below(span) << page_shift);
            page_of_bus.entry(bus >> page_shift).or_insert_with(|| {
                bus_pages.push(bus);
                bus_pages.len() - 1
            });
        }
        Some(Self(Arc::new(Inner {
            start,
            layout,
            linear_bytes,
            page_shift,
            bus_pages,
            page_of_bus,
            valid: (0..len / PAGE).map(|_| AtomicU16::new(0)).collect(),
            restricted: AtomicBool::new(false),
            books: Mutex::new(Books::default()),
            violations: Violations::default(),
            cached: has_cache.then(|| Mutex::new(Cached::new(len))),
        })))
    }

    /// Runs `action` with the memory below the cache and the cache, if there is one.
    fn with_cache<R>(&self, action: impl FnOnce(&mut Cached, &mut [u8]) -> R) -> Option<R> {
        let cached = self.0.cached.as_ref()?;
        let mut cached = cached.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, len) = (self.0.start.as_ptr(), self.0.layout.size());
        // SAFETY: initialised by `new`; such memory is for one thread, which is here.
        Some(action(&mut cached, unsafe {
            std::slice::from_raw_parts_mut(start, len)
        }))
    }

    fn offset_of(&self, address: usize) -> usize {
        address.wrapping_sub(self.0.start.as_ptr() as usize)
    }

    /// The places in the driver's source that cleaned or invalidated so far, and how often.
    pub fn cache_sites(&self) -> Vec<(CacheSite, u64)> {
        let all = self.with_cache(|cached, _| cached.sites.clone());
        all.unwrap_or_default().into_iter().collect()
    }

    /// Leaves out the operations of one of those places from now on.
    pub fn omit_cache_site(&self, site: CacheSite) {
        self.with_cache(|cached, _| cached.omitted = Some(site));
    }

    #[track_caller]
    fn clean_cache(&self, address: usize, len: usize) {
        let (at, offset) = (Location::caller(), self.offset_of(address));
        self.with_cache(|cached, cache| {
            if cached.notes(at) {
                cached.clean(cache, offset, len);
            }
        });
    }

    #[track_caller]
    fn invalidate_cache(&self, address: usize, len: usize) {
        let (at, offset) = (Location::caller(), self.offset_of(address));
        self.with_cache(|cached, cache| {
            if cached.notes(at) {
                cached.invalidate(cache, offset, len);
            }
        });
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A zeroed buffer of `len` bytes at a page's start, from the scattered pages if there are
    /// any; `None` when nothing large enough is free.
    pub fn allocate(&self, len: usize) -> Option<Buffer> {
        let total = self.0.layout.size();
        let start = if self.0.bus_pages.is_empty() {
            0
        } else {
            self.0.linear_bytes
        };
        self.carve(start..total, len, PAGE)
    }

    /// Like [`allocate`](BusMemory::allocate), but contiguous on the bus and aligned to
    /// `align_bytes` (a power of two up to 2 MiB): for queues.
    pub fn allocate_contiguous(&self, len: usize, align_bytes: usize) -> Option<Buffer> {
        if !align_bytes.is_power_of_two() || align_bytes > ALIGN {
            return None;
        }
        self.carve(0..self.0.linear_bytes, len, align_bytes.max(PAGE))
    }

    /// First fit, with a guard page on both sides.
    fn carve(&self, region: Range<usize>, len: usize, align: usize) -> Option<Buffer> {
        let mut books = self.books();
        let whole = len.checked_next_multiple_of(PAGE)?.max(PAGE);
        let mut first = (region.start + PAGE).next_multiple_of(align);
        let mut index = 0;
        for allocation in &books.allocations {
            if first + whole + PAGE <= allocation.first {
                break;
            }
            first = first.max((allocation.end() + PAGE).next_multiple_of(align));
            index += 1;
        }
        let end = first.checked_add(whole)?;
        if len == 0 || end.checked_add(PAGE)? > region.end {
            return None;
        }
        books.allocations.insert(
            index,
            Allocation {
                first,
                len,
                returned: 0,
            },
        );
        let at = |offset| {
            // SAFETY: offsets up to `end + PAGE` are within the memory.
            unsafe { self.0.start.as_ptr().add(offset) }
        };
        // SAFETY: the range and the guard areas around it are in no buffer: allocations do not
        // overlap, and there are guards between them.
        unsafe {
            at(first - PAGE).write_bytes(GUARD, PAGE);
            at(first).write_bytes(0, len);
            at(first + len).write_bytes(GUARD, whole - len + PAGE);
        }
        for page in 0..whole / PAGE {
            let bytes = (len - page * PAGE).min(PAGE) as u16;
            self.0.valid[first / PAGE + page].store(bytes, Ordering::Release);
        }
        // SAFETY: initialised just now, in no other buffer, and freed only after this buffer was
        // given back (see the module's documentation).
        Some(unsafe { Buffer::from_raw(NonNull::new(at(first))?, len) })
    }

    /// Takes back a buffer, or a part of one; once each part of an allocation is back the
    /// controller can no longer reach it and the memory can be reused.
    ///
    /// # Errors
    /// Gives the buffer back if it is not from this memory.
    pub fn give_back(&self, buffer: Buffer) -> Result<(), Buffer> {
        let offset = buffer
            .address()
            .wrapping_sub(self.0.start.as_ptr() as usize);
        let mut books = self.books();
        let inside = |a: &Allocation| offset >= a.first && offset - a.first <= a.len;
        let Some(index) = books.allocations.iter().position(inside) else {
            return Err(buffer);
        };
        let allocation = &mut books.allocations[index];
        allocation.returned += buffer.len();
        if allocation.returned >= allocation.len {
            for page in allocation.first / PAGE..allocation.end() / PAGE {
                self.0.valid[page].store(0, Ordering::Release);
            }
            books.allocations.remove(index);
        }
        Ok(())
    }

    /// From now on I/O data may only be transferred to and from permitted buffers.
    pub fn restrict(&self, restricted: bool) {
        self.0.restricted.store(restricted, Ordering::Release);
    }

    /// Permits I/O data transfers with `buffer`: call it before the buffer is submitted.
    pub fn permit(&self, buffer: &Buffer) {
        let offset = buffer
            .address()
            .wrapping_sub(self.0.start.as_ptr() as usize);
        self.books().permitted.push(offset..offset + buffer.len());
    }

    /// Undoes one [`permit`](BusMemory::permit): call it when the buffer has come back.
    pub fn forbid(&self, buffer: &Buffer) {
        let offset = buffer
            .address()
            .wrapping_sub(self.0.start.as_ptr() as usize);
        let range = offset..offset + buffer.len();
        let mut books = self.books();
        if let Some(index) = books.permitted.iter().position(|one| *one == range) {
            books.permitted.swap_remove(index);
        }
    }

    /// Offsets (in bytes from the memory's start) of guard bytes that the host overwrote, at
    /// most one a guard area.
    pub fn check_guards(&self) -> Vec<usize> {
        let books = self.books();
        let mut broken = Vec::new();
        for allocation in &books.allocations {
            let end = allocation.first + allocation.len;
            for range in [
                allocation.first - PAGE..allocation.first,
                end..allocation.end() + PAGE,
            ] {
                let bad = range.into_iter().find(|&offset| {
                    // SAFETY: guard areas are within the memory, initialised, and in no buffer.
                    unsafe { self.0.start.as_ptr().add(offset).read_volatile() != GUARD }
                });
                broken.extend(bad);
            }
        }
        broken
    }

    /// The violations by the host: accesses that it requested outside of its buffers, and other
    /// misuse of a controller on this memory; the first 1,024.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.violations.list()
    }

    /// How many violations there were.
    pub fn violation_count(&self) -> u64 {
        self.0.violations.count()
    }

    pub(crate) fn log(&self) -> &Violations {
        &self.0.violations
    }

    /// Bus address of the memory at `address`, for tests that write their own commands.
    pub fn bus_address(&self, address: usize) -> Option<u64> {
        self.bus_run(address, 1).map(|run| run.address)
    }

    /// The offset of `bus` in the memory, and how many bytes are contiguous from there.
    fn locate(&self, bus: u64) -> Option<(usize, usize)> {
        let inner = &*self.0;
        let linear = bus.wrapping_sub(BUS_START);
        if linear < inner.linear_bytes as u64 {
            return Some((linear as usize, inner.linear_bytes - linear as usize));
        }
        let index = *inner.page_of_bus.get(&(bus >> inner.page_shift))?;
        let page = 1_usize << inner.page_shift;
        let within = bus as usize & (page - 1);
        Some((inner.linear_bytes + index * page + within, page - within))
    }

    /// Whether each byte of `range` belongs to a buffer.
    fn is_allocated(&self, range: Range<usize>) -> bool {
        let mut offset = range.start;
        while offset < range.end {
            let page_end = (offset / PAGE + 1) * PAGE;
            let end = range.end.min(page_end);
            let valid = self.0.valid[offset / PAGE].load(Ordering::Acquire);
            if end - (page_end - PAGE) > usize::from(valid) {
                return false;
            }
            offset = end;
        }
        true
    }

    /// Calls `each` with the memory of each contiguous run of `[bus, bus + len)`, after checking
    /// all of it.
    fn reach(
        &self,
        bus: u64,
        len: usize,
        access: Access,
        mut each: impl FnMut(NonNull<u8>, Range<usize>),
    ) -> Option<()> {
        let runs = |each: &mut dyn FnMut(usize, Range<usize>)| {
            let mut done = 0;
            while done < len {
                let (offset, run) = self.locate(bus.checked_add(done as u64)?)?;
                let part = run.min(len - done);
                if !self.is_allocated(offset..offset + part) {
                    return None;
                }
                if access == Access::Data && self.0.restricted.load(Ordering::Acquire) {
                    let wanted = offset..offset + part;
                    let books = self.books();
                    let holds = |r: &Range<usize>| r.start <= wanted.start && wanted.end <= r.end;
                    if !books.permitted.iter().any(holds) {
                        return None;
                    }
                }
                each(offset, done..done + part);
                done += part;
            }
            Some(())
        };
        if runs(&mut |_, _| ()).is_none() {
            self.0.violations.record(Violation::Bus {
                address: bus,
                len,
                access,
            });
            return None;
        }
        runs(&mut |offset, part| {
            // SAFETY: `offset` is within the memory, according to `locate`.
            each(unsafe { self.0.start.add(offset) }, part);
        })
    }

    /// Reads `target.len()` bytes of data at `bus`; returns `None` and reads nothing if that is not
    /// permitted.
    pub(crate) fn read(&self, bus: u64, target: &mut [u8], access: Access) -> Option<()> {
        let len = target.len();
        self.reach(bus, len, access, |from, part| {
            let to = &mut target[part];
            let offset = self.offset_of(from.as_ptr() as usize);
            if self
                .with_cache(|cached, _| cached.read(offset, to))
                .is_some()
            {
                return;
            }
            // SAFETY: `reach` checked that the run is inside the memory and in a buffer that the
            // host has lent to the controller; `to` is as long as the run.
            unsafe {
                from.as_ptr()
                    .copy_to_nonoverlapping(to.as_mut_ptr(), to.len())
            }
        })
    }

    /// Writes `source` as data at `bus`; returns `None` and writes nothing if that is not
    /// permitted.
    pub(crate) fn write(&self, bus: u64, source: &[u8], access: Access) -> Option<()> {
        self.reach(bus, source.len(), access, |to, part| {
            let from = &source[part];
            let offset = self.offset_of(to.as_ptr() as usize);
            let below = |cached: &mut Cached, cache: &mut [u8]| cached.write(cache, offset, from);
            if self.with_cache(below).is_some() {
                return;
            }
            // SAFETY: as in `read`.
            unsafe {
                to.as_ptr()
                    .copy_from_nonoverlapping(from.as_ptr(), from.len())
            }
        })
    }

    /// Word `index` of `words` aligned words at `bus`, valid while the closure runs.
    fn words<R>(
        &self,
        bus: u64,
        words: usize,
        access: Access,
        action: impl FnOnce(&[AtomicU32]) -> R,
    ) -> Option<R> {
        let mut place = None;
        if bus % 4 == 0 {
            self.reach(bus, words * 4, access, |start, part| {
                if part.len() == words * 4 {
                    place = Some(start);
                }
            })?;
        }
        let start = place?.cast::<AtomicU32>();
        // SAFETY: aligned, inside the memory, and contiguous, as just checked. The host reads and
        // writes queue memory by volatile words only.
        Some(action(unsafe {
            std::slice::from_raw_parts(start.as_ptr(), words)
        }))
    }

    /// Reads `N` little-endian words, in order.
    pub(crate) fn load<const N: usize>(&self, bus: u64, access: Access) -> Option<[u32; N]> {
        if self.0.cached.is_some() {
            let mut bytes = [[0; 4]; N];
            self.read(bus, bytes.as_flattened_mut(), access)?;
            return Some(bytes.map(u32::from_le_bytes));
        }
        self.words(bus, N, access, |words| {
            std::array::from_fn(|index| u32::from_le(words[index].load(Ordering::Acquire)))
        })
    }

    /// Writes `N` little-endian words, the last one last, with release ordering.
    pub(crate) fn store<const N: usize>(
        &self,
        bus: u64,
        values: [u32; N],
        access: Access,
    ) -> Option<()> {
        if self.0.cached.is_some() {
            let bytes = values.map(u32::to_le_bytes);
            return self.write(bus, bytes.as_flattened(), access);
        }
        self.words(bus, N, access, |words| {
            for (word, value) in words.iter().zip(values) {
                word.store(value.to_le(), Ordering::Release);
            }
        })
    }

    /// Reads a little-endian double word.
    pub(crate) fn load64(&self, bus: u64, access: Access) -> Option<u64> {
        if bus % 8 != 0 {
            return None;
        }
        if self.0.cached.is_some() {
            let mut bytes = [0; 8];
            self.read(bus, &mut bytes, access)?;
            return Some(u64::from_le_bytes(bytes));
        }
        let mut value = None;
        self.reach(bus, 8, access, |start, _| {
            // SAFETY: aligned, and inside the memory, as just checked.
            let word = unsafe { start.cast::<AtomicU64>().as_ref() };
            value = Some(u64::from_le(word.load(Ordering::Acquire)));
        })?;
        value
    }
}

// SAFETY: `locate`, through which each access of the controller goes, is the inverse of this map;
// the memory stays allocated while a handle exists; the linear part agrees with virtual addresses
// in the offset within 2 MiB, the scattered part within its pages.
unsafe impl Dma for BusMemory {
    #[inline]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        let inner = &*self.0;
        let start = inner.start.as_ptr() as usize;
        let linear = LinearDma {
            start,
            len: inner.linear_bytes,
            bus_start: BUS_START,
        };
        linear.run(address, len).or_else(|| {
            let paged = PagedDma {
                start: start + inner.linear_bytes,
                page_shift: inner.page_shift,
                bus_pages: &inner.bus_pages,
            };
            paged.run(address, len)
        })
    }

    fn cache_line_bytes(&self) -> usize {
        match self.0.cached {
            Some(_) => cache::LINE,
            None => 0,
        }
    }

    #[inline]
    #[track_caller]
    fn clean(&self, address: usize, len: usize) {
        self.clean_cache(address, len);
    }

    #[inline]
    #[track_caller]
    fn invalidate(&self, address: usize, len: usize) {
        self.invalidate_cache(address, len);
    }
}

// SAFETY: the model's memory, which it holds a handle to.
unsafe impl Dma for Model {
    #[inline]
    fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
        self.memory().bus_run(address, len)
    }

    fn cache_line_bytes(&self) -> usize {
        match self.memory().0.cached {
            Some(_) => cache::LINE,
            None => 0,
        }
    }

    #[inline]
    #[track_caller]
    fn clean(&self, address: usize, len: usize) {
        self.memory().clean_cache(address, len);
    }

    #[inline]
    #[track_caller]
    fn invalidate(&self, address: usize, len: usize) {
        self.memory().invalidate_cache(address, len);
    }
}

impl nvme::Allocate for BusMemory {
    fn allocate_dma(&self, len_bytes: usize, align_bytes: usize) -> Option<Buffer> {
        self.allocate_contiguous(len_bytes, align_bytes)
    }

    fn free_dma(&self, buffer: Buffer) {
        let _ = self.give_back(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pages_are_found_from_both_sides() {
        let seed = crate::random::seed(1);
        let memory = BusMemory::scattered(1 << 20, 1 << 20, 12, seed).unwrap();
        let mut buffer = memory.allocate(10_000).unwrap();
        buffer[4095] = 1;
        buffer[4096] = 2;
        let run = memory.bus_run(buffer.address(), 10_000).unwrap();
        assert_eq!(run.contiguous_bytes, 4096);
        let second = memory.bus_address(buffer.address() + 4096).unwrap();
        let mut byte = [0];
        memory
            .read(run.address + 4095, &mut byte, Access::Data)
            .unwrap();
        assert_eq!(byte, [1]);
        memory.read(second, &mut byte, Access::Data).unwrap();
        assert_eq!(byte, [2]);
        assert_eq!(memory.violation_count(), 0);
    }

    #[test]
    fn only_buffers_can_be_reached() {
        let memory = BusMemory::linear(1 << 20).unwrap();
        let buffer = memory.allocate(1000).unwrap();
        let bus = memory.bus_address(buffer.address()).unwrap();
        assert!(memory.write(bus, &[1; 1000], Access::Data).is_some());
        assert!(memory.write(bus, &[1; 1001], Access::Data).is_none());
        assert!(memory.write(bus - 1, &[1], Access::Data).is_none());
        assert!(memory.write(0, &[1], Access::Data).is_none());
        assert!(memory.write(u64::MAX, &[1, 2], Access::Data).is_none());
        assert_eq!(memory.violation_count(), 4);
        memory.restrict(true);
        assert!(memory.write(bus, &[1], Access::Data).is_none());
        memory.permit(&buffer);
        assert!(memory.write(bus, &[1], Access::Data).is_some());
        memory.forbid(&buffer);
        assert!(memory.write(bus, &[1], Access::Data).is_none());
        memory.restrict(false);
        memory.give_back(buffer).unwrap();
        assert!(memory.write(bus, &[1], Access::Data).is_none());
    }

    #[test]
    fn guards_and_reuse() {
        let memory = BusMemory::linear(1 << 20).unwrap();
        let first = memory.allocate(100).unwrap();
        let address = first.address();
        let second = memory.allocate(5000).unwrap();
        assert!(second.address() >= address + 2 * PAGE);
        assert!(memory.check_guards().is_empty());
        // SAFETY: inside the memory; the guard is in no buffer.
        unsafe { ((address + 100) as *mut u8).write_volatile(0) };
        assert_eq!(memory.check_guards().len(), 1);
        let (head, tail) = first.split_at(60);
        memory.give_back(head).unwrap();
        assert_ne!(memory.allocate(100).unwrap().address(), address);
        memory.give_back(tail).unwrap();
        assert_eq!(memory.allocate(100).unwrap().address(), address);
        let aligned = memory.allocate_contiguous(100, 1 << 16).unwrap();
        assert_eq!(aligned.address() % (1 << 16), 0);
        assert!(memory.allocate(3 << 20).is_none());
        assert!(memory.give_back(Buffer::from_static(&mut [])).is_err());
    }
}
