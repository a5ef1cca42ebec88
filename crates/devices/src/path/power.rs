// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--latency-limit`: what a drive's power states may delay a command by, on each path that can set
//! it.
//!
//! The straight path's driver sets the feature itself
//! (`nvme::ControllerOptions::latency_limit_us`). The kernel's driver does so by its attribute
//! ([`Tolerance`]), which gets its value back. Then the drive is asked what it has.

use crate::drive::Drive;
use crate::error::{Error, Result};
use crate::path::handle::ControllerHandle;
use linux::latency::Tolerance;
use linux::pci::Controller;
use linux::resolve::Resolved;
use linux::{Roots, admin};
use nvme::{PowerStates, Transitions};
pub use paths::{LatencyLimit, LimitedBy};
use remedy::{Remedy, Setting, words};
use std::fs::File;

type Power = (PowerStates, Option<Transitions>);

/// The longest delay that is set, in microseconds; `None` without transitions.
fn worst_us(power: &Power) -> Option<u32> {
    let (states, set) = power;
    set.as_ref().map(|set| set.worst_latency_us(states))
}

/// Remembers what the kernel's driver has; `None` if that does not hold the drive, or has nothing
/// to limit.
///
/// # Errors
/// Another process has limited it, or no record can be kept.
pub fn remember(roots: &Roots, drive: &Drive) -> Result<Option<Tolerance>> {
    match drive {
        Drive::Nvme(resolved) => Ok(Tolerance::remember(roots, resolved.controller.address)?),
        _ => Ok(None),
    }
}

/// Whether a drive of this kind has power states that a path can limit.
///
/// # Errors
/// It has none.
pub fn check(drive: &Drive) -> Result<()> {
    match drive {
        Drive::Nvme(_) | Drive::Model(_) => Ok(()),
        _ => Err(refused(&drive.to_string())),
    }
}

/// The error of what cannot limit them.
pub fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what} does not limit a drive's power states")).hint(words![
        Setting::Path.to("straightway"),
        " or a path through the kernel's NVMe driver, or ",
        Remedy::omit([Setting::LatencyLimit])
    ])
}

/// Limits a drive that the kernel's driver holds, and asks it what it has then.
///
/// # Errors
/// Permission is missing, or the kernel leaves the drive longer transitions.
pub fn limit_by_kernel(
    roots: &Roots,
    resolved: &Resolved,
    tolerance: Option<&Tolerance>,
    group: &str,
    limit_us: u32,
) -> Result<LatencyLimit> {
    if let Some(tolerance) = tolerance {
        tolerance.limit(limit_us)?;
    }
    let name = Controller::at(roots, resolved.controller.address)?.kernel_name;
    let file = name.and_then(|name| File::open(roots.dev.join(name)).ok());
    let power = file.and_then(|file| admin::power(&file).ok());
    let worst_latency_us = power.as_ref().and_then(worst_us);
    if let Some(worst_us) = worst_latency_us.filter(|worst_us| *worst_us > limit_us) {
        return Err(Error::unsupported(format!(
            "the kernel's driver leaves {resolved} transitions that delay a command by up to {worst_us} us"
        ))
        .hint(words![Setting::Path.to("straightway"), ", or the kernel's option nvme_core.default_ps_max_latency_us"]));
    }
    Ok(LatencyLimit {
        group: group.to_owned(),
        limit_us,
        by: match tolerance {
            Some(_) => LimitedBy::Kernel,
            None => LimitedBy::Nothing,
        },
        worst_latency_us,
        before: tolerance.map(|tolerance| tolerance.before().to_owned()),
    })
}

/// What the driver of this process has set.
///
/// # Errors
/// The drive does not say.
pub fn limited_by_driver(
    handle: &dyn ControllerHandle,
    group: &str,
    limit_us: u32,
) -> Result<LatencyLimit> {
    let power = handle.power()?;
    Ok(LatencyLimit {
        group: group.to_owned(),
        limit_us,
        by: match power.1 {
            Some(_) => LimitedBy::Driver,
            None => LimitedBy::Nothing,
        },
        worst_latency_us: worst_us(&power),
        before: None,
    })
}

/// Limits the drive of a path that has no handle, until the result is released.
///
/// # Errors
/// The path cannot, or those of [`remember`] and [`limit_by_kernel`].
pub fn limit_path(
    roots: &Roots,
    drive: &Drive,
    path: &str,
    limit_us: u32,
) -> Result<Option<Tolerance>> {
    match drive {
        Drive::Nvme(resolved) => {
            let controller = Controller::at(roots, resolved.controller.address)?;
            if controller.driver.as_deref() != Some("nvme") {
                return Err(refused(path));
            }
            let tolerance = remember(roots, drive)?;
            limit_by_kernel(roots, resolved, tolerance.as_ref(), path, limit_us)?;
            Ok(tolerance)
        }
        _ => Err(refused(path)),
    }
}
