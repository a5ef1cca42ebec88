// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording as files that other tools open: raw bytes, SigMF, MCAP or pcapng.
//!
//! | module | contents |
//! | --- | --- |
//! | `recording` | the segments, and what is missing within and between them |
//! | `segments` | the numbers in the names of segments |
//! | `lists` | lists of gaps, and whether they are their files' |
//! | `chosen` | the files that a pattern chooses, as one stream |
//! | `finished` | which files are final |
//! | `companions` | what belongs to a file, for verbs that take one |
//! | `metas` | which file describes which |
//! | `description` | what describes the samples |
//! | `messages` | MCAP's messages, in one file |
//! | `packets` | what pcapng shows of packets that were cut off or lost |
//! | `targets` | the files that are written |
//! | `report` | what was exported |

mod chosen;
mod companions;
mod description;
mod finished;
mod lists;
mod messages;
mod metas;
mod packets;
mod recording;
mod report;
mod segments;
mod targets;

use crate::segments::files::GAPS;
use crate::segments::numbered::Numbered;
use description::{Description, Samples, describe};
use devices::error::{ErrorKind, Result};
use devices::transfer::IoOptions;
use devices::{Context, SCHEMA_VERSION};
use files::listing::FileEntry;
use files::names::check_name;
use files::tree::{choose, is_pattern, none_of, some};
use files::{failed, route, shown};
use formats::Format;
use formats::gaps;
use formats::mcap::MAGIC;
use formats::pcapng;
use formats::sigmf::{META, meta_name, segment_meta_name};
use live::origin::Origin;
use metas::{samples_of, undescribed};
use packets::Packets;
use recording::Recording;
use remedy::{Setting, words};
use report::RawGaps;
use segments::{Same, StoredNames, tag_of};
use sha2::{Digest, Sha512};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use targets::Targets;
use units::micros;
use volume::Error;

pub use crate::segments::places::Contradiction;
pub use chosen::{Missing, Said, in_order, said_of};
pub use companions::{companion_renamed, companions_of};
pub use finished::{Finished, LeftOut, finished};
pub use lists::warn_of_list;
pub use packets::PacketsExported;
pub use report::{Exported, SigmfExported};
pub use segments::{MissingReason, MissingSegments};

/// How often an export begins, where a ring removes segments that it has not read yet.
const ATTEMPTS: u32 = 10;

/// What is exported, as what, and to which file.
#[derive(Clone, Debug)]
pub struct ExportSettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The recording's name in the volume, or those of its segments, or patterns.
    pub names: Vec<String>,
    /// The file to write, without `.sigmf-data` or `.sigmf-meta`.
    pub file: PathBuf,
    /// The format; the recording's own if `None`.
    pub format: Option<Format>,
    /// Whether existing files are replaced.
    pub force: bool,
    /// Whether patterns take what is being written too, as far as it is committed.
    pub partial: bool,
    /// The path to the device, and how bytes are moved.
    pub io: IoOptions,
}

impl ExportSettings {
    /// Exports the recording. The files appear under their names when they are complete.
    ///
    /// # Errors
    /// The device, the volume, the recording or a target failed.
    pub fn export(&self, context: &Context) -> Result<Exported> {
        self.names.iter().try_for_each(|name| check_name(name))?;
        if self.file.as_os_str() == "-" {
            return Err(
                devices::Error::usage("an export needs the name of a file").hint(words![
                    "straightway get ",
                    remedy::Device,
                    " NAME - writes the bytes to standard output"
                ]),
            );
        }
        let options = route::open_options(&self.io, false);
        Origin::with(context, &self.device, &self.io, options, |origin| {
            context.say(format_args!("path: {}", origin.path()));
            let began = Instant::now();
            let mut exported = self.while_they_are_kept(context, origin)?;
            exported.elapsed_us = micros(began.elapsed());
            Ok(exported)
        })
    }

