// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worlds: which devices there are, and what is done with them.

use crate::script::{Group, Verb};
use block::Features;
use std::fmt;
use std::str::FromStr;

macro_rules! kinds {
    ($($name:ident $word:literal $text:literal,)*) => {
        /// What a run is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Only {
            $(
                #[doc = $text]
                $name,
            )*
        }

        impl Only {
            /// Each with its word and what it is.
            pub const ALL: &[(Only, &str, &str)] = &[$((Only::$name, $word, $text),)*];
        }
    };
}

kinds! {
    Volume "volume" "Files on a volume on a drive.",
    Arrays "arrays" "Files on a volume on a mirror or stripes.",
    Recorder "recorder" "Files and recordings on a volume on a drive.",
    Ring "ring" "Recordings on a small volume, which is often full.",
    Growth "growth" "Many files on a volume with a small slot table, which grows.",
    Mirror "mirror" "Blocks of a mirror.",
    Stripe "stripe" "Blocks of stripes.",
    Network "network" "Blocks of a namespace of an NVMe/TCP target.",
    Split "split" "Blocks of a mirror of a drive and a namespace of an NVMe/TCP target.",
    Remote "remote" "Files on a volume on a namespace of an NVMe/TCP target.",
    Serve "serve" "Clients of an NBD server of a drive.",
}

impl Only {
    /// Whether the user is a volume.
    const fn has_volume(self) -> bool {
        !matches!(
            self,
            Self::Mirror | Self::Stripe | Self::Network | Self::Split | Self::Serve
        )
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Self::ALL.iter();
        f.write_str(all.find(|(only, ..)| only == self).map_or("", |one| one.1))
    }
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::ALL.iter().find(|(_, word, _)| *word == text) {
            Some((only, ..)) => Ok(*only),
            None => {
                let words: Vec<&str> = Self::ALL.iter().map(|one| one.1).collect();
                Err(format!(
                    "unknown kind `{text}`: one of {}",
                    words.join(", ")
                ))
            }
        }
    }
}

/// What is below the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// A drive.
    Drive,
    /// Copies on so many drives.
    Mirror(u64),
    /// Stripes of so many drives.
    Stripe(u64),
    /// A drive of an NVMe/TCP target.
    Remote,
    /// Copies on a drive of an NVMe/TCP target and on one of the machine.
    Split,
}

/// A world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What it is about.
    pub only: Only,
    /// Decides the rest.
    pub seed: u64,
    /// The devices.
    pub stack: Stack,
    /// A drive's blocks.
    pub block_count: u64,
    /// What a drive can do.
    pub features: Features,
    /// Requests in flight.
    pub queue_depth: u16,
    /// A volume's unit.
    pub unit_bytes: u64,
    /// Whether files may have checksums.
    pub checksums: bool,
    /// Sources burst, drives are slow more often, and their requests fail later.
    pub is_hasty: bool,
}

impl Setup {
    /// The world of a seed.
    pub fn new(only: Option<Only>, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let chosen = Only::ALL[random.usize(0..Only::ALL.len())].0;
        let only = only.unwrap_or(chosen);
        let (odd, members) = (random.bool(), 2 + random.u64(0..2));
        let stack = match only {
            Only::Volume | Only::Recorder | Only::Ring | Only::Growth | Only::Serve => Stack::Drive,
            Only::Mirror => Stack::Mirror(members),
            Only::Stripe => Stack::Stripe(members),
            Only::Network | Only::Remote => Stack::Remote,
            Only::Split => Stack::Split,
            Only::Arrays if odd => Stack::Stripe(members),
            Only::Arrays => Stack::Mirror(members),
        };
        let has_blocks = !only.has_volume();
        // A mirror is rebuilt in a short time, and a volume is soon full.
        let block_count = match only {
            // One has a volume in one of three runs.
            Only::Serve => 4096 + random.u64(0..1024),
            _ if has_blocks => 256 + random.u64(0..512),
            Only::Ring => 1536 + random.u64(0..2048),
            _ => 4096 + random.u64(0..8192),
        };
        Self {
            only,
            seed,
            stack,
            block_count,
            features: Features {
                volatile_write_cache: random.u64(0..4) != 0,
                fua: random.u64(0..4) != 0,
                discard: random.bool(),
                write_zeroes: random.bool(),
                read_only: false,
            },
            queue_depth: [1, 2, 8, 32][random.usize(0..4)],
            // A bucket of the table takes several units, or a part of one.
            unit_bytes: match only {
                Only::Growth => 1024 << random.u64(0..5),
                _ => 4096 << random.u64(0..3),
            },
            checksums: random.bool(),
            is_hasty: random.bool(),
        }
    }

    /// Whether the user is a volume.
    pub const fn has_volume(&self) -> bool {
        self.only.has_volume()
    }

    /// Whether recordings are made.
    pub const fn has_recordings(&self) -> bool {
        matches!(self.only, Only::Recorder | Only::Ring)
    }

    /// Slots of a volume.
    pub const fn slots(&self) -> u32 {
        match self.only {
            Only::Recorder => 512,
            Only::Ring => 48,
            Only::Growth => 8,
            _ => 64,
        }
    }

    /// Names of files that are used.
    pub const fn names(&self) -> u32 {
        match self.only {
            Only::Growth => 96,
            _ => 10,
        }
    }

    /// The longest file of one request.
    pub const fn most_bytes(&self) -> u64 {
        match self.only {
            Only::Growth => 6000,
            _ => u64::MAX,
        }
    }

    /// How much more frequent a step is than its weight says.
    pub const fn favours(&self, verb: Verb) -> u64 {
        match (self.only, verb) {
            (Only::Growth, Verb::Batch) => 6,
            (Only::Growth, Verb::Put | Verb::Move) => 3,
            // A commit meets more that is under way, and a cut what it left.
            (Only::Ring, Verb::Slow) if self.is_hasty => 4,
            (Only::Ring, Verb::Cut | Verb::Commit) if self.is_hasty => 2,
            _ => 1,
        }
    }

    /// Whether a step makes sense.
    pub fn has(&self, group: Group) -> bool {
        match group {
            Group::Volume => self.has_volume(),
            Group::Record => self.has_recordings(),
            Group::Growth => self.only == Only::Growth,
            Group::Blocks => !self.has_volume(),
            Group::Serve => self.only == Only::Serve,
            Group::Any => true,
            Group::Drive => self.stack != Stack::Remote,
            Group::Network => matches!(self.stack, Stack::Remote | Stack::Split),
        }
    }
}
