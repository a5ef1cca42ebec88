// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Register offsets and fields (NVMe base specification 1.4, "Controller Registers").

use crate::config::Config;
use crate::fault::{CapabilityFault, FaultKind, Faults};

pub(crate) const CAP: usize = 0x00;
pub(crate) const VS: usize = 0x08;
pub(crate) const INTMS: usize = 0x0c;
pub(crate) const INTMC: usize = 0x10;
pub(crate) const CC: usize = 0x14;
pub(crate) const CSTS: usize = 0x1c;
pub(crate) const NSSR: usize = 0x20;
pub(crate) const AQA: usize = 0x24;
pub(crate) const ASQ: usize = 0x28;
pub(crate) const ACQ: usize = 0x30;
/// The first doorbell.
pub(crate) const DOORBELLS: usize = 0x1000;

pub(crate) const CC_ENABLE: u32 = 1;
/// CC.CSS, CC.MPS and CC.AMS: constant while the controller is enabled.
pub(crate) const CC_FIXED: u32 = 0x3ff0;

pub(crate) const CSTS_READY: u32 = 1;
pub(crate) const CSTS_FATAL: u32 = 2;
/// CSTS.SHST: shutdown under way, and complete.
pub(crate) const CSTS_SHUTTING_DOWN: u32 = 1 << 2;
pub(crate) const CSTS_SHUT_DOWN: u32 = 2 << 2;
/// CSTS.NSSRO: a subsystem reset happened.
pub(crate) const CSTS_SUBSYSTEM_RESET: u32 = 1 << 4;

/// The value to write to NSSR: "NVMe".
pub(crate) const NSSR_VALUE: u32 = 0x4e56_4d65;
/// NVMe 1.4.
pub(crate) const VERSION: u32 = 0x0001_0400;

/// CAP of a controller as configured, with a fault applied.
pub(crate) fn capabilities(config: &Config, faults: &Faults) -> u64 {
    let mut mqes = u64::from(config.max_queue_entries - 1);
    let mut timeout = u64::from(config.ready_timeout_units);
    let mut stride = u64::from(config.doorbell_stride_log2);
    let mut min_page = u64::from(config.min_page_shift - 12);
    let mut max_page = u64::from(config.max_page_shift - 12);
    let mut command_sets = 1;
    for kind in faults.constant() {
        let FaultKind::Capabilities(fault) = kind else {
            continue;
        };
        match fault {
            CapabilityFault::QueueEntriesZero => mqes = 0,
            CapabilityFault::TimeoutZero => timeout = 0,
            CapabilityFault::Stride15 => stride = 15,
            CapabilityFault::MinPage15 => (min_page, max_page) = (15, 15),
            CapabilityFault::PagesSwapped => (min_page, max_page) = (4, 0),
            CapabilityFault::NoCommandSet => command_sets = 0,
            CapabilityFault::AllZeroes => return 0,
            CapabilityFault::AllOnes => return u64::MAX,
        }
    }
    mqes & 0xffff
        | u64::from(config.contiguous_queues_required) << 16
        | timeout << 24
        | (stride & 15) << 32
        | u64::from(config.subsystem_reset) << 36
        | command_sets << 37
        | (min_page & 15) << 48
        | (max_page & 15) << 52
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let config = Config {
            doorbell_stride_log2: 3,
            ..Config::default()
        };
        let cap = capabilities(&config, &Faults::none());
        assert_eq!(cap, 0x0040_0033_0201_0fff);
    }
}
