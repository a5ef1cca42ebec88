// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway record DEVICE NAME`: records a stream into a volume, at its rate, with deadlines.

use crate::Context;
use crate::console::Console;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use crate::recording_options::{ChecksumArgs, FormatOption, PolicyOption, SegmentArgs, SigmfArgs};
use clap::Args;
use devices::error::{Error, ErrorKind, Result};
use files::shown;
use recorder::manager::Manager;
use recorder::place::From;
use recorder::record::{Policy, RecordSettings};
use recorder::recording::Acknowledge;
use recorder::report::RecordedFile;
use recorder::segments::files::gaps_name;
use std::sync::Arc;
use units::{Size, Time, interval_ms, rate};

/// Record a stream into a volume at its rate.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
SOURCE is stdin, a file, pattern (each eight bytes hold their own offset), udp://ADDR:PORT (bound
there) or tcp://ADDR:PORT (listens there for one sender, and for another when it has left; with --once it ends
then). With --format sigmf or mcap another sender is another recording: with --segment it begins the next segment, with
a report of its own and --acknowledge from 0, and until it comes the volume is free for other processes; without,
the first one ends the recording. A file and the pattern need a --rate: block
n arrives n block times after the start. Blocks of other sources arrive when they are read, with a
--rate not earlier than it allows. The deadline counts from the arrival, so that a lag is noticed.

The recording ends with --size, --for, the source, or Ctrl-C, and is then durable. If not one byte came, nothing is
stored, and the exit status is 1, or 0 where a signal ended it; --for also ends the wait for a sender. It is also
made durable every --commit-bytes and --commit-interval; a power cut loses only data after the last
such commit, and --acknowledge prints each commit. A block that is not full after --commit-interval
is written as far as it is, in multiples of 4 KiB, so a slow stream is durable within two intervals,
but for its last bytes; not with a --rate, on a coprocessor, or for samples with --policy drop.

With --append a recording goes on at the end of NAME, after a power cut for example; --size and --for are
what is added. A NAME that does not exist is made. One that is MCAP, pcapng or described as SigMF goes on as that,
with or without --format. While it records, ls, stat, df, get, cat and
export in other processes see what is committed, and get --follow sees it grow.

With --policy drop, NAME.gaps has a line of 64 bytes for each gap: the offset in NAME before which
bytes are missing, their number, the arrival time of the first of them (in us, since the first block
of the recording, or of its continuation), and 1; then # and the CRC32C of the bytes before it, which shows damage;
lists of older versions have none, which export and check say. A gap's line is durable before any byte after it. With 0
missing bytes it says that the recording goes on there; lines before it with a larger offset are of bytes
that a power cut took. Exit status 7 means that deadlines were missed, or blocks or datagrams were lost; the first loss is
said at once, others at most once a minute.

In NAME, %Y %m %d %H %M %S are the time (UTC) and %% is a %. With --segment the recording goes on in
another file, without a pause, each time one has this size or took this time. %n is the file's
number, and has no digit but 0 before it; without it, .%n is added: NAME.000001. Numbers continue those of the files that the volume
has. Each file has its own NAME.gaps. With --keep the oldest files of this form, those of earlier
recordings too, are removed so that all of them have at most this size, or when the volume is full:
a ring. The next file is made before the current one is full, so what is whole is down to --keep less one file.
A ring removes only what a recording made: files of this form that were put stay, and are named. If the drive is too busy to make the next file in time, the current one becomes longer. --keep may be
more than is free: a ring ends for want of space only if none of its files is left to remove.

--rehearse writes at the --rate, with the same blocks, buffers, deadline and commits, and says whether
anything would be lost, and apart whether blocks were later than the deadline; how many buffers were
enough, how long the drive stalled, and how long the free space lasts. The exit status is 7 if something
would be lost, or a --deadline that was given was missed. A rehearsal that is killed leaves rehearsal~ behind.

On a volume that was formatted with --checksums the recording has a checksum for each 64 KiB, unless
--no-checksums is given. NAME.gaps has none but those of its lines.

--format sigmf first stores NAME.sigmf-meta, which describes the samples: a power cut leaves none without
it. With --append it has another capture, with the time and the --frequency of what is added; the other
options may be left out. --format mcap refuses a stream that is not MCAP. With --append, or in further segments,
another stream begins, and NAME.gaps has a line with 0 missing bytes there. Both describe all segments of a
--segment together: export DEVICE 'NAME.0*' FILE, or one segment. With --keep the segment that is now the oldest gets
the description before the one in front of it is removed, as NAME.000002.sigmf-meta. MCAP has no --keep: its channels
are named once, at the beginning, which a ring removes. --format pcapng records datagrams as packets with
their senders, destinations and the kernel's arrival times, which Wireshark and tcpdump read; no packet crosses the
border of a block, so every segment, and what a power cut leaves, is whole. A datagram that is longer than a block is cut.
What was dropped by the kernel is counted in the file. straightway export makes files for
other tools.

