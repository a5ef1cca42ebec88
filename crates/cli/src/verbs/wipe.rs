//! `straightway wipe DEVICE`: removes a volume.

use crate::Context;
use crate::verbs::format::{Found, purpose};
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::{Drive, ModelDrive};
use devices::failure::{Exit, Failure, Result};
use devices::guard::Grant;
use files::reports::uuid_text;
use files::{Route, Store, failed, found, route, shown};
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
    /// The drive's serial number: the volume's files will be lost
    #[arg(long, value_name = "SERIAL")]
    pub destroy_data: Option<String>,
    /// Remove the volume of a file
    #[arg(long)]
    pub force: bool,
    /// Check everything, report what would be zeroed, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The path
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
    pub wiped: Vec<Found>,
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
        let purpose = purpose(&drive, self.destroy_data.as_deref(), self.dry_run);
        let io = self.route.with_buffers(MEMORY_BYTES as u64, 1);
        let options =
            route::open_options(&io, !self.dry_run).changing_no_driver_if(self.dry_run, &drive);
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let mut store = Store::granted(context, grant, &options)?;
        let wiped = self.wipe(&mut store);
        let wiped = store.close(wiped)?;
        match self.json {
            true => context.console.json(&wiped)?,
            false => context.console.print_outcome(&wiped.text())?,
        }
        Ok(Exit::Done)
    }

    fn wipe(&self, store: &mut Store) -> Result<Wiped> {
        let geometry = *store.opened.device.geometry();
        if geometry.features.read_only && !self.dry_run {
            let doing = "removing the volume";
            return Err(Failure::request(doing, block::Error::ReadOnly));
        }
        let found = superblocks(store, false)?.map_err(|error| failed(&store.drive, error))?;
        let label = label(&found);
        if !self.dry_run {
            self.refuse_a_file(store, &label)?;
            let result = superblocks(store, true)?;
            let doing = format!("removing the volume of {}", store.drive);
            result.map_err(|error| failed(doing, error).and("a part of it may be left"))?;
        }
        let wiped = found.addresses().map(|address| Found {
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
            dry_run: self.dry_run,
        })
    }

    /// Refuses files and models without --force; a drive is protected by its serial number.
    fn refuse_a_file(&self, store: &Store, label: &str) -> Result<()> {
        let is_file = matches!(
            store.drive,
            Drive::File(_) | Drive::Model(ModelDrive { file: Some(_), .. })
        );
        if self.force || self.destroy_data.is_some() || !is_file {
            return Ok(());
        }
        let named = match label {
            "" => String::new(),
            label => format!(" `{}`", shown(label)),
        };
        let what = format!(
            "{} holds {}{named}; nothing was done",
            store.drive,
            found::VOLUME
        );
        Err(Failure::usage(what).hint("--force, if its data may be lost"))
    }
}

/// The superblocks of the device, zeroed if they are to be.
fn superblocks(store: &mut Store, zero: bool) -> Result<std::result::Result<Superblocks, Error>> {
    let memory = store.opened.memory.allocate(MEMORY_BYTES)?;
    let device = &mut store.opened.device.as_mut();
    let (result, memory) = match zero {
        true => volume::wipe(device, memory),
        false => find_superblocks(device, memory),
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
        let done = match self.dry_run {
            true => "would remove",
            false => "removed",
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
