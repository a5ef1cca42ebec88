// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's session in the coprocessor: all state that decisions depend on is here, in its own
//! memory. What the client writes is read once, checked, and not trusted otherwise.

use block::Clock;

use crate::command::{Answer, LATE, RingCommand};
use crate::header::{Access, Grant};
use crate::layout::{
    CLIENTS, CREDITS, MIN_WINDOW_BYTES, PAGE_BYTES, RING_ENTRIES, client, client_offset,
};
use crate::memory::{Ring, Window};
use crate::status::{Code, CompletionStatus};

const MASK: u32 = RING_ENTRIES - 1;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No client is attached.
    Free,
    /// A client wants to work with files, and the volume is not mounted yet.
    Waiting,
    /// It is being served.
    Open,
    /// Waiting for its commands and closing its files; then it is free.
    Ending,
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    window: Window,
    index: usize,
    page: Ring,
    submissions: Ring,
    completions: Ring,
    pub(crate) grant: Grant,
    pub(crate) phase: Phase,
    pub(crate) access: Access,
    /// The client's session number.
    number: u32,
    /// The number that was last refused or ended; it is not accepted again.
    ended: u32,
    why: Code,
    /// Entries taken, entries seen, completions written, completions taken by the client.
    head: u32,
    seen: u32,
    answered: u32,
    taken: u32,
    pub(crate) under_way: u32,
    /// When each entry was seen, in ticks.
    seen_at: [u32; RING_ENTRIES as usize],
    beat: u32,
    beat_at: u64,
    lease_ms: u32,
    /// An event that was not reported yet.
    pub(crate) event: Option<Code>,
}

/// A command and when it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) command: RingCommand,
    pub(crate) seen_at: u32,
}

impl Session {
    /// The page of client `index`, in a window that is long enough for all of them.
    pub(crate) fn new(window: &Window, index: usize, grant: Grant) -> Self {
        debug_assert!(window.len() >= MIN_WINDOW_BYTES && index < CLIENTS);
        let page = client_offset(index);
        let ring = |offset, len| window.ring(page + offset, len).unwrap_or(Ring::EMPTY);
        window.clear(page, PAGE_BYTES);
        Self {
            window: *window,
            index,
            page: ring(0, PAGE_BYTES),
            submissions: ring(client::SUBMISSIONS, RING_ENTRIES as usize * 32),
            completions: ring(client::COMPLETIONS, RING_ENTRIES as usize * 16),
            grant,
            phase: Phase::Free,
            access: Access::ReadBlocks,
            number: 0,
            ended: 0,
            why: Code::Ok,
            head: 0,
            seen: 0,
            answered: 0,
            taken: 0,
            under_way: 0,
            seen_at: [0; RING_ENTRIES as usize],
            beat: 0,
            beat_at: 0,
            lease_ms: 0,
            event: None,
        }
    }

    /// Checks whether the client attached or detached, and occasionally (`looks_at_lease`) whether
    /// it is alive. The time is read only if needed: a timer on a bus costs more than all the rest.
    pub(crate) fn attend<C: Clock>(&mut self, clock: &C, ticks_per_ms: u64, looks_at_lease: bool) {
        let attach = self.page.read::<{ client::ATTACH }>();
        match self.phase {
            Phase::Free if attach != 0 && attach != self.ended => self.begin(attach, clock),
            Phase::Open | Phase::Waiting if attach != self.number => self.end(Code::Detached),
            Phase::Open if looks_at_lease && self.lease_ms != 0 => {
                let now = clock.ticks();
                let beat = self.page.read::<{ client::BEAT }>();
                if beat != self.beat {
                    self.beat = beat;
                    self.beat_at = now;
                } else if now.wrapping_sub(self.beat_at) > u64::from(self.lease_ms) * ticks_per_ms {
                    self.end(Code::LeaseOver);
                }
            }
            _ => {}
        }
    }

    fn begin<C: Clock>(&mut self, attach: u32, clock: &C) {
        block::barrier::after_entry();
        let access = Access::from_number(self.page.read::<{ client::ACCESS }>());
        self.number = attach;
        self.lease_ms = self.page.read::<{ client::LEASE_MS }>();
        self.beat = self.page.read::<{ client::BEAT }>();
        self.beat_at = clock.ticks();
        let Some(access) = access else {
            return self.refuse(Code::BadField);
        };
        self.access = access;
        if self.grant.rights & access.right() == 0 {
            return self.refuse(Code::NoRight);
        }
        self.head = 0;
        self.seen = 0;
        self.answered = 0;
        self.taken = 0;
        self.phase = Phase::Waiting;
    }

    /// Refuses an attachment.
    pub(crate) fn refuse(&mut self, why: Code) {
        self.why = why;
        self.close();
    }

