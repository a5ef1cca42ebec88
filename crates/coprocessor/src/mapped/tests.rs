// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application's hart that walks the tables, with a translation cache that only an answer
//! empties, beside the server: every state that they can reach together.

use std::boxed::Box;
use std::collections::HashSet;
use std::vec;
use std::vec::Vec;

use block::{Buffer, Error};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::server::State;
use super::sv39::*;
use super::*;
use crate::memory::Window;
use crate::status::{Code, CompletionStatus};
use crate::testing::window;

const FRAMES: usize = 2;
/// The pages of all contexts: (context, page).
const PAGES: [(usize, u32); 3] = [(0, 0), (0, 1), (1, 0)];
const EVENTS: usize = 2 * PAGES.len() + CONTEXTS + 2;
const FAILED: CompletionStatus = CompletionStatus { code: 9, detail: 1 };

fn number(context: usize, page: u32) -> usize {
    let found = PAGES.iter().position(|&one| one == (context, page));
    found.expect("one of the pages")
}

/// A device with a byte for each page.
#[derive(Clone, Default)]
struct Disk {
    stored: [u8; PAGES.len()],
    is_flushed: bool,
    reads_fail: bool,
    writes_fail: bool,
    flushes_fail: bool,
}

impl Backing for Disk {
    fn read(
        &mut self,
        context: usize,
        page: u32,
        mut buffer: Buffer,
    ) -> (Buffer, Result<(), CompletionStatus>) {
        // What a failed read leaves in the buffer is arbitrary.
        let content = self.stored[number(context, page)];
        buffer.fill(if self.reads_fail { 0xee } else { content });
        (buffer, if self.reads_fail { Err(FAILED) } else { Ok(()) })
    }

    fn write(
        &mut self,
        context: usize,
        page: u32,
        buffer: Buffer,
    ) -> (Buffer, Result<(), CompletionStatus>) {
        if self.writes_fail {
            return (buffer, Err(FAILED));
        }
        self.stored[number(context, page)] = buffer[0];
        self.is_flushed = false;
        (buffer, Ok(()))
    }

    fn flush(&mut self, _: usize) -> Result<(), CompletionStatus> {
        self.is_flushed = !self.flushes_fail;
        if self.flushes_fail {
            Err(FAILED)
        } else {
            Ok(())
        }
    }
}

/// What changes, to be restored.
#[derive(Clone)]
struct Snapshot {
    entries: [u64; PAGES.len()],
    frames: Vec<(State, usize, u32)>,
    hand: usize,
    memory: [u8; FRAMES],
    disk: Disk,
    /// What the application should see.
    content: [u8; PAGES.len()],
    cache: Vec<(usize, u64)>,
}

struct World {
    tables: [&'static [Table; CONTEXT_TABLES]; CONTEXTS],
    memory: Window,
    server: Server<'static>,
    disk: Disk,
    content: [u8; PAGES.len()],
    /// Translations of pages, as numbers, that the hart may use without a walk.
    cache: Vec<(usize, u64)>,
    /// The hart sets A and D itself (Svadu) instead of faulting (Svade).
    sets_bits: bool,
}

fn leak<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

impl World {
    fn new(sets_bits: bool) -> Self {
        let memory = window(FRAMES * PAGE_BYTES);
        let layout = Layout {
            image: 0x8000_0000,
            image_pages: 3,
            stack: 0x8001_0000,
            leak: None,
        };
        let tables: [&[Table; CONTEXT_TABLES]; CONTEXTS] =
            core::array::from_fn(|_| &*leak([const { Table::new() }; CONTEXT_TABLES]));
        let spaces = core::array::from_fn(|context| Space {
            tables: build(tables[context], &layout),
            pages: PAGES.iter().filter(|one| one.0 == context).count() as u32,
            writable: context == 0,
        });
        let frames = leak([const { Frame::new() }; FRAMES]);
        let buffer = memory.buffer(0, FRAMES * PAGE_BYTES).expect("inside");
        Self {
            tables,
            memory,
            server: Server::new(frames, buffer, spaces),
            disk: Disk::default(),
            content: [0; PAGES.len()],
            cache: Vec::new(),
            sets_bits,
        }
    }

