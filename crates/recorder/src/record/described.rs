// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `record` stores beside a recording, or asks of its source, so that `export` can make a file
//! for other tools of it.
//!
//! The stream itself is stored unchanged in every format but pcapng, in which datagrams become
//! packets. Commits do not fall on borders of MCAP's chunks: a commit covers whole blocks, chunks
//! end anywhere in them, and the export needs no border.

use super::{Policy, RecordSettings};
use crate::format_failed;
use crate::place::Place;
use crate::recording::gap_file_at_its_end;
use crate::report::RecordedFile;
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::numbered::Numbered;
use crate::segments::tag::{belongs, describes, has_gaps, of_list};
use crate::source::{Source, Stream};
use crate::volume_host::VolumeHost;
use devices::Bar;
use devices::Context;
use devices::error::{Error, ErrorKind as ErrorKindOf, Result};
use devices::transfer::Span;
use files::drain::{Part, drain};
use files::flow::Sums;
use files::names::check_name;
use files::names::replace;
use files::names::unfinished_name;
use files::{Mounted, failed, now_ns, shown};
use formats::gaps::{self, MAX_GAPS_BYTES};
use formats::mcap::MAGIC;
use formats::pcapng;
use formats::sigmf::{MAX_META_BYTES, Metadata, meta_name};
use formats::{Format, SigmfOptions};
use remedy::{Remedy, Setting, Value, Words, words};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use stream::{GAP_LINE_BYTES, Gap, GapFile};
use units::Size;
use volume::blocking;

/// Bytes that show the format of a file.
const MAGIC_BYTES: u64 = 8;
/// What is said of a stream that is not MCAP.
const NOT_MCAP: &str = "it is not MCAP: it does not begin with MCAP's magic number";

impl RecordSettings {
    /// Makes all checks of the format that need no device. What a program drops are whole messages,
    /// not blocks.
    pub(super) fn check_format(&self, drops_messages: bool) -> Result<()> {
        if self.format != Format::Sigmf {
            refuse_samples(&self.sigmf)?;
        }
        let refused = |what: Words, hint: Remedy| {
            let what = words![Setting::Format, format!(" {} ", self.format.name()), what];
            Err(Error::usage(what).hint(hint))
        };
        if self.format == Format::Raw {
            return Ok(());
        }
        if self.format == Format::Pcapng {
            return match &self.from.0 {
                Place::Udp(_) => Ok(()),
                _ => refused(
                    "needs datagrams".into(),
                    Setting::From.to(Value::choice("udp://ADDR:PORT")),
                ),
            };
        }
        match self.format {
            Format::Raw | Format::Pcapng => Ok(()),
            Format::Sigmf => {
                check_name(&meta_name(&self.name)).map_err(|failure| {
                    failure.and(words![
                        "with ",
                        Setting::Format,
                        " sigmf, NAME.sigmf-meta must also be a valid name"
                    ])
                })?;
                if self.append {
                    // What it goes on with may say it.
                    Ok(())
                } else {
                    self.check_samples(&Metadata::new(&self.sigmf, 0).map_err(format_failed)?)
                }
            }
            Format::Mcap if self.segments.keep.is_some() => refused(
                words![
                    "needs the channels at its beginning, which ",
                    Setting::Keep,
                    " removes"
                ],
                words![Setting::Segment, " without ", Setting::Keep].into(),
            ),
            Format::Mcap if self.policy == Policy::Drop && !drops_messages => refused(
                words![
                    "cannot go on behind a dropped block, without ",
                    Setting::Policy,
                    " drop"
                ],
                words![
                    Setting::Policy.to("stop"),
                    ", with ",
                    Remedy::More(Setting::Buffers)
                ]
                .into(),
            ),
            Format::Mcap => match &self.from.0 {
                Place::Pattern | Place::Udp(_) => refused(
                    "needs a stream of MCAP".into(),
                    Setting::From.to(Value::choice("stdin, a file or tcp://ADDR:PORT")),
                ),
                _ => Ok(()),
            },
        }
    }

