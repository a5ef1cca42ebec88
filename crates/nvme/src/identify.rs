// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identify data structures, parsed once at the edge (NVMe base specification, "Identify").

use crate::error::{Error, Unsupported};
use block::fields::{array_at, u8_at, u16_at, u32_at, u64_at};

/// Length of every Identify data structure in bytes.
pub const PAGE_BYTES: usize = 4096;
/// The length of the parsed part of the controller's and a namespace's structure.
pub(crate) const CONTROLLER_HEAD_BYTES: usize = 528;
pub(crate) const NAMESPACE_HEAD_BYTES: usize = 384;

/// Identify CNS values (base specification, figure "Identify - CNS Values").
pub mod cns {
    /// A namespace's data structure, for the NVM command set.
    pub const NAMESPACE: u32 = 0;
    /// The controller's data structure.
    pub const CONTROLLER: u32 = 1;
    /// The active namespaces above an NSID.
    pub const ACTIVE_NAMESPACES: u32 = 2;
    /// A namespace's identification descriptors.
    pub const DESCRIPTORS: u32 = 3;
}

/// Byte offsets in the Identify Controller data structure (base specification 2.0, figure 275).
mod controller {
    pub(super) const VID: usize = 0;
    pub(super) const SN: usize = 4;
    pub(super) const MN: usize = 24;
    pub(super) const FR: usize = 64;
    pub(super) const MDTS: usize = 77;
    pub(super) const CNTLID: usize = 78;
    pub(super) const VER: usize = 80;
    pub(super) const OACS: usize = 256;
    pub(super) const ACL: usize = 258;
    pub(super) const AERL: usize = 259;
    pub(super) const ELPE: usize = 262;
    pub(super) const NPSS: usize = 263;
    pub(super) const APSTA: usize = 265;
    pub(super) const SQES: usize = 512;
    pub(super) const CQES: usize = 513;
    pub(super) const NN: usize = 516;
    pub(super) const ONCS: usize = 520;
    pub(super) const VWC: usize = 525;
}

/// Byte offsets in the Identify Namespace data structure (NVM command set specification 1.0, figure
/// 97).
mod namespace {
    pub(super) const NSZE: usize = 0;
    pub(super) const NCAP: usize = 8;
    pub(super) const NLBAF: usize = 25;
    pub(super) const FLBAS: usize = 26;
    pub(super) const DLFEAT: usize = 33;
    pub(super) const NOIOB: usize = 46;
    pub(super) const NSATTR: usize = 99;
    pub(super) const NGUID: usize = 104;
    pub(super) const EUI64: usize = 120;
    /// The first of up to 64 formats, each of `LBAF_BYTES`.
    pub(super) const LBAF0: usize = 128;
    pub(super) const LBAF_BYTES: usize = 4;
}

/// Text from the device: ASCII, padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// The text without its padding; up to the first byte that is not printable ASCII.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The same as bytes, for code that must avoid the size of `str`.
    pub fn as_bytes(&self) -> &[u8] {
        let printable = self.0.iter().take_while(|b| (0x20..0x7f).contains(*b));
        let len = printable.count();
        self.0.get(..len).unwrap_or_default().trim_ascii()
    }
}

/// The Identify Controller data (CNS 01h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerInfo {
    /// PCI vendor (VID).
    pub vendor: u16,
    /// Serial number (SN).
    pub serial: Text<20>,
    /// Model number (MN).
    pub model: Text<40>,
    /// Firmware revision (FR).
    pub firmware: Text<8>,
    /// Maximum data transfer size, as a power of two of the smallest page; 0 is unlimited (MDTS).
    pub mdts: u8,
    /// Controller identifier (CNTLID).
    pub controller_id: u16,
    /// Optional admin commands (OACS).
    pub optional_admin: u16,
    /// How many aborts may be outstanding (ACL + 1).
    pub abort_limit: u16,
    /// How many event requests may be outstanding (AERL + 1).
    pub event_limit: u16,
    /// Entries in the error log (ELPE + 1).
    pub error_log_entries: u16,
    /// Number of namespaces, the largest valid NSID (NN).
    pub namespace_count: u32,
    /// Optional NVM commands (ONCS).
    pub optional_nvm: u16,
    /// A volatile write cache is present (VWC bit 0).
    pub volatile_write_cache: bool,
    /// The deepest power state (NPSS).
    pub last_power_state: u8,
    /// The controller can change its power state by itself (APSTA bit 0).
    pub autonomous_transitions: bool,
}

