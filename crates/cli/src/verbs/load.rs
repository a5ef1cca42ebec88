// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway load DEVICE NAME ADDRESS`: a file of a volume into a window of physical memory.
//!
//! CharIO moves the data between the drive and the window, in which an accelerator or another
//! processor finds it; the main processor copies nothing. `flush` writes the window back.

use crate::Context;
use crate::exit::Exit;
use block::Buffer;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::path::memory::Memory;
use devices::path::{OpenOptions, PathChoice};
use files::names::check_name;
use files::store::NODE_MEMORY_BYTES;
use files::{Access, Mounted, Store, failed, shown};
use linux::HostMemory;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Instant;
use units::{Size, micros};
use volume::blocking;

/// A file and a place in physical memory.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The drive with the volume
    pub device: String,
    /// The file's name in the volume
    pub name: String,
    /// The physical address in a granted window, in hexadecimal
    #[arg(value_parser = address)]
    pub address: u64,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub namespace: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Load a file of a volume into a window of physical memory.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The window is granted by the administrator: insmod chario.ko windows=ADDRESS:LENGTH. The file's data begins at ADDRESS, and the rest
of its last block is filled up. Nothing else in the window changes. A file with checksums is verified in the window.")]
pub struct Load {
    /// What to load, and where
    #[command(flatten)]
    pub place: Place,
}

/// What `load` or `flush` moved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Moved {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path.
    pub path: String,
    /// The file.
    pub name: String,
    /// Physical address of its first byte.
    pub address: u64,
    /// Size of the file.
    pub length_bytes: u64,
    /// Duration of the transfer.
    pub elapsed_us: u64,
    /// Whether the file has checksums, which were verified by a load.
    pub checksums: bool,
}

fn address(text: &str) -> std::result::Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| "not a hexadecimal address such as 0x20000000".into())
}

impl Load {
    /// Runs the verb.
    ///
    /// # Errors
    /// The drive, the volume, the file or the window failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let moved = self.place.moved(context, Access::Read, |mounted, buffer| {
            let doing = || format!("loading `{}`", shown(&self.place.name));
            let name = &self.place.name;
            let file = mounted.run(doing(), mounted.volume.open(name))?;
            let outcome = blocking::read(mounted.volume, file, 0, buffer);
            let closed = mounted.run(doing(), mounted.volume.close(file));
            Ok((outcome, closed.map(|_| ())))
        })?;
        self.place.tell(context, &moved, "loaded")
    }
}

impl Place {
    /// Opens the volume with buffers at the address, and moves the file by `body`, which gets a
    /// buffer of the file's whole blocks.
    ///
    /// # Errors
    /// The drive, the volume, the file or the window failed.
    pub fn moved(
        &self,
        context: &Context,
        access: Access,
        body: impl FnOnce(&Mounted<'_, '_>, Buffer) -> Result<(blocking::Outcome, Result<()>)>,
    ) -> Result<Moved> {
        check_name(&self.name)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let options = OpenOptions {
            path: PathChoice::by_name("chario-phys")?,
            namespace: self.namespace,
            // The window can be mapped only of a node that is open to write; the mount itself is
            // for reading.
            write: true,
            window: Some(self.address),
            ..OpenOptions::reading(4096, 1)
        };
        let mut store = Store::of(context, drive, &options)?;
        let result = self.in_window(&mut store, access, body);
        store.close(result)
    }

    fn in_window(
        &self,
        store: &mut Store,
        access: Access,
        body: impl FnOnce(&Mounted<'_, '_>, Buffer) -> Result<(blocking::Outcome, Result<()>)>,
    ) -> Result<Moved> {
        // The volume's nodes are in other memory, so that the window has nothing but the file.
        let own = Memory::Host(HostMemory::new(NODE_MEMORY_BYTES + (1 << 20))?);
        let window = std::mem::replace(&mut store.opened.memory, own);
        let began = Instant::now();
        let moved = store.mount(access, |mounted| {
            let doing = || format!("opening `{}`", shown(&self.name));
            let entry = mounted.run(doing(), mounted.volume.find(&self.name))?;
            let block = mounted.volume.geometry().block_size_bytes() as u64;
            let whole = entry.size_bytes.next_multiple_of(block);
            let moved = Moved {
                schema_version: SCHEMA_VERSION,
                device: mounted.drive.to_string(),
                path: mounted.path.to_owned(),
                name: self.name.clone(),
                address: self.address,
                length_bytes: entry.size_bytes,
                elapsed_us: 0,
                checksums: entry.checksums,
            };
            if access == Access::Write && entry.checksums {
                let what = format!(
                    "`{}` has checksums, which cannot change in place",
                    shown(&self.name)
                );
                return Err(
                    Error::unsupported(what).hint("straightway put --force makes a new file")
                );
            }
            if whole == 0 {
                return Ok(moved);
            }
            let bytes = usize::try_from(whole).unwrap_or(usize::MAX);
            let buffer = window.allocate(bytes).map_err(|_| {
                Error::usage(format!(
                    "`{}` has {}, and the window has less from {:#x} on",
                    shown(&self.name),
                    Size(entry.size_bytes),
                    self.address
                ))
                .hint("grant a larger window")
            })?;
            let (outcome, closed) = body(mounted, buffer)?;
            window.give_back(outcome.buffer);
            let what = format!("moving `{}`", shown(&self.name));
            outcome.result.map_err(|error| failed(what, error))?;
            closed?;
            Ok(moved)
        })?;
        Ok(Moved {
            elapsed_us: micros(began.elapsed()),
            ..moved
        })
    }

    /// Prints what was moved.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn tell(&self, context: &Context, moved: &Moved, done: &str) -> Result<Exit> {
        if self.json {
            context.console.json(moved)?
        } else {
            context.say(format_args!(
                "{done} `{}`: {} at {:#x}",
                shown(&moved.name),
                Size(moved.length_bytes),
                moved.address
            ))
        }
        Ok(Exit::Done)
    }
}
