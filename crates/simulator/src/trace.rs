// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened, in order: a hash of all of it, and the text of the last steps.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// How many steps are kept as text.
const KEPT: usize = 60;

macro_rules! kinds {
    ($($name:ident $text:literal,)*) => {
        /// A kind of step, with what its two numbers are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum What {
            $(
                #[doc = $text]
                $name,
            )*
        }

        impl What {
            const ALL: &[(What, &str)] = &[$((What::$name, $text),)*];
        }
    };
}

kinds! {
    Begin "operation begins",
    End "operation ends",
    Submit "request submitted to drive",
    Complete "request completed by drive",
    Flushed "flush completed by drive",
    Failed "request failed by drive",
    Content "content of a request",
    Cut "power cut at drive",
    PowerOn "power on at drive",
    Remove "drive removed",
    Return "drive returned",
    Slow "drive slow",
    Hand "block handed to the recorder",
    Lost "block lost by the source",
    Durable "bytes durable",
    Segment "bytes on the network",
    Hold "network held",
    Reset "connection reset",
    Connect "connection",
    Pdu "command at the target",
    Answer "answer of the target",
    Expire "keep-alive timer of controller expired",
    Restart "target restarted",
    Ana "ANA state",
    Mirror "event of the mirror",
    Association "event of the association",
    Refused "operation refused",
    Check "check",
}

impl What {
    fn text(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(what, _)| *what == self)
            .map_or("", |(_, text)| text)
    }
}

/// The steps so far.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    steps: u64,
    last: VecDeque<(u64, What, u64, u64)>,
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a value into a hash.
pub const fn mix(hash: u64, value: u64) -> u64 {
    let product = (hash ^ value) as u128 * (MULTIPLIER | 1) as u128;
    (product as u64 ^ (product >> 64) as u64).wrapping_add(MULTIPLIER)
}

impl Trace {
    /// Adds a step, or the content of a request, which is a part of one.
    pub fn note(&mut self, at_us: u64, what: What, a: u64, b: u64) {
        self.steps += u64::from(what != What::Content);
        for value in [at_us, what as u64, a, b] {
            self.hash = mix(self.hash, value);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((at_us, what, a, b));
    }

    /// The hash of all steps.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of steps.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The last steps, a line for each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (at_us, what, a, b) in &self.last {
            let (seconds, us) = (at_us / 1_000_000, at_us % 1_000_000);
            let what = what.text();
            let _ = writeln!(text, "  {seconds:5}.{us:06} s  {what} {a:#x} {b:#x}");
        }
        text
    }
}
