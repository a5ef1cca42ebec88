// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open sources of a recording.

use crate::losses::Tally;
use crate::packets::Packets;
use crate::place::Place;
use crate::senders::{self, Senders};
use crate::{WAIT, drops, pattern};
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::refuse_source;
use files::source::standard_input;
use linux::Roots;
use remedy::{Setting, words};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest datagram.
const DATAGRAM_BYTES: usize = 65_536;
/// Requested size of the kernel's receive buffer: 80 ms at 100 MB/s.
const RECEIVE_BYTES: usize = 8 << 20;
/// Requested size of a pipe: what a user may have without being root (`pipe-max-size`, pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// O_NONBLOCK. Each read is preceded by a poll, so the flag changes nothing else.
const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// The result of filling a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes.
    pub bytes: usize,
    /// The source has ended, or the user stopped it.
    pub is_last: bool,
}

/// An open source.
pub enum Source {
    /// Generated on demand; endless.
    Pattern {
        /// The offset of the next bytes.
        offset: u64,
    },
    /// A plain file, whose bytes are always ready.
    File(File, PathBuf),
    /// Bytes that arrive at any time, and wait until they are read.
    Stream(Box<dyn Stream>, String),
    /// Bytes of one sender after another.
    Senders(Senders, String),
    /// Datagrams, which are lost when the kernel's buffer is full.
    Udp {
        /// Bound.
        socket: UdpSocket,
        /// A datagram of which a part did not fit into the last buffer.
        carry: Vec<u8>,
        /// How much of it has been used.
        used: usize,
    },
    /// Datagrams as packets with their arrival times; lost like those of `Udp`.
    Packets(Box<Packets>),
}

/// A stream that can be waited for.
pub trait Stream: Read + AsFd + Send {}
impl<T: Read + AsFd + Send> Stream for T {}

impl Source {
    /// Opens the source. A TCP source waits for its first sender until `stop` is set, and if it is
    /// not for one alone, for others behind it.
    ///
    /// # Errors
    /// The source does not exist, or no sender connected.
    pub fn open(place: &Place, is_once: bool, stop: &dyn Fn() -> bool) -> Result<Self> {
        match place {
            Place::Pattern => Ok(Self::Pattern { offset: 0 }),
            Place::Null => Err(Error::usage("null is not a source")),
            Place::Standard => {
                // The descriptor itself: the library's buffer would copy.
                let input = standard_input();
                let input = input.map_err(|error| no("opening standard input", &error))?;
                enlarge_pipe(&input);
                Ok(Self::Stream(Box::new(input), "standard input".into()))
            }
            Place::File(path) => {
                let failed = |error: std::io::Error| Error::io("opening", path, &error);
                // A FIFO without a writer is waited for like any silent source, not in open(2).
                let mut options = File::options();
                let options = options.read(true).custom_flags(NO_WAIT);
                let file = options.open(path).map_err(failed)?;
                let kind = file.metadata().map_err(failed)?.file_type();
                if kind.is_dir() {
                    return Err(Error::usage(format!("{} is a directory", path.display())));
                }
                if kind.is_file() {
                    Ok(Self::File(file, path.clone()))
                } else {
                    // A pipe, a terminal, a character device.
                    enlarge_pipe(&file);
                    Ok(Self::Stream(Box::new(file), path.display().to_string()))
                }
            }
            Place::Udp(address) => {
                let socket = UdpSocket::bind(address);
                let socket = socket.map_err(|error| bound(address, &error))?;
                enlarge(&socket);
                let timed = socket.set_read_timeout(Some(WAIT));
                timed.map_err(|error| no("setting a time limit", &error))?;
                Ok(Self::Udp {
                    socket,
                    carry: Vec::new(),
                    used: 0,
                })
            }
            Place::Tcp(address) => {
                let (listener, stream) = accept(address, stop)?;
                Ok(if is_once {
                    Self::Stream(Box::new(stream), address.clone())
                } else {
                    Self::Senders(Senders::new(listener, stream), address.clone())
                })
            }
        }
    }

