// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVMe/TCP over sockets.

mod keeper;

use crate::clock::TscClock;
use crate::{Error, Result};
use ::fabric::{
    ByteStream, Connect, FabricError, KeepAlive, Name, Remote, RemoteEvent, RemoteOptions,
    StreamError, discovery,
};
use block::Buffer;
pub use keeper::KeeperThread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Requests in flight on each connection.
pub const DEPTH: usize = 64;
/// The most connections for requests.
pub const QUEUES: usize = 8;

/// A namespace of a remote target.
pub type RemoteDevice = Remote<Tcp, TscClock, DEPTH, QUEUES>;

/// Who is told of an association's events.
pub type EventHandler = Arc<dyn Fn(RemoteEvent) + Send + Sync>;

/// A target's address; connects to it.
#[derive(Clone)]
pub struct Tcp {
    addresses: Vec<SocketAddr>,
    on_event: Option<EventHandler>,
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tcp")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// A subsystem that a discovery service reported.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// Its qualified name.
    pub nqn: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: String,
}

fn stream_error(error: &std::io::Error) -> StreamError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            StreamError::Closed
        }
        ErrorKind::TimedOut => StreamError::Os {
            errno: rustix::io::Errno::TIMEDOUT.raw_os_error(),
        },
        _ => StreamError::Os {
            errno: error.raw_os_error().unwrap_or(5),
        },
    }
}

fn or_nothing(result: std::io::Result<usize>) -> std::result::Result<usize, StreamError> {
    match result {
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(error) => Err(stream_error(&error)),
    }
}

/// A socket that does not block.
#[derive(Debug)]
pub struct Socket(TcpStream);

impl ByteStream for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> std::result::Result<usize, StreamError> {
        match self.0.read(bytes) {
            Ok(0) => Err(StreamError::Closed),
            result => or_nothing(result),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::result::Result<usize, StreamError> {
        or_nothing(self.0.write(bytes))
    }

    fn wait(&mut self, timeout_us: u32, for_room: bool) {
        let mut events = PollFlags::IN;
        if for_room {
            events |= PollFlags::OUT;
        }
        let timeout = Timespec {
            tv_sec: i64::from(timeout_us / 1_000_000),
            tv_nsec: i64::from(timeout_us % 1_000_000) * 1000,
        };
        // An error or a signal ends the sleep; the next read reports what is wrong.
        let _ = poll(&mut [PollFd::new(&self.0, events)], Some(&timeout));
    }
}

impl Tcp {
    /// A target at `host`, a name or an address, and `port`.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub fn new(host: &str, port: u16) -> Result<Self> {
        let missing = |why: String| Error::NoSuchDevice {
            name: format!("tcp://{host}:{port}"),
            why,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, port).to_socket_addrs();
        let addresses: Vec<_> = found.map_err(|error| missing(error.to_string()))?.collect();
        if addresses.is_empty() {
            Err(missing("the host has no address".to_owned()))
        } else {
            Ok(Self {
                addresses,
                on_event: None,
            })
        }
    }

    /// Calls `handler` with each event of the associations that are made with it.
    #[must_use]
    pub fn on_event(mut self, handler: EventHandler) -> Self {
        self.on_event = Some(handler);
        self
    }
}

impl Connect for Tcp {
    type Stream = Socket;

    fn connect(&mut self, timeout_us: u64) -> std::result::Result<Socket, StreamError> {
        let mut failure = StreamError::Closed;
        let timeout = Duration::from_micros((timeout_us / self.addresses.len() as u64).max(1));
        for address in &self.addresses {
            let connected = TcpStream::connect_timeout(address, timeout).and_then(|stream| {
                stream.set_nodelay(true)?;
                // A connection that is given up, and that of a process that is killed, must not
                // deliver afterwards what is not sent.
                set_socket_linger(&stream, Some(Duration::ZERO))?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => return Ok(Socket(stream)),
                Err(error) => failure = stream_error(&error),
            }
        }
        Err(failure)
    }

    fn pause(&mut self, us: u64) {
        std::thread::sleep(Duration::from_micros(us));
    }

    type Keeper = KeeperThread;

    fn keep(&mut self, admin: KeepAlive<Socket>) -> KeeperThread {
        KeeperThread::start(admin)
    }

    fn event(&mut self, event: RemoteEvent) {
        if let Some(handler) = &self.on_event {
            handler(event);
        }
    }
}

/// The host's name and identity: `/etc/nvme/hostnqn` and `hostid` where they exist, otherwise
/// derived from `/etc/machine-id`.
///
/// # Errors
/// [`FabricError::Name`]: the name in the file is too long.
pub fn host() -> std::result::Result<(Name, [u8; 16]), FabricError> {
    let text = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let uuid = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let value = u128::from_str_radix(digits.get(..32)?, 16).ok()?;
        Some(value.to_be_bytes())
    };
    let machine = text("/etc/machine-id").and_then(|text| uuid(&text));
    let own = machine.unwrap_or(*b"straightway-host");
    let id = text("/etc/nvme/hostid")
        .and_then(|text| uuid(&text))
        .unwrap_or(own);
    let nqn = text("/etc/nvme/hostnqn").unwrap_or_else(|| {
        let [a, b, c, d] = [0, 4, 6, 8].map(|at| {
            let end = if at == 0 { 4 } else { at + 2 };
            let bytes = own.get(at..end).unwrap_or_default();
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        });
        let rest = own.get(10..).unwrap_or_default();
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("nqn.2014-08.org.nvmexpress:uuid:{a}-{b}-{c}-{d}-{rest}")
    });
    Ok((Name::new(&nqn)?, id))
}

/// Connects to a namespace. `page` has 4096 bytes.
///
/// # Errors
/// What failed.
pub fn connect(
    target: Tcp,
    options: RemoteOptions,
    page: Buffer,
) -> std::result::Result<RemoteDevice, FabricError> {
    Remote::connect(target, TscClock::default(), options, page)
}

/// The NVMe/TCP subsystems that the discovery service of a target reports.
///
/// # Errors
/// What failed.
pub fn discover(
    target: &mut Tcp,
    options: &RemoteOptions,
    page: Buffer,
) -> std::result::Result<Vec<Subsystem>, FabricError> {
    let mut found = Vec::new();
    discovery::discover(target, &TscClock::default(), options, page, |entry| {
        if entry.is_tcp && !entry.is_discovery {
            found.push(Subsystem {
                nqn: entry.nqn.to_owned(),
                address: entry.address.to_owned(),
                port: entry.port.to_owned(),
            });
        }
    })?;
    Ok(found)
}
