//! `straightway export DEVICE NAME... FILE`: a recording as files that other tools open.

mod targets;

use crate::failure::{Exit, Failure, Result};
use crate::formats::args::Format;
use crate::formats::gaps::{self, MAX_GAPS_BYTES};
use crate::formats::mcap::{MAGIC, Rebuild, Rebuilt};
use crate::formats::pcapng;
use crate::formats::sigmf::{MAX_META_BYTES, META, Metadata, meta_name, segment_meta_name};
use crate::live::origin::Origin;
use crate::stream::segments::files::{GAPS, gaps_name};
use crate::transfer::IoArgs;
use crate::units::{counted, exact, micros};
use crate::verbs::put::{check_name, unfinished_name};
use crate::volume::listing::FileEntry;
use crate::volume::tree::{choose, is_pattern, none_of};
use crate::volume::{failed, route, shown};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use indicatif::ProgressBar;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha512};
use std::path::PathBuf;
use std::time::Instant;
use stream::Gap;
use targets::Targets;
use volume::Error;

/// Export a recording as files that other tools open.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --format it is that of the recording: sigmf if the volume has NAME.sigmf-meta, mcap if NAME
begins as MCAP does, pcapng if it begins so, otherwise raw.

sigmf writes FILE.sigmf-data, the samples, and FILE.sigmf-meta: NAME.sigmf-meta with the SHA-512 of the
samples and with a capture behind each gap of NAME.gaps, whose core:global_index and core:datetime count
the missing samples too. A part of a sample at the end is left out. NAME.sigmf-meta may come from
record --format sigmf or from put.

mcap writes a whole file, also from a recording that ends anywhere: complete chunks, attachments and
metadata are copied; loose messages, and those of a chunk that ends early, go into chunks without
compression; indexes, statistics and the summary are made again. A message of an incomplete chunk is
kept if all its bytes are there; the chunk's checksum cannot cover it. A complete chunk that does not
match its checksum is left out, and the exit status is 6. Behind a gap of NAME.gaps it goes on if a record
ends there, as where a program's messages were dropped whole; otherwise nothing is kept up to where the
recording was continued.

Several NAMEs, or a pattern, are the segments of one recording in their order: they become one export. The
companions .gaps and .sigmf-meta of what a pattern fits are no segments. NAME.sigmf-meta describes
NAME.000001 and those behind it, up to one that has its own; so a segment alone is an export too, with the
index and the time of its first sample. Where a recording was continued, SigMF has a capture, and MCAP the
messages of the next stream; a channel whose number is another one's there gets a new number.

raw and pcapng write FILE, the bytes, and FILE.gaps.json if the recording has gaps.

While one process records, export takes what is committed when it begins, and the recording goes on.

Files appear under their names when they are complete. Existing ones are replaced only with --force.")]
pub struct Export {
    /// The device with the volume
    pub device: String,
    /// The recording's name in the volume, or those of its segments, or a pattern
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The file to write, without .sigmf-data or .sigmf-meta
    pub file: PathBuf,
    /// The format [default: the recording's]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was exported.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// The version of this structure.
    pub schema_version: u32,
    /// The device.
    pub device: String,
    /// The path to it.
    pub path: String,
    /// The recording's name, or that of its first segment.
    pub name: String,
    /// Files that were read, one after the other.
    pub segments: u64,
    /// raw, sigmf, mcap or pcapng.
    pub format: &'static str,
    /// The files that were written.
    pub files: Vec<String>,
    /// The size of the recording.
    pub length_bytes: u64,
    /// Gaps within it.
    pub gaps: u64,
    /// Bytes that are missing there.
    pub lost_bytes: u64,
    /// Whether its data was compared with the checksums of the volume.
    pub verified: bool,
    /// The time it took.
    pub elapsed_us: u64,
    /// Of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigmf: Option<SigmfExported>,
    /// Of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcap: Option<Rebuilt>,
}

/// What SigMF's metadata describes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SigmfExported {
    /// Samples.
    pub samples: u64,
    /// Capture segments.
    pub captures: u64,
    /// Bytes of a part of a sample at the end, left out.
    pub cut_bytes: u64,
    /// The digest of the samples.
    pub sha512: String,
}

/// A recording, and the gaps within it.
#[derive(Default)]
struct Recording {
    /// Its segments, at least one.
    segments: Vec<FileEntry>,
    size_bytes: u64,
    gaps: Vec<Gap>,
    /// How many of these there are up to the end of each segment.
    gaps_until: Vec<usize>,
    /// Where the stream of another recording begins.
    restarts: Vec<u64>,
}

