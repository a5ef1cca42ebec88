// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power states and autonomous transitions between them (NVMe base specification, "Power
//! Management").
//!
//! A controller that enters a non-operational state by itself when it is idle answers the next
//! command late by its entry and exit latencies: up to seconds.
//! [`ControllerOptions::latency_limit_us`](crate::ControllerOptions::latency_limit_us) bounds that.

use core::ops::Deref;

use crate::admin::Admin;
use crate::command::{Command, admin};
use crate::controller::{Controller, Setup};
use crate::error::Error;
use crate::identify::{ControllerInfo, cns};
use crate::memory::Part;
use crate::platform::Platform;
use crate::quirks::Quirks;
use block::fields::{u8_at, u16_at, u32_at};

/// Most power states of a controller.
pub const MAX_POWER_STATES: usize = 32;
/// Feature identifier of Autonomous Power State Transition.
const TRANSITIONS: u32 = 0x0c;
/// Byte offsets in the Identify Controller data structure: Number of Power States Support, and the
/// first descriptor.
const NPSS: usize = 263;
const PSD0: usize = 2048;
const PSD_BYTES: usize = 32;
/// A state's idle time is this many times what entering and leaving it takes: then idling costs at
/// most 2 % of the time.
const IDLE_FACTOR: u32 = 50;

/// A power state (Power State Descriptor).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerState {
    /// Largest power in milliwatts (MP); 0 if not reported.
    pub max_power_mw: u32,
    /// No I/O is processed in it (NOPS).
    pub non_operational: bool,
    /// Longest time to enter it, in microseconds (ENLAT); 0 if not reported.
    pub entry_latency_us: u32,
    /// Longest time to leave it, in microseconds (EXLAT); 0 if not reported.
    pub exit_latency_us: u32,
}

impl PowerState {
    fn parse(descriptor: &[u8]) -> Self {
        let flags = u8_at(descriptor, 3);
        let power = u32::from(u16_at(descriptor, 0));
        Self {
            // Units of 10 mW, or of 0.1 mW (MXPS).
            max_power_mw: if flags & 1 != 0 {
                power / 10
            } else {
                power * 10
            },
            non_operational: flags & 2 != 0,
            entry_latency_us: u32_at(descriptor, 4),
            exit_latency_us: u32_at(descriptor, 8),
        }
    }

    /// The delay of a command that finds the controller entering the state, in microseconds.
    pub const fn latency_us(&self) -> u32 {
        self.entry_latency_us.saturating_add(self.exit_latency_us)
    }
}

/// A controller's power states, state 0 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerStates {
    states: [PowerState; MAX_POWER_STATES],
    count: usize,
}

impl PowerStates {
    /// Parses an Identify Controller page; any bytes give a value.
    pub fn parse(page: &[u8]) -> Self {
        let mut states = [PowerState::default(); MAX_POWER_STATES];
        let descriptors = page.get(PSD0..).unwrap_or_default();
        for (state, descriptor) in states.iter_mut().zip(descriptors.chunks_exact(PSD_BYTES)) {
            *state = PowerState::parse(descriptor);
        }
        let count = (usize::from(u8_at(page, NPSS)) + 1).min(MAX_POWER_STATES);
        Self { states, count }
    }
}

impl Deref for PowerStates {
    type Target = [PowerState];

    fn deref(&self) -> &[PowerState] {
        self.states.get(..self.count).unwrap_or_default()
    }
}

/// The autonomous transitions that are set (feature 0Ch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transitions {
    /// They are switched on (APSTE).
    pub enabled: bool,
    /// For each state, the state that it is left for when the controller is idle, and after how
    /// many milliseconds.
    pub entries: [Option<(u8, u32)>; MAX_POWER_STATES],
}

impl Transitions {
    /// Parses dword 0 of the completion and the data structure of Get Features.
    pub fn parse(dword: u32, page: &[u8]) -> Self {
        let mut entries = [None; MAX_POWER_STATES];
        for (place, bytes) in entries.iter_mut().zip(page.chunks_exact(8)) {
            let entry = u32_at(bytes, 0);
            // An idle time of 0 is no transition.
            *place = (entry >> 8 != 0).then_some(((entry >> 3 & 0x1f) as u8, entry >> 8));
        }
        Self {
            enabled: dword & 1 != 0,
            entries,
        }
    }

    /// The longest that a command is late because of a transition, in microseconds; 0 if they are
    /// off.
    pub fn worst_latency_us(&self, states: &[PowerState]) -> u32 {
        let entries = self.entries.iter().filter(|_| self.enabled).flatten();
        let targets = entries.filter_map(|(target, _)| states.get(usize::from(*target)));
        targets.map(PowerState::latency_us).max().unwrap_or(0)
    }
}

