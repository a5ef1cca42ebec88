// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quirks: known defects of controllers, and what the driver does about each.
//!
//! A quirk is found by the function's PCI identifiers before the controller is enabled, by Identify
//! data afterwards, or named by the controller's owner
//! ([`ControllerOptions::quirks`](crate::ControllerOptions::quirks)). The entries are in
//! `quirk_table`. The I/O path never looks at them: each one changes a limit, a feature or a slow
//! path.

use core::fmt;
use core::ops::BitOr;

use crate::identify::ControllerInfo;
use crate::quirk_table::{BY_IDENTIFY, BY_PCI};

/// A PCI function's vendor and device identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciId {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
}

/// A set of quirks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks(u32);

/// A quirk, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuirkFacts {
    /// The set of this one.
    pub quirk: Quirks,
    /// Its name: lower case, words joined by `-`.
    pub name: &'static str,
    /// What is wrong with the controller.
    pub defect: &'static str,
    /// What the driver does.
    pub effect: &'static str,
}

/// How long [`Quirks::READY_DELAY`] keeps the driver from reading CSTS, in microseconds.
pub(crate) const READY_DELAY_US: u64 = 2_300_000;
/// The longest transfer with [`Quirks::SHORT_TRANSFERS`], in bytes.
pub(crate) const SHORT_TRANSFER_BYTES: usize = 128 << 10;
/// The alignment of PRP lists with [`Quirks::ALIGNED_LISTS`], in bytes.
pub(crate) const ALIGNED_LIST_BYTES: usize = 512;

/// Declares each quirk once: its constant, and its words for reports.
macro_rules! quirks {
    ($($bit:literal $constant:ident $name:literal: $defect:literal => $effect:literal;)*) => {
        impl Quirks {
            $(#[doc = concat!("`", $name, "`: ", $defect, ". Effect: ", $effect, ".")]
            pub const $constant: Self = Self(1 << $bit);)*
        }

        /// Every quirk that the driver knows.
        pub const QUIRKS: &[QuirkFacts] = &[$(QuirkFacts {
            quirk: Quirks::$constant,
            name: $name,
            defect: $defect,
            effect: $effect,
        }),*];
    };
}

quirks! {
    0 READY_DELAY "ready-delay":
        "reading CSTS soon after CC.EN was cleared hangs the controller"
        => "CSTS is not read for 2.3 s after a disable";
    1 NO_DEEPEST_POWER_STATE "no-deepest-power-state":
        "the controller does not return from its deepest power state"
        => "autonomous transitions never enter that state";
    2 NO_POWER_TRANSITIONS "no-power-transitions":
        "the controller leaves the bus after an autonomous power state transition"
        => "autonomous transitions are switched off when the controller is enabled";
    3 NO_WRITE_ZEROES "no-write-zeroes":
        "Write Zeroes is announced, but fails, hangs or leaves the old data"
        => "Write Zeroes is not offered";
    4 NO_DEALLOCATE "no-deallocate":
        "Deallocate is announced, but loses data outside its range or hangs"
        => "discard is not offered";
    5 WIDE_ENTRIES "wide-entries":
        "submission queue entries are 128 bytes, whatever SQES says"
        => "the controller is refused before it is enabled";
    6 SHARED_TAGS "shared-tags":
        "the admin and the I/O queues share one space of command identifiers"
        => "the controller is refused before it is enabled";
    7 BOGUS_IDENTIFIERS "bogus-identifiers":
        "EUI64, NGUID and UUID are not unique"
        => "namespaces have no such identifier";
    8 NO_DESCRIPTORS "no-descriptors":
        "Identify with CNS 03h fails or hangs, although the version requires it"
        => "descriptors are not requested; the NVM command set is assumed";
    9 SHORT_TRANSFERS "short-transfers":
        "transfers shorter than MDTS fail"
        => "a transfer is at most 128 KiB";
    10 STRIPE "stripe":
        "transfers that cross a boundary in vendor byte 3 are split slowly, and NOIOB does not say so"
        => "a transfer is at most one stripe";
    11 NO_ABORT "no-abort":
        "after an Abort command the firmware answers nothing correctly"
        => "an overdue command resets the controller at once";
    12 NO_TEMPERATURE_THRESHOLD "no-temperature-threshold":
        "Set Features for the temperature threshold stops the controller"
        => "that command is refused";
    13 DEPTH_ONE "depth-one":
        "more than one outstanding I/O command loses data"
        => "the queue depth is 1";
    14 ALIGNED_LISTS "aligned-lists":
        "PRP lists that are not aligned to 512 bytes are read from the wrong address"
        => "lists are aligned to 512 bytes, and the queue depth is reduced so that they fit";
    15 MEDIUM_PRIORITY "medium-priority":
        "I/O submission queues of urgent priority are starved, even without weighted arbitration"
        => "I/O submission queues have medium priority";
}

