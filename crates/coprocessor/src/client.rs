// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The main CPU's side: a session with the coprocessor, commands in and completions out.
//!
//! A session owns one client's page of the window. It never has more commands in flight than
//! credits, so neither ring can overflow.

use block::{Clock, barrier};

use crate::command::{Answer, PHASE, RingCommand};
use crate::header::{Access, Header, HeaderError, State};
use crate::layout::{CLIENTS, RING_ENTRIES, client, client_offset, header};
use crate::memory::{Ring, Window};
use crate::status::Code;

const MASK: u32 = RING_ENTRIES - 1;
/// Empty polls between two checks of the clock and of the session.
const POLLS_PER_LOOK: u32 = 256;

/// Options for attaching.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The purpose of the session.
    pub access: Access,
    /// The client's page; each page belongs to one client at a time.
    pub index: usize,
    /// The session's number: not zero, and different from that of the page's last session.
    pub number: u32,
    /// The session ends when it was not polled for this long; 0: never.
    pub lease_ms: u32,
    /// How long the coprocessor may take to start and to accept the session.
    pub attach_timeout_us: u64,
    /// How long it may be silent while commands are in flight before it counts as gone.
    pub silence_us: u64,
    /// What to do between two looks while the coprocessor starts, accepts a session or releases
    /// one: a program with an operating system sleeps. Not used while commands are in flight.
    pub pause: fn(),
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadBlocks,
            index: 0,
            number: 1,
            lease_ms: 0,
            attach_timeout_us: 30_000_000,
            silence_us: 60_000_000,
            pause: core::hint::spin_loop,
        }
    }
}

/// Why a session could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachFailed {
    /// It is not a coprocessor's window.
    Header(HeaderError),
    /// The coprocessor has nothing to serve.
    Failed(Code),
    /// It refused the session.
    Refused(Code),
    /// It did not answer in time.
    Silent,
}

impl core::fmt::Display for AttachFailed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            AttachFailed::Header(error) => error.fmt(f),
            AttachFailed::Failed(code) | AttachFailed::Refused(code) => f.write_str(code.text()),
            AttachFailed::Silent => f.write_str("the coprocessor does not answer"),
        }
    }
}

impl core::error::Error for AttachFailed {}

/// A session.
#[derive(Debug)]
pub struct Client<C> {
    window: Window,
    page: Ring,
    submissions: Ring,
    completions: Ring,
    /// Entries written, entries rung for, completions taken.
    tail: u32,
    rung: u32,
    head: u32,
    /// What makes the top bit of a new completion's first word zero.
    flip: u32,
    /// Completions taken at the last check.
    head_at_look: u32,
    /// Empty polls until the next check.
    polls_to_look: u32,
    options: ClientOptions,
    header: Header,
    clock: C,
    silent_since: Option<u64>,
    is_gone: bool,
    why: Option<Code>,
}

impl<C: Clock> Client<C> {
    /// Opens a session in `window`.
    ///
    /// # Errors
    /// Why the session could not be opened.
    pub fn attach(window: Window, clock: C, options: ClientOptions) -> Result<Self, AttachFailed> {
        let deadline = clock
            .ticks()
            .saturating_add(clock.ticks_from_us(options.attach_timeout_us));
        let page = client_offset(options.index.min(CLIENTS - 1));
        let rings = (
            window.ring(page, 0x100),
            window.ring(page + client::SUBMISSIONS, RING_ENTRIES as usize * 32),
            window.ring(page + client::COMPLETIONS, RING_ENTRIES as usize * 16),
        );
        let (Some(line), Some(submissions), Some(completions)) = rings else {
            return Err(AttachFailed::Header(HeaderError::NoHeader));
        };
        let read = || Header::read(&window).map_err(AttachFailed::Header);
        // A header that is being written for the first time is not valid yet.
        let mut found = read();
        loop {
            match &found {
                Ok(header) if header.state == State::Ready => break,
                Ok(header) => {
                    if let State::Failed(code) = header.state {
                        return Err(AttachFailed::Failed(code));
                    }
                }
                Err(AttachFailed::Header(HeaderError::NoHeader)) => {}
                Err(error) => return Err(*error),
            }
            if clock.ticks() > deadline {
                return Err(found.err().unwrap_or(AttachFailed::Silent));
            }
            (options.pause)();
            found = read();
        }
        let header = found?;
        let client = Self {
            window,
            page: line,
            submissions,
            completions,
            tail: 0,
            rung: 0,
            head: 0,
            flip: PHASE,
            head_at_look: 0,
            polls_to_look: POLLS_PER_LOOK,
            options,
            header,
            clock,
            silent_since: None,
            is_gone: false,
            why: None,
        };
        client.begin(deadline)?;
        Ok(client)
    }

    fn begin(&self, deadline: u64) -> Result<(), AttachFailed> {
        let number = self.options.number;
        // An earlier session whose client died ends first: its indices are still read.
        self.page.write::<{ client::ATTACH }>(0);
        while self.page.read::<{ client::ACCEPTED }>() != 0 {
            if self.clock.ticks() > deadline {
                return Err(AttachFailed::Silent);
            }
            (self.options.pause)();
        }
        self.page.write::<{ client::TAIL }>(0);
        self.page.write::<{ client::HEAD }>(0);
        self.page
            .write::<{ client::ACCESS }>(self.options.access as u32);
        self.page
            .write::<{ client::LEASE_MS }>(self.options.lease_ms);
        barrier::before_index();
        self.page.write::<{ client::ATTACH }>(number);
        loop {
            if self.page.read::<{ client::ACCEPTED }>() == number {
                barrier::after_entry();
                return Ok(());
            }
            if self.page.read::<{ client::ENDED }>() == number {
                barrier::after_entry();
                let reason = self.page.read::<{ client::REASON }>() as u16;
                let code = Code::from_number(reason).unwrap_or(Code::Detached);
                return Err(AttachFailed::Refused(code));
            }
            if self.clock.ticks() > deadline {
                // A withdrawn attachment must not be accepted later.
                self.page.write::<{ client::ATTACH }>(0);
                return Err(AttachFailed::Silent);
            }
            (self.options.pause)();
        }
    }

