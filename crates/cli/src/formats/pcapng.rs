//! pcapng: datagrams with their arrival times, as Wireshark and tcpdump read them.
//!
//! A recording's blocks are lost, committed and cut into segments as a whole, so each of them is a whole file by itself: a section
//! header, an interface, packets, and a block of a local type that fills the rest. (pcapng has sections for this, and readers skip
//! block types that they do not know.) A packet begins with headers of IP and UDP that say who sent it; times are nanoseconds since
//! 1970. Everything is little-endian.

use std::net::{IpAddr, SocketAddr};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Of the types for local use.
const FILLER: u32 = 0x8000_7377;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// LINKTYPE_IPV4 and LINKTYPE_IPV6. Not LINKTYPE_RAW, which is either: libpcap refuses it in a second section.
const IPV4: u16 = 228;
const IPV6: u16 = 229;
/// The option of an interface that says what a time counts, and the exponent of nanoseconds.
const TIME_RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;
const UDP: u8 = 17;
/// Bytes of a block's header and end.
const FRAME_BYTES: usize = 12;
const SECTION_BYTES: usize = 28;
const INTERFACE_BYTES: usize = 32;
const PACKET_BYTES: usize = 32;
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
    /// Its data.
    pub data: &'d [u8],
}

/// Writes packets into a recording's block.
#[derive(Debug)]
pub struct Packer<'b> {
    block: &'b mut [u8],
    at: usize,
    packets: usize,
}

impl<'b> Packer<'b> {
    /// Begins a section of packets that arrive at an address of this family; none if the block is too short for one.
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

    /// Adds a packet; false if it has no room. The first packet of a block has: what does not fit is cut off, and the packet says
    /// how long it was.
    pub fn add(&mut self, datagram: &Datagram<'_>) -> bool {
        let headers = headers(datagram);
        let original = headers.len() + datagram.data.len();
        let left = self.block.len() - self.at;
        let room = left.saturating_sub(PACKET_BYTES + FRAME_BYTES) & !3;
        let is_exact = left == PACKET_BYTES + original.next_multiple_of(4);
        if original > room && !is_exact && self.packets > 0 {
            return false;
        }
        let captured = if is_exact {
            original
        } else {
            original.min(room)
        };
        let padded = captured.next_multiple_of(4);
        self.frame(PACKET, PACKET_BYTES + padded, |packer| {
            packer.u32(0);
            packer.u32((datagram.arrival_ns >> 32) as u32);
            packer.u32(datagram.arrival_ns as u32);
            packer.u32(captured as u32);
            packer.u32(original as u32);
            packer.bytes(&headers);
            let data = datagram.data.get(..captured.saturating_sub(headers.len()));
            packer.bytes(data.unwrap_or_default());
            packer.bytes([0; 4].get(..padded - captured).unwrap_or_default());
        });
        self.packets += 1;
        true
    }

    /// Fills the rest of the block.
    pub fn fill(self) {
        let end = self.block.len();
        self.fill_to(end);
    }

    /// Whether a packet was added.
    pub const fn has_packets(&self) -> bool {
        self.packets > 0
    }

    /// Ends the recording in this block, at a multiple of so many bytes if it has room; returns the length, 0 without a packet.
    pub fn end(self, multiple: usize) -> usize {
        if self.packets == 0 {
            return 0;
        }
        let end = (self.at + FRAME_BYTES).next_multiple_of(multiple);
        let end = end.min(self.block.len());
        self.fill_to(end);
        end
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

/// Gets the arrival time and the data of a datagram.
type Each<'e, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 'e;

/// Reads the packets of a file that arrives in pieces.
#[derive(Debug, Default)]
pub struct Unpacker {
    held: Vec<u8>,
    has_interface: bool,
    /// Packets that were cut off, which are left out.
    pub cut: u64,
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
            let len = match (word(rest, 0), word(rest, 4)) {
                (Some(kind), _) if !self.has_interface && kind != SECTION && kind != INTERFACE => {
                    return Ok(Err(Bad(
                        "it does not begin with a section and an interface",
                    )));
                }
                (_, Some(len)) => len as usize,
                _ => break,
            };
            if !(FRAME_BYTES..=MOST_BYTES).contains(&len) || len % 4 != 0 {
                return Ok(Err(Bad(
                    "a block has an invalid length, or bytes are swapped",
                )));
            }
            let Some((block, after)) = rest.split_at_checked(len) else {
                break;
            };
            match self.block(block) {
                Ok(Some((arrival_ns, data))) => each(arrival_ns, data)?,
                Ok(None) => {}
                Err(bad) => return Ok(Err(bad)),
            }
            rest = after;
        }
        self.held = rest.to_vec();
        Ok(Ok(()))
    }

