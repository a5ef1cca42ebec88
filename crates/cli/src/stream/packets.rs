//! Datagrams as a recording of packets with their arrival times.

use crate::failure::{Failure, Result};
use crate::formats::pcapng::{Datagram, Packer};
use crate::volume::now_ns;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

/// The longest datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// A recording ends at a multiple of this, so that another one can go on there.
const END_BYTES: usize = 4096;

/// A bound socket, whose datagrams become packets.
#[derive(Debug)]
pub struct Packets {
    socket: UdpSocket,
    to: SocketAddr,
    data: Vec<u8>,
    /// A datagram in `data` for which the last block had no room: its length, its sender and when it arrived.
    carry: Option<(usize, SocketAddr, u64)>,
}

impl Packets {
    /// The datagrams of this socket.
    ///
    /// # Errors
    /// It is not bound.
    pub fn new(socket: UdpSocket) -> Result<Self> {
        let to = socket.local_addr();
        let to = to.map_err(|error| Failure::other(format!("looking at the socket: {error}")))?;
        Ok(Self {
            socket,
            to,
            data: vec![0; DATAGRAM_BYTES],
            carry: None,
        })
    }

    /// The socket.
    pub const fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether a datagram waits here.
    pub const fn has_one(&self) -> bool {
        self.carry.is_some()
    }

    /// Fills a block of the recording, or what there is when `stop` or, given the block's bytes with a packet, `is_due` is set.
    /// Returns the bytes, and whether they are the last.
    ///
    /// # Errors
    /// The socket failed.
    pub fn fill(
        &mut self,
        block: &mut [u8],
        stop: &dyn Fn() -> bool,
        is_due: &dyn Fn(usize) -> bool,
    ) -> Result<(usize, bool)> {
        let len = block.len();
        let Some(mut packer) = Packer::begin(block, self.to.ip()) else {
            // The rest of --size.
            return Ok((0, true));
        };
        loop {
            if packer.has_packets() && is_due(len) {
                return Ok((packer.end(END_BYTES), false));
            }
            let (bytes, from, arrival_ns) = match self.carry.take() {
                Some(carried) => carried,
                None => match self.socket.recv_from(&mut self.data) {
                    Ok((bytes, from)) => (bytes, from, now_ns()),
                    Err(error) if is_not_yet(error.kind()) => {
                        if stop() {
                            return Ok((packer.end(END_BYTES), true));
                        }
                        continue;
                    }
                    Err(error) => {
                        return Err(Failure::other(format!("reading the source: {error}")));
                    }
                },
            };
            let datagram = Datagram {
                from,
                to: self.to,
                arrival_ns,
                data: self.data.get(..bytes).unwrap_or_default(),
            };
            if !packer.add(&datagram) {
                self.carry = Some((bytes, from, arrival_ns));
                packer.fill();
                return Ok((len, false));
            }
        }
    }
}

fn is_not_yet(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
