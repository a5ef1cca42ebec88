//! The thread that has mounted the volume: it has many operations under way at the same time.

use super::files::Files;
use super::pool::Pool;
use super::{Answer, Letter};
use crate::failure::Result;
use crate::volume::Mounted;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::task::{Context, Poll, Waker};

/// How long the device may sleep while operations are under way; then the threads' are seen.
const WAIT_US: u32 = 50;

/// The end of the thread that has mounted the volume.
pub struct Service(Receiver<Letter>);

/// An operation under way.
struct Job<'f> {
    future: Pin<Box<dyn Future<Output = Answer> + 'f>>,
    answer: Sender<Answer>,
}

impl Service {
    pub(super) const fn new(letters: Receiver<Letter>) -> Self {
        Self(letters)
    }

    /// Performs operations until all senders have been dropped.
    ///
    /// # Errors
    /// There is no memory for buffers.
    pub fn serve(self, mounted: &Mounted<'_, '_>) -> Result<()> {
        let pool = Pool::new(mounted.memory)?;
        self.serve_with(mounted, &pool);
        pool.give_back(mounted.memory);
        Ok(())
    }

    fn serve_with(&self, mounted: &Mounted<'_, '_>, pool: &Pool) {
        let volume = mounted.volume;
        let files = Files::new(mounted, pool);
        let mut jobs: Vec<Job<'_>> = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut has_moved = false;
            while let Some(letter) = match self.next(jobs.is_empty()) {
                Ok(letter) => letter,
                Err(Ended) if jobs.is_empty() => return,
                Err(Ended) => None,
            } {
                let future = Box::pin(files.serve(letter.session, letter.want));
                let answer = letter.answer;
                jobs.push(Job { future, answer });
                has_moved = true;
            }
            jobs.retain_mut(|job| match job.future.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    // A thread that no longer waits has ended.
                    let _ = job.answer.send(answer);
                    has_moved = true;
                    false
                }
            });
            volume.kick();
            while let Some(event) = volume.poll() {
                files.take_back(event);
                has_moved = true;
            }
            if !has_moved && volume.outstanding() > 0 {
                volume.wait(WAIT_US);
            }
        }
    }

    /// What a thread has sent; waits for it if there is nothing else to do.
    fn next(&self, is_idle: bool) -> std::result::Result<Option<Letter>, Ended> {
        if is_idle {
            return self.0.recv().map(Some).map_err(|_| Ended);
        }
        match self.0.try_recv() {
            Ok(letter) => Ok(Some(letter)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }
}

/// All threads have ended.
struct Ended;
