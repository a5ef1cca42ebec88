// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of a discovery subsystem: which subsystems a target has, and where.

use crate::remote::{open_controller, read_log};
use crate::{Connect, FabricError, Name, RemoteOptions};
use block::fields::{u16_at, u64_at};
use block::{Buffer, Clock};

/// The name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
const DISCOVERY_LOG: u32 = 0x70;
const ENTRY_BYTES: usize = 1024;
const TCP: u8 = 3;
/// More entries are not read.
const MOST_ENTRIES: u64 = 4096;

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry<'p> {
    /// Whether it is reached by NVMe/TCP.
    pub is_tcp: bool,
    /// Whether it is another discovery service.
    pub is_discovery: bool,
    /// Its port.
    pub port: &'p str,
    /// Its address.
    pub address: &'p str,
    /// Its qualified name.
    pub nqn: &'p str,
}

fn text(bytes: &[u8], at: usize, len: usize) -> &str {
    let field = bytes.get(at..at + len).unwrap_or_default();
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(len);
    let text = core::str::from_utf8(field.get(..end).unwrap_or_default());
    text.unwrap_or_default().trim_end()
}

/// Connects to a discovery service and calls `each` with each entry of its log. `page` has at least
/// 4096 bytes. Of `options` the host's name and identity, the digests and the deadline are used.
///
/// # Errors
/// What failed.
pub fn discover<C: Connect, K: Clock>(
    connect: &mut C,
    clock: &K,
    options: &RemoteOptions,
    page: Buffer,
    mut each: impl FnMut(DiscoveryEntry<'_>),
) -> Result<(), FabricError> {
    let mut page = Some(page).filter(|page| page.len() >= 4096);
    let options = RemoteOptions {
        subsystem_nqn: Name::new(DISCOVERY_NQN)?,
        keep_alive_ms: 0,
        ..options.clone()
    };
    let (mut admin, _, _) = open_controller::<_, _, 4>(connect, clock, &options, &mut page)?;
    let mut count = 0;
    let mut offset: u64 = 0;
    loop {
        read_log(
            &mut admin,
            clock,
            &options,
            DISCOVERY_LOG,
            offset,
            &mut page,
        )?;
        let bytes: &[u8] = page.as_deref().ok_or(FabricError::Memory)?;
        let entries = match offset {
            0 => {
                count = u64_at(bytes, 8).min(MOST_ENTRIES);
                if u16_at(bytes, 16) != 0 {
                    return Err(FabricError::Protocol(
                        "an unknown format of the discovery log",
                    ));
                }
                1..4
            }
            _ => 0..4,
        };
        for index in entries {
            let number = offset / ENTRY_BYTES as u64 + index as u64;
            if number > count {
                return Ok(());
            }
            let entry = bytes.get(index * ENTRY_BYTES..).unwrap_or_default();
            each(DiscoveryEntry {
                is_tcp: entry.first() == Some(&TCP),
                is_discovery: entry.get(2).is_some_and(|kind| *kind != 2),
                port: text(entry, 32, 32),
                address: text(entry, 512, 256),
                nqn: text(entry, 256, 256),
            });
        }
        offset += 4 * ENTRY_BYTES as u64;
    }
}
