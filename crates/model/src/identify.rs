// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identify pages (NVMe base specification 1.4, "Identify command").

use crate::command::{Command, Outcome, status};
use crate::config::{Config, NamespaceConfig};
use crate::controller::Controller;
use crate::fault::{FaultKind, IdentifyFault, ListFault};
use crate::logs::ERROR_ENTRIES;
use crate::random::Random;
use crate::registers::VERSION;
use crate::violation::Access;

const NAMESPACE: u8 = 0;
const CONTROLLER: u8 = 1;
const ACTIVE_LIST: u8 = 2;
const DESCRIPTORS: u8 = 3;

pub(crate) type Page = [u8; 4096];

impl Controller {
    pub(crate) fn identify(&mut self, command: &Command) -> Outcome {
        let cns = command.dword::<10>() as u8;
        let mut page = [0; 4096];
        match cns {
            NAMESPACE => {
                if let Some(config) = self.valid_namespace(command.nsid)? {
                    namespace_page(config, &mut page);
                    put(&mut page, 46, &self.config.boundary_noiob().to_le_bytes());
                }
            }
            CONTROLLER => controller_page(&self.config, &mut page),
            ACTIVE_LIST => {
                if command.nsid >= 0xffff_fffe {
                    return Err(status::INVALID_NAMESPACE);
                }
                self.list_page(command.nsid, &mut page);
            }
            DESCRIPTORS => {
                let config = self.valid_namespace(command.nsid)?;
                descriptors_page(config.ok_or(status::INVALID_NAMESPACE)?, &mut page);
            }
            _ => return Err(status::INVALID_FIELD),
        }
        self.spoil_identifiers(cns, &mut page);
        for kind in self.faults.constant() {
            if let FaultKind::Identify(fault) = kind {
                spoil(fault, cns, &mut page);
            }
        }
        self.send(command, &page, Access::Admin)?;
        Ok(0)
    }

    /// An active namespace, or `None` for an identifier that is valid but not active.
    fn valid_namespace(&self, id: u32) -> Result<Option<&NamespaceConfig>, u16> {
        if id == 0 || id > self.config.namespace_limit {
            return Err(status::INVALID_NAMESPACE);
        }
        let mut configs = self.namespaces.iter().map(|one| &one.config);
        Ok(configs.find(|config| config.id == id))
    }

    /// Identifiers of active namespaces above `after`, in ascending order.
    fn list_page(&self, after: u32, page: &mut Page) {
        let ids = self.namespaces.iter().map(|one| one.config.id);
        let mut ids: Vec<u32> = ids.filter(|&id| id > after).collect();
        ids.sort_unstable();
        for (place, id) in page.chunks_mut(4).zip(ids) {
            place.copy_from_slice(&id.to_le_bytes());
        }
    }
}

pub(crate) fn put(page: &mut Page, offset: usize, value: &[u8]) {
    page[offset..offset + value.len()].copy_from_slice(value);
}

fn controller_page(config: &Config, page: &mut Page) {
    for offset in [0, 2] {
        put(page, offset, &config.pci_id.vendor.to_le_bytes());
    }
    let [serial, model, firmware] = config.names;
    for (range, text) in [(4..24, serial), (24..64, model), (64..72, firmware)] {
        let padded = text.bytes().chain(std::iter::repeat(b' '));
        for (byte, value) in page[range].iter_mut().zip(padded) {
            *byte = value;
        }
    }
    page[77] = config.mdts;
    put(page, 80, &VERSION.to_le_bytes());
    // I/O controller.
    page[111] = 1;
    let admin_abilities = u16::from(config.doorbell_buffers) << 8;
    put(page, 256, &admin_abilities.to_le_bytes());
    page[258] = config.abort_limit.saturating_sub(1);
    page[259] = config.async_event_limit.saturating_sub(1);
    // One firmware slot, read-only; extended log page data (NUMDU and the offset).
    page[260] = 0b11;
    page[261] = 0b100;
    page[262] = ERROR_ENTRIES as u8 - 1;
    // Warning and critical temperatures: 70 and 80 degrees Celsius, in kelvins.
    put(page, 266, &343_u16.to_le_bytes());
    put(page, 268, &353_u16.to_le_bytes());
    (page[512], page[513]) = (0x66, 0x44);
    put(page, 516, &config.namespace_limit.to_le_bytes());
    // Save and Select fields, besides what is configured.
    let abilities =
        u16::from(config.dataset_management) << 2 | u16::from(config.write_zeroes) << 3 | 1 << 4;
    put(page, 520, &abilities.to_le_bytes());
    // Flush takes the broadcast namespace identifier.
    page[525] = 0b110 | u8::from(config.volatile_write_cache);
    let name = b"nqn.2014-08.org.nvmexpress:uuid:53747261-6967-6874-7761-790000000001";
    put(page, 768, name);
    crate::power::put_states(config, page);
    // The vendor's stripe, as a power of two of the smallest page.
    page[3075] = config.stripe_pages_log2();
}

