// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sink of a playback, and the thread that writes to it.

use crate::datagrams::Datagrams;
use crate::pattern;
use crate::place::Place;
use crate::replay::{Replay, Replayed};
use block::Buffer;
use devices::cancel::Cancel;
use devices::error::{Error, Result};
use devices::guard::{Outlet, Output, Writer};
use std::net::{TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;
use stream::{Gap, Played};

/// A program that takes the blocks itself.
#[derive(Debug)]
pub struct Hand {
    /// Gives it the blocks, and the way back for their buffers.
    pub ready: Sender<(Receiver<Played>, Sender<Buffer>)>,
    /// Has the blocks again when the program wants no more.
    pub returned: Receiver<Receiver<Played>>,
}

/// An open sink.
#[derive(Debug)]
pub enum Sink {
    /// Standard output, or a file.
    Outlet(Outlet),
    /// Datagrams.
    Udp(Datagrams),
    /// Recorded datagrams at their distances, since this moment.
    Replay(Box<Replay>, Instant),
    /// A connection.
    Tcp(Writer, String),
    /// Compared with the pattern, without what was lost in these gaps.
    Pattern(Vec<Gap>),
    /// A program.
    Program(Hand),
    /// Nowhere.
    Null,
}

impl Sink {
    /// Opens the sink: the checked output, if it is a file. A TCP sink connects. What waits for a
    /// reader ends when `cancel` is set.
    ///
    /// # Errors
    /// The sink cannot be opened.
    pub fn open(place: &Place, output: Option<Output>, cancel: &Cancel) -> Result<Self> {
        let failed = |address: &str, error: std::io::Error| {
            Error::missing(format!("connecting to {address}: {error}"))
                .hint("start a program that listens there")
        };
        match place {
            Place::Pattern => Ok(Self::Pattern(Vec::new())),
            Place::Null => Ok(Self::Null),
            // Checked before anything is opened, so it exists.
            Place::Standard | Place::File(_) => Ok(Self::Outlet(Outlet::open(output, cancel)?)),
            Place::Udp(address) => {
                let socket = connected(address).map_err(|error| failed(address, error))?;
                Ok(Self::Udp(Datagrams::new(socket, address.clone())))
            }
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address);
                let stream = stream.map_err(|error| failed(address, error))?;
                Ok(Self::Tcp(
                    Writer::shared(stream.into(), cancel),
                    address.clone(),
                ))
            }
        }
    }

    /// Sends recorded packets to `address`, at the distances at which they arrived.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn replay(address: &str, cancel: Cancel) -> Result<Self> {
        let socket = connected(address)
            .map_err(|error| Error::missing(format!("connecting to {address}: {error}")))?;
        let replay = Replay::new(socket, address.to_owned(), cancel);
        Ok(Self::Replay(Box::new(replay), Instant::now()))
    }

    /// What a replay sent.
    pub fn replayed(&self) -> Option<Replayed> {
        match self {
            Self::Replay(replay, _) => Some(replay.replayed()),
            _ => None,
        }
    }

    /// Datagrams that were refused, as far as is known.
    pub fn refused(&self) -> u64 {
        match self {
            Self::Udp(datagrams) => datagrams.refused(),
            Self::Replay(replay, _) => replay.refused(),
            _ => 0,
        }
    }

    /// Sends datagrams at this rate; without a rate, as fast as possible.
    #[must_use]
    pub fn at_rate(mut self, bytes_per_second: Option<u64>) -> Self {
        if let (Self::Udp(datagrams), Some(rate)) = (&mut self, bytes_per_second) {
            datagrams.pace(rate);
        }
        self
    }

    /// Compares with the pattern without what was lost in these gaps.
    #[must_use]
    pub fn over(mut self, gaps: Vec<Gap>) -> Self {
        if let Self::Pattern(own) = &mut self {
            *own = gaps;
        }
        self
    }

    fn take(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let sent = |address: &str, error: &std::io::Error| {
            Error::other(format!("sending to {address}: {error}"))
        };
        match self {
            Self::Outlet(outlet) => outlet.take(data),
            Self::Udp(datagrams) => datagrams
                .send(data)
                .map_err(|error| sent(datagrams.address(), &error)),
            Self::Replay(replay, began) => replay.take(data, *began),
            Self::Tcp(stream, address) => stream.take(data, |error| sent(address, error)),
            Self::Pattern(gaps) => match pattern::difference_over(data, offset, gaps) {
                None => Ok(()),
                Some(at) => Err(Error::other(format!(
                    "byte {at} does not match the pattern: it was recorded incorrectly or from another source"
                ))),
            },
            Self::Program(_) | Self::Null => Ok(()),
        }
    }

    /// Ends the sink. A file that is not `whole` is removed, and the file that it was to replace is
    /// kept.
    ///
    /// # Errors
    /// Not everything could be written, or the file could not be renamed.
    pub fn end(self, whole: bool) -> Result<()> {
        match self {
            Self::Outlet(outlet) if whole => outlet.finish(),
            _ => Ok(()),
        }
    }
}

fn connected(address: &str) -> std::io::Result<UdpSocket> {
    let any = if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    Ok(socket)
}

/// Writes the buffers from `full` and returns each one, also after a failure, which is reported at
/// the end; without a failure the sink is returned, to be ended.
pub fn consume(
    mut sink: Sink,
    mut full: Receiver<Played>,
    idle: &Sender<Buffer>,
    on_failure: &dyn Fn(),
) -> Result<Sink> {
    if let Sink::Program(hand) = &sink {
        let _ = hand.ready.send((full, idle.clone()));
        match hand.returned.recv() {
            Ok(returned) => full = returned,
            Err(_) => return Err(Error::other("the program that took the blocks ended")),
        }
        // What is under way comes back unseen.
        on_failure();
    }
    let mut result = Ok(());
    while let Ok(played) = full.recv() {
        if result.is_ok() {
            let data = played.buffer.get(..played.len_bytes).unwrap_or_default();
            result = sink.take(data, played.offset_bytes);
            if result.is_err() {
                on_failure();
            }
        }
        // The other side takes back all of them at the end.
        let _ = idle.send(played.buffer);
    }
    result.map(|()| sink)
}
