// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording with the pattern instead of its source, removed again: whether the drive holds the
//! rate.

use super::{Policy, RecordSettings};
use crate::place::{From, Place};
use crate::report::{RecordedFile, Rehearsal};
use crate::segments::Segmentation;
use crate::volume_host::VolumeHost;
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, Result};
use files::shown;
use formats::Format;
use remedy::{Setting, Value, words};
use units::Time;

/// The name of a rehearsal, until it is removed.
const REHEARSAL: &str = "rehearsal~";

impl RecordSettings {
    /// Records the pattern as the recording would be, removes it again, and returns what was found.
    ///
    /// # Errors
    /// The settings have no rate or are invalid, or the device or the volume failed.
    pub fn rehearse(&self, context: &Context, time: Time) -> Result<(RecordedFile, Rehearsal)> {
        let named = self.named()?;
        crate::check_block(named.block)?;
        let rate = named.rate.or_else(|| named.rate_of_samples());
        let rate = rate.filter(|rate| rate.0 > 0).ok_or_else(|| {
            Error::usage(words![
                Setting::Rehearse,
                " needs the ",
                Setting::Rate,
                " of the recording"
            ])
            .hint(Setting::Rate.to(Value::Bytes(100 << 20)))
        })?;
        let rehearsal = Self {
            name: REHEARSAL.to_owned(),
            rate: Some(rate),
            from: From(Place::Pattern),
            for_time: Some(time),
            size: None,
            // To see how much would be lost.
            policy: Policy::Drop,
            format: Format::Raw,
            segments: Segmentation::NONE,
            ..named.clone()
        };
        let drive = Drive::find(&context.roots, &self.device)?;
        let network_stall_s = drive.longest_stall_s();
        let mut free_bytes = 0;
        let recorded = rehearsal.record_local(context, drive, |host, path| {
            let is_taken = !named.append && named.segments.segment.is_none();
            if is_taken && host.exists(&named.name)? {
                context.say(format_args!(
                    "`{}` exists: a recording of this name will be refused",
                    shown(&named.name)
                ));
            }
            let recorded = rehearsal.record_bytes(context, host, path)?;
            for name in rehearsal.names() {
                if host.exists(&name)? {
                    VolumeHost::remove(host, &name)?;
                }
            }
            let free = host.run("reading the free space", host.volume.free_units())?;
            free_bytes = free * host.volume.status().shape.unit_bytes();
            Ok(recorded)
        });
        let (report, failure) = recorded?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let found = Rehearsal {
            holds: !report.has_lost() && (report.counted.misses == 0 || !self.has_deadline),
            deadline_us: units::micros(self.deadline.0),
            deadline_was_given: self.has_deadline,
            bytes_per_second: rate.0,
            free_bytes,
            lasts_s: free_bytes / rate.0,
            network_stall_s,
            network_stall_buffers: named.buffers_for(network_stall_s, rate.0),
        };
        Ok((report, found))
    }
}
