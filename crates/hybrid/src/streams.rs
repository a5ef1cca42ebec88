// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which accesses continue an earlier one.

/// How many streams of each direction are followed at a time.
const STREAMS: usize = 4;

/// One sequence of accesses.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The block after its last access; 0 for none, which no access can end at.
    next: u64,
    /// How much is read ahead by the next command.
    window_blocks: u32,
}

/// The streams of one direction. A new one replaces the oldest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streams {
    streams: [Stream; STREAMS],
    oldest: usize,
}

impl Streams {
    /// Records an access, and returns its stream if it continues one: it begins where the last one
    /// ended, or up to `back` blocks before that.
    #[inline]
    pub(crate) fn note(&mut self, lba: u64, blocks: u32, back: u32) -> Option<usize> {
        // An access may be out of range: the device refuses it.
        let next = lba.wrapping_add(u64::from(blocks));
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.next.wrapping_sub(lba) <= u64::from(back) && stream.next != 0 {
                stream.next = next;
                return Some(index);
            }
        }
        if let Some(stream) = self.streams.get_mut(self.oldest) {
            *stream = Stream {
                next,
                window_blocks: 0,
            };
        }
        self.oldest = (self.oldest + 1) % STREAMS;
        None
    }

    /// The length of the next command that reads ahead, in blocks: it doubles from four times the
    /// access up to `most`, so that a short sequence wastes little.
    pub(crate) fn window(&mut self, index: usize, access_blocks: u32, most: u32) -> u32 {
        let Some(stream) = self.streams.get_mut(index) else {
            return access_blocks;
        };
        let window = match stream.window_blocks {
            0 => access_blocks.saturating_mul(4),
            window => window.saturating_mul(2),
        };
        stream.window_blocks = window.clamp(1, most);
        stream.window_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_interleaved_streams_are_followed_and_random_accesses_are_not() {
        let mut streams = Streams::default();
        for lba in [1000, 2000, 3000, 4000] {
            assert_eq!(streams.note(lba, 8, 0), None);
        }
        for step in 1..10 {
            for (index, lba) in [1000, 2000, 3000, 4000].into_iter().enumerate() {
                assert_eq!(streams.note(lba + step * 8, 8, 0), Some(index));
            }
        }
        assert_eq!(streams.note(77, 8, 0), None);
        assert_eq!(streams.note(0, 1, 0), None, "nothing ends at block 0");
    }

    #[test]
    fn a_window_doubles_up_to_its_bound() {
        let mut streams = Streams::default();
        let _ = streams.note(0, 8, 0);
        let windows = [(); 4].map(|()| streams.window(0, 8, 100));
        assert_eq!(windows, [32, 64, 100, 100]);
    }
}
