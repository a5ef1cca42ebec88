// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block device of this machine's kernel, by its ublk driver: one client, whose requests have
//! tags.

use super::{Front, ServeCounts};
use devices::Context;
use devices::error::ErrorKind;
use devices::error::{Error, Result};
use export::{Answer, Engine, ExportCommand, Key, Request, Started};
use linux::ublk::{Disk, RequestKind, Ublk};
use remedy::{Part, Setting, words};
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;

const EIO: i32 = 5;
const ENOTSUP: i32 = 95;

/// A served block device.
pub struct Node<'c> {
    context: &'c Context,
    ublk: Option<Ublk>,
    read_only: bool,
    /// What is said when the node is there.
    announcement: Option<String>,
    /// Requests that wait for buffers.
    pending: VecDeque<Request>,
    ending: bool,
    is_stopping: bool,
    is_over: bool,
    failure: Option<Error>,
}

impl<'c> Node<'c> {
    /// Makes the device. What killed servers left is deleted first.
    ///
    /// # Errors
    /// The kernel has no ublk driver, or does not let this user use it.
    pub fn new(context: &'c Context, disk: &Disk) -> Result<Self> {
        for number in linux::ublk::delete_leftovers(&context.roots)? {
            context.say(format_args!(
                "/dev/ublkc{number} was left by a server that was killed; it is deleted"
            ));
        }
        let ublk = Ublk::create(&context.roots, disk)?;
        Ok(Self {
            context,
            ublk: Some(ublk),
            read_only: disk.read_only,
            announcement: None,
            pending: VecDeque::new(),
            ending: false,
            is_stopping: false,
            is_over: false,
            failure: None,
        })
    }
}

impl Node<'_> {
    /// The block device's path.
    pub fn path(&self) -> String {
        let roots = &self.context.roots;
        let path = self.ublk.as_ref().map(|ublk| ublk.node(roots));
        path.unwrap_or_default().display().to_string()
    }

    /// What is said when the node is there.
    pub fn announce(&mut self, text: String) {
        self.announcement = Some(text);
    }

    fn fail(&mut self, error: impl std::fmt::Display) {
        if self.failure.is_none() && !self.is_stopping {
            let what = format!("serving by ublk: {error}");
            self.failure = Some(Error::new(ErrorKind::Other, what));
        }
    }

    /// Says that the node is there, and takes it away when the server ends.
    fn turn(&mut self) {
        let Some(ublk) = &mut self.ublk else {
            return;
        };
        match ublk.is_started() {
            Err(error) => {
                self.is_over = true;
                self.fail(error);
            }
            Ok(false) => {}
            Ok(true) if self.is_stopping => self.is_over |= ublk.is_stopped(),
            Ok(true) => {
                if self.ending {
                    self.is_stopping = true;
                    if let Err(error) = ublk.stop() {
                        self.is_over = true;
                        self.fail(error);
                    }
                } else if let Some(text) = self.announcement.take() {
                    self.context.say(text);
                }
            }
        }
    }

    /// Gives a request to the engine, with a write's data; false: it waits for buffers.
    fn begin(&mut self, request: Request, engine: &mut Engine) -> bool {
        let key = match engine.begin(0, request) {
            Started::Later => return false,
            Started::Accepted(key) => key,
        };
        if request.command == ExportCommand::Write && !self.fill(request, key, engine) {
            // The kernel has taken the request back.
            engine.cancel(key);
            self.end_one(request.cookie as u16, Err(EIO));
        }
        true
    }

    fn fill(&self, request: Request, key: Key, engine: &mut Engine) -> bool {
        let mut at = 0;
        while at < request.len_bytes as usize {
            let space = engine.space(key);
            let len = space.len();
            let Some(ublk) = &self.ublk else {
                return false;
            };
            if len == 0 || ublk.load(request.cookie as u16, at, space).is_err() {
                return false;
            }
            at += len;
            engine.filled(key, len);
        }
        true
    }

    fn end_one(&mut self, tag: u16, result: std::result::Result<u32, i32>) {
        if let Some(ublk) = &mut self.ublk {
            if let Err(error) = ublk.end(tag, result) {
                self.fail(error);
            }
        }
    }

    /// A request for the engine; none: it was answered.
    fn checked(&mut self, one: linux::ublk::Request, counts: &mut ServeCounts) -> Option<Request> {
        let command = match one.kind {
            RequestKind::Read => Some(ExportCommand::Read),
            RequestKind::Flush => Some(ExportCommand::Flush),
            RequestKind::Write if !self.read_only => Some(ExportCommand::Write),
            RequestKind::Discard if !self.read_only => Some(ExportCommand::Trim),
            RequestKind::WriteZeroes if !self.read_only => Some(ExportCommand::WriteZeroes),
            _ => None,
        };
        let len_bytes = u32::try_from(one.len_bytes).ok();
        let (Some(command), Some(len_bytes)) = (command, len_bytes) else {
            counts.refused += 1;
            self.end_one(one.tag, Err(ENOTSUP));
            return None;
        };
        let has_range = command != ExportCommand::Flush;
        Some(Request {
            cookie: one.tag.into(),
            command,
            offset_bytes: if has_range { one.offset_bytes } else { 0 },
            len_bytes: if has_range { len_bytes } else { 0 },
            fua: one.fua && has_range && command != ExportCommand::Read,
        })
    }
}

impl Front for Node<'_> {
    fn receive(&mut self, engine: &mut Engine, counts: &mut ServeCounts) -> bool {
        self.turn();
        while let Some(one) = self.ublk.as_mut().and_then(Ublk::request) {
            let request = self.checked(one, counts);
            self.pending.extend(request);
        }
        while let Some(request) = self.pending.pop_front() {
            if !self.begin(request, engine) {
                self.pending.push_front(request);
                break;
            }
        }
        false
    }

    fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        let request = answer.request;
        let tag = request.cookie as u16;
        let mut result = match answer.error {
            None => Ok(request.len_bytes),
            Some(block::Error::Unsupported) => Err(ENOTSUP),
            Some(block::Error::Os { errno }) if errno > 0 => Err(errno),
            Some(_) => Err(EIO),
        };
        let mut at = 0;
        while at < answer.data_bytes() {
            let bytes = answer.data(at);
            let stored = self.ublk.as_ref().map(|ublk| ublk.store(tag, at, bytes));
            if bytes.is_empty() || !matches!(stored, Some(Ok(()))) {
                result = Err(EIO);
                break;
            }
            at += bytes.len();
        }
        engine.give_back(answer);
        self.end_one(tag, result);
    }

    fn send(&mut self, _engine: &mut Engine, _counts: &mut ServeCounts, is_late: bool) {
        self.is_over |= is_late;
        let submitted = self.ublk.as_mut().map(Ublk::submit);
        if let Some(Err(error)) = submitted {
            self.fail(error);
        }
    }

    fn files(&self) -> Vec<PollFd<'_>> {
        let files = self.ublk.as_ref().map(Ublk::files);
        let files = files.into_iter().flatten();
        files
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect()
    }

    fn woken(&mut self, _flags: &[PollFlags]) {}

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn end(&mut self) {
        self.ending = true;
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn release(mut self, engine: &mut Engine) {
        engine.abandon(0);
        if let Some(Err(error)) = self.ublk.take().map(Ublk::delete) {
            self.context.say(words![
                format!("the ublk device could not be deleted ({error}); the next `serve "),
                Part::Option(Setting::Ublk),
                "` deletes it"
            ]);
        }
    }
}
