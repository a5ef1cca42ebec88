//! The options that describe a recording to other tools.

use crate::formats::samples::{Datatype, Hertz};
use clap::{Args, ValueEnum};
use devices::failure::{Failure, Result};

/// What other tools take a recording for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Bytes
    #[default]
    Raw,
    /// Samples of a radio
    Sigmf,
    /// Messages of a robot, as ROS 2 stores them
    Mcap,
    /// Datagrams with their arrival times
    Pcapng,
}

impl Format {
    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sigmf => "sigmf",
            Self::Mcap => "mcap",
            Self::Pcapng => "pcapng",
        }
    }
}

/// What SigMF's metadata says.
#[derive(Clone, Debug, Default, Args)]
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
    /// Refuses options that another format has no use for.
    ///
    /// # Errors
    /// One of them is given.
    pub fn refuse(&self) -> Result<()> {
        let given = [
            ("--sigmf-datatype", self.sigmf_datatype.is_some()),
            ("--sample-rate", self.sample_rate.is_some()),
            ("--frequency", self.frequency.is_some()),
            ("--channels", self.channels.is_some()),
            ("--hardware", self.hardware.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} is for --format sigmf"))
                    .hint("--format sigmf"))
            }
            None => Ok(()),
        }
    }
}
