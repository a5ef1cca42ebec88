//! `straightway format DEVICE`: makes an empty volume.

use crate::drive::{Drive, ModelDrive};
use crate::failure::{Exit, Failure, Result};
use crate::guard::{Grant, Purpose};
use crate::signals::Cancel;
use crate::transfer::{End, Span, transfer};
use crate::units::{Size, rounded};
use crate::volume::{Route, Store, failed, found, route};
use crate::{Context, SCHEMA_VERSION};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use volume::{Error, FormatOptions, Shape};

/// How much one write of the empty tables may move.
const MEMORY_BYTES: usize = 1 << 20;
const LABEL_BYTES: usize = 32;

/// Make an empty volume on a device.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A plain file needs no preparation: `straightway format disk.img --size 1G` makes it.

A drive is named by --destroy-data with its serial number. A file that holds anything is left alone
without --force; so is a model's file.")]
pub struct Format {
    /// The device, or a plain file
    pub device: String,
    /// Allocation unit, 64 bytes to 1 GiB [about 1/32768 of the volume, 4 KiB to 1 MiB]
    #[arg(long, value_name = "SIZE")]
    pub unit: Option<Size>,
    /// Metadata node, 256 bytes to 16 KiB [the device's block, at least 512]
    #[arg(long, value_name = "SIZE")]
    pub node: Option<Size>,
    /// How many files it can hold, rounded up to 8 times a power of two [1024, fewer on a small
    /// device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: Option<u32>,
    /// A label for people, at most 32 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
    /// Give files checksums, which put and record then keep; readers that know none refuse the volume
    #[arg(long)]
    pub checksums: bool,
    /// Size of the volume; a plain file that is missing or empty gets this size [the whole device]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// The drive's serial number: its data will be lost
    #[arg(long, value_name = "SERIAL")]
    pub destroy_data: Option<String>,
    /// Format a file although it holds something
    #[arg(long)]
    pub force: bool,
    /// How to get there
    #[command(flatten)]
    pub route: Route,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this form: 2.
    pub schema_version: u32,
    /// What the user called it, resolved.
    pub device: String,
    /// The path that was taken.
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
    /// How many files it can hold.
    pub slots: u32,
    /// What files can take together.
    pub capacity_bytes: u64,
    /// What the volume keeps for itself.
    pub metadata_bytes: u64,
    /// Whether files can have checksums.
    pub checksums: bool,
}

