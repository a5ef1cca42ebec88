// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address of a server: TCP, or a Unix socket.

use devices::error::{Error, ErrorKind, Result};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`, or a path with a `/`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: needs a path".to_owned())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(text.to_owned()))
            }
            _ => Err("HOST:PORT such as localhost:10809, or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(text) => f.write_str(text),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection.
pub trait Socket: Read + Write + AsFd {
    /// Whether bytes may be held that poll(2) does not know of.
    fn may_hold_input(&self) -> bool {
        false
    }

    /// Whether bytes that it has taken wait until they can be sent.
    fn wants_output(&self) -> bool {
        false
    }
}

/// Where connections come from.
pub trait Accept: AsFd {
    /// The next connection, if one waits.
    fn accept(&mut self) -> Option<Box<dyn Socket>>;

    /// Whether it may be polled.
    fn may_accept(&self) -> bool;
}

impl Accept for Listener {
    fn accept(&mut self) -> Option<Box<dyn Socket>> {
        Self::accept(self)
    }

    fn may_accept(&self) -> bool {
        Self::may_accept(self)
    }
}

impl Socket for TcpStream {}
impl Socket for UnixStream {}

/// How long no connection is taken after the system had no descriptor or no memory for one: the
/// listener stays ready, and a server that polled it would not sleep.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts connections without waiting. A Unix socket's name is removed when this is
/// dropped.
#[derive(Debug)]
pub struct Listener {
    way: Way,
    /// Until then no connection is taken.
    paused_until: Option<Instant>,
}

#[derive(Debug)]
enum Way {
    Tcp(TcpListener),
    /// And its name.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens at the address. A socket's name that a killed server left behind is replaced.
    ///
    /// # Errors
    /// The address is in use, invalid or not permitted.
    pub fn bind(address: &Address) -> Result<Self> {
        let failed = |error: io::Error| {
            let what = format!("listening at {address}: {error}");
            match error.kind() {
                io::ErrorKind::AddrInUse => Error::new(ErrorKind::Exists, what)
                    .hint("another address; a file of that name is not replaced"),
                io::ErrorKind::PermissionDenied => {
                    Error::missing(what).hint("a port of 1024 or more, or another folder")
                }
                io::ErrorKind::AddrNotAvailable => Error::missing(what).hint(
                    "an address of this machine (ip address lists them), or 0.0.0.0 for all of them",
                ),
                _ if matches!(address, Address::Tcp(..)) => {
                    Error::missing(what).hint("a name or an address of this machine, as localhost:10809")
                }
                _ => Error::other(what),
            }
        };
        let way = match address {
            Address::Tcp(text) => {
                let all: Vec<_> = text.to_socket_addrs().map_err(failed)?.collect();
                Way::Tcp(TcpListener::bind(&all[..]).map_err(failed)?)
            }
            Address::Unix(path) => {
                let listener = match UnixListener::bind(path) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                        std::fs::remove_file(path).map_err(failed)?;
                        UnixListener::bind(path)
                    }
                    result => result,
                };
                Way::Unix(listener.map_err(failed)?, path.clone())
            }
        };
        // From here on the name is removed if something fails.
        let listener = Self {
            way,
            paused_until: None,
        };
        match &listener.way {
            Way::Tcp(socket) => socket.set_nonblocking(true),
            Way::Unix(socket, _) => socket.set_nonblocking(true),
        }
        .map_err(failed)?;
        Ok(listener)
    }

    /// The URI with which clients find the export: as libnbd and QEMU take it.
    pub fn uri(&self, export: &str, tls: bool) -> String {
        let scheme = if tls { "nbds" } else { "nbd" };
        match &self.way {
            Way::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("{scheme}://{address}/{}", escaped(export)),
                Err(_) => format!("{scheme}:///{}", escaped(export)),
            },
            Way::Unix(_, path) => {
                // Clients may run in another folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let path = path.to_string_lossy();
                format!(
                    "{scheme}+unix:///{}?socket={}",
                    escaped(export),
                    escaped(&path)
                )
            }
        }
    }

    /// Whether others than this machine may reach it.
    pub fn is_public(&self) -> bool {
        match &self.way {
            Way::Tcp(listener) => !listener
                .local_addr()
                .is_ok_and(|address| address.ip().is_loopback()),
            Way::Unix(..) => false,
        }
    }

    /// The next connection, if one waits. One that has already ended, or for which the system lacks
    /// something, is not an error of the server.
    pub fn accept(&mut self) -> Option<Box<dyn Socket>> {
        self.next(|way| {
            let stream: Box<dyn Socket> = match way {
                Way::Tcp(listener) => {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    // Replies are small and a client waits for each.
                    stream.set_nodelay(true)?;
                    Box::new(stream)
                }
                Way::Unix(listener, _) => Box::new(accepted(listener)?),
            };
            Ok(stream)
        })
    }

    /// The next connection of a Unix socket, which passes files, too.
    pub fn accept_unix(&mut self) -> Option<UnixStream> {
        self.next(|way| match way {
            Way::Tcp(_) => Err(io::ErrorKind::WouldBlock.into()),
            Way::Unix(listener, _) => accepted(listener),
        })
    }

    /// Whether it may be polled: false for a while after the system lacked something for a
    /// connection.
    pub fn may_accept(&self) -> bool {
        self.paused_until
            .is_none_or(|until| Instant::now() >= until)
    }

    fn next<T>(&mut self, accept: impl Fn(&Way) -> io::Result<T>) -> Option<T> {
        if !self.may_accept() {
            return None;
        }
        let lacks_something = |error: &io::Error| {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            matches!(
                code,
                Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
            )
        };
        match accept(&self.way) {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.paused_until = lacks_something(&error).then(|| Instant::now() + PAUSE);
                None
            }
        }
    }
}

fn accepted(listener: &UnixListener) -> io::Result<UnixStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Tcp(listener) => listener.as_fd(),
            Way::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Way::Unix(_, path) = &self.way {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a path is a socket that nothing listens at.
fn is_stale(path: &Path) -> bool {
    let is_socket = path
        .symlink_metadata()
        .is_ok_and(|data| data.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Percent-encodes what a URI's path or query may not contain.
fn escaped(text: &str) -> String {
    let mut all = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                all.push(byte as char);
            }
            _ => all += &format!("%{byte:02X}"),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let parse = |text: &str| text.parse::<Address>();
        assert_eq!(parse("unix:s"), Ok(Address::Unix("s".into())));
        assert_eq!(parse("/run/s"), Ok(Address::Unix("/run/s".into())));
        for tcp in ["localhost:10809", "[::1]:0", "0.0.0.0:1"] {
            assert_eq!(parse(tcp), Ok(Address::Tcp(tcp.to_owned())));
        }
        for wrong in [
            "",
            "unix:",
            "localhost",
            ":10809",
            "localhost:70000",
            "10809",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(escaped("a b/ü"), "a%20b/%C3%BC");
    }

    #[test]
    fn a_file_is_not_replaced_by_a_socket_and_a_stale_socket_is() {
        let path = std::env::temp_dir().join(format!("straightway-nbd-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        std::fs::write(&path, "data").unwrap();
        let failure = Listener::bind(&address).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Exists);
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        std::fs::remove_file(&path).unwrap();
        // A server that was killed leaves its name.
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&address).unwrap();
        assert!(Listener::bind(&address).is_err(), "it is in use");
        drop(listener);
        assert!(!path.exists());
    }
}
