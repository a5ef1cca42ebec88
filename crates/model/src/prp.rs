// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walking physical region pages (NVMe base specification 1.4, "Physical Region Page Entry and
//! List").

use crate::bus::Bus;
use crate::command::{Command, status};
use crate::violation::Access;

/// One run of data on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) bus: u64,
    pub(crate) len: usize,
}

/// Puts the segments of `command`'s `len` bytes into `segments`, neighbours merged.
///
/// The list is read an entry at a time, and at most one entry for each page of `len` and one
/// pointer for each page of list: so even a list that points to itself ends.
pub(crate) fn walk(
    bus: &mut Bus,
    page_shift: u8,
    command: &Command,
    len: usize,
    segments: &mut Vec<Segment>,
) -> Result<(), u16> {
    let page = 1_usize << page_shift;
    let within = |address: u64| address as usize & (page - 1);
    segments.clear();
    if command.prp1 & 3 != 0 {
        return Err(status::PRP_OFFSET);
    }
    let first = (page - within(command.prp1)).min(len);
    push(segments, command.prp1, first);
    let mut rest = len - first;
    if rest == 0 {
        return Ok(());
    }
    if rest <= page {
        if within(command.prp2) != 0 {
            return Err(status::PRP_OFFSET);
        }
        push(segments, command.prp2, rest);
        return Ok(());
    }
    let mut list = command.prp2;
    if list & 7 != 0 {
        return Err(status::PRP_OFFSET);
    }
    while rest > 0 {
        let memory = bus.memory().ok_or(status::DATA_TRANSFER)?;
        let entry = memory.load64(list, Access::List);
        let entry = entry.ok_or(status::DATA_TRANSFER)?;
        if within(entry) != 0 {
            return Err(status::PRP_OFFSET);
        }
        let last_of_page = within(list) == page - 8;
        if last_of_page && rest > page {
            // More than this entry's page is left: it points to the next page of the list. There it
            // is never the last entry again, so one of two iterations consumes data.
            list = entry;
            continue;
        }
        push(segments, entry, rest.min(page));
        rest -= rest.min(page);
        list += 8;
    }
    Ok(())
}

fn push(segments: &mut Vec<Segment>, bus: u64, len: usize) {
    if let Some(last) = segments.last_mut() {
        if last.bus.checked_add(last.len as u64) == Some(bus) {
            last.len += len;
            return;
        }
    }
    segments.push(Segment { bus, len });
}
