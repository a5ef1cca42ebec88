// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader's end of the socket. The process at the other end may be stopped or stuck, so whoever
//! waits for it can be cancelled, and learns what the wait is for.

use devices::error::{Error, Result};
use devices::{Cancel, Context, Progress};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// How long to wait between looks whether the user has cancelled.
const LOOK: Duration = Duration::from_millis(100);
/// After this time without an answer the user learns that there is none.
const SILENCE: Duration = Duration::from_secs(3);

/// A connection to the process that has the volume.
#[derive(Debug)]
pub(crate) struct Patient {
    stream: UnixStream,
    wait: Wait,
}

/// One that waits for the process.
#[derive(Debug)]
struct Wait {
    cancel: Cancel,
    progress: Progress,
    device: String,
    has_said: Cell<bool>,
}

impl Patient {
    /// Connects; none if no process listens there.
    pub(crate) fn connect(
        context: &Context,
        device: &str,
        address: &SocketAddr,
    ) -> Result<Option<Self>> {
        let wait = Wait {
            cancel: context.cancel.clone(),
            progress: context.progress.clone(),
            device: device.to_owned(),
            has_said: Cell::new(false),
        };
        let began = Instant::now();
        // A process that hangs takes no connections either, and its queue fills: then connect(2)
        // waits without limit unless the socket does not block.
        loop {
            match connect(address) {
                Ok(stream) => return Ok(Some(Self { stream, wait })),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(LOOK);
                    wait.goes_on(began, None)?;
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// The socket.
    pub(crate) const fn socket(&self) -> &UnixStream {
        &self.stream
    }

    /// # Errors
    /// The user cancelled.
    pub(crate) fn check(&self) -> Result<()> {
        self.wait.check()
    }

    /// Repeats what has timed out, until the user cancels.
    fn patiently(
        &mut self,
        mut attempt: impl FnMut(&mut UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match attempt(&mut self.stream) {
                Err(error) if is_early(&error) => {
                    let goes_on = self.wait.goes_on(began, Some(&self.stream));
                    goes_on.map_err(|failure| io::Error::other(failure.to_string()))?;
                }
                result => return result,
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(|stream| stream.read(into))
    }
}

impl Write for Patient {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.patiently(|stream| stream.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Wait {
    fn check(&self) -> Result<()> {
        if self.cancel.is_set() {
            Err(Error::interrupted("interrupted"))
        } else {
            Ok(())
        }
    }

    /// Called at each look. The other end's process is known once it is connected.
    fn goes_on(&self, began: Instant, stream: Option<&UnixStream>) -> Result<()> {
        self.check()?;
        if began.elapsed() >= SILENCE && !self.has_said.replace(true) {
            let peer = stream.and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok());
            let process = peer.map_or_else(
                || "the process".to_owned(),
                |peer| format!("the process {}", peer.pid.as_raw_nonzero()),
            );
            self.progress.say(format!(
                "{process} that has {} does not answer; still waiting",
                self.device
            ));
        }
        Ok(())
    }
}

/// Whether it has only taken long, or a signal came.
fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn connect(address: &SocketAddr) -> io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt;
    let name = address.as_abstract_name().unwrap_or_default();
    let address = rustix::net::SocketAddrUnix::new_abstract_name(name)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}