    /// Refuses a source that is the drive itself.
    ///
    /// # Errors
    /// The source is the drive, or does not exist.
    pub fn refuse_own(place: &Place, roots: &Roots, drive: &Drive) -> Result<()> {
        let (data, name) = match place {
            Place::File(path) => (std::fs::metadata(path), path.clone()),
            Place::Standard => {
                let data = standard_input().and_then(|file| file.metadata());
                (data, PathBuf::from("standard input"))
            }
            _ => return Ok(()),
        };
        refuse_source(roots, drive, data, &name)
    }

    /// Whether its bytes are always ready.
    pub const fn is_always_ready(&self) -> bool {
        matches!(self, Self::Pattern { .. } | Self::File(..))
    }

    /// Whether bytes are lost if they are not read soon.
    pub const fn cannot_wait(&self) -> bool {
        matches!(self, Self::Udp { .. } | Self::Packets(_))
    }

    /// The datagrams of a bound socket as packets. Another source stays as it is.
    ///
    /// # Errors
    /// The socket failed.
    pub fn into_packets(self) -> Result<Self> {
        match self {
            Self::Udp { socket, .. } => Ok(Self::Packets(Box::new(Packets::new(socket)?))),
            other => Ok(other),
        }
    }

    /// Goes on at this offset, if the source is generated.
    pub const fn skip_to(&mut self, offset_bytes: u64) {
        if let Self::Pattern { offset } = self {
            *offset = offset_bytes;
        }
    }

    /// The remaining bytes of a plain file.
    pub fn len_bytes(&self) -> Option<u64> {
        match self {
            Self::File(file, _) => file.metadata().ok().map(|data| data.len()),
            _ => None,
        }
    }

    /// Datagrams that the kernel dropped.
    pub fn dropped(&self) -> u64 {
        match self {
            Self::Udp { socket, .. } => drops::of(socket).unwrap_or(0),
            Self::Packets(packets) => packets.dropped(),
            _ => 0,
        }
    }

    /// What was lost so far: datagrams that the kernel dropped, and those that were cut.
    pub fn losses(&self) -> [u64; 2] {
        [self.dropped(), self.cut()]
    }

    /// Has senders that leave counted there.
    #[must_use]
    pub fn with_tally(mut self, tally: &Arc<Tally>) -> Self {
        if let Self::Senders(senders, _) = &mut self {
            senders.count_in(Arc::clone(tally));
        }
        self
    }

    /// Datagrams that were longer than a block.
    pub fn cut(&self) -> u64 {
        match self {
            Self::Packets(packets) => packets.cut(),
            _ => 0,
        }
    }

    /// The block that was filled last was lost.
    pub fn was_lost(&mut self) {
        if let Self::Packets(packets) = self {
            packets.was_lost();
        }
    }

    /// Whether a block begins at a border of what comes, so that no other can have its rest.
    pub const fn has_borders(&self) -> bool {
        matches!(self, Self::Packets(_))
    }

