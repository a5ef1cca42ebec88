// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tcp://HOST[:PORT]/NQN[?OPTIONS]`: a namespace of an NVMe/TCP target.

use crate::error::{Error, Result};
use std::fmt;

/// The port of NVMe/TCP.
const PORT: u16 = 4420;

/// A remote namespace, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDrive {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The subsystem's qualified name; empty to list them.
    pub nqn: String,
    /// The namespace; 0 for the first.
    pub nsid: u32,
    /// Connections for requests.
    pub queues: u16,
    /// Protect headers by digests.
    pub header_digest: bool,
    /// Protect data by digests.
    pub data_digest: bool,
    /// For how long a lost connection is made again.
    pub reconnect_s: u16,
    /// Keep Alive Timeout.
    pub keep_alive_s: u16,
    /// How long the target may need to end its commands, if it does not report it.
    pub quiesce_s: u16,
    /// A proxy is between: that a connection is closed says nothing about the target.
    pub is_proxied: bool,
    /// Every write is durable before it is acknowledged.
    pub writes_through: bool,
}

/// The longest Keep Alive Timeout: the transport's default (NVMe base specification 2.1, "Keep
/// Alive Timer").
const MOST_KEEP_ALIVE_S: u16 = 120;

impl RemoteDrive {
    /// Parses `rest`, the part of `name` after `tcp:`.
    ///
    /// # Errors
    /// It is invalid.
    pub fn parse(name: &str, rest: &str) -> Result<Self> {
        let invalid = |what: &str| {
            Error::usage(format!("`{name}`: {what}")).hint(
                "tcp://HOST:4420/NQN, then ?nsid=N&queues=N&hdgst&ddgst&reconnect=SECONDS&keep-alive=SECONDS&quiesce=SECONDS&proxied&write-through as needed",
            )
        };
        let rest = rest
            .strip_prefix("//")
            .ok_or_else(|| invalid("`//` is missing"))?;
        let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (nqn, words) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port
                    .parse()
                    .map_err(|_| invalid("the port is not a number to 65535"))?;
                (host, port)
            }
            _ => (place, PORT),
        };
        if host.is_empty() {
            return Err(invalid("the host is missing"));
        }
        if nqn.len() > 223 {
            return Err(invalid("the subsystem's name has more than 223 bytes"));
        }
        let mut drive = Self {
            host: host.to_owned(),
            port,
            nqn: nqn.to_owned(),
            nsid: 0,
            queues: 1,
            header_digest: false,
            data_digest: false,
            reconnect_s: 30,
            keep_alive_s: 5,
            quiesce_s: 1,
            is_proxied: false,
            writes_through: false,
        };
        for word in words.split('&').filter(|word| !word.is_empty()) {
            let bad = |_| invalid(&format!("`{word}` is not a number in range"));
            match word.split_once('=') {
                Some(("nsid", value)) => {
                    drive.nsid = value.parse().map_err(bad)?;
                    if matches!(drive.nsid, 0 | u32::MAX) {
                        return Err(invalid(&format!(
                            "`{word}`: namespaces begin with 1; without nsid it is the first"
                        )));
                    }
                }
                Some(("queues", value)) => drive.queues = value.parse().map_err(bad)?,
                Some(("reconnect", value)) => drive.reconnect_s = value.parse().map_err(bad)?,
                Some(("keep-alive", value)) => drive.keep_alive_s = value.parse().map_err(bad)?,
                Some(("quiesce", value)) => drive.quiesce_s = value.parse().map_err(bad)?,
                None if word == "proxied" => drive.is_proxied = true,
                None if word == "write-through" => drive.writes_through = true,
                None if word == "hdgst" => drive.header_digest = true,
                None if word == "ddgst" => drive.data_digest = true,
                _ => return Err(invalid(&format!("unknown option `{word}`"))),
            }
        }
        if !(1..=MOST_KEEP_ALIVE_S).contains(&drive.keep_alive_s) {
            return Err(invalid(&format!(
                "keep-alive is from 1 to {MOST_KEEP_ALIVE_S} seconds"
            )));
        }
        Ok(drive)
    }
}

impl RemoteDrive {
    /// The longest that a loss of the network holds up writes, in seconds, after which they go on
    /// or fail: until the target must have ended the old association, from its last byte on (3 Keep
    /// Alive Timeouts at most, and its time to quiesce), or until they are given up.
    pub fn longest_stall_s(&self) -> u64 {
        let [keep_alive, quiesce, reconnect] =
            [self.keep_alive_s, self.quiesce_s, self.reconnect_s].map(u64::from);
        (3 * keep_alive + quiesce).min(keep_alive + reconnect)
    }
}

impl fmt::Display for RemoteDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.nqn, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_targets_are_taken_apart() {
        let parse = |name: &str| RemoteDrive::parse(name, name.strip_prefix("tcp:").unwrap());
        let drive = parse("tcp://[::1]:4421/nqn.x:a?nsid=2&hdgst&queues=4").unwrap();
        assert_eq!((drive.host.as_str(), drive.port), ("[::1]", 4421));
        assert_eq!(
            (drive.nqn.as_str(), drive.nsid, drive.queues),
            ("nqn.x:a", 2, 4)
        );
        assert!(drive.header_digest && !drive.data_digest);
        let drive = parse("tcp://h/n?keep-alive=2&quiesce=3&proxied&write-through").unwrap();
        assert_eq!((drive.keep_alive_s, drive.quiesce_s), (2, 3));
        assert!(drive.is_proxied && drive.writes_through);
        assert_eq!(drive.longest_stall_s(), 9);
        // In a mirror the member is given up before.
        assert_eq!(parse("tcp://h/n?reconnect=1").unwrap().longest_stall_s(), 6);
        assert_eq!(parse("tcp://host/n").unwrap().port, 4420);
        assert_eq!(parse("tcp://[fe80::1]/n").unwrap().host, "[fe80::1]");
        for bad in [
            "tcp:host/n",
            "tcp:///n",
            "tcp://h:x/n",
            "tcp://h:99999/n",
            "tcp://h/n?x",
            "tcp://h/n?nsid=a",
            "tcp://h/n?nsid=0",
            "tcp://h/n?nsid=4294967295",
            "tcp://h/n?keep-alive=0",
            "tcp://h/n?keep-alive=121",
            "tcp://h/n?proxied=1",
        ] {
            assert_eq!(
                parse(bad).unwrap_err().kind(),
                crate::error::ErrorKind::Usage,
                "{bad}"
            );
        }
    }
}
