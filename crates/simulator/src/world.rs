// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated time and what happens in it, on one thread.
//!
//! Time passes only where the product would sleep ([`World::sleep`]), and while it computes
//! ([`World::work`]). What is due by then happens in the order of its time; two things of the same
//! time happen in the order in which they were planned. So a run depends on its seed alone.

use crate::trace::{Trace, What};
use block::Clock;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What happens at a time. It sees only simulated things, never the product.
type Due = Box<dyn FnOnce()>;

struct Planned {
    at: u64,
    order: u64,
    due: Option<Due>,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

struct Inner {
    now_us: Cell<u64>,
    order: Cell<u64>,
    planned: RefCell<BinaryHeap<Reverse<Planned>>>,
    trace: RefCell<Trace>,
    random: RefCell<fastrand::Rng>,
}

/// A handle to the world; it is the product's clock, too.
#[derive(Clone)]
pub struct World(Rc<Inner>);

thread_local! {
    /// For the time of day, which the product asks of a function.
    static WALL_NS: Cell<u64> = const { Cell::new(0) };
    static BEGAN: Instant = Instant::now();
    static NOW_US: Cell<u64> = const { Cell::new(0) };
}

/// The simulated time, where the product asks a function for it.
pub fn instant() -> Instant {
    BEGAN.with(|began| *began) + Duration::from_micros(NOW_US.get())
}

/// The simulated time of day.
pub fn wall_ns() -> u64 {
    WALL_NS.get()
}

/// The time of day when a run begins: 2026-01-01.
const BEGIN_NS: u64 = 1_767_225_600_000_000_000;

impl World {
    /// A world at time 0.
    pub fn new(seed: u64) -> Self {
        WALL_NS.set(BEGIN_NS);
        NOW_US.set(0);
        Self(Rc::new(Inner {
            now_us: Cell::new(0),
            order: Cell::new(0),
            planned: RefCell::default(),
            trace: RefCell::default(),
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
        }))
    }

    /// Microseconds since the run began.
    pub fn now_us(&self) -> u64 {
        self.0.now_us.get()
    }

    /// Plans what happens in `after_us`.
    pub fn plan(&self, after_us: u64, due: impl FnOnce() + 'static) {
        self.push(self.now_us().saturating_add(after_us), Some(Box::new(due)));
    }

    /// Lets a sleep end at a time.
    pub fn wake_at(&self, at_us: u64) {
        self.push(at_us, None);
    }

    fn push(&self, at: u64, due: Option<Due>) {
        let order = self.0.order.get();
        self.0.order.set(order + 1);
        let planned = Planned { at, order, due };
        self.0.planned.borrow_mut().push(Reverse(planned));
    }

    /// Sleeps until something has happened, or for `most_us`.
    pub fn sleep(&self, most_us: u64) {
        let end = self.now_us().saturating_add(most_us.max(1));
        let next = self.0.planned.borrow().peek().map(|next| next.0.at);
        self.run_to(next.map_or(end, |next| next.max(self.now_us()).min(end)));
    }

    /// Time that a computation takes.
    pub fn work(&self, us: u64) {
        self.run_to(self.now_us().saturating_add(us));
    }

    fn run_to(&self, end: u64) {
        loop {
            let mut planned = self.0.planned.borrow_mut();
            let is_due = planned.peek().is_some_and(|next| next.0.at <= end);
            let next = if is_due { planned.pop() } else { None };
            drop(planned);
            let Some(Reverse(next)) = next else { break };
            self.set_now(next.at.max(self.now_us()));
            if let Some(due) = next.due {
                due();
            }
        }
        self.set_now(end.max(self.now_us()));
    }

    fn set_now(&self, now: u64) {
        let passed = now - self.now_us();
        self.0.now_us.set(now);
        NOW_US.set(now);
        WALL_NS.set(WALL_NS.get().wrapping_add(passed * 1000));
    }

    /// Sets the time of day forward or back.
    pub fn set_wall(&self, by_ns: i64) {
        WALL_NS.set(WALL_NS.get().saturating_add_signed(by_ns));
    }

    /// Begins a step of a script: its randomness depends on nothing before it.
    pub fn seed(&self, salt: u64) {
        *self.0.random.borrow_mut() = fastrand::Rng::with_seed(salt);
    }

    /// A random number below `end`; 0 if that is 0.
    pub fn below(&self, end: u64) -> u64 {
        match end {
            0 => 0,
            end => self.0.random.borrow_mut().u64(..end),
        }
    }

    /// Whether something happens that does so once in `many` times.
    pub fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Adds a step to the trace.
    pub fn note(&self, what: What, a: u64, b: u64) {
        self.0.trace.borrow_mut().note(self.now_us(), what, a, b);
    }

    /// Looks at the trace.
    pub fn trace<T>(&self, with: impl FnOnce(&mut Trace) -> T) -> T {
        with(&mut self.0.trace.borrow_mut())
    }
}

impl Clock for World {
    fn ticks(&self) -> u64 {
        self.now_us()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World at {} us", self.now_us())
    }
}