    /// The same in blocks of whole samples, if the size of a block was not given.
    pub(super) fn with_whole_samples(self) -> Self {
        let metadata = match self.format {
            Format::Sigmf => Metadata::new(&self.sigmf, 0).ok(),
            _ => None,
        };
        self.in_blocks_of(metadata.as_ref())
    }

    /// Bytes per second of the samples that are described, rounded up.
    pub(super) fn rate_of_samples(&self) -> Option<Size> {
        let hertz = self.sigmf.sample_rate?.0;
        if self.format != Format::Sigmf || !(hertz.is_finite() && hertz > 0.0) {
            return None;
        }
        let metadata = Metadata::new(&self.sigmf, 0).ok()?;
        Some(Size((hertz * metadata.sample_bytes as f64).ceil() as u64))
    }

    /// The same in blocks that fit the samples with which it goes on.
    pub(super) fn with_blocks_of(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
    ) -> Result<Self> {
        let meta = meta_name(&self.name);
        let stored = match check_name(&meta) {
            Ok(()) if self.given_block.is_none() => stored_description(host, &self.name, &meta)?,
            _ => None,
        };
        let metadata = match stored {
            Some(stored) => {
                let bytes = read_small(context, host, &stored, MAX_META_BYTES)?;
                Metadata::parse(&stored, &bytes).ok()
            }
            None => None,
        };
        Ok(self.clone().in_blocks_of(metadata.as_ref()))
    }

    /// The same in the format of the file that it goes on with, which its first bytes show: bytes
    /// added to a container would be no part of it.
    pub(super) fn in_format_of(
        self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        drops_messages: bool,
    ) -> Result<Self> {
        let size_bytes = host.find(&self.name)?.map_or(0, |entry| entry.size_bytes);
        let meta = meta_name(&self.name);
        let is_described =
            check_name(&meta).is_ok() && stored_description(host, &self.name, &meta)?.is_some();
        if size_bytes == 0 || is_described {
            return Ok(self);
        }
        let begin = read_from(context, host, &self.name, 0, size_bytes.min(MAGIC_BYTES))?;
        let stored = match begin.as_slice() {
            begin if begin.starts_with(&MAGIC) => Format::Mcap,
            begin if begin.starts_with(&pcapng::MAGIC) => Format::Pcapng,
            _ => Format::Raw,
        };
        let nothing = |failure: Error| failure.and("nothing was recorded");
        match (self.format, stored) {
            (asked, stored) if asked == stored => Ok(self),
            (Format::Raw, stored) => {
                context.say(words![
                    format!(
                        "`{}` is {}: it goes on as with ",
                        shown(&self.name),
                        stored.name()
                    ),
                    Setting::Format.to(stored.name())
                ]);
                let same = Self {
                    format: stored,
                    ..self
                };
                same.check_format(drops_messages).map_err(nothing)?;
                Ok(same)
            }
            // What is missing is its description.
            (Format::Sigmf, Format::Raw) => Ok(self),
            (asked, stored) => {
                let what = match stored {
                    Format::Raw => {
                        format!("`{}` does not begin as {}", shown(&self.name), asked.name())
                    }
                    _ => format!(
                        "`{}` is {}, not {}",
                        shown(&self.name),
                        stored.name(),
                        asked.name()
                    ),
                };
                let hint = Remedy::one_of([
                    Remedy::omit([Setting::Format]),
                    Remedy::from("record under another NAME"),
                ]);
                Err(nothing(Error::usage(what).hint(hint)))
            }
        }
    }

    fn in_blocks_of(self, metadata: Option<&Metadata>) -> Self {
        let Some(metadata) = metadata.filter(|_| self.given_block.is_none()) else {
            return self;
        };
        // Whole units of all devices, too.
        let unit = 4096 * metadata.sample_bytes;
        if self.block.0 % metadata.sample_bytes == 0 || unit > self.block.0 {
            self
        } else {
            Self {
                block: Size(self.block.0 - self.block.0 % unit),
                ..self
            }
        }
    }