fn namespace_page(config: &NamespaceConfig, page: &mut Page) {
    for offset in [0, 8, 16] {
        put(page, offset, &config.block_count.to_le_bytes());
    }
    // Deallocated blocks read as zeroes; Write Zeroes may deallocate.
    page[33] = 0b1001;
    put(page, 104, &unique(config));
    put(page, 120, &unique(config)[8..]);
    page[130] = config.block_size_log2;
}

/// NGUID; its last half is the EUI64.
fn unique(config: &NamespaceConfig) -> [u8; 16] {
    let mut bytes = *b"Straightway\0\0\0\0\0";
    bytes[12..].copy_from_slice(&config.id.to_be_bytes());
    bytes
}

/// NVMe base specification 1.4, "Namespace Identification Descriptor": type, length, identifier.
fn descriptors_page(config: &NamespaceConfig, page: &mut Page) {
    put(page, 0, &[1, 8]);
    put(page, 4, &unique(config)[8..]);
    put(page, 12, &[2, 16]);
    put(page, 16, &unique(config));
}

/// Corrupts a page, if the fault applies to it.
fn spoil(fault: IdentifyFault, cns: u8, page: &mut Page) {
    match (cns, fault) {
        (CONTROLLER, IdentifyFault::Mdts(value)) => page[77] = value,
        (CONTROLLER, IdentifyFault::NamespaceLimit(value)) => {
            put(page, 516, &value.to_le_bytes());
        }
        (CONTROLLER, IdentifyFault::EntrySizes(sq, cq)) => (page[512], page[513]) = (sq, cq),
        (NAMESPACE, IdentifyFault::LbaDataSize(value)) => page[130] = value,
        (NAMESPACE, IdentifyFault::FormatOutOfRange) => page[26] = 0x0f,
        (NAMESPACE, IdentifyFault::FormatCount) => page[25] = 255,
        (NAMESPACE, IdentifyFault::Metadata(len)) => put(page, 128, &len.to_le_bytes()),
        (NAMESPACE, IdentifyFault::Protection) => {
            (page[28], page[29]) = (1, 1);
            put(page, 128, &8_u16.to_le_bytes());
        }
        (NAMESPACE, IdentifyFault::Size(blocks)) => {
            for offset in [0, 8, 16] {
                put(page, offset, &blocks.to_le_bytes());
            }
        }
        (ACTIVE_LIST, IdentifyFault::List(fault)) => spoil_list(fault, page),
        // After the two descriptors that each namespace has.
        (DESCRIPTORS, IdentifyFault::CommandSet(set)) => put(page, 32, &[4, 1, 0, 0, set]),
        (DESCRIPTORS, IdentifyFault::DescriptorEmpty) => page[1] = 0,
        (DESCRIPTORS, IdentifyFault::DescriptorLong) => {
            // A long descriptor of an unknown type fills the page except for one last header.
            for at in (0..4096).step_by(256) {
                put(page, at, &[0x40, 252, 0, 0]);
            }
            put(page, 15 * 256, &[0x40, 244, 0, 0]);
            put(page, 4088, &[2, 255, 0, 0]);
        }
        (DESCRIPTORS, IdentifyFault::DescriptorType) => page[0] = 0xff,
        (_, IdentifyFault::Random { cns: which, seed }) if which == cns => {
            Random::new(seed).fill(page);
        }
        (_, IdentifyFault::Zeroes { cns: which }) if which == cns => page.fill(0),
        (_, IdentifyFault::Ones { cns: which }) if which == cns => page.fill(0xff),
        _ => {}
    }
}

fn spoil_list(fault: ListFault, page: &mut Page) {
    let mut ids: Vec<u32> = Vec::new();
    for place in page.chunks(4) {
        let id = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        if id != 0 {
            ids.push(id);
        }
    }
    match fault {
        // Non-existent identifiers make even a list of one unsorted.
        ListFault::Unsorted => {
            ids.extend([3, 2]);
            ids.sort_unstable_by(|a, b| b.cmp(a));
        }
        ListFault::Duplicates => ids = ids.iter().flat_map(|&id| [id, id]).collect(),
        ListFault::Endless => ids = (1..=1024).collect(),
        ListFault::Broadcast => ids.push(u32::MAX),
        ListFault::Empty => ids.clear(),
    }
    page.fill(0);
    for (place, id) in page.chunks_mut(4).zip(ids) {
        place.copy_from_slice(&id.to_le_bytes());
    }
}
