// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pcapng: datagrams with their arrival times, as Wireshark and tcpdump read them.
//!
//! A recording's blocks are lost, committed and cut into segments as a whole, so each of them is a
//! whole file by itself: a section header, an interface, packets, statistics of the interface, and
//! a block of a local type that fills the rest. (pcapng has sections for this, and readers skip
//! block types that they do not know.) A packet begins with headers of IP and UDP that say who sent
//! it; times are nanoseconds since 1970. Everything is little-endian.
//!
//! What was lost stands in the file twice: with the packet before which it was (`epb_dropcount`),
//! and in the statistics, which count from the section's beginning to its end, so that those of all
//! sections can be added. Where the wall clock was set, the packet has by how much in an option of
//! a local type, so that the distances of packets are known.

use std::net::{IpAddr, SocketAddr};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Of the types for local use.
const FILLER: u32 = 0x8000_7377;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// LINKTYPE_IPV4 and LINKTYPE_IPV6. Not LINKTYPE_RAW, which is either: libpcap refuses it in a
/// second section.
const IPV4: u16 = 228;
const IPV6: u16 = 229;
/// The option of an interface that says what a time counts, and the exponent of nanoseconds.
const TIME_RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;
/// The option of a packet that counts those lost between it and the one before.
const DROP_COUNT: u16 = 4;
/// The option of a packet, of the codes for local use, that says by how many nanoseconds the clock
/// was set between it and the one before.
const CLOCK_STEP: u16 = 0xf377;
/// Options of statistics: when the counts begin and end; what arrived, was dropped by the kernel,
/// and was delivered to this program.
const STARTED: u16 = 2;
const ENDED: u16 = 3;
const ARRIVED: u16 = 4;
const KERNEL_DROPPED: u16 = 7;
const DELIVERED: u16 = 8;
const UDP: u8 = 17;
/// Bytes of a block's header and end.
const FRAME_BYTES: usize = 12;
const SECTION_BYTES: usize = 28;
const INTERFACE_BYTES: usize = 32;
const PACKET_BYTES: usize = 32;
/// An option of eight bytes.
const OPTION_BYTES: usize = 12;
const STATISTICS_BYTES: usize = 24 + 5 * OPTION_BYTES + 4;
/// The longest block of a file that is read.
const MOST_BYTES: usize = 16 << 20;
/// The first bytes of a file.
pub const MAGIC: [u8; 4] = SECTION.to_le_bytes();
/// A recording's block has room for the headers and for a packet that matters.
pub const LEAST_BYTES: usize = 512;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'d> {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it arrived.
    pub to: SocketAddr,
    /// When it arrived, in nanoseconds since 1970.
    pub arrival_ns: u64,
    /// Datagrams that were lost between it and the one before.
    pub lost_before: u64,
    /// By how many nanoseconds the wall clock was set forward (or, below 0, back) between it and
    /// the one before.
    pub clock_step_ns: i64,
    /// Its data.
    pub data: &'d [u8],
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in the block.
    Whole,
    /// As much as a block has room for is in the block.
    Cut,
    /// The block has no room; the next one has.
    No,
}

/// The counts of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// When it began and ended, in nanoseconds since 1970.
    pub began_ns: u64,
    /// See `began_ns`.
    pub ended_ns: u64,
    /// Datagrams that the kernel dropped.
    pub kernel_dropped: u64,
    /// Datagrams that were read and lost.
    pub unrecorded: u64,
}

/// Writes packets into a recording's block.
#[derive(Debug)]
pub struct Packer<'b> {
    block: &'b mut [u8],
    at: usize,
    packets: u64,
}

impl<'b> Packer<'b> {
    /// Begins a section of packets that arrive at an address of this family; none if the block is
    /// too short for one.
    pub fn begin(block: &'b mut [u8], to: IpAddr) -> Option<Self> {
        if block.len() < LEAST_BYTES || block.len() % 4 != 0 {
            return None;
        }
        let mut packer = Self {
            block,
            at: 0,
            packets: 0,
        };
        packer.frame(SECTION, SECTION_BYTES, |packer| {
            packer.u32(BYTE_ORDER);
            packer.bytes(&1u16.to_le_bytes());
            packer.bytes(&0u16.to_le_bytes());
            // The length of the section is not known.
            packer.bytes(&u64::MAX.to_le_bytes());
        });
        packer.frame(INTERFACE, INTERFACE_BYTES, |packer| {
            let link = if to.is_ipv4() { IPV4 } else { IPV6 };
            packer.bytes(&link.to_le_bytes());
            packer.bytes(&[0; 2]);
            // No limit of a packet's length.
            packer.u32(0);
            packer.bytes(&TIME_RESOLUTION.to_le_bytes());
            packer.bytes(&1u16.to_le_bytes());
            packer.bytes(&[NANOSECONDS, 0, 0, 0]);
            packer.u32(0);
        });
        Some(packer)
    }