    /// Refuses blocks that end inside a sample.
    fn check_samples(&self, metadata: &Metadata) -> Result<()> {
        let sample_bytes = metadata.sample_bytes;
        match self.block.0 % sample_bytes {
            0 => Ok(()),
            _ => Err(Error::usage(words![Setting::Block, format!(" is {} bytes, not a multiple of the samples' {sample_bytes}; a dropped block would end inside a sample", self.block.0)])
            .hint(Setting::Block.to(Value::Number(4096 * sample_bytes)))),
        }
    }

    /// Has the companion say where the recording goes on, durably, if another stream of MCAP begins
    /// there, or if it has lines of bytes that a power cut took.
    pub(super) fn end_lines(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        (begin_bytes, app_tag): (u64, u64),
    ) -> Result<()> {
        let companion = gaps_name(&self.name);
        let is_stream = self.format == Format::Mcap && begin_bytes > 0;
        if self.policy != Policy::Drop && !is_stream {
            // Of the user, or of a file that is gone: nothing of it is this recording's.
            let own = own_list(context, host, &self.name, (begin_bytes, app_tag))?;
            if !matches!(own, Own::Lines(_)) {
                return Ok(());
            }
        }
        if is_stream || last_offset(context, host, &companion)? > begin_bytes {
            add_restart(host, &companion, begin_bytes, of_list(app_tag))
        } else {
            Ok(())
        }
    }

    const fn adds_to_list(&self) -> bool {
        matches!(self.policy, Policy::Drop) || matches!(self.format, Format::Mcap)
    }

    /// Says of what an earlier file of that name has left that it is not this recording's.
    pub(super) fn tell_left(
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        names: &[String],
    ) -> Result<()> {
        for left in names.iter().filter(|left| check_name(left).is_ok()) {
            let Some(found) = host.find(left)? else {
                continue;
            };
            // What the user has put describes what comes.
            if found.app_tag != 0 || left.ends_with(GAPS) {
                context.say(words![
                    format!(
                        "`{}` is of an earlier recording, not of this one (hint: straightway rm ",
                        shown(left)
                    ),
                    remedy::Device,
                    format!(" '{left}' removes it)")
                ]);
            }
        }
        Ok(())
    }

    /// Refuses to go on in a list of gaps that is not this file's, where the recording adds to it.
    /// Whether there is one.
    pub(super) fn refuse_other_list(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        (begin_bytes, app_tag): (u64, u64),
    ) -> Result<bool> {
        match own_list(context, host, &self.name, (begin_bytes, app_tag))? {
            Own::None if has_gaps(app_tag) && self.adds_to_list() => {
                let what = format!(
                    "`{}` is missing: something was lost in `{}`, and a new list would hide that",
                    shown(&gaps_name(&self.name)),
                    shown(&self.name)
                );
                Err(Error::new(ErrorKindOf::Late, what).hint("record under another NAME"))
            }
            Own::None => Ok(false),
            Own::Lines(_) => Ok(true),
            Own::Other if !self.adds_to_list() => Ok(false),
            Own::Other => {
                let companion = gaps_name(&self.name);
                let what = format!(
                    "`{}` is not the list of gaps of `{}`, and the recording would add to it",
                    shown(&companion),
                    shown(&self.name)
                );
                Err(Error::new(ErrorKindOf::Exists, what).hint(words![
                    "straightway mv ",
                    remedy::Device,
                    format!(" '{companion}' OTHER")
                ]))
            }
        }
    }

