// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands and completions: the bytes in the rings, decoded once and checked on arrival
//! (`docs/coprocessor.md`, "Commands").

use crate::status::Code;

/// The opcodes, and a list of all of them.
macro_rules! opcodes {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident = $number:literal,)*) => {
        /// The opcode of a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $name = $number,)*
        }

        impl Opcode {
            /// Every opcode once.
            pub const ALL: &'static [Opcode] = &[$($(#[cfg($cfg)])? Opcode::$name,)*];
        }
    };
}

opcodes! {
    /// Read blocks into the data.
    Read = 0x01,
    /// Write blocks.
    Write = 0x02,
    /// Make completed writes durable.
    Flush = 0x03,
    /// Give blocks back.
    Discard = 0x04,
    /// Zero blocks.
    WriteZeroes = 0x05,
    /// Make a file and open it for writing.
    Create = 0x10,
    /// Open a file.
    Open = 0x11,
    /// Reserve space for appends.
    Reserve = 0x12,
    /// Append the data.
    Append = 0x13,
    /// Read a file into the data.
    ReadFile = 0x14,
    /// Commit what was written.
    Commit = 0x15,
    /// The same, and make it durable.
    Sync = 0x16,
    /// Close a file.
    Close = 0x17,
    /// Remove a file.
    Delete = 0x18,
    /// The next file of the volume.
    List = 0x19,
    /// A file's sizes.
    Status = 0x1a,
    /// Begin a recording into a file, with the data as its ring of blocks.
    Record = 0x20,
    /// Hand in the next block of the recording.
    RecordBlock = 0x21,
    /// End the recording.
    RecordEnd = 0x22,
    /// Begin to play a file, with the data as its ring of blocks.
    Play = 0x28,
    /// Get the next block, when it is due.
    PlayBlock = 0x29,
    /// End the playback.
    PlayEnd = 0x2a,
    /// For tests: never returns.
    #[cfg(feature = "hang")]
    Hang = 0x7f,
}

impl Opcode {
    fn from_byte(byte: u8) -> Option<Self> {
        // The two frequent ones come first.
        match byte {
            1 => Some(Opcode::Read),
            2 => Some(Opcode::Write),
            _ => Self::ALL.iter().copied().find(|one| *one as u8 == byte),
        }
    }

    /// The flags that it allows.
    const fn flags(self) -> u8 {
        match self {
            Opcode::Write | Opcode::WriteZeroes => FLAG_FUA,
            Opcode::Open => FLAG_WRITE,
            Opcode::Create => FLAG_CHECKSUMS,
            _ => 0,
        }
    }
}

/// The write is durable when it completes.
pub const FLAG_FUA: u8 = 1;
/// The file is opened for writing.
pub const FLAG_WRITE: u8 = 2;
/// The file gets checksums.
pub const FLAG_CHECKSUMS: u8 = 4;

/// A command. The opcode defines the meaning of `argument`, `extra` and `data_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCommand {
    /// The opcode.
    pub opcode: Opcode,
    /// `FLAG_...`.
    pub flags: u8,
    /// The client's identifier, returned with the completion.
    pub id: u16,
    /// It must begin within this many milliseconds after it was seen; 0: no limit.
    pub deadline_ms: u32,
    /// The offset of its data in the client's grant.
    pub data_offset: u32,
    /// The length of its data.
    pub data_bytes: u32,
    /// Block, offset in a file, or number of bytes.
    pub argument: u64,
    /// Open file, or another number.
    pub extra: u64,
}

impl RingCommand {
    /// A command that needs nothing but its opcode.
    pub const fn new(opcode: Opcode) -> Self {
        Self {
            opcode,
            flags: 0,
            id: 0,
            deadline_ms: 0,
            data_offset: 0,
            data_bytes: 0,
            argument: 0,
            extra: 0,
        }
    }

