// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes an empty volume, after all that a device holds was looked at.

use crate::consent::{Consent, refusal};
use crate::contents::has_data;
use crate::found::{self, Signature};
use crate::host::warn_of_length;
use crate::names::check_label;
use crate::reports::uuid_text;
use crate::{Store, failed, wipe};
use devices::cancel::Cancel;
use devices::drive::{Drive, ModelDrive};
use devices::error::Result;
use devices::{Context, SCHEMA_VERSION};
use remedy::{Remedy, Setting, Value, Words, words};
#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use units::Size;
use volume::{Error, FormatOptions, Shape};

/// Maximum length of one write of the empty tables.
const MEMORY_BYTES: usize = 1 << 20;
/// The state of a device after a failed format: the last step may or may not have taken effect.
const AFTER_A_FAILURE: &str =
    "its contents are unknown: no volume, or an empty one; format it again";
/// Slots of the largest table.
const MOST_SLOTS: u32 = 524_288;
/// The longest volume, and the longest file.
const MOST_BYTES: u64 = (1 << 63) - 512;

/// The volume to make.
#[derive(Clone, Debug)]
pub struct FormatSettings {
    /// The name of the device, or of a plain file.
    pub device: String,
    /// Allocation unit, 64 bytes to 1 GiB; about 1/32768 of the volume, 4 KiB to 1 MiB, if not
    /// given.
    pub unit: Option<Size>,
    /// Metadata node, 256 bytes to 16 KiB; the device's block, at least 512, if not given.
    pub node: Option<Size>,
    /// Slots for files, rounded up to 8 times a power of two; one for each 16 MiB, at least 1,024,
    /// if not given.
    pub slots: Option<u32>,
    /// A label, at most 32 bytes.
    pub label: String,
    /// Whether files get checksums.
    pub checksums: bool,
    /// Size of the volume, which a missing or empty plain file gets; the whole device if not given.
    pub size: Option<Size>,
    /// Whose data may be lost.
    pub consent: Consent,
}

/// The result of a format.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
#[cfg_attr(feature = "reports", schemars(rename = "Report"))]
pub struct FormatReport {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The volume's identity, 32 hexadecimal digits.
    pub uuid: String,
    /// The label.
    pub label: String,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Allocation unit.
    pub unit_bytes: u64,
    /// Metadata node.
    pub node_bytes: u64,
    /// Slots for files.
    pub slots: u32,
    /// The number of files that it takes before its table of slots grows, or, to a program that
    /// does not let it grow, before a new name may be refused.
    pub slots_before_refusal: u32,
    /// Space for files.
    pub capacity_bytes: u64,
    /// Space for the volume's own metadata.
    pub metadata_bytes: u64,
    /// Whether files get checksums.
    pub checksums: bool,
    /// The signatures found on the device, which are wiped.
    pub found: Vec<FoundSignature>,
    /// What looked for them: libblkid, with its version, and a table, or the table alone.
    pub judged_by: String,
    /// Nothing was written.
    pub dry_run: bool,
}

/// A signature found on the device.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "reports", derive(Serialize, JsonSchema))]
#[cfg_attr(feature = "reports", schemars(rename = "Found"))]
pub struct FoundSignature {
    /// What the signature belongs to.
    pub what: String,
    /// Where the signature is.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

/// A plain file that this command created or resized.
struct Made<'p> {
    path: &'p Path,
    is_new: bool,
}

impl Made<'_> {
    /// Restores the original state of a file that cannot be used.
    fn undo(&self) {
        // Only the failure that led here is reported.
        let _ = if self.is_new {
            std::fs::remove_file(self.path)
        } else {
            File::options()
                .write(true)
                .open(self.path)
                .and_then(|file| file.set_len(0))
        };
    }
}

impl FormatSettings {
    /// Makes the volume, and prints no result.
    ///
    /// # Errors
    /// Permission is missing, the parameters do not suit the device, or the device failed.
    pub fn make(&self, context: &Context) -> Result<FormatReport> {
        self.check()?;
        let made = self.make_file()?;
        if let (Some(made), Some(size)) = (&made, self.size) {
            warn_of_length(context, made.path, size.0);
        }
        let report = self.format(context);
        if let (Some(made), Err(_)) = (made, &report) {
            made.undo();
        }
        report
    }

    /// Makes all checks that need no device.
    fn check(&self) -> Result<()> {
        check_label(&self.label)?;
        match self.size {
            Some(Size(bytes @ 0..512)) => {
                let what = words![
                    Setting::Size,
                    format!(" is {bytes} bytes, less than a block of 512")
                ];
                Err(devices::Error::usage(what).hint(Setting::Size.to(Value::choice("1M or more"))))
            }
            Some(Size(bytes)) if bytes > MOST_BYTES => {
                let what = words![
                    Setting::Size,
                    format!(" is {bytes} bytes; a volume has at most 8 EiB less a block")
                ];
                Err(devices::Error::usage(what))
            }
            _ => Ok(()),
        }
    }

