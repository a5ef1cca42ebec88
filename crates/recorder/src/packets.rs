// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams as a recording of packets with their arrival times.

use crate::drops;
use crate::steps::{Clocks, Steps};
use devices::error::{Error, Result};
use files::now_ns;
use formats::pcapng::{Added, Datagram, Packer, PacketCounts};
use linux::datagram;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

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
    /// A datagram in `data` for which the last block had no room.
    carry: Option<Read>,
    steps: Steps,
    /// What the kernel had dropped when the last datagram arrived, modulo 2^32 as it counts; and in
    /// all.
    counter: u32,
    seen: u64,
    /// Of these, what the statistics of earlier sections count; and of those too that were lost.
    told: u64,
    dropped: u64,
    /// Datagrams of blocks that were lost, which no section counts yet, and no packet.
    unrecorded: u64,
    unrecorded_before: u64,
    /// By how much the clock was set in the block that is being filled, and in those that were
    /// lost.
    step_ns: i64,
    lost_step_ns: i64,
    /// When the last section ended.
    ended_ns: u64,
    /// The last section: its packets, and what it counts.
    last: (u64, PacketCounts),
    /// Datagrams of which a block had no room for the end.
    cut: u64,
}

/// A datagram that was read.
#[derive(Clone, Copy, Debug)]
struct Read {
    bytes: usize,
    from: SocketAddr,
    to: IpAddr,
    arrival_ns: u64,
    kernel_dropped: u64,
    clock_step_ns: i64,
}

impl Packets {
    /// The datagrams of this socket.
    ///
    /// # Errors
    /// It is not bound, or the kernel does not say when datagrams arrive.
    pub fn new(socket: UdpSocket) -> Result<Self> {
        let to = socket.local_addr();
        let to = to.map_err(|error| Error::other(format!("looking at the socket: {error}")))?;
        datagram::prepare(&socket)
            .map_err(|error| Error::other(format!("asking for the times of arrival: {error}")))?;
        Ok(Self {
            socket,
            to,
            data: vec![0; DATAGRAM_BYTES],
            carry: None,
            steps: Steps::new(Clocks::now()),
            counter: 0,
            seen: 0,
            told: 0,
            dropped: 0,
            unrecorded: 0,
            unrecorded_before: 0,
            step_ns: 0,
            lost_step_ns: 0,
            ended_ns: now_ns(),
            last: (0, PacketCounts::default()),
            cut: 0,
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

    /// Datagrams that the kernel dropped, to the end of the last block.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Datagrams of which a block had no room for the end.
    pub const fn cut(&self) -> u64 {
        self.cut
    }

    /// The last block was lost: the next section counts its datagrams, and what it counted.
    pub fn was_lost(&mut self) {
        let (packets, counts) = std::mem::take(&mut self.last);
        self.unrecorded += packets + counts.unrecorded;
        self.unrecorded_before += packets + counts.unrecorded + counts.kernel_dropped;
        self.told -= counts.kernel_dropped;
        self.lost_step_ns += self.step_ns;
        self.ended_ns = counts.began_ns;
    }

    /// Fills a block of the recording, or what there is when `stop` or, given the block's bytes
    /// with a packet, `is_due` is set. Returns the bytes, and whether they are the last.
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
        self.step_ns = 0;
        loop {
            if packer.packets() > 0 && is_due(len) {
                let counts = self.counts(&packer, self.seen);
                return Ok((packer.end(END_BYTES, &counts), false));
            }
            let read = match self.carry.take() {
                Some(carried) => carried,
                None => match self.read() {
                    Ok(read) => read,
                    Err(error) if is_not_yet(error.kind()) => {
                        if stop() {
                            // Also what was dropped behind the last one.
                            let dropped = drops::of(&self.socket).unwrap_or(0);
                            let counts = self.counts(&packer, dropped.max(self.seen));
                            return Ok((packer.end(END_BYTES, &counts), true));
                        }
                        continue;
                    }
                    Err(error) => {
                        return Err(Error::other(format!("reading the source: {error}")));
                    }
                },
            };
            let datagram = Datagram {
                from: read.from,
                to: SocketAddr::new(read.to, self.to.port()),
                arrival_ns: read.arrival_ns,
                lost_before: read.kernel_dropped + self.unrecorded_before,
                clock_step_ns: read.clock_step_ns.saturating_add(self.lost_step_ns),
                data: self.data.get(..read.bytes).unwrap_or_default(),
            };
            match packer.add(&datagram) {
                Added::No => {
                    // What was dropped before it belongs to the section that has it.
                    let counts = self.counts(&packer, self.seen - read.kernel_dropped);
                    self.carry = Some(read);
                    packer.fill(&counts);
                    return Ok((len, false));
                }
                Added::Cut => self.cut += 1,
                Added::Whole => {}
            }
            self.step_ns = self.step_ns.saturating_add(datagram.clock_step_ns);
            (self.unrecorded_before, self.lost_step_ns) = (0, 0);
        }
    }

    fn read(&mut self) -> std::io::Result<Read> {
        let arrival = datagram::receive(&self.socket, &mut self.data)?;
        let now = Clocks::now();
        let arrival_ns = arrival.arrival_ns.unwrap_or_else(now_ns);
        let kernel_dropped = u64::from(arrival.dropped.wrapping_sub(self.counter));
        self.counter = arrival.dropped;
        self.seen += kernel_dropped;
        Ok(Read {
            bytes: arrival.len_bytes,
            from: arrival.from,
            to: arrival.to.unwrap_or(self.to.ip()),
            arrival_ns,
            kernel_dropped,
            clock_step_ns: self.steps.step(arrival_ns, now),
        })
    }

    /// What the section counts that ends now; `dropped`: until its end.
    fn counts(&mut self, packer: &Packer<'_>, dropped: u64) -> PacketCounts {
        let counts = PacketCounts {
            began_ns: self.ended_ns,
            ended_ns: now_ns(),
            kernel_dropped: dropped - self.told,
            unrecorded: std::mem::take(&mut self.unrecorded),
        };
        (self.told, self.ended_ns) = (dropped, counts.ended_ns);
        self.dropped = self.dropped.max(dropped);
        self.last = (packer.packets(), counts);
        counts
    }
}

fn is_not_yet(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
