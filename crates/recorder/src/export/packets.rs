// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packets of an exported recording: counts of them, and a file that readers can read behind
//! damage.
//!
//! Readers of pcapng go from block to block by their lengths, and stop at the first that is wrong.
//! Each block of a recording begins with a section, so what is behind damage can be read again.

use devices::error::Result;
use formats::pcapng::{SECTION_MARK_BYTES, Unpacker, first_block, is_swapped, next_section};
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;

/// What the recording's blocks and statistics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PacketsExported {
    /// Packets, those that were cut off among them.
    pub packets: u64,
    /// Packets that are shorter than they arrived.
    pub cut_packets: u64,
    /// Packets that arrived, and were lost before they could be recorded.
    pub lost_packets: u64,
    /// Damaged bytes that were left out, each time up to the next block that can be read.
    pub skipped_bytes: u64,
}

impl PacketsExported {
    /// Whether packets were lost, or cut off, when they were recorded.
    pub const fn has_loss(&self) -> bool {
        self.cut_packets > 0 || self.lost_packets > 0
    }
}

/// Counts packets of a recording that arrives in pieces, and leaves out what is damaged.
#[derive(Debug, Default)]
pub struct Packets {
    unpacker: Unpacker,
    /// The beginning of a block.
    held: Vec<u8>,
    whole: u64,
    /// Blocks that a recording makes.
    sound: u64,
    skipped_bytes: u64,
    has_begun: bool,
    /// Its blocks cannot be told apart here: all bytes are kept.
    is_swapped: bool,
    /// It has packets that a recording does not make, which are not counted.
    is_other: bool,
    /// What comes is left out up to the next section.
    is_lost: bool,
}

/// Takes the bytes that are kept.
type Keep<'k> = dyn FnMut(&[u8]) -> Result<()> + 'k;

impl Packets {
    /// Takes the next bytes, and gives those of whole blocks to `keep`.
    ///
    /// # Errors
    /// That of `keep`.
    pub fn take(&mut self, bytes: &[u8], keep: &mut Keep<'_>) -> Result<()> {
        self.held.extend_from_slice(bytes);
        self.sort(false, keep)
    }

    /// Whether all that came was left out up to now: no section, however far one looks.
    pub fn has_nothing(&self) -> bool {
        let has_come = !self.held.is_empty() || self.skipped_bytes > 0;
        self.sound == 0 && !self.is_other && has_come
    }

    /// Ends the stream; returns the counts, none if it has packets that a recording does not make.
    ///
    /// # Errors
    /// That of `keep`.
    pub fn end(mut self, keep: &mut Keep<'_>) -> Result<Option<PacketsExported>> {
        self.sort(true, keep)?;
        let is_counted = !self.is_other || self.skipped_bytes > 0;
        Ok(is_counted.then_some(PacketsExported {
            packets: self.whole + self.unpacker.cut,
            cut_packets: self.unpacker.cut,
            lost_packets: self.unpacker.lost,
            skipped_bytes: self.skipped_bytes,
        }))
    }

