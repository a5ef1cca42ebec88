// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Semaphores between the threads of a workload.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How long a sleep may last; then the end of the run is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A counting semaphore that does not rise above `highest`.
#[derive(Debug)]
pub(super) struct Semaphore {
    highest: u64,
    count: Mutex<u64>,
    changed: Condvar,
}

impl Semaphore {
    pub(super) fn new(highest: u64) -> Self {
        Self {
            highest,
            count: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// Takes `count` as soon as there is as much; false if the run is over before.
    pub(super) fn wait(&self, count: u64, is_over: &dyn Fn() -> bool) -> bool {
        self.change(is_over, |now| now.checked_sub(count))
    }

    /// Adds `count` as soon as there is room; false if the run is over before.
    pub(super) fn post(&self, count: u64, is_over: &dyn Fn() -> bool) -> bool {
        let sum = |now: u64| now.checked_add(count).filter(|sum| *sum <= self.highest);
        self.change(is_over, sum)
    }

    fn change(&self, is_over: &dyn Fn() -> bool, next: impl Fn(u64) -> Option<u64>) -> bool {
        let Ok(mut now) = self.count.lock() else {
            return false;
        };
        loop {
            if let Some(next) = next(*now) {
                *now = next;
                self.changed.notify_all();
                return true;
            }
            if is_over() {
                return false;
            }
            match self.changed.wait_timeout(now, LOOK_AGAIN) {
                Ok((again, _)) => now = again,
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_wait_takes_what_was_posted_and_a_post_waits_for_room() {
        let semaphore = Semaphore::new(10);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| assert!(semaphore.post(1, &|| false))));
            (0..10).for_each(|_| assert!(semaphore.wait(10, &|| false)));
        });
        assert_eq!(*semaphore.count.lock().unwrap(), 0);
    }

    #[test]
    fn the_end_of_the_run_ends_a_wait() {
        let (semaphore, over) = (Semaphore::new(1), AtomicBool::new(false));
        assert!(semaphore.post(1, &|| false));
        std::thread::scope(|scope| {
            let is_over = || over.load(Ordering::Relaxed);
            let waiting = scope.spawn(move || semaphore.wait(2, &is_over));
            over.store(true, Ordering::Relaxed);
            assert!(!waiting.join().unwrap());
        });
    }
}
