// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording's socket: a thread waits for readers, and each has a thread that passes its
//! requests on.

use super::events::Events;
use super::{Answer, Ask, address, former_name, identity, is_trusted};
use devices::Progress;
use devices::drive::Drive;
use devices::error::{Error, Result};
use remedy::{Part, Setting, words};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Readers at a time.
const MOST_READERS: usize = 8;
/// The longest request.
const ASK_BYTES: u64 = 4096;
/// How long a reader that takes nothing is waited for, between looks whether the recording has
/// ended.
const LOOK: Duration = Duration::from_millis(100);

/// A request, and where its answer goes.
pub struct Letter {
    /// What is asked.
    pub ask: Ask,
    /// Gets the answer, and the data of a read.
    pub reply: SyncSender<(Answer, Vec<u8>)>,
}

/// Takes a request; false: the recording has ended, and there is no answer.
pub type Post<'p> = &'p (dyn Fn(Letter) -> bool + Sync);

/// The end of a recording, for the threads that wait for something else.
#[derive(Debug)]
pub struct End {
    is_over: AtomicBool,
    /// Readable from the end on.
    heard: UnixStream,
    calling: UnixStream,
}

impl End {
    /// It goes on.
    ///
    /// # Errors
    /// There are no descriptors.
    pub fn new() -> Result<Self> {
        let pair = UnixStream::pair();
        let pair = pair.map_err(|error| Error::other(format!("making a socket: {error}")));
        let (heard, calling) = pair?;
        Ok(Self {
            is_over: AtomicBool::new(false),
            heard,
            calling,
        })
    }

    /// It is over.
    pub fn call(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.calling.shutdown(Shutdown::Both);
    }

    /// Whether it is.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The sockets at which readers find a recording.
#[derive(Debug)]
pub struct Door {
    listeners: Vec<UnixListener>,
}

impl Door {
    /// Listens for the readers of `drive`; none if they could not find it, or something else
    /// listens there.
    pub fn open(drive: &Drive, progress: &Progress) -> Option<Self> {
        let former = match drive {
            Drive::Nvme(resolved) => former_name(&resolved.name),
            _ => None,
        };
        let listen = |identity: String| {
            let bound = UnixListener::bind_addr(&address(&identity).ok()?);
            if bound
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
            {
                // Names of abstract sockets have no owner (unix(7)): any user can take one.
                progress.say(words![
                    format!(
                        "warning: another process has the socket of recordings on {drive}: ls, get "
                    ),
                    Part::Option(Setting::Follow),
                    " and others cannot ask this one"
                ]);
            }
            let listener = bound.ok()?;
            listener.set_nonblocking(true).ok()?;
            Some(listener)
        };
        let first = listen(identity(drive)?)?;
        let listeners = [Some(first), former.and_then(listen)];
        Some(Self {
            listeners: listeners.into_iter().flatten().collect(),
        })
    }

    /// Lets readers in until the recording has `ended`.
    pub fn attend<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        post: Post<'s>,
        events: &'s Events,
        end: &'s End,
        readers: &'s AtomicUsize,
    ) {
        while !end.is_over() {
            let listeners = self.listeners.iter().map(AsFd::as_fd);
            wait(listeners.chain([end.heard.as_fd()]));
            for listener in &self.listeners {
                let Ok((stream, _)) = listener.accept() else {
                    continue;
                };
                if !is_trusted(&stream) {
                    continue;
                }
                if !has_place(readers, end) {
                    turn_away(&stream);
                    continue;
                }
                readers.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move || {
                    // One that leaves, or sends nonsense, is let go.
                    let _ = serve(&stream, post, events, end);
                    readers.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Whether one more reader may come. Those that have left, many at once after a stop of this
/// process, are given the time to be noticed.
fn has_place(readers: &AtomicUsize, end: &End) -> bool {
    let began = Instant::now();
    while readers.load(Ordering::Relaxed) >= MOST_READERS {
        if end.is_over() || began.elapsed() >= LOOK {
            return false;
        }
        std::thread::sleep(LOOK / 20);
    }
    true
}

/// Tells a reader that there is no room. A new socket takes the line at once.
fn turn_away(mut stream: &UnixStream) {
    let what = format!("{MOST_READERS} other processes read from the recording already");
    let failure = Error::missing(what).hint("end one of them, or try again when one has ended");
    if let Ok(mut line) = serde_json::to_vec(&Answer::from(&failure)) {
        line.push(b'\n');
        let _ = stream
            .set_nonblocking(true)
            .and_then(|()| stream.write_all(&line));
    }
}

/// Waits until one of these has something.
fn wait<'f>(of: impl Iterator<Item = BorrowedFd<'f>>) {
    let of = of.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    // After a failure or a signal the caller finds nothing, and comes again.
    let _ = poll(&mut of.collect::<Vec<_>>(), None);
}

/// Passes requests on, and answers back, until the recording has ended; the last word is
/// [`Answer::Ended`].
fn serve(stream: &UnixStream, post: Post<'_>, events: &Events, end: &End) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(LOOK))?;
    let mut lines = BufReader::new(stream);
    let answer = |answer: &Answer| -> std::io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        send(stream, &line, end)
    };
    // Of a reader that follows the events: the next one.
    let mut next_event = None;
    loop {
        if lines.buffer().is_empty() {
            wait([stream.as_fd(), end.heard.as_fd()].into_iter());
            if end.is_over() {
                while let Some((last, next)) = next_event.map(|next| events.since(next)) {
                    if last.is_empty() {
                        break;
                    }
                    answer(&Answer::Events(last, next))?;
                    next_event = Some(next);
                }
                return answer(&Answer::Ended);
            }
        }
        let mut line = String::new();
        stream.set_read_timeout(Some(LOOK * 10))?;
        (&mut lines).take(ASK_BYTES).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(());
        }
        let ask: Ask = serde_json::from_str(&line)?;
        if let Ask::Events(from) = ask {
            let (some, next) = events.since(from);
            next_event = Some(next);
            answer(&Answer::Events(some, next))?;
            continue;
        }
        let (reply, replied) = sync_channel(1);
        let is_taken = post(Letter { ask, reply });
        let Some((found, data)) = replied.recv().ok().filter(|_| is_taken) else {
            return answer(&Answer::Ended);
        };
        answer(&found)?;
        send(stream, &data, end)?;
    }
}

/// Writes all of it, as long as the reader takes it. The end of the recording does not wait for a
/// reader that takes nothing.
fn send(mut stream: &UnixStream, mut bytes: &[u8], end: &End) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if end.is_over() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