    /// Adds a packet. The first packet of a block has room: what does not fit is cut off, and the
    /// packet says how long it was.
    pub fn add(&mut self, datagram: &Datagram<'_>) -> Added {
        let headers = headers(datagram);
        let original = headers.len() + datagram.data.len();
        let lost = Some(datagram.lost_before).filter(|lost| *lost > 0);
        let step = Some(datagram.clock_step_ns).filter(|step| *step != 0);
        let options = match usize::from(lost.is_some()) + usize::from(step.is_some()) {
            0 => 0,
            count => count * OPTION_BYTES + 4,
        };
        let frame = PACKET_BYTES + options;
        let left = self.block.len() - STATISTICS_BYTES - self.at;
        let room = left.saturating_sub(frame + FRAME_BYTES) & !3;
        let is_exact = left == frame + original.next_multiple_of(4);
        if original > room && !is_exact && self.packets > 0 {
            return Added::No;
        }
        let captured = if is_exact {
            original
        } else {
            original.min(room)
        };
        let padded = captured.next_multiple_of(4);
        self.frame(PACKET, frame + padded, |packer| {
            packer.u32(0);
            packer.time(datagram.arrival_ns);
            packer.u32(captured as u32);
            packer.u32(original as u32);
            packer.bytes(&headers);
            let data = datagram.data.get(..captured.saturating_sub(headers.len()));
            packer.bytes(data.unwrap_or_default());
            packer.bytes([0; 4].get(..padded - captured).unwrap_or_default());
            if let Some(lost) = lost {
                packer.option(DROP_COUNT, lost.to_le_bytes());
            }
            if let Some(step) = step {
                packer.option(CLOCK_STEP, step.to_le_bytes());
            }
            if options > 0 {
                packer.u32(0);
            }
        });
        self.packets += 1;
        if captured == original {
            Added::Whole
        } else {
            Added::Cut
        }
    }

    /// Fills the rest of the block.
    pub fn fill(mut self, counts: &PacketCounts) {
        self.statistics(counts);
        let end = self.block.len();
        self.fill_to(end);
    }

    /// The packets that were added.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends the recording in this block, at a multiple of so many bytes if it has room; returns the
    /// length, 0 without a packet or a loss.
    pub fn end(mut self, multiple: usize, counts: &PacketCounts) -> usize {
        if self.packets == 0 && counts.kernel_dropped == 0 && counts.unrecorded == 0 {
            return 0;
        }
        self.statistics(counts);
        let end = (self.at + FRAME_BYTES).next_multiple_of(multiple);
        let end = end.min(self.block.len());
        self.fill_to(end);
        end
    }

    /// There is always room for it.
    fn statistics(&mut self, counts: &PacketCounts) {
        let delivered = self.packets + counts.unrecorded;
        self.frame(STATISTICS, STATISTICS_BYTES, |packer| {
            packer.u32(0);
            packer.time(counts.ended_ns);
            for (code, time) in [(STARTED, counts.began_ns), (ENDED, counts.ended_ns)] {
                // High and low, as all times are.
                packer.option(code, (time.rotate_left(32)).to_le_bytes());
            }
            packer.option(ARRIVED, (delivered + counts.kernel_dropped).to_le_bytes());
            packer.option(KERNEL_DROPPED, counts.kernel_dropped.to_le_bytes());
            packer.option(DELIVERED, delivered.to_le_bytes());
            packer.u32(0);
        });
    }

