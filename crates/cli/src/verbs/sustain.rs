// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway sustain DEVICE`: tests whether a path sustains a rate within a deadline.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::setup::{Asked, Subject};
use bench::BenchHost;
use clap::Args;
use devices::error::{Error, Result};
use measure::sustain::{Question, Verdict, sustain};
use std::str::FromStr;
use std::time::Duration;
use units::{Size, Time};

/// Test whether a path sustains a rate, each block within its deadline.
///
/// Blocks arrive by the clock, whether or not the drive keeps up; latency counts from the intended
/// arrival. Exit status: 0 it sustains the rate, 1 it does not, 5 not enough data, or not valid:
/// other programs were busy, or the machine's settings changed.
#[derive(Clone, Debug, Args)]
pub struct Sustain {
    /// What to measure
    #[command(flatten)]
    pub subject: Subject,
    /// Bytes per second (100M), or blocks per second (500iops)
    #[arg(long, value_name = "RATE")]
    pub rate: Rate,
    /// Bytes per arrival
    #[arg(long, value_name = "SIZE")]
    pub block: Size,
    /// Time limit for a block from its intended arrival
    #[arg(long, value_name = "TIME")]
    pub deadline: Time,
    /// The operation and the path
    #[command(flatten)]
    pub asked: Asked,
    /// Duration of the measurement
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Time,
    /// Duration of the warm-up
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub warm_up: Time,
    /// Maximum number of operations in flight; pread and pwrite do one at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// The share of blocks that may miss the deadline
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    pub miss_rate: f64,
    /// Name what kept each late block, by its stamps and the kernel's counters
    #[arg(long)]
    pub why: bool,
}

fn share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("a share is between 0 and 1, as 0.001".to_owned()),
    }
}

/// A rate as the user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bytes per second.
    Bytes(u64),
    /// Blocks per second.
    Blocks(u64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let blocks = text.strip_suffix("iops").map(str::parse::<u64>);
        let rate = match blocks {
            Some(Ok(blocks)) => Rate::Blocks(blocks),
            Some(Err(_)) => return Err("write blocks per second as 500iops".to_owned()),
            None => Rate::Bytes(text.trim_end_matches("/s").parse::<Size>()?.0),
        };
        match rate {
            Rate::Bytes(0) | Rate::Blocks(0) => Err("a rate must be more than 0".to_owned()),
            rate => Ok(rate),
        }
    }
}

impl Rate {
    /// Arrivals per second of blocks of `block_bytes`.
    pub fn per_second(self, block_bytes: u64) -> f64 {
        match self {
            Rate::Bytes(bytes) => bytes as f64 / block_bytes.max(1) as f64,
            Rate::Blocks(blocks) => blocks as f64,
        }
    }
}

impl Sustain {
    /// Runs the verb.
    ///
    /// # Errors
    /// The arguments are invalid, permission is missing, or the path is not available.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.subject.saving.check(context, "sustain")?;
        if self.block.0 == 0 || self.deadline.0.is_zero() || self.duration.0.is_zero() {
            return Err(Error::usage(
                "block, deadline and duration must be more than 0",
            ));
        }
        let arrivals_per_s = self.rate.per_second(self.block.0);
        let ready = self.subject.ready(
            context,
            self.asked.wants(self.block).depth(self.queue_depth),
        )?;
        let (_, mut path) = ready.path()?;
        let seconds = (self.duration.0 + self.warm_up.0).as_secs_f64();
        context.say(format_args!(
            "{} by {}, {arrivals_per_s:.1} blocks per second, {seconds:.1} s",
            ready.request.device.name,
            path.name()
        ));
        let question = Question {
            access: self.asked.access(self.block),
            arrivals_per_s,
            deadline: self.deadline.0,
            duration: self.duration.0,
            warm_up: self.warm_up.0.min(Duration::from_secs(3600)),
            queue_depth: self.queue_depth,
            span_bytes: ready.bench.plan.span_bytes,
            miss_rate: self.miss_rate,
            why: self.why,
        };
        let mut host = BenchHost::new(&ready.bench);
        let cancel = context.cancel.flag();
        let (answer, samples) =
            sustain(&mut host, path.as_mut(), &ready.request, &question, cancel)
                .map_err(bench::failed)?;
        let files = [("samples.csv", samples.to_csv())];
        self.subject.saving.leave(context, &answer, &files)?;
        if answer.misses > answer.errors && !self.why && answer.verdict != Verdict::CannotTell {
            context.say("--why names what kept the late blocks");
        }
        match answer.verdict {
            Verdict::Sustains => Ok(Exit::Done),
            Verdict::DoesNot => Ok(Exit::No),
            Verdict::NotEnoughData => Ok(Exit::Invalid),
            Verdict::CannotTell => Err(Error::invalid(&answer.run.invalid_reasons)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units_and_are_never_guessed() {
        let rate = |text: &str| text.parse::<Rate>().ok();
        assert_eq!(rate("100M"), Some(Rate::Bytes(100 << 20)));
        assert_eq!(rate("100MB/s"), Some(Rate::Bytes(100_000_000)));
        assert_eq!(rate("500iops"), Some(Rate::Blocks(500)));
        for text in ["", "0", "0iops", "-1", "5x", "iops", "1e3", "4q", "12 iops"] {
            assert_eq!(rate(text), None, "{text}");
        }
        assert_eq!(Rate::Bytes(1 << 20).per_second(4096), 256.0);
    }
}
