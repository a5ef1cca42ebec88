// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run as a list of steps: made from a seed, printed, parsed, and shortened.
//!
//! Each step has its own random numbers, so that the others stay as they are when one is removed.

use crate::setup::{Only, Setup};
use std::fmt;
use std::str::FromStr;

macro_rules! verbs {
    ($($name:ident $word:literal $group:ident $weight:literal,)*) => {
        /// What a step does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Verb { $($name,)* }

        impl Verb {
            /// Each with its word, its group and its weight.
            pub const ALL: &[(Verb, &str, Group, u64)] =
                &[$((Verb::$name, $word, Group::$group, $weight),)*];
        }
    };
}

/// Where a step makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// On a volume.
    Volume,
    /// On a volume whose slot table grows.
    Growth,
    /// Recordings on a volume.
    Record,
    /// On blocks.
    Blocks,
    /// Anywhere.
    Any,
    /// A drive's fault.
    Drive,
    /// A network's or a target's.
    Network,
    /// A client's of a server.
    Serve,
}

verbs! {
    Put "put" Volume 12,
    Replace "replace" Volume 6,
    Get "get" Volume 6,
    Remove "rm" Volume 6,
    Move "mv" Volume 5,
    Append "append" Volume 8,
    Batch "batch" Volume 5,
    Resize "resize" Volume 3,
    Trim "trim" Volume 4,
    Label "label" Volume 1,
    Check "check" Volume 2,
    Across "across" Growth 12,
    Record "record" Record 14,
    Ring "ring" Record 14,
    Long "long" Record 0,
    Fill "fill" Record 4,
    Write "write" Blocks 24,
    Read "read" Blocks 12,
    Flush "flush" Blocks 6,
    Zero "zero" Blocks 2,
    Discard "discard" Blocks 2,
    Wait "wait" Blocks 6,
    Reopen "reopen" Any 3,
    Idle "idle" Any 3,
    Clock "clock" Any 1,
    Cut "cut" Drive 6,
    Kill "kill" Any 3,
    Fail "fail" Drive 4,
    Slow "slow" Drive 4,
    Unplug "unplug" Drive 3,
    Plug "plug" Drive 3,
    Heal "heal" Any 4,
    Hold "hold" Network 4,
    Silence "silence" Network 6,
    Delay "delay" Network 3,
    Reset "reset" Network 4,
    Restart "restart" Network 3,
    Stall "stall" Network 2,
    Ana "ana" Network 3,
    Part "part" Serve 6,
    Leave "leave" Serve 4,
    Deaf "deaf" Serve 4,
    Late "late" Serve 4,
    Commit "commit" Drive 3,
}

impl Verb {
    /// Its word.
    pub fn word(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(verb, ..)| *verb == self)
            .map_or("", |(_, word, ..)| word)
    }

    /// Where it makes sense.
    pub fn group(self) -> Group {
        let mut all = Self::ALL.iter();
        all.find(|(verb, ..)| *verb == self)
            .map_or(Group::Any, |(_, _, group, _)| *group)
    }

    /// Whether it is a fault.
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Kill | Self::Clock)
            || matches!(self.group(), Group::Drive | Group::Network | Group::Serve)
                && self != Self::Plug
    }
}

/// A step: what it does, with three numbers that each verb reads in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub verb: Verb,
    /// Its numbers.
    pub numbers: [u32; 3],
    /// The seed of its random numbers.
    pub salt: u32,
}

/// A world and what happens in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The world.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<Step>,
}

/// Steps of a script.
const STEPS: u64 = 60;