    /// Serves the session from now on.
    pub(crate) fn open(&mut self) {
        let page = client_offset(self.index);
        // Phases start over, so what an earlier session left must be cleared.
        self.window
            .clear(page + client::COMPLETIONS, RING_ENTRIES as usize * 16);
        self.phase = Phase::Open;
        block::barrier::before_index();
        self.page.write::<{ client::ACCEPTED }>(self.number);
    }

    /// Stops serving it; it ends when nothing is in flight.
    pub(crate) fn end(&mut self, why: Code) {
        if self.phase == Phase::Waiting {
            return self.refuse(why);
        }
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
            self.why = why;
            // A clean detach is not worth logging.
            if why != Code::Detached {
                self.event = Some(why);
            }
        }
    }

    /// Ends the session: nothing of it is in flight, no file is open.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Free;
        self.ended = self.number;
        self.page.write::<{ client::REASON }>(self.why as u32);
        block::barrier::before_index();
        self.page.write::<{ client::ENDED }>(self.number);
        self.page.write::<{ client::ACCEPTED }>(0);
    }

    /// Completions written since it began.
    pub(crate) const fn answered(&self) -> u32 {
        self.answered
    }

    /// Reads the doorbell: the commands' time begins here, whether there is a credit or not.
    #[inline]
    pub(crate) fn look<C: Clock>(&mut self, clock: &C) {
        if self.phase == Phase::Open {
            let tail = self.page.read::<{ client::TAIL }>();
            if tail != self.seen {
                self.see(tail, clock.ticks() as u32);
            }
        }
    }

    /// The next command that was seen, if there is a credit for it. `Err`: the status to answer it
    /// with.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<Taken, (u16, Code)>> {
        if self.phase != Phase::Open {
            return None;
        }
        if self.head == self.seen || self.under_way >= CREDITS || !self.has_room() {
            return None;
        }
        let index = self.head & MASK;
        let entry = self.submissions.command(index);
        let seen_at = self.seen_at.get(index as usize).copied().unwrap_or(0);
        self.head = self.head.wrapping_add(1);
        self.under_way += 1;
        Some(RingCommand::decode(entry).map(|command| Taken { command, seen_at }))
    }

    /// Reads the new tail. An impossible one ends the session.
    fn see(&mut self, tail: u32, now: u32) {
        let is_possible = tail.wrapping_sub(self.head) <= RING_ENTRIES
            && tail.wrapping_sub(self.seen) <= RING_ENTRIES;
        if !is_possible {
            // A client that disappeared may have left any value there.
            let is_there = self.page.read::<{ client::ATTACH }>() == self.number;
            return self.end(if is_there {
                Code::BadIndex
            } else {
                Code::Detached
            });
        }
        block::barrier::after_entry();
        // At most one ring length of iterations.
        while self.seen != tail {
            if let Some(place) = self.seen_at.get_mut((self.seen & MASK) as usize) {
                *place = now;
            }
            self.seen = self.seen.wrapping_add(1);
        }
    }

    /// Whether the completion ring has room for everything in flight and one more.
    #[inline]
    fn has_room(&mut self) -> bool {
        let unread = |session: &Self| session.answered.wrapping_sub(session.taken);
        if unread(self) + self.under_way < RING_ENTRIES {
            return true;
        }
        let taken = self.page.read::<{ client::HEAD }>();
        if self.answered.wrapping_sub(taken) > RING_ENTRIES {
            self.end(Code::BadIndex);
            return false;
        }
        self.taken = taken;
        unread(self) + self.under_way < RING_ENTRIES
    }

    /// Ends a command that [`next`](Self::next) returned.
    #[inline]
    pub(crate) fn answer(&mut self, id: u16, status: CompletionStatus, value: u64, is_late: bool) {
        self.under_way = self.under_way.saturating_sub(1);
        // The rings of an ending session may soon belong to another.
        if self.phase != Phase::Open {
            return;
        }
        let answer = Answer {
            id,
            code: status.code | if is_late { LATE } else { 0 },
            detail: status.detail,
            value,
        };
        let round = self.answered / RING_ENTRIES;
        self.completions
            .set_answer(self.answered & MASK, answer.encode(round));
        self.answered = self.answered.wrapping_add(1);
    }

    /// The offset of a command's data in the window, if all of it belongs to the client.
    #[inline]
    pub(crate) fn data_offset(&self, offset: u32, bytes: usize) -> Result<usize, Code> {
        let offset = offset as usize;
        if bytes > self.grant.data_bytes || offset > self.grant.data_bytes - bytes {
            return Err(Code::OutsideGrant);
        }
        Ok(self.grant.data_offset + offset)
    }
}