/// The gaps of raw bytes, for FILE.gaps.json.
#[derive(Serialize)]
struct RawGaps<'g> {
    schema_version: u32,
    name: &'g str,
    length_bytes: u64,
    gaps: Vec<RawGap>,
}

#[derive(Serialize)]
struct RawGap {
    offset_bytes: u64,
    lost_bytes: u64,
    arrival_us: u64,
}

impl Export {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the recording or a target failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.names.iter().try_for_each(|name| check_name(name))?;
        if self.file.as_os_str() == "-" {
            return Err(Failure::usage("an export needs the name of a file")
                .hint("straightway get DEVICE NAME - writes the bytes to standard output"));
        }
        let options = route::open_options(&self.io, false);
        let exported = Origin::with(context, &self.device, &self.io, options, |origin| {
            context.say(format_args!("path: {}", origin.path()));
            let began = Instant::now();
            let mut exported = self.export(context, origin, &self.segments(origin)?)?;
            exported.elapsed_us = micros(began.elapsed());
            Ok(exported)
        })?;
        match self.json {
            true => context.console.json(&exported)?,
            false => context.console.print_outcome(&exported.text())?,
        }
        let damaged = |mcap: &Rebuilt| mcap.damaged_chunks + mcap.damaged_records > 0;
        Ok(match exported.mcap.as_ref().is_some_and(damaged) {
            true => Exit::Rot,
            false => Exit::Done,
        })
    }

    /// The names, with those that patterns fit.
    fn segments(&self, origin: &Origin<'_, '_>) -> Result<Vec<String>> {
        if !self.names.iter().any(|name| is_pattern(name)) {
            return Ok(self.names.clone());
        }
        let files = origin.files()?.into_iter();
        let is_companion = |name: &str| name.ends_with(META) || name.ends_with(GAPS);
        let mut all: Vec<String> = files.map(|file| file.name).collect();
        all.retain(|name| !is_companion(name) || self.names.contains(name));
        all.sort();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut found: Vec<String> = Vec::new();
        for word in &self.names {
            let (chosen, idle) = choose(std::slice::from_ref(word), &all)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &self.device).and("nothing was exported"));
            }
            found.extend(chosen.into_iter().map(str::to_owned));
        }
        Ok(found)
    }

    fn export(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        names: &[String],
    ) -> Result<Exported> {
        let mut recording = Recording::default();
        for name in names {
            let missing = || failed(format_args!("opening `{}`", shown(name)), Error::NotFound);
            let entry = origin.find(name)?.ok_or_else(missing)?;
            recording.size_bytes += entry.size_bytes;
            recording.segments.push(entry);
        }
        let format = self.format_of(context, origin, &recording)?;
        let targets = Targets::check(context, origin.drive, &self.file, format, self.force)?;
        let mut begin_bytes = 0;
        for entry in &recording.segments {
            let gaps = self.gaps_of(origin, entry)?;
            for gap in gaps {
                let offset_bytes = begin_bytes + gap.offset_bytes;
                match gap.lost_bytes {
                    0 => recording.restarts.push(offset_bytes),
                    _ => recording.gaps.push(Gap {
                        offset_bytes,
                        ..gap
                    }),
                }
            }
            recording.gaps_until.push(recording.gaps.len());
            begin_bytes += entry.size_bytes;
        }
        // Nothing is missing behind the end.
        let size_bytes = recording.size_bytes;
        recording.gaps.retain(|gap| gap.offset_bytes < size_bytes);
        let mut exported = Self::report(origin, &recording, format);
        match format {
            Format::Raw | Format::Pcapng => {
                self.raw(context, origin, &recording, targets, &mut exported)?
            }
            Format::Sigmf => self.sigmf(context, origin, &recording, targets, &mut exported)?,
            Format::Mcap => self.mcap(context, origin, &recording, targets, &mut exported)?,
        }
        Ok(exported)
    }

    /// The requested format, or the recording's.
    fn format_of(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
    ) -> Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        if self.description(origin, recording)?.is_some() {
            return Ok(Format::Sigmf);
        }
        let mut begin = Vec::new();
        let len = recording
            .size_bytes
            .min(MAGIC.len().max(pcapng::MAGIC.len()) as u64);
        self.read_all(context, origin, recording, len, &mut |data| {
            begin.extend_from_slice(data);
            Ok(())
        })?;
        Ok(match begin.as_slice() {
            begin if begin == MAGIC => Format::Mcap,
            begin if begin.starts_with(&pcapng::MAGIC) => Format::Pcapng,
            _ => Format::Raw,
        })
    }

    /// The name of the file that describes a recording's samples, if there is one; while `record --append` replaces it, its replacement.
    fn description_of(origin: &Origin<'_, '_>, name: &str) -> Result<Option<String>> {
        let whole = [meta_name(name), segment_meta_name(name)];
        let names = whole
            .iter()
            .flat_map(|meta| [meta.clone(), unfinished_name(meta)]);
        for meta in names {
            if check_name(&meta).is_ok() && origin.find(&meta)?.is_some() {
                return Ok(Some(meta));
            }
        }
        Ok(None)
    }

    /// What describes the first segment, if anything does: its own description, or that of an earlier segment.
    fn description(
        &self,
        origin: &Origin<'_, '_>,
        recording: &Recording,
    ) -> Result<Option<Metadata>> {
        let mut name = recording.name().to_owned();
        let mut earlier = Vec::new();
        let meta = loop {
            if let Some(meta) = Self::description_of(origin, &name)? {
                break meta;
            }
            let Some(before) = segment_before(&name) else {
                return Ok(None);
            };
            let Some(entry) = origin.find(&before)? else {
                return Ok(None);
            };
            name = before;
            earlier.push(entry);
        };
        let bytes = self.companion(origin, &meta, MAX_META_BYTES)?;
        let mut metadata = Metadata::parse(&meta, &bytes.unwrap_or_default())?;
        for entry in earlier.iter().rev() {
            let lost = gaps::lost_bytes(&self.gaps_of(origin, entry)?);
            let sample_bytes = metadata.sample_bytes;
            metadata = metadata.behind(entry.size_bytes / sample_bytes, lost / sample_bytes);
        }
        Ok(Some(metadata))
    }

    /// The gaps that a segment's companion lists.
    fn gaps_of(&self, origin: &Origin<'_, '_>, entry: &FileEntry) -> Result<Vec<Gap>> {
        let companion = gaps_name(&entry.name);
        let lines = self.companion(origin, &companion, MAX_GAPS_BYTES)?;
        gaps::parse(&companion, &lines.unwrap_or_default(), entry.size_bytes)
    }

    fn report(origin: &Origin<'_, '_>, recording: &Recording, format: Format) -> Exported {
        let lost = recording.gaps.iter().map(|gap| gap.lost_bytes);
        Exported {
            schema_version: SCHEMA_VERSION,
            device: origin.device(),
            path: origin.path().to_owned(),
            name: recording.name().to_owned(),
            segments: recording.segments.len() as u64,
            format: format.name(),
            files: Vec::new(),
            length_bytes: recording.size_bytes,
            gaps: recording.gaps.len() as u64,
            lost_bytes: lost.fold(0, u64::saturating_add),
            verified: recording.segments.iter().all(FileEntry::has_checksums),
            elapsed_us: 0,
            sigmf: None,
            mcap: None,
        }
    }

    /// Reads the first `len` bytes of the segments, one after the other.
    fn read_all(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        len: u64,
        sink: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    ) -> Result<()> {
        let bar = context.console.bytes_bar(Some(len));
        let mut left = len;
        for entry in &recording.segments {
            let len = left.min(entry.size_bytes);
            origin.read(entry, len, &bar, sink)?;
            left -= len;
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// A small file beside the recording, if there is one.
    fn companion(
        &self,
        origin: &Origin<'_, '_>,
        name: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>> {
        // A name that is too long is one that no recording could make.
        if check_name(name).is_err() {
            return Ok(None);
        }
        let Some(entry) = origin.find(name)? else {
            return Ok(None);
        };
        if entry.size_bytes > max_bytes {
            let what = format!(
                "`{}` has {} bytes, more than {max_bytes}",
                shown(name),
                entry.size_bytes
            );
            return Err(Failure::other(what).hint("straightway get fetches the recording alone"));
        }
        let mut bytes = Vec::new();
        let bar = ProgressBar::hidden();
        origin.read(&entry, entry.size_bytes, &bar, &mut |data| {
            bytes.extend_from_slice(data);
            Ok(())
        })?;
        Ok(Some(bytes))
    }

    fn raw(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        targets: Targets,
        exported: &mut Exported,
    ) -> Result<()> {
        let size_bytes = recording.size_bytes;
        let mut files = targets.open(&context.cancel)?;
        self.read_all(context, origin, recording, size_bytes, &mut |data| {
            files.data.take(data)
        })?;
        let gaps = RawGaps {
            schema_version: SCHEMA_VERSION,
            name: recording.name(),
            length_bytes: size_bytes,
            gaps: recording.gaps.iter().map(RawGap::of).collect(),
        };
        let described = match recording.gaps.is_empty() {
            true => None,
            false => Some(serde_json::to_vec_pretty(&gaps).unwrap_or_default()),
        };
        exported.files = files.finish(described.as_deref())?;
        Ok(())
    }

    fn sigmf(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        targets: Targets,
        exported: &mut Exported,
    ) -> Result<()> {
        let name = recording.name();
        let Some(metadata) = self.description(origin, recording)? else {
            let meta = meta_name(name);
            check_name(&meta)?;
            let why = failed(format_args!("opening `{}`", shown(&meta)), Error::NotFound);
            return Err(why.hint(format!(
                "describe the samples: straightway put {} FILE '{meta}', or --format raw",
                self.device
            )));
        };
        let samples = self.samples(origin, recording, metadata)?;
        if samples.count == 0 {
            // Readers map the file of the samples, which must not be empty.
            let what = format!("`{}` has no whole sample yet", shown(name));
            return Err(Failure::other(what).hint("straightway get fetches its bytes, if any"));
        }
        // Before anything is read: a gap in the middle of a sample is refused.
        samples.complete(name, "")?;
        let mut files = targets.open(&context.cancel)?;
        let mut digest = Sha512::new();
        let bar = context.console.bytes_bar(Some(samples.length_bytes()));
        for (entry, len) in recording.segments.iter().zip(&samples.lengths) {
            origin.read(entry, *len, &bar, &mut |data| {
                digest.update(data);
                files.data.take(data)
            })?;
        }
        bar.finish_and_clear();
        let sha512: String = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (metadata, captures) = samples.complete(name, &sha512)?;
        exported.files = files.finish(Some(&metadata.to_bytes()))?;
        exported.sigmf = Some(SigmfExported {
            samples: samples.count,
            captures: captures as u64,
            cut_bytes: recording.size_bytes - samples.length_bytes(),
            sha512,
        });
        Ok(())
    }

    /// The samples of the segments. A recording that ends inside a sample loses that part, so that the next one's begin where they are
    /// described.
    fn samples(
        &self,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        metadata: Metadata,
    ) -> Result<Samples> {
        let sample_bytes = metadata.sample_bytes;
        let mut samples = Samples {
            metadata,
            lengths: Vec::new(),
            gaps: Vec::new(),
            count: 0,
        };
        // Bytes of the segments, of the recording that goes on in them, and of its parts of samples.
        let (mut own_bytes, mut cut_bytes) = (0, 0);
        let mut gaps = recording.gaps.iter();
        let segments = recording.segments.iter().zip(&recording.gaps_until);
        for (at, (entry, &gaps_until)) in segments.enumerate() {
            let own = match at {
                0 => None,
                _ => Self::description_of(origin, &entry.name)?,
            };
            if let Some(meta) = own {
                let part = own_bytes % sample_bytes;
                if let Some(last) = samples.lengths.last_mut() {
                    *last = last.saturating_sub(part);
                }
                cut_bytes += part;
                own_bytes = 0;
                let bytes = self.companion(origin, &meta, MAX_META_BYTES)?;
                let other = Metadata::parse(&meta, &bytes.unwrap_or_default())?;
                let sample = samples.length_bytes() / sample_bytes;
                samples.metadata.join(&other, sample, samples.gaps.len())?;
            }
            own_bytes += entry.size_bytes;
            samples.lengths.push(entry.size_bytes);
            let own_gaps = gaps.by_ref().take(gaps_until - samples.gaps.len());
            let moved = own_gaps.map(|gap| Gap {
                offset_bytes: gap.offset_bytes - cut_bytes,
                ..*gap
            });
            samples.gaps.extend(moved);
        }
        if let Some(last) = samples.lengths.last_mut() {
            *last = last.saturating_sub(own_bytes % sample_bytes);
        }
        samples.count = samples.length_bytes() / sample_bytes;
        Ok(samples)
    }

    fn mcap(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
        targets: Targets,
        exported: &mut Exported,
    ) -> Result<()> {
        let size_bytes = recording.size_bytes;
        let mut restarts: Vec<u64> = recording.restarts.clone();
        restarts.retain(|restart| (1..size_bytes).contains(restart));
        restarts.dedup();
        let end_of_stream = |at: u64| {
            let next = restarts.iter().find(|restart| **restart > at);
            next.copied().unwrap_or(size_bytes)
        };
        // What is missing where another stream begins was of the one before.
        let gaps = recording.gaps.iter().map(|gap| gap.offset_bytes);
        let gaps = gaps.filter(|gap| !restarts.contains(gap));
        let mut marks: Vec<(u64, bool)> = gaps.map(|gap| (gap, false)).collect();
        marks.extend(restarts.iter().map(|restart| (*restart, true)));
        marks.sort_unstable();
        let mut marks = marks.into_iter().peekable();
        let mut files = targets.open(&context.cancel)?;
        let mut rebuild = Rebuild::new(recording.name(), end_of_stream(0), |data: &[u8]| {
            files.data.take(data)
        });
        let mut at = 0;
        self.read_all(context, origin, recording, size_bytes, &mut |mut data| {
            while let Some((mark, is_restart)) =
                marks.next_if(|(mark, _)| mark - at <= data.len() as u64)
            {
                let (before, rest) = data.split_at((mark - at) as usize);
                rebuild.feed(before)?;
                (at, data) = (mark, rest);
                let left = end_of_stream(mark) - mark;
                if is_restart {
                    rebuild.next_stream(left)?;
                } else if !rebuild.can_go_on() {
                    rebuild.break_off()?;
                    context.say(format_args!(
                        "`{}` has a gap at byte {mark}, inside a record: the {} behind it are left out",
                        shown(recording.name()),
                        counted(left, "byte")
                    ));
                }
            }
            at += data.len() as u64;
            rebuild.feed(data)
        })?;
        exported.mcap = Some(rebuild.finish()?);
        exported.files = files.finish(None)?;
        Ok(())
    }
}

/// Samples to export: as many bytes of each segment, and their gaps.
struct Samples {
    metadata: Metadata,
    lengths: Vec<u64>,
    gaps: Vec<Gap>,
    count: u64,
}

impl Samples {
    fn length_bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// The whole metadata, and the number of its captures.
    fn complete(&self, name: &str, sha512: &str) -> Result<(Metadata, usize)> {
        let mut metadata = self.metadata.clone();
        let captures = metadata.complete(name, &self.gaps, self.count, sha512)?;
        Ok((metadata, captures))
    }
}

/// The name of the segment before this one.
fn segment_before(name: &str) -> Option<String> {
    let (recording, digits) = name.rsplit_once('.')?;
    let is_number = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let before = digits.parse::<u64>().ok()?.checked_sub(1)?;
    (is_number && before > 0).then(|| format!("{recording}.{before:06}"))
}

impl Recording {
    /// The name of the recording, or of its first segment.
    fn name(&self) -> &str {
        self.segments
            .first()
            .map_or("", |entry| entry.name.as_str())
    }
}

impl RawGap {
    const fn of(gap: &Gap) -> Self {
        Self {
            offset_bytes: gap.offset_bytes,
            lost_bytes: gap.lost_bytes,
            arrival_us: gap.at_us,
        }
    }
}

impl Exported {
    fn text(&self) -> String {
        let mut text = format!(
            "exported `{}`{}, {}, to {}\n",
            shown(&self.name),
            match self.segments {
                1 => String::new(),
                segments => format!(" and the segments behind it, {segments} in all"),
            },
            exact(self.length_bytes),
            self.files.join(" and ")
        );
        let mut line = |line: String| text.push_str(&format!("  {line}\n"));
        if self.gaps > 0 {
            line(format!(
                "{}, {} missing",
                counted(self.gaps, "gap"),
                exact(self.lost_bytes)
            ));
        }
        if let Some(sigmf) = &self.sigmf {
            line(format!(
                "{} in {}",
                counted(sigmf.samples, "sample"),
                counted(sigmf.captures, "capture")
            ));
            if sigmf.cut_bytes > 0 {
                line(format!(
                    "{} at the end left out: a part of a sample",
                    counted(sigmf.cut_bytes, "byte")
                ));
            }
        }
        if let Some(mcap) = &self.mcap {
            mcap.lines().into_iter().for_each(&mut line);
        }
        if !self.verified {
            line("not verified: the recording has no checksums".to_owned());
        }
        text
    }
}

impl Rebuilt {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} in {}",
            counted(self.messages, "message"),
            counted(self.chunks, "chunk")
        )];
        if !self.was_whole {
            lines.push("the stream has no end; the file has one".to_owned());
        }
        let counts = [
            (
                self.cut_bytes,
                "byte",
                "at the end of the stream in a record that is not complete",
            ),
            (
                self.recovered_messages,
                "message",
                "recovered from there, not covered by a checksum of the chunk",
            ),
            (self.damaged_chunks, "chunk", "left out: damaged"),
            (self.damaged_records, "attachment", "left out: damaged"),
            (
                self.left_out_records,
                "record",
                "left out: without a channel or a schema",
            ),
            (
                self.ignored_bytes,
                "byte",
                "behind the stream's end left out",
            ),
        ];
        for (count, thing, what) in counts {
            if count > 0 {
                lines.push(format!("{} {what}", counted(count, thing)));
            }
        }
        lines
    }
}
