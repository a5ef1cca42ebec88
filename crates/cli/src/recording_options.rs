// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of recordings, for the parser.

use clap::{Args, ValueEnum};
use files::Checksums;
use formats::samples::{Datatype, Hertz};
use formats::{Format, SigmfOptions};
use recorder::record::Policy;
use recorder::segments::{Limit, Segmentation};
use units::Size;

/// What other tools take a recording for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatOption {
    /// Bytes
    Raw,
    /// Samples of a radio
    Sigmf,
    /// Messages of a robot, as ROS 2 stores them
    Mcap,
    /// Datagrams with their arrival times
    Pcapng,
}

impl From<FormatOption> for Format {
    fn from(option: FormatOption) -> Self {
        match option {
            FormatOption::Raw => Self::Raw,
            FormatOption::Sigmf => Self::Sigmf,
            FormatOption::Mcap => Self::Mcap,
            FormatOption::Pcapng => Self::Pcapng,
        }
    }
}

/// What SigMF's metadata says.
#[derive(Clone, Debug, Args)]
pub struct SigmfArgs {
    /// SigMF: type of a sample: ci16_le, cu8, rf32_le
    #[arg(long, value_name = "TYPE")]
    pub sigmf_datatype: Option<Datatype>,
    /// SigMF: samples per second: 2400000, 2.4M
    #[arg(long, value_name = "HZ")]
    pub sample_rate: Option<Hertz>,
    /// SigMF: the centre frequency: 433.92M
    #[arg(long, value_name = "HZ")]
    pub frequency: Option<Hertz>,
    /// SigMF: channels whose samples alternate [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub channels: Option<u16>,
    /// SigMF: the receiver, in words
    #[arg(long, value_name = "TEXT")]
    pub hardware: Option<String>,
}

impl SigmfArgs {
    /// Without the parser.
    pub fn plain(&self) -> SigmfOptions {
        SigmfOptions {
            datatype: self.sigmf_datatype.clone(),
            sample_rate: self.sample_rate,
            frequency: self.frequency,
            channels: self.channels,
            hardware: self.hardware.clone(),
        }
    }
}

/// What happens to a block if no buffer is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyOption {
    /// The recording ends; the blocks before it are kept
    Stop,
    /// The block is dropped, and NAME.gaps records where and how much
    Drop,
}

impl From<PolicyOption> for Policy {
    fn from(option: PolicyOption) -> Self {
        match option {
            PolicyOption::Stop => Self::Stop,
            PolicyOption::Drop => Self::Drop,
        }
    }
}

/// The options of a recording in segments.
#[derive(Clone, Debug, Args)]
pub struct SegmentArgs {
    /// Begin another file at this size, or after this time: 1G, 60s
    #[arg(long, value_name = "SIZE|TIME")]
    pub segment: Option<Limit>,
    /// Remove the oldest segments, so that all of them together have at most this size
    #[arg(long, value_name = "SIZE", requires = "segment")]
    pub keep: Option<Size>,
}

impl SegmentArgs {
    /// Without the parser.
    pub const fn plain(&self) -> Segmentation {
        Segmentation {
            segment: self.segment,
            keep: self.keep,
        }
    }
}

/// The options of verbs that create a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct ChecksumArgs {
    /// Refuse a volume that was formatted without --checksums [a new file has them if the volume
    /// does]
    #[arg(long)]
    pub checksums: bool,
    /// Store no checksums, although the volume has them
    #[arg(long, conflicts_with = "checksums")]
    pub no_checksums: bool,
}

impl ChecksumArgs {
    /// Without the parser.
    pub const fn plain(self) -> Checksums {
        Checksums {
            checksums: self.checksums,
            no_checksums: self.no_checksums,
        }
    }
}
