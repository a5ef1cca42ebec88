// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packets of an exported recording, and what it shows of those that were cut off or lost.

use formats::pcapng::Unpacker;
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;

/// What the recording's blocks and statistics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PacketsExported {
    /// Packets, those that were cut off among them.
    pub packets: u64,
    /// Packets that are shorter than they arrived.
    pub cut_packets: u64,
    /// Packets that arrived, and were lost before they could be recorded.
    pub lost_packets: u64,
}

/// Counts packets of a recording that arrives in pieces.
#[derive(Debug, Default)]
pub struct Packets {
    unpacker: Unpacker,
    whole: u64,
    /// It is a file of another kind of packets, which are not counted.
    is_other: bool,
}

impl Packets {
    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        if self.is_other {
            return;
        }
        let whole = &mut self.whole;
        let taken = self.unpacker.take::<Infallible>(bytes, &mut |_, _| {
            *whole += 1;
            Ok(())
        });
        let Ok(known) = taken;
        self.is_other = known.is_err();
    }

    /// The counts; none if it has packets that a recording does not make.
    pub fn counts(self) -> Option<PacketsExported> {
        (!self.is_other).then_some(PacketsExported {
            packets: self.whole + self.unpacker.cut,
            cut_packets: self.unpacker.cut,
            lost_packets: self.unpacker.lost,
        })
    }
}
