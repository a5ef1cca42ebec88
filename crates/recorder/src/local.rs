// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume mounted by this process, for streams.

use crate::Streamed;
use crate::chain::Target;
use crate::playing::{Played, Playing};
use crate::recording::{Recorded, Recording};
use crate::sink::Sink;
use crate::source::Source;
use crate::volume_host::VolumeHost;
use crate::{no_checksums, not_made};
use devices::Context;
use devices::drive::Drive;
use devices::error::Result;
use files::{Checksums, Mounted, failed, shown};
use volume::{CreateOptions, File};

impl VolumeHost for &Mounted<'_, '_> {
    type File = File;

    fn drive(&self) -> &Drive {
        self.drive
    }

    fn is_recalled(&self) -> bool {
        self.recall.is_requested()
    }

    fn block_bytes(&self) -> Result<usize> {
        Ok(self.volume.geometry().block_size_bytes())
    }

    fn exists(&mut self, name: &str) -> Result<bool> {
        Ok(self.find(name)?.is_some())
    }

    fn create(
        &mut self,
        name: &str,
        reserve_bytes: u64,
        checksums: Checksums,
        app_tag: u64,
    ) -> Result<File> {
        create(self, name, reserve_bytes, checksums, app_tag)
    }

    fn store(&mut self, name: &str, bytes: &[u8], app_tag: u64) -> Result<()> {
        let len = bytes.len();
        let mut buffer = self
            .memory
            .allocate(len.next_multiple_of(self.block_bytes()?))?;
        if let Some(place) = buffer.get_mut(..len) {
            place.copy_from_slice(bytes);
        }
        let checksums = Checksums {
            checksums: false,
            no_checksums: false,
        };
        let file = create(self, name, len as u64, checksums, app_tag)?;
        let outcome = volume::blocking::append(self.volume, file, buffer, len);
        self.memory.give_back(outcome.buffer);
        let doing = format_args!("writing `{}`", shown(name));
        let appended = outcome.result.map_err(|error| failed(doing, error));
        appended.and(self.close(name, file))
    }

    fn open(&mut self, name: &str) -> Result<File> {
        self.run(format!("playing `{}`", shown(name)), self.volume.open(name))
    }

    fn close(&mut self, name: &str, file: File) -> Result<()> {
        self.volume.set_time((self.wall_ns)());
        self.run(
            format!("closing `{}`", shown(name)),
            self.volume.close(file),
        )
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        Mounted::remove(self, name)
    }

    fn record(
        &mut self,
        context: &Context,
        recording: &Recording,
        source: Source,
        file: File,
        gap_file: Option<File>,
    ) -> Result<Streamed<Recorded>> {
        recording.run(context, self, source, Target::File(file, gap_file))
    }

    fn play(
        &mut self,
        context: &Context,
        playing: &Playing,
        sink: Sink,
        _: &str,
        file: File,
    ) -> Result<Streamed<Played>> {
        playing.run(context, self, sink, file)
    }
}

/// Creates a file for a recording, with this number of an application's, and reserves its space.
fn create(
    mounted: &Mounted<'_, '_>,
    name: &str,
    reserve_bytes: u64,
    checksums: Checksums,
    app_tag: u64,
) -> Result<File> {
    let volume = mounted.volume;
    let checksums = checksums
        .on(volume.status().checksums)
        .ok_or_else(no_checksums)?;
    volume.set_time((mounted.wall_ns)());
    let options = CreateOptions {
        reserve_bytes,
        checksums,
        app_tag,
    };
    let create = volume.with_space(|| volume.create(name, &options));
    let made = volume::blocking::run(volume, create);
    made.map_err(|error| not_made(name, reserve_bytes, error))
}
