// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes a volume of format 1.1 back to 1.0, and says which format a volume has.

use crate::{Mounted, Route, Store, failed, route, shown};
use devices::error::{ErrorKind, Result};
use devices::{Context, SCHEMA_VERSION};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use units::counted;
use volume::layout::{MAJOR, SHORT_NAME_BYTES};
use volume::{Error, Finding, blocking};

/// Memory of the check before a change: a volume with more units takes more passes.
const SCRATCH_BYTES: usize = 4 << 20;

/// The format that a volume is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What the file system in hardware and older software know.
    V1_0,
    /// Names of up to 255 bytes, and slot tables that grow.
    V1_1,
}

/// What a volume is to become.
#[derive(Clone, Debug)]
pub struct UpgradeSettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The format.
    pub to: Format,
    /// The path.
    pub route: Route,
}

/// The result.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
pub struct Upgraded {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The format that a reader had to know before.
    pub before: String,
    /// The format that a reader must know now.
    pub format: String,
    /// The longest name that the volume can have.
    pub longest_name_bytes: usize,
    /// Slots of its table, one for each file.
    pub slots: u32,
    /// A reader must also know volumes that were resized.
    pub is_resized: bool,
}

impl UpgradeSettings {
    /// Changes the volume, if that is needed.
    ///
    /// # Errors
    /// The volume cannot have the format, or the device or the volume failed.
    pub fn make(&self, context: &Context) -> Result<Upgraded> {
        let changes = self.to == Format::V1_0;
        let options = route::open_options(&self.route.with_buffers(4096, 1), changes);
        Store::with(context, &self.device, &options, |mounted| {
            let volume = mounted.volume;
            let format = || format!("{MAJOR}.{}", volume.minor_version());
            let before = format();
            if changes && volume.minor_version() > 0 {
                self.go_back(mounted)?;
            }
            let shape = volume.status().shape;
            Ok(Upgraded {
                schema_version: SCHEMA_VERSION,
                device: mounted.drive.to_string(),
                before,
                format: format(),
                longest_name_bytes: shape.longest_name_bytes(),
                slots: volume.slots(),
                is_resized: shape.table_groups > 0,
            })
        })
    }

    fn go_back(&self, mounted: &Mounted<'_, '_>) -> Result<()> {
        let volume = mounted.volume;
        let doing = || format!("taking {} back to format 1.0", mounted.drive);
        let made = volume.status().shape.slot_count();
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut damages = 0_u64;
        let mut report = |finding: Finding| damages += u64::from(!finding.is_harmless());
        let (mut files, mut long) = (0_u64, None);
        let mut each = |entry: volume::StoredFile| {
            files += 1;
            let name = entry.name.as_str();
            if name.len() > SHORT_NAME_BYTES && long.is_none() {
                long = Some(name.to_owned());
            }
        };
        let check = volume.check_files(&mut scratch, &mut report, &mut each);
        blocking::run(volume, check).map_err(|error| failed(doing(), error))?;
        let refused = |kind, what: String| {
            let what = format!("{}: {what}; nothing was changed", doing());
            devices::Error::new(kind, what)
        };
        if damages > 0 {
            let hint = format!("straightway check {}", self.device);
            return Err(refused(ErrorKind::Other, "the volume is damaged".into()).hint(hint));
        }
        if let Some(name) = long {
            let what = format!(
                "`{}` has {} bytes, and a name of format 1.0 at most {SHORT_NAME_BYTES}",
                shown(&name),
                name.len()
            );
            let hint = format!("straightway mv {} OLD NEW", self.device);
            return Err(refused(ErrorKind::Other, what).hint(hint));
        }
        if files > u64::from(made) {
            let what = format!("it has {files} files, and its table had {made} slots at first");
            let hint = format!("straightway rm {} NAME", self.device);
            return Err(refused(ErrorKind::Full, what).hint(hint));
        }
        match blocking::run(volume, volume.back_to_1_0()) {
            Ok(()) => Ok(()),
            Err(Error::TableFull) => {
                let what = format!(
                    "{}: {} find no place in the {made} slots that its table had at first; it has {} \
                     now, and is as whole as before",
                    doing(),
                    counted(files, "file"),
                    volume.slots()
                );
                let hint = format!("straightway rm {} NAME", self.device);
                Err(devices::Error::new(ErrorKind::Full, what).hint(hint))
            }
            Err(error) => Err(failed(doing(), error)),
        }
    }
}
