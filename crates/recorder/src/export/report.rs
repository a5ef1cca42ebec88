// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an export reports.

use super::packets::PacketsExported;
use super::recording::Recording;
use super::segments::MissingSegments;
use crate::segments::places::Contradiction;
use devices::SCHEMA_VERSION;
use devices::error::ErrorKind;
use files::shown;
use formats::mcap::Rebuilt;
use remedy::Wording;
use schemars::JsonSchema;
use serde::Serialize;
use stream::Gap;
use units::{counted, exact};

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
    /// Gaps within it and at its end, segments between others among them if it is known how long
    /// they were.
    pub gaps: u64,
    /// Bytes that are missing there.
    pub lost_bytes: u64,
    /// Whether something was lost while it was recorded, or is missing that nothing removed on
    /// purpose.
    pub lossy: bool,
    /// Segments that are missing before the first one, between others, and behind the last.
    pub missing_segments: Vec<MissingSegments>,
    /// Files that are not what was recorded: contradicted by what segments keep of their places, or
    /// lists of gaps that are missing, cut off, or of another recording.
    pub contradictions: Vec<Contradiction>,
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
    /// Of packets that `record` made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcapng: Option<PacketsExported>,
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
    /// Whether these would be the end of the recording, so that the rest of the sample is nowhere.
    pub cut_at_end: bool,
    /// Bytes of a part of a sample at the beginning of a later segment, left out.
    pub skipped_bytes: u64,
    /// Samples that were lost behind the last one, where no capture can begin.
    pub lost_at_end_samples: u64,
    /// Captures that describe samples behind the end, left out.
    pub left_out_captures: u64,
    /// Annotations of such samples, left out.
    pub left_out_annotations: u64,
    /// Whether the digest that the stored metadata has is that of other bytes.
    pub differs_from_digest: bool,
    /// The digest of the samples.
    pub sha512: String,
}

/// What is missing in raw bytes, for FILE.gaps.json.
#[derive(Serialize)]
pub struct RawGaps<'g> {
    schema_version: u32,
    name: &'g str,
    length_bytes: u64,
    gaps: Vec<RawGap>,
    missing_segments: &'g [MissingSegments],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    contradictions: &'g [Contradiction],
}

#[derive(Serialize)]
struct RawGap {
    offset_bytes: u64,
    lost_bytes: u64,
    arrival_us: u64,
}