    /// Stores, durably, where and when samples go on: SigMF has a capture there. Refuses what does
    /// not fit the recording.
    pub(super) fn describe_more(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        begin_bytes: u64,
    ) -> Result<()> {
        let meta = meta_name(&self.name);
        let described = match check_name(&meta) {
            Ok(()) => stored_description(host, &self.name, &meta)?,
            Err(_) => None,
        };
        match (self.format, described) {
            (Format::Raw | Format::Sigmf, Some(stored)) => {
                self.go_on_with_samples(context, host, begin_bytes, &meta, &stored)
            }
            (Format::Sigmf, None) => Err(Error::usage(format!(
                "`{}` has no `{}` of its own, so nothing says what its samples are",
                shown(&self.name),
                shown(&meta)
            ))
            .hint(Remedy::one_of([
                Remedy::omit([Setting::Format]),
                Remedy::from("record under another NAME"),
            ]))),
            (Format::Mcap, Some(stored)) => Err(Error::usage(format!(
                "`{}` is described as samples by `{}`",
                shown(&self.name),
                shown(&stored)
            ))
            .hint("record under another NAME")),
            _ => Ok(()),
        }
    }

    fn go_on_with_samples(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        begin_bytes: u64,
        meta: &str,
        stored: &str,
    ) -> Result<()> {
        let bytes = read_small(context, host, stored, MAX_META_BYTES)?;
        let mut metadata = Metadata::parse(stored, &bytes).map_err(format_failed)?;
        self.check_samples(&metadata)?;
        let sample_bytes = metadata.sample_bytes;
        if begin_bytes % sample_bytes != 0 {
            let what = format!(
                "`{}` has {begin_bytes} bytes and ends inside a sample of {sample_bytes}",
                shown(&self.name)
            );
            return Err(Error::usage(what).hint("record under another NAME"));
        }
        let app_tag = host.find(&self.name)?.map_or(0, |entry| entry.app_tag);
        let own = own_list(context, host, &self.name, (begin_bytes, app_tag))?;
        let lost_bytes = match own {
            Own::Lines(gaps) => gaps::lost_bytes(&gaps),
            Own::None | Own::Other => 0,
        };
        let (sample, lost) = (begin_bytes / sample_bytes, lost_bytes / sample_bytes);
        metadata
            .go_on(&self.sigmf, sample, lost, now_ns())
            .map_err(format_failed)?;
        let new = unfinished_name(meta);
        if stored != new && host.exists(&new)? {
            Mounted::remove(host, &new)?;
        }
        if stored == new {
            // A replacement that a power cut ended: the old one is gone.
            let renaming = format!("renaming `{}`", shown(stored));
            host.run(renaming, host.volume.rename(stored, meta))?;
        }
        host.store(&new, &metadata.to_bytes(), of_list(app_tag))?;
        replace(host, &new, meta)
    }

    /// The source, if it begins as its format does. A source that is not ready yet fails when its
    /// bytes arrive.
    pub(super) fn of_format(&self, source: Source) -> Result<Source> {
        match self.format {
            Format::Pcapng => return source.into_packets(),
            Format::Mcap => {}
            Format::Raw | Format::Sigmf => return Ok(source),
        }
        match source {
            Source::File(file, path) => {
                let mut begin = [0; MAGIC.len()];
                let len = file.read_at(&mut begin, 0);
                let len = len.map_err(|error| Error::io("reading", &path, &error))?;
                if begin
                    .get(..len)
                    .is_some_and(|begin| MAGIC.starts_with(begin))
                {
                    Ok(Source::File(file, path))
                } else {
                    Err(Error::usage(format!(
                        "reading {}: {NOT_MCAP}; nothing was recorded",
                        path.display()
                    ))
                    .hint(if self.append {
                        "record under another NAME".into()
                    } else {
                        words!["record without ", Setting::Format]
                    }))
                }
            }
            Source::Stream(stream, name) => {
                let stream = Begun { stream, seen: 0 };
                Ok(Source::Stream(Box::new(stream), name))
            }
            other => Ok(other),
        }
    }