impl ControllerInfo {
    /// Parses an Identify Controller page.
    ///
    /// # Errors
    /// If the controller cannot use 64-byte submission or 16-byte completion entries.
    pub fn parse(page: &[u8]) -> Result<Self, Error> {
        let accepts = |byte: u8, log2: u8| byte & 0xf <= log2 && byte >> 4 >= log2;
        if !accepts(u8_at(page, controller::SQES), 6) || !accepts(u8_at(page, controller::CQES), 4)
        {
            return Err(Error::Unsupported(Unsupported::EntrySize));
        }
        Ok(Self {
            vendor: u16_at(page, controller::VID),
            serial: Text(array_at(page, controller::SN)),
            model: Text(array_at(page, controller::MN)),
            firmware: Text(array_at(page, controller::FR)),
            mdts: u8_at(page, controller::MDTS),
            controller_id: u16_at(page, controller::CNTLID),
            optional_admin: u16_at(page, controller::OACS),
            abort_limit: u16::from(u8_at(page, controller::ACL)) + 1,
            event_limit: u16::from(u8_at(page, controller::AERL)) + 1,
            error_log_entries: u16::from(u8_at(page, controller::ELPE)) + 1,
            namespace_count: u32_at(page, controller::NN),
            optional_nvm: u16_at(page, controller::ONCS),
            volatile_write_cache: u8_at(page, controller::VWC) & 1 != 0,
            last_power_state: u8_at(page, controller::NPSS),
            autonomous_transitions: u8_at(page, controller::APSTA) & 1 != 0,
        })
    }

    /// The specification version in an Identify Controller page (VER), in the format of register
    /// VS: 0 before NVMe 1.2.
    pub fn version(page: &[u8]) -> u32 {
        u32_at(page, controller::VER)
    }

    /// Largest transfer in bytes, where a page is `1 << min_page_shift` bytes; at most 2^31.
    pub const fn max_transfer_bytes(&self, min_page_shift: u8) -> usize {
        let log2 = self.mdts as u32 + min_page_shift as u32;
        if self.mdts == 0 || log2 > 31 {
            1 << 31
        } else {
            1 << log2
        }
    }

    /// Doorbell Buffer Config is supported (OACS bit 8).
    pub const fn shadow_doorbells(&self) -> bool {
        self.optional_admin & 1 << 8 != 0
    }

    /// Dataset Management is supported (ONCS bit 2).
    pub const fn dataset_management(&self) -> bool {
        self.optional_nvm & 1 << 2 != 0
    }

    /// Write Zeroes is supported (ONCS bit 3).
    pub const fn write_zeroes(&self) -> bool {
        self.optional_nvm & 1 << 3 != 0
    }
}

/// The Identify Namespace data (CNS 00h) of a namespace that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its identifier (NSID).
    pub nsid: u32,
    /// Size in logical blocks (NSZE).
    pub block_count: u64,
    /// Blocks that may be allocated at the same time (NCAP).
    pub capacity_blocks: u64,
    /// A logical block is `1 << block_size_log2` bytes (LBADS), 9 to 16.
    pub block_size_log2: u8,
    /// Blocks read as deallocated return zeroes (DLFEAT bits 2:0 = 1).
    pub deallocated_reads_zero: bool,
    /// Transfers that cross a multiple of this many blocks are slower (NOIOB); 0 if there is no
    /// such boundary.
    pub optimal_boundary_blocks: u16,
    /// The namespace cannot be written (NSATTR bit 0).
    pub write_protected: bool,
    /// Extended unique identifier (EUI64), zero if there is none.
    pub eui64: [u8; 8],
    /// Globally unique identifier (NGUID), zero if there is none.
    pub nguid: [u8; 16],
}

