// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of a recording.

use super::RecordSettings;
use crate::producer::Why;
use crate::recording::Recorded;
use crate::report::{Counted, RecordedFile, buckets};
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use files::shown;
use remedy::{Remedy, Setting};
use stream::Error as StreamError;
use units::Size;

impl RecordSettings {
    /// Why the recording ended early, or could not be closed.
    pub(super) fn failure_of(&self, ended: &Recorded, closed: Result<()>) -> Option<Error> {
        match (ended.result, closed) {
            (Err(error), _) => {
                let durable_bytes = ended.report.durable_bytes;
                let remark = format_args!("{durable_bytes} bytes of it are durable");
                let failure = match ended.segments.last() {
                    Some(last) => self.failure_in(&last.name, error),
                    None => self.failure(&self.name, error),
                };
                Some(failure.and(remark))
            }
            (Ok(()), Err(failure)) => Some(failure),
            _ => None,
        }
    }

    pub(super) fn failure(&self, name: &str, error: StreamError) -> Error {
        let doing = format!("recording `{}`", shown(name));
        crate::failure(&doing, error).unwrap_or_else(|error| match error {
            StreamError::Overrun { .. } => overrun(format!("{doing}: {error}")),
            error => Error::usage(format!("{doing}: {error}")),
        })
    }

    /// The same of a segment, whose offsets and times count from its own beginning.
    fn failure_in(&self, segment: &str, error: StreamError) -> Error {
        let StreamError::Overrun {
            offset_bytes,
            at_us,
        } = error
        else {
            return self.failure(segment, error);
        };
        overrun(format!(
            "recording `{}`: the drive did not keep up: at offset {offset_bytes} of this segment, \
             {at_us} us after it began, a block arrived and no buffer was empty",
            shown(segment)
        ))
    }

    pub(super) fn report(
        &self,
        drive: &Drive,
        path: &str,
        begin_bytes: u64,
        ended: Recorded,
        failure: Option<Error>,
    ) -> (RecordedFile, Option<Error>) {
        let counted = &ended.report;
        let buffers = u64::from(ended.buffers);
        let (ended_by, of_source) = match ended.produced.why {
            _ if failure.is_some() => ("failed", None),
            Ok(Why::Length) => ("length", None),
            Ok(Why::Source) => ("source", None),
            Ok(Why::Stopped) => ("stopped", None),
            Err(of_source) => ("failed", Some(of_source)),
        };
        let nothing_came = self.size != Some(Size(0))
            && counted.durable_bytes <= begin_bytes
            && counted.lost_blocks == 0
            && counted.abandoned_bytes == 0
            && ended.produced.dropped_datagrams == 0;
        let report = RecordedFile {
            counted: Counted {
                schema_version: SCHEMA_VERSION,
                device: drive.to_string(),
                path: path.to_owned(),
                name: self.name.clone(),
                length_bytes: counted.durable_bytes.saturating_sub(begin_bytes),
                elapsed_us: ended.elapsed_us,
                blocks: counted.blocks,
                misses: counted.misses,
                lateness_max_us: counted.lateness_max_us,
                latency_max_us: counted.latency_max_us,
                latencies: buckets(&counted.latencies),
                buffers,
                // A source that waits fills those that there are.
                smallest_buffers: counted.smallest_ring_blocks().map(|most| most.min(buffers)),
                retries: counted.retries,
            },
            ended_by,
            begin_bytes,
            smallest_buffer_bytes: counted
                .smallest_ring_bytes()
                .map(|most| most.min(buffers * self.block.0)),
            lost_blocks: counted.lost_blocks,
            lost_bytes: counted.lost_bytes,
            gaps: counted.gaps,
            abandoned_bytes: counted.abandoned_bytes,
            dropped_datagrams: ended.produced.dropped_datagrams,
            cut_datagrams: ended.produced.cut_datagrams,
            tardy_blocks: ended.produced.tardy_blocks,
            commits: counted.commits,
            reservations: counted.reservations,
            segments: ended.segments,
            removed_segments: ended.removed_segments,
            removed_early_segments: ended.removed_early_segments,
            nothing_came,
            rehearsal: None,
        };
        (report, failure.or(of_source))
    }
}

/// The failure of a recording that lost a block and stops.
fn overrun(what: String) -> Error {
    Error::new(ErrorKind::Late, what).hint(Remedy::one_of([
        Remedy::More(Setting::Buffers),
        Remedy::from("larger ones"),
        Remedy::Less(Setting::Rate),
        Setting::Policy.to("drop"),
    ]))
}
