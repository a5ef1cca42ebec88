//! What `record` stores beside a recording, or asks of its source, so that `export` can make a file for other tools of it.
//!
//! The stream itself is stored unchanged in every format but pcapng, in which datagrams become packets. Commits do not fall on borders of MCAP's chunks: a commit covers whole
//! blocks, chunks end anywhere in them, and the export needs no border.

use super::{Policy, Record};
use crate::failure::{Failure, Result};
use crate::formats::args::Format;
use crate::formats::mcap::MAGIC;
use crate::formats::sigmf::{Metadata, meta_name};
use crate::stream::place::Place;
use crate::stream::report::RecordedFile;
use crate::stream::source::{Source, Stream};
use crate::stream::volume_host::VolumeHost;
use crate::verbs::put::check_name;
use crate::volume::{now_ns, shown};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

/// What is said of a stream that is not MCAP.
const NOT_MCAP: &str = "it is not MCAP: it does not begin with MCAP's magic number";

impl Record {
    /// Makes all checks of the format that need no device.
    pub(super) fn check_format(&self) -> Result<()> {
        if self.format != Format::Sigmf {
            self.sigmf.refuse()?;
        }
        let refused = |what: &str, hint: &str| {
            let what = format!("--format {} {what}", self.format.name());
            Err(Failure::usage(what).hint(hint))
        };
        if self.format == Format::Raw {
            return Ok(());
        }
        if self.format == Format::Pcapng {
            return match &self.from.0 {
                Place::Udp(_) => Ok(()),
                _ => refused("needs datagrams", "--from udp://ADDR:PORT"),
            };
        }
        if self.append {
            return refused(
                "describes one recording from its beginning, without --append",
                "record under another NAME",
            );
        }
        if self.segments.keep.is_some() {
            return refused(
                "describes a recording from its beginning, which --keep removes",
                "--segment without --keep",
            );
        }
        match self.format {
            Format::Raw | Format::Pcapng => Ok(()),
            Format::Sigmf => {
                check_name(&meta_name(&self.name)).map_err(|failure| {
                    failure.and("with --format sigmf, NAME.sigmf-meta must also be a valid name")
                })?;
                let sample_bytes = Metadata::new(&self.sigmf, 0)?.sample_bytes;
                match self.block.0 % sample_bytes {
                    0 => Ok(()),
                    _ => Err(Failure::usage(format!(
                        "--block is {} bytes, not a multiple of the samples' {sample_bytes}; a dropped block would end inside a sample",
                        self.block.0
                    ))
                    .hint(format!("--block {}", 4096 * sample_bytes))),
                }
            }
            Format::Mcap if self.policy == Policy::Drop => refused(
                "cannot go on behind a dropped block, without --policy drop",
                "--policy stop, with more --buffers",
            ),
            Format::Mcap => match &self.from.0 {
                Place::Pattern | Place::Udp(_) => refused(
                    "needs a stream of MCAP",
                    "--from stdin, a file or tcp://ADDR:PORT",
                ),
                _ => Ok(()),
            },
        }
    }

    /// Refuses to go on with a recording whose metadata says when its samples began.
    pub(super) fn refuse_to_continue(&self, host: &mut impl VolumeHost) -> Result<()> {
        let meta = meta_name(&self.name);
        match check_name(&meta).is_ok() && host.exists(&meta)? {
            true => Err(Failure::usage(format!(
                "`{}` describes samples that began once; with --append it would be wrong; nothing was recorded",
                shown(&meta)
            ))
            .hint("record under another NAME")),
            false => Ok(()),
        }
    }

    /// The source, if it begins as its format does. A source that is not ready yet fails when its bytes arrive.
    pub(super) fn of_format(&self, source: Source) -> Result<Source> {
        match self.format {
            Format::Pcapng => return source.into_packets(),
            Format::Mcap => {}
            Format::Raw | Format::Sigmf => return Ok(source),
        }
        match source {
            Source::File(file, path) => {
                let mut begin = [0; MAGIC.len()];
                let len = file.read_at(&mut begin, 0);
                let len = len.map_err(|error| Failure::io("reading", &path, &error))?;
                match begin
                    .get(..len)
                    .is_some_and(|begin| MAGIC.starts_with(begin))
                {
                    true => Ok(Source::File(file, path)),
                    false => Err(Failure::usage(format!(
                        "reading {}: {NOT_MCAP}; nothing was recorded",
                        path.display()
                    ))
                    .hint("record without --format")),
                }
            }
            Source::Stream(stream, name) => {
                let stream = Begun { stream, seen: 0 };
                Ok(Source::Stream(Box::new(stream), name))
            }
            other => Ok(other),
        }
    }

    /// Stores what describes the recording, durably, before its first byte.
    pub(super) fn describe(&self, host: &mut impl VolumeHost) -> Result<()> {
        if self.format != Format::Sigmf {
            return Ok(());
        }
        let metadata = Metadata::new(&self.sigmf, now_ns())?;
        let stored = host.store(&meta_name(&self.name), &metadata.to_bytes());
        stored.map_err(|failure| {
            self.remove_description(host);
            failure.and("nothing was recorded")
        })
    }

    /// Removes a recording that has no byte because its source was refused.
    pub(super) fn keep(
        &self,
        host: &mut impl VolumeHost,
        (report, failure): (RecordedFile, Option<Failure>),
    ) -> (RecordedFile, Option<Failure>) {
        let is_empty = self.format == Format::Mcap && report.counted.length_bytes == 0;
        let failure = failure.map(
            |failure| match is_empty && host.remove(&self.name).is_ok() {
                true => failure.and("nothing was recorded"),
                false => failure,
            },
        );
        (report, failure)
    }

    /// Removes it again: there is no recording.
    pub(super) fn remove_description(&self, host: &mut impl VolumeHost) {
        if self.format == Format::Sigmf {
            let _ = host.remove(&meta_name(&self.name));
        }
    }
}

/// A stream that fails if it does not begin as MCAP does.
struct Begun {
    stream: Box<dyn Stream>,
    seen: usize,
}

impl Read for Begun {
    fn read(&mut self, data: &mut [u8]) -> std::io::Result<usize> {
        let len = self.stream.read(data)?;
        let expected = MAGIC.get(self.seen..).unwrap_or_default();
        let compared = expected.len().min(len);
        if data.get(..compared) != expected.get(..compared) {
            return Err(std::io::Error::new(ErrorKind::InvalidData, NOT_MCAP));
        }
        self.seen += compared;
        Ok(len)
    }
}

impl AsFd for Begun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