A coprocessor records streams itself, with at most 15 buffers in the shared memory; with
--path coprocessor, a --mode, --no-fua or more buffers this processor records them, by writing blocks.")]
pub struct Record {
    /// The device with the volume
    pub device: String,
    /// The recording's name in the volume: 1 to 255 bytes; %Y%m%d-%H%M%S is the time
    pub name: String,
    /// Bytes per second: 20M, 4.8MB [default: the rate of described samples]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Size>,
    /// Time limit for writing a block after its arrival [default: 100ms]
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<Time>,
    /// Size of a block and of a buffer [default: 1M, or the most below it that has whole samples]
    #[arg(long = "block", value_name = "SIZE")]
    pub given_block: Option<Size>,
    /// Number of buffers [default: 16, or 15 if a coprocessor records]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub buffers: Option<u16>,
    /// How long to record
    #[arg(long = "for", value_name = "TIME")]
    pub for_time: Option<Time>,
    /// How much to record; its space is reserved at the beginning
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Go on at the end of NAME, if the volume has it
    #[arg(long, conflicts_with_all = ["segment", "rehearse"])]
    pub append: bool,
    /// Where to record from
    #[arg(long, value_name = "SOURCE", default_value = "stdin")]
    pub from: From,
    /// End when the sender of a tcp:// source leaves, instead of listening again; for samples and
    /// messages without --segment it does
    #[arg(long)]
    pub once: bool,
    /// What happens to a block if no buffer is empty
    #[arg(long, value_enum, default_value = "stop")]
    pub policy: PolicyOption,
    /// Make the recording durable each time this many bytes are written
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub commit_bytes: Size,
    /// Make the recording durable this long after a byte was written: 200ms, 1s
    #[arg(long = "commit-interval", alias = "commit-ms", value_name = "TIME", default_value = "1s", value_parser = interval_ms)]
    pub commit_ms: u32,
    /// Record the pattern for this time instead, remove it, and tell whether the drive holds the
    /// rate
    #[arg(long, value_name = "TIME", conflicts_with = "acknowledge")]
    pub rehearse: Option<Time>,
    /// What it is for other tools, for `export`; the stream itself is stored unchanged
    #[arg(long, value_enum, default_value = "raw")]
    pub format: FormatOption,
    /// What SigMF says of samples
    #[command(flatten)]
    pub sigmf: SigmfArgs,
    /// Segments
    #[command(flatten)]
    pub segments: SegmentArgs,
    /// Checksums of the recording
    #[command(flatten)]
    pub checksums: ChecksumArgs,
    /// Print a line `durable BYTES` to standard output whenever more is durable
    #[arg(long, conflicts_with = "json")]
    pub acknowledge: bool,
    /// Flush instead of using force unit access: for drives that accept its flag and ignore it
    #[arg(long)]
    pub no_fua: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Record {
    /// Runs the verb.
    ///
    /// # Errors
    /// The source, the device or the volume failed, or the drive did not keep up.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = self.settings();
        if let Some(time) = self.rehearse {
            return self.run_rehearsal(context, &settings, time);
        }
        let drops = settings.policy == Policy::Drop;
        let mut each = |report: &RecordedFile| {
            if self.json {
                return context.console.json(report);
            }
            let gaps = drops.then(|| gaps_name(&report.counted.name));
            report.say(&context.progress, gaps.as_deref());
            Ok(())
        };
        if settings.record(context, &mut each)? {
            Ok(Exit::Done)
        } else {
            late(context, "recording", &self.name)
        }
    }

    fn run_rehearsal(
        &self,
        context: &Context,
        settings: &RecordSettings,
        time: Time,
    ) -> Result<Exit> {
        let (mut report, found) = settings.rehearse(context, time)?;
        let holds = found.holds;
        if self.json {
            report.rehearsal = Some(found);
            context.console.json(&report)?;
        } else {
            let verdict = report.verdict(&found).word(context.wording, None);
            context.console.print_outcome(&format!("{verdict}\n"))?;
        }
        if holds {
            Ok(Exit::Done)
        } else {
            late(context, "rehearsing", &self.name)
        }
    }

    fn settings(&self) -> RecordSettings {
        let usual = RecordSettings::new("", "");
        RecordSettings {
            device: self.device.clone(),
            name: self.name.clone(),
            rate: self.rate,
            deadline: self.deadline.unwrap_or(usual.deadline),
            has_deadline: self.deadline.is_some(),
            given_block: self.given_block,
            block: self.given_block.unwrap_or(RecordSettings::USUAL_BLOCK),
            buffers: self.buffers,
            for_time: self.for_time,
            size: self.size,
            append: self.append,
            from: self.from.clone(),
            once: self.once,
            policy: self.policy.into(),
            commit_bytes: self.commit_bytes,
            commit_ms: self.commit_ms,
            format: self.format.into(),
            sigmf: self.sigmf.plain(),
            segments: self.segments.plain(),
            checksums: self.checksums.plain(),
            acknowledge: self.acknowledge.then_some(print_durable as Acknowledge),
            manager: Manager::of_environment().map(Arc::new),
            no_fua: self.no_fua,
            route: *self.route,
        }
    }
}

/// The status of what was late, or lost something. `--quiet` prints no report that says so.
///
/// # Errors
/// The same, in words.
pub fn late(context: &Context, doing: &str, name: &str) -> Result<Exit> {
    if !context.console.quiet {
        return Ok(Exit::Late);
    }
    let what = format!(
        "{doing} `{}`: deadlines were missed, or something was lost",
        shown(name)
    );
    Err(Error::new(ErrorKind::Late, what).hint("without --quiet, or with --json, it says what"))
}

/// `--acknowledge`: a line for each commit.
///
/// # Errors
/// Standard output was closed.
fn print_durable(durable_bytes: u64) -> Result<()> {
    Console::default().print(&format!("durable {durable_bytes}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::play::Play;
    use clap::{Command, FromArgMatches};
    use recorder::play::PlaySettings;

    fn parsed<T: Args + FromArgMatches>() -> T {
        let command = T::augment_args(Command::new("verb"));
        let matches = command.try_get_matches_from(["verb", "ram:1M", "run"]);
        T::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_given_is_the_library_s_default() {
        let record = format!("{:?}", parsed::<Record>().settings());
        let usual = format!("{:?}", RecordSettings::new("ram:1M", "run"));
        assert_eq!(record, usual);
        let play = format!("{:?}", parsed::<Play>().settings());
        assert_eq!(play, format!("{:?}", PlaySettings::new("ram:1M", "run")));
    }
}
