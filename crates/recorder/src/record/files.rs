// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a recording: made or continued, recorded into, closed.

use super::feed::Feed;
use super::{Policy, RecordSettings};
use crate::Streamed;
use crate::chain::Target;
use crate::recording::{Recorded, Recording};
use crate::report::RecordedFile;
use crate::segments::files::gaps_name;
use crate::segments::numbered::Numbered;
use crate::segments::tag::{Tag, of_list, of_one_file};
use crate::volume_host::VolumeHost;
use devices::Context;
use devices::error::Result;
use files::{Checksums, Mounted, failed, now_ns, shown};
use formats::Format;
use formats::sigmf::meta_name;
use remedy::{Setting, Value, words};
use volume::Error;

/// Initially reserved space of the companion file.
const GAPS_BYTES: u64 = 64 << 10;

/// The files of a recording, open for writing.
pub(super) struct Opened<F> {
    file: F,
    gap_file: Option<F>,
    /// Whether they were made for it.
    is_new: bool,
    gaps_are_new: bool,
    /// Where it begins.
    begin_bytes: u64,
    /// The file's number for applications.
    app_tag: u64,
    /// Whether it is kept although nothing came.
    keeps_nothing: bool,
}

impl RecordSettings {
    /// Records bytes into new files, wherever the volume is mounted.
    pub(super) fn record_bytes(
        &self,
        context: &Context,
        host: &mut impl VolumeHost,
        path: &str,
    ) -> Result<(RecordedFile, Option<devices::Error>)> {
        self.check_new(host)?;
        let source = self.open_source(context, host)?;
        let total_bytes = self.total_bytes(&source);
        let files = self.new_files(host, total_bytes, of_one_file(now_ns(), self.format), false)?;
        self.record_into(
            host,
            path,
            total_bytes,
            files,
            |host, recording, file, gaps| host.record(context, &recording, source, file, gaps),
        )
    }

    /// Records into new files on this process's volume, and describes them.
    pub(super) fn record_new(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        path: &str,
        feed: Feed<'_>,
    ) -> Result<(RecordedFile, Option<devices::Error>)> {
        self.check_new(host)?;
        let feed = feed.open(self, context, host)?;
        let total_bytes = feed.total_bytes(self);
        let meta = meta_name(&self.name);
        Self::tell_left(context, host, &[meta.clone(), gaps_name(&self.name)])?;
        let app_tag = of_one_file(now_ns(), self.format);
        self.describe(host, &meta, of_list(app_tag))?;
        let files = match self.new_files(host, total_bytes, app_tag, feed.is_program()) {
            Ok(files) => files,
            Err(failure) => {
                self.remove_description(host, &meta);
                return Err(failure);
            }
        };
        let recorded = self.record_into(
            host,
            path,
            total_bytes,
            files,
            |host, recording, file, gaps| {
                feed.run(recording, context, host, Target::File(file, gaps))
            },
        )?;
        Ok(self.keep(host, recorded))
    }

    /// Records at the end of a file that exists.
    pub(super) fn record_on(
        &self,
        context: &Context,
        host: &mut &Mounted<'_, '_>,
        path: &str,
        feed: Feed<'_>,
    ) -> Result<(RecordedFile, Option<devices::Error>)> {
        let block_bytes = host.volume.geometry().block_size_bytes();
        self.check_block(block_bytes)?;
        let entry = host.find(&self.name)?;
        let (begin_bytes, stored_tag) =
            entry.map_or((0, 0), |entry| (entry.size_bytes, entry.app_tag));
        if begin_bytes % block_bytes as u64 != 0 {
            let what = format!(
                "`{}` has {begin_bytes} bytes; a recording can go on only at a multiple of the device's block of {block_bytes}; nothing was recorded",
                shown(&self.name)
            );
            return Err(devices::Error::usage(what).hint(words![
                "record under another NAME, or in segments, which go on behind any length: ",
                Setting::Segment.to(Value::choice("SIZE"))
            ]));
        }
        let mut feed = feed.open(self, context, host)?;
        feed.skip_to(begin_bytes);
        let total_bytes = feed.total_bytes(self);
        context.say(format_args!(
            "goes on at the end of `{}`, at byte {begin_bytes}",
            shown(&self.name)
        ));
        let nothing = |failure: devices::Error| failure.and("nothing was recorded");
        self.refuse_middle(host, stored_tag).map_err(nothing)?;
        let file_now = (begin_bytes, stored_tag);
        let has_list = self.refuse_other_list(context, host, file_now);
        let has_list = has_list.map_err(nothing)?;
        // Of an older version, or put: its first list of gaps is known to be its own.
        let is_new_tag = stored_tag == 0 && !has_list && self.policy == Policy::Drop;
        let app_tag = if is_new_tag {
            of_one_file((host.wall_ns)(), self.format)
        } else {
            stored_tag
        };
        let described = self
            .describe_more(context, host, begin_bytes)
            .and_then(|()| self.end_lines(context, host, (begin_bytes, app_tag)));
        described.map_err(nothing)?;
        let open = |name: &str| {
            let doing = format!("continuing `{}`", shown(name));
            host.run(doing, host.volume.open_to_write(name))
        };
        host.volume.set_time((host.wall_ns)());
        let file = open(&self.name)?;
        if is_new_tag {
            let keeping = format!("continuing `{}`", shown(&self.name));
            let kept = host.volume.set_app_tag(file, app_tag);
            kept.map_err(|error| failed(keeping, error))?;
        }
        let gaps = gaps_name(&self.name);
        let mut gaps_are_new = true;
        let gap_file = match self.policy {
            Policy::Stop | Policy::Wait => Ok(None),
            Policy::Drop => match host.find(&gaps) {
                Ok(Some(_)) => {
                    gaps_are_new = false;
                    open(&gaps).map(Some)
                }
                Ok(None) => host
                    .create(&gaps, GAPS_BYTES, Checksums::NONE, of_list(app_tag))
                    .map(Some),
                Err(failure) => Err(failure),
            },
        };
        let gap_file = match gap_file {
            Ok(gap_file) => gap_file,
            Err(failure) => {
                let _ = host.close(&self.name, file);
                return Err(failure.and("nothing was recorded"));
            }
        };
        let files = Opened {
            file,
            gap_file,
            is_new: false,
            gaps_are_new,
            begin_bytes,
            app_tag,
            keeps_nothing: true,
        };
        self.record_into(
            host,
            path,
            total_bytes,
            files,
            |host, recording, file, gaps| {
                feed.run(recording, context, host, Target::File(file, gaps))
            },
        )
    }

