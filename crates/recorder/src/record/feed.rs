// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording gets its blocks from.

use super::RecordSettings;
use crate::Streamed;
use crate::chain::Target;
use crate::producer::{Message, Produced};
use crate::recording::{Recorded, Recording};
use crate::source::Source;
use crate::volume_host::VolumeHost;
use block::Buffer;
use devices::Context;
use devices::error::Result;
use files::Mounted;
use formats::Format;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use stream::RecordReport;

/// Fills the buffers that it is given and sends them, until it ends or has no buffers any more.
pub type Produce<'p> = Box<dyn FnOnce(Receiver<Buffer>, &Sender<Message>) -> Produced + Send + 'p>;

/// Where the blocks of a recording on this process's volume come from.
pub enum Feed<'p> {
    /// What `--from` names.
    Named,
    /// The first sender at the address that `--from` names.
    Listening(&'p TcpListener),
    /// A sender that has connected there.
    Sender(TcpStream),
    /// A program that is not the command, and where it sees the counters.
    Program(Arc<Mutex<RecordReport>>, Produce<'p>),
}

/// The same, open.
pub(super) enum OpenFeed<'p> {
    Source(Source),
    Program(Arc<Mutex<RecordReport>>, Produce<'p>),
}

impl<'p> Feed<'p> {
    /// Opens the source.
    pub(super) fn open(
        self,
        record: &RecordSettings,
        context: &Context,
        host: &impl VolumeHost,
    ) -> Result<OpenFeed<'p>> {
        Ok(match self {
            Self::Named => {
                let source = record.open_source(context, host)?;
                OpenFeed::Source(Self::begun(record, context, host, source)?)
            }
            Self::Listening(listener) => {
                let stream = record.first_sender(context, host, listener)?;
                let source = record.sender(stream);
                OpenFeed::Source(Self::begun(record, context, host, source)?)
            }
            Self::Sender(stream) => {
                let source = record.sender(stream);
                OpenFeed::Source(Self::begun(record, context, host, source)?)
            }
            Self::Program(watch, produce) => OpenFeed::Program(watch, produce),
        })
    }

    /// A source that begins as its format does.
    fn begun(
        record: &RecordSettings,
        context: &Context,
        host: &impl VolumeHost,
        source: Source,
    ) -> Result<Source> {
        let source = record.of_format(source)?;
        // What describes the samples has the time of the first one, and is stored before it.
        if record.format == Format::Sigmf {
            record.wait_for_first(context, host, &source)?;
        }
        Ok(source)
    }
}

impl OpenFeed<'_> {
    /// Goes on at this offset, if it is generated.
    pub(super) fn skip_to(&mut self, offset_bytes: u64) {
        if let Self::Source(source) = self {
            source.skip_to(offset_bytes);
        }
    }

    /// Whether a program hands in what is recorded.
    pub(super) const fn is_program(&self) -> bool {
        matches!(self, Self::Program(..))
    }

    /// The expected length; 0 if unknown.
    pub(super) fn total_bytes(&self, record: &RecordSettings) -> u64 {
        match self {
            Self::Source(source) => record.total_bytes(source),
            Self::Program(..) => record.size.map_or(0, |size| size.0),
        }
    }

    /// Records what comes.
    pub(super) fn run<'a>(
        self,
        recording: Recording,
        context: &Context,
        mounted: &Mounted<'_, 'a>,
        target: Target<'_, 'a>,
    ) -> Result<Streamed<Recorded>> {
        match self {
            Self::Source(source) => {
                let is_live = source.is_always_ready() || source.cannot_wait();
                let can_wait = !is_live && recording.plan.bytes_per_second.is_none();
                let recording = Recording {
                    can_wait,
                    ..recording
                };
                recording.run(context, mounted, source, target)
            }
            Self::Program(watch, produce) => {
                let watch = Some(watch);
                let recording = Recording { watch, ..recording };
                recording.run_with(context, mounted, target, |idle, out, _| produce(idle, out))
            }
        }
    }
}