    /// Exports the segments, and begins again without those that a ring has removed before they
    /// were read.
    fn while_they_are_kept(&self, context: &Context, origin: &Origin<'_, '_>) -> Result<Exported> {
        let mut attempts = ATTEMPTS;
        loop {
            let files = origin.files()?;
            let stored = StoredNames::of(files.iter());
            let mut names = self.segments(origin, &stored)?;
            if !self.partial && attempts == ATTEMPTS {
                self.leave_out(context, &files, &mut names)?;
            } else if !self.partial {
                let _ = LeftOut::of_names(&files, &mut names, &self.names);
            }
            self.refuse_several(&stored, &names)?;
            segments::sort(&mut names);
            names.dedup();
            let failure = match self.export_from(context, origin, &stored, &names) {
                Err(failure) if failure.kind() == ErrorKind::NotFound => failure,
                exported => return exported,
            };
            let has_pattern = self.names.iter().any(|name| is_pattern(name));
            let now = StoredNames::of(origin.files()?.iter());
            let removed = names.iter().find(|name| !now.has(name));
            let Some(removed) = removed.filter(|_| has_pattern) else {
                return Err(failure);
            };
            attempts -= 1;
            if attempts == 0 {
                let what = format!(
                    "`{}` was removed before it could be read, as a segment was {ATTEMPTS} times; \
                     nothing was exported",
                    shown(removed)
                );
                return Err(devices::Error::new(ErrorKind::Late, what).hint(words![
                    "the ring is faster: name newer segments, or record with a larger ",
                    Setting::Keep
                ]));
            }
            context.say(format_args!(
                "`{}` was removed before it was read: left out, with what was removed before it",
                shown(removed)
            ));
        }
    }

