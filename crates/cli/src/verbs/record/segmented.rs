//! A recording in segments.

use super::{Policy, Record};
use crate::Context;
use crate::failure::{Failure, Result};
use crate::formats::args::Format;
use crate::stream::chain::{Segments, Target};
use crate::stream::no_checksums;
use crate::stream::report::RecordedFile;
use crate::stream::segments::Limit;
use crate::stream::segments::files::{Files, Making};
use crate::stream::segments::template::Template;
use crate::units::Size;
use crate::volume::Mounted;

impl Record {
    /// Records into files of the volume, one after another.
    pub(super) fn record_segments<'a>(
        &self,
        context: &Context,
        limit: Limit,
        mounted: &&Mounted<'_, 'a>,
        path: &str,
    ) -> Result<(RecordedFile, Option<Failure>)> {
        let host: &Mounted<'_, 'a> = mounted;
        self.check_block(host.volume.geometry().block_size_bytes())?;
        let block_bytes = self.block.0;
        if matches!(limit, Limit::Bytes(bytes) if bytes < block_bytes) {
            let what = format!("a segment is shorter than a block of {}", self.block);
            return Err(Failure::usage(what).hint("a longer --segment, or a smaller --block"));
        }
        if let (Limit::Bytes(bytes), Some(keep)) = (limit, self.segments.keep) {
            if keep.0 < bytes.saturating_mul(2) {
                let what = format!(
                    "--keep {keep} has no room for two segments of {}",
                    Size(bytes)
                );
                return Err(Failure::usage(what).hint("the next one is made before one is full"));
            }
        }
        let has_checksums = self.checksums.on(host.volume.status().checksums);
        let making = Making {
            template: Template::parse(&self.name)?.numbered(),
            checksums: has_checksums.ok_or_else(no_checksums)?,
            has_gaps: self.policy == Policy::Drop,
            keep_bytes: self.segments.keep.map(|keep| keep.0),
        };
        let mut files = Files::new(context.console, host, making)?;
        let source = self.of_format(self.open_source(context, mounted)?)?;
        let total_bytes = self.total_bytes(&source);
        let reserve_bytes = match limit {
            Limit::Bytes(bytes) if total_bytes > 0 => bytes.min(total_bytes),
            Limit::Bytes(bytes) => bytes,
            Limit::Time(_) => 0,
        };
        let nothing = |failure: Failure| failure.and("nothing was recorded");
        self.check_described(files.has_earlier()).map_err(nothing)?;
        let mut host = *mounted;
        self.describe(&mut host)?;
        let first = match files.first(reserve_bytes) {
            Ok(first) => first,
            Err(failure) => {
                self.remove_description(&mut host);
                return Err(nothing(failure));
            }
        };
        let target = Target::Segments(Box::new(Segments {
            files,
            limit,
            first,
        }));
        let recording = self.recording(host.drive, total_bytes);
        let ended = recording.run(context, host, source, target)?;
        let mut ended = ended.map_err(nothing)?;
        let closed = std::mem::replace(&mut ended.closed, Ok(()));
        let failure = self.failure_of(&ended, closed);
        Ok(self.report(host.drive, path, 0, ended, failure))
    }

    /// Refuses segments that the one description of a recording would not fit.
    fn check_described(&self, has_earlier: bool) -> Result<()> {
        let what = match self.format {
            Format::Raw | Format::Pcapng => return Ok(()),
            _ if self.name.contains('%') => "a NAME without %, by which its segments are found",
            _ if has_earlier => "a NAME that has no segments of an earlier recording",
            _ => return Ok(()),
        };
        let format = self.format.name();
        Err(Failure::usage(format!("--format {format} needs {what}"))
            .hint("record under another NAME"))
    }
}