    /// Fills `data`, completely or up to the end, `stop`, or `is_due` with the bytes so far.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn fill(
        &mut self,
        data: &mut [u8],
        stop: &dyn Fn() -> bool,
        is_due: &dyn Fn(usize) -> bool,
    ) -> Result<Filled> {
        if let Self::Packets(packets) = self {
            let (bytes, is_last) = packets.fill(data, stop, is_due)?;
            return Ok(Filled { bytes, is_last });
        }
        let mut bytes = 0;
        while let Some(rest) = data.get_mut(bytes..).filter(|rest| !rest.is_empty()) {
            if is_due(bytes) {
                let is_last = false;
                return Ok(Filled { bytes, is_last });
            }
            match self.read_some(rest) {
                Ok(0) => {
                    return Ok(Filled {
                        bytes,
                        is_last: true,
                    });
                }
                Ok(more) => bytes += more,
                Err(error) if is_not_yet(error.kind()) => {
                    if stop() {
                        return Ok(Filled {
                            bytes,
                            is_last: true,
                        });
                    }
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(Filled {
            bytes,
            is_last: false,
        })
    }

    /// The most bytes that have been handed over and not read: what a recording still takes after a
    /// stop.
    pub fn waiting_bytes(&self) -> u64 {
        let socket = |socket: &UdpSocket| sockopt::socket_recv_buffer_size(socket).unwrap_or(0);
        match self {
            Self::Pattern { .. } | Self::File(..) => 0,
            Self::Stream(stream, _) => ioctl_fionread(stream).unwrap_or(0),
            Self::Senders(senders, _) => senders.waiting_bytes(),
            Self::Udp {
                socket: of,
                carry,
                used,
            } => (socket(of) + carry.len().saturating_sub(*used)) as u64,
            Self::Packets(packets) => socket(packets.socket()) as u64,
        }
    }

    /// Waits for bytes or the end; returns false if `stop` was set first.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn wait_ready(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        loop {
            let ready = match self {
                Self::Pattern { .. } | Self::File(..) => Ok(true),
                Self::Stream(stream, _) => is_readable(stream.as_ref()),
                Self::Senders(senders, _) => senders.is_ready(&short()),
                Self::Udp { carry, used, .. } if *used < carry.len() => Ok(true),
                Self::Udp { socket, .. } => is_readable(socket),
                Self::Packets(packets) if packets.has_one() => Ok(true),
                Self::Packets(packets) => is_readable(packets.socket()),
            };
            match ready {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if is_not_yet(error.kind()) => {}
                Err(error) => return Err(self.failed(&error)),
            }
            if stop() {
                return Ok(false);
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        match self {
            Self::File(_, path) => Error::io("reading", path, error),
            Self::Stream(_, name) | Self::Senders(_, name) => {
                let failure = no(&format!("reading {name}"), error);
                match error.kind() {
                    // It does not begin as its format does.
                    std::io::ErrorKind::InvalidData => failure.hint(words![
                        "record under another NAME, without ",
                        Setting::Format
                    ]),
                    _ => failure,
                }
            }
            _ => no("reading the source", error),
        }
    }

    /// Reads some bytes; none at the end. Waits a short time at most.
    fn read_some(&mut self, data: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Pattern { offset } => {
                pattern::fill(data, *offset);
                *offset += data.len() as u64;
                Ok(data.len())
            }
            Self::File(file, _) => file.read(data),
            // Whole blocks only.
            Self::Packets(_) => Err(ErrorKind::Unsupported.into()),
            Self::Stream(stream, _) => {
                if is_readable(stream.as_ref())? {
                    stream.read(data)
                } else {
                    Err(ErrorKind::WouldBlock.into())
                }
            }
            Self::Senders(senders, _) => senders.read(data, &short()),
            Self::Udp {
                socket,
                carry,
                used,
            } => {
                if *used >= carry.len() {
                    carry.resize(DATAGRAM_BYTES, 0);
                    *used = carry.len();
                    let bytes = socket.recv(carry)?;
                    carry.truncate(bytes);
                    *used = 0;
                    if bytes == 0 {
                        // A datagram without data is not the end.
                        return Err(ErrorKind::WouldBlock.into());
                    }
                }
                let rest = carry.get(*used..).unwrap_or_default();
                let now = rest.len().min(data.len());
                if let (Some(to), Some(from)) = (data.get_mut(..now), rest.get(..now)) {
                    to.copy_from_slice(from);
                }
                *used += now;
                Ok(now)
            }
        }
    }
}

/// Enlarges the kernel's buffer for datagrams that arrive while this process is not running. Its
/// size is limited without root; `dropped` counts what was lost then.
fn enlarge(socket: &UdpSocket) {
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BYTES);
    if forced.is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BYTES);
    }
}

/// Enlarges a pipe, so that its writer waits less and a read takes more. The kernel may refuse: it
/// limits a pipe, and all pipes of a user.
fn enlarge_pipe(file: &File) {
    if fcntl_getpipe_size(file).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        let _ = fcntl_setpipe_size(file, PIPE_BYTES);
    }
}

