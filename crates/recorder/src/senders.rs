// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The senders of a `tcp://` source, one after another.

use crate::losses::Tally;
use devices::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// A sender that lost its power says nothing: after this time the kernel asks it, this often, until
/// it is taken for gone.
const SILENT: Duration = Duration::from_secs(10);
const ASKS: u32 = 3;

/// Listens, and reads from one sender at a time.
#[derive(Debug)]
pub struct Senders {
    listener: TcpListener,
    stream: Option<TcpStream>,
    tally: Arc<Tally>,
}

impl Senders {
    /// Goes on with the one that has connected.
    pub fn new(listener: TcpListener, stream: TcpStream) -> Self {
        Self {
            listener,
            stream: Some(stream),
            tally: Arc::default(),
        }
    }

    /// Has those that leave counted there.
    pub fn count_in(&mut self, tally: Arc<Tally>) {
        self.tally = tally;
    }

    /// What the sender has handed over and was not read yet.
    pub fn waiting_bytes(&self) -> u64 {
        let stream = self.stream.as_ref();
        stream.map_or(0, |stream| ioctl_fionread(stream).unwrap_or(0))
    }

    /// Whether bytes, the end of a sender, or another sender are there, now or within a time.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn is_ready(&self, wait: &Timespec) -> std::io::Result<bool> {
        let mut wanted = match &self.stream {
            Some(stream) => [PollFd::new(stream, PollFlags::IN)],
            None => [PollFd::new(&self.listener, PollFlags::IN)],
        };
        Ok(poll(&mut wanted, Some(wait))? > 0)
    }

    /// Reads some bytes; `WouldBlock` if there are none, also where a sender left or another one
    /// came.
    ///
    /// # Errors
    /// The listening socket failed.
    pub fn read(&mut self, data: &mut [u8], wait: &Timespec) -> std::io::Result<usize> {
        let not_yet = || Err(ErrorKind::WouldBlock.into());
        if !self.is_ready(wait)? {
            return not_yet();
        }
        let Some(stream) = &mut self.stream else {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    ask_when_silent(&stream);
                    self.stream = Some(stream);
                }
                // It left before it was served.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
            return not_yet();
        };
        match stream.read(data) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            // It closed, or was reset: it starts again, as a camera does.
            Ok(0) | Err(_) => {
                self.stream = None;
                self.tally.sender_left();
                not_yet()
            }
            read => read,
        }
    }
}

/// One sender: that it was reset, or has lost its power, is its end.
#[derive(Debug)]
pub struct Sender(pub TcpStream);

impl Read for Sender {
    fn read(&mut self, data: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(data) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(error),
            Err(_) => Ok(0),
            read => read,
        }
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has the kernel find out that a silent sender is gone. Without it nothing is lost, but a next
/// sender waits for long.
pub fn ask_when_silent(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, SILENT);
    let _ = sockopt::set_tcp_keepintvl(stream, SILENT / 2);
    let _ = sockopt::set_tcp_keepcnt(stream, ASKS);
}

/// Listens at an address.
///
/// # Errors
/// It is not one of this machine, or in use.
pub fn listen(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Error::missing(format!("listening at tcp://{address}: {error}"))
            .hint("use an address of this machine and a free port")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    // partner: Linux | host kernel
    #[test]
    fn a_sender_that_is_reset_makes_room_for_the_next() {
        let listener = listen("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let first = TcpStream::connect(to).unwrap();
        let mut senders = Senders::new(listener.try_clone().unwrap(), listener.accept().unwrap().0);
        let tally = Arc::<Tally>::default();
        senders.count_in(Arc::clone(&tally));
        // Closed without a word: the kernel sends a reset.
        sockopt::set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
        drop(first);
        let mut second = TcpStream::connect(to).unwrap();
        second.write_all(b"on").unwrap();
        let wait = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut data = [0; 8];
        let mut read = || senders.read(&mut data, &wait).map_err(|error| error.kind());
        assert_eq!(read(), Err(ErrorKind::WouldBlock));
        assert_eq!(read(), Err(ErrorKind::WouldBlock));
        assert_eq!(read(), Ok(2));
        assert_eq!(&data[..2], b"on");
        // As one alone it has its end there.
        let sender = TcpStream::connect(to).unwrap();
        let mut one = Sender(listener.accept().unwrap().0);
        (&sender).write_all(b"on").unwrap();
        assert_eq!(one.read(&mut [0; 2]).unwrap(), 2);
        sockopt::set_socket_linger(&sender, Some(Duration::ZERO)).unwrap();
        drop(sender);
        assert_eq!(one.read(&mut [0; 2]).unwrap(), 0);
        let mut losses = crate::losses::Losses::default();
        let line = losses.line(Duration::ZERO, &stream::RecordReport::default(), &tally);
        assert!(line.unwrap().contains("1 sender left"));
    }
}
