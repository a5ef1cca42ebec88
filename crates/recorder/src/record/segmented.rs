// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording in segments.

use super::described::read_small;
use super::feed::Feed;
use super::{Policy, RecordSettings};
use crate::chain::{Segments, Target};
use crate::format_failed;
use crate::no_checksums;
use crate::report::RecordedFile;
use crate::segments::Limit;
use crate::segments::described::{self, Descriptions};
use crate::segments::files::{Files, Making, gaps_name};
use crate::segments::tag::MADE;
use crate::segments::template::Template;
use crate::volume_host::VolumeHost;
use devices::Context;
use devices::error::{Error, Result};
use files::Mounted;
use files::names::check_name;
use formats::Format;
use formats::gaps::{self, MAX_GAPS_BYTES};
use formats::sigmf::{MAX_META_BYTES, Metadata, segment_meta_name};
use remedy::{Remedy, Setting, Value, words};
use units::Size;

impl RecordSettings {
    /// Records into files of the volume, one after another.
    pub(super) fn record_segments<'a>(
        &self,
        context: &Context,
        limit: Limit,
        mounted: &&Mounted<'_, 'a>,
        path: &str,
        feed: Feed<'_>,
    ) -> Result<(RecordedFile, Option<Error>)> {
        let host: &Mounted<'_, 'a> = mounted;
        self.check_block(host.volume.geometry().block_size_bytes())?;
        let block_bytes = self.block.0;
        if matches!(limit, Limit::Bytes(bytes) if bytes < block_bytes) {
            let what = format!("a segment is shorter than a block of {}", self.block);
            // As `60`, which is to be seconds.
            let time = match limit {
                Limit::Bytes(bytes) if bytes < 4096 => Some(format!("{bytes}s")),
                _ => None,
            };
            return Err(Error::usage(what).hint(Remedy::one_of(
                [Remedy::More(Setting::Segment), Remedy::Less(Setting::Block)]
                    .into_iter()
                    .chain(time.map(|time| {
                        words![Setting::Segment.to(Value::Name(time.into())), " for a time"].into()
                    })),
            )));
        }
        if let (Limit::Bytes(bytes), Some(keep)) = (limit, self.segments.keep) {
            if keep.0 < bytes.saturating_mul(2) {
                let what = words![
                    Setting::Keep,
                    format!(" {keep} has no room for two segments of {}", Size(bytes))
                ];
                return Err(Error::usage(what).hint("the next one is made before one is full"));
            }
        }
        let has_checksums = self.checksums.on(host.volume.status().checksums);
        let making = Making {
            template: Template::parse(&self.name)?.numbered(),
            checksums: has_checksums.ok_or_else(no_checksums)?,
            has_gaps: self.policy == Policy::Drop,
            keep_bytes: self.segments.keep.map(|keep| keep.0),
            format: self.format,
        };
        let is_ambiguous = making.template.is_ambiguous();
        let mut files = Files::new(context.progress.clone(), host, making)?;
        // One of an older version goes on.
        if is_ambiguous && !files.has_earlier() {
            let what = format!(
                "`{}`: digits before %n are read as digits of the number; nothing was recorded",
                self.name
            );
            let hint = format!("a letter between them: {}", self.name.replace("%n", ".%n"));
            return Err(Error::usage(what).hint(hint));
        }
        let ring_bytes = files.ring_bytes()?;
        let feed = feed.open(self, context, mounted)?;
        let total_bytes = feed.total_bytes(self);
        let reserve_bytes = match limit {
            Limit::Bytes(bytes) if total_bytes > 0 => bytes.min(total_bytes),
            Limit::Bytes(bytes) => bytes,
            Limit::Time(_) => 0,
        };
        let nothing = |failure: Error| failure.and("nothing was recorded");
        let mut host = *mounted;
        let meta = self
            .describe_segments(context, &mut host, &mut files)
            .map_err(nothing)?;
        let first = match files.first(reserve_bytes) {
            Ok(first) => first,
            Err(failure) => {
                self.remove_description(&mut host, &meta);
                return Err(nothing(failure));
            }
        };
        let target = Target::Segments(Box::new(Segments {
            files,
            limit,
            ring_bytes,
            first,
        }));
        let recording = self.recording(total_bytes, ring_bytes);
        let keeps_nothing = feed.is_program();
        let ended = feed.run(recording, context, host, target)?;
        let mut ended = ended.map_err(nothing)?;
        let closed = std::mem::replace(&mut ended.closed, Ok(()));
        let failure = self.failure_of(&ended, closed);
        let (mut report, failure) = self.report(host.drive, path, 0, ended, failure);
        if !keeps_nothing && report.nothing_came && failure.is_none() {
            for segment in std::mem::take(&mut report.segments) {
                Mounted::remove(host, &segment.name)?;
                let gaps = gaps_name(&segment.name);
                if check_name(&gaps).is_ok() && host.exists(&gaps)? {
                    Mounted::remove(host, &gaps)?;
                }
            }
            self.remove_description(&mut host, &meta);
        }
        Ok((report, failure))
    }

    /// Describes the first segment, and those behind it. The name of the description.
    fn describe_segments(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        files: &mut Files<'_, '_>,
    ) -> Result<String> {
        if matches!(self.format, Format::Raw | Format::Pcapng) {
            let earlier = self.earlier_descriptions(context, host, files)?;
            files.describe(earlier);
            let meta = segment_meta_name(&files.first_name());
            Self::tell_left(context, host, &[meta])?;
            return Ok(String::new());
        }
        if self.name.contains('%') {
            let what = words![
                Setting::Format,
                format!(
                    " {} needs a NAME without %, by which its segments are found",
                    self.format.name()
                )
            ];
            return Err(Error::usage(what).hint("record under another NAME"));
        }
        let first = files.first_name();
        let meta = segment_meta_name(&first);
        let has_earlier = files.has_earlier();
        let gaps = gaps_name(&first);
        // Of a recording that ended before its first segment was made.
        for left in [&gaps, &meta] {
            if has_earlier && host.exists(left)? {
                Mounted::remove(host, left)?;
            }
        }
        if self.format == Format::Mcap && has_earlier {
            host.store(&gaps, &stream::restart_line(0, 0), MADE)?;
        }
        let mut descriptions = self.earlier_descriptions(context, host, files)?;
        if let Some(metadata) = self.describe(host, &meta, MADE)? {
            descriptions.add(&first, metadata);
        }
        files.describe(descriptions);
        Ok(meta)
    }

    /// What describes the segments of earlier recordings, which the ring removes too.
    fn earlier_descriptions(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        files: &mut Files<'_, '_>,
    ) -> Result<Descriptions> {
        let mut descriptions = Descriptions::default();
        if self.segments.keep.is_none() || self.name.contains('%') {
            return Ok(descriptions);
        }
        for segment in files.earlier() {
            for meta in described::names(&segment.name) {
                if check_name(&meta).is_ok() && host.exists(&meta)? {
                    let bytes = read_small(context, host, &meta, MAX_META_BYTES)?;
                    descriptions.add(
                        &segment.name,
                        Metadata::parse(&meta, &bytes).map_err(format_failed)?,
                    );
                }
            }
        }
        if descriptions.is_empty() {
            return Ok(descriptions);
        }
        for segment in files.earlier() {
            let gaps = gaps_name(&segment.name);
            let lines = read_small(context, host, &gaps, MAX_GAPS_BYTES)?;
            segment.lost_bytes = gaps::lost_bytes(
                &gaps::parse(&gaps, &lines, segment.length_bytes).map_err(format_failed)?,
            );
        }
        Ok(descriptions)
    }
}
