// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a bench from the user's options: which drive, whether it may be destroyed, how much of it.

use crate::choices;
use crate::grave::GRAVE;
use crate::output::Saving;
use bench::{Bench, Plan, stretch};
use block::Device as _;
use clap::Args;
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::Grant;
use devices::path::{self, OpenOptions, PathChoice, power};
use linux::coprocessor::{Coprocessor, CoprocessorOptions};
use linux::resolve::Resolved;
use measure::run_info::{Figure, Request};
use measure::{Access, DeviceInfo, Operation, Pattern};
use paths::{Group, PathKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use units::{Size, Time};

/// The common options of all verbs that measure.
#[derive(Clone, Debug, Args)]
pub struct Subject {
    /// The drive
    pub device: String,
    /// The drive's serial number: its data will be overwritten. Needed for writes and for ext4
    #[arg(long, value_name = "SERIAL", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// How much of the drive each path uses, at most
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub span: Size,
    /// The seed of offsets, data and intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub namespace: Option<u32>,
    /// Keep the drive out of power states that delay a command longer, until the end; 0us keeps it
    /// awake
    #[arg(long, value_name = "TIME")]
    pub latency_limit: Option<Time>,
    /// The window of a storage coprocessor: adds the path `coprocessor`, to the drive behind it
    #[arg(long, value_name = "FILE")]
    pub coprocessor: Option<PathBuf>,
    /// Where the report is saved
    #[command(flatten)]
    pub saving: Saving,
    /// A picture to include in the report, such as one of `make figures`
    #[arg(long, value_name = "SVG")]
    pub figure: Vec<PathBuf>,
}

/// The operation on one path.
#[derive(Clone, Copy, Debug, Args)]
pub struct Asked {
    /// The path [default: the straight path, or the target's first]
    #[arg(long, value_name = "PATH", value_parser = crate::path_options::path())]
    pub path: Option<PathChoice>,
    /// The operation
    #[arg(long, value_name = "OPERATION", value_parser = choices::operation(), default_value = "read")]
    pub operation: Operation,
    /// The order of offsets
    #[arg(long, value_name = "PATTERN", value_parser = choices::pattern(), default_value = "sequential")]
    pub pattern: Pattern,
}

impl Asked {
    /// The access in blocks of this size.
    pub const fn access(&self, block: Size) -> Access {
        Access::new(self.operation, self.pattern, block.0)
    }

    /// The requirements on the drive.
    pub fn wants(&self, block: Size) -> Wants<'_> {
        Wants::new(self.path.as_slice(), block.0).writing(&[self.operation])
    }
}

/// A verb's requirements on a drive.
#[derive(Clone, Copy, Debug)]
pub struct Wants<'a> {
    paths: &'a [PathChoice],
    many: bool,
    writes: bool,
    largest_bytes: u64,
    offered: &'a [Size],
    queue_depth: u16,
    threads: u16,
}

impl<'a> Wants<'a> {
    /// One of `paths`, or all of them; the drive's first path if the list is empty. Operations are
    /// at most this large.
    pub const fn new(paths: &'a [PathChoice], largest_bytes: u64) -> Self {
        Self {
            paths,
            many: false,
            writes: false,
            largest_bytes,
            offered: &[],
            queue_depth: 1,
            threads: 1,
        }
    }

    /// All usual paths if none is named.
    pub const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// Operations are as large as those of these sizes that fit, which [`Ready::sizes`] names.
    pub const fn offering(self, offered: &'a [Size]) -> Self {
        Self { offered, ..self }
    }

    /// Data is overwritten.
    pub fn writing(self, operations: &[Operation]) -> Self {
        let writes = operations.contains(&Operation::Write);
        Self { writes, ..self }
    }

    /// Sets the number of threads.
    pub const fn threads(self, threads: u16) -> Self {
        Self { threads, ..self }
    }

    /// Sets the number of operations in flight in each thread.
    pub const fn depth(self, queue_depth: u16) -> Self {
        Self {
            queue_depth,
            ..self
        }
    }
}

/// A prepared bench and the drive's properties.
pub struct Ready {
    /// The bench.
    pub bench: Rc<Bench>,
    /// The drive and the request, as recorded in the run.
    pub request: Request,
    /// The paths.
    pub kinds: Vec<&'static PathKind>,
    /// The offered sizes that fit.
    pub sizes: Vec<Size>,
}

