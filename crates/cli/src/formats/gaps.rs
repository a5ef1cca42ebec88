//! The companion of a recording, `NAME.gaps`, as `record --policy drop` writes it.

use crate::failure::{Failure, Result};
use crate::volume::shown;
use stream::{GAP_LINE_BYTES, Gap, parse_gap};

/// The longest companion that is read: a quarter of a million gaps.
pub const MAX_GAPS_BYTES: u64 = 16 << 20;

/// Bytes that are missing in all.
pub fn lost_bytes(gaps: &[Gap]) -> u64 {
    let lost = gaps.iter().map(|gap| gap.lost_bytes);
    lost.fold(0, u64::saturating_add)
}

/// The gaps that lines describe. A line at the end that is not whole is left out: nothing behind its gap is in the recording.
///
/// # Errors
/// A line was not written by a recording.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Vec<Gap>> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (number, line) in (1..).zip(bytes.chunks_exact(GAP_LINE_BYTES)) {
        let last = gaps.last().map_or(0, |gap| gap.offset_bytes);
        match parse_gap(line) {
            Some(gap) if gap.offset_bytes >= last => gaps.push(gap),
            _ => {
                let what = format!("line {number} of `{}` is not a gap", shown(name));
                return Err(Failure::other(what)
                    .hint("straightway get fetches the recording without its gaps"));
            }
        }
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_gaps_and_nothing_else_is() {
        let line = |text: &str| format!("{text:>63}\n").into_bytes();
        let mut bytes = [line("0 5 1 1"), line("4096 1048576 20000 1")].concat();
        let gaps = parse("a", &bytes).unwrap();
        assert_eq!(gaps.len(), 2);
        assert_eq!(gaps[1].lost_bytes, 1 << 20);
        bytes.extend(b"   8192");
        assert_eq!(parse("a", &bytes).unwrap(), gaps);
        assert!(parse("a", &[line("4096 1 1 1"), line("0 1 1 1")].concat()).is_err());
        assert!(parse("a", &[0xff; 64]).is_err());
    }
}
