// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway serve DEVICE [NAME]`: a device, or a file of a volume, as a disk of others: `--nbd
//! ADDRESS` as a Network Block Device, `--vhost-user SOCKET` as a virtual machine's, `--ublk` as a
//! block device of this machine's kernel.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::RouteArgs;
use block::{Device, Geometry};
use clap::{ArgGroup, Args};
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{Grant, Purpose};
use devices::path::OpenOptions;
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use export::Limits;
use files::listing::refuse_unfinished;
use files::store::NODE_MEMORY_BYTES;
use files::{Access, Mounted, Store, failed, shown};
use map::FileDevice;
use nbd::Export;
use schemars::JsonSchema;
use serde::Serialize;
use serve::address::{Address, Listener};
use serve::nbd::Network;
use serve::nbd::tls::Certificates;
use serve::ublk::Node;
use serve::vhost_user::Machines;
use serve::{self, ServeCounts, ServeSource};
use std::path::PathBuf;
use std::time::Instant;
use units::{Size, micros};
use virtio::Disk;

/// The longest request that every server takes: some clients do not ask for its limit.
const LEAST_PAYLOAD_BYTES: usize = 1 << 20;
/// Queues of a virtual machine's disk: one for each of its processors.
const MAX_QUEUES: u16 = 64;
/// The most memory for which a device is asked.
const MAX_MEMORY_BYTES: u64 = 16 << 30;

/// Serve a device, or a file of a volume, as a disk of others.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("way").required(true))]
#[command(after_help = "\
The server runs until SIGINT or SIGTERM, completes the requests under way, flushes what was written, and reports. Clients read and
write by the path of --path. --nbd is for QEMU (-drive file=nbd://localhost:10809), nbdcopy, nbdinfo, nbd-client and others;
--vhost-user for a virtual machine whose memory is shared (QEMU's vhost-user-blk-pci); --ublk makes a block device of this machine (/dev/ublkbN).

Nothing is written without --write. Without --tls, whoever reaches the address may read, and with --write change, everything: use a
Unix socket, or a network that only trusted machines reach.

A read may begin and end anywhere. Writes are in whole blocks, whose size clients are told; others fail (EINVAL). A file of a volume
is written in place and keeps its size, and one with checksums is only read, and verified.")]
pub struct Serve {
    /// The device
    pub device: String,
    /// A file's name in the volume on it [the device itself]
    pub name: Option<String>,
    /// As a Network Block Device, where clients connect: HOST:PORT (10809 is NBD's, 0 any free
    /// port), unix:PATH, or a path with a `/`
    #[arg(long, value_name = "ADDRESS", group = "way")]
    pub nbd: Option<Address>,
    /// As a virtual machine's virtio disk: the Unix socket at which its emulator connects
    #[arg(long, value_name = "SOCKET", group = "way")]
    pub vhost_user: Option<PathBuf>,
    /// As a block device of this machine's kernel, /dev/ublkbN (root, Linux 6.6, modprobe ublk_drv)
    #[arg(long, group = "way")]
    pub ublk: bool,
    /// Let clients write
    #[arg(long)]
    pub write: bool,
    /// With --write: the drive's serial number, since its data may be overwritten. For file: and
    /// model:...,file= the file's path or name; not needed for memory and for a file of a volume
    #[arg(
        long,
        value_name = "SERIAL",
        requires = "write",
        conflicts_with = "name",
        help_heading = GRAVE
    )]
    pub destroy_data: Option<String>,
    /// Require TLS and client certificates: FOLDER has ca-cert.pem, server-cert.pem and
    /// server-key.pem
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["vhost_user", "ublk"])]
    pub tls: Option<PathBuf>,
    /// With --nbd: clients at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with_all = ["vhost_user", "ublk"], value_parser = clap::value_parser!(u16).range(1..=256))]
    pub connections: u16,
    /// Memory for data; each connection has an equal share, which also limits its longest request
    #[arg(long, value_name = "SIZE", default_value = "32M")]
    pub memory: Size,
    /// Bytes per command of the device; longer requests become several
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub block_size: Size,
    /// Requests of a connection that are under way
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub queue_depth: u16,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON at the end
    #[arg(long)]
    pub json: bool,
}

/// What a server has done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The file; null for the device itself.
    pub name: Option<String>,
    /// Where clients found it; the socket's path for vhost-user, the node's for ublk.
    pub uri: String,
    /// Its size.
    pub size_bytes: u64,
    /// The unit of writes.
    pub block_bytes: u32,
    /// Nothing could be written.
    pub read_only: bool,
    /// Connections were encrypted, and clients had certificates.
    pub tls: bool,
    /// The data was compared with the file's checksums.
    pub verified: bool,
    /// How long it was served.
    pub elapsed_us: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Those of them that ended without the protocol's farewell.
    pub lost_connections: u64,
    /// Requests that were completed.
    pub requests: Requests,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Requests that were malformed, unaligned, out of range or not permitted.
    pub refused_requests: u64,
    /// Requests that the device failed.
    pub failed_requests: u64,
}

