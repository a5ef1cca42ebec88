//! Where a playback goes, and the thread that writes it.

use crate::failure::{Failure, Result};
use crate::guard::{Outlet, Output};
use crate::stream::datagrams::Datagrams;
use crate::stream::pattern;
use crate::stream::place::Place;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender};
use stream::Played;

/// An open sink.
#[derive(Debug)]
pub enum Sink {
    /// Standard output, or a file.
    Outlet(Outlet),
    /// Datagrams.
    Udp(Datagrams),
    /// A connection.
    Tcp(TcpStream, String),
    /// Compared with the pattern.
    Pattern,
    /// Nowhere.
    Null,
}

impl Sink {
    /// Opens it: the checked output, if the place is a file. A TCP sink connects.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn open(place: &Place, output: Option<Output>) -> Result<Self> {
        let failed = |address: &str, error: std::io::Error| {
            Failure::missing(format!("connecting to {address}: {error}"))
                .hint("a program that listens there")
        };
        match place {
            Place::Pattern => Ok(Self::Pattern),
            Place::Null => Ok(Self::Null),
            // Checked before anything is opened, so it is there.
            Place::Standard | Place::File(_) => Ok(Self::Outlet(Outlet::open(output)?)),
            Place::Udp(address) => {
                let any = match address.starts_with('[') {
                    true => "[::]:0",
                    false => "0.0.0.0:0",
                };
                let socket = UdpSocket::bind(any).and_then(|socket| {
                    socket.connect(address)?;
                    Ok(socket)
                });
                let socket = socket.map_err(|error| failed(address, error))?;
                Ok(Self::Udp(Datagrams::new(socket, address.clone())))
            }
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address);
                let stream = stream.map_err(|error| failed(address, error))?;
                Ok(Self::Tcp(stream, address.clone()))
            }
        }
    }

    /// Spreads what is sent as datagrams at this rate; without one it goes as fast as it can.
    #[must_use]
    pub fn at_rate(mut self, bytes_per_second: Option<u64>) -> Self {
        if let (Self::Udp(datagrams), Some(rate)) = (&mut self, bytes_per_second) {
            datagrams.pace(rate);
        }
        self
    }

    fn take(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let sent = |address: &str, error: std::io::Error| {
            Failure::other(format!("sending to {address}: {error}"))
        };
        match self {
            Self::Outlet(outlet) => outlet.take(data),
            Self::Udp(datagrams) => datagrams
                .send(data)
                .map_err(|error| sent(datagrams.address(), error)),
            Self::Tcp(stream, address) => {
                stream.write_all(data).map_err(|error| sent(address, error))
            }
            Self::Pattern => match pattern::difference(data, offset) {
                None => Ok(()),
                Some(at) => Err(Failure::other(format!(
                    "byte {at} is not the pattern's: it was recorded wrongly or from something else"
                ))),
            },
            Self::Null => Ok(()),
        }
    }

    /// Ends it. A file that is not `whole` is removed, and what it was to replace stays.
    ///
    /// # Errors
    /// Not all of it could be written, or the file could not get its name.
    pub fn end(self, whole: bool) -> Result<()> {
        match self {
            Self::Outlet(outlet) if whole => outlet.finish(),
            _ => Ok(()),
        }
    }
}

/// Writes what comes by `full` and gives each buffer back, also after a failure, which is told at
/// the end; without one the sink is given back, to be ended.
pub fn consume(
    mut sink: Sink,
    full: &Receiver<Played>,
    idle: &Sender<block::Buffer>,
    on_failure: &dyn Fn(),
) -> Result<Sink> {
    let mut result = Ok(());
    while let Ok(played) = full.recv() {
        if result.is_ok() {
            let data = played.buffer.get(..played.len_bytes).unwrap_or_default();
            result = sink.take(data, played.offset_bytes);
            if result.is_err() {
                on_failure();
            }
        }
        // The other side takes all of them back at the end.
        let _ = idle.send(played.buffer);
    }
    result.map(|()| sink)
}