fn is_not_yet(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Whether a read would not wait, now or within a short time.
fn is_readable(stream: &(impl AsFd + ?Sized)) -> std::io::Result<bool> {
    let mut wanted = [PollFd::new(&stream, PollFlags::IN)];
    Ok(poll(&mut wanted, Some(&short()))? > 0)
}

/// The longest wait.
fn short() -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: WAIT.subsec_nanos().into(),
    }
}

fn accept(address: &str, stop: &dyn Fn() -> bool) -> Result<(TcpListener, TcpStream)> {
    let listener = senders::listen(address)?;
    let stream = accept_at(&listener, address, stop)?;
    Ok((listener, stream))
}

fn accept_at(listener: &TcpListener, address: &str, stop: &dyn Fn() -> bool) -> Result<TcpStream> {
    loop {
        wait_for(listener, stop).map_err(|failure| {
            failure.unwrap_or_else(|| {
                Error::interrupted(format!(
                    "interrupted before a sender connected to {address}"
                ))
            })
        })?;
        match listener.accept() {
            Ok((stream, _)) => {
                senders::ask_when_silent(&stream);
                return Ok(stream);
            }
            // It left before it was served.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(no("accepting", &error)),
        }
    }
}

/// Waits until a descriptor can be read. The error is none if `stop` was set first.
fn wait_for(what: &impl AsFd, stop: &dyn Fn() -> bool) -> std::result::Result<(), Option<Error>> {
    loop {
        if stop() {
            return Err(None);
        }
        match is_readable(what) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if is_not_yet(error.kind()) => {}
            Err(error) => return Err(Some(no("waiting for a sender", &error))),
        }
    }
}

/// The next sender that sends something: who only connects, as to see whether somebody listens, is
/// not one.
///
/// # Errors
/// `stop` was set before, or waiting failed.
pub fn next_sender(
    listener: &TcpListener,
    address: &str,
    stop: &dyn Fn() -> bool,
) -> Result<TcpStream> {
    let stopped = |failure: Option<Error>| {
        failure.unwrap_or_else(|| {
            Error::interrupted(format!(
                "interrupted before a sender at {address} sent anything"
            ))
        })
    };
    loop {
        let stream = accept_at(listener, address, stop)?;
        wait_for(&stream, stop).map_err(stopped)?;
        match stream.peek(&mut [0]) {
            Ok(0) | Err(_) => {}
            Ok(_) => return Ok(stream),
        }
    }
}

fn bound(address: &str, error: &std::io::Error) -> Error {
    Error::missing(format!("listening at udp://{address}: {error}"))
        .hint("use an address of this machine and a free port")
}

fn no(doing: &str, error: &std::io::Error) -> Error {
    Error::other(format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    // partner: Linux | host kernel
    #[test]
    fn a_pipe_is_enlarged() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let usual = fcntl_getpipe_size(&write).unwrap();
        let path = format!("/proc/self/fd/{}", read.as_raw_fd());
        Source::open(&Place::File(path.into()), true, &|| false).unwrap();
        let ours = fcntl_getpipe_size(&write).unwrap();
        if ours == usual && fcntl_setpipe_size(&write, PIPE_BYTES).is_err() {
            println!("SKIPPED: the kernel's limits allow no more than {usual} bytes");
            return;
        }
        assert_eq!(ours, PIPE_BYTES);
    }

    #[test]
    fn a_datagram_source_has_a_large_receive_buffer() {
        let place = Place::Udp("127.0.0.1:0".into());
        let Source::Udp { socket, .. } = Source::open(&place, true, &|| false).unwrap() else {
            panic!("not datagrams");
        };
        let ours = sockopt::socket_recv_buffer_size(&socket).unwrap();
        let plain = UdpSocket::bind("127.0.0.1:0").unwrap();
        let usual = sockopt::socket_recv_buffer_size(&plain).unwrap();
        if sockopt::set_socket_recv_buffer_size_force(&plain, usual).is_err() {
            println!("SKIPPED: not root, so the kernel's limit holds: {ours} of {RECEIVE_BYTES}");
            assert!(ours >= usual, "{ours} {usual}");
            return;
        }
        assert!(ours >= RECEIVE_BYTES, "{ours}");
    }
}
