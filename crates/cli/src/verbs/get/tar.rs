// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `get --tar`: files as one archive.

use super::Get;
use super::many::ends_all;
use crate::Context;
use crate::exit::Exit;
use crate::verbs::put::{ManyReport, Reported};
use devices::error::{Error, Result};
use devices::guard::{Outlet, Output, output_of, refuse_to_mix};
use files::archive::{RECORD_BYTES, padded};
use files::listing::FileEntry;
use files::naming::misfit;
use files::{route, shown};
use live::origin::Origin;
use recorder::export::Missing;
use remedy::{Part, Setting, words};
use std::path::PathBuf;
use std::time::Instant;
use tar::{EntryType, Header};
use units::micros;

/// The end of an archive.
const ZEROES: [u8; 2 * RECORD_BYTES] = [0; 2 * RECORD_BYTES];

impl Get {
    /// Writes the files, with their names, sizes and times, to one archive.
    pub(super) fn run_tar(&self, context: &Context) -> Result<Exit> {
        let (words, target) = match (self.all, self.words.as_slice()) {
            (true, [target]) => (&[][..], target),
            (false, [names @ .., target]) if !names.is_empty() => (names, target),
            _ => {
                return Err(Error::usage("the last word names the archive").hint(words![
                    "straightway get ",
                    remedy::Device,
                    " NAME... ARCHIVE ",
                    Part::Option(Setting::Tar),
                    ", or ",
                    Setting::All,
                    " ARCHIVE ",
                    Setting::Tar,
                    "; ARCHIVE can be -"
                ]));
            }
        };
        self.refuse_for_many()?;
        let target = (target != "-").then(|| PathBuf::from(target));
        if target.is_none() {
            refuse_to_mix(self.json, "name a file")?;
        }
        let options = route::options_for_many(&self.io, false);
        let (report, missing) = Origin::with(context, &self.device, &self.io, options, |origin| {
            let output = output_of(&context.roots, origin.drive, target.as_deref(), self.force)?;
            context.say(format_args!("path: {}", origin.path()));
            self.get_archive(context, origin, words, output)
        })?;
        let exit = Reported::Many(report).tell(context, self.json, "fetched", "")?;
        missing.failure("fetched").map_or(Ok(exit), Err)
    }

    fn get_archive(
        &self,
        context: &Context,
        origin: &Origin<'_, '_>,
        words: &[String],
        output: Option<Output>,
    ) -> Result<(ManyReport, Missing)> {
        let began = Instant::now();
        let (chosen, missing) = self.chosen(context, origin, words)?;
        let mut report = ManyReport::new(origin.device(), origin.path());
        let mut failed: Vec<(&str, Error)> = Vec::new();
        let bar = context.bytes_bar(None);
        let mut sink = Outlet::open(output, &context.cancel)?;
        for file in &chosen {
            let header = match file.refuse_unfinished().and_then(|()| header(file)) {
                Ok(header) => header,
                Err(failure) => {
                    failed.push((&file.name, failure));
                    continue;
                }
            };
            sink.take(&header)?;
            let mut taken = 0;
            match self.read(origin, file, &mut sink, &mut taken, &bar) {
                Ok(one) => report.add(one),
                Err(failure) if ends_all(&failure) => return Err(failure),
                // The header has its length already. As tar does with a file that became shorter.
                Err(failure) => {
                    let remark = format_args!(
                        "the archive has zeroes from byte {taken} of `{}` on",
                        shown(&file.name)
                    );
                    failed.push((&file.name, failure.and(remark)));
                }
            }
            zeroes(&mut sink, padded(file.size_bytes) - taken)?;
        }
        sink.take(&ZEROES)?;
        sink.finish()?;
        bar.finish_and_clear();
        report.elapsed_us = micros(began.elapsed());
        match report.incomplete_but(failed, "in the archive", "not whole or not in it") {
            None => Ok((report, missing)),
            Some(failure) => Err(failure),
        }
    }
}

fn zeroes(sink: &mut Outlet, mut count: u64) -> Result<()> {
    while count > 0 {
        let part = count.min(ZEROES.len() as u64);
        sink.take(ZEROES.get(..part as usize).unwrap_or_default())?;
        count -= part;
    }
    Ok(())
}

/// Bytes of a name in a header.
const HEADER_NAME_BYTES: usize = 100;

/// The header of a file in the archive. A longer name is in a member of its own before it, as GNU
/// tar has it.
fn header(file: &FileEntry) -> Result<Vec<u8>> {
    let mut header = Header::new_gnu();
    let mut bytes = Vec::new();
    // Unpacked, it would be a folder, lead out of one, or be the file of another name.
    let refused = |why| {
        let what = format!(
            "`{}` cannot be a name in an archive: {why}",
            shown(&file.name)
        );
        Error::usage(what).hint("straightway mv renames it")
    };
    if let Some(why) = misfit(&file.name) {
        return Err(refused(why));
    }
    let mut end = file.name.len();
    if end > HEADER_NAME_BYTES {
        bytes = long_name(&file.name);
        end = HEADER_NAME_BYTES;
        while !file.name.is_char_boundary(end) {
            end -= 1;
        }
    }
    header
        .set_path(file.name.get(..end).unwrap_or_default())
        .map_err(|_| refused("archives have no place for it"))?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(file.size_bytes);
    header.set_mode(0o644);
    header.set_mtime(file.modified_ns / 1_000_000_000);
    header.set_cksum();
    bytes.extend_from_slice(header.as_bytes());
    Ok(bytes)
}

/// The member of type `L` with the name of the one that follows.
fn long_name(name: &str) -> Vec<u8> {
    let mut header = Header::new_gnu();
    // It ends with a zero.
    let size_bytes = name.len() as u64 + 1;
    if let Some(gnu) = header.as_gnu_mut() {
        let said = b"././@LongLink";
        gnu.name
            .iter_mut()
            .zip(said)
            .for_each(|(at, byte)| *at = *byte);
    }
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(size_bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes.resize(RECORD_BYTES + padded(size_bytes) as usize, 0);
    bytes
}
