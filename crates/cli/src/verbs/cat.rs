// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway cat DEVICE NAME...`: files of a volume, one after the other, to standard output.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::IoArgs;
use clap::Args;
use devices::error::Result;
use devices::guard::{Outlet, output_of};
use files::listing::FileEntry;
use files::names::check_name;
use files::route;
use files::tree::{choose, none_of};
use live::origin::Origin;
use std::collections::BTreeMap;

/// Print files of a volume, one after the other.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
In the order of the words; the files that a pattern fits in the order of their names. Nothing is printed
if a word fits no file. A file with checksums is verified: what does not match is not printed, and the
exit status is 6. While one process records, what it has committed is printed. The segments of a recording become one stream: straightway cat DEVICE 'run-*' | ...")]
pub struct Cat {
    /// The device with the volume
    pub device: String,
    /// The files' names, or patterns
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
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
        Origin::with(context, &self.device, &self.io, options, |origin| {
            let output = output_of(&context.roots, origin.drive, None, false)?;
            let all = origin.files()?;
            let files = self.chosen(&all)?;
            let whole = files.iter().try_for_each(|file| file.refuse_unfinished());
            whole.map_err(|failure| failure.and("nothing was printed"))?;
            let mut sink = Outlet::open(output, &context.cancel)?;
            let bar = context.bytes_bar(None);
            for file in files {
                origin.read(file, file.size_bytes, &bar, &mut |data| sink.take(data))?;
            }
            bar.finish_and_clear();
            sink.finish()
        })?;
        Ok(Exit::Done)
    }

    /// The files that the words choose, word by word.
    fn chosen<'f>(&self, files: &'f [FileEntry]) -> Result<Vec<&'f FileEntry>> {
        let files: BTreeMap<&str, &FileEntry> = files
            .iter()
            .map(|file| (file.name.as_str(), file))
            .collect();
        let names: Vec<&str> = files.keys().copied().collect();
        let mut found: Vec<&FileEntry> = Vec::new();
        for word in &self.names {
            let (chosen, idle) = choose(std::slice::from_ref(word), &names)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &self.device).and("nothing was printed"));
            }
            found.extend(chosen.iter().filter_map(|name| files.get(name)));
        }
        Ok(found)
    }
}
