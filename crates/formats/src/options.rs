// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The formats, and what describes a recording of samples.

use crate::samples::{Datatype, Hertz};

/// What other tools take a recording for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Bytes.
    #[default]
    Raw,
    /// Samples of a radio.
    Sigmf,
    /// Messages of a robot, as ROS 2 stores them.
    Mcap,
    /// Datagrams with their arrival times.
    Pcapng,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Sigmf, Self::Mcap, Self::Pcapng];

    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sigmf => "sigmf",
            Self::Mcap => "mcap",
            Self::Pcapng => "pcapng",
        }
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// What SigMF's metadata says of samples.
#[derive(Clone, Debug, Default)]
pub struct SigmfOptions {
    /// Type of a sample: `ci16_le`, `cu8`, `rf32_le`.
    pub datatype: Option<Datatype>,
    /// Samples per second.
    pub sample_rate: Option<Hertz>,
    /// The centre frequency.
    pub frequency: Option<Hertz>,
    /// Channels whose samples alternate; 1 if not given.
    pub channels: Option<u16>,
    /// The receiver, in words.
    pub hardware: Option<String>,
}
