// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of TLS in a library that was built without it.

use crate::address::Socket;
use devices::error::{Error, Result};
use std::io;
use std::path::Path;

/// The certificates of a server: there are none.
#[derive(Clone, Debug)]
pub enum Certificates {}

impl Certificates {
    /// Refuses.
    ///
    /// # Errors
    /// TLS is not part of this build.
    pub fn load(_folder: &Path) -> Result<Self> {
        Err(Error::unsupported("this straightway was built without TLS")
            .hint("cargo build --release -p straightway-cli, whose feature `tls` is on by default"))
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn wrap(&self, _socket: Box<dyn Socket>) -> io::Result<Box<dyn Socket>> {
        match *self {}
    }
}