impl NamespaceInfo {
    /// Parses an Identify Namespace page for namespace `nsid`.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] for an inactive one (all zeroes), [`Error::Namespace`] for a block
    /// size or metadata that the driver cannot use.
    pub fn parse(nsid: u32, page: &[u8]) -> Result<Self, Error> {
        let unusable = |why| Error::Namespace { nsid, why };
        let block_count = u64_at(page, namespace::NSZE);
        if block_count == 0 {
            let inactive = page.iter().all(|&byte| byte == 0);
            return Err(if inactive {
                Error::NoNamespace { nsid }
            } else {
                unusable(Unsupported::EmptyNamespace)
            });
        }
        let flbas = u8_at(page, namespace::FLBAS);
        // Bits 6:5 extend the index where there are more than 16 formats (NLBAF).
        let index = usize::from(flbas & 0xf | (flbas >> 5 & 3) << 4);
        if index > usize::from(u8_at(page, namespace::NLBAF)) || index > 63 {
            return Err(unusable(Unsupported::BlockSize));
        }
        let format = u32_at(page, namespace::LBAF0 + namespace::LBAF_BYTES * index);
        if format & 0xffff != 0 {
            return Err(unusable(Unsupported::Metadata));
        }
        let block_size_log2 = (format >> 16 & 0xff) as u8;
        if !(9..=16).contains(&block_size_log2) {
            return Err(unusable(Unsupported::BlockSize));
        }
        Ok(Self {
            nsid,
            block_count,
            capacity_blocks: u64_at(page, namespace::NCAP),
            block_size_log2,
            deallocated_reads_zero: u8_at(page, namespace::DLFEAT) & 7 == 1,
            optimal_boundary_blocks: u16_at(page, namespace::NOIOB),
            write_protected: u8_at(page, namespace::NSATTR) & 1 != 0,
            eui64: array_at(page, namespace::EUI64),
            nguid: array_at(page, namespace::NGUID),
        })
    }

    /// Size in bytes, at most `u64::MAX`.
    pub const fn size_bytes(&self) -> u64 {
        self.block_count.saturating_mul(1 << self.block_size_log2)
    }
}

/// The identifiers in an active namespace list (CNS 02h): ascending, above `previous`. An entry
/// that is out of order, zero or reserved ends the list, so the iteration is finite whatever the
/// page holds.
pub fn active_namespaces(page: &[u8], previous: u32) -> impl Iterator<Item = u32> {
    let mut last = previous;
    page.chunks_exact(4)
        .map(|bytes| u32_at(bytes, 0))
        .take_while(move |&nsid| {
            let valid = nsid > last && nsid < 0xffff_fffe;
            last = nsid;
            valid
        })
}

/// One descriptor of a namespace's identification (CNS 03h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Descriptor {
    /// IEEE extended unique identifier.
    Eui64([u8; 8]),
    /// Namespace globally unique identifier.
    Nguid([u8; 16]),
    /// UUID.
    Uuid([u8; 16]),
    /// Command set; 0 is NVM, 2 is zoned.
    CommandSet(u8),
}

/// The descriptors in a descriptor list. Unknown types are skipped; a length that does not fit its
/// type or the page ends the list.
pub fn descriptors(page: &[u8]) -> impl Iterator<Item = Descriptor> {
    let mut rest = page;
    core::iter::from_fn(move || {
        loop {
            let (kind, len) = (u8_at(rest, 0), usize::from(u8_at(rest, 1)));
            let (value, next) = rest.get(4..)?.split_at_checked(len)?;
            let descriptor = match (kind, len) {
                (0, _) | (_, 0) => return None,
                (1, 8) => Some(Descriptor::Eui64(array_at(value, 0))),
                (2, 16) => Some(Descriptor::Nguid(array_at(value, 0))),
                (3, 16) => Some(Descriptor::Uuid(array_at(value, 0))),
                (4, 1) => Some(Descriptor::CommandSet(u8_at(value, 0))),
                (1..=4, _) => return None,
                _ => None,
            };
            rest = next;
            if descriptor.is_some() {
                return descriptor;
            }
        }
    })
}

/// The NVM command set: reads and writes by LBA.
const NVM_COMMAND_SET: u8 = 0;
/// Namespace Identifier Type (NIDT) of the descriptor that names the command set (CSI).
const COMMAND_SET_DESCRIPTOR: u8 = 4;
const END_OF_DESCRIPTORS: u8 = 0;