    /// The names, with those that patterns fit, and with those of the samples that SigMF's names
    /// stand for.
    fn segments(&self, origin: &Origin<'_, '_>, stored: &StoredNames) -> Result<Vec<String>> {
        if !self.names.iter().any(|name| is_pattern(name)) {
            let names = self.names.iter();
            let names = names.map(|name| samples_of(origin, stored, name));
            return names.collect();
        }
        let is_companion = |name: &str| name.ends_with(META) || name.ends_with(GAPS);
        let mut all: Vec<&str> = stored.names().collect();
        all.retain(|name| !is_companion(name) || self.names.iter().any(|word| word == name));
        let mut found: Vec<String> = Vec::new();
        for word in &self.names {
            let (chosen, idle) = choose(std::slice::from_ref(word), &all)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &all, &self.device).and("nothing was exported"));
            }
            let mut chosen: Vec<String> = chosen.into_iter().map(str::to_owned).collect();
            segments::sort(&mut chosen);
            found.append(&mut chosen);
        }
        Ok(found)
    }

    /// Leaves out what is not final.
    fn leave_out(
        &self,
        context: &Context,
        files: &[FileEntry],
        names: &mut Vec<String>,
    ) -> Result<()> {
        let left_out = LeftOut::of_names(files, names, &self.names);
        if names.is_empty() {
            let hint = words!["name the file, to export what is committed of it"];
            return left_out.failure("exported", hint).map_or(Ok(()), Err);
        }
        if let Some(text) = left_out.text() {
            context.say(format_args!("{text}: left out"));
        }
        Ok(())
    }

    /// Refuses the files of several recordings: one behind the other they are none.
    fn refuse_several(&self, stored: &StoredNames, names: &[String]) -> Result<()> {
        let mut all: BTreeMap<Same, Vec<&str>> = BTreeMap::new();
        for name in names {
            all.entry(stored.recording_of(name)).or_default().push(name);
        }
        if all.len() < 2 {
            return Ok(());
        }
        let is_chosen = |pattern: &String| {
            let every: Vec<&str> = names.iter().map(String::as_str).collect();
            let (chosen, _) = choose(std::slice::from_ref(pattern), &every).ok()?;
            Some(chosen.len())
        };
        let one = all.values().find_map(|own| {
            let numbered = Numbered::of(own.first()?)?;
            let pattern = numbered.pattern();
            (is_chosen(&pattern) == Some(own.len())).then_some(pattern)
        });
        let word = one.or_else(|| Some((*all.values().next()?.first()?).to_owned()));
        let firsts: Vec<&str> = all
            .values()
            .filter_map(|own| own.first().copied())
            .collect();
        let what = format!(
            "these are of {} recordings: {}; nothing was exported",
            all.len(),
            some(firsts.into_iter())
        );
        Err(devices::Error::usage(what).hint(words![format!(
            "one at a time: straightway export {} '{}' FILE; straightway cat prints all",
            self.device,
            word.unwrap_or_default()
        )]))
    }

    fn export_from(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        names: &[String],
    ) -> Result<Exported> {
        let recording = Recording::find(origin, stored, names)?;
        let mut notes = Vec::new();
        let asked = self.format;
        let description = match asked {
            None | Some(Format::Sigmf) => describe(origin, stored, &recording, &mut notes)?,
            Some(_) => None,
        };
        let format = match asked {
            Some(format) => format,
            None if description.is_some() => Format::Sigmf,
            None => match self.format_of(context, origin, stored, &recording)? {
                // Samples that nothing describes any more, which is said below: their bytes.
                Format::Sigmf => Format::Raw,
                format => format,
            },
        };
        self.check_file(&recording, format)?;
        if asked != Some(Format::Raw) {
            refuse_mixture(&recording)?;
        }
        let targets = Targets::check(context, origin.drive, &self.file, format, self.force)?;
        let mut exported = Self::report(origin, &recording, format);
        if exported
            .missing_segments
            .first()
            .is_none_or(|one| one.offset_bytes > 0)
        {
            let missing = description
                .as_ref()
                .and_then(|described| described.missing.clone());
            exported.missing_segments.splice(0..0, missing);
        }
        if let (None, None, Some(first)) = (asked, &description, recording.segments.first()) {
            let missed = undescribed(origin, stored, first)?;
            exported.contradictions.extend(missed);
        }
        let all = (stored, &recording);
        match format {
            Format::Raw | Format::Pcapng => {
                self.raw(context, origin, &recording, targets, &mut exported)?;
            }
            Format::Sigmf => {
                let described = (description, &mut notes);
                self.sigmf(context, origin, all, described, targets, &mut exported)?
            }
            Format::Mcap => self.mcap(context, origin, all, targets, &mut exported)?,
        }
        for contradiction in &exported.contradictions {
            context.say(contradiction.text());
        }
        for note in recording.notes.iter().chain(&notes) {
            context.say(note);
        }
        for missing in &exported.missing_segments {
            context.say(words![
                format!("`{}`: ", shown(recording.name())),
                missing.text()
            ]);
        }
        Ok(exported)
    }

    /// The recording's format, if no description shows it: that of its first bytes, or that it was
    /// recorded in.
    fn format_of(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        stored: &StoredNames,
        recording: &Recording,
    ) -> Result<Format> {
        let of_bytes = |begin: &[u8]| match begin {
            begin if begin.len() > 1 && MAGIC.starts_with(begin) => Format::Mcap,
            begin if begin.starts_with(&pcapng::MAGIC) => Format::Pcapng,
            _ => Format::Raw,
        };
        let mut format = of_bytes(&self.begin_of(context, origin, recording)?);
        let numbered = Numbered::of(recording.name());
        if let (Format::Raw, Some(numbered)) = (format, numbered) {
            let first = recording.segments.first();
            format = match first.and_then(|entry| tag_of(entry, numbered.number)) {
                Some(tag) => tag.format,
                // A segment of an older version: the first one shows it.
                None if numbered.number > 1 && stored.has(&numbered.name_of(1)) => {
                    let names = [numbered.name_of(1)];
                    let first = Recording::find(origin, stored, &names)?;
                    match of_bytes(&self.begin_of(context, origin, &first)?) {
                        Format::Mcap => Format::Mcap,
                        _ => Format::Raw,
                    }
                }
                None => Format::Raw,
            };
        }
        match format {
            Format::Raw if recording.size_bytes < MAGIC.len() as u64 && self.named().is_some() => {
                let what = format!("`{}` has no whole record yet", shown(recording.name()));
                Err(devices::Error::other(what).hint("straightway get fetches its bytes, if any"))
            }
            format => Ok(format),
        }
    }

    /// The format that the name of the file says.
    fn named(&self) -> Option<Format> {
        let extension = self.file.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "mcap" => Some(Format::Mcap),
            "pcapng" => Some(Format::Pcapng),
            "sigmf" | "sigmf-data" | "sigmf-meta" => Some(Format::Sigmf),
            _ => None,
        }
    }

    /// Refuses a file whose name says another format, unless `--format raw` asks for it.
    fn check_file(&self, recording: &Recording, format: Format) -> Result<()> {
        let is_asked = self.format == Some(Format::Raw);
        let Some(named) = self.named().filter(|named| *named != format && !is_asked) else {
            return Ok(());
        };
        let (file, name) = (self.file.display(), shown(recording.name()));
        let named = named.name();
        Err(match (self.format, format) {
            (None, Format::Raw) => devices::Error::usage(format!(
                "{file} has the name of {named}, but nothing shows that `{name}` is that"
            ))
            .hint(words![
                Setting::Format.to(named),
                ", or ",
                Setting::Format.to("raw"),
                " for its bytes"
            ]),
            (None, format) => devices::Error::usage(format!(
                "{file} has the name of {named}, but `{name}` is {}; nothing was exported",
                format.name()
            ))
            .hint(words![
                "a FILE with another name, or ",
                Setting::Format.to("raw"),
                " for its bytes"
            ]),
            (Some(format), _) => devices::Error::usage(words![
                format!("{file} has the name of {named}, but "),
                Setting::Format,
                format!(" is {}; nothing was exported", format.name())
            ])
            .hint(words![
                "a FILE with another name, or ",
                Setting::Format.to(named)
            ]),
        })
    }

    /// The first bytes, by which a format is known.
    fn begin_of(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        recording: &Recording,
    ) -> Result<Vec<u8>> {
        let mut begin = Vec::new();
        let longest = MAGIC.len().max(pcapng::MAGIC.len()) as u64;
        let len = recording.size_bytes.min(longest);
        self.read_all(context, origin, recording, len, &mut |data| {
            begin.extend_from_slice(data);
            Ok(())
        })?;
        Ok(begin)
    }

    fn report(origin: &Origin<'_, '_>, recording: &Recording, format: Format) -> Exported {
        let missing = recording.missing_before.iter().chain(&recording.missing);
        let missing = missing.chain(&recording.missing_behind);
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
            lost_bytes: gaps::lost_bytes(&recording.gaps),
            lossy: recording.has_own_gaps,
            missing_segments: missing.cloned().collect(),
            contradictions: recording.contradictions.clone(),
            verified: recording.segments.iter().all(FileEntry::has_checksums),
            elapsed_us: 0,
            sigmf: None,
            mcap: None,
            pcapng: None,
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
        let bar = context.bytes_bar(Some(len));
        let mut left = len;
        for entry in &recording.segments {
            let len = left.min(entry.size_bytes);
            origin.read(entry, len, &bar, sink)?;
            left -= len;
        }
        bar.finish_and_clear();
        Ok(())
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
        let mut packets = (exported.format == Format::Pcapng.name()).then(Packets::default);
        self.read_all(
            context,
            origin,
            recording,
            size_bytes,
            &mut |data| match &mut packets {
                Some(packets) => packets.take(data, &mut |kept| files.data.take(kept)),
                None => files.data.take(data),
            },
        )?;
        if let Some(packets) = packets {
            if packets.has_nothing() {
                let what = format!(
                    "`{}` is not pcapng: it has no section",
                    shown(recording.name())
                );
                return Err(devices::Error::usage(what).hint(words![
                    "straightway export ",
                    Setting::Format.to("raw"),
                    ", or straightway get"
                ]));
            }
            exported.pcapng = packets.end(&mut |kept| files.data.take(kept))?;
        }
        let gaps = RawGaps::of(recording, &exported.missing_segments);
        let described = gaps.map(|gaps| serde_json::to_vec_pretty(&gaps).unwrap_or_default());
        exported.files = files.finish(described.as_deref())?;
        Ok(())
    }

    fn sigmf(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        (stored, recording): (&StoredNames, &Recording),
        (description, notes): (Option<Description>, &mut Vec<String>),
        targets: Targets,
        exported: &mut Exported,
    ) -> Result<()> {
        let name = recording.name();
        let Some(description) = description else {
            let meta = match Numbered::of(name) {
                Some(_) => segment_meta_name(name),
                None => meta_name(name),
            };
            check_name(&meta)?;
            let why = match notes.first() {
                Some(note) => devices::Error::usage(format!("{note}; nothing was exported")),
                None => failed(format_args!("opening `{}`", shown(&meta)), Error::NotFound),
            };
            return Err(why.hint(words![
                format!(
                    "describe the samples: straightway put {} FILE '{meta}', or ",
                    self.device
                ),
                Setting::Format.to("raw")
            ]));
        };
        let samples = Samples::of(origin, stored, recording, description, notes)?;
        if samples.count == 0 {
            // Readers map the file of the samples, which must not be empty.
            let what = format!("`{}` has no whole sample yet", shown(name));
            return Err(
                devices::Error::other(what).hint("straightway get fetches its bytes, if any")
            );
        }
        let dataset = targets.data_name();
        // Before anything is read: a gap in the middle of a sample is refused.
        samples.complete(name, &dataset, "")?;
        let mut files = targets.open(&context.cancel)?;
        let mut digest = Sha512::new();
        let bar = context.bytes_bar(Some(samples.length_bytes()));
        for (entry, part) in recording.segments.iter().zip(&samples.parts) {
            let mut skipped_bytes = part.start;
            origin.read(entry, part.end, &bar, &mut |data| {
                let now = skipped_bytes.min(data.len() as u64);
                skipped_bytes -= now;
                let data = data.get(now as usize..).unwrap_or_default();
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
        let (metadata, completed) = samples.complete(name, &dataset, &sha512)?;
        exported.files = files.finish(Some(&metadata.to_bytes()))?;
        exported.sigmf = Some(SigmfExported {
            samples: samples.count,
            captures: completed.captures as u64,
            cut_bytes: recording.size_bytes - samples.length_bytes() - samples.skipped_bytes(),
            cut_at_end: is_end(recording),
            skipped_bytes: samples.skipped_bytes(),
            lost_at_end_samples: samples.lost_at_end(),
            left_out_captures: completed.left_out as u64,
            left_out_annotations: completed.left_out_annotations as u64,
            differs_from_digest: samples.differ_from(&sha512),
            sha512,
        });
        Ok(())
    }
}

/// Whether nothing of the recording comes behind what is exported, so that the rest of a sample
/// that is cut is nowhere.
fn is_end(recording: &Recording) -> bool {
    let last = recording.segments.last();
    let tag = last.and_then(|entry| tag_of(entry, Numbered::of(&entry.name)?.number));
    tag.is_none_or(|tag| !tag.is_followed)
}

/// Refuses segments that were recorded in different formats: no file has both.
fn refuse_mixture(recording: &Recording) -> Result<()> {
    let tagged = recording.segments.iter().filter_map(|entry| {
        let numbered = Numbered::of(&entry.name)?;
        Some((entry, tag_of(entry, numbered.number)?))
    });
    let mut tagged = tagged.peekable();
    let Some((first, format)) = tagged.peek().map(|(entry, tag)| (*entry, tag.format)) else {
        return Ok(());
    };
    let other = tagged.find(|(_, tag)| tag.format != format);
    let Some((entry, tag)) = other else {
        return Ok(());
    };
    let what = format!(
        "`{}` was recorded as {}, and `{}` as {}; nothing was exported",
        shown(&first.name),
        format.name(),
        shown(&entry.name),
        tag.format.name()
    );
    Err(devices::Error::usage(what).hint(words![
        "name the segments of one of them, or ",
        Setting::Format.to("raw"),
        " for the bytes of all"
    ]))
}
