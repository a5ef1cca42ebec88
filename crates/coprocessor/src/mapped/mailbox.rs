// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mailbox between the application's hart and the coprocessor's: one request and its answer.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::status::CompletionStatus;

/// What the application's hart needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ask {
    /// The page `argument` of the window, to load from it.
    Load = 0,
    /// The same, to store to it.
    Store = 1,
    /// What the context stored is durable when this is answered.
    Sync = 2,
    /// A line of the log: eight bytes of text in `argument`, and `value`.
    Report = 3,
    /// The instructions that the coprocessor has spent waiting for the drive.
    Waited = 4,
    /// The context has ended by itself with the status `argument`.
    Exit = 5,
    /// The context was stopped: `argument` is the status, its code in the lower half; `value` the
    /// address.
    Stop = 6,
    /// No context is left.
    Done = 7,
}

impl Ask {
    const ALL: [Ask; 8] = [
        Ask::Load,
        Ask::Store,
        Ask::Sync,
        Ask::Report,
        Ask::Waited,
        Ask::Exit,
        Ask::Stop,
        Ask::Done,
    ];
}

/// A request of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The context's number.
    pub context: u32,
    /// What it needs.
    pub ask: Ask,
    /// See [`Ask`].
    pub argument: u64,
    /// See [`Ask`].
    pub value: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Done, or why not.
    pub status: CompletionStatus,
    /// A number, for [`Ask::Waited`].
    pub value: u64,
}

/// One line that the application's hart writes and one that the coprocessor writes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Mailbox {
    asked: AtomicU32,
    context: AtomicU32,
    ask: AtomicU32,
    reserved: AtomicU32,
    argument: AtomicU64,
    value: AtomicU64,
    line: [AtomicU64; 4],
    answered: AtomicU32,
    code: AtomicU32,
    detail: AtomicU32,
    reserved2: AtomicU32,
    result: AtomicU64,
}

impl Mailbox {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            context: AtomicU32::new(0),
            ask: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            argument: AtomicU64::new(0),
            value: AtomicU64::new(0),
            line: [const { AtomicU64::new(0) }; 4],
            answered: AtomicU32::new(0),
            code: AtomicU32::new(0),
            detail: AtomicU32::new(0),
            reserved2: AtomicU32::new(0),
            result: AtomicU64::new(0),
        }
    }

    /// Application's hart: posts a request. The one before it must have been answered.
    pub fn post(&self, request: &Request) {
        let number = self.asked.load(Ordering::Relaxed);
        debug_assert_eq!(number, self.answered.load(Ordering::Relaxed));
        self.context.store(request.context, Ordering::Relaxed);
        self.ask.store(request.ask as u32, Ordering::Relaxed);
        self.argument.store(request.argument, Ordering::Relaxed);
        self.value.store(request.value, Ordering::Relaxed);
        // Publishes the words above, and everything that the application stored to its pages.
        self.asked.store(number.wrapping_add(1), Ordering::Release);
    }

    /// Application's hart: the answer to the request that was posted last, if there is one.
    pub fn reply(&self) -> Option<Reply> {
        let number = self.asked.load(Ordering::Relaxed);
        if self.answered.load(Ordering::Acquire) != number {
            return None;
        }
        Some(Reply {
            status: CompletionStatus {
                code: self.code.load(Ordering::Relaxed) as u16,
                detail: self.detail.load(Ordering::Relaxed),
            },
            value: self.result.load(Ordering::Relaxed),
        })
    }

    /// Coprocessor: the request that waits, if one does; `None` within it if it is unknown.
    pub fn request(&self) -> Option<Option<Request>> {
        let number = self.asked.load(Ordering::Acquire);
        if self.answered.load(Ordering::Relaxed) == number {
            return None;
        }
        let ask = Ask::ALL.get(self.ask.load(Ordering::Relaxed) as usize);
        Some(ask.map(|&ask| Request {
            context: self.context.load(Ordering::Relaxed),
            ask,
            argument: self.argument.load(Ordering::Relaxed),
            value: self.value.load(Ordering::Relaxed),
        }))
    }

    /// Coprocessor: answers the request that waits.
    pub fn answer(&self, reply: &Reply) {
        self.code
            .store(u32::from(reply.status.code), Ordering::Relaxed);
        self.detail.store(reply.status.detail, Ordering::Relaxed);
        self.result.store(reply.value, Ordering::Relaxed);
        let number = self.asked.load(Ordering::Relaxed);
        // Publishes the words above, and the tables.
        self.answered.store(number, Ordering::Release);
    }
}