    /// The entry of an address, as the hart finds it.
    fn walk(&self, context: usize, address: u64) -> Option<&AtomicU64> {
        let mut table = &self.tables[context][0];
        for level in [2, 1] {
            let entry = table.entry(index(address, level)).load(Relaxed);
            if entry & VALID == 0 {
                return None;
            }
            assert_eq!(
                entry & (READ | WRITE | EXECUTE | USER),
                0,
                "a leaf of many pages"
            );
            let mut all = self.tables[context].iter();
            table = all.find(|table| table.address() == physical(entry))?;
        }
        Some(table.entry(index(address, 0)))
    }

    fn window_entry(&self, at: usize) -> &AtomicU64 {
        let (context, page) = PAGES[at];
        let address = WINDOW + u64::from(page) * PAGE_BYTES as u64;
        self.walk(context, address).expect("the window has tables")
    }

    /// The translation that an access uses; `None` if it faults.
    fn translate(&mut self, at: usize, is_store: bool) -> Option<u64> {
        let right = if is_store { READ | WRITE } else { READ };
        let allows = |entry: u64| entry & (VALID | USER | right) == VALID | USER | right;
        if let Some(&(_, entry)) = self.cache.iter().find(|one| one.0 == at) {
            // A cached translation without the right is walked again, as hardware may or may not
            // do.
            if allows(entry) {
                return Some(entry);
            }
            self.cache.retain(|one| one.0 != at);
        }
        let sets_bits = self.sets_bits;
        let entry = self.window_entry(at);
        let mut bits = entry.load(Relaxed);
        if !allows(bits) {
            return None;
        }
        let needed = if is_store { ACCESSED | DIRTY } else { ACCESSED };
        if bits & needed != needed {
            if !sets_bits {
                return None;
            }
            bits |= needed;
            entry.store(bits, Relaxed);
        }
        self.cache.push((at, bits));
        self.cache.sort_unstable();
        Some(bits)
    }

    /// A load or store of a page: its content as seen, or the error.
    fn access(&mut self, at: usize, is_store: bool) -> Result<u8, CompletionStatus> {
        let (context, page) = PAGES[at];
        for _ in 0..3 {
            if let Some(entry) = self.translate(at, is_store) {
                let place = physical(entry) as usize - self.memory.address();
                let mut seen = [0];
                self.memory.copy_out(place, &mut seen);
                if is_store {
                    self.content[at] = (self.content[at] + 1) % 3;
                    self.memory.copy_in(place, &[self.content[at]]);
                }
                return Ok(seen[0]);
            }
            let answer = self
                .server
                .fault(&mut self.disk, context, u64::from(page), is_store);
            self.cache.clear();
            answer?;
        }
        unreachable!("a fault that was served twice is not resolved: {at} {is_store}");
    }

    fn apply(&mut self, event: usize) {
        match event {
            0..6 => {
                let (at, is_store) = (event / 2, event % 2 == 1);
                let before = self.content[at];
                let is_absent = self.window_entry(at).load(Relaxed) & VALID == 0;
                match self.access(at, is_store) {
                    Ok(seen) => assert_eq!(seen, before, "{event}"),
                    Err(status) if is_store && PAGES[at].0 == 1 => {
                        assert_eq!(status, Code::NoRight.into());
                    }
                    // One of the two failed; if writes did, only because no page could make space.
                    Err(status) => {
                        assert!(is_absent && status == FAILED);
                        let full = self.states().all(|state| state == State::Kept);
                        assert!(self.disk.reads_fail || full, "{event}");
                    }
                }
            }
            6 | 7 => {
                let context = event - 6;
                let result = self.server.sync(&mut self.disk, context);
                self.cache.clear();
                let mine = (0..PAGES.len()).filter(|&at| PAGES[at].0 == context);
                let is_stored = mine
                    .clone()
                    .all(|at| self.disk.stored[at] == self.content[at]);
                assert!(self.disk.is_flushed || context == 1);
                assert!(is_stored || result.is_err(), "a sync lost a store");
                assert!(result.is_ok() || self.disk.writes_fail);
            }
            8 => self.disk.reads_fail = !self.disk.reads_fail,
            _ => self.disk.writes_fail = !self.disk.writes_fail,
        }
    }

    fn states(&self) -> impl Iterator<Item = State> {
        self.server.frames.iter().map(|frame| frame.state)
    }