/// Requests that were completed, by their kinds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Requests {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Ranges that were given back.
    pub trim: u64,
    /// Ranges that were zeroed.
    pub write_zeroes: u64,
}

impl Serve {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume or the address failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let certificates = self.tls.as_deref().map(Certificates::load).transpose()?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let purpose = match (&self.name, self.write) {
            (_, false) => Purpose::Read,
            (Some(_), true) => Purpose::Change,
            (None, true) => Purpose::Destroy(self.destroy_data.as_deref()),
        };
        let grant = Grant::of(&context.roots, drive, purpose)?;
        let options = self.open_options()?;
        let mut store = Store::granted(context, grant, &options)?;
        context.say(format_args!("path: {}", store.opened.name));
        let report = match &self.name {
            Some(name) => {
                let access = if self.write {
                    Access::Write
                } else {
                    Access::Read
                };
                store.mount(access, |mounted| {
                    self.serve_file(context, mounted, name, certificates)
                })
            }
            None => {
                let memory = store.opened.memory.clone();
                let (device, recall) = store.opened.parts();
                let size_bytes = device.geometry().size_bytes();
                let served =
                    self.serve(context, device, size_bytes, (&memory, recall), certificates);
                let (drive, path) = (&store.drive, &store.opened.name);
                served.map(|served| self.report(drive, path, served))
            }
        };
        let report = store.close(report)?;
        if self.json {
            context.console.json(&report)?;
        }
        context.say(format_args!(
            "{} connections; {} read and {} written; {} requests refused, {} failed, {} connections lost",
            report.connections,
            Size(report.read_bytes),
            Size(report.written_bytes),
            report.refused_requests,
            report.failed_requests,
            report.lost_connections
        ));
        Ok(Exit::Done)
    }

    fn open_options(&self) -> Result<OpenOptions> {
        if self.memory.0 > MAX_MEMORY_BYTES {
            let what = format!(
                "--memory is {}, more than {}",
                self.memory,
                Size(MAX_MEMORY_BYTES)
            );
            return Err(Error::usage(what));
        }
        let io = self.route.with_buffers(self.block_size.0, self.queue_depth);
        let options = io.open_options(self.write);
        // The shares are rounded up to at least three buffers of whole blocks.
        let connections = self.clients();
        let least = connections * 3 * self.piece_bytes();
        let bytes = usize::try_from(self.memory.0)
            .unwrap_or(usize::MAX)
            .max(least);
        Ok(OpenOptions {
            buffer_bytes: bytes
                .saturating_add(NODE_MEMORY_BYTES)
                .saturating_add(2 << 20),
            queue_depth: self.queue_depth.saturating_mul(2).clamp(32, 4096),
            ..options
        })
    }

    /// Clients at the same time.
    fn clients(&self) -> usize {
        match self.nbd {
            Some(_) => self.connections.into(),
            None => 1,
        }
    }

    /// Bytes of a buffer before the device's block is known: in whole blocks of the largest size.
    fn piece_bytes(&self) -> usize {
        let largest = devices::path::LARGEST_BLOCK_BYTES;
        let bytes = usize::try_from(self.block_size.0).unwrap_or(usize::MAX);
        bytes.clamp(1, 16 << 20).next_multiple_of(largest)
    }

    fn serve_file(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        name: &str,
        certificates: Option<Certificates>,
    ) -> Result<Report> {
        let doing = || format!("opening `{}`", shown(name));
        let entry = mounted.run(doing(), mounted.volume.find(name))?;
        refuse_unfinished(&entry)?;
        let is_verified = entry.checksums && !self.write;
        if entry.checksums && self.write {
            let what = format!(
                "`{}` has checksums, and is not changed in place",
                shown(name)
            );
            return Err(Error::unsupported(what).hint("omit --write"));
        }
        let file = if self.write {
            mounted.run(doing(), mounted.volume.open_to_write(name))?
        } else {
            mounted.run(doing(), mounted.volume.open(name))?
        };
        let device = if is_verified {
            FileDevice::verifying(mounted.volume, file)
        } else {
            FileDevice::new(mounted.volume, file, self.write)
        };
        let served = match device {
            Ok(mut device) => {
                let size_bytes = if self.write {
                    device.geometry().size_bytes()
                } else {
                    device.size_bytes()
                };
                self.serve(
                    context,
                    &mut device,
                    size_bytes,
                    (mounted.memory, mounted.recall),
                    certificates,
                )
            }
            Err(volume::Error::PastEnd) => Err(Error::usage(format!("`{}` is empty", shown(name)))),
            Err(error) => Err(failed(doing(), error)),
        };
        let closed = mounted.run(doing(), mounted.volume.close(file));
        let served = served.and_then(|served| closed.map(|()| served))?;
        let report = self.report(mounted.drive, mounted.path, served);
        Ok(Report {
            verified: is_verified,
            ..report
        })
    }

    fn serve<D: Device>(
        &self,
        context: &Context,
        mut device: D,
        size_bytes: u64,
        (memory, recall): (&Memory, Recall<'_>),
        certificates: Option<Certificates>,
    ) -> Result<Served> {
        let geometry = *device.geometry();
        if self.write && geometry.features.read_only {
            return Err(Error::request(
                "serving it with --write",
                block::Error::ReadOnly,
            ));
        }
        let limits = self.limits(&geometry)?;
        let max_payload_bytes = limits.max_payload_bytes();
        let name = self.name.as_deref().unwrap_or_default();
        let export = Export {
            size_bytes,
            description: format!("straightway {}", self.device),
            ..Export::of(&geometry, name, self.write, max_payload_bytes)
        };
        let source = ServeSource {
            device: &mut device,
            memory,
            recall,
            limits,
            clients: self.clients(),
            writes: !export.read_only,
        };
        let began = Instant::now();
        let (uri, counts) = match (&self.nbd, &self.vhost_user) {
            (Some(address), _) => {
                let listener = Listener::bind(address)?;
                let uri = listener.uri(name, self.tls.is_some());
                if listener.is_public() && self.tls.is_none() {
                    context.say("other machines may reach this address, and need no password");
                }
                context.say(announcement(&export, &uri));
                let front = Network::new(export.clone(), certificates, source.clients, listener);
                (uri, serve::serve(context, source, front)?)
            }
            (None, Some(path)) => {
                let address = Address::Unix(path.clone());
                let listener = Listener::bind(&address)?;
                let id = self.name.as_deref().unwrap_or(&self.device);
                let disk = Disk {
                    size_bytes,
                    queues: MAX_QUEUES,
                    ..Disk::of(&geometry, self.write, max_payload_bytes, id)
                };
                let uri = address.to_string();
                context.say(announcement(&export, &uri));
                let front = Machines::new(disk, listener);
                (uri, serve::serve(context, source, front)?)
            }
            (None, None) => {
                let disk = self.node_of(&export, &geometry)?;
                let mut front = Node::new(context, &disk)?;
                let uri = front.path();
                front.announce(announcement(&export, &uri));
                (uri, serve::serve(context, source, front)?)
            }
        };
        Ok(Served {
            uri,
            export,
            elapsed_us: micros(began.elapsed()),
            counts,
        })
    }

    /// The export as the kernel shall see it.
    fn node_of(&self, export: &Export, geometry: &Geometry) -> Result<linux::ublk::Disk> {
        if geometry.block_size_log2 > 12 {
            let what = format!("ublk with blocks of {} bytes", export.block_bytes);
            return Err(Error::unsupported(what).hint("--nbd, which has blocks of any size"));
        }
        Ok(linux::ublk::Disk {
            size_bytes: export.size_bytes,
            block_size_log2: geometry.block_size_log2.max(9),
            max_transfer_bytes: export.max_payload_bytes.min(1 << 20),
            depth: self.queue_depth,
            read_only: export.read_only,
            discard: export.trim,
            write_zeroes: export.write_zeroes,
        })
    }

    fn limits(&self, geometry: &Geometry) -> Result<Limits> {
        let clients = self.clients();
        let share = usize::try_from(self.memory.0).unwrap_or(usize::MAX) / clients;
        let piece = usize::try_from(self.block_size.0).unwrap_or(usize::MAX);
        let jobs = self.queue_depth.into();
        let limits = Limits::new(geometry, piece.min(16 << 20), share, jobs);
        if (limits.max_payload_bytes() as usize) < LEAST_PAYLOAD_BYTES {
            let least = clients * (LEAST_PAYLOAD_BYTES + 3 * limits.piece_bytes);
            let what = format!(
                "--memory is {}, too little for a request of 1 MiB from each of {clients} connections",
                self.memory
            );
            let hint = format!("--memory {least}, or fewer --connections");
            return Err(Error::usage(what).hint(hint));
        }
        Ok(limits)
    }

    fn report(&self, drive: &Drive, path: &str, served: Served) -> Report {
        let (export, counts) = (served.export, served.counts);
        Report {
            schema_version: SCHEMA_VERSION,
            device: drive.to_string(),
            path: path.to_owned(),
            name: self.name.clone(),
            uri: served.uri,
            size_bytes: export.size_bytes,
            block_bytes: export.block_bytes,
            read_only: export.read_only,
            tls: self.tls.is_some(),
            verified: false,
            elapsed_us: served.elapsed_us,
            connections: counts.connections,
            lost_connections: counts.lost,
            requests: Requests {
                read: counts.reads,
                write: counts.writes,
                flush: counts.flushes,
                trim: counts.trims,
                write_zeroes: counts.zeroes,
            },
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            refused_requests: counts.refused,
            failed_requests: counts.failed,
        }
    }
}

fn announcement(export: &Export, uri: &str) -> String {
    let access = if export.read_only {
        "read-only"
    } else {
        "for reading and writing"
    };
    let size = Size(export.size_bytes);
    format!("serving {size} {access} at {uri}")
}

/// What was served, and what clients did.
struct Served {
    uri: String,
    export: Export,
    elapsed_us: u64,
    counts: ServeCounts,
}