impl<'g> RawGaps<'g> {
    /// What is missing; none if nothing is.
    pub fn of(recording: &'g Recording, missing_segments: &'g [MissingSegments]) -> Option<Self> {
        let contradictions = recording.contradictions.as_slice();
        let is_whole =
            recording.gaps.is_empty() && missing_segments.is_empty() && contradictions.is_empty();
        (!is_whole).then(|| Self {
            schema_version: SCHEMA_VERSION,
            name: recording.name(),
            length_bytes: recording.size_bytes,
            gaps: recording.gaps.iter().map(RawGap::of).collect(),
            missing_segments,
            contradictions,
        })
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
    /// Whether what was exported is damaged, or lacks something that the recording had.
    pub fn flaw(&self) -> Option<ErrorKind> {
        let mcap = self.mcap.as_ref();
        let differs = self
            .sigmf
            .as_ref()
            .is_some_and(|sigmf| sigmf.differs_from_digest);
        let is_cut = |sigmf: &SigmfExported| sigmf.cut_bytes > 0 && sigmf.cut_at_end;
        let is_damaged = |packets: &PacketsExported| packets.skipped_bytes > 0;
        if differs
            || mcap.is_some_and(Rebuilt::has_damage)
            || self.pcapng.as_ref().is_some_and(is_damaged)
        {
            Some(ErrorKind::Rot)
        } else if self.lossy
            || self.sigmf.as_ref().is_some_and(is_cut)
            || mcap.is_some_and(Rebuilt::has_loss)
            || self.missing_segments.iter().any(MissingSegments::is_loss)
            || self.pcapng.as_ref().is_some_and(PacketsExported::has_loss)
            || !self.contradictions.is_empty()
        {
            Some(ErrorKind::Late)
        } else {
            None
        }
    }

    /// For people.
    pub fn text(&self, wording: &dyn Wording) -> String {
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
        for missing in &self.missing_segments {
            let place = match missing.offset_bytes {
                0 => "at the beginning".to_owned(),
                at => format!("at byte {at}"),
            };
            let bytes = match missing.missing_bytes {
                Some(bytes) => exact(bytes),
                None => "an unknown number of bytes".to_owned(),
            };
            line(format!(
                "{place}: {}, {bytes}",
                missing.text().word(wording, None)
            ));
        }
        for contradiction in &self.contradictions {
            line(contradiction.text());
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
            if sigmf.skipped_bytes > 0 {
                line(format!(
                    "{} at the beginning left out: the end of a sample of the segment before",
                    counted(sigmf.skipped_bytes, "byte")
                ));
            }
            if sigmf.lost_at_end_samples > 0 {
                line(format!(
                    "{} LOST behind the last one, where no capture can say so",
                    counted(sigmf.lost_at_end_samples, "sample")
                ));
            }
            if sigmf.left_out_captures > 0 {
                line(format!(
                    "{} left out: behind the last sample",
                    counted(sigmf.left_out_captures, "capture")
                ));
            }
            if sigmf.left_out_annotations > 0 {
                line(format!(
                    "{} left out: behind the last sample",
                    counted(sigmf.left_out_annotations, "annotation")
                ));
            }
            if sigmf.differs_from_digest {
                line("the samples do not match the core:sha512 of the stored metadata".to_owned());
            }
        }
        if let Some(mcap) = &self.mcap {
            Self::mcap_lines(mcap).into_iter().for_each(&mut line);
        }
        if let Some(packets) = &self.pcapng {
            line(counted(packets.packets, "packet"));
            if packets.cut_packets > 0 {
                line(format!(
                    "{} CUT OFF when they were recorded",
                    counted(packets.cut_packets, "packet")
                ));
            }
            if packets.lost_packets > 0 {
                line(format!(
                    "{} LOST before they could be recorded",
                    counted(packets.lost_packets, "packet")
                ));
            }
            if packets.skipped_bytes > 0 {
                line(format!(
                    "{} LEFT OUT: damaged, or of a block that is not whole",
                    counted(packets.skipped_bytes, "byte")
                ));
            }
        }
        if !self.verified {
            line("not verified: the recording has no checksums".to_owned());
        }
        text
    }
}

impl Exported {
    fn mcap_lines(rebuilt: &Rebuilt) -> Vec<String> {
        let mut lines = vec![format!(
            "{} in {} of {}",
            counted(rebuilt.messages, "message"),
            counted(rebuilt.chunks, "chunk"),
            counted(rebuilt.channels, "channel")
        )];
        let kept = [
            (rebuilt.attachments, "attachment"),
            (rebuilt.metadata, "metadata record"),
        ];
        for (count, thing) in kept {
            if count > 0 {
                lines.push(counted(count, thing));
            }
        }
        if !rebuilt.has_header {
            lines.push("the stream's header is missing; the file's has no profile".to_owned());
        }
        if !rebuilt.was_whole {
            lines.push("the stream has no end; the file has one".to_owned());
        }
        let counts = [
            (
                rebuilt.cut_bytes,
                "byte",
                "at the end of the stream in a record that is not complete",
            ),
            (
                rebuilt.skipped_bytes,
                "byte",
                "left out beside gaps or damage: of records that are not complete, or not known",
            ),
            (
                rebuilt.recovered_messages,
                "message",
                "recovered from a chunk that is not complete, not covered by its checksum",
            ),
            (
                rebuilt.recalled_channels,
                "channel",
                "taken from elsewhere in the recording",
            ),
            (rebuilt.damaged_chunks, "chunk", "left out: damaged"),
            (
                rebuilt.damaged_records,
                "record",
                "left out: a damaged header, attachment or metadata, or a wrong length",
            ),
            (
                rebuilt.left_out_records,
                "record",
                "left out: without a channel or a schema, or malformed",
            ),
            (
                rebuilt.missing_messages,
                "message",
                "counted by the stream's statistics, and not found",
            ),
            (
                rebuilt.late_records,
                "record",
                "behind the end of the data, kept",
            ),
            (
                rebuilt.ignored_bytes,
                "byte",
                "behind the stream's end left out",
            ),
        ];
        for (count, thing, what) in counts {
            if count > 0 {
                lines.push(format!("{} {what}", counted(count, thing)));
            }
        }
        if rebuilt.data_matches == Some(false) {
            lines.push(
                "the data does not match the checksum that the stream has of all of it".to_owned(),
            );
        }
        lines
    }
}
