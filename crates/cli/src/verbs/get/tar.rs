//! `get --tar`: files as one archive.

use super::Get;
use crate::Context;
use crate::failure::{Exit, Failure, Result};
use crate::guard::{Outlet, Output, output_of, refuse_to_mix};
use crate::live::origin::Origin;
use crate::units::micros;
use crate::verbs::put::{ManyReport, Reported};
use crate::volume::archive::{RECORD_BYTES, padded};
use crate::volume::listing::FileEntry;
use crate::volume::{route, shown};
use std::path::PathBuf;
use std::time::Instant;
use tar::{EntryType, Header};

/// The end of an archive.
const ZEROES: [u8; 2 * RECORD_BYTES] = [0; 2 * RECORD_BYTES];

impl Get {
    /// Writes the files, with their names, sizes and times, to one archive.
    pub(super) fn run_tar(&self, context: &Context) -> Result<Exit> {
        let every = ["*".to_owned()];
        let (words, target) = match (self.all, self.words.as_slice()) {
            (true, [target]) => (every.as_slice(), target),
            (false, [names @ .., target]) if !names.is_empty() => (names, target),
            _ => {
                return Err(Failure::usage("the last word names the archive").hint(
                    "straightway get DEVICE NAME... ARCHIVE --tar, or --all ARCHIVE --tar; ARCHIVE can be -",
                ));
            }
        };
        self.refuse_for_many()?;
        let target = (target != "-").then(|| PathBuf::from(target));
        if target.is_none() {
            refuse_to_mix(self.json, "name a file")?;
        }
        let options = route::options_for_many(&self.io, false);
        let report = Origin::with(context, &self.device, &self.io, options, |origin| {
            let output = output_of(&context.roots, origin.drive, target.as_deref(), self.force)?;
            context.say(format_args!("path: {}", origin.path()));
            self.get_archive(context, origin, words, output)
        })?;
        Reported::Many(report).tell(context, self.json, "fetched", "")
    }

    fn get_archive(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        words: &[String],
        output: Option<Output>,
    ) -> Result<ManyReport> {
        let began = Instant::now();
        let chosen = self.chosen(origin, words)?;
        let headers: Vec<Header> = chosen.iter().map(header).collect::<Result<_>>()?;
        let mut report = ManyReport::new(origin.device(), origin.path());
        let bar = context.console.bytes_bar(None);
        let mut sink = Outlet::open(output)?;
        for (file, header) in chosen.iter().zip(&headers) {
            sink.take(header.as_bytes())?;
            let one = self.read(origin, file, &mut sink, &bar)?;
            let padding = padded(one.length_bytes) - one.length_bytes;
            sink.take(ZEROES.get(..padding as usize).unwrap_or_default())?;
            report.add(one);
        }
        sink.take(&ZEROES)?;
        sink.finish()?;
        bar.finish_and_clear();
        report.elapsed_us = micros(began.elapsed());
        Ok(report)
    }
}

/// The header of a file in the archive. Names of a volume are shorter than those of the oldest format.
fn header(file: &FileEntry) -> Result<Header> {
    let mut header = Header::new_gnu();
    header.set_path(&file.name).map_err(|error| {
        Failure::usage(format!(
            "`{}` cannot be in an archive: {error}",
            shown(&file.name)
        ))
        .hint("straightway mv renames it")
    })?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(file.size_bytes);
    header.set_mode(0o644);
    header.set_mtime(file.modified_ns / 1_000_000_000);
    header.set_cksum();
    Ok(header)
}