    fn block<'b>(&mut self, block: &'b [u8]) -> Result<Option<(u64, &'b [u8])>, Bad> {
        match word(block, 0) {
            Some(SECTION) => {
                self.has_interface = false;
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
                match is_ours {
                    true => Ok(None),
                    false => Err(Bad(
                        "its packets do not begin with IP, or its times are not ns",
                    )),
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
                if captured < original {
                    self.cut += 1;
                    return Ok(None);
                }
                let packet = block.get(28..28 + captured as usize);
                let packet = packet.ok_or(Bad("a packet is longer than its block"))?;
                let data = udp_data(packet).ok_or(Bad("a packet is no datagram"))?;
                Ok(Some((u64::from(high) << 32 | u64::from(low), data)))
            }
            _ => Ok(None),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
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
    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn unpacked(bytes: &[u8], piece: usize) -> Vec<(u64, Vec<u8>)> {
        let mut unpacker = Unpacker::default();
        let mut found = Vec::new();
        for bytes in bytes.chunks(piece) {
            let taken = unpacker.take(bytes, &mut |arrival_ns, data: &[u8]| {
                found.push((arrival_ns, data.to_vec()));
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
                    data: &data,
                };
                if !packer.add(&datagram) {
                    waiting = Some((arrival_ns, data));
                    break;
                }
                sent.push((arrival_ns, data));
            }
            packer.fill();
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
        assert_eq!(Packer::begin(&mut block, LOCAL).unwrap().end(512), 0);
        let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
        let datagram = Datagram {
            from: FROM.parse().unwrap(),
            to: TO.parse().unwrap(),
            arrival_ns: 1,
            data: &[7; 9000],
        };
        assert!(packer.add(&datagram));
        assert!(!packer.add(&datagram));
        packer.fill();
        let mut unpacker = Unpacker::default();
        let taken = unpacker.take(&block, &mut |_, _: &[u8]| Err(()));
        assert_eq!((taken, unpacker.cut), (Ok(Ok(())), 1));
        assert!(Packer::begin(&mut [0; 508], LOCAL).is_none());
    }

    #[test]
    fn a_recording_ends_where_another_can_go_on() {
        for (len, end) in [(0, 1024), (800, 1024), (900, 2048), (5000, 4096)] {
            let mut block = vec![0xaa; 4096];
            let mut packer = Packer::begin(&mut block, LOCAL).unwrap();
            let datagram = Datagram {
                from: FROM.parse().unwrap(),
                to: TO.parse().unwrap(),
                arrival_ns: 1,
                data: &vec![1; len],
            };
            assert!(packer.add(&datagram));
            assert_eq!(packer.end(1024), end, "{len}");
            let whole = usize::from(len < 4000);
            assert_eq!(unpacked(&block[..end], 100).len(), whole);
        }
    }

    #[test]
    fn headers_have_the_right_checksums() {
        let datagram = Datagram {
            from: FROM.parse().unwrap(),
            to: TO.parse().unwrap(),
            arrival_ns: 0,
            data: b"odd",
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
        Packer::begin(&mut block, LOCAL).unwrap().fill();
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
