// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `get` of a file on a volume that another process records on; with `--follow` until nothing more
//! is written to it.
//!
//! What is committed comes from the recording's process. When that ends, the rest is read from the
//! volume itself.

use super::Get;
use crate::Context;
use crate::verbs::put::Report;
use devices::Bar;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::Outlet;
use files::{Access, Store, route, shown};
use live::READ_BYTES;
use live::origin::{HANDOVER, pause};
use live::reader::{End, Live};
use remedy::words;
use std::time::Instant;
use units::{Size, micros};

/// A file on its way.
struct Copied {
    /// What was delivered ends here.
    at_bytes: u64,
    /// Where the copy ends, if that is known.
    end_bytes: Option<u64>,
    requests: u64,
    has_checksums: bool,
    modified_ns: u64,
    /// It was still being written when its last byte was delivered.
    is_growing: bool,
    /// The process that wrote it was killed, or the machine's power failed.
    is_cut: bool,
}

impl Get {
    /// Fetches a file, as a recording or the volume gives it; the flag says that the recording did
    /// not end in order.
    pub(super) fn get_live(
        &self,
        context: &Context,
        mut live: Live,
        name: &str,
        sink: &mut Outlet,
    ) -> Result<(Report, bool)> {
        let began = Instant::now();
        let mut copied = Copied {
            at_bytes: self.offset.0,
            end_bytes: None,
            requests: 0,
            has_checksums: true,
            modified_ns: 0,
            is_growing: false,
            is_cut: false,
        };
        let bar = context.bytes_bar(None);
        // Who names a length knows how much there is. A recording that has just ended is seen
        // below.
        if let (None, Ok(known)) = (&self.length, live.file(name)) {
            known.entry.refuse_unfinished()?;
        }
        let mut live = Some(live);
        let mut ended: Option<Instant> = None;
        loop {
            if let Some(live) = &mut live {
                if self.copy(context, live, name, sink, &mut copied, &bar)? {
                    break;
                }
                copied.is_cut |= live.end() == End::Silent;
                ended = None;
            }
            // The recording has ended, or another one has begun.
            let ended = *ended.get_or_insert_with(Instant::now);
            match self.copy_rest(context, name, sink, &mut copied, &bar) {
                Ok(()) => break,
                Err(failure)
                    if failure.kind() == ErrorKind::Missing && ended.elapsed() < HANDOVER => {}
                Err(failure) => return Err(failure),
            }
            pause(context)?;
            live = Live::find(context, &self.device)?;
        }
        bar.finish_and_clear();
        sink.set_modified(copied.modified_ns);
        let report = Report {
            path: Live::PATH.to_owned(),
            offset_bytes: self.offset.0,
            length_bytes: copied.at_bytes - self.offset.0,
            requests: copied.requests,
            elapsed_us: micros(began.elapsed()),
            checksums: copied.has_checksums,
            verified: copied.has_checksums,
            growing: copied.is_growing,
            ..Report::of_hardware(&self.device, name)
        };
        Ok((report, copied.is_cut && self.follow))
    }

    /// Copies what the recording commits, until the file is complete; false: the recording has
    /// ended before.
    fn copy(
        &self,
        context: &Context,
        live: &mut Live,
        name: &str,
        sink: &mut Outlet,
        copied: &mut Copied,
        bar: &Bar,
    ) -> Result<bool> {
        let mut data = Vec::new();
        loop {
            let left = copied
                .end_bytes
                .map_or(u64::MAX, |end| end - copied.at_bytes);
            let most = left.min(READ_BYTES as u64);
            let Some(found) = live.read(name, copied.at_bytes, most, &mut data)? else {
                return Ok(false);
            };
            if self.verify && !found.verified {
                return Err(no_checksums(name));
            }
            if copied.end_bytes.is_none() && !self.follow {
                let length = self.length_in(name, found.size_bytes)?;
                copied.end_bytes = Some(self.offset.0 + length);
            } else if copied.at_bytes > found.size_bytes && !found.is_growing {
                self.length_in(name, found.size_bytes)?;
            }
            copied.has_checksums &= found.verified;
            copied.modified_ns = found.modified_ns;
            let end = copied.end_bytes.unwrap_or(u64::MAX);
            let wanted = (end - copied.at_bytes).min(data.len() as u64) as usize;
            if let Some(wanted) = data.get(..wanted).filter(|wanted| !wanted.is_empty()) {
                sink.take(wanted)?;
                copied.at_bytes += wanted.len() as u64;
                copied.requests += 1;
            }
            bar.set_position(copied.at_bytes - self.offset.0);
            let is_last = !found.is_growing && copied.at_bytes >= found.size_bytes;
            if is_last || copied.at_bytes >= end {
                copied.is_growing = found.is_growing && self.length.is_none();
                return Ok(true);
            }
            if data.is_empty() {
                pause(context)?;
            }
            if context.cancel.is_set() {
                return Err(Error::interrupted("interrupted"));
            }
        }
    }

    /// Copies the rest from the volume, which no process has now.
    fn copy_rest(
        &self,
        context: &Context,
        name: &str,
        sink: &mut Outlet,
        copied: &mut Copied,
        bar: &Bar,
    ) -> Result<()> {
        let rest = Self {
            offset: Size(copied.at_bytes),
            length: copied.end_bytes.map(|end| Size(end - copied.at_bytes)),
            ..self.clone()
        };
        let drive = Drive::find(&context.roots, &self.device)?;
        let options = route::open_options(&self.io, false);
        let mut store = Store::of(context, drive, &options)?;
        let fetched = store.mount(Access::Read, |mounted| {
            let entry = Self::entry(mounted, name)?;
            let part = rest.part(mounted, &entry)?;
            let report = rest.fetch(context, mounted, &part, bar, |data| sink.take(data))?;
            copied.at_bytes += report.length_bytes;
            copied.requests += report.requests;
            copied.has_checksums &= report.checksums;
            copied.modified_ns = entry.modified_ns;
            // Whatever its process said: it is over when the volume has been unmounted.
            copied.is_cut |= !mounted.volume.status().clean;
            Ok(())
        });
        store.close(fetched)
    }
}

/// The failure of `--follow` when the recording's process did not end in order.
pub(super) fn cut(name: &str) -> Error {
    let what = format!(
        "the recording of `{}` did not end in order: its process was killed, or the power failed; what it had not committed is lost",
        shown(name)
    );
    Error::other(what).hint(words!["straightway check ", remedy::Device])
}

/// The failure of a file that is being written, of which nothing is committed.
pub(super) fn nothing_yet(name: &str) -> Error {
    let what = format!(
        "nothing of `{}` is committed yet: it is being recorded",
        shown(name)
    );
    Error::new(ErrorKind::NotFound, what).hint("--follow waits for what comes")
}

/// The failure of `--verify` for a file without checksums.
pub(super) fn no_checksums(name: &str) -> Error {
    Error::other(format!("`{}` has no checksums to verify", shown(name)))
        .hint("omit --verify; straightway put --checksums stores checksums")
}
