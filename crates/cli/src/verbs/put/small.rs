// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small files of one `put` or archive: several at a time, so that they share the flushes of one
//! operation of the volume.

use super::{ManyReport, Put, Report};
use devices::error::{Error, Result};
use files::chunks::Chunks;
use files::source::FileSource;
use files::{Mounted, failed, now_ns, pace, shown};
use std::path::PathBuf;
use volume::NewFile;
use volume::layout::{CHUNK_BYTES, RECORD_SLOTS};

/// Files of one operation, and their data, at most.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: usize = 8 << 20;

/// A file that waits for the others of its operation.
pub struct Small {
    name: String,
    data: Vec<u8>,
    modified_ns: Option<u64>,
}

/// Files that wait, in their order.
#[derive(Default)]
pub struct Batch {
    waiting: Vec<Small>,
}

impl Batch {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one of them has this name.
    pub fn has(&self, name: &str) -> bool {
        self.waiting.iter().any(|small| small.name == name)
    }
}

impl Small {
    fn new_file(&self) -> NewFile<'_> {
        NewFile {
            name: &self.name,
            data: &self.data,
            mtime_ns: self.modified_ns.unwrap_or_else(now_ns),
            app_tag: 0,
        }
    }
}

impl Put {
    /// Takes a source that is short enough into the batch, which is stored when it is full. False:
    /// it is not, and part of it may have been read.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn gather(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        name: &str,
        source: &mut FileSource<'_>,
        batch: &mut Batch,
        report: &mut ManyReport,
        left: &mut Option<String>,
    ) -> Result<bool> {
        let Some(len) = source.len_bytes.filter(|len| *len < CHUNK_BYTES) else {
            return Ok(false);
        };
        // One byte more, to see that it has not grown.
        let mut data = vec![0; len as usize + 1];
        let filled = source.fill(&mut data, context.cancel.flag())?;
        if filled > len as usize {
            return Ok(false);
        }
        data.truncate(filled);
        batch.waiting.push(Small {
            name: name.to_owned(),
            data,
            modified_ns: source.modified_ns,
        });
        let waiting_bytes: usize = batch.waiting.iter().map(|small| small.data.len()).sum();
        if batch.waiting.len() == BATCH_FILES || waiting_bytes >= BATCH_BYTES {
            self.store_batch(context, mounted, batch, report, left)?;
        }
        Ok(true)
    }

    /// Stores what waits.
    pub(super) fn store_batch(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        batch: &mut Batch,
        report: &mut ManyReport,
        left: &mut Option<String>,
    ) -> Result<()> {
        let volume = mounted.volume;
        while let Some(first) = batch.waiting.first() {
            if context.cancel.is_set() {
                return Err(Error::interrupted("interrupted"));
            }
            let checksums = self.has_checksums(mounted)?;
            let files: Vec<NewFile<'_>> = batch.waiting.iter().map(Small::new_file).collect();
            let made = if files.len() > RECORD_SLOTS {
                let create =
                    volume.with_space(|| volume.create_batch::<BATCH_FILES>(&files, checksums));
                volume::blocking::run(volume, create)
            } else {
                let create = volume.with_space(|| volume.create_many(&files, checksums));
                volume::blocking::run(volume, create)
            };
            let made = made
                .map_err(|error| failed(format_args!("making `{}`", shown(&first.name)), error))?;
            report.requests += u64::from(made.data_commands);
            if made.files == 0 {
                // There is no room for it in one piece.
                let small = batch.waiting.remove(0);
                let name = PathBuf::from(&small.name);
                let mut source = FileSource::of_bytes(small.data, name, small.modified_ns);
                let one = self.put(context, mounted, &small.name, &mut source, left)?;
                report.add(one);
            }
            for small in batch.waiting.drain(..made.files) {
                self.check_small(context, mounted, &small)?;
                report.add(Report {
                    length_bytes: small.data.len() as u64,
                    checksums,
                    verified: self.verify,
                    ..Report::of_volume(mounted, &small.name)
                });
            }
        }
        Ok(())
    }

    /// With `--verify`, reads it back.
    fn check_small(
        &self,
        context: &devices::Context,
        mounted: &Mounted<'_, '_>,
        small: &Small,
    ) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        let mut sums = Chunks::default();
        sums.add(&small.data);
        let pace = pace(mounted, &self.io)?;
        let len_bytes = small.data.len() as u64;
        self.verify(context, mounted, &small.name, len_bytes, sums.end(), pace)
    }
}
