// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The schemas and channels of a stream, collected from wherever they are in it: those that a gap
//! has taken from the beginning are often repeated at the end, before the indexes.

use super::layout::{Fields, PREFIX_BYTES, Record, is_channel, is_schema, op};
use std::collections::{BTreeMap, BTreeSet};

/// Schemas and channels by their numbers in the stream.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    schemas: BTreeMap<u16, Vec<u8>>,
    channels: BTreeMap<u16, Vec<u8>>,
    /// The channels of messages.
    used: BTreeSet<u16>,
}

impl Definitions {
    /// Adds a record: a schema or a channel, of which the first one of a number counts, or a
    /// message.
    pub fn add(&mut self, record: &Record<'_>) {
        if record.opcode == op::MESSAGE {
            self.used.extend(Fields(record.content).u16_le());
        }
        let (all, is_good) = match record.opcode {
            op::SCHEMA => (&mut self.schemas, is_schema(record.content)),
            op::CHANNEL => (&mut self.channels, is_channel(record.content)),
            _ => return,
        };
        if let (true, Some(id)) = (is_good, Fields(record.content).u16_le()) {
            all.entry(id).or_insert_with(|| record.whole.to_vec());
        }
    }

    /// Whether there are no channels, those of some messages are missing, or a channel's schema.
    pub fn is_incomplete(&self) -> bool {
        let lacks_schema = |channel: &Vec<u8>| {
            let mut fields = Fields(channel.get(PREFIX_BYTES + 2..).unwrap_or_default());
            let schema = fields.u16_le().unwrap_or(0);
            schema > 0 && !self.schemas.contains_key(&schema)
        };
        self.channels.is_empty()
            || self.used.iter().any(|id| !self.channels.contains_key(id))
            || self.channels.values().any(lacks_schema)
    }

    /// The record of a channel.
    pub fn channel(&self, id: u16) -> Option<&[u8]> {
        self.channels.get(&id).map(Vec::as_slice)
    }

    /// The record of a schema.
    pub fn schema(&self, id: u16) -> Option<&[u8]> {
        self.schemas.get(&id).map(Vec::as_slice)
    }
}