    /// The entry's four double words.
    #[inline(always)]
    pub const fn encode(&self) -> [u64; 4] {
        [
            self.opcode as u64
                | (self.flags as u64) << 8
                | (self.id as u64) << 16
                | (self.deadline_ms as u64) << 32,
            self.data_offset as u64 | (self.data_bytes as u64) << 32,
            self.argument,
            self.extra,
        ]
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// The identifier, with [`Code::BadOpcode`] or [`Code::BadField`].
    #[inline]
    pub fn decode(entry: [u64; 4]) -> Result<Self, (u16, Code)> {
        let [first, data, argument, extra] = entry;
        let id = (first >> 16) as u16;
        let Some(opcode) = Opcode::from_byte(first as u8) else {
            return Err((id, Code::BadOpcode));
        };
        let flags = (first >> 8) as u8;
        if flags & !opcode.flags() != 0 {
            return Err((id, Code::BadField));
        }
        Ok(Self {
            opcode,
            flags,
            id,
            deadline_ms: (first >> 32) as u32,
            data_offset: data as u32,
            data_bytes: (data >> 32) as u32,
            argument,
            extra,
        })
    }
}

/// The completion of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The command's identifier.
    pub id: u16,
    /// Its status code.
    pub code: u16,
    /// Details of the status; see `status`.
    pub detail: u32,
    /// The command's result.
    pub value: u64,
}

/// The bit of the first word that flips with each round of the ring.
pub(crate) const PHASE: u32 = 1 << 31;
/// It ended after its deadline.
pub const LATE: u16 = 1 << 14;

impl Answer {
    /// The words, of which the first is written last. `round` is the number of earlier rounds of
    /// the ring.
    pub const fn encode(&self, round: u32) -> [u32; 4] {
        let phase = if round & 1 == 0 { PHASE } else { 0 };
        [
            self.id as u32 | (self.code as u32 & 0x7fff) << 16 | phase,
            self.detail,
            self.value as u32,
            (self.value >> 32) as u32,
        ]
    }

    /// Whether an entry with this first word is new in round `round`.
    #[cfg(test)]
    pub const fn is_new(first: u32, round: u32) -> bool {
        first >> 31 != round & 1
    }

    /// Decodes a new entry.
    #[inline(always)]
    pub const fn decode(entry: [u32; 4]) -> Self {
        let [first, detail, low, high] = entry;
        Self {
            id: first as u16,
            code: (first >> 16) as u16 & 0x7fff,
            detail,
            value: low as u64 | (high as u64) << 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_ring() {
        for &opcode in Opcode::ALL {
            let command = RingCommand {
                flags: opcode.flags(),
                id: 0xabcd,
                deadline_ms: 77,
                data_offset: 0x1234_5678,
                data_bytes: 0x9abc_def0,
                argument: u64::MAX - 3,
                extra: 1 << 63,
                ..RingCommand::new(opcode)
            };
            assert_eq!(RingCommand::decode(command.encode()), Ok(command));
        }
    }

    #[test]
    fn unknown_opcodes_and_flags_are_refused_with_their_name() {
        let mut entry = RingCommand {
            id: 9,
            ..RingCommand::new(Opcode::Flush)
        }
        .encode();
        entry[0] |= 0x100;
        assert_eq!(RingCommand::decode(entry), Err((9, Code::BadField)));
        entry[0] = 9 << 16 | 0xff;
        assert_eq!(RingCommand::decode(entry), Err((9, Code::BadOpcode)));
        assert_eq!(RingCommand::decode([0; 4]), Err((0, Code::BadOpcode)));
    }

    #[test]
    fn a_zeroed_ring_has_nothing_new_and_each_round_turns_the_phase() {
        assert!(!Answer::is_new(0, 0));
        let answer = Answer {
            id: 0xffff,
            code: 0x7fff,
            detail: 1,
            value: 1 << 40 | 5,
        };
        for round in 0..4 {
            let entry = answer.encode(round);
            assert!(Answer::is_new(entry[0], round));
            assert!(!Answer::is_new(entry[0], round + 1));
            assert_eq!(Answer::decode(entry), answer);
        }
    }
}