    /// Creates or resizes the plain file if DEVICE names one that is missing or empty, and returns
    /// it.
    fn make_file(&self) -> Result<Option<Made<'_>>> {
        let (Some(size), Some(path)) = (self.size, Drive::plain_file(&self.device)) else {
            return Ok(None);
        };
        let is_new = !path.exists();
        let is_empty = std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() == 0);
        if self.consent.dry_run || !is_new && !is_empty {
            return Ok(None);
        }
        let file = File::options()
            .write(true)
            .create_new(is_new)
            .open(path)
            .map_err(|error| devices::Error::io("making", path, &error))?;
        let made = Made { path, is_new };
        match file.set_len(size.0) {
            Ok(()) => Ok(Some(made)),
            Err(error) => {
                made.undo();
                let failure = devices::Error::io("making", path, &error);
                Err(match error.kind() {
                    ErrorKind::FileTooLarge => failure.hint(words![
                        Remedy::Less(Setting::Size),
                        ": the file system cannot store a file this long"
                    ]),
                    _ => failure,
                })
            }
        }
    }

    fn format(&self, context: &Context) -> Result<FormatReport> {
        let drive = Drive::find(&context.roots, &self.device);
        let drive = drive.map_err(|failure| match Drive::plain_file(&self.device) {
            Some(path) if !path.exists() => {
                devices::Error::missing(format!("there is no file {}", path.display()))
                    .hint(words![Setting::Size.to(Value::Bytes(1 << 30)), " makes it"])
            }
            _ => failure,
        })?;
        let mut store = self.consent.open(context, drive, MEMORY_BYTES)?;
        let report = self.format_opened(context, &mut store);
        store.close(report)
    }

    fn format_opened(&self, context: &Context, store: &mut Store) -> Result<FormatReport> {
        let geometry = *store.opened.device.geometry();
        self.consent.refuse_read_only(store, "formatting")?;
        let options = FormatOptions {
            volume_bytes: self.size.map(|size| size.0),
            unit_bytes: self.unit.map(|size| size.0),
            node_bytes: self.node.map(|size| size.0.try_into().unwrap_or(u32::MAX)),
            slots: self.slots,
            checksums: self.checksums,
            label: &self.label,
            uuid: random_identity()?,
        };
        // Nothing is written unless the parameters are valid and no data would be lost.
        let shape = options.shape(&geometry);
        let shape = shape.map_err(|error| self.explain(error, &options, &geometry, &store.drive));
        let shape = shape?;
        let found = wipe::look(store, &context.cancel)?.signatures();
        if self.consent.dry_run {
            return Ok(FormatReport {
                dry_run: true,
                ..FormatReport::new(store, &shape, &options, &found)
            });
        }
        self.refuse_what_stands(store, &found, &context.cancel)?;
        let bytes = MEMORY_BYTES.min(geometry.max_transfer_bytes());
        let mut memory = Some(store.opened.memory.allocate(bytes)?);
        if !found.is_empty() {
            let names = found::names(&found).join(", ");
            let drive = &store.drive;
            let judge = found::judge();
            context.say(format_args!(
                "wiping the signatures on {drive} (found by {judge}): {names}"
            ));
        }
        let result = wipe::wipe(store, &mut memory, &found).and_then(|()| {
            let no_memory = || failed(&store.drive, Error::Memory);
            let buffer = memory.take().ok_or_else(no_memory)?;
            let device = &mut store.opened.device.as_mut();
            let (result, buffer) = volume::format(device, buffer, &options);
            memory = buffer;
            result.map_err(|error| {
                failed(format_args!("formatting {}", store.drive), error).and(AFTER_A_FAILURE)
            })
        });
        if let Some(memory) = memory {
            store.opened.memory.give_back(memory);
        }
        Ok(FormatReport::new(store, &result?, &options, &found))
    }

    /// The error that names the invalid number and its allowed range.
    fn explain(
        &self,
        error: Error,
        options: &FormatOptions<'_>,
        geometry: &block::Geometry,
        drive: &Drive,
    ) -> devices::Error {
        let size_bytes = geometry.size_bytes();
        let block = geometry.block_size_bytes() as u64;
        let wrong_power = |name: Setting, given: Option<Size>, least: u64, most: u64| {
            let Size(bytes) = given?;
            let least = least.max(block);
            let is_right = bytes.is_power_of_two() && (least..=most).contains(&bytes);
            (!is_right).then(|| {
                let range = format!("a power of two from {} to {}", Size(least), Size(most));
                devices::Error::usage(words![
                    name,
                    format!(" is {bytes} bytes; {drive} was left alone")
                ])
                .hint(format!("{range}, as {drive} has blocks of {block} bytes"))
            })
        };
        let wrong_slots = || {
            let slots = self.slots.filter(|slots| *slots > MOST_SLOTS)?;
            let what = words![
                Setting::Slots,
                format!(" is {slots}; {drive} was left alone")
            ];
            Some(devices::Error::usage(what).hint(format!("1 to {MOST_SLOTS}")))
        };
        let wrong_size = || {
            let size = self.size.filter(|size| size.0 > size_bytes)?;
            let what = words![
                Setting::Size,
                format!(" is {} bytes, but {drive} has {size_bytes}", size.0)
            ];
            Some(devices::Error::usage(what).hint(Remedy::one_of([
                Remedy::Less(Setting::Size),
                Remedy::from("a larger device"),
            ])))
        };
        wrong_power(Setting::Unit, self.unit, 64, 1 << 30)
            .or_else(|| wrong_power(Setting::Node, self.node, 256, 16 << 10))
            .or_else(wrong_slots)
            .or_else(wrong_size)
            .or_else(|| self.too_small(options, geometry, drive))
            .unwrap_or_else(|| failed(format_args!("{drive} was left alone"), error))
    }

    /// The error if the device is too small.
    fn too_small(
        &self,
        options: &FormatOptions<'_>,
        geometry: &block::Geometry,
        drive: &Drive,
    ) -> Option<devices::Error> {
        let bytes = options.volume_bytes.unwrap_or(geometry.size_bytes());
        let fits = |bytes: &u64| {
            let geometry = block::Geometry {
                block_count: bytes >> geometry.block_size_log2,
                ..*geometry
            };
            let options = FormatOptions {
                volume_bytes: None,
                ..*options
            };
            options.shape(&geometry).is_ok()
        };
        let enough = (10..62).map(|log2| 1 << log2).filter(|size| *size > bytes);
        let enough = Size({ enough }.find(fits)?);
        let what = format!("{bytes} bytes are too few for a volume; {drive} was left alone");
        let fewer = match self.slots {
            Some(_) => words![", or ", Remedy::Less(Setting::Slots)],
            None => Words::default(),
        };
        Some(devices::Error::usage(what).hint(words![
            format!("{enough} are enough with these options"),
            fewer
        ]))
    }

    /// Refuses files and models that hold data; a drive is protected by its serial number.
    fn refuse_what_stands(
        &self,
        store: &Store,
        found: &[Signature],
        cancel: &Cancel,
    ) -> Result<()> {
        if self.consent.is_given() || store.drive.is_divided() {
            return Ok(());
        }
        let file = match &store.drive {
            Drive::File(path) => Some(path),
            Drive::Model(ModelDrive { file, .. }) => file.as_ref(),
            _ => None,
        };
        let names = found::names(found);
        let what = if names.is_empty() {
            match file {
                // Data without a known signature, such as a photograph.
                Some(path) if has_data(path, cancel)? => "data".to_owned(),
                _ => return Ok(()),
            }
        } else {
            names.join(", ")
        };
        Err(refusal(&store.drive, what))
    }
}

