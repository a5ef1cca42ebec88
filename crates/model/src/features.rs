// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Features (NVMe base specification 1.4, "Feature Specific Information").

use std::collections::BTreeMap;

use crate::command::{Command, Outcome, status};
use crate::config::Config;
use crate::controller::Controller;
use crate::fault::FaultKind;

const ARBITRATION: u8 = 0x01;
const POWER_MANAGEMENT: u8 = 0x02;
const TEMPERATURE_THRESHOLD: u8 = 0x04;
const ERROR_RECOVERY: u8 = 0x05;
const VOLATILE_WRITE_CACHE: u8 = 0x06;
const NUMBER_OF_QUEUES: u8 = 0x07;
const INTERRUPT_COALESCING: u8 = 0x08;
const INTERRUPT_VECTOR: u8 = 0x09;
const WRITE_ATOMICITY: u8 = 0x0a;
const ASYNC_EVENTS: u8 = 0x0b;
const TRANSITIONS: u8 = 0x0c;

/// The initial over temperature threshold: 70 degrees Celsius in kelvins.
const THRESHOLD_KELVIN: u32 = 343;

/// The features' values that differ from the initial ones.
#[derive(Debug)]
pub(crate) struct Features {
    /// By feature, and by what selects one of several values in it.
    changed: BTreeMap<(u8, u32), u32>,
    write_cache: bool,
    /// The table of autonomous power state transitions.
    pub(crate) transitions: [u8; 256],
}

impl Features {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            changed: BTreeMap::new(),
            write_cache: config.volatile_write_cache,
            transitions: crate::power::default_table(config),
        }
    }

    /// Whether autonomous transitions are on: as shipped, unless changed.
    pub(crate) fn transitions_enabled(&self) -> bool {
        let changed = self.changed.get(&(TRANSITIONS, 0));
        changed.is_none_or(|value| value & 1 != 0)
    }

    /// Whether there is a volatile write cache and it is enabled.
    pub(crate) fn write_cache(&self) -> bool {
        self.write_cache
    }
}

/// The bits of dword 11 that select one of a feature's values.
fn selector(feature: u8, dword11: u32) -> u32 {
    match feature {
        // THSEL and TMPSEL.
        TEMPERATURE_THRESHOLD => dword11 >> 16 & 0x3f,
        INTERRUPT_VECTOR => dword11 & 0xffff,
        _ => 0,
    }
}

impl Controller {
    fn feature_default(&self, feature: u8, dword11: u32) -> Result<u32, u16> {
        Ok(match feature {
            ARBITRATION | POWER_MANAGEMENT | ERROR_RECOVERY => 0,
            INTERRUPT_COALESCING | WRITE_ATOMICITY | ASYNC_EVENTS => 0,
            // Composite sensor's over threshold; the under threshold, and other sensors', are 0.
            TEMPERATURE_THRESHOLD if dword11 >> 16 & 0x3f == 0 => THRESHOLD_KELVIN,
            TEMPERATURE_THRESHOLD if dword11 >> 16 & 0xf > 8 => return Err(status::INVALID_FIELD),
            TEMPERATURE_THRESHOLD => 0,
            VOLATILE_WRITE_CACHE if self.config.volatile_write_cache => 1,
            NUMBER_OF_QUEUES => u32::from(self.config.io_queues - 1) * 0x1_0001,
            // On, as vendors ship drives.
            TRANSITIONS if self.config.power_states.len() > 1 => 1,
            INTERRUPT_VECTOR => {
                let vector = dword11 & 0xffff;
                if vector >= u32::from(self.config.interrupt_vectors) {
                    return Err(status::INVALID_FIELD);
                }
                // Coalescing is never done for the admin queue's vector.
                vector | u32::from(vector == 0) << 16
            }
            _ => return Err(status::INVALID_FIELD),
        })
    }

    pub(crate) fn get_features(&mut self, command: &Command) -> Outcome {
        let feature = command.dword::<10>() as u8;
        let dword11 = command.dword::<11>();
        let default = self.feature_default(feature, dword11)?;
        if feature == TRANSITIONS && command.dword::<10>() >> 8 & 7 == 0 {
            self.move_transitions(command, false)?;
        }
        match command.dword::<10>() >> 8 & 7 {
            0 => {
                let key = (feature, selector(feature, dword11));
                Ok(self.features.changed.get(&key).copied().unwrap_or(default))
            }
            1 | 2 => Ok(default),
            // Supported capabilities: changeable, not saveable, not by namespace.
            3 => Ok(1 << 2),
            _ => Err(status::INVALID_FIELD),
        }
    }

    pub(crate) fn set_features(&mut self, command: &Command) -> Outcome {
        let feature = command.dword::<10>() as u8;
        let value = command.dword::<11>();
        self.feature_default(feature, value)?;
        if command.dword::<10>() >> 31 != 0 {
            return Err(status::NOT_SAVEABLE);
        }
        match feature {
            NUMBER_OF_QUEUES => return self.set_queue_count(value),
            TRANSITIONS => self.move_transitions(command, true)?,
            // There is only power state 0.
            POWER_MANAGEMENT if value & 0x1f != 0 => return Err(status::INVALID_FIELD),
            VOLATILE_WRITE_CACHE => {
                if value & 1 == 0 {
                    self.flush_all();
                }
                self.features.write_cache = value & 1 != 0;
            }
            _ => {}
        }
        let key = (feature, selector(feature, value));
        self.features.changed.insert(key, value);
        Ok(0)
    }

    /// NVMe base specification 1.4, "Number of Queues": only before the first I/O queue is made.
    fn set_queue_count(&mut self, value: u32) -> Outcome {
        let queues = self.completion.iter().skip(1).flatten().count()
            + self.submission.iter().skip(1).flatten().count();
        if queues != 0 {
            return Err(status::SEQUENCE);
        }
        let (submission, completion) = (value & 0xffff, value >> 16);
        if submission == 0xffff || completion == 0xffff {
            return Err(status::INVALID_FIELD);
        }
        let most = u32::from(self.config.io_queues - 1);
        let granted = submission.min(most) | completion.min(most) << 16;
        let key = (NUMBER_OF_QUEUES, 0);
        self.features.changed.insert(key, granted);
        for kind in self.faults.constant() {
            if let FaultKind::QueuesGranted(field) = kind {
                return Ok(u32::from(field) * 0x1_0001);
            }
        }
        Ok(granted)
    }

    /// How many queue pairs may be made: (submission, completion).
    pub(crate) fn queues_granted(&self) -> (u32, u32) {
        let most = u32::from(self.config.io_queues - 1) * 0x1_0001;
        let key = (NUMBER_OF_QUEUES, 0);
        let granted = self.features.changed.get(&key).copied().unwrap_or(most);
        ((granted & 0xffff) + 1, (granted >> 16) + 1)
    }
}