    /// What holds in each state.
    fn check(&self) {
        let mut mapped = 0;
        for (at, &owner) in PAGES.iter().enumerate() {
            let entry = self.window_entry(at).load(Relaxed);
            if entry & VALID == 0 {
                assert_eq!(entry, 0);
                assert_eq!(self.disk.stored[at], self.content[at], "a store was lost");
                continue;
            }
            mapped += 1;
            let place = physical(entry) as usize - self.memory.address();
            let frame = &self.server.frames[place / PAGE_BYTES];
            assert_eq!((frame.context, frame.page), owner);
            let mut seen = [0];
            self.memory.copy_out(place, &mut seen);
            assert_eq!(seen[0], self.content[at]);
            match frame.state {
                State::Clean => {
                    assert_eq!(entry & (WRITE | DIRTY), 0);
                    assert_eq!(self.disk.stored[at], self.content[at]);
                }
                State::Dirty => assert_ne!(entry & (WRITE | DIRTY), 0),
                State::Kept => {}
                State::Free | State::Lost => panic!("a page in a frame without one"),
            }
        }
        let used = self.states().filter(|&state| state != State::Free).count();
        assert_eq!(mapped, used);
        assert_eq!(self.server.resident(), used as u64);
        // A cached translation never allows what the entry does not.
        for &(at, cached) in &self.cache {
            let entry = self.window_entry(at).load(Relaxed);
            assert_eq!(cached & !entry & !(ACCESSED | DIRTY), 0);
            assert_eq!(physical(cached), physical(entry));
        }
    }

    fn take(&self) -> Snapshot {
        let mut memory = [0; FRAMES];
        for (at, byte) in memory.iter_mut().enumerate() {
            self.memory
                .copy_out(at * PAGE_BYTES, core::slice::from_mut(byte));
        }
        let frames = self.server.frames.iter();
        Snapshot {
            entries: core::array::from_fn(|at| self.window_entry(at).load(Relaxed)),
            frames: frames
                .map(|frame| (frame.state, frame.context, frame.page))
                .collect(),
            hand: self.server.hand,
            memory,
            disk: self.disk.clone(),
            content: self.content,
            cache: self.cache.clone(),
        }
    }