    fn sort(&mut self, is_end: bool, keep: &mut Keep<'_>) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        if !self.has_begun && (rest.len() >= SECTION_MARK_BYTES || is_end) {
            self.has_begun = true;
            self.is_swapped = is_swapped(rest);
            self.is_other = self.is_swapped;
        }
        while !rest.is_empty() && self.has_begun {
            if self.is_swapped {
                keep(rest)?;
                rest = &[];
            } else if self.is_lost {
                let section = next_section(rest);
                // A section may have begun in the last bytes.
                let open = if is_end { 0 } else { SECTION_MARK_BYTES - 1 };
                let skipped = section.unwrap_or(rest.len().saturating_sub(open));
                self.is_lost = section.is_none();
                rest = self.skip(rest, skipped);
                if self.is_lost {
                    break;
                }
            } else {
                match first_block(rest) {
                    Ok(None) if !is_end => break,
                    Ok(Some(len)) => {
                        let (block, after) = rest.split_at(len);
                        if self.is_sound(block) {
                            keep(block)?;
                            rest = after;
                        } else {
                            rest = self.skip(rest, len);
                        }
                    }
                    Ok(None) | Err(_) => {
                        self.is_lost = true;
                        rest = self.skip(rest, rest.len().min(4));
                    }
                }
            }
        }
        self.held = rest.to_vec();
        Ok(())
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], len: usize) -> &'b [u8] {
        self.skipped_bytes += len as u64;
        bytes.get(len..).unwrap_or_default()
    }

    /// Counts a block. Behind packets that a recording made, one that no recording makes is
    /// damaged.
    fn is_sound(&mut self, block: &[u8]) -> bool {
        if self.is_other {
            return true;
        }
        let whole = &mut self.whole;
        let taken = self.unpacker.take::<Infallible>(block, &mut |_, _| {
            *whole += 1;
            Ok(())
        });
        let Ok(known) = taken;
        // The first two are the section and its interface, which say whose packets these are.
        self.is_other = known.is_err() && self.sound < 2;
        self.sound += u64::from(known.is_ok());
        known.is_ok() || self.is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::pcapng::{Datagram, Packer, PacketCounts};
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    const BLOCK_BYTES: usize = 4096;
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Blocks with ten packets each.
    fn recording(blocks: usize) -> Vec<u8> {
        let mut all = vec![0; blocks * BLOCK_BYTES];
        for block in all.chunks_mut(BLOCK_BYTES) {
            let mut packer = Packer::begin(block, LOCAL).unwrap();
            for number in 0..10 {
                packer.add(&Datagram {
                    from: SocketAddr::new(LOCAL, 5000),
                    to: SocketAddr::new(LOCAL, 7000),
                    arrival_ns: number,
                    lost_before: 0,
                    clock_step_ns: 0,
                    data: &[7; 200],
                });
            }
            packer.fill(&PacketCounts::default());
        }
        all
    }

    fn exported(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<PacketsExported>) {
        let mut kept = Vec::new();
        let mut keep = |bytes: &[u8]| {
            kept.extend_from_slice(bytes);
            Ok(())
        };
        let mut packets = Packets::default();
        for piece in bytes.chunks(piece) {
            packets.take(piece, &mut keep).unwrap();
        }
        let counts = packets.end(&mut keep).unwrap();
        (kept, counts)
    }

    #[test]
    fn a_sound_recording_is_kept_as_it_is() {
        let all = recording(3);
        for piece in [1, 7, 512, all.len()] {
            let (kept, counts) = exported(&all, piece);
            assert!(kept == all, "{piece}");
            let counts = counts.unwrap();
            assert_eq!((counts.packets, counts.skipped_bytes), (30, 0));
        }
    }

    /// Bytes of the first, a middle and the last block, in every place.
    #[test]
    fn damage_costs_no_packet_of_another_block_and_is_counted() {
        let all = recording(4);
        for block in 0..4 {
            for at in (block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES).step_by(52) {
                for value in [0, 0xff] {
                    let mut rotten = all.clone();
                    rotten[at..at + 16].fill(value);
                    if rotten == all {
                        continue;
                    }
                    let (kept, counts) = exported(&rotten, 1000);
                    let Some(counts) = counts else {
                        // The first interface is another's now: all is kept, and can be read.
                        assert!(at < 60 && kept == rotten, "{at}");
                        continue;
                    };
                    let is_in_data = kept == rotten && counts.skipped_bytes == 0;
                    assert!(is_in_data || counts.skipped_bytes > 0, "{at}");
                    assert_eq!(kept.len() as u64 + counts.skipped_bytes, all.len() as u64);
                    assert!(
                        counts.packets >= 30 || block == 0 && at < 60,
                        "{at}: {counts:?}"
                    );
                    // What a reader does with it: each block behind the one before.
                    let mut rest = kept.as_slice();
                    while !rest.is_empty() {
                        let len = first_block(rest).unwrap().unwrap();
                        rest = &rest[len..];
                    }
                }
            }
        }
    }

    #[test]
    fn a_stream_that_was_cut_and_continued_goes_on_at_the_next_section() {
        let all = recording(3);
        let joined = [&all[..BLOCK_BYTES + 1234], &all[2 * BLOCK_BYTES..]].concat();
        for piece in [13, joined.len()] {
            let (kept, counts) = exported(&joined, piece);
            assert!(kept.ends_with(&all[2 * BLOCK_BYTES..]));
            let counts = counts.unwrap();
            assert!(counts.packets > 20 && counts.packets < 30, "{counts:?}");
            assert!(counts.skipped_bytes > 0 && counts.skipped_bytes < 1234);
        }
        let (kept, counts) = exported(&all[..BLOCK_BYTES + 1234], 100);
        assert!(counts.unwrap().skipped_bytes > 0 && all.starts_with(&kept));
    }

    #[test]
    fn packets_of_others_are_kept_and_not_counted() {
        // Little-endian with Ethernet frames, and big-endian.
        let block = |kind: u32, body: &[u8]| {
            let len = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes()[..], &len, body, &len].concat()
        };
        let section = [
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ]
        .concat();
        let little = [
            block(0x0a0d_0d0a, &section),
            block(1, &[1, 0, 0, 0, 0, 0, 0, 0]),
            block(6, &[0; 20]),
        ]
        .concat();
        let mut big = little.clone();
        big.chunks_mut(4).for_each(<[u8]>::reverse);
        for all in [little, big] {
            for piece in [1, 5, 1000] {
                assert_eq!(exported(&all, piece), (all.clone(), None), "{piece}");
            }
        }
    }
}