    /// The coprocessor's header when the session began.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The window.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Its clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// The offset and length of the session's data in the window.
    pub fn data(&self) -> (usize, usize) {
        let grant = self.header.grants.get(self.options.index);
        grant.map_or((0, 0), |grant| (grant.data_offset, grant.data_bytes))
    }

    /// Whether another command may be submitted, that is, a credit is available.
    #[inline(always)]
    pub fn has_credit(&self) -> bool {
        self.tail.wrapping_sub(self.head) < self.header.credits
    }

    /// Commands in flight.
    #[inline(always)]
    pub fn under_way(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Writes a command to the ring. False: no credit is available.
    #[inline(always)]
    pub fn submit(&mut self, command: &RingCommand) -> bool {
        if !self.has_credit() {
            return false;
        }
        self.submissions
            .set_command(self.tail & MASK, command.encode());
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// Rings the doorbell for what was submitted.
    #[inline(always)]
    pub fn kick(&mut self) {
        if self.rung != self.tail {
            barrier::before_index();
            self.page.write::<{ client::TAIL }>(self.tail);
            self.rung = self.tail;
        }
    }

    /// The next completion, if any.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Answer> {
        let first = self.peek()?;
        let answer = self.rest(first);
        self.advance();
        Some(answer)
    }

    /// The first word of the next completion, if any, without its phase. What the coprocessor wrote
    /// before it is visible afterwards.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u32> {
        let first = self.completions.answer_word(self.head & MASK) ^ self.flip;
        // Without a command in flight there is no valid completion.
        if first & PHASE == 0 && self.head != self.rung {
            barrier::after_entry();
            return Some(first);
        }
        self.polls_to_look -= 1;
        if self.polls_to_look == 0 {
            self.look();
        }
        None
    }

    /// The whole completion that was peeked.
    pub(crate) fn rest(&self, first: u32) -> Answer {
        Answer::decode(self.completions.answer(self.head & MASK, first))
    }

    /// Releases the completion that was peeked: its entry belongs to the coprocessor again.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.head = self.head.wrapping_add(1);
        if self.head & MASK == 0 {
            self.flip ^= PHASE;
        }
        self.page.write::<{ client::HEAD }>(self.head);
    }

    /// The next command's position in the ring.
    #[inline(always)]
    pub(crate) fn place(&self) -> u32 {
        self.tail & MASK
    }

    /// Writes an entry at [`place`](Self::place); a credit must be available.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: [u64; 4]) {
        self.submissions.set_command(self.tail & MASK, entry);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Whether a poll would find something: a completion, or the end of the session.
    pub fn has_news(&mut self) -> bool {
        self.peek().is_some() || self.is_gone
    }

    /// Every few empty polls: checks that the coprocessor is alive and still serves this session.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        self.polls_to_look = POLLS_PER_LOOK;
        let beat = self.page.read::<{ client::BEAT }>().wrapping_add(1);
        self.page.write::<{ client::BEAT }>(beat);
        let is_ours = self.page.read::<{ client::ACCEPTED }>() == self.options.number;
        let same_boot = self.window.read32(header::BOOT) == self.header.boot;
        if !is_ours || !same_boot {
            // The coprocessor itself reported this, and no longer accesses anything of the session.
            self.is_gone = true;
            let reason = self.page.read::<{ client::REASON }>() as u16;
            self.why = same_boot.then(|| Code::from_number(reason)).flatten();
            return;
        }
        if self.under_way() == 0 || self.head != self.head_at_look {
            self.head_at_look = self.head;
            self.silent_since = None;
            return;
        }
        let now = self.clock.ticks();
        let since = *self.silent_since.get_or_insert(now);
        let patience = self.clock.ticks_from_us(self.options.silence_us);
        if now.wrapping_sub(since) > patience {
            self.is_gone = true;
        }
    }

    /// Whether the session has ended: the coprocessor ended it, restarted, or is silent.
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Why the coprocessor ended the session, if it reported a reason.
    pub const fn why(&self) -> Option<Code> {
        self.why
    }

    /// Whether the coprocessor certainly no longer accesses the session: it reported the session's
    /// end, or has restarted.
    pub fn is_released(&self) -> bool {
        self.page.read::<{ client::ACCEPTED }>() != self.options.number
            || self.window.read32(header::BOOT) != self.header.boot
    }

    /// Ends the session and waits, for a bounded time, until the coprocessor has released it. True:
    /// it has, and the session's data belongs to the client alone.
    pub fn detach(&mut self) -> bool {
        self.page.write::<{ client::ATTACH }>(0);
        let patience = self.clock.ticks_from_us(self.options.silence_us);
        let since = self.clock.ticks();
        while !self.is_released() {
            if self.clock.ticks().wrapping_sub(since) > patience {
                return false;
            }
            (self.options.pause)();
        }
        true
    }
}

impl<C> Drop for Client<C> {
    fn drop(&mut self) {
        if self.page.read::<{ client::ATTACH }>() == self.options.number {
            self.page.write::<{ client::ATTACH }>(0);
        }
    }
}