impl Script {
    /// The script of a seed.
    pub fn new(seed: u64, only: Option<Only>) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let setup = Setup::new(only, random.u64(..));
        let verbs: Vec<_> = Verb::ALL
            .iter()
            .filter(|(_, _, group, _)| setup.has(*group))
            .collect();
        // Some runs have few faults, and some have many.
        let faults_in_four = random.u64(0..4);
        let weight = |verb: Verb, weight: u64| {
            let share = if verb.is_fault() { faults_in_four } else { 2 };
            let is_rare = setup.only == Only::Ring && verb.group() == Group::Volume;
            weight * share * setup.favours(verb) * if is_rare { 1 } else { 3 }
        };
        let total: u64 = verbs
            .iter()
            .map(|(verb, .., each)| weight(*verb, *each))
            .sum();
        let count = 1 + random.u64(0..STEPS);
        let steps = (0..count).map(|_| {
            let mut at = random.u64(0..total.max(1));
            let mut chosen = Verb::Idle;
            for (verb, .., each) in &verbs {
                let each = weight(*verb, *each);
                if at < each {
                    chosen = *verb;
                    break;
                }
                at -= each;
            }
            // Small numbers are as frequent as large ones.
            let mut number = || {
                let bits = random.u32(0..=12);
                random.u32(0..1 << bits)
            };
            Step {
                verb: chosen,
                numbers: [number(), number(), number()],
                salt: random.u32(..),
            }
        });
        let steps: Vec<Step> = steps.collect();
        let steps = steps.into_iter().flat_map(followed);
        let steps = steps.filter(|step| setup.has(step.verb.group())).collect();
        Self { setup, steps }
    }

    /// The shortest script that `fails` too, found by leaving out steps and by smaller numbers.
    pub fn shortened(&self, mut fails: impl FnMut(&Script) -> bool, most_runs: usize) -> Self {
        let mut best = self.clone();
        let mut runs = 0;
        let mut size = best.steps.len().div_ceil(2).max(1);
        loop {
            let before = best.steps.len();
            let mut at = best.steps.len();
            while at > 0 && runs < most_runs {
                let from = at.saturating_sub(size);
                let mut tried = best.clone();
                tried.steps.drain(from..at);
                runs += 1;
                if fails(&tried) {
                    best = tried;
                }
                at = from.min(best.steps.len());
            }
            if runs >= most_runs || size == 1 && best.steps.len() == before {
                break;
            }
            size = (size / 2).max(1);
        }
        for index in 0..best.steps.len() {
            for number in 0..3 {
                for smaller in [|_| 0, |number: u32| number / 8, |number: u32| number / 2] {
                    let mut tried = best.clone();
                    let Some(step) = tried.steps.get_mut(index) else {
                        continue;
                    };
                    let value = &mut step.numbers[number];
                    if *value == smaller(*value) || runs >= most_runs {
                        continue;
                    }
                    *value = smaller(*value);
                    runs += 1;
                    if fails(&tried) {
                        best = tried;
                    }
                }
            }
        }
        best
    }
}

/// A fault is followed by what may meet it: writes of the same blocks, one after another or at
/// once, what is read between them, and time for the first to take effect late. Left to chance that
/// is too rare.
fn followed(step: Step) -> Vec<Step> {
    let [a, b, c] = step.numbers;
    // Unlike the numbers, of which small ones are frequent.
    let pick = |shift: u32, many: u32| (step.salt >> shift) % many;
    let verb = |verb: Verb| (verb, [0; 3]);
    let write = (Verb::Write, [a, b % 4, 1]);
    let read = (Verb::Read, [a, 0, 0]);
    let (wait, reopen) = (verb(Verb::Wait), verb(Verb::Reopen));
    // Up to 20 s.
    let idle = (
        Verb::Idle,
        [[50, 200, 600, 2000][pick(4, 4) as usize], 0, 0],
    );
    // Shorter than a keep-alive timeout.
    let moment = (Verb::Idle, [[5, 20, 60, 90][pick(8, 4) as usize], 0, 0]);
    let cut = (Verb::Cut, [0, pick(12, 12), 3]);
    let itself = (step.verb, step.numbers);
    let steps = match (step.verb, c % 8) {
        (Verb::Hold | Verb::Silence, 0) => {
            vec![itself, write, write, wait, read, wait, idle, read]
        }
        (Verb::Hold | Verb::Silence, 1) => vec![itself, write, reopen, write, wait, idle, read],
        (Verb::Hold | Verb::Silence, 2) => vec![itself, write, wait, read, wait, idle, read],
        (Verb::Hold, 3) => vec![
            itself, write, read, moment, read, moment, read, wait, write, wait, idle, read,
        ],
        (Verb::Silence, 3 | 6) => {
            let stall = (Verb::Stall, [0, pick(16, 24), 0]);
            vec![
                itself, moment, stall, write, write, wait, write, wait, idle, read,
            ]
        }
        (Verb::Silence, 4) => {
            let close = (Verb::Reset, [0, 0, 1 + pick(16, 2)]);
            vec![itself, close, write, write, wait, write, wait, idle, read]
        }
        (Verb::Silence, 5) => {
            let reset = (Verb::Reset, [0, 2, 0]);
            vec![
                itself, write, moment, reset, wait, moment, reset, write, wait, idle, read,
            ]
        }
        (Verb::Hold | Verb::Silence, _) => vec![itself, write, wait, write, wait, idle, read],
        (Verb::Reset | Verb::Restart, 1..4) => vec![itself, write, wait, write, wait, idle, read],
        // Two members fail the same write.
        (Verb::Fail, 0) => {
            let other = (Verb::Fail, [a + 1, b, 0]);
            vec![
                write, wait, itself, other, write, wait, reopen, read, wait, read,
            ]
        }
        (Verb::Fail | Verb::Unplug, 1) => vec![itself, cut, write, wait, read, wait, read],
        // What a rebuild has copied is lost again.
        (Verb::Unplug, 2..4) => {
            let plug = (Verb::Plug, [a, 0, 0]);
            vec![
                itself, write, wait, plug, reopen, cut, read, moment, write, wait, read, wait, read,
            ]
        }
        // The member that others are rebuilt from fails a write.
        (Verb::Unplug, 4..6) => {
            let plug = (Verb::Plug, [a, 0, 0]);
            let fail = (Verb::Fail, [a + 1, pick(12, 2), 0]);
            let mut steps = vec![itself, write, wait, plug, reopen, write, wait];
            steps.extend([read, wait].repeat(pick(16, 8) as usize));
            steps.extend([fail, write, wait, moment, read, wait, read]);
            steps
        }
        // A mirror that crashed is used without a member, which comes back after another crash.
        (Verb::Unplug, 6..8) => {
            let (kill, plug) = (verb(Verb::Kill), (Verb::Plug, [a, 0, 0]));
            let unplug = (Verb::Unplug, [a, 0, c]);
            vec![
                write, wait, unplug, write, kill, read, wait, plug, kill, read, wait,
            ]
        }
        // What a lost connection has at a slow drive is still there when others write its blocks.
        (Verb::Leave, 0..4) => {
            let (slow, reset) = (
                (Verb::Slow, [0, 4 + pick(12, 5), 50]),
                (Verb::Leave, [0, 1, 1]),
            );
            let (others, soon) = ((Verb::Write, [a, b % 4, 0]), (Verb::Idle, [1, 0, 0]));
            vec![
                slow, write, soon, reset, soon, others, wait, read, wait, idle, read,
            ]
        }
        // Answers that a client has not read when it leaves.
        (Verb::Deaf, 0..4) => {
            let (long, reset) = ((Verb::Read, [a, b, c]), (Verb::Leave, [0, 1, c]));
            vec![itself, long, long, moment, reset, moment, long, wait]
        }
        (Verb::Reopen, 0..4) => vec![itself, cut, write, wait, read, wait, read],
        _ => vec![itself],
    };
    let follow = |(index, (verb, numbers)): (u32, (Verb, [u32; 3]))| Step {
        verb,
        numbers,
        salt: step.salt ^ index,
    };
    (0..).zip(steps).map(follow).collect()
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "world {} {:#x}", self.setup.only, self.setup.seed)?;
        for Step {
            verb,
            numbers: [a, b, c],
            salt,
        } in &self.steps
        {
            writeln!(f, "{} {a} {b} {c} {salt:#x}", verb.word())?;
        }
        Ok(())
    }
}