impl Ready {
    /// The path of a verb that takes only one.
    ///
    /// # Errors
    /// The target has no path.
    pub fn path(&self) -> Result<(&'static PathKind, Box<dyn measure::Path>)> {
        let mut paths = bench::paths(&self.bench, &self.kinds);
        match (self.kinds.first(), paths.pop()) {
            (Some(kind), Some(path)) => Ok((kind, path)),
            _ => Err(Error::usage("missing --path")),
        }
    }
}

impl Subject {
    /// Finds the drive, checks that it may be used, and prepares it.
    ///
    /// # Errors
    /// The drive is missing, in use, too small, or may not be destroyed.
    pub fn ready(&self, context: &Context, wants: Wants<'_>) -> Result<Ready> {
        let figures = self.figure.iter().map(|file| figure(file));
        let figures = figures.collect::<Result<Vec<Figure>>>()?;
        let drive = Drive::find_and_say(context, &self.device)?;
        if self.latency_limit.is_some() {
            power::check(&drive)?;
        }
        let named = self.destroy_data.as_deref();
        let grant = Grant::to_measure(&context.roots, drive, wants.writes, named)?;
        let drive = grant.drive();
        let (namespace, device) = namespace_of(context, &grant, self.namespace)?;
        let kinds = match (wants.paths, wants.many) {
            ([], true) => drive.usual(self.coprocessor.is_some()),
            ([], false) => vec![drive.kind(PathChoice::AUTO)?],
            (named, _) => drive.kinds(named)?,
        };
        let (size_bytes, requested) = (device.size_bytes.unwrap_or(0), self.span.0);
        // A whole file or all memory.
        let (raw_offset_bytes, span_bytes) = match drive {
            Drive::File(_) | Drive::Ram(_) => (0, requested.min(size_bytes) & !511),
            _ => stretch(size_bytes, requested),
        };
        let threads = u64::from(wants.threads.max(1));
        let fits = |size: &&Size| size.0.saturating_mul(threads) <= span_bytes;
        let sizes: Vec<Size> = wants.offered.iter().filter(fits).copied().collect();
        let largest_bytes = sizes
            .iter()
            .map(|size| size.0)
            .max()
            .unwrap_or(wants.largest_bytes);
        let plan = Plan {
            destroys: self.destroy_data.is_some() || (wants.writes && !drive.is_divided()),
            raw_offset_bytes,
            span_bytes,
            largest_bytes,
            queue_depth: wants.queue_depth,
            threads: wants.threads,
            gathers: kinds.iter().any(|kind| kind.gathers),
            latency_limit_us: self.latency_limit.map(Time::whole_us),
        };
        if plan.span_bytes < largest_bytes {
            return Err(Error::usage(format!(
                "operations of {} do not fit: each path has {} of this drive",
                Size(largest_bytes),
                Size(plan.span_bytes)
            ))
            .hint("smaller blocks, a larger --span, or a larger drive"));
        }
        if let Some(first) = wants.offered.iter().find(|size| !fits(size)) {
            context.say(format_args!(
                "without operations of {first} and more: each path has {} of this drive; name others with --sizes, or a larger --span",
                Size(plan.span_bytes)
            ));
        }
        self.saving.make_folder()?;
        let window = window(drive, self.coprocessor.as_deref())?;
        let bench = Bench::new(context, grant, namespace, plan, window)?;
        if self.destroy_data.is_some() && bench.drive().is_divided() {
            context.say("preparing the drive");
            let with_ext4 = kinds.iter().any(|kind| kind.group == Group::Ext4);
            bench::prepare(&bench, with_ext4, self.seed, &context.cancel)?;
        }
        Ok(Ready {
            bench,
            request: Request {
                figures,
                ..request(device, self.seed)
            },
            kinds,
            sizes,
        })
    }
}

/// Reads a picture. Reports embed it as an image, so that it cannot run scripts or load anything.
fn figure(file: &Path) -> Result<Figure> {
    let svg = std::fs::read_to_string(file).map_err(|error| Error::io("reading", file, &error))?;
    if !svg.contains("<svg") || !svg.trim_end().ends_with("</svg>") {
        return Err(Error::usage(format!(
            "{} is not an SVG picture",
            file.display()
        )));
    }
    let title = file.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Figure {
        title: title.replace(['_', '-'], " "),
        svg,
    })
}

/// A run of this command on `device`.
pub fn request(device: DeviceInfo, seed: u64) -> Request {
    Request {
        device,
        commands: vec![command_line()],
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        figures: Vec::new(),
    }
}

