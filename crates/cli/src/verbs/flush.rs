// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway flush DEVICE NAME ADDRESS`: a window of physical memory back to a file of a volume.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::verbs::load::Place;
use clap::Args;
use devices::error::{Error, Result};
use files::{Access, shown};
use volume::blocking;

/// Write a window of physical memory back to a file of a volume.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file keeps its size, and is overwritten in place: after a power cut in between, each block has the old or the new data. A file with
checksums is refused, because its checksums could not change at the same time; put makes a new one.")]
pub struct Flush {
    /// What to write, and from where
    #[command(flatten)]
    pub place: Place,
    /// Overwrite the file's data
    #[arg(long, help_heading = GRAVE)]
    pub force: bool,
}

impl Flush {
    /// Runs the verb.
    ///
    /// # Errors
    /// `--force` is missing; the drive, the volume, the file or the window failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let name = &self.place.name;
        if !self.force {
            let what = format!("flush overwrites the data of `{}`", shown(name));
            return Err(Error::usage(what).hint("--force"));
        }
        let moved = self
            .place
            .moved(context, Access::Write, |mounted, buffer| {
                let doing = || format!("flushing `{}`", shown(name));
                let file = mounted.run(doing(), mounted.volume.open_to_write(name))?;
                let outcome = blocking::overwrite(mounted.volume, file, 0, buffer);
                // Also durable: the sync flushes the drive's cache.
                let synced = mounted.run(doing(), mounted.volume.sync(file));
                let closed = mounted.run(doing(), mounted.volume.close(file));
                Ok((outcome, synced.and(closed.map(|_| ()))))
            })?;
        self.place.tell(context, &moved, "flushed")
    }
}