    /// Refuses to go on in a segment that another one follows: what is added would be between the
    /// two.
    fn refuse_middle(&self, host: &mut &Mounted<'_, '_>, stored_tag: u64) -> Result<()> {
        let Some(numbered) = Numbered::of(&self.name) else {
            return Ok(());
        };
        let Some(tag) = Tag::of(stored_tag, numbered.number) else {
            return Ok(());
        };
        let number = numbered.number.saturating_add(1);
        let next = numbered.name_of(number);
        let next_tag = host
            .find(&next)?
            .and_then(|next| Tag::of(next.app_tag, number));
        if !tag.is_followed && next_tag.is_none_or(|next| next.first != tag.first) {
            return Ok(());
        }
        let what = format!(
            "`{}` is a segment of a recording that goes on behind it",
            shown(&self.name)
        );
        Err(devices::Error::usage(what).hint(words![
            "do not append: segments continue the numbers, with ",
            Setting::Segment.to(Value::choice("SIZE"))
        ]))
    }

    /// The names that it makes in the volume.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![self.name.clone()];
        if self.policy == Policy::Drop {
            names.insert(0, gaps_name(&self.name));
        }
        if self.format == Format::Sigmf {
            names.push(meta_name(&self.name));
        }
        names
    }

    /// Refuses a block that the device does not have, and a name that is taken.
    pub(super) fn check_new(&self, host: &mut impl VolumeHost) -> Result<()> {
        self.check_block(host.block_bytes()?)?;
        for name in &self.names() {
            if host.exists(name)? {
                let failure = failed(format_args!("`{}`", shown(name)), Error::Exists);
                let hint = format!("another NAME, or: straightway rm {} '{name}'", self.device);
                return Err(failure.and("nothing was recorded").hint(hint));
            }
        }
        Ok(())
    }

    /// Makes the files; with `keeps_nothing` also for a recording that remains empty.
    pub(super) fn new_files<H: VolumeHost>(
        &self,
        host: &mut H,
        total_bytes: u64,
        app_tag: u64,
        keeps_nothing: bool,
    ) -> Result<Opened<H::File>> {
        let file = host.create(&self.name, total_bytes, self.checksums, app_tag)?;
        let gap_file = match self.policy {
            Policy::Stop | Policy::Wait => None,
            Policy::Drop => {
                let gaps = gaps_name(&self.name);
                match host.create(&gaps, GAPS_BYTES, Checksums::NONE, of_list(app_tag)) {
                    Ok(gap_file) => Some(gap_file),
                    Err(failure) => {
                        let _ = host.close(&self.name, file);
                        let _ = host.remove(&self.name);
                        return Err(failure);
                    }
                }
            }
        };
        Ok(Opened {
            file,
            gap_file,
            is_new: true,
            gaps_are_new: true,
            begin_bytes: 0,
            app_tag,
            keeps_nothing,
        })
    }

    /// Records into the files by `record`, and closes them.
    pub(super) fn record_into<H: VolumeHost>(
        &self,
        host: &mut H,
        path: &str,
        total_bytes: u64,
        files: Opened<H::File>,
        record: impl FnOnce(&mut H, Recording, H::File, Option<H::File>) -> Result<Streamed<Recorded>>,
    ) -> Result<(RecordedFile, Option<devices::Error>)> {
        let Opened {
            file,
            gap_file,
            is_new,
            gaps_are_new,
            begin_bytes,
            app_tag,
            keeps_nothing,
        } = files;
        let recording = Recording {
            app_tag,
            ..self.recording(total_bytes, None)
        };
        let ended = record(host, recording, file, gap_file);
        let mut closed = Ok(());
        for file in [gap_file, Some(file)].into_iter().flatten() {
            closed = closed.and(host.close(&self.name, file));
        }
        let ended = match ended? {
            Ok(ended) => ended,
            Err(failure) => {
                if is_new {
                    let _ = host.remove(&self.name);
                    self.remove_description(host, &meta_name(&self.name));
                }
                if gaps_are_new && gap_file.is_some() {
                    let _ = host.remove(&gaps_name(&self.name));
                }
                return Err(failure.and("nothing was recorded"));
            }
        };
        if gaps_are_new && ended.report.gaps == 0 && gap_file.is_some() && closed.is_ok() {
            closed = host.remove(&gaps_name(&self.name));
        }
        let failure = self.failure_of(&ended, closed);
        let (report, failure) = self.report(host.drive(), path, begin_bytes, ended, failure);
        if !keeps_nothing && report.nothing_came && failure.is_none() {
            host.remove(&self.name)?;
            self.remove_description(host, &meta_name(&self.name));
        }
        Ok((report, failure))
    }
}