/// The command line.
fn command_line() -> String {
    let words = std::env::args().skip(1);
    let command: Vec<String> = std::iter::once("straightway".to_owned())
        .chain(words)
        .collect();
    command.join(" ")
}

/// The measured namespace, and the drive's properties.
///
/// # Errors
/// The drive has no paths, or is not bound to the driver that measuring starts from.
fn namespace_of(
    context: &Context,
    grant: &Grant,
    namespace: Option<u32>,
) -> Result<(u32, DeviceInfo)> {
    let drive = grant.drive();
    let plain = |size_bytes, model: Option<&str>| DeviceInfo {
        name: drive.to_string(),
        model: model.map(str::to_owned),
        size_bytes: Some(size_bytes),
        ..DeviceInfo::default()
    };
    let device = match drive {
        Drive::Nvme(resolved) => return nvme(context, resolved, namespace),
        Drive::Disk(disk) => {
            if namespace.is_some_and(|namespace| namespace != 1) {
                return Err(Error::missing(format!("{disk} has no namespaces")));
            }
            DeviceInfo {
                serial: disk.serial.clone(),
                ..plain(disk.size_bytes, disk.model.as_deref())
            }
        }
        Drive::Model(model) => plain(model.size_bytes, Some(measure::run_info::MODEL_CONTROLLER)),
        Drive::Coprocessor(path) => {
            let opened = Coprocessor::open(path, CoprocessorOptions::default())?;
            grant.confirm(Some(opened.serial()))?;
            DeviceInfo {
                name: drive.to_string(),
                model: Some(opened.model().to_owned()),
                serial: Some(opened.serial().to_owned()),
                size_bytes: Some(opened.geometry().size_bytes()),
                ..DeviceInfo::default()
            }
        }
        Drive::File(path) => {
            let found = std::fs::metadata(path);
            let found = found.map_err(|error| Error::io("opening", path, &error))?;
            plain(found.len(), None)
        }
        Drive::Ram(bytes) => plain(*bytes, Some("memory")),
        Drive::Array(_) | Drive::Remote(_) => {
            let options = OpenOptions::reading(4096, 1);
            let opened = path::open(context, grant, &options)?;
            let size_bytes = opened.device.geometry().size_bytes();
            opened.close()?;
            plain(size_bytes, None)
        }
    };
    Ok((1, device))
}

fn nvme(
    context: &Context,
    resolved: &Resolved,
    namespace: Option<u32>,
) -> Result<(u32, DeviceInfo)> {
    if let Some(partition) = &resolved.partition {
        return Err(
            Error::unsupported(format!("{partition} is a partition")).hint("name the namespace")
        );
    }
    let controller = &resolved.controller;
    let path = resolved.controller_path(&context.roots).ok_or_else(|| {
        Error::missing(format!(
            "{} is bound to {}; measuring starts from the kernel's NVMe driver",
            controller.address,
            controller.driver.as_deref().unwrap_or("no driver")
        ))
        .hint(format!("straightway release {}", controller.address))
    })?;
    let nsid = match devices::path::namespace_of(resolved, namespace)? {
        Some(wanted) => Some(wanted),
        None => resolved.only_namespace()?.nsid,
    };
    let nsid = nsid.ok_or_else(|| {
        Error::missing("the kernel does not report the namespace's identifier")
            .hint("--namespace 1")
    })?;
    let facts =
        devices::facts::of_kernel(resolved.to_string(), &path, resolved.controller.pci_id())?;
    let found = facts.namespaces.iter().find(|one| one.namespace == nsid);
    let found = found.ok_or(nvme::Error::NoNamespace { nsid })?;
    if let Some(why) = &found.unusable {
        return Err(Error::unsupported(why.clone()));
    }
    let device = DeviceInfo {
        name: resolved.to_string(),
        model: Some(facts.model),
        serial: Some(facts.serial),
        firmware: Some(facts.firmware),
        pci_address: Some(controller.address.to_string()),
        size_bytes: Some(found.size_bytes),
    };
    Ok((nsid, device))
}

/// The coprocessor's window, for the path through it: the target's, or the one given by
/// `--coprocessor`.
///
/// # Errors
/// Two different windows are named.
fn window(drive: &Drive, named: Option<&Path>) -> Result<Option<PathBuf>> {
    match (drive, named) {
        (Drive::Coprocessor(own), Some(other)) if own != other => Err(Error::usage(
            "DEVICE and --coprocessor name different windows",
        )),
        (Drive::Coprocessor(own), _) => Ok(Some(own.clone())),
        _ => Ok(named.map(Path::to_path_buf)),
    }
}