    /// Stores what describes the recording, durably, before its first byte, with this number of an
    /// application's. The description.
    pub(super) fn describe(
        &self,
        host: &mut impl VolumeHost,
        meta: &str,
        app_tag: u64,
    ) -> Result<Option<Metadata>> {
        if self.format != Format::Sigmf {
            return Ok(None);
        }
        let metadata = Metadata::new(&self.sigmf, now_ns()).map_err(format_failed)?;
        self.check_samples(&metadata)?;
        let stored = host.store(meta, &metadata.to_bytes(), app_tag);
        stored.map_err(|failure| {
            // One that was there is of another recording.
            if failure.kind() != ErrorKindOf::Exists {
                self.remove_description(host, meta);
            }
            failure.and("nothing was recorded")
        })?;
        Ok(Some(metadata))
    }

    /// Removes a recording that has no byte because its source was refused.
    pub(super) fn keep(
        &self,
        host: &mut impl VolumeHost,
        (report, failure): (RecordedFile, Option<Error>),
    ) -> (RecordedFile, Option<Error>) {
        let is_empty = self.format == Format::Mcap && report.counted.length_bytes == 0;
        let failure = failure.map(|failure| {
            if is_empty && host.remove(&self.name).is_ok() {
                failure.and("nothing was recorded")
            } else {
                failure
            }
        });
        (report, failure)
    }

    /// Removes it again: there is no recording.
    pub(super) fn remove_description(&self, host: &mut impl VolumeHost, meta: &str) {
        if self.format == Format::Sigmf {
            let _ = host.remove(meta);
        }
    }
}

/// Refuses what is said of samples, if another format has no use for it.
fn refuse_samples(sigmf: &SigmfOptions) -> Result<()> {
    let given = [
        (Setting::SigmfDatatype, sigmf.datatype.is_some()),
        (Setting::SampleRate, sigmf.sample_rate.is_some()),
        (Setting::Frequency, sigmf.frequency.is_some()),
        (Setting::Channels, sigmf.channels.is_some()),
        (Setting::Hardware, sigmf.hardware.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(
                Error::usage(words![option, " is for ", Setting::Format, " sigmf"])
                    .hint(Setting::Format.to("sigmf")),
            )
        }
        None => Ok(()),
    }
}

