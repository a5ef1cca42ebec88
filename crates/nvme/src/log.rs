// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Log pages (NVMe base specification, "Get Log Page").

use block::fields::{array_at, u8_at, u16_at, u32_at, u64_at, u128_at};

/// Log page identifiers (LID values; base specification, figure "Get Log Page - Log Page
/// Identifiers").
pub mod lid {
    /// The newest errors.
    pub const ERROR: u32 = 1;
    /// Health and counters.
    pub const SMART: u32 = 2;
    /// Firmware slots.
    pub const FIRMWARE: u32 = 3;
}

/// Length of the SMART / health information page.
pub const SMART_BYTES: usize = 512;
/// Length of an entry of the error log.
pub const ERROR_ENTRY_BYTES: usize = 64;
/// Length of the firmware slot page.
pub const FIRMWARE_BYTES: usize = 512;

/// SMART / health information (log page 02h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smart {
    /// Critical warnings, one bit each; 0 is healthy.
    pub critical_warning: u8,
    /// Composite temperature in kelvin.
    pub temperature_kelvin: u16,
    /// Available spare in percent.
    pub available_spare_percent: u8,
    /// Estimated life used in percent; may pass 100.
    pub percentage_used: u8,
    /// Data read, in units of 512,000 bytes.
    pub data_units_read: u128,
    /// Data written, in units of 512,000 bytes.
    pub data_units_written: u128,
    /// Read commands completed.
    pub host_read_commands: u128,
    /// Write commands completed.
    pub host_write_commands: u128,
    /// Power cycles.
    pub power_cycles: u128,
    /// Hours with power.
    pub power_on_hours: u128,
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: u128,
    /// Unrecovered data integrity errors.
    pub media_errors: u128,
    /// Entries in the error log over the controller's life.
    pub error_log_entries: u128,
}

impl Smart {
    /// Parses the page; any bytes give a value.
    pub fn parse(page: &[u8]) -> Self {
        Self {
            critical_warning: u8_at(page, 0),
            temperature_kelvin: u16_at(page, 1),
            available_spare_percent: u8_at(page, 3),
            percentage_used: u8_at(page, 5),
            data_units_read: u128_at(page, 32),
            data_units_written: u128_at(page, 48),
            host_read_commands: u128_at(page, 64),
            host_write_commands: u128_at(page, 80),
            power_cycles: u128_at(page, 112),
            power_on_hours: u128_at(page, 128),
            unsafe_shutdowns: u128_at(page, 144),
            media_errors: u128_at(page, 160),
            error_log_entries: u128_at(page, 176),
        }
    }
}

/// An entry of the error log (log page 01h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Unique number of the error; the newest has the largest.
    pub count: u64,
    /// Queue that the command was submitted to.
    pub submission_queue: u16,
    /// The command's identifier.
    pub command_id: u16,
    /// Its status field, phase tag removed.
    pub status: u16,
    /// First block that failed.
    pub lba: u64,
    /// Namespace of the command.
    pub nsid: u32,
}

impl ErrorEntry {
    /// Parses one entry; `None` for an unused one.
    pub fn parse(entry: &[u8]) -> Option<Self> {
        let count = u64_at(entry, 0);
        (count != 0).then(|| Self {
            count,
            submission_queue: u16_at(entry, 8),
            command_id: u16_at(entry, 10),
            status: u16_at(entry, 12) >> 1,
            lba: u64_at(entry, 16),
            nsid: u32_at(entry, 24),
        })
    }
}

/// Firmware slot information (log page 03h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareSlots {
    /// The active slot, 1 to 7.
    pub active_slot: u8,
    /// The slot that the next reset activates; 0 if none is set.
    pub next_slot: u8,
    /// Revision in each slot, ASCII.
    pub revisions: [[u8; 8]; 7],
}

impl FirmwareSlots {
    /// Parses the page; any bytes give a value.
    pub fn parse(page: &[u8]) -> Self {
        let mut revisions = [[0; 8]; 7];
        for (index, revision) in revisions.iter_mut().enumerate() {
            *revision = array_at(page, 8 + 8 * index);
        }
        Self {
            active_slot: u8_at(page, 0) & 7,
            next_slot: u8_at(page, 0) >> 4 & 7,
            revisions,
        }
    }
}

/// An asynchronous event (completion dword 0 of an Asynchronous Event Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveEvent {
    /// 0 error, 1 SMART, 2 notice, 6 I/O command set, 7 vendor.
    pub kind: u8,
    /// Event information, as the kind defines it.
    pub information: u8,
    /// The log page to read; reading it lets the controller send the next event of the kind.
    pub log_page: u8,
}

impl DriveEvent {
    pub(crate) const fn from_dword(dword: u32) -> Self {
        Self {
            kind: (dword & 7) as u8,
            information: (dword >> 8) as u8,
            log_page: (dword >> 16) as u8,
        }
    }
}

pub(crate) fn dwords(bytes: usize) -> u32 {
    (bytes / 4) as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smart_counters_are_where_the_specification_has_them() {
        let mut page = [0; 512];
        page[1] = 0x2c;
        page[2] = 1;
        for (at, value) in [(32, 3u128), (48, 4), (64, 5), (80, 1 << 70), (160, 7)] {
            page[at..at + 16].copy_from_slice(&value.to_le_bytes());
        }
        let smart = Smart::parse(&page);
        assert_eq!((smart.data_units_read, smart.data_units_written), (3, 4));
        assert_eq!(smart.media_errors, 7);
        assert_eq!(smart.temperature_kelvin, 300);
        assert_eq!(
            (smart.host_read_commands, smart.host_write_commands),
            (5, 1 << 70)
        );
    }

    #[test]
    fn any_page_parses() {
        for len in [0, 1, 63, 511, 512] {
            Smart::parse(&[0xff; 512][..len]);
            FirmwareSlots::parse(&[0xff; 512][..len]);
            ErrorEntry::parse(&[0xff; 512][..len]);
        }
        assert_eq!(ErrorEntry::parse(&[0; 64]), None);
    }
}
