// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway wipe DEVICE`: removes a volume.

use crate::Context;
use crate::exit::Exit;
use crate::verbs::consent::ConsentArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::Result;
use files::consent::{is_file, refusal};
use files::format::FoundSignature;
use files::reports::uuid_text;
use files::{Store, failed, found, shown};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use volume::layout::SUPERBLOCK_BYTES;
use volume::{Error, Superblocks, find_superblocks};

/// Memory for a superblock's block.
const MEMORY_BYTES: usize = 64 << 10;

/// Remove a volume from a device.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Zeroes the two superblocks of the volume, 256 bytes each, so that nothing finds it again: its files are
lost. Nothing else is written. What another owner has put on the device since, such as a volume group,
a partition table or a file system, is left as it is.

For a drive, --destroy-data must name its serial number; a file needs --force. A device that is mounted
or in use is refused. The superblock in force is zeroed last: after a power cut the volume is there as it
was, or not at all.")]
pub struct Wipe {
    /// The device with the volume, or a plain file
    pub device: String,
    /// Whose data may be lost
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// A removed volume.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Wiped {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The volume's identity, 32 hexadecimal digits; null if neither superblock was valid.
    pub uuid: Option<String>,
    /// Its label; empty if it had none.
    pub label: String,
    /// What was zeroed, in this order.
    pub wiped: Vec<FoundSignature>,
    /// Nothing was written.
    pub dry_run: bool,
}

impl Wipe {
    /// Runs the verb.
    ///
    /// # Errors
    /// Permission is missing, there is no volume, or the device failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let drive = Drive::find(&context.roots, &self.device)?;
        let mut store = self.consent.plain().open(context, drive, MEMORY_BYTES)?;
        let wiped = self.wipe(&mut store);
        let wiped = store.close(wiped)?;
        self.consent.print(context, &wiped, Wiped::text)?;
        Ok(Exit::Done)
    }

    fn wipe(&self, store: &mut Store) -> Result<Wiped> {
        let consent = self.consent.plain();
        consent.refuse_read_only(store, "removing the volume")?;
        let found = superblocks(store, false)?.map_err(|error| failed(&store.drive, error))?;
        let label = label(&found);
        if !self.consent.dry_run {
            self.refuse_a_file(store, &label)?;
            let result = superblocks(store, true)?;
            let doing = format!("removing the volume of {}", store.drive);
            result.map_err(|error| failed(doing, error).and("a part of it may be left"))?;
        }
        let wiped = found.addresses().map(|address| FoundSignature {
            what: found::VOLUME.to_owned(),
            offset_bytes: address,
            length_bytes: SUPERBLOCK_BYTES as u64,
        });
        Ok(Wiped {
            schema_version: SCHEMA_VERSION,
            device: store.drive.to_string(),
            path: store.opened.name.clone(),
            uuid: found.uuid.map(|uuid| uuid_text(&uuid)),
            label,
            wiped: wiped.collect(),
            dry_run: self.consent.dry_run,
        })
    }

    /// Refuses files and models without --force; a drive is protected by its serial number.
    fn refuse_a_file(&self, store: &Store, label: &str) -> Result<()> {
        if self.consent.plain().is_given() || !is_file(&store.drive) {
            return Ok(());
        }
        let named = match label {
            "" => String::new(),
            label => format!(" `{}`", shown(label)),
        };
        Err(refusal(
            &store.drive,
            format_args!("{}{named}", found::VOLUME),
        ))
    }
}

/// The superblocks of the device, zeroed if they are to be.
fn superblocks(store: &mut Store, zero: bool) -> Result<std::result::Result<Superblocks, Error>> {
    let memory = store.opened.memory.allocate(MEMORY_BYTES)?;
    let device = &mut store.opened.device.as_mut();
    let (result, memory) = if zero {
        volume::wipe(device, memory)
    } else {
        find_superblocks(device, memory)
    };
    if let Some(memory) = memory {
        store.opened.memory.give_back(memory);
    }
    Ok(result)
}

fn label(found: &Superblocks) -> String {
    let len = found.label.iter().position(|byte| *byte == 0);
    let bytes = found.label.get(..len.unwrap_or(found.label.len()));
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

impl Wiped {
    fn text(&self) -> String {
        let named = match self.label.as_str() {
            "" => String::new(),
            label => format!(" `{}`", shown(label)),
        };
        let done = if self.dry_run {
            "would remove"
        } else {
            "removed"
        };
        let mut text = format!("{done} the volume{named} of {}:", self.device);
        for (index, one) in self.wiped.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma} its superblock at byte {}", one.offset_bytes);
        }
        text.push('\n');
        text
    }
}
