//! `straightway cat DEVICE NAME...`: files of a volume, one after the other, to standard output.

use crate::Context;
use crate::drive::Drive;
use crate::failure::{Exit, Result};
use crate::guard::{Outlet, output_of};
use crate::transfer::IoArgs;
use crate::units::Size;
use crate::verbs::get::Get;
use crate::verbs::put::check_name;
use crate::volume::listing::{FileEntry, Listing};
use crate::volume::tree::{choose, none_of};
use crate::volume::{Access, Store, route};
use clap::Args;
use std::collections::BTreeMap;

/// Print files of a volume, one after the other.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
In the order of the words; the files that a pattern fits in the order of their names. Nothing is printed
if a word fits no file. A file with checksums is verified: what does not match is not printed, and the
exit status is 6. The segments of a recording become one stream: straightway cat DEVICE 'run-*' | ...")]
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
        let drive = Drive::find(&context.roots, &self.device)?;
        let output = output_of(&context.roots, &drive, None, false)?;
        let options = route::open_options(&self.io, false);
        let mut store = Store::of(context, drive, &options)?;
        let printed = store.mount(Access::Read, |mounted| {
            let files = self.chosen(Listing::read(mounted)?)?;
            let mut sink = Outlet::open(output)?;
            let get = self.as_get();
            let bar = context.console.bytes_bar(None);
            for file in &files {
                let part = get.part(mounted, file)?;
                get.fetch(context, mounted, &part, &bar, |data| sink.take(data))?;
            }
            bar.finish_and_clear();
            sink.finish()
        });
        store.close(printed)?;
        Ok(Exit::Done)
    }

    /// The files that the words choose, word by word.
    fn chosen(&self, listing: Listing) -> Result<Vec<FileEntry>> {
        let files: BTreeMap<&str, &FileEntry> = listing
            .files
            .iter()
            .map(|file| (file.name.as_str(), file))
            .collect();
        let names: Vec<&str> = files.keys().copied().collect();
        let mut found: Vec<FileEntry> = Vec::new();
        for word in &self.names {
            let (chosen, idle) = choose(std::slice::from_ref(word), &names)?;
            if !idle.is_empty() {
                return Err(none_of(&idle, &self.device).and("nothing was printed"));
            }
            let each = chosen.iter().filter_map(|name| files.get(name));
            found.extend(each.map(|file| (*file).clone()));
        }
        Ok(found)
    }

    /// The whole of each file, as `get` fetches it.
    fn as_get(&self) -> Get {
        Get {
            device: self.device.clone(),
            words: Vec::new(),
            all: false,
            tar: false,
            offset: Size(0),
            length: None,
            follow: false,
            force: false,
            verify: false,
            io: self.io,
            json: false,
        }
    }
}
