// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The defects of [`Quirks`], played: each hurts a driver that does not work around it.

use nvme::Quirks;

use crate::command::{Command, admin, io, status};
use crate::config::Config;
use crate::controller::Controller;
use crate::identify::Page;

/// A controller that is asked for its status earlier than this after a disable never becomes ready
/// again.
const READY_DELAY_US: u64 = 2_000_000;
/// The longest transfer that works.
const SHORT_TRANSFER_BYTES: usize = 128 << 10;
const CREATE_PRIORITY_MEDIUM: u32 = 2;
const TEMPERATURE_THRESHOLD: u32 = 4;

impl Config {
    /// NOIOB: the boundary, unless a quirk keeps it in the vendor's part only.
    pub(crate) fn boundary_noiob(&self) -> u16 {
        if self.quirks.has(Quirks::STRIPE) {
            0
        } else {
            self.boundary_blocks
        }
    }

    /// The vendor's stripe, as a power of two of the smallest page; 0 for none.
    pub(crate) fn stripe_pages_log2(&self) -> u8 {
        let block_log2 = self.namespaces.first().map_or(9, |one| one.block_size_log2);
        let bytes = u32::from(self.boundary_blocks) << (block_log2 & 15);
        if self.quirks.has(Quirks::STRIPE) {
            (bytes >> self.min_page_shift).checked_ilog2().unwrap_or(0) as u8
        } else {
            0
        }
    }
}

impl Controller {
    pub(crate) fn has_quirk(&self, quirk: Quirks) -> bool {
        self.config.quirks.has(quirk)
    }

    /// Applies the quirks that concern a command when it is fetched; returns whether it hangs.
    pub(crate) fn apply_quirks(&mut self, queue: u16, command: &Command) -> bool {
        if self.config.quirks == Quirks::NONE {
            return false;
        }
        if queue != 0 {
            let others = self.held.iter().filter(|held| held.submission == queue);
            let more_than_one = others.count() > 0
                || self.submission[usize::from(queue)]
                    .as_ref()
                    .is_some_and(|queue| queue.next().is_some());
            if self.has_quirk(Quirks::DEPTH_ONE) && more_than_one {
                self.io_stopped = true;
            }
            let is_zeroes = command.opcode == io::WRITE_ZEROES;
            return self.io_stopped && !is_zeroes;
        }
        let [cdw10, cdw11] = [command.dword::<10>(), command.dword::<11>()];
        match command.opcode {
            admin::IDENTIFY => self.has_quirk(Quirks::NO_DESCRIPTORS) && cdw10 as u8 == 3,
            admin::ABORT => {
                self.io_stopped |= self.has_quirk(Quirks::NO_ABORT);
                false
            }
            admin::SET_FEATURES if cdw10 & 0xff == TEMPERATURE_THRESHOLD => {
                self.has_quirk(Quirks::NO_TEMPERATURE_THRESHOLD)
            }
            admin::CREATE_SUBMISSION_QUEUE => {
                let is_medium = cdw11 >> 1 & 3 == CREATE_PRIORITY_MEDIUM;
                self.io_stopped |= self.has_quirk(Quirks::MEDIUM_PRIORITY) && !is_medium;
                false
            }
            _ => false,
        }
    }

    /// CSTS is being read: too early after a disable, with a quirk, is the end.
    pub(crate) fn notice_early_status(&mut self) {
        let delay = READY_DELAY_US * self.ticks_per_us;
        let is_early = self.disabled_at.is_some_and(|at| self.now < at + delay);
        if is_early && self.has_quirk(Quirks::READY_DELAY) {
            self.ready_stuck = Some(false);
        }
    }

    /// Counts a transfer across the boundary; fails one that is longer than the controller really
    /// can.
    pub(crate) fn note_transfer(&mut self, command: &Command, len: usize) -> Result<(), u16> {
        let boundary = u64::from(self.config.boundary_blocks);
        let last = command.lba() + command.block_count() - 1;
        let crosses = command.lba().checked_div(boundary) != last.checked_div(boundary);
        self.statistics.boundary_crossings += u64::from(crosses);
        if self.has_quirk(Quirks::SHORT_TRANSFERS) && len > SHORT_TRANSFER_BYTES {
            Err(status::DATA_TRANSFER)
        } else {
            Ok(())
        }
    }

    /// The command as a controller sees it that ignores the low bits of a list's address.
    pub(crate) fn spoil_list(&self, command: &Command) -> Command {
        let mut seen = *command;
        if self.has_quirk(Quirks::ALIGNED_LISTS) {
            seen.prp2 &= !511;
        }
        seen
    }

    /// Gives each namespace the same identifiers.
    pub(crate) fn spoil_identifiers(&self, cns: u8, page: &mut Page) {
        if !self.has_quirk(Quirks::BOGUS_IDENTIFIERS) {
            return;
        }
        match cns {
            0 => page[104..128].fill(0x11),
            3 => {
                page[4..12].fill(0x11);
                page[16..32].fill(0x11);
            }
            _ => {}
        }
    }
}