    /// There is room for a block up to `end`, or none is needed.
    fn fill_to(mut self, end: usize) {
        let left = end - self.at;
        if left == 0 {
            return;
        }
        debug_assert!(left >= FRAME_BYTES, "{left}");
        self.frame(FILLER, left, |packer| {
            if let Some(rest) = packer.block.get_mut(packer.at..end - 4) {
                rest.fill(0);
            }
            packer.at = end - 4;
        });
    }

    fn frame(&mut self, kind: u32, len: usize, body: impl FnOnce(&mut Self)) {
        self.u32(kind);
        self.u32(len as u32);
        body(self);
        self.u32(len as u32);
    }

    fn option(&mut self, code: u16, value: [u8; 8]) {
        self.bytes(&code.to_le_bytes());
        self.bytes(&8u16.to_le_bytes());
        self.bytes(&value);
    }

    fn time(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.block.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
}

/// The headers of IP and UDP, with which the packet begins.
fn headers(datagram: &Datagram<'_>) -> Vec<u8> {
    let udp_len = (8 + datagram.data.len()) as u16;
    let mut bytes = Vec::with_capacity(48);
    // Both are of one family: the sender of a datagram that arrived there.
    let checksum = match (datagram.from.ip(), datagram.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([0x45, 0]);
            bytes.extend((20 + udp_len).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, UDP, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            let checksum = finish(sum(0, &bytes)).to_be_bytes();
            bytes.splice(10..12, checksum);
            // None: IPv4 permits it.
            0
        }
        (from, to) => {
            let six = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(udp_len.to_be_bytes());
            bytes.extend([UDP, 64]);
            bytes.extend(six(from));
            bytes.extend(six(to));
            let addresses = sum(0, bytes.get(8..).unwrap_or_default());
            let ports = u32::from(datagram.from.port()) + u32::from(datagram.to.port());
            let lengths = 2 * u32::from(udp_len) + u32::from(UDP);
            match finish(sum(addresses + ports + lengths, datagram.data)) {
                0 => 0xffff,
                checksum => checksum,
            }
        }
    };
    bytes.extend(datagram.from.port().to_be_bytes());
    bytes.extend(datagram.to.port().to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend(checksum.to_be_bytes());
    bytes
}

/// Continues the Internet's checksum (RFC 1071).
fn sum(before: u32, bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    words.fold(before, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

fn finish(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

/// Why bytes are not such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad(pub &'static str);

/// When a recorded datagram arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// In nanoseconds since 1970.
    pub arrival_ns: u64,
    /// By how many of these the clock was set forward since the one before.
    pub clock_step_ns: i64,
}

/// The length of the block that the bytes begin with; none if they have only a part of it.
///
/// # Errors
/// No block is that long, or its two lengths differ.
pub fn first_block(bytes: &[u8]) -> Result<Option<usize>, Bad> {
    let Some(len) = word(bytes, 4) else {
        return Ok(None);
    };
    let len = len as usize;
    if !(FRAME_BYTES..=MOST_BYTES).contains(&len) || len % 4 != 0 {
        return Err(Bad("a block has an invalid length, or bytes are swapped"));
    }
    match word(bytes, len - 4) {
        None => Ok(None),
        Some(end) if end as usize == len => Ok(Some(len)),
        Some(_) => Err(Bad("the two lengths of a block differ")),
    }
}

/// The bytes at a section's begin that [`next_section`] has to see.
pub const SECTION_MARK_BYTES: usize = 12;

/// Where a section begins.
pub fn next_section(bytes: &[u8]) -> Option<usize> {
    let is_section =
        |mark: &[u8]| word(mark, 0) == Some(SECTION) && word(mark, 8) == Some(BYTE_ORDER);
    bytes.windows(SECTION_MARK_BYTES).position(is_section)
}

/// Whether a section's bytes are in the other order.
pub fn is_swapped(section: &[u8]) -> bool {
    word(section, 0) == Some(SECTION) && word(section, 8) == Some(BYTE_ORDER.swap_bytes())
}

/// Gets the moment and the data of a datagram.
type Each<'e, E> = dyn FnMut(Moment, &[u8]) -> Result<(), E> + 'e;

/// Reads the packets of a file that arrives in pieces.
#[derive(Debug, Default)]
pub struct Unpacker {
    held: Vec<u8>,
    has_interface: bool,
    /// The section's packets.
    packets: u64,
    /// The clock was set where a packet is left out.
    left_step_ns: i64,
    /// Packets that were cut off, which are left out.
    pub cut: u64,
    /// Packets that the statistics say were lost before they could be recorded.
    pub lost: u64,
}

impl Unpacker {
    /// Takes the next bytes, and calls `each` with the datagrams.
    ///
    /// # Errors
    /// The inner error: the bytes are no such file. The outer one: that of `each`.
    pub fn take<E>(&mut self, bytes: &[u8], each: &mut Each<'_, E>) -> Result<Result<(), Bad>, E> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        loop {
            if let Some(kind) = word(rest, 0) {
                if !self.has_interface && kind != SECTION && kind != INTERFACE {
                    return Ok(Err(Bad(
                        "it does not begin with a section and an interface",
                    )));
                }
            }
            let (block, after) = match first_block(rest) {
                Ok(Some(len)) => rest.split_at(len),
                Ok(None) => break,
                Err(bad) => return Ok(Err(bad)),
            };
            match self.block(block) {
                Ok(Some((moment, data))) => each(moment, data)?,
                Ok(None) => {}
                Err(bad) => return Ok(Err(bad)),
            }
            rest = after;
        }
        self.held = rest.to_vec();
        Ok(Ok(()))
    }

    fn block<'b>(&mut self, block: &'b [u8]) -> Result<Option<(Moment, &'b [u8])>, Bad> {
        match word(block, 0) {
            Some(SECTION) => {
                (self.has_interface, self.packets) = (false, 0);
                match word(block, 8) {
                    Some(BYTE_ORDER) => Ok(None),
                    _ => Err(Bad("its bytes are swapped")),
                }
            }
            Some(INTERFACE) => {
                let link = word(block, 8);
                let is_ours = [IPV4, IPV6]
                    .iter()
                    .any(|kind| link == Some(u32::from(*kind)))
                    && block.get(16..21) == Some(&[9, 0, 1, 0, NANOSECONDS]);
                self.has_interface = true;
                if is_ours {
                    Ok(None)
                } else {
                    Err(Bad(
                        "its packets do not begin with IP, or its times are not ns",
                    ))
                }
            }
            Some(PACKET) => {
                let (Some(high), Some(low), Some(captured), Some(original)) = (
                    word(block, 12),
                    word(block, 16),
                    word(block, 20),
                    word(block, 24),
                ) else {
                    return Err(Bad("a packet ends early"));
                };
                self.packets += 1;
                let options = 28 + (captured as usize).min(block.len()).next_multiple_of(4);
                let step = option(block, options, CLOCK_STEP).map_or(0, |step| step as i64);
                let clock_step_ns = step.saturating_add(self.left_step_ns);
                if captured < original {
                    self.cut += 1;
                    self.left_step_ns = clock_step_ns;
                    return Ok(None);
                }
                self.left_step_ns = 0;
                let packet = block.get(28..28 + captured as usize);
                let packet = packet.ok_or(Bad("a packet is longer than its block"))?;
                let data = udp_data(packet).ok_or(Bad("a packet is no datagram"))?;
                let moment = Moment {
                    arrival_ns: u64::from(high) << 32 | u64::from(low),
                    clock_step_ns,
                };
                Ok(Some((moment, data)))
            }
            Some(STATISTICS) => {
                let arrived = option(block, 20, ARRIVED).unwrap_or(0);
                self.lost += arrived.saturating_sub(self.packets);
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// The value of eight bytes of an option, in the list that begins there.
fn option(block: &[u8], mut at: usize, code: u16) -> Option<u64> {
    loop {
        let head = word(block, at).filter(|_| at + 4 < block.len())?;
        let (found, len) = (head as u16, (head >> 16) as usize);
        if found == code && len == 8 {
            return Some(u64::from(word(block, at + 8)?) << 32 | u64::from(word(block, at + 4)?));
        }
        if found == 0 {
            return None;
        }
        at += 4 + len.next_multiple_of(4);
    }
}

/// The data of a UDP datagram that begins with its IP header.
fn udp_data(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let (protocol, header) = match first >> 4 {
        4 => (*packet.get(9)?, usize::from(first & 15) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let udp = packet.get(header..)?;
    let len = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    (protocol == UDP).then(|| udp.get(8..len))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "10.0.0.7:5000";
    const TO: &str = "10.0.0.1:7000";
    const SMALL: Datagram<'_> = Datagram {
        from: SocketAddr::new(LOCAL, 5000),
        to: SocketAddr::new(LOCAL, 7000),
        arrival_ns: 1,
        lost_before: 0,
        clock_step_ns: 0,
        data: b"small",
    };
    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn unpacked(bytes: &[u8], piece: usize) -> Vec<(u64, Vec<u8>)> {
        let mut unpacker = Unpacker::default();
        let mut found = Vec::new();
        for bytes in bytes.chunks(piece) {
            let taken = unpacker.take(bytes, &mut |moment, data: &[u8]| {
                found.push((moment.arrival_ns, data.to_vec()));
                Ok::<(), ()>(())
            });
            taken.unwrap().unwrap();
        }
        assert_eq!(unpacker.held, b"");
        found
    }

    #[test]
    fn each_block_of_a_recording_is_whole() {
        let six = ("[fe80::1]:1", "[fe80::2]:65535");
        let four = (FROM, TO);
        let mut sent = Vec::new();
        let mut blocks = Vec::new();
        let (mut number, mut waiting) = (0u64, None);
        for turn in 0..5 {
            let (from, to) = if turn % 2 == 0 { four } else { six };
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let mut block = vec![0xaa; 2048];
            let mut packer = Packer::begin(&mut block, to.ip()).unwrap();
            loop {
                let (arrival_ns, data) = waiting.take().unwrap_or_else(|| {
                    number += 1;
                    let len = (number * 137 % 700) as usize;
                    ((1 << 60) + number, vec![number as u8; len])
                });
                let datagram = Datagram {
                    from,
                    to,
                    arrival_ns,
                    lost_before: number % 3,
                    clock_step_ns: -((number % 2) as i64),
                    data: &data,
                };
                if packer.add(&datagram) == Added::No {
                    waiting = Some((arrival_ns, data));
                    break;
                }
                sent.push((arrival_ns, data));
            }
            packer.fill(&PacketCounts::default());
            blocks.push(block);
        }
        assert!(sent.len() > 15);
        let all = blocks.concat();
        for piece in [1, 7, 512, 2048, all.len()] {
            assert_eq!(unpacked(&all, piece), sent);
        }
        let alone: Vec<_> = blocks
            .iter()
            .flat_map(|block| unpacked(block, 512))
            .collect();
        assert_eq!(alone, sent);
    }

    #[test]
    fn a_packet_that_no_block_has_room_for_is_cut_and_says_so() {
        let mut block = vec![0; 512];
        let none = PacketCounts::default();
        assert_eq!(Packer::begin(&mut block, LOCAL).unwrap().end(512, &none), 0);
        let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
        let datagram = Datagram {
            data: &[7; 9000],
            ..SMALL
        };
        assert_eq!(packer.add(&datagram), Added::Cut);
        assert_eq!(packer.add(&datagram), Added::No);
        packer.fill(&none);
        let mut unpacker = Unpacker::default();
        let taken = unpacker.take(&block, &mut |_, _: &[u8]| Err(()));
        assert_eq!((taken, unpacker.cut), (Ok(Ok(())), 1));
        assert!(Packer::begin(&mut [0; 508], LOCAL).is_none());
    }

    #[test]
    fn what_was_lost_is_counted_in_each_section_and_with_its_packet() {
        let (mut bytes, mut unpacker) = (Vec::new(), Unpacker::default());
        for (packets, kernel_dropped, unrecorded) in
            [(2, 5, 0), (1, 0, 0), (1, 1 << 40, 3), (0, 7, 0)]
        {
            let mut block = vec![0xaa; 4096];
            let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
            let datagram = Datagram {
                lost_before: kernel_dropped,
                ..SMALL
            };
            for _ in 0..packets {
                packer.add(&datagram);
            }
            let counts = PacketCounts {
                began_ns: 1 << 40,
                ended_ns: 1 << 41,
                kernel_dropped,
                unrecorded,
            };
            let len = packer.end(512, &counts);
            assert_ne!(len, 0);
            bytes.extend_from_slice(&block[..len]);
        }
        let taken = unpacker.take(&bytes, &mut |_, _: &[u8]| Ok::<(), ()>(()));
        assert_eq!((taken, unpacker.lost), (Ok(Ok(())), 5 + (1 << 40) + 3 + 7));
        // By draft-ietf-opsawg-pcapng: the first packet's options, and those of the first
        // statistics.
        let packet = SECTION_BYTES + INTERFACE_BYTES;
        let after = packet + 28 + 36;
        assert_eq!(
            bytes[after..after + 16],
            [4, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        let statistics = packet + 2 * (PACKET_BYTES + 36 + 16);
        assert_eq!(bytes[statistics..statistics + 8], [5, 0, 0, 0, 88, 0, 0, 0]);
        let starts = statistics + 20;
        assert_eq!(
            bytes[starts..starts + 12],
            [2, 0, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(option(&bytes[statistics..statistics + 88], 20, 4), Some(7));
        assert_eq!(option(&bytes[statistics..statistics + 88], 20, 7), Some(5));
        assert_eq!(option(&bytes[statistics..statistics + 88], 20, 8), Some(2));
    }

    #[test]
    fn a_step_of_the_clock_is_with_the_packet_behind_it_also_if_that_is_cut() {
        let mut bytes = Vec::new();
        for (len, clock_step_ns) in [(4, -7), (9000, 11), (4, 20)] {
            let mut block = vec![0; 512];
            let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
            packer.add(&Datagram {
                clock_step_ns,
                data: &vec![1; len],
                ..SMALL
            });
            packer.fill(&PacketCounts::default());
            bytes.extend_from_slice(&block);
        }
        let mut steps = Vec::new();
        let mut unpacker = Unpacker::default();
        let taken = unpacker.take(&bytes, &mut |moment, _: &[u8]| {
            steps.push(moment.clock_step_ns);
            Ok::<(), ()>(())
        });
        assert_eq!((taken, steps), (Ok(Ok(())), vec![-7, 31]));
    }

    #[test]
    fn a_recording_ends_where_another_can_go_on() {
        for (len, end) in [(0, 1024), (700, 1024), (900, 2048), (5000, 4096)] {
            let mut block = vec![0xaa; 4096];
            let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
            let datagram = Datagram {
                data: &vec![1; len],
                ..SMALL
            };
            assert_ne!(packer.add(&datagram), Added::No);
            assert_eq!(packer.end(1024, &PacketCounts::default()), end, "{len}");
            let whole = usize::from(len < 4000);
            assert_eq!(unpacked(&block[..end], 100).len(), whole);
        }
    }

    #[test]
    fn headers_have_the_right_checksums() {
        let datagram = Datagram {
            from: FROM.parse().unwrap(),
            to: TO.parse().unwrap(),
            data: b"odd",
            ..SMALL
        };
        let four = headers(&datagram);
        assert_eq!(finish(sum(0, &four[..20])), 0);
        assert_eq!(four.len(), 28);
        let six = Datagram {
            from: "[2001:db8::7]:5000".parse().unwrap(),
            to: "[2001:db8::1]:7000".parse().unwrap(),
            ..datagram
        };
        let header = headers(&six);
        assert_eq!(header.len(), 48);
        // The pseudo-header, the header and the data.
        let udp = [&header[40..], b"odd"].concat();
        let pseudo = sum(0, &header[8..40]) + udp.len() as u32 + u32::from(UDP);
        assert_eq!(finish(sum(pseudo, &udp)), 0);
    }

    #[test]
    fn other_files_are_refused() {
        let mut block = vec![0; 512];
        Packer::begin(&mut block, LOCAL)
            .unwrap()
            .fill(&PacketCounts::default());
        let bad = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = block.clone();
            change(&mut bytes);
            let taken = Unpacker::default().take(&bytes, &mut |_, _: &[u8]| Ok::<(), ()>(()));
            taken.unwrap().unwrap_err();
        };
        bad(&|bytes| bytes[0] = 0);
        bad(&|bytes| bytes[4] = 13);
        bad(&|bytes| bytes[7] = 0xff);
        bad(&|bytes| bytes.swap(8, 11));
        bad(&|bytes| bytes[SECTION_BYTES + 8] = 1);
        bad(&|bytes| bytes[SECTION_BYTES + 20] = 6);
        bad(&|bytes| *bytes = b"text of some length".to_vec());
    }
}
