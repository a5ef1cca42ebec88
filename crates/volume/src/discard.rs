// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Giving free space back to the device (NVMe's Deallocate, ATA's TRIM). `FORMAT.md`, "Operations".

use block::Device;

use crate::io::WORK;
use crate::order::Order;
use crate::steps::Step;
use crate::{Error, Volume, bitmap};

/// The longest range of one command: some drives take their time with more, while others wait.
const MAX_BYTES: u64 = 1 << 30;

/// A free range that was given back to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// Bytes of the range; 0 if there was none.
    pub bytes: u64,
    /// The unit to continue with; `None` after the volume's last one.
    pub next_unit: Option<u64>,
}

impl<D: Device> Volume<'_, D> {
    /// Gives one range of free units back to the device, the first one of at least `least_bytes` at
    /// or after unit `from`: the drive may forget what is there, and no longer copies it when it
    /// collects its garbage. To treat the whole volume, call this in a loop from unit 0, in as many
    /// steps as the caller likes. Files and reservations are not touched.
    ///
    /// A step reads bitmaps until it has found a range, and sends at most one command, of at most 1
    /// GiB.
    ///
    /// # Errors
    /// [`Error::Device`] if the device cannot discard, or failed: nothing was lost then;
    /// [`Error::ReadOnly`], [`Error::NeedsMount`], [`Error::Corrupt`].
    pub async fn discard_free(&self, from: u64, least_bytes: u64) -> Result<Discarded, Error> {
        let turn = self.turn_to_change().await?;
        let shape = self.shape();
        let geometry = self.geometry();
        if !geometry.features.discard {
            return Err(block::Error::Unsupported.into());
        }
        let unit_bytes = shape.unit_bytes();
        let most = (MAX_BYTES / unit_bytes).max(1);
        let least = least_bytes.div_ceil(unit_bytes).clamp(1, most);
        let mut unit = from;
        let mut bytes = 0;
        while unit < shape.unit_count() && bytes == 0 {
            let group = shape.group_of(unit);
            let first = shape.unit_in_group(unit);
            self.load_bitmap(group).await?;
            let (start, free) = {
                let state = self.state();
                bitmap::next_free(state.node(WORK), first, most as u32)
            };
            if free == 0 {
                unit = shape.group_start(group + 1);
                continue;
            }
            let start = shape.group_start(group) + u64::from(start);
            unit = start + u64::from(free);
            if u64::from(free) < least {
                continue;
            }
            bytes = u64::from(free) * unit_bytes;
            // A power cut must not undo the release of what the device forgets.
            self.perform(|state| state.order(Order::FreeBeforeDiscard))
                .await?;
            // Whatever becomes of the discard, no node changes.
            turn.done();
            self.move_bytes(Step::DISCARD, shape.unit_address(start), bytes as usize)
                .await?;
        }
        turn.done();
        Ok(Discarded {
            bytes,
            next_unit: Some(unit).filter(|unit| *unit < shape.unit_count()),
        })
    }
}
