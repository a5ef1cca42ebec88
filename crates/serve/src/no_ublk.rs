// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of ublk in a library that was built without it.

use super::{Front, ServeCounts};
use devices::Context;
use devices::error::{Error, Result};
use export::{Answer, Engine};
use linux::ublk::Disk;
use rustix::event::{PollFd, PollFlags};
use std::convert::Infallible;
use std::marker::PhantomData;

/// A served block device: there is none.
pub struct Node<'c>(Infallible, PhantomData<&'c ()>);

impl<'c> Node<'c> {
    /// Refuses.
    ///
    /// # Errors
    /// ublk is not part of this build.
    pub fn new(_context: &'c Context, _disk: &Disk) -> Result<Self> {
        Err(
            Error::unsupported("this straightway was built without ublk").hint(
                "cargo build --release -p straightway-cli, whose feature `ublk` is on by default",
            ),
        )
    }

    /// Cannot be called.
    pub fn path(&self) -> String {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn announce(&mut self, _text: String) {
        match self.0 {}
    }
}

impl Front for Node<'_> {
    fn receive(&mut self, _engine: &mut Engine, _counts: &mut ServeCounts) -> bool {
        match self.0 {}
    }

    fn answer(&mut self, _answer: Answer, _engine: &mut Engine) {
        match self.0 {}
    }

    fn send(&mut self, _engine: &mut Engine, _counts: &mut ServeCounts, _is_late: bool) {
        match self.0 {}
    }

    fn files(&self) -> Vec<PollFd<'_>> {
        match self.0 {}
    }

    fn woken(&mut self, _flags: &[PollFlags]) {
        match self.0 {}
    }

    fn end(&mut self) {
        match self.0 {}
    }

    fn is_over(&self) -> bool {
        match self.0 {}
    }

    fn release(self, _engine: &mut Engine) {
        match self.0 {}
    }
}
