// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files of a ring are removed before the next one is made.

/// What the files that are not whole yet have or will have.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// The one before the current one, whose last blocks are being written; 0 if it has ended.
    pub ending_bytes: u64,
    /// The current one, when it ends.
    pub current_bytes: u64,
    /// The next one.
    pub next_bytes: u64,
}

/// How many of the whole files, the oldest first, are removed so that all have at most
/// `keep_bytes`. None: there would be more, and the file that is ending cannot be removed before it
/// has ended.
pub fn to_remove(
    keep_bytes: u64,
    whole_bytes: impl Iterator<Item = u64> + Clone,
    coming: Coming,
) -> Option<usize> {
    let whole = whole_bytes
        .clone()
        .fold(coming.ending_bytes, u64::saturating_add);
    let mut total = whole
        .saturating_add(coming.current_bytes)
        .saturating_add(coming.next_bytes);
    let mut count = 0;
    for bytes in whole_bytes {
        if total <= keep_bytes {
            break;
        }
        total = total.saturating_sub(bytes);
        count += 1;
    }
    if total > keep_bytes && coming.ending_bytes > 0 {
        None
    } else {
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keep_bytes: u64, whole: &[u64], ending_bytes: u64) -> Option<usize> {
        let coming = Coming {
            ending_bytes,
            current_bytes: 10,
            next_bytes: 10,
        };
        to_remove(keep_bytes, whole.iter().copied(), coming)
    }

    #[test]
    fn a_file_that_is_still_written_is_counted() {
        assert_eq!(of(40, &[10, 10], 0), Some(0));
        assert_eq!(of(40, &[10, 10], 10), Some(1));
        assert_eq!(of(40, &[10, 10, 10], 10), Some(2));
        assert_eq!(of(40, &[30, 10], 10), Some(1));
    }

    #[test]
    fn what_is_ending_is_waited_for_if_the_others_are_not_enough() {
        assert_eq!(of(20, &[], 10), None);
        assert_eq!(of(20, &[10], 10), None);
        // Once it has ended it is whole, and removed.
        assert_eq!(of(20, &[10], 0), Some(1));
        // A current file that became longer than all may be: no wait would help.
        assert_eq!(of(15, &[10, 10], 0), Some(2));
        assert_eq!(of(u64::MAX, &[u64::MAX], u64::MAX), Some(0));
    }
}
