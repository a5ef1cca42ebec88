// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS of a server: its certificate, and the connections that are encrypted with it.
//!
//! Both sides have certificates of one authority, as nbdkit and qemu-nbd expect them: a client
//! without one is refused during the TLS handshake, before it learns anything of the export.

use crate::address::Socket;
use devices::error::{Error, ErrorKind, Result};
use remedy::{Setting, Value, words};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<ServerConfig>);

impl Certificates {
    /// Loads `ca-cert.pem`, `server-cert.pem` and `server-key.pem` of a folder.
    ///
    /// # Errors
    /// One is missing, or is not what its name says.
    pub fn load(folder: &Path) -> Result<Self> {
        let wrong = |path: &Path, why: &dyn Display| {
            let what = format!("reading {}: {why}", path.display());
            let exit = if path.exists() {
                ErrorKind::Usage
            } else {
                ErrorKind::NotFound
            };
            Error::new(exit, what).hint(words![
                Setting::Tls.to(Value::choice("FOLDER")),
                " with ca-cert.pem, server-cert.pem and server-key.pem"
            ])
        };
        let chain = |name: &str| {
            let path = folder.join(name);
            let all = CertificateDer::pem_file_iter(&path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
            match all {
                Ok(all) if all.is_empty() => Err(wrong(&path, &"it has no certificate")),
                Ok(all) => Ok((path, all)),
                Err(error) => Err(wrong(&path, &error)),
            }
        };
        let (authority, certificates) = chain("ca-cert.pem")?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|error| wrong(&authority, &error))?;
        }
        let (path, certificates) = chain("server-cert.pem")?;
        let key_path = folder.join("server-key.pem");
        let key =
            PrivateKeyDer::from_pem_file(&key_path).map_err(|error| wrong(&key_path, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong(&authority, &error))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&path, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates, key)
            .map_err(|error| wrong(&path, &error))?;
        Ok(Self(Arc::new(config)))
    }

    /// The connection, encrypted from here on.
    ///
    /// # Errors
    /// The library refused.
    pub fn wrap(&self, socket: Box<dyn Socket>) -> io::Result<Box<dyn Socket>> {
        let session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        Ok(Box::new(Encrypted { session, socket }))
    }
}

/// A socket whose bytes are encrypted.
struct Encrypted {
    session: ServerConnection,
    socket: Box<dyn Socket>,
}

impl Encrypted {
    /// Sends what waits; an error other than that the socket takes nothing now.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Encrypted {
    /// The client learns that nothing was cut off.
    fn drop(&mut self) {
        self.session.send_close_notify();
        let _ = self.send();
    }
}

impl Read for Encrypted {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) => {
                    self.send()?;
                    return Err(error);
                }
            }
            if let Err(error) = self.session.process_new_packets() {
                // The alert says why.
                let _ = self.send();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.send()?;
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.send()?;
        if self.session.wants_write() || self.session.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The library takes as much as its buffer's limit lets it.
        let count = self.session.writer().write_vectored(slices)?;
        self.send()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl AsFd for Encrypted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket for Encrypted {
    fn may_hold_input(&self) -> bool {
        // What was decrypted, of which the library gives a part at a time.
        true
    }

    fn wants_output(&self) -> bool {
        self.session.wants_write()
    }
}
