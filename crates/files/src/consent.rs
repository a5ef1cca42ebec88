// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose data may be lost: what making a volume and wiping signatures have in common.

use crate::{Route, Store, route};
use devices::Context;
use devices::drive::{Drive, ModelDrive};
use devices::error::{Error, Result};
use devices::guard::{Grant, Purpose};
use remedy::{Remedy, Setting, words};
use std::fmt::Display;

/// Whose data may be lost, and by which path.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The drive's serial number: its data will be lost.
    pub destroy_data: Option<String>,
    /// Whether it goes on although a file holds data, which will be lost.
    pub force: bool,
    /// Whether everything is checked, and nothing is written.
    pub dry_run: bool,
    /// The path.
    pub route: Route,
}

impl Consent {
    /// Opens the drive with memory for writes of this length; a dry run changes neither it nor its
    /// driver.
    ///
    /// # Errors
    /// Permission is missing, the drive is in use or cannot be opened.
    pub fn open(&self, context: &Context, drive: Drive, memory_bytes: usize) -> Result<Store> {
        let purpose = self.purpose(&drive);
        let io = self.route.with_buffers(memory_bytes as u64, 1);
        let options =
            route::open_options(&io, !self.dry_run).changing_no_driver_if(self.dry_run, &drive);
        let grant = Grant::of(&context.roots, drive, purpose)?;
        Store::granted(context, grant, &options)
    }

    /// The use of a drive whose data will be lost. A file needs no `--destroy-data`: its contents
    /// are checked, without changing them.
    fn purpose(&self, drive: &Drive) -> Purpose<'_> {
        let given = self.destroy_data.as_deref();
        match (drive, given) {
            (_, None) if self.dry_run => Purpose::Read,
            (drive, given) if drive.has_serial() || given.is_some() => Purpose::Destroy(given),
            (Drive::Array(array), _) if array.drives().any(Drive::has_serial) => {
                Purpose::Destroy(given)
            }
            _ => Purpose::Change,
        }
    }

    /// Refuses a device that cannot be written, unless nothing will be.
    ///
    /// # Errors
    /// It is read-only.
    pub fn refuse_read_only(&self, store: &Store, doing: &str) -> Result<()> {
        if store.opened.device.geometry().features.read_only && !self.dry_run {
            Err(Error::request(doing, block::Error::ReadOnly))
        } else {
            Ok(())
        }
    }

    /// Whether the data of a file or a model may be lost; a drive is protected by its serial
    /// number.
    pub const fn is_given(&self) -> bool {
        self.force || self.destroy_data.is_some()
    }
}

/// Whether a drive is a file, or a model whose data a file has.
pub fn is_file(drive: &Drive) -> bool {
    matches!(
        drive,
        Drive::File(_) | Drive::Model(ModelDrive { file: Some(_), .. })
    )
}

/// The failure without consent: the drive holds `what`.
pub fn refusal(drive: &Drive, what: impl Display) -> Error {
    Error::usage(format!("{drive} holds {what}; nothing was done")).hint(words![
        Remedy::agree(Setting::Force),
        ", if its data may be lost"
    ])
}
