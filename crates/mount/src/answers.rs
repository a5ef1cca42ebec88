// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to reads: the kernel copies their data during the call, on a thread of its own, so that
//! the device has its next requests.

use super::asks::Data;
use block::Buffer;
use fuser::Errno;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the kernel takes to copy a long read.
const SOON: Duration = Duration::from_millis(1);

/// Data that was read, where it is in the buffer, and who gets it.
type Answer = (Buffer, Range<usize>, Data);

/// The thread that answers.
pub struct Answers {
    asks: Sender<Answer>,
    answered: Receiver<Buffer>,
    thread: JoinHandle<()>,
}

impl Answers {
    /// Starts the thread.
    pub fn new() -> Self {
        let (asks, asked) = channel::<Answer>();
        let (answers, answered) = channel();
        let thread = std::thread::spawn(move || {
            for (buffer, range, data) in asked {
                data(buffer.get(range).ok_or(Errno::EIO));
                let _ = answers.send(buffer);
            }
        });
        Self {
            asks,
            answered,
            thread,
        }
    }

    /// Answers with data, after the answers before.
    pub fn send(&self, buffer: Buffer, range: Range<usize>, data: Data) {
        // The thread ends after the last sender, not before.
        let _ = self.asks.send((buffer, range, data));
    }

    /// Buffers whose answers have been given.
    pub fn answered(&self) -> impl Iterator<Item = Buffer> {
        self.answered.try_iter()
    }

    /// The next one, if it comes soon: for when there is nothing else to do.
    pub fn next_answered(&self) -> Option<Buffer> {
        self.answered.recv_timeout(SOON).ok()
    }

    /// Waits until all answers have been given; their buffers.
    pub fn end(self) -> impl Iterator<Item = Buffer> {
        drop(self.asks);
        // What it has panicked with is on standard error.
        let _ = self.thread.join();
        self.answered.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_their_buffers_come_back() {
        let answers = Answers::new();
        let (seen, all_seen) = channel();
        for number in 0..3_u8 {
            let memory = Box::leak(vec![number; 8].into_boxed_slice());
            let seen = seen.clone();
            let data = move |result: Result<&[u8], Errno>| {
                seen.send(result.map(<[u8]>::to_vec).ok()).unwrap()
            };
            answers.send(
                Buffer::from_static(memory),
                2..4 + usize::from(number) * 4,
                Box::new(data),
            );
        }
        // The end waits for the answers, and the last one was past its buffer.
        assert_eq!(answers.end().count(), 3);
        let seen: Vec<_> = all_seen.try_iter().collect();
        assert_eq!(seen, [Some(vec![0; 2]), Some(vec![1; 6]), None]);
    }
}
