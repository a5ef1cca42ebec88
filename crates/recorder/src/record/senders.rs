// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples and messages of one `tcp://` sender after another: each is a recording of its own, which
//! begins in the next segment.
//!
//! What another sender sends begins with its own header, or at a sample of its own, so it cannot go
//! on in the middle of a file. While none is connected, the volume is free for other processes.

use super::RecordSettings;
use super::feed::Feed;
use crate::place::Place;
use crate::report::RecordedFile;
use crate::senders;
use crate::source::next_sender;
use devices::Context;
use devices::drive::Drive;
use devices::error::Result;
use formats::Format;
use std::time::{Duration, Instant};
use units::{Size, Time};

impl RecordSettings {
    /// The address at which one sender after another begins a recording, if it is such.
    pub(super) fn address_of_senders(&self) -> Option<&str> {
        let has_header = self.format != Format::Raw;
        let goes_on = has_header && !self.once && self.segments.segment.is_some();
        match &self.from.0 {
            Place::Tcp(address) if goes_on => Some(address),
            _ => None,
        }
    }

    /// Whether the recording ends although another sender may come.
    pub(super) fn ends_with_sender(&self) -> bool {
        let is_tcp = matches!(self.from.0, Place::Tcp(_));
        let is_one = self.segments.segment.is_none();
        is_tcp && is_one && !self.once && self.format != Format::Raw
    }

    /// Records what each sender sends, until the recording is stopped, fails, or has the length
    /// that was asked for; `each` gets what became of each. Returns whether all was in time and
    /// whole.
    pub(super) fn record_each_sender(
        &self,
        context: &Context,
        address: &str,
        each: &mut dyn FnMut(&RecordedFile) -> Result<()>,
    ) -> Result<bool> {
        let listener = senders::listen(address)?;
        let mut next = self.clone();
        let mut is_good = true;
        // When the time is over that it records, counted from the first block.
        let mut end: Option<Instant> = None;
        for turn in 0_u64.. {
            let is_over = || end.is_some_and(|end| Instant::now() >= end);
            let sender = match turn {
                // With the volume, so that it is not missing when the sender comes.
                0 => Feed::Listening(&listener),
                _ => {
                    let stop = || {
                        self.waits();
                        context.cancel.is_set() || is_over()
                    };
                    match next_sender(&listener, address, &stop) {
                        Ok(stream) => Feed::Sender(stream),
                        Err(_) if stop() => return Ok(is_good),
                        Err(failure) => return Err(failure),
                    }
                }
            };
            let drive = Drive::find(&context.roots, &self.device)?;
            let (report, failure) = next.record_here(context, drive, sender)?;
            each(&report)?;
            if let Some(failure) = failure {
                return Err(failure);
            }
            is_good &= report.is_good();
            if report.ended_by != "source" {
                return Ok(is_good);
            }
            if let Some(Size(size)) = next.size {
                next.size = Some(Size(size.saturating_sub(report.counted.length_bytes)));
            }
            if let Some(time) = self.for_time {
                let now = Instant::now();
                let took = Duration::from_micros(report.counted.elapsed_us);
                let end = *end.get_or_insert(now + time.0.saturating_sub(took));
                next.for_time = Some(Time(end.saturating_duration_since(now)));
            }
            context.say(format_args!(
                "the sender left; another one at tcp://{address} begins the next segment"
            ));
        }
        Ok(is_good)
    }
}
