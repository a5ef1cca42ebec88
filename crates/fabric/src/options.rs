// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How to connect, and what a path to a namespace is worth.

use crate::FabricError;

/// The state of the path to a namespace (Asymmetric Namespace Access).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ana {
    /// The controller does not report it.
    Unreported,
    /// Usable.
    Optimized,
    /// Usable, slower than by another path.
    NonOptimized,
    /// Not usable by this path now.
    Inaccessible,
    /// Not usable by this path any more.
    PersistentLoss,
    /// About to change.
    Change,
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The subsystem's qualified name.
    pub subsystem_nqn: Name,
    /// The host's.
    pub host_nqn: Name,
    /// The host's identity.
    pub host_id: [u8; 16],
    /// The namespace; 0 for the first.
    pub nsid: u32,
    /// I/O queues, each with a connection; at most what the type has room for.
    pub queues: u16,
    /// Protect headers by digests.
    pub header_digest: bool,
    /// Protect data by digests.
    pub data_digest: bool,
    /// Keep Alive Timeout (KATO): the target ends the association after this time without a
    /// command. A Keep Alive is sent every quarter of it. 0 for none: then only a target that
    /// closes the connections is known to have ended a lost association.
    pub keep_alive_ms: u32,
    /// How long a controller may need to end its commands after it has given up the association,
    /// where Identify Controller does not say it (CQT).
    pub quiesce_ms: u32,
    /// A connection that is closed was closed by the target. Not so behind a proxy, which closes
    /// when its own network fails.
    pub trusts_close: bool,
    /// Every write is durable before it is acknowledged (Force Unit Access), so that a target which
    /// restarts between two flushes, and is connected again, loses nothing of its cache.
    pub writes_through: bool,
    /// A command that takes longer ends the connection.
    pub command_timeout_us: u64,
    /// For how long a lost connection is made again before the device is gone, a changing command
    /// waits for the end of a lost association, and one that failed by its path is submitted again;
    /// 0 for not at all.
    pub reconnect_us: u64,
}

impl RemoteOptions {
    /// The longest that changing commands wait after a loss, by what is known before a controller
    /// has said more: 3 KATO and the time to quiesce.
    pub fn longest_wait_ms(&self) -> u64 {
        3 * u64::from(self.keep_alive_ms) + u64::from(self.quiesce_ms)
    }
}

impl Default for RemoteOptions {
    /// One queue, no digests, a Keep Alive Timeout of 5 s, 10 s for a command, 30 s to reconnect.
    fn default() -> Self {
        Self {
            subsystem_nqn: Name::default(),
            host_nqn: Name::default(),
            host_id: [0; 16],
            nsid: 0,
            queues: 1,
            header_digest: false,
            data_digest: false,
            keep_alive_ms: 5_000,
            quiesce_ms: 1_000,
            trusts_close: true,
            writes_through: false,
            command_timeout_us: 10_000_000,
            reconnect_us: 30_000_000,
        }
    }
}

/// A qualified name, up to 223 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 223],
    len: u8,
}

impl Default for Name {
    fn default() -> Self {
        Self {
            bytes: [0; 223],
            len: 0,
        }
    }
}

impl Name {
    /// A name.
    ///
    /// # Errors
    /// [`FabricError::Name`]: empty, or too long.
    pub fn new(text: &str) -> Result<Self, FabricError> {
        let mut name = Self::default();
        match name.bytes.get_mut(..text.len()) {
            Some(place) if !text.is_empty() => place.copy_from_slice(text.as_bytes()),
            _ => return Err(FabricError::Name),
        }
        name.len = text.len() as u8;
        Ok(name)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}
