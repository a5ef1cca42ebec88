// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Submission queue entries (NVMe base specification, "Common Command Format"; NVMe over Fabrics,
//! "Fabrics command set").

use crate::FabricError;
use block::fields::put;

/// Bytes of the data of a Connect command.
pub const CONNECT_BYTES: usize = 1024;
/// The longest qualified name.
const NAME_BYTES: usize = 223;

/// Registers, by offset.
pub const CAP: u32 = 0x00;
pub const CC: u32 = 0x14;
pub const CSTS: u32 = 0x1c;

/// Opcodes of the Admin command set.
pub mod opcode {
    pub const GET_LOG: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Opcodes of the NVM command set.
pub mod io {
    pub const FLUSH: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const READ: u8 = 2;
    pub const WRITE_ZEROES: u8 = 8;
    pub const DATASET_MANAGEMENT: u8 = 9;
}

/// A submission queue entry without its identifier and its data pointer, which the queue adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEntry(pub [u8; 64]);

impl QueueEntry {
    /// A command with this opcode, namespace and dwords 10 to 15.
    pub fn new(opcode: u8, nsid: u32, dwords: &[u32]) -> Self {
        let mut entry = [0; 64];
        put(&mut entry, 0, &[opcode]);
        put(&mut entry, 4, &nsid.to_le_bytes());
        for (index, dword) in dwords.iter().enumerate() {
            put(&mut entry, 40 + 4 * index, &dword.to_le_bytes());
        }
        Self(entry)
    }

    /// Whether an I/O command changes blocks, so that it must not be executed late.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.opcode(), io::READ | io::FLUSH)
    }

    pub(crate) const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Force Unit Access, bit 30 of dword 12 of a write.
    pub(crate) const fn is_fua(&self) -> bool {
        matches!(self.opcode(), io::WRITE | io::WRITE_ZEROES) && self.0[51] & 1 << 6 != 0
    }

    fn fabric(kind: u8, bytes: &[u8]) -> Self {
        let mut entry = [0; 64];
        put(&mut entry, 0, &[0x7f]);
        put(&mut entry, 4, &[kind]);
        put(&mut entry, 40, bytes);
        Self(entry)
    }

    /// Property Set.
    pub fn set_property(offset: u32, value: u32) -> Self {
        let mut bytes = [0; 16];
        put(&mut bytes, 4, &offset.to_le_bytes());
        put(&mut bytes, 8, &value.to_le_bytes());
        Self::fabric(0, &bytes)
    }

    /// Property Get; the value is in the first 8 bytes of the completion.
    pub fn get_property(offset: u32, is_long: bool) -> Self {
        let mut bytes = [0; 8];
        put(&mut bytes, 0, &[u8::from(is_long)]);
        put(&mut bytes, 4, &offset.to_le_bytes());
        Self::fabric(4, &bytes)
    }
}

/// A Connect command: which queue, and who connects.
#[derive(Clone, Copy, Debug)]
pub struct Connecting<'n> {
    /// The queue: 0 for administration.
    pub queue: u16,
    /// Entries of the queue, at least 2.
    pub entries: u16,
    /// Keep-alive timeout; 0 for none.
    pub keep_alive_ms: u32,
    /// The controller that an I/O queue belongs to; 0xffff for a new one.
    pub controller: u16,
    /// The host's identity.
    pub host_id: [u8; 16],
    /// The host's qualified name.
    pub host_nqn: &'n str,
    /// The subsystem's.
    pub subsystem_nqn: &'n str,
}

impl Connecting<'_> {
    /// The command, and its data in `data`, at least 1024 bytes.
    ///
    /// # Errors
    /// [`FabricError::Name`] or [`FabricError::Memory`].
    pub fn write(&self, data: &mut [u8]) -> Result<QueueEntry, FabricError> {
        let names = [self.subsystem_nqn, self.host_nqn];
        if names
            .iter()
            .any(|name| name.is_empty() || name.len() > NAME_BYTES)
        {
            return Err(FabricError::Name);
        }
        let data = data.get_mut(..CONNECT_BYTES).ok_or(FabricError::Memory)?;
        data.fill(0);
        put(data, 0, &self.host_id);
        put(data, 16, &self.controller.to_le_bytes());
        put(data, 256, self.subsystem_nqn.as_bytes());
        put(data, 512, self.host_nqn.as_bytes());
        let mut bytes = [0; 12];
        put(&mut bytes, 2, &self.queue.to_le_bytes());
        put(
            &mut bytes,
            4,
            &(self.entries.saturating_sub(1)).to_le_bytes(),
        );
        put(&mut bytes, 8, &self.keep_alive_ms.to_le_bytes());
        Ok(QueueEntry::fabric(1, &bytes))
    }
}