/// Writes the data structure of feature 0Ch to `target`: each state is left for the next deeper
/// non-operational one whose latency is within the limit. Returns whether there is any. `states`
/// has the descriptors, `last` is the deepest state that may be entered.
fn write_table(states: &Part, target: &Part, count: usize, last: usize, limit_us: u32) -> bool {
    let mut next = 0;
    for state in (0..count).rev() {
        if let Some(word) = target.word(state * 8) {
            word.write(next);
        }
        let field = |offset| states.word(state * PSD_BYTES + offset);
        let (Some(flags), Some(entry), Some(exit)) = (field(0), field(4), field(8)) else {
            continue;
        };
        let latency_us = entry.read().saturating_add(exit.read());
        let non_operational = flags.read() >> 25 & 1 != 0;
        if non_operational && state <= last && latency_us <= limit_us {
            let idle_ms = latency_us / (1000 / IDLE_FACTOR);
            next = (state as u32) << 3 | idle_ms.clamp(1, 0xff_ffff) << 8;
        }
    }
    next != 0
}

impl<P: Platform> Setup<'_, P> {
    /// Bounds what autonomous transitions delay a command by; they are off if no state is quick
    /// enough. The data page holds the Identify Controller data, and is overwritten.
    pub(crate) fn limit_transitions(
        &self,
        admin: &mut Admin,
        info: &ControllerInfo,
        quirks: Quirks,
    ) -> Result<(), Error> {
        let forced_off = quirks.has(Quirks::NO_POWER_TRANSITIONS);
        let limit_us = match (self.options.latency_limit_us, forced_off) {
            _ if !info.autonomous_transitions => return Ok(()),
            (_, true) => 0,
            (Some(limit_us), _) => limit_us,
            // The drive's own table may hold the broken state.
            (None, _) if quirks.has(Quirks::NO_DEEPEST_POWER_STATE) => u32::MAX,
            (None, _) => return Ok(()),
        };
        let deepest = usize::from(info.last_power_state);
        let broken = usize::from(quirks.has(Quirks::NO_DEEPEST_POWER_STATE));
        let last = deepest.saturating_sub(broken);
        let mut enabled = false;
        if let Some(states) = admin.data.from(PSD0) {
            // Latencies of 0 are not known, so that a limit of 0 means off.
            let count = (deepest + 1).min(MAX_POWER_STATES);
            enabled = write_table(&states, &admin.data, count, last, limit_us) && limit_us > 0;
        }
        self.platform.clean(admin.data.address(), admin.data.len);
        let command = Command {
            opcode: admin::SET_FEATURES,
            prp1: admin.data.bus,
            dwords: [TRANSITIONS, u32::from(enabled), 0, 0],
            ..Command::default()
        };
        self.execute(admin, &command).map(|_| ())
    }
}

impl<P: Platform> Controller<P> {
    /// The controller's power states.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn power_states(&self) -> Result<PowerStates, Error> {
        let mut page = [0; crate::identify::PAGE_BYTES];
        self.fetch(admin::IDENTIFY, 0, cns::CONTROLLER, &mut page)?;
        Ok(PowerStates::parse(&page))
    }

    /// The autonomous transitions that are set; `None` where the controller has none.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn transitions(&self) -> Result<Option<Transitions>, Error> {
        if !self.info().autonomous_transitions {
            return Ok(None);
        }
        let mut page = [0; 8 * MAX_POWER_STATES];
        let dword = self.fetch(admin::GET_FEATURES, 0, TRANSITIONS, &mut page)?;
        Ok(Some(Transitions::parse(dword, &page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_in_their_units() {
        let mut page = [0; 4096];
        page[NPSS] = 1;
        page[PSD0..PSD0 + 12].copy_from_slice(&[0x58, 2, 0, 0, 10, 0, 0, 0, 20, 0, 0, 0]);
        let second = PSD0 + PSD_BYTES;
        page[second..second + 12].copy_from_slice(&[50, 0, 0, 3, 0, 1, 0, 0, 0, 2, 0, 0]);
        let states = PowerStates::parse(&page);
        assert_eq!(states.len(), 2);
        assert_eq!((states[0].max_power_mw, states[0].latency_us()), (6000, 30));
        assert_eq!((states[1].max_power_mw, states[1].latency_us()), (5, 768));
        assert!(states[1].non_operational && !states[0].non_operational);
        assert_eq!(PowerStates::parse(&[0xff; 4096]).len(), MAX_POWER_STATES);
        assert_eq!(PowerStates::parse(&[]).len(), 1);
    }

    #[test]
    fn a_table_of_any_bytes_gives_a_bound() {
        let states = [PowerState {
            entry_latency_us: u32::MAX,
            exit_latency_us: 7,
            ..PowerState::default()
        }];
        let all = Transitions::parse(1, &[0xff; 256]);
        assert_eq!(all.worst_latency_us(&states), 0);
        let first = Transitions::parse(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(first.worst_latency_us(&states), u32::MAX);
        let off = Transitions::parse(0, &[0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(off.worst_latency_us(&states), 0);
    }
}
