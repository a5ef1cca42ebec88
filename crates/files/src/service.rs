// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that has mounted a volume: it has many operations of other threads under way at the
//! same time.

use super::AnyVolume;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::task::{Context, Waker};
use std::time::Duration;
use volume::DataEvent;

/// How long the device may sleep while operations are under way; then the threads' are seen.
const WAIT_US: u32 = 50;
/// How often an idle service looks whether it must end.
const IDLE: Duration = Duration::from_millis(100);

/// An operation under way, which answers by itself.
pub type Job<'f> = Pin<Box<dyn Future<Output = ()> + 'f>>;

/// Performs operations until all senders of letters have been dropped, or `must_end` says so; those
/// under way are completed. `begin` makes an operation of a letter; `take_back` gets the
/// completions of data.
pub fn serve<'f, L>(
    volume: &AnyVolume<'_>,
    letters: &Receiver<L>,
    must_end: &dyn Fn() -> bool,
    begin: &dyn Fn(L) -> Job<'f>,
    take_back: &dyn Fn(DataEvent),
) {
    let mut jobs: Vec<Job<'f>> = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let mut has_moved = false;
        while let Some(letter) = match next(letters, jobs.is_empty(), must_end) {
            Ok(letter) => letter,
            Err(Ended) if jobs.is_empty() => return,
            Err(Ended) => None,
        } {
            jobs.push(begin(letter));
            has_moved = true;
        }
        jobs.retain_mut(|job| {
            let is_pending = job.as_mut().poll(&mut context).is_pending();
            has_moved |= !is_pending;
            is_pending
        });
        volume.kick();
        while let Some(event) = volume.poll() {
            take_back(event);
            has_moved = true;
        }
        if !has_moved && volume.outstanding() > 0 {
            volume.wait(WAIT_US);
        }
    }
}

/// All threads have ended, or the service must.
struct Ended;

/// What a thread has sent; waits for it if there is nothing else to do.
fn next<L>(
    letters: &Receiver<L>,
    is_idle: bool,
    must_end: &dyn Fn() -> bool,
) -> Result<Option<L>, Ended> {
    if is_idle {
        loop {
            match letters.recv_timeout(IDLE) {
                Ok(letter) => return Ok(Some(letter)),
                Err(RecvTimeoutError::Timeout) if !must_end() => {}
                Err(_) => return Err(Ended),
            }
        }
    }
    match letters.try_recv() {
        Ok(letter) => Ok(Some(letter)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => Err(Ended),
    }
}