/// The file that has the description of this one: while it is replaced, the replacement.
fn stored_description(host: &mut &Mounted<'_, '_>, of: &str, meta: &str) -> Result<Option<String>> {
    let own = host.find(of)?.map_or(0, |entry| entry.app_tag);
    for name in [meta.to_owned(), unfinished_name(meta)] {
        let found = host.find(&name)?;
        if found.is_some_and(|found| describes(found.app_tag, own)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The offset of a companion's last line; 0 if there is none.
fn last_offset(context: &Context, mounted: &Mounted<'_, '_>, name: &str) -> Result<u64> {
    if check_name(name).is_err() {
        return Ok(0);
    }
    let size_bytes = mounted.find(name)?.map_or(0, |entry| entry.size_bytes);
    let whole_bytes = size_bytes - size_bytes % GAP_LINE_BYTES as u64;
    if whole_bytes == 0 {
        return Ok(0);
    }
    let block_bytes = mounted.volume.geometry().block_size_bytes() as u64;
    let from = (whole_bytes - 1) / block_bytes * block_bytes;
    let lines = read_from(context, mounted, name, from, whole_bytes)?;
    let last = lines.chunks_exact(GAP_LINE_BYTES).next_back();
    let number = whole_bytes / GAP_LINE_BYTES as u64 - 1;
    let last = last.and_then(|line| stream::parse_gap(line, number));
    Ok(last.map_or(0, |gap| gap.offset_bytes))
}

/// A file's list of gaps.
enum Own {
    /// There is none.
    None,
    /// What it lists.
    Lines(Vec<Gap>),
    /// A file of that name is another file's list, or none at all.
    Other,
}

/// The list of gaps of a file of this length and with this number for applications.
fn own_list(
    context: &Context,
    host: &mut &Mounted<'_, '_>,
    name: &str,
    (size_bytes, app_tag): (u64, u64),
) -> Result<Own> {
    let companion = gaps_name(name);
    if check_name(&companion).is_err() {
        return Ok(Own::None);
    }
    let Some(list) = host.find(&companion)? else {
        return Ok(Own::None);
    };
    let is_whole = list.size_bytes % GAP_LINE_BYTES as u64 == 0;
    if !is_whole || !belongs(list.app_tag, app_tag, Numbered::of(name).is_some()) {
        return Ok(Own::Other);
    }
    let lines = read_small(context, host, &companion, MAX_GAPS_BYTES)?;
    let lines = gaps::parse(&companion, &lines, size_bytes);
    Ok(lines.map_or(Own::Other, Own::Lines))
}

/// Adds a line to a companion that says that another stream begins there; it is made, with this
/// number, if there is none.
fn add_restart(
    host: &mut &Mounted<'_, '_>,
    name: &str,
    begin_bytes: u64,
    app_tag: u64,
) -> Result<()> {
    let Some(found) = host.find(name)? else {
        return host.store(name, &stream::restart_line(begin_bytes, 0), app_tag);
    };
    let line = stream::restart_line(begin_bytes, found.size_bytes / GAP_LINE_BYTES as u64);
    let doing = || format!("writing `{}`", shown(name));
    let file = host.run(doing(), host.volume.open_to_write(name))?;
    let GapFile {
        mut buffer,
        filled_bytes,
        ..
    } = gap_file_at_its_end(host, file)?;
    let end = filled_bytes + line.len();
    if let Some(place) = buffer.get_mut(filled_bytes..end) {
        place.copy_from_slice(&line);
    }
    let outcome = blocking::append_merged(host.volume, file, buffer, end);
    host.memory.give_back(outcome.buffer);
    let added = outcome.result.map_err(|error| failed(doing(), error));
    added.and(host.close(name, file))
}

/// The bytes of a small file.
pub(crate) fn read_small(
    context: &Context,
    mounted: &Mounted<'_, '_>,
    name: &str,
    max_bytes: u64,
) -> Result<Vec<u8>> {
    let Some(entry) = mounted.find(name)? else {
        return Ok(Vec::new());
    };
    if entry.size_bytes > max_bytes {
        let what = format!("`{}` has more than {max_bytes} bytes", shown(name));
        return Err(Error::other(what));
    }
    read_from(context, mounted, name, 0, entry.size_bytes)
}

/// The bytes of a file of `size_bytes` from a block on.
fn read_from(
    context: &Context,
    mounted: &Mounted<'_, '_>,
    name: &str,
    offset_bytes: u64,
    size_bytes: u64,
) -> Result<Vec<u8>> {
    let length_bytes = size_bytes - offset_bytes;
    let part = Part {
        name,
        offset_bytes,
        length_bytes,
        size_bytes,
        sums: Sums::Ignored,
        past_rot: false,
        pace: Span {
            offset_bytes,
            length_bytes,
            operation_bytes: 1 << 16,
            depth: 1,
        },
    };
    let mut bytes = Vec::new();
    let mut sink = |data: &[u8]| {
        bytes.extend_from_slice(data);
        Ok(())
    };
    drain(mounted, &part, &mut sink, &Bar::hidden(), &context.cancel)?;
    Ok(bytes)
}

/// A stream that fails if it does not begin as MCAP does.
struct Begun {
    stream: Box<dyn Stream>,
    seen: usize,
}

impl Read for Begun {
    fn read(&mut self, data: &mut [u8]) -> std::io::Result<usize> {
        let len = self.stream.read(data)?;
        let expected = MAGIC.get(self.seen..).unwrap_or_default();
        let compared = expected.len().min(len);
        if data.get(..compared) != expected.get(..compared) {
            return Err(std::io::Error::new(ErrorKind::InvalidData, NOT_MCAP));
        }
        self.seen += compared;
        Ok(len)
    }
}

impl AsFd for Begun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
