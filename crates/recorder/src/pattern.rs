// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes that encode their own offset: each aligned group of eight bytes is its offset,
//! little-endian. Missing, duplicated or misplaced data is detected immediately.

use stream::Gap;

/// Fills `data`, which begins at `offset` of the pattern.
pub fn fill(data: &mut [u8], offset: u64) {
    let aligned = offset % 8 == 0;
    let mut words = data.chunks_exact_mut(8);
    if aligned {
        let mut at = offset;
        for word in words.by_ref() {
            word.copy_from_slice(&at.to_le_bytes());
            at += 8;
        }
        let rest = words.into_remainder();
        fill_bytes(rest, at);
    } else {
        fill_bytes(data, offset);
    }
}

fn fill_bytes(data: &mut [u8], offset: u64) {
    for (byte, at) in data.iter_mut().zip(offset..) {
        *byte = byte_at(at);
    }
}

fn byte_at(at: u64) -> u8 {
    let word = (at & !7).to_le_bytes();
    word.get((at & 7) as usize).copied().unwrap_or(0)
}

/// The first byte of `data`, which begins at `offset`, that differs from the pattern.
pub fn difference(data: &[u8], offset: u64) -> Option<u64> {
    let mut at = offset;
    for chunk in data.chunks(8) {
        let is_whole = at % 8 == 0 && chunk.len() == 8;
        if !is_whole || chunk != at.to_le_bytes() {
            let bad = chunk
                .iter()
                .zip(at..)
                .find(|(byte, at)| **byte != byte_at(*at));
            if let Some((_, at)) = bad {
                return Some(at);
            }
        }
        at += chunk.len() as u64;
    }
    None
}

/// The first byte of a recording's `data`, which begins at its byte `offset`, that differs from the
/// pattern without what was lost in its `gaps`. A gap of nothing is where another recording went
/// on, at its own offset.
pub fn difference_over(data: &[u8], offset: u64, gaps: &[Gap]) -> Option<u64> {
    let mut at = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let lost = |lost: u64, gap: &Gap| match gap.lost_bytes {
            0 => 0,
            more => lost.saturating_add(more),
        };
        let behind = gaps.partition_point(|gap| gap.offset_bytes <= at);
        let before = gaps.iter().take(behind);
        let lost_bytes = before.fold(0, lost);
        let next = gaps
            .get(behind)
            .map_or(u64::MAX, |gap| gap.offset_bytes - at);
        let len = usize::try_from(next).map_or(rest.len(), |next| next.min(rest.len()));
        let (piece, later) = rest.split_at(len);
        if let Some(bad) = difference(piece, at.saturating_add(lost_bytes)) {
            return Some(bad - lost_bytes);
        }
        (rest, at) = (later, at + len as u64);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_goes_on_behind_gaps() {
        let mut whole = vec![0; 1_000];
        fill(&mut whole, 0);
        let gap = |offset_bytes, lost_bytes| Gap {
            offset_bytes,
            lost_bytes,
            ..Gap::default()
        };
        let cut = [
            &whole[..100],
            &whole[150..300],
            &whole[900..],
            &whole[350..],
        ]
        .concat();
        let gaps = [gap(100, 50), gap(250, 600), gap(350, 0)];
        assert_eq!(difference_over(&cut, 0, &gaps), None);
        assert_eq!(difference_over(&cut[99..260], 99, &gaps), None);
        let first = difference_over(&cut, 0, &gaps[1..]);
        assert!(
            first.is_some_and(|at| (100..108).contains(&at)),
            "{first:?}"
        );
        let mut bad = cut;
        bad[251] ^= 1;
        assert_eq!(difference_over(&bad, 0, &gaps), Some(251));
    }

    #[test]
    fn a_pattern_is_the_same_in_whatever_pieces() {
        let mut whole = vec![0; 1_000];
        fill(&mut whole, 0);
        assert_eq!(whole[800..808], 800u64.to_le_bytes());
        for (start, end) in [(0, 1_000), (3, 999), (8, 8), (16, 31), (5, 6)] {
            let mut piece = vec![0; end - start];
            fill(&mut piece, start as u64);
            assert_eq!(piece, whole[start..end]);
            assert_eq!(difference(&piece, start as u64), None);
        }
        for at in [0, 7, 500, 999] {
            let mut bad = whole.clone();
            bad[at] ^= 0x40;
            assert_eq!(difference(&bad, 0), Some(at as u64));
            assert_eq!(difference(&bad[at..], at as u64), Some(at as u64));
        }
    }
}
