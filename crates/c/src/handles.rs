//! The open devices of each thread.
//!
//! A handle is a number: this thread's, its place in the table and the place's generation. One that was closed, or that another
//! thread opened, is an error and never a wrong address.

use crate::error::{Fault, usage};
use crate::session::Session;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bits of a handle: the thread above the generation above the place. 0 is never a handle.
const PLACE_BITS: u32 = 12;
const GENERATION_BITS: u32 = 20;
const MOST: usize = 1 << PLACE_BITS;

/// Numbers of threads that have opened a device; from 1.
static THREADS: AtomicU32 = AtomicU32::new(1);

struct Place {
    generation: u64,
    session: Option<Session>,
}

struct Table {
    thread: u64,
    places: Vec<Place>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::new(Table {
        thread: u64::from(THREADS.fetch_add(1, Ordering::Relaxed)),
        places: Vec::new(),
    });
}

/// Adds an open device; its handle.
///
/// # Errors
/// This thread has too many.
pub fn add(session: Session) -> Result<u64, Fault> {
    TABLE.with_borrow_mut(|table| {
        let free = table
            .places
            .iter()
            .position(|place| place.session.is_none());
        let at = free.unwrap_or(table.places.len());
        if at == MOST {
            return Err(usage(
                format!("this thread has {MOST} open devices"),
                "close some",
            ));
        }
        if at == table.places.len() {
            let (generation, session) = (0, None);
            table.places.push(Place {
                generation,
                session,
            });
        }
        let place = &mut table.places[at];
        place.generation = (place.generation + 1) % (1 << GENERATION_BITS);
        place.session = Some(session);
        Ok((table.thread << GENERATION_BITS | place.generation) << PLACE_BITS | at as u64)
    })
}

/// Uses the device of a handle.
///
/// # Errors
/// It is closed, or another thread's; or the error of `use_it`.
pub fn with<T>(
    handle: u64,
    use_it: impl FnOnce(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    TABLE.with_borrow_mut(|table| {
        let at = table.find(handle)?;
        match &mut table.places[at].session {
            Some(session) => use_it(session),
            None => Err(closed()),
        }
    })
}

/// Takes the device of a handle out.
///
/// # Errors
/// As [`with`].
pub fn remove(handle: u64) -> Result<Session, Fault> {
    TABLE.with_borrow_mut(|table| {
        let at = table.find(handle)?;
        table.places[at].session.take().ok_or_else(closed)
    })
}

impl Table {
    fn find(&self, handle: u64) -> Result<usize, Fault> {
        let at = (handle & (MOST as u64 - 1)) as usize;
        let rest = handle >> PLACE_BITS;
        if rest >> GENERATION_BITS != self.thread {
            return Err(usage(
                "this thread has not opened such a device",
                "a device is used by the thread that opened it",
            ));
        }
        let generation = rest & ((1 << GENERATION_BITS) - 1);
        match self.places.get(at) {
            Some(place) if place.generation == generation => Ok(at),
            _ => Err(closed()),
        }
    }
}

fn closed() -> Fault {
    usage("this device is closed", "open it again")
}