fn number(word: &str) -> Result<u64, String> {
    let value = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    value.map_err(|_| format!("invalid number `{word}`"))
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        let first: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
        let ["world", only, seed] = first.as_slice() else {
            return Err("a script begins with `world KIND SEED`".to_owned());
        };
        let setup = Setup::new(Some(only.parse()?), number(seed)?);
        let mut steps = Vec::new();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [word, a, b, c, salt] = words.as_slice() else {
                return Err(format!("`{line}`: a step is a word and four numbers"));
            };
            let found = Verb::ALL.iter().find(|(_, name, ..)| name == word);
            let Some((verb, ..)) = found else {
                return Err(format!("unknown step `{word}`"));
            };
            let small = |word: &str| number(word).map(|value| value as u32);
            steps.push(Step {
                verb: *verb,
                numbers: [small(a)?, small(b)?, small(c)?],
                salt: small(salt)?,
            });
        }
        Ok(Self { setup, steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_printed_and_parsed() {
        for seed in 0..50 {
            let script = Script::new(seed, None);
            assert_eq!(script.to_string().parse(), Ok(script));
        }
        for bad in [
            "",
            "world x 1",
            "world volume 1\nfly 1 2 3 4",
            "world volume 1\nput 1",
        ] {
            assert!(bad.parse::<Script>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_script_is_shortened_to_what_matters() {
        let mut script = Script::new(3, Some(Only::Volume));
        script.steps = (0..40)
            .map(|index| Step {
                verb: Verb::Get,
                numbers: [index, 4000, 5],
                salt: index,
            })
            .collect();
        let has = |script: &Script, salt| script.steps.iter().any(|step| step.salt == salt);
        let fails = |script: &Script| has(script, 7) && has(script, 31);
        let short = script.shortened(fails, 500);
        assert_eq!(short.steps.len(), 2);
        assert_eq!(short.steps[0].numbers, [0, 0, 0]);
    }
}
