// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway cp DEVICE NAME COPY`: copies a file within a volume.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::IoArgs;
use crate::verbs::mv::say_left;
use crate::verbs::put::{Report, Reported};
use clap::Args;
use devices::error::Result;
use devices::transfer::Span;
use devices::{Bar, SCHEMA_VERSION};
use files::drain::{Part, drain};
use files::fill::fill;
use files::flow::Sums;
use files::listing::{Listing, UNFINISHED_TAG, refuse_unfinished};
use files::names::check_name;
use files::{Mounted, Store, failed, pace, route, shown, warn_of_misfit};
use live::origin::Origin;
use recorder::export::{companion_renamed, companions_of, warn_of_list};
use std::time::Instant;
use units::micros;
use volume::{CreateOptions, Error, File, StoredFile};

/// Bytes that are read before they are written: one volume does one after the other.
const PART_BYTES: u64 = 16 << 20;

/// Copy a file within a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The copy has the file's time, number and checksums, and is durable when the command exits with 0. A file
with checksums is verified; if it does not match, or the command is interrupted, there is no copy. A file
that has the name COPY already is never replaced. What belongs to the file (its list of gaps, its description) is not
copied with it, and is named.

To another volume: straightway get DEVICE NAME... - --tar | straightway put OTHER - --tar")]
pub struct Cp {
    /// The device with the volume
    pub device: String,
    /// The file's name
    pub name: String,
    /// The name of the copy
    pub copy: String,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Cp {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device or the volume failed, the file does not match its checksums, a name is taken, or
    /// the user cancelled.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        check_name(&self.name)?;
        check_name(&self.copy)?;
        warn_of_misfit(context, &self.copy);
        let options = route::open_options(&self.io, true);
        let (report, companions) = Store::with(context, &self.device, &options, |mounted| {
            let report = self.copied(context, mounted)?;
            let origin = Origin::here(context, &self.io, mounted);
            let listed = Listing::read(mounted)?.files;
            let mut companions = companions_of(&origin, &listed, &self.name);
            companions.retain(|one| {
                let copy = companion_renamed(one, &self.name, &self.copy);
                copy.is_none_or(|copy| !listed.iter().any(|file| file.name == copy))
            });
            Ok((report, companions))
        })?;
        for companion in &companions {
            let left = "belongs to it and is not copied";
            say_left(
                context,
                (&self.device, "cp", left),
                companion,
                (&self.name, &self.copy),
            );
        }
        Reported::One(report).tell(context, self.json, "copied to", "")
    }

    fn copied(&self, context: &Context, mounted: &Mounted<'_, '_>) -> Result<Report> {
        let pace = pace(mounted, &self.io)?;
        let doing = || {
            let (name, copy) = (shown(&self.name), shown(&self.copy));
            format!("copying `{name}` to `{copy}`")
        };
        let volume = mounted.volume;
        let entry = mounted
            .run(doing(), volume.find(&self.name))
            .map_err(|failure| mounted.or_folder(&self.name, failure))?;
        refuse_unfinished(&entry)?;
        if mounted.find(&self.copy)?.is_some() {
            let hint = format!("another name, or: straightway rm {} NAME", self.device);
            return Err(failed(format_args!("`{}`", shown(&self.copy)), Error::Exists).hint(hint));
        }
        mounted.warn_of_clash(context, &self.copy)?;
        warn_of_list(context, &self.copy, entry.app_tag, |of| {
            Ok(mounted.find(of)?.map(|found| found.app_tag))
        })?;
        let began = Instant::now();
        volume.set_time(entry.mtime_ns);
        let options = CreateOptions {
            reserve_bytes: entry.size_bytes,
            checksums: entry.checksums,
            // Until it is whole: a kill or a power cut leaves it so.
            app_tag: UNFINISHED_TAG,
        };
        let create = volume.with_space(|| volume.create(&self.copy, &options));
        let file = mounted.run(doing(), create)?;
        let moved = self
            .parts(context, mounted, &entry, file, pace)
            .and_then(|requests| {
                let marked = volume.set_app_tag(file, entry.app_tag);
                marked.map_err(|error| failed(doing(), error))?;
                Ok(requests)
            });
        let closed = mounted.run(doing(), volume.close(file));
        let requests = match (moved, closed) {
            (Ok(requests), Ok(())) => requests,
            (Err(failure), _) | (Ok(_), Err(failure)) => {
                // Half a copy is none. A drive that is gone keeps it.
                let _ = mounted.remove(&self.copy);
                return Err(failure);
            }
        };
        Ok(Report {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            path: mounted.path.to_owned(),
            name: self.copy.clone(),
            offset_bytes: 0,
            length_bytes: entry.size_bytes,
            requests,
            elapsed_us: micros(began.elapsed()),
            checksums: entry.checksums,
            verified: entry.checksums,
            replaced: false,
            growing: false,
        })
    }

    /// Reads and writes part by part; the number of requests.
    fn parts(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        entry: &StoredFile,
        file: File,
        pace: Span,
    ) -> Result<u64> {
        let bar = context.bytes_bar(Some(entry.size_bytes));
        let silent = Bar::hidden();
        let (mut requests, mut offset_bytes) = (0, 0);
        let mut data = Vec::new();
        while offset_bytes < entry.size_bytes {
            data.clear();
            let part = Part {
                name: &self.name,
                offset_bytes,
                length_bytes: PART_BYTES.min(entry.size_bytes - offset_bytes),
                size_bytes: entry.size_bytes,
                sums: if entry.checksums {
                    Sums::Stored
                } else {
                    Sums::Ignored
                },
                past_rot: false,
                pace,
            };
            let mut keep = |bytes: &[u8]| {
                data.extend_from_slice(bytes);
                Ok(())
            };
            let read = drain(mounted, &part, &mut keep, &silent, &context.cancel)?;
            let mut rest = data.as_slice();
            let mut give = |buffer: &mut [u8], _: &std::sync::atomic::AtomicBool| {
                let (now, later) = rest.split_at(rest.len().min(buffer.len()));
                buffer
                    .iter_mut()
                    .zip(now)
                    .for_each(|(to, from)| *to = *from);
                rest = later;
                Ok(now.len())
            };
            let written = fill(mounted, file, pace, &mut give, &silent, &context.cancel)?;
            requests += read.requests + written.requests;
            offset_bytes += part.length_bytes;
            bar.set_position(offset_bytes);
        }
        bar.finish_and_clear();
        Ok(requests)
    }
}
