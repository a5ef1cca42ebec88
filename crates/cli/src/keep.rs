//! Keeping a drive bound after the command has ended.
//!
//! A borrowed drive has a record that names the process that borrowed it, and is given back once
//! that process is gone. A drive that is kept has the same record in the name of process 1, which
//! lives as long as the system; so nothing is lost by a crash at any point, and `release` only has
//! to put the record into the name of a process that never was.

use crate::failure::{Failure, Result};
use linux::pci::PciAddress;
use linux::{Roots, bind};
use std::fs;
use std::path::PathBuf;

/// The process that outlives all others.
const INIT: u32 = 1;
/// No process has this number.
const NOBODY: u32 = 0;

/// Whether the drive is kept.
pub fn is_kept(roots: &Roots, address: PciAddress) -> bool {
    let is_it = |(of, pid, _): &(PciAddress, u32, bool)| (*of, *pid) == (address, INIT);
    bind::borrowed(roots).iter().any(is_it)
}

/// Keeps what was just borrowed.
///
/// # Errors
/// The record could not be changed; the drive was given back then.
pub fn keep(roots: &Roots, binding: bind::Binding) -> Result<()> {
    let start = start_ticks(roots, INIT).ok_or_else(|| {
        Failure::unsupported("the process that owns the system cannot be seen in /proc")
    })?;
    sign_over(roots, binding.address(), INIT, start)?;
    // The record is the owner now.
    std::mem::forget(binding);
    Ok(())
}

/// Gives a kept drive back.
///
/// # Errors
/// It is in use, or its driver does not take it.
pub fn release(roots: &Roots, address: PciAddress) -> Result<Option<bind::Restored>> {
    sign_over(roots, address, NOBODY, 0)?;
    let restored = bind::restore_stale(roots)?;
    Ok(restored.into_iter().find(|one| one.address == address))
}

/// Puts the record of a drive into another process's name, whole or not at all.
fn sign_over(roots: &Roots, address: PciAddress, pid: u32, start_ticks: u64) -> Result<()> {
    let path = record(roots, address)
        .ok_or_else(|| Failure::missing(format!("there is no record of {address}")))?;
    let failed = |error: std::io::Error| Failure::io("changing the record", &path, &error);
    let text = fs::read_to_string(&path).map_err(failed)?;
    let line = |line: &str| match line.split_once(' ') {
        Some(("pid", _)) => format!("pid {pid}\n"),
        Some(("start", _)) => format!("start {start_ticks}\n"),
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    let temporary = path.with_extension("signed");
    fs::write(&temporary, text).map_err(failed)?;
    fs::rename(&temporary, &path).map_err(failed)
}

fn record(roots: &Roots, address: PciAddress) -> Option<PathBuf> {
    let name = format!("{address}.borrowed");
    let mut paths = roots.state.iter().map(|folder| folder.join(&name));
    paths.find(|path| path.exists())
}

/// When a process started, in clock ticks since boot (proc(5), field 22 of `stat`).
fn start_ticks(roots: &Roots, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(roots.proc.join(format!("{pid}/stat"))).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}
