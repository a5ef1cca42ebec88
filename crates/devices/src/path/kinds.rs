// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which paths a drive has, and which of them a choice means.

use super::PathChoice;
use crate::drive::Drive;
use crate::error::{Error, Result};
use linux::disk::Disk;
use paths::{Group, PathKind};
use units::distinct;

impl Drive {
    /// Whether `--destroy-data` names it by a serial number.
    pub const fn has_serial(&self) -> bool {
        matches!(
            self,
            Drive::Nvme(_) | Drive::Disk(_) | Drive::Coprocessor(_) | Drive::Remote(_)
        )
    }

    /// Whether it is a drive that a measurement divides in two, and prepares.
    pub const fn is_divided(&self) -> bool {
        matches!(self, Drive::Nvme(_) | Drive::Disk(_))
    }

    /// The block device that is not an NVMe namespace, if it is one.
    pub fn disk(&self) -> Option<&Disk> {
        match self {
            Drive::Disk(disk) => Some(disk),
            _ => None,
        }
    }

    /// The path of this choice; the drive's default for `auto`.
    ///
    /// # Errors
    /// The table has no path for this drive.
    pub fn kind(&self, choice: PathChoice) -> Result<&'static PathKind> {
        let chosen = choice.kind(|kind| self.has(kind));
        let mut all = paths::KINDS.iter();
        let first = || match self {
            Drive::Disk(_) => paths::named(paths::DISK),
            _ => all.find(|kind| kind.is_first && self.has(kind)),
        };
        chosen
            .or_else(first)
            .ok_or_else(|| Error::unsupported("this device has no path to measure"))
    }

    /// The paths of these choices, each once.
    ///
    /// # Errors
    /// The same as those of [`kind`](Drive::kind).
    pub fn kinds(&self, choices: &[PathChoice]) -> Result<Vec<&'static PathKind>> {
        let kinds = choices.iter().map(|choice| self.kind(*choice));
        Ok(distinct(kinds.collect::<Result<Vec<_>>>()?))
    }

    /// The paths that are measured by default, in the order of unsorted tables.
    pub fn usual(&self, with_coprocessor: bool) -> Vec<&'static PathKind> {
        let is_coprocessor = matches!(self, Drive::Coprocessor(_));
        let is_meant = |kind: &&PathKind| {
            self.has(kind)
                && kind.is_usual
                // The model raises interrupts by a call, so measuring them says nothing about a
                // drive.
                && (kind.is_first || !matches!(self, Drive::Model(_)))
                && (kind.group != Group::Coprocessor || is_coprocessor || with_coprocessor)
        };
        paths::KINDS.iter().filter(is_meant).collect()
    }
}
