// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording in segments: files of a size or a duration, of which the oldest are removed if it is
//! a ring.
//!
//! | module | contents |
//! | --- | --- |
//! | `template` | names with a time and a number |
//! | `found` | what the volume has of earlier recordings, and what others put there |
//! | `files` | when files are made, closed and removed while data flows |
//! | `making` | making and closing one |
//! | `oldest` | the oldest files of a ring, which are removed for another one |
//! | `described` | what describes the segments that remain |
//! | `removal` | removing files while data flows |
//! | `ring` | which files are removed for the next one |
//! | `numbered` | the number in a name, without its template |
//! | `places` | whether segments are what was recorded |
//! | `segment` | what is known of one that has ended |
//! | `tag` | where a segment is in its recording |

pub mod described;
pub mod files;
mod found;
mod making;
pub mod numbered;
mod oldest;
pub mod places;
mod removal;
pub mod ring;
pub mod segment;
pub mod tag;
pub mod template;

use std::str::FromStr;
use units::{Size, Time};

/// Whether a recording has segments, and which remain.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    /// Another file begins at this size, or after this time.
    pub segment: Option<Limit>,
    /// The oldest segments are removed, so that all of them together have at most this size.
    pub keep: Option<Size>,
}

impl Segmentation {
    /// One file.
    pub const NONE: Self = Self {
        segment: None,
        keep: None,
    };
}

/// When a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At this length.
    Bytes(u64),
    /// After this time.
    Time(Time),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.parse::<Time>() {
            Ok(time) => Self::Time(time),
            Err(_) => Self::Bytes(text.parse::<Size>()?.0),
        };
        match limit {
            Self::Bytes(0) => Err("a segment has at least a block".to_owned()),
            Self::Time(time) if time.0.is_zero() => Err("a segment takes some time".to_owned()),
            limit => Ok(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_limit_is_a_size_or_a_time() {
        let time = |seconds| Ok(Limit::Time(Time(Duration::from_secs(seconds))));
        assert_eq!("1G".parse(), Ok(Limit::Bytes(1 << 30)));
        assert_eq!("60s".parse(), time(60));
        assert_eq!("10min".parse(), time(600));
        for bad in ["", "0", "0s", "x", "5parsecs"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
