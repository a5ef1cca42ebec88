// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power states and autonomous transitions (NVMe base specification 1.4, "Power Management").
//!
//! The controller changes its state when an I/O command arrives: it computes where its table would
//! have taken it since the last one. That is all that a host can see of it.

use crate::command::{Command, status};
use crate::config::Config;
use crate::controller::Controller;
use crate::engine::Effects;
use crate::identify::{Page, put};
use crate::violation::Access;
use nvme::Quirks;

/// The table's length in bytes.
const TABLE_BYTES: usize = 256;

/// Writes NPSS, APSTA and the descriptors to an Identify Controller page.
pub(crate) fn put_states(config: &Config, page: &mut Page) {
    // 5 W, in units of 10 mW.
    put(page, 2048, &500_u16.to_le_bytes());
    if config.power_states.len() > 1 {
        page[263] = config.power_states.len() as u8 - 1;
        page[265] = 1;
    }
    for (index, state) in config.power_states.iter().enumerate() {
        let at = 2048 + 32 * index;
        put(page, at, &((state.max_power_mw / 10) as u16).to_le_bytes());
        page[at + 3] = u8::from(state.non_operational) << 1;
        put(page, at + 4, &state.entry_latency_us.to_le_bytes());
        put(page, at + 8, &state.exit_latency_us.to_le_bytes());
    }
}

/// What the vendor set: state 0 is left for the deepest state after 100 ms.
pub(crate) fn default_table(config: &Config) -> [u8; TABLE_BYTES] {
    let mut table = [0; TABLE_BYTES];
    if let Some(last @ 1..) = config.power_states.len().checked_sub(1) {
        let entry = (last as u32) << 3 | 100 << 8;
        table[..4].copy_from_slice(&entry.to_le_bytes());
    }
    table
}

impl Controller {
    /// Moves the table of Set or Get Features between the command's data and the controller.
    pub(crate) fn move_transitions(&mut self, command: &Command, is_set: bool) -> Result<(), u16> {
        if self.config.power_states.len() < 2 {
            return Err(status::INVALID_FIELD);
        }
        let mut table = self.features.transitions;
        if !is_set {
            return self.send(command, &table, Access::Admin);
        }
        self.receive(command, &mut table, Access::Admin)?;
        self.features.transitions = table;
        Ok(())
    }

    /// Leaves the power state that the controller has reached since the last I/O command; that
    /// command waits for it. With a quirk, the controller may not come back.
    pub(crate) fn wake(&mut self, effects: &mut Effects) {
        let idle_us = self.now.saturating_sub(self.last_io) / self.ticks_per_us;
        self.last_io = self.now;
        if self.config.power_states.len() < 2 || !self.features.transitions_enabled() {
            return;
        }
        let (mut state, mut left_us) = (0, idle_us);
        // Each iteration enters a deeper state, or is the last.
        while let Some(bytes) = self.features.transitions.get(state * 8..state * 8 + 4) {
            let entry = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let (target, idle_ms) = ((entry >> 3 & 31) as usize, entry >> 8);
            let wait_us = u64::from(idle_ms) * 1000;
            if idle_ms == 0 || target <= state || wait_us > left_us {
                break;
            }
            (state, left_us) = (target, left_us - wait_us);
        }
        let Some(reached) = self.config.power_states.get(state) else {
            return;
        };
        if !reached.non_operational {
            return;
        }
        self.statistics.power_transitions += 1;
        let is_last = state + 1 == self.config.power_states.len();
        let quirks = self.config.quirks;
        if quirks.has(Quirks::NO_POWER_TRANSITIONS)
            || is_last && quirks.has(Quirks::NO_DEEPEST_POWER_STATE)
        {
            self.bus.removed = true;
            return;
        }
        if effects.delay.is_none() {
            let delay_us = u64::from(reached.entry_latency_us) + u64::from(reached.exit_latency_us);
            effects.delay = Some((delay_us, false));
        }
    }
}
