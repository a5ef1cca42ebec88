// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording's socket: a thread waits for readers, and each has a thread that passes its
//! requests on.

use super::{Answer, Ask, address, former_name, identity, is_trusted};
use devices::Progress;
use devices::drive::Drive;
use remedy::{Part, Setting, words};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::Duration;

/// Readers at a time.
const MOST_READERS: usize = 8;
/// The longest request.
const ASK_BYTES: u64 = 4096;
/// How often threads that wait look whether the recording has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A request, and where its answer goes.
pub struct Letter {
    /// What is asked.
    pub ask: Ask,
    /// Gets the answer, and the data of a read.
    pub reply: SyncSender<(Answer, Vec<u8>)>,
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
        letters: &Sender<Letter>,
        ended: &'s AtomicBool,
        readers: &'s AtomicUsize,
    ) {
        while !ended.load(Ordering::Relaxed) {
            let mut waits: Vec<PollFd<'_>> = self
                .listeners
                .iter()
                .map(|one| PollFd::new(one, PollFlags::IN))
                .collect();
            wait(&mut waits);
            for listener in &self.listeners {
                let Ok((stream, _)) = listener.accept() else {
                    continue;
                };
                let is_full = readers.load(Ordering::Relaxed) >= MOST_READERS;
                if is_full || !is_trusted(&stream) {
                    continue;
                }
                readers.fetch_add(1, Ordering::Relaxed);
                let letters = letters.clone();
                scope.spawn(move || {
                    // One that leaves, or sends nonsense, is let go.
                    let _ = serve(&stream, &letters, ended);
                    readers.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }
}

/// Waits for one of these, at most [`LOOK`].
fn wait(of: &mut [PollFd<'_>]) -> bool {
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LOOK.subsec_nanos()),
    };
    poll(of, Some(&look)).is_ok_and(|ready| ready > 0)
}

/// Passes requests on, and answers back, until the recording has ended; the last word is
/// [`Answer::Ended`].
fn serve(stream: &UnixStream, letters: &Sender<Letter>, ended: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(LOOK))?;
    let mut lines = BufReader::new(stream);
    let answer = |answer: &Answer| -> std::io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        send(stream, &line, ended)
    };
    loop {
        while lines.buffer().is_empty() && !wait(&mut [PollFd::new(&stream.as_fd(), PollFlags::IN)])
        {
            if ended.load(Ordering::Relaxed) {
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
        let (reply, replied) = sync_channel(1);
        let asked = letters.send(Letter { ask, reply });
        let Some((found, data)) = asked.ok().and_then(|()| replied.recv().ok()) else {
            return answer(&Answer::Ended);
        };
        answer(&found)?;
        send(stream, &data, ended)?;
    }
}

/// Writes all of it, as long as the reader takes it. The end of the recording does not wait for a
/// reader that takes nothing.
fn send(mut stream: &UnixStream, mut bytes: &[u8], ended: &AtomicBool) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if ended.load(Ordering::Relaxed) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
