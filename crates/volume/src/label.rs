// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's label.

use block::Device;

use crate::bytes::put;
use crate::{Error, Volume};

/// Bytes of a label.
pub(crate) const BYTES: usize = 32;

/// A label as a superblock has it: at most 32 bytes, cut between letters, padded with zeroes.
pub(crate) fn padded(label: &str) -> [u8; BYTES] {
    let mut padded = [0; BYTES];
    let mut end = label.len().min(padded.len());
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    put(
        &mut padded,
        0,
        label.as_bytes().get(..end).unwrap_or_default(),
    );
    padded
}

impl<D: Device> Volume<'_, D> {
    /// Gives the volume another label for people, of which at most 32 bytes are kept. It is durable
    /// once the volume is unmounted; a power cut before that leaves the old one or this.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], a device's error.
    pub async fn set_label(&self, label: &str) -> Result<(), Error> {
        let turn = self.turn_to_change().await?;
        self.state().superblock.label = padded(label);
        // The next superblock has it: at the latest the one that marks the volume as clean again.
        self.perform(|state| state.put_in_use()).await?;
        turn.done();
        Ok(())
    }
}