impl Format {
    /// Runs it.
    ///
    /// # Errors
    /// It is not permitted, the parameters do not suit the device, or the device.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        if self.label.len() > LABEL_BYTES {
            let bytes = self.label.len();
            let what = format!("the label has {bytes} bytes, and there is room for {LABEL_BYTES}");
            return Err(Failure::usage(what));
        }
        let made = self.make_file()?;
        let report = self.format(context);
        if let (Some(path), Err(_)) = (made, &report) {
            // Ours a moment ago, and of no use: it goes again.
            let _ = std::fs::remove_file(path);
        }
        let report = report?;
        match self.json {
            true => context.console.json(&report)?,
            false => context.console.print(&report.text())?,
        }
        Ok(Exit::Done)
    }

    /// Makes the plain file where DEVICE names one that is missing, and says which.
    fn make_file(&self) -> Result<Option<&Path>> {
        let (Some(size), Some(path)) = (self.size, Drive::plain_file(&self.device)) else {
            return Ok(None);
        };
        let is_new = !path.exists();
        let is_empty = std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() == 0);
        if !is_new && !is_empty {
            return Ok(None);
        }
        let file = File::options()
            .write(true)
            .create_new(is_new)
            .open(path)
            .map_err(|error| Failure::io("making", path, &error))?;
        let sized = file.set_len(size.0);
        if let Err(error) = sized {
            if is_new {
                let _ = std::fs::remove_file(path);
            }
            return Err(Failure::io("making", path, &error));
        }
        Ok(is_new.then_some(path))
    }

    fn format(&self, context: &Context) -> Result<Report> {
        let drive = Drive::find(&context.roots, &self.device);
        let drive = drive.map_err(|failure| match Drive::plain_file(&self.device) {
            Some(path) if !path.exists() => {
                Failure::missing(format!("there is no file {}", path.display()))
                    .hint("--size 1G makes it")
            }
            _ => failure,
        })?;
        let given = self.destroy_data.as_deref();
        // A file needs no name: what it holds is looked at.
        let purpose = match (&drive, given) {
            (Drive::Nvme(_) | Drive::Coprocessor(_), _) | (_, Some(_)) => Purpose::Destroy(given),
            _ => Purpose::Change,
        };
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let way = self.route.with_buffers(MEMORY_BYTES as u64, 1);
        let mut store = Store::granted(context, grant, &route::wish(&way, true))?;
        let report = self.format_opened(context, &mut store);
        store.close(report)
    }

    fn format_opened(&self, context: &Context, store: &mut Store) -> Result<Report> {
        let geometry = *store.opened.device.geometry();
        if geometry.features.read_only {
            return Err(Failure::request("formatting", block::Error::ReadOnly));
        }
        let options = FormatOptions {
            volume_bytes: self.size.map(|size| size.0),
            unit_bytes: self.unit.map(|size| size.0),
            node_bytes: self.node.map(|size| size.0.try_into().unwrap_or(u32::MAX)),
            slots: self.slots,
            checksums: self.checksums,
            label: &self.label,
            uuid: random_identity()?,
        };
        // Nothing is written unless the shape is right and nothing would be lost.
        let shape = options.shape(&geometry);
        shape.map_err(|error| self.explain(error, &geometry, &store.drive))?;
        self.refuse_what_stands(store, &context.cancel)?;
        let bytes = MEMORY_BYTES.min(geometry.max_transfer_bytes());
        let memory = store.opened.memory.allocate(bytes)?;
        let device = &mut store.opened.device.as_mut();
        let (result, memory) = volume::format(device, memory, &options);
        if let Some(memory) = memory {
            store.opened.memory.give_back(memory);
        }
        let shape = result.map_err(|error| {
            failed(format_args!("formatting {}", store.drive), error)
                .and("it holds no volume until a format succeeds")
        })?;
        Ok(Report::new(store, &shape, &options))
    }

    fn explain(&self, error: Error, geometry: &block::Geometry, drive: &Drive) -> Failure {
        let size_bytes = geometry.size_bytes();
        let failure = failed(format_args!("{drive} was left alone"), error);
        match self.size {
            Some(size) if size.0 > size_bytes => Failure::usage(format!(
                "--size is {} bytes, and {drive} has {size_bytes}",
                size.0
            ))
            .hint("a smaller --size, or a larger device"),
            _ => failure.hint(format!(
                "units (64 bytes to 1 GiB) and nodes (256 bytes to 16 KiB) are powers of two, \
                 neither is smaller than the device's block of {} bytes, and the tables take at \
                 least 128 KiB; go without options, or take a larger device",
                geometry.block_size_bytes()
            )),
        }
    }

    /// A drive was named by its serial number; files and models are looked at.
    fn refuse_what_stands(&self, store: &mut Store, cancel: &Cancel) -> Result<()> {
        if self.force || self.destroy_data.is_some() || matches!(store.drive, Drive::Nvme(_)) {
            return Ok(());
        }
        let beginning = read_beginning(store, cancel)?;
        let is_file = matches!(
            store.drive,
            Drive::File(_) | Drive::Model(ModelDrive { file: Some(_), .. })
        );
        let what = match found::on(&beginning) {
            Some(what) => what,
            // A photograph has no signature of a file system.
            None if is_file && beginning.iter().any(|&byte| byte != 0) => "data",
            None => return Ok(()),
        };
        Err(
            Failure::usage(format!("{} holds {what}; nothing was done", store.drive))
                .hint("--force, if it may be lost"),
        )
    }
}

fn read_beginning(store: &mut Store, cancel: &Cancel) -> Result<Vec<u8>> {
    let geometry = *store.opened.device.geometry();
    let span = Span {
        offset_bytes: 0,
        length_bytes: found::LOOK_BYTES.min(geometry.size_bytes()),
        operation_bytes: geometry.block_size_bytes().max(64 << 10) as u64,
        depth: 1,
    };
    let mut beginning = Vec::new();
    transfer(
        store.opened.device.as_mut(),
        &store.opened.memory,
        &span,
        End::Sink(&mut |data| {
            beginning.extend_from_slice(data);
            Ok(())
        }),
        &mut |_| {},
        cancel,
    )?;
    Ok(beginning)
}

/// 16 random bytes in the form of a random UUID.
fn random_identity() -> Result<[u8; 16]> {
    let path = Path::new("/dev/urandom");
    let failed = |error: std::io::Error| Failure::io("reading", path, &error);
    let mut uuid = [0; 16];
    let mut file = File::open(path).map_err(failed)?;
    file.read_exact(&mut uuid).map_err(failed)?;
    // RFC 9562: version 4 and the variant.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

/// An identity as it is written.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report {
    fn new(store: &Store, shape: &Shape, options: &FormatOptions<'_>) -> Self {
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
            capacity_bytes,
            metadata_bytes: shape.volume_bytes - capacity_bytes,
            checksums: options.checksums,
        }
    }

    fn text(&self) -> String {
        let share = self.metadata_bytes as f64 * 100.0 / self.volume_bytes as f64;
        let label = match self.label.as_str() {
            "" => String::new(),
            label => format!(" `{label}`"),
        };
        let checksums = match self.checksums {
            true => "files get checksums",
            false => "no checksums",
        };
        format!(
            "made a volume{label} of {} on {}: room for {} in at most {} files; \
             units of {}, nodes of {}, metadata {} ({share:.2} %), {checksums}\n",
            rounded(self.volume_bytes),
            self.device,
            rounded(self.capacity_bytes),
            self.slots,
            Size(self.unit_bytes),
            Size(self.node_bytes),
            rounded(self.metadata_bytes),
        )
    }
}
