// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a [`CrashDisk`](crate::CrashDisk): its limits, its features, and how it
//! completes requests.

use block::Features;

/// In which order requests complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completions {
    /// As submitted.
    InOrder,
    /// In an order given by this seed; each is held for a number of polls up to
    /// [`Config::hold_polls`], also given by the seed.
    Shuffled(u64),
}

/// What discarded blocks read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// Zeroes.
    Zeroes,
    /// A pattern given by this seed. Each discarded block is then held in memory.
    Garbage(u64),
    /// Their old content: a discard has no effect.
    Kept,
}

/// The configuration of a [`CrashDisk`](crate::CrashDisk).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many requests may be outstanding.
    pub queue_depth: u16,
    /// The longest read or write of one request.
    pub max_transfer_blocks: u32,
    /// What it can do. Without `volatile_write_cache` a write is durable when it completes.
    pub features: Features,
    /// In which order requests complete.
    pub completions: Completions,
    /// For how many polls after the kick a request is held back, so that several are in flight.
    pub hold_polls: u32,
    /// What discarded blocks read as.
    pub discarded: Discarded,
}

impl Default for Config {
    /// A queue of 32, everything supported, completions in order and immediate.
    fn default() -> Self {
        Self {
            queue_depth: 32,
            max_transfer_blocks: 256,
            features: Features {
                volatile_write_cache: true,
                fua: true,
                discard: true,
                write_zeroes: true,
                read_only: false,
            },
            completions: Completions::InOrder,
            hold_polls: 0,
            discarded: Discarded::Zeroes,
        }
    }
}