/// Refuses a namespace of any command set but NVM, by its descriptor list (CNS 03h) or the
/// beginning of it: a zoned namespace, for example, accepts writes at each zone's write pointer
/// only. A list that names no command set comes from a controller that has only this one.
///
/// # Errors
/// [`Error::Namespace`].
pub fn check_command_set(nsid: u32, page: &[u8]) -> Result<(), Error> {
    let mut rest = page;
    while let [kind, len, _, _, set, ..] = *rest {
        if kind == END_OF_DESCRIPTORS {
            break;
        }
        if kind == COMMAND_SET_DESCRIPTOR && set != NVM_COMMAND_SET {
            let why = Unsupported::CommandSet(set);
            return Err(Error::Namespace { nsid, why });
        }
        rest = rest.get(4 + usize::from(len)..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_of_another_command_set_is_refused() {
        let mut page = [0; 4096];
        page[..2].copy_from_slice(&[1, 8]);
        page[12..16].copy_from_slice(&[4, 1, 0, 0]);
        for set in 0..=255 {
            page[16] = set;
            let why = Unsupported::CommandSet(set);
            let refused = Err(Error::Namespace { nsid: 7, why });
            let expected = if set == 0 { Ok(()) } else { refused };
            assert_eq!(check_command_set(7, &page), expected);
        }
        for page in [&[][..], &[0; 4096], &[0xff; 4096], &[4, 1, 0]] {
            assert_eq!(check_command_set(7, page), Ok(()));
        }
    }

    fn controller_page() -> [u8; 4096] {
        let mut page = [0; 4096];
        page[4..24].fill(b' ');
        page[4..8].copy_from_slice(b"S123");
        page[77] = 5;
        page[512] = 0x66;
        page[513] = 0x44;
        page
    }

    fn namespace_page(lbads: u8) -> [u8; 4096] {
        let mut page = [0; 4096];
        page[0] = 100;
        page[130] = lbads;
        page
    }

    /// Writes `len` bytes that occur nowhere else in the page at `offset`, and returns them.
    fn put(page: &mut [u8; 4096], offset: usize, len: usize) -> std::vec::Vec<u8> {
        let letter = |index: usize| b'!' + ((offset * 7 + index * 3) % 90) as u8;
        let field: std::vec::Vec<u8> = (0..len).map(letter).collect();
        page[offset..offset + len].copy_from_slice(&field);
        field
    }

    fn number(field: &[u8]) -> u64 {
        field
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// The bytes of each field in the specification's figures: name, first byte, length. Written
    /// from the figures, not from the table above.
    #[test]
    fn each_field_of_a_controller_is_where_the_specification_has_it() {
        let fields = [
            ("VID", 0, 2),
            ("SN", 4, 20),
            ("MN", 24, 40),
            ("FR", 64, 8),
            ("MDTS", 77, 1),
            ("CNTLID", 78, 2),
            ("VER", 80, 4),
            ("OACS", 256, 2),
            ("ACL", 258, 1),
            ("AERL", 259, 1),
            ("ELPE", 262, 1),
            ("NN", 516, 4),
            ("ONCS", 520, 2),
        ];
        for (name, offset, len) in fields {
            // Alone in its page, so that a parser that reads the wrong bytes reads zeroes.
            let mut page = [0; 4096];
            (page[512], page[513]) = (0x66, 0x44);
            let field = put(&mut page, offset, len);
            let info = ControllerInfo::parse(&page).unwrap();
            let (value, text) = (number(&field), std::str::from_utf8(&field).unwrap());
            let found: u64 = match name {
                "VID" => info.vendor.into(),
                "MDTS" => info.mdts.into(),
                "CNTLID" => info.controller_id.into(),
                "VER" => ControllerInfo::version(&page).into(),
                "OACS" => info.optional_admin.into(),
                "ACL" => u64::from(info.abort_limit) - 1,
                "AERL" => u64::from(info.event_limit) - 1,
                "ELPE" => u64::from(info.error_log_entries) - 1,
                "NN" => info.namespace_count.into(),
                "ONCS" => info.optional_nvm.into(),
                _ => {
                    let found = match name {
                        "SN" => info.serial.as_str(),
                        "MN" => info.model.as_str(),
                        _ => info.firmware.as_str(),
                    };
                    assert_eq!(found, text, "{name}");
                    continue;
                }
            };
            assert_eq!(found, value, "{name}");
        }
        for (bits, has_cache) in [(0, false), (1, true), (0xfe, false)] {
            let mut page = controller_page();
            page[525] = bits;
            assert_eq!(
                ControllerInfo::parse(&page).unwrap().volatile_write_cache,
                has_cache
            );
        }
        for wrong in [512, 513] {
            let mut page = controller_page();
            page[wrong] = 0;
            assert!(ControllerInfo::parse(&page).is_err(), "SQES, CQES");
        }
    }

    #[test]
    fn each_field_of_a_namespace_is_where_the_specification_has_it() {
        let mut page = [0; 4096];
        let nsze = put(&mut page, 0, 8);
        let ncap = put(&mut page, 8, 8);
        let nguid = put(&mut page, 104, 16);
        let eui64 = put(&mut page, 120, 8);
        // NLBAF: the last of 19 formats is in use (FLBAS bits 3:0 and 6:5), and the only one with
        // blocks of 4 KiB.
        page[25] = 18;
        page[26] = 18 & 0xf | 1 << 5;
        page[128 + 4 * 18 + 2] = 12;
        let info = NamespaceInfo::parse(9, &page).unwrap();
        assert_eq!(
            (info.block_count, info.capacity_blocks),
            (number(&nsze), number(&ncap))
        );
        assert_eq!((&info.nguid[..], &info.eui64[..]), (&nguid[..], &eui64[..]));
        assert_eq!((info.nsid, info.block_size_log2), (9, 12));
        assert!(!info.deallocated_reads_zero && !info.write_protected);
        // DLFEAT bits 2:0 and NSATTR bit 0.
        (page[33], page[99]) = (0xf9, 0xff);
        let info = NamespaceInfo::parse(9, &page).unwrap();
        assert!(info.deallocated_reads_zero && info.write_protected);
    }

    #[test]
    fn controller_fields() {
        let info = ControllerInfo::parse(&controller_page()).unwrap();
        assert_eq!(info.serial.as_str(), "S123");
        assert_eq!(info.max_transfer_bytes(12), 128 << 10);
    }

    #[test]
    fn text_is_what_prints_without_its_padding() {
        assert_eq!(Text(*b"  a b  ").as_str(), "a b");
        assert_eq!(Text(*b" a\x01b   ").as_str(), "a");
        assert_eq!(Text(*b"a\xe4     ").as_bytes(), b"a");
        assert_eq!(Text([0; 4]).as_str(), "");
        assert_eq!(Text([b' '; 4]).as_bytes(), b"");
    }

    #[test]
    fn mdts_is_unlimited_at_zero_and_bounded_when_absurd() {
        for mdts in [0, 20, 255] {
            let mut page = controller_page();
            page[77] = mdts;
            let info = ControllerInfo::parse(&page).unwrap();
            assert_eq!(info.max_transfer_bytes(12), 1 << 31, "MDTS {mdts}");
        }
    }

    #[test]
    fn entry_sizes_that_do_not_fit_are_refused() {
        let mut page = controller_page();
        page[512] = 0x77;
        let refused = Err(Error::Unsupported(Unsupported::EntrySize));
        assert_eq!(ControllerInfo::parse(&page), refused);
        assert_eq!(ControllerInfo::parse(&[]), refused);
    }

    #[test]
    fn block_sizes_outside_512_to_64_kib_are_refused() {
        for lbads in 0..=255 {
            let parsed = NamespaceInfo::parse(1, &namespace_page(lbads));
            assert_eq!(parsed.is_ok(), (9..=16).contains(&lbads), "LBADS {lbads}");
        }
    }

    #[test]
    fn formats_out_of_range_and_metadata_are_refused() {
        let mut page = namespace_page(9);
        page[26] = 1;
        assert!(NamespaceInfo::parse(1, &page).is_err());
        page[26] = 0;
        page[128] = 8;
        let metadata = Err(Error::Namespace {
            nsid: 1,
            why: Unsupported::Metadata,
        });
        assert_eq!(NamespaceInfo::parse(1, &page), metadata);
        let absent = Err(Error::NoNamespace { nsid: 3 });
        assert_eq!(NamespaceInfo::parse(3, &[0; 4096]), absent);
    }

    #[test]
    fn namespace_lists_end_where_they_stop_ascending() {
        let mut page = [0; 4096];
        for (index, value) in [1_u32, 2, 7, 7, 9].iter().enumerate() {
            page[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
        }
        assert!(active_namespaces(&page, 0).eq([1, 2, 7]));
        assert!(active_namespaces(&[0xff; 4096], 0).eq([]));
    }

    #[test]
    fn descriptors_with_bad_lengths_end_the_list() {
        let mut page = [0; 64];
        page[..5].copy_from_slice(&[4, 1, 0, 0, 2]);
        page[5..9].copy_from_slice(&[9, 2, 0, 0]);
        page[11..15].copy_from_slice(&[1, 200, 0, 0]);
        assert!(descriptors(&page).eq([Descriptor::CommandSet(2)]));
        assert_eq!(descriptors(&[0xff; 4096]).count(), 0);
    }
}