impl Quirks {
    /// No quirk.
    pub const NONE: Self = Self(0);
    /// Controllers that the driver refuses.
    pub(crate) const REFUSED: Self = Self(Self::WIDE_ENTRIES.0 | Self::SHARED_TAGS.0);

    /// Whether one of `other` is in the set.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The quirk of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = QUIRKS.iter();
        all.find(|facts| facts.name == name)
            .map(|facts| facts.quirk)
    }

    /// The facts of each quirk in the set.
    pub fn facts(self) -> impl Iterator<Item = &'static QuirkFacts> {
        QUIRKS.iter().filter(move |facts| self.has(facts.quirk))
    }

    /// The quirks of every function with these PCI identifiers.
    #[inline(never)]
    pub fn of_pci(id: PciId) -> Self {
        let key = u32::from(id.vendor) << 16 | u32::from(id.device);
        let same = BY_PCI.iter().filter(|(entry, _)| *entry == key);
        same.fold(Self::NONE, |all, (_, quirks)| all.and(*quirks))
    }

    /// The quirks of controllers with this Identify data.
    #[inline(never)]
    pub fn of_identify(info: &ControllerInfo) -> Self {
        let same = |entry: &&crate::quirk_table::ByIdentify| {
            entry.vendor == info.vendor
                && info.model.as_bytes().starts_with(entry.model)
                && info.firmware.as_bytes().starts_with(entry.firmware)
        };
        let same = BY_IDENTIFY.iter().filter(same);
        same.fold(Self::NONE, |all, entry| all.and(entry.quirks))
    }
}

impl BitOr for Quirks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

impl fmt::Debug for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.facts().map(|facts| facts.name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quirk_table::{BY_IDENTIFY, BY_PCI};

    #[test]
    fn each_quirk_has_its_own_bit_and_name() {
        for (index, facts) in QUIRKS.iter().enumerate() {
            assert_eq!(facts.quirk.0, 1 << index, "{}", facts.name);
            assert_eq!(Quirks::by_name(facts.name), Some(facts.quirk));
        }
        assert_eq!(Quirks::by_name("none"), None);
        let two = Quirks::STRIPE | Quirks::NO_ABORT;
        let names: std::vec::Vec<_> = two.facts().map(|facts| facts.name).collect();
        assert_eq!(names, ["stripe", "no-abort"]);
    }

    #[test]
    fn every_entry_names_a_known_quirk() {
        for (key, quirks) in BY_PCI {
            assert!(quirks.facts().count() > 0, "{key:#010x}");
            let id = PciId {
                vendor: (key >> 16) as u16,
                device: *key as u16,
            };
            assert!(Quirks::of_pci(id).has(*quirks), "{key:#010x}");
        }
        for entry in BY_IDENTIFY {
            assert!(entry.quirks.facts().count() > 0 && !entry.model.is_empty());
        }
    }

    #[test]
    fn two_entries_for_one_function_add_up() {
        let lexar = PciId {
            vendor: 0x1d97,
            device: 0x2263,
        };
        let both = Quirks::NO_WRITE_ZEROES | Quirks::BOGUS_IDENTIFIERS;
        assert_eq!(Quirks::of_pci(lexar), both);
        assert_eq!(Quirks::of_pci(PciId::default()), Quirks::NONE);
    }
}