/// 16 random bytes in the form of a random UUID.
///
/// # Errors
/// The kernel gives none.
pub fn random_identity() -> Result<[u8; 16]> {
    let path = Path::new("/dev/urandom");
    let failed = |error: std::io::Error| devices::Error::io("reading", path, &error);
    let mut uuid = [0; 16];
    let mut file = File::open(path).map_err(failed)?;
    file.read_exact(&mut uuid).map_err(failed)?;
    // RFC 9562: version 4 and the variant.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

impl FormatReport {
    fn new(store: &Store, shape: &Shape, options: &FormatOptions<'_>, found: &[Signature]) -> Self {
        let found = found.iter().map(|signature| FoundSignature {
            what: signature.what.to_string(),
            offset_bytes: signature.offset_bytes,
            length_bytes: signature.length_bytes,
        });
        let capacity_bytes = shape.unit_count() * shape.unit_bytes();
        Self {
            schema_version: SCHEMA_VERSION,
            device: store.drive.to_string(),
            path: store.opened.name.clone(),
            uuid: uuid_text(&options.uuid),
            label: options.label.to_owned(),
            volume_bytes: shape.volume_bytes,
            unit_bytes: shape.unit_bytes(),
            node_bytes: shape.node_bytes() as u64,
            slots: shape.slot_count(),
            slots_before_refusal: shape.promised_files(options.checksums),
            capacity_bytes,
            metadata_bytes: shape.volume_bytes - capacity_bytes,
            checksums: options.checksums,
            found: found.collect(),
            judged_by: found::judge(),
            dry_run: false,
        }
    }
}
