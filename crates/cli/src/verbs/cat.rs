// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway cat DEVICE NAME...`: files of a volume, one after the other, to standard output.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::IoArgs;
use clap::Args;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::{Outlet, output_of};
use files::listing::FileEntry;
use files::names::check_name;
use files::route;
use files::tree::{choose, none_of, some};
use live::origin::Origin;
use recorder::export::{LeftOut, Missing, in_order};
use remedy::words;
use std::collections::{BTreeMap, BTreeSet};
use units::counted;

/// Print files of a volume, one after the other.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
In the order of the words; the files that a pattern fits in the order of their names, segments in the order
of their numbers. Nothing is printed if a word fits no file. A file with checksums is verified: what does not
match is not printed, and the exit status is 6. While one process records, a pattern takes the final files, and names
what is being written; with --partial, or where it is named, that is printed as far as it is committed.

The segments of a recording become one stream: straightway cat DEVICE 'run.*' | ... The companions .gaps and
.sigmf-meta of what a pattern fits are left out, and named; a pattern that fits nothing else prints them. If
segments that a pattern should fit are missing on the volume, those that it has are printed, the others named, and
the exit status is 7; what a ring has removed is not missing. Segments that it removes amid this are left out, and
named: status 7.")]
pub struct Cat {
    /// The device with the volume
    pub device: String,
    /// The files' names, or patterns
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Of a pattern, also what is being written, as far as it is committed
    #[arg(long)]
    pub partial: bool,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
}

impl Cat {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume or a file failed, or standard output was closed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        for name in &self.names {
            check_name(name)?;
        }
        let options = route::open_options(&self.io, false);
        let (missing, removed) =
            Origin::with(context, &self.device, &self.io, options, |origin| {
                let output = output_of(&context.roots, origin.drive, None, false)?;
                let all = origin.files()?;
                let Chosen {
                    files,
                    left_out,
                    unfinished,
                    missing,
                } = self.chosen(origin, &all)?;
                if files.is_empty() {
                    let hint = words![
                        "straightway cat ",
                        remedy::Device,
                        " NAME, or --partial, prints what is committed"
                    ];
                    return Err(unfinished
                        .failure("printed", hint)
                        .unwrap_or_else(|| Error::other("nothing was chosen")));
                }
                if let Some(text) = unfinished.text() {
                    context.say(format_args!("{text}: left out"));
                }
                let whole = files.iter().try_for_each(|file| file.refuse_unfinished());
                whole.map_err(|failure| failure.and("nothing was printed"))?;
                if !left_out.is_empty() {
                    let names = some(left_out.iter().map(String::as_str));
                    context.say(format_args!("not part of the stream, left out: {names}"));
                }
                let mut sink = Outlet::open(output, &context.cancel)?;
                let bar = context.bytes_bar(None);
                let mut removed = Vec::new();
                for file in files {
                    let mut printed_bytes = 0;
                    let mut take = |data: &[u8]| {
                        sink.take(data)?;
                        printed_bytes += data.len() as u64;
                        Ok(())
                    };
                    match origin.read(file, file.size_bytes, &bar, &mut take) {
                        Ok(_) => {}
                        // As a ring does with its oldest segments: the others are there.
                        Err(failure) if failure.kind() == ErrorKind::NotFound => {
                            removed.push((file.clone(), printed_bytes, failure));
                        }
                        Err(failure) => return Err(failure),
                    }
                }
                bar.finish_and_clear();
                sink.finish().map(|()| (missing, removed))
            })?;
        let failure = missing.failure("printed");
        match (of_removed(removed), failure) {
            (None, failure) => failure.map_or(Ok(Exit::Done), Err),
            (Some(removed), None) => Err(removed),
            (Some(removed), Some(missing)) => Err(removed.and(missing.what().clone())),
        }
    }

    /// The files that the words choose, word by word.
    fn chosen<'f>(&self, origin: &Origin<'_, '_>, all: &'f [FileEntry]) -> Result<Chosen<'f>> {
        let files: BTreeMap<&str, &FileEntry> =
            all.iter().map(|file| (file.name.as_str(), file)).collect();
        let names: Vec<&str> = files.keys().copied().collect();
        let mut chosen = Chosen::default();
        let mut by_pattern: Vec<&FileEntry> = Vec::new();
        let mut by_name: Vec<&FileEntry> = Vec::new();
        for word in &self.names {
            let (found, idle) = choose(std::slice::from_ref(word), &names)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &names, &self.device).and("nothing was printed"));
            }
            let found = found.into_iter().map(str::to_owned).collect();
            let is_name = files.contains_key(word.as_str());
            let (found, left_out) = if is_name {
                (found, Vec::new())
            } else {
                in_order(found)
            };
            let found = found.iter().filter_map(|name| files.get(name.as_str()));
            let mut found: Vec<&FileEntry> = found.copied().collect();
            if is_name {
                by_name.extend(&found);
            } else {
                if !self.partial {
                    let mut names = found.iter().map(|file| file.name.clone()).collect();
                    let out = LeftOut::of_names(all, &mut names, &self.names);
                    let written: BTreeSet<String> = out.written.iter().cloned().collect();
                    found.retain(|file| !written.contains(&file.name));
                    chosen.unfinished.written.extend(out.written);
                    chosen.unfinished.empty.extend(out.empty);
                }
                by_pattern.extend(&found);
                found.retain(|file| !chosen.unfinished.has_empty(&file.name));
            }
            chosen.files.extend(found);
            chosen.left_out.extend(left_out);
        }
        let missing = Missing::among(origin, all, &by_pattern)?;
        chosen.missing = missing.with_lists_of(origin, by_name)?;
        Ok(chosen)
    }
}

/// The failure of files that were removed before they were printed, each with what was printed of
/// it.
fn of_removed(removed: Vec<(FileEntry, u64, Error)>) -> Option<Error> {
    let mut removed = removed.into_iter();
    let (first, mut parts, failure) = removed.next()?;
    let mut others = 0;
    for (_, printed_bytes, _) in removed {
        others += 1;
        parts += printed_bytes;
    }
    let mut what = match others {
        0 => "the others were printed".to_owned(),
        others => format!(
            "so {} {}; the others were printed",
            if others == 1 { "was" } else { "were" },
            counted(others, "other file")
        ),
    };
    if parts > 0 {
        what += &format!(", and {} of what was removed", counted(parts, "byte"));
    }
    Some(first.unread(failure).and(what))
}

/// What the words choose.
#[derive(Default)]
struct Chosen<'f> {
    files: Vec<&'f FileEntry>,
    /// Companions.
    left_out: Vec<String>,
    /// What is not final.
    unfinished: LeftOut,
    /// Segments that the volume does not have.
    missing: Missing,
}
