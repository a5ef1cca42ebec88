// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asynchronous events and log pages (NVMe base specification 1.4, "Asynchronous Event Request
//! command" and "Get Log Page command").

use std::collections::VecDeque;

use crate::command::{Command, Outcome, admin, io, status};
use crate::controller::Controller;
use crate::violation::Access;

const ERRORS: u8 = 0x01;
const HEALTH: u8 = 0x02;
const FIRMWARE: u8 = 0x03;
const CHANGED_NAMESPACES: u8 = 0x04;

/// Entries in the error log (ELPE + 1).
pub(crate) const ERROR_ENTRIES: usize = 16;

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Type: 0 error, 1 health, 2 notice.
    pub kind: u8,
    /// Information, by type.
    pub information: u8,
    /// The log page with details; reading it enables the next event of the type.
    pub log_page: u8,
}

impl AsyncEvent {
    /// A doorbell without a queue was rung.
    pub const INVALID_DOORBELL: Self = Self::new(0, 0, ERRORS);
    /// A doorbell was written with an invalid value.
    pub const INVALID_DOORBELL_VALUE: Self = Self::new(0, 1, ERRORS);
    /// The temperature passed its threshold.
    pub const TEMPERATURE: Self = Self::new(1, 1, HEALTH);
    /// A namespace's attributes changed.
    pub const NAMESPACE_CHANGED: Self = Self::new(2, 0, CHANGED_NAMESPACES);

    const fn new(kind: u8, information: u8, log_page: u8) -> Self {
        Self {
            kind,
            information,
            log_page,
        }
    }
}

/// The data of the log pages.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// Newest first.
    errors: VecDeque<[u8; 64]>,
    error_count: u64,
    events: VecDeque<AsyncEvent>,
    /// Log pages that must be read before the next event of their type is reported.
    unread: Vec<AsyncEvent>,
    pub(crate) critical_warning: u8,
}

impl Logs {
    /// Adds an entry to the error log.
    pub(crate) fn error(&mut self, queue: u16, command: &Command, status: u16) {
        self.error_count += 1;
        let mut entry = [0; 64];
        entry[0..8].copy_from_slice(&self.error_count.to_le_bytes());
        entry[8..10].copy_from_slice(&queue.to_le_bytes());
        entry[10..12].copy_from_slice(&command.cid.to_le_bytes());
        // As in the completion: the status field above the phase tag.
        entry[12..14].copy_from_slice(&(status << 1).to_le_bytes());
        entry[14..16].copy_from_slice(&0xffff_u16.to_le_bytes());
        if queue != 0 {
            entry[16..24].copy_from_slice(&command.lba().to_le_bytes());
        }
        entry[24..28].copy_from_slice(&command.nsid.to_le_bytes());
        self.errors.push_front(entry);
        self.errors.truncate(ERROR_ENTRIES);
    }

    /// Dword 0 of the completion of the next event that may be reported.
    pub(crate) fn next_event(&mut self) -> Option<u32> {
        let blocked = |event: &AsyncEvent| self.unread.iter().any(|one| one.kind == event.kind);
        let at = self.events.iter().position(|event| !blocked(event))?;
        let event = self.events.remove(at)?;
        self.unread.push(event);
        Some(
            u32::from(event.kind)
                | u32::from(event.information) << 8
                | u32::from(event.log_page) << 16,
        )
    }

    /// Clears the events, as a controller reset does. The logs are kept.
    pub(crate) fn reset(&mut self) {
        self.events.clear();
        self.unread.clear();
    }
}

impl Controller {
    /// Reports an event, once there is a request for one.
    pub(crate) fn event(&mut self, event: AsyncEvent) {
        self.logs.events.push_back(event);
        self.deliver_events();
    }

    pub(crate) fn get_log_page(&mut self, command: &Command) -> Outcome {
        let page = command.dword::<10>() as u8;
        let dwords = u64::from(command.dword::<10>() >> 16)
            | u64::from(command.dword::<11>() & 0xffff) << 16;
        let len = (dwords + 1) * 4;
        let offset = u64::from(command.dword::<12>()) | u64::from(command.dword::<13>()) << 32;
        let content = match page {
            ERRORS => {
                let mut content: Vec<u8> = self.logs.errors.iter().flatten().copied().collect();
                content.resize(ERROR_ENTRIES * 64, 0);
                content
            }
            HEALTH => self.health_log(),
            FIRMWARE => {
                let mut content = vec![0; 512];
                content[0] = 1;
                let revision = self.config.names[2].bytes().chain(std::iter::repeat(b' '));
                for (byte, value) in content[8..16].iter_mut().zip(revision) {
                    *byte = value;
                }
                content
            }
            CHANGED_NAMESPACES => vec![0; 4096],
            _ => return Err(status::LOG_PAGE),
        };
        if offset > content.len() as u64 || offset % 4 != 0 || len > 1 << 20 {
            return Err(status::INVALID_FIELD);
        }
        let mut data = content[offset as usize..].to_vec();
        data.resize(len as usize, 0);
        self.send(command, &data, Access::Admin)?;
        // Retain Asynchronous Event: the event stays unread.
        if command.dword::<10>() >> 15 & 1 == 0 {
            self.logs.unread.retain(|event| event.log_page != page);
            self.deliver_events();
        }
        Ok(0)
    }

    /// NVMe base specification 1.4, "SMART / Health Information".
    fn health_log(&self) -> Vec<u8> {
        let mut log = vec![0; 512];
        log[0] = self.logs.critical_warning;
        // 35 degrees Celsius, in kelvins.
        log[1..3].copy_from_slice(&308_u16.to_le_bytes());
        (log[3], log[4]) = (100, 10);
        // Data units are thousands of 512 bytes, rounded up.
        let units = |bytes: u64| bytes.div_ceil(512_000);
        let counts = &self.statistics;
        let commands = |opcode: u8| counts.io_commands[usize::from(opcode)];
        let cuts = counts.power_cuts;
        for (at, value) in [
            (32, units(counts.read_bytes)),
            (48, units(counts.written_bytes)),
            (64, commands(io::READ)),
            (80, commands(io::WRITE)),
            (112, cuts + 1),
            (144, cuts),
            (176, self.logs.error_count),
        ] {
            log[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        log
    }

    pub(crate) fn accept_event_request(&self) -> Result<(), u16> {
        let outstanding = self.outstanding(admin::ASYNC_EVENT_REQUEST);
        if outstanding >= usize::from(self.config.async_event_limit) {
            return Err(status::ASYNC_EVENT_LIMIT);
        }
        Ok(())
    }
}
