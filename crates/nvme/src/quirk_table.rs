// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which controllers have which quirk.
//!
//! Facts that Linux's driver had to learn, by PCI identifiers or Identify data. An entry says what
//! hardware does; which workaround follows is in `quirks`. None of these controllers was tried with
//! this driver.

use crate::quirks::Quirks;

/// Vendor in the high half, device in the low one.
pub(crate) type ByPci = (u32, Quirks);

/// Controllers of a vendor (VID) whose model (MN) and firmware revision (FR) begin with these.
pub(crate) struct ByIdentify {
    pub(crate) vendor: u16,
    pub(crate) model: &'static [u8],
    pub(crate) firmware: &'static [u8],
    pub(crate) quirks: Quirks,
}

const BOGUS: Quirks = Quirks::BOGUS_IDENTIFIERS;
const NO_DEEPEST: Quirks = Quirks::NO_DEEPEST_POWER_STATE;
const NO_ZEROES: Quirks = Quirks::NO_WRITE_ZEROES;
const DELAY: Quirks = Quirks::READY_DELAY;
const STRIPE: Quirks = Quirks::STRIPE;

/// By PCI identifiers. Two entries of one function add up: different products share them.
#[rustfmt::skip]
pub(crate) const BY_PCI: &[ByPci] = &[
    // Intel and Solidigm.
    (0x8086_0953, STRIPE),                              // 750, P3500 to P3700
    (0x8086_0a53, STRIPE),                              // P3520
    (0x8086_0a54, STRIPE.and(BOGUS)),                   // P4500, P4600
    (0x8086_0a55, STRIPE),                              // P4600 of Dell
    (0x8086_f1a5, NO_DEEPEST.and(Quirks::MEDIUM_PRIORITY).and(Quirks::NO_TEMPERATURE_THRESHOLD).and(NO_ZEROES)), // 600p
    (0x8086_5845, NO_ZEROES.and(BOGUS)),                // QEMU with Intel's identifiers
    (0x025e_f1ac, NO_DEEPEST),                          // P44 Pro
    (0x1b36_0010, BOGUS),                               // QEMU
    // Samsung.
    (0x144d_a821, DELAY),                               // PM1725
    (0x144d_a822, DELAY.and(NO_ZEROES)),                // PM1725a
    (0x144d_a809, NO_ZEROES),                           // MZALQ256
    (0x144d_a80b, NO_ZEROES.and(BOGUS)),                // PM9B1
    (0x144d_a802, BOGUS),                               // SM953
    // HGST, WDC, SanDisk.
    (0x1c58_0003, DELAY),                               // HGST SN100
    (0x1c58_0023, DELAY),                               // SN200
    (0x15b7_5009, NO_DEEPEST),                          // SN550
    (0x15b7_2001, NO_ZEROES),                           // Skyhawk
    // Others with slow resets.
    (0x1c5f_0540, DELAY),                               // Memblaze PBlaze4
    (0x1bb1_0100, DELAY.and(Quirks::NO_DESCRIPTORS)),   // Seagate Nytro
    // Silicon Motion and what is built with it.
    (0x126f_1001, NO_DEEPEST),
    (0x126f_2262, NO_DEEPEST.and(BOGUS)),
    (0x126f_2263, Quirks::NO_DESCRIPTORS.and(BOGUS)),
    (0x1cc1_8201, NO_DEEPEST),                          // ADATA SX8200
    (0x2646_2262, NO_DEEPEST),                          // Kingston KC2000
    (0x2646_2263, NO_DEEPEST),                          // Kingston A2000
    (0x1d97_2263, NO_ZEROES),                           // SPCC
    (0x1d97_2263, BOGUS),                               // Lexar NM610
    // Marvell.
    (0x1b4b_1092, Quirks::NO_DESCRIPTORS),              // Lexar 256 GB
    // O2 Micro.
    (0x1217_8760, Quirks::ALIGNED_LISTS),               // 64 GB of hand-held consoles
    // Phison.
    (0x1987_5012, BOGUS), (0x1987_5016, BOGUS), (0x1987_5019, NO_ZEROES), (0x1987_5021, NO_ZEROES),
    // SK Hynix.
    (0x1c5c_1504, NO_ZEROES), (0x1c5c_174a, BOGUS), (0x1c5c_1d59, NO_ZEROES),
    // UMIS.
    (0x1cc4_6302, NO_ZEROES), (0x1cc4_6303, NO_ZEROES),
    // Kingston's drives for manufacturers.
    (0x2646_5016, NO_ZEROES), (0x2646_5018, NO_ZEROES), (0x2646_501a, NO_ZEROES),
    (0x2646_501b, NO_ZEROES), (0x2646_501e, NO_ZEROES),
    // ZHITAI.
    (0x1e49_0021, NO_DEEPEST), (0x1e49_0041, NO_DEEPEST),
    // Realtek, ADATA, Micron, Crucial, Netac, MAXIO, Innogrit, Lexar: identifiers only.
    (0x10ec_5762, BOGUS), (0x10ec_5763, BOGUS), (0x10ec_5765, BOGUS), (0x1cc1_33f8, BOGUS),
    (0x1cc1_5350, BOGUS), (0x1344_6001, BOGUS), (0xc0a9_540a, BOGUS), (0x1f40_1202, BOGUS),
    (0x1f40_5236, BOGUS), (0x1e4b_1001, BOGUS), (0x1e4b_1002, BOGUS), (0x1e4b_1202, BOGUS),
    (0x1e4b_1602, BOGUS), (0x1dbe_5216, BOGUS), (0x1dbe_5236, BOGUS), (0x1d97_1d97, BOGUS),
    (0x1d97_2269, BOGUS),
    // Apple.
    (0x106b_2001, Quirks::DEPTH_ONE),                   // MacBook of 2015
    (0x106b_2005, Quirks::WIDE_ENTRIES.and(Quirks::SHARED_TAGS)), // behind the T2
];

/// By Identify data: what one function's identifiers do not tell apart, or what no one knows before
/// the controller is enabled.
pub(crate) const BY_IDENTIFY: &[ByIdentify] = &[
    // Toshiba XG3, 256 GB.
    ByIdentify {
        vendor: 0x1179,
        model: b"THNSF5256GPUK TOSHIBA",
        firmware: b"",
        quirks: Quirks::NO_POWER_TRANSITIONS,
    },
    // Kioxia CD6-V, 6.4 TB.
    ByIdentify {
        vendor: 0x1e0f,
        model: b"KCD6XVUL6T40",
        firmware: b"",
        quirks: Quirks::NO_POWER_TRANSITIONS,
    },
];