    fn restore(&mut self, from: &Snapshot) {
        for (at, &entry) in from.entries.iter().enumerate() {
            self.window_entry(at).store(entry, Relaxed);
        }
        for (frame, &(state, context, page)) in self.server.frames.iter_mut().zip(&from.frames) {
            (frame.state, frame.context, frame.page) = (state, context, page);
        }
        for (at, &byte) in from.memory.iter().enumerate() {
            self.memory.copy_in(at * PAGE_BYTES, &[byte]);
        }
        self.server.hand = from.hand;
        let used = self.states().filter(|&state| state != State::Free).count();
        self.server.set_resident(used as u64);
        self.disk = from.disk.clone();
        self.content = from.content;
        self.cache.clone_from(&from.cache);
    }
}

impl Snapshot {
    /// Equal for states that differ only in what no later event can show: the values themselves.
    fn key(&self) -> impl Eq + core::hash::Hash + use<> {
        let stored: Vec<u8> = (0..PAGES.len())
            .map(|at| (3 + self.disk.stored[at] - self.content[at]) % 3)
            .collect();
        let fails = (self.disk.reads_fail, self.disk.writes_fail);
        let cache = self.cache.clone();
        (
            self.entries,
            self.frames.clone(),
            self.hand,
            stored,
            fails,
            cache,
        )
    }
}

#[test]
fn no_sequence_of_accesses_loses_a_store_or_shows_anything_else() {
    for sets_bits in [false, true] {
        let mut world = World::new(sets_bits);
        let mut seen = HashSet::new();
        let mut open = vec![world.take()];
        while let Some(from) = open.pop() {
            for event in 0..EVENTS {
                world.restore(&from);
                world.apply(event);
                world.check();
                let after = world.take();
                if seen.insert(after.key()) {
                    open.push(after);
                }
            }
        }
        std::println!("{} states", seen.len());
        assert!(seen.len() > 1000, "{} states", seen.len());
    }
}

#[test]
fn the_tables_allow_the_program_its_stack_and_nothing_else() {
    let world = World::new(true);
    let entry = |address| {
        let entry = world.walk(0, address)?.load(Relaxed);
        (entry & VALID != 0).then_some((physical(entry), entry & (READ | WRITE | EXECUTE)))
    };
    assert_eq!(entry(IMAGE), Some((0x8000_0000, READ | EXECUTE)));
    assert_eq!(entry(IMAGE + 0x2abc), Some((0x8000_2000, READ | EXECUTE)));
    assert_eq!(entry(IMAGE + 0x3000), None);
    assert_eq!(entry(STACK_TOP - 8), Some((0x8001_3000, READ | WRITE)));
    assert_eq!(entry(STACK_TOP - 0x4000), Some((0x8001_0000, READ | WRITE)));
    assert_eq!(entry(STACK_TOP - 0x4001), None);
    assert_eq!(entry(STACK_TOP), None);
    assert_eq!(entry(WINDOW), None);
    assert_eq!(entry(0x8000_0000), None);
    let value = satp(world.tables[1], 7);
    assert_eq!(value >> 60, 8);
    assert_eq!(value >> 44 & 0xffff, 7);
    assert_eq!(value << 20 >> 8, world.tables[1][0].address());
}

#[test]
fn an_access_beyond_the_window_is_refused_and_takes_no_frame() {
    let mut world = World::new(true);
    let mut fault = |context, page| world.server.fault(&mut world.disk, context, page, false);
    let outside = Err(Code::OutsideGrant.into());
    assert_eq!(fault(0, 2), outside);
    assert_eq!(fault(0, u64::MAX), outside);
    assert_eq!(fault(0, WINDOW_PAGES as u64), outside);
    assert_eq!(fault(CONTEXTS, 0), outside);
    assert_eq!(world.server.counts(), Counts::default());
}

#[test]
fn a_page_that_is_used_keeps_its_frame_and_the_other_does_not() {
    let mut world = World::new(true);
    for at in [0, 1, 2] {
        world.access(at, false).expect("a read");
        world.access(0, false).expect("a read");
    }
    let is_mapped = |at: usize| world.window_entry(at).load(Relaxed) & VALID != 0;
    assert!(is_mapped(0) && !is_mapped(1) && is_mapped(2));
}

#[test]
fn after_a_failed_flush_no_sync_succeeds() {
    let mut world = World::new(true);
    world.access(0, true).expect("a store");
    world.disk.flushes_fail = true;
    assert_eq!(world.server.sync(&mut world.disk, 0), Err(FAILED));
    world.disk.flushes_fail = false;
    assert_eq!(world.server.sync(&mut world.disk, 0), Err(FAILED));
}

#[test]
fn memory_that_a_device_keeps_is_never_used_again() {
    struct Keeps;
    impl Backing for Keeps {
        fn read(&mut self, _: usize, _: u32, _: Buffer) -> (Buffer, Result<(), CompletionStatus>) {
            (Buffer::from_static(&mut []), Ok(()))
        }
        fn write(
            &mut self,
            _: usize,
            _: u32,
            buffer: Buffer,
        ) -> (Buffer, Result<(), CompletionStatus>) {
            (buffer, Ok(()))
        }
        fn flush(&mut self, _: usize) -> Result<(), CompletionStatus> {
            Ok(())
        }
    }
    let mut world = World::new(true);
    for _ in 0..FRAMES + 1 {
        let answer = world.server.fault(&mut Keeps, 0, 0, false);
        assert_eq!(answer, Err(Error::Gone.into()));
    }
    assert!(world.states().all(|state| state == State::Lost));
}

#[test]
fn the_end_of_a_context_stores_its_pages_and_leaves_those_of_the_other() {
    let mut world = World::new(true);
    world.access(0, true).expect("a store");
    world.access(2, false).expect("a read");
    world.server.end(&mut world.disk, 0).expect("written");
    world.cache.clear();
    assert_eq!(world.disk.stored[0], world.content[0]);
    assert_eq!(world.server.resident(), 1);
    world.check();
}

#[test]
fn a_request_is_answered_once() {
    let mailbox = Mailbox::new();
    assert_eq!(mailbox.request(), None);
    for argument in [3, 4] {
        let request = Request {
            context: 1,
            ask: Ask::Store,
            argument,
            value: 9,
        };
        mailbox.post(&request);
        assert_eq!(mailbox.reply(), None);
        assert_eq!(mailbox.request(), Some(Some(request)));
        let reply = Reply {
            status: FAILED,
            value: argument,
        };
        mailbox.answer(&reply);
        assert_eq!((mailbox.reply(), mailbox.request()), (Some(reply), None));
    }
}
