// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admin commands through the kernel's NVMe driver: identify and log pages.
//!
//! Needs `CAP_SYS_ADMIN` on Linux before 6.2. Works on `/dev/nvme0` and on a namespace's nodes.

use crate::sys::ioctl::{self, Command};
use crate::{Error, Result};
use nvme::{
    ControllerInfo, ERROR_ENTRY_BYTES, ErrorEntry, FIRMWARE_BYTES, FirmwareSlots, IDENTIFY_BYTES,
    MAX_POWER_STATES, PowerStates, SMART_BYTES, Smart, Transitions, cns, lid,
};
use rustix::fd::AsFd;
use std::fs::File;
use std::path::Path;

const OPCODE_GET_LOG_PAGE: u8 = 0x02;
const OPCODE_IDENTIFY: u8 = 0x06;
const OPCODE_GET_FEATURES: u8 = 0x0a;
/// Feature identifier of Autonomous Power State Transition.
const FEATURE_TRANSITIONS: u32 = 0x0c;
/// The largest number of dwords in 16 bits (NUMDL).
const LOG_PAGE_MAX_BYTES: usize = 4 << 16;
const NSID_ALL: u32 = 0xffff_ffff;
const TIMEOUT_MS: u32 = 10_000;

/// The result of an admin command.
type Answer<T> = std::result::Result<T, block::Error>;

/// Runs a command; returns dword 0 of its completion.
fn run(file: impl AsFd, command: &Command, data: &mut [u8]) -> Answer<u32> {
    match ioctl::admin(file, command, data) {
        Ok((0, dword)) => Ok(dword),
        Ok((status, _)) => Err(block::Error::Nvme { status }),
        Err(error) => Err(block::Error::Os {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }),
    }
}

/// The controller's identify data.
///
/// # Errors
/// [`block::Error::Nvme`] if the controller refused it, [`block::Error::Os`] if it did not reach
/// the controller.
pub fn identify_controller(file: impl AsFd) -> Answer<Box<[u8; IDENTIFY_BYTES]>> {
    identify(file, 0, cns::CONTROLLER)
}

/// A namespace's identify data.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn identify_namespace(file: impl AsFd, nsid: u32) -> Answer<Box<[u8; IDENTIFY_BYTES]>> {
    identify(file, nsid, cns::NAMESPACE)
}

/// The identify data structure `cns` (of [`nvme::cns`]) of namespace `nsid`, or of the controller
/// with `nsid` 0.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn identify(file: impl AsFd, nsid: u32, cns: u32) -> Answer<Box<[u8; IDENTIFY_BYTES]>> {
    let mut data = Box::new([0; IDENTIFY_BYTES]);
    let command = Command {
        opcode: OPCODE_IDENTIFY,
        nsid,
        cdw10_15: [cns, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
    };
    run(file, &command, &mut data[..])?;
    Ok(data)
}

/// A namespace's list of identification descriptors; empty on a controller that has none.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn descriptors(file: impl AsFd, nsid: u32) -> Answer<Box<[u8; IDENTIFY_BYTES]>> {
    match identify(file, nsid, cns::DESCRIPTORS) {
        Err(block::Error::Nvme { .. }) => Ok(Box::new([0; IDENTIFY_BYTES])),
        answer => answer,
    }
}

/// Fills `page` with log page `lid` (of [`nvme::lid`]); its length is a multiple of 4 bytes.
///
/// # Errors
/// Those of [`identify_controller`]; [`block::Error::Unaligned`] for any other length.
pub fn log_page(file: impl AsFd, nsid: u32, lid: u32, page: &mut [u8]) -> Answer<()> {
    if page.is_empty() || page.len() % 4 != 0 || page.len() > LOG_PAGE_MAX_BYTES {
        return Err(block::Error::Unaligned);
    }
    let dwords_less_one = (page.len() / 4 - 1) as u32;
    let command = Command {
        opcode: OPCODE_GET_LOG_PAGE,
        nsid,
        cdw10_15: [dwords_less_one << 16 | lid, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
    };
    run(file, &command, page).map(|_| ())
}

/// The power states, and the autonomous transitions between them that are set; `None` where the
/// controller has none.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn power(file: impl AsFd) -> Answer<(PowerStates, Option<Transitions>)> {
    let page = identify_controller(&file)?;
    let states = PowerStates::parse(&page[..]);
    let has_any = ControllerInfo::parse(&page[..]).is_ok_and(|info| info.autonomous_transitions);
    if !has_any {
        return Ok((states, None));
    }
    let mut table = [0; 8 * MAX_POWER_STATES];
    let command = Command {
        opcode: OPCODE_GET_FEATURES,
        nsid: 0,
        cdw10_15: [FEATURE_TRANSITIONS, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
    };
    let dword = run(file, &command, &mut table)?;
    Ok((states, Some(Transitions::parse(dword, &table))))
}

/// The SMART / Health Information log page of the whole controller.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn smart(file: impl AsFd) -> Answer<Smart> {
    let mut page = [0; SMART_BYTES];
    log_page(file, NSID_ALL, lid::SMART, &mut page)?;
    Ok(Smart::parse(&page))
}

/// The newest errors, newest first, at most `most`.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn error_log(file: impl AsFd, most: u16) -> Answer<Vec<ErrorEntry>> {
    let mut page = vec![0; ERROR_ENTRY_BYTES * usize::from(most)];
    log_page(file, NSID_ALL, lid::ERROR, &mut page)?;
    let entries = page.chunks_exact(ERROR_ENTRY_BYTES);
    Ok(entries.map_while(ErrorEntry::parse).collect())
}

/// The firmware slots.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn firmware_slots(file: impl AsFd) -> Answer<FirmwareSlots> {
    let mut page = [0; FIRMWARE_BYTES];
    log_page(file, NSID_ALL, lid::FIRMWARE, &mut page)?;
    Ok(FirmwareSlots::parse(&page))
}

/// The first active namespaces, up to 1,024, ascending.
///
/// # Errors
/// Those of [`identify_controller`].
pub fn active_namespaces(file: impl AsFd) -> Answer<Vec<u32>> {
    let list = identify(file, 0, cns::ACTIVE_NAMESPACES)?;
    Ok(nvme::active_namespaces(&list[..], 0).collect())
}

/// The counters of the drive at `path`, such as `/dev/nvme0`: its SMART / Health Information log
/// page.
///
/// # Errors
/// If the device cannot be opened or does not answer.
pub fn smart_of(path: &Path) -> Result<Smart> {
    let file = File::open(path).map_err(|source| Error::io("opening", path, source))?;
    smart(&file).map_err(|source| Error::Device {
        doing: "reading the drive's SMART log page",
        source,
    })
}
