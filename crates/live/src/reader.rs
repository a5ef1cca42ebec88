// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a verb asks a recording that another process makes.

use super::events::Event;
use super::patience::Patient;
use super::{
    Answer, Ask, Data, LINE_BYTES, READ_BYTES, RecordingStatus, address, former_name, identity,
    stranger,
};
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, Result};
use files::listing::Listing;
use files::reports::{FileReport, VolumeReport};
use std::io::{BufRead, BufReader, Read, Write};

/// The process that has the volume.
#[derive(Debug)]
pub struct Live {
    stream: BufReader<Patient>,
    device: String,
    /// It has answered, so it sends a last word when it ends.
    has_answered: bool,
    end: End,
}

/// How a recording has ended, as far as its process has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or it goes on.
    Said,
    /// Without a word: the process was killed.
    Silent,
    /// The connection says nothing about it.
    Unknown,
}

impl Live {
    /// For a report: the path.
    pub const PATH: &str = "the recording's process";

    /// The recording on the device of this name, if there is one.
    ///
    /// A drive that a recording has taken from the kernel has no name any more: then the name that
    /// it had finds it.
    ///
    /// # Errors
    /// The user cancelled while the process did not listen.
    pub fn find(context: &Context, device: &str) -> Result<Option<Self>> {
        let identity = match Drive::find(&context.roots, device) {
            Ok(drive) => identity(&drive),
            Err(_) => former_name(device),
        };
        let Some(address) = identity.and_then(|identity| address(&identity).ok()) else {
            return Ok(None);
        };
        let Some(stream) = Patient::connect(context, device, &address)? else {
            return Ok(None);
        };
        if let Some(stranger) = stranger(stream.socket()) {
            context.say(format_args!(
                "warning: the socket of recordings on {device} is ignored: a process of user {stranger} has it; it is neither root's nor yours"
            ));
            return Ok(None);
        }
        Ok(Some(Self {
            stream: BufReader::new(stream),
            device: device.to_owned(),
            has_answered: false,
            end: End::Unknown,
        }))
    }

    /// All files.
    ///
    /// # Errors
    /// The volume failed, or the recording ended.
    pub fn list(&mut self) -> Result<Listing> {
        match self.ask(&Ask::List)? {
            Answer::List(listing) => Ok(listing),
            other => Err(other.failure()),
        }
    }

    /// The volume.
    ///
    /// # Errors
    /// The volume failed, or the recording ended.
    pub fn volume(&mut self) -> Result<VolumeReport> {
        match self.ask(&Ask::Volume)? {
            Answer::Volume(report) => Ok(*report),
            other => Err(other.failure()),
        }
    }

    /// How the recording goes.
    ///
    /// # Errors
    /// The recording ended, or is one of an older version.
    pub fn status(&mut self) -> Result<RecordingStatus> {
        match self.ask(&Ask::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(other.failure()),
        }
    }

    /// What has happened since the event of this number, and the number of the next one. None: the
    /// recording has ended, and all of it was returned.
    ///
    /// # Errors
    /// The user cancelled, or the process is one of another version.
    pub fn events(&mut self, from: u64) -> Result<Option<(Vec<Event>, u64)>> {
        match self.try_ask(&Ask::Events(from))? {
            None => Ok(None),
            Some(Answer::Events(events, next)) => Ok(Some((events, next))),
            Some(other) => Err(other.failure()),
        }
    }

    /// A file.
    ///
    /// # Errors
    /// It does not exist, the volume failed, or the recording ended.
    pub fn file(&mut self, name: &str) -> Result<FileReport> {
        match self.ask(&Ask::File(name.to_owned()))? {
            Answer::File(report) => Ok(*report),
            other => Err(other.failure()),
        }
    }

    /// What is committed of a file from `offset_bytes` on, into `data`; at most [`READ_BYTES`].
    /// None: the recording has ended.
    ///
    /// # Errors
    /// The file does not exist, or the volume failed.
    pub fn read(
        &mut self,
        name: &str,
        offset_bytes: u64,
        most_bytes: u64,
        data: &mut Vec<u8>,
    ) -> Result<Option<Data>> {
        let ask = Ask::Read {
            name: name.to_owned(),
            offset_bytes,
            length_bytes: most_bytes.min(READ_BYTES as u64),
        };
        data.clear();
        match self.try_ask(&ask)? {
            None => Ok(None),
            Some(Answer::Data(found)) => {
                let mut from = (&mut self.stream).take(found.length_bytes);
                let is_whole = from.read_to_end(data).is_ok();
                self.stream.get_ref().check()?;
                let is_whole = is_whole && data.len() as u64 == found.length_bytes;
                Ok(is_whole.then_some(found))
            }
            Some(other) => Err(other.failure()),
        }
    }

    /// How it has ended, once it answers no more.
    pub const fn end(&self) -> End {
        self.end
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        self.try_ask(ask)?.ok_or_else(|| {
            Error::missing(format!("the recording on {} has just ended", self.device))
                .hint("once more")
        })
    }

    /// The answer; None if the recording has ended.
    pub(super) fn try_ask(&mut self, ask: &Ask) -> Result<Option<Answer>> {
        let internal = |error: serde_json::Error| {
            Error::other(format!(
                "the recording's process and this one differ: {error}"
            ))
            .hint("use the same version of straightway for both")
        };
        let mut line = serde_json::to_vec(ask).map_err(internal)?;
        line.push(b'\n');
        // One that has ended has left its last word, whatever it takes.
        let _ = self.stream.get_mut().write_all(&line);
        line.clear();
        let read = (&mut self.stream)
            .take(LINE_BYTES)
            .read_until(b'\n', &mut line);
        if read.is_err() || line.last() != Some(&b'\n') {
            self.stream.get_ref().check()?;
            if self.has_answered && self.end == End::Unknown && line.is_empty() {
                self.end = End::Silent;
            }
            return Ok(None);
        }
        match serde_json::from_slice(&line).map_err(internal)? {
            Answer::Ended => {
                self.end = End::Said;
                Ok(None)
            }
            answer => {
                // One that is turned away at the door has seen nothing of the recording.
                self.has_answered |= !matches!(answer, Answer::Refused { .. });
                Ok(Some(answer))
            }
        }
    }
}
