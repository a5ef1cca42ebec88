// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway command DEVICE QUEUE OPCODE`: a generic or vendor specific command, by the straight
//! path.
//!
//! Each command is refused unless the user names it (`--allow NAME`), and each that may change the
//! drive or its data also unless the drive's serial is given. What the driver itself owns (queues,
//! events, doorbells) is refused always.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use clap::{Args, ValueEnum};
use devices::SCHEMA_VERSION;
use devices::command::{CommandQueue, DriveCommand, MOST_BYTES};
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::guard::{FunctionLock, Grant, Outlet, Output, Purpose};
use devices::path::handle::ControllerHandle;
use devices::path::straight::{self, Needs};
use nvme::{Direction, GenericCommand};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use units::Size;

/// The queue that a command goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Queue {
    /// The admin queue; data of at most 4 KiB
    Admin,
    /// An I/O queue of the namespace; data of at most 1 MiB, in whole blocks where the command says
    /// so
    Io,
}

/// Send a generic or vendor specific command to a drive.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command's name is printed when it is refused: --allow NAME sends it. A command that is not known to leave the drive and its data
as they are also needs --destroy-data SERIAL. Bits 1:0 of OPCODE are the direction of the data: 1 --write, 2 --read, 0 neither.
Commands for queues, events and doorbells are never sent. Dwords 14 and 15 are zero.")]
pub struct Command {
    /// The drive
    pub device: String,
    /// The queue
    #[arg(value_enum)]
    pub queue: Queue,
    /// The opcode
    #[arg(value_parser = byte)]
    pub opcode: u8,
    /// Command dwords
    #[arg(long, value_name = "N", default_value = "0", value_parser = dword)]
    pub cdw10: u32,
    /// Command dword 11
    #[arg(long, value_name = "N", default_value = "0", value_parser = dword)]
    pub cdw11: u32,
    /// Command dword 12
    #[arg(long, value_name = "N", default_value = "0", value_parser = dword)]
    pub cdw12: u32,
    /// Command dword 13
    #[arg(long, value_name = "N", default_value = "0", value_parser = dword)]
    pub cdw13: u32,
    /// The namespace of an admin command [default: 0, the controller], or of an I/O command
    /// [default: the drive's only one]
    #[arg(long, value_name = "N", value_parser = dword)]
    pub namespace: Option<u32>,
    /// Bytes that the drive returns
    #[arg(long, value_name = "SIZE", conflicts_with = "write")]
    pub read: Option<Size>,
    /// File with the data for the drive
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Where to store what the drive returns [default: shown in hexadecimal]
    #[arg(long, value_name = "FILE", requires = "read")]
    pub output: Option<PathBuf>,
    /// Replace the --output file if it exists
    #[arg(long, requires = "output", help_heading = GRAVE)]
    pub force: bool,
    /// The name of the command, which allows it
    #[arg(long, value_name = "NAME")]
    pub allow: Option<String>,
    /// The drive's serial number: the command may change the drive or its data
    #[arg(long, value_name = "SERIAL", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A drive's answer to a command.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The command.
    pub command: String,
    /// Dword 0 of the completion; null of an I/O command.
    pub result: Option<u32>,
    /// The returned data in hexadecimal; null without data, or if it was stored.
    pub data: Option<String>,
}

fn dword(text: &str) -> std::result::Result<u32, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.map_err(|_| "not a number of 32 bits such as 7 or 0x7f0002".into())
}

fn byte(text: &str) -> std::result::Result<u8, String> {
    let value = dword(text).ok().and_then(|value| u8::try_from(value).ok());
    value.ok_or_else(|| "not an opcode such as 0x06".into())
}

impl Command {
    fn plain(&self) -> DriveCommand {
        DriveCommand {
            queue: match self.queue {
                Queue::Admin => CommandQueue::Admin,
                Queue::Io => CommandQueue::Io,
            },
            opcode: self.opcode,
            dwords: [self.cdw10, self.cdw11, self.cdw12, self.cdw13],
            namespace: self.namespace,
            allow: self.allow.clone(),
        }
    }

    /// The data's bytes: those to send, or zeroes for those to receive.
    fn data(&self, command: &GenericCommand) -> Result<Vec<u8>> {
        let most = self.plain().most_bytes();
        let bytes = match (command.direction(), &self.write, self.read) {
            (Direction::None, None, None) => Vec::new(),
            (Direction::ToController, Some(file), None) => {
                std::fs::read(file).map_err(|error| Error::io("reading", file, &error))?
            }
            (Direction::FromController, None, Some(Size(len))) if len <= most => {
                vec![0; usize::try_from(len).unwrap_or(0)]
            }
            (Direction::FromController, None, Some(_)) => Vec::new(),
            (direction, ..) => {
                let hint = match direction {
                    Direction::None => "neither --read nor --write",
                    Direction::ToController => "--write FILE",
                    Direction::FromController => "--read SIZE",
                    Direction::Both => "another command: data in both directions is not supported",
                };
                let what = format!(
                    "bits 1:0 of opcode {:#04x} are the direction of its data",
                    self.opcode
                );
                return Err(Error::usage(what).hint(hint));
            }
        };
        self.plain().check_len(command, bytes.len())?;
        Ok(bytes)
    }

    /// Runs the verb.
    ///
    /// # Errors
    /// The command is not allowed, the drive is missing or in use, or the command failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let plain = self.plain();
        let (name, is_harmless) = plain.allowed()?;
        let command = plain.generic();
        let mut bytes = self.data(&command)?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let output = match &self.output {
            Some(file) => Some(Output::check(&context.roots, file, self.force, None)?),
            None => None,
        };
        let purpose = if is_harmless {
            Purpose::Read
        } else {
            Purpose::Destroy(self.destroy_data.as_deref())
        };
        let grant = Grant::of(&context.roots, drive.clone(), purpose)?;
        let (handle, lock) = open(context, &drive)?;
        let result = grant
            .confirm(Some(handle.info().serial.as_str()))
            .and_then(|()| plain.send(&drive, handle.as_ref(), command, &mut bytes));
        let closed = handle.close();
        drop(lock);
        let result = result?;
        closed?;
        let returned = self.read.is_some().then_some(bytes);
        let data = match (output, returned) {
            (Some(output), Some(bytes)) => {
                let mut file = Outlet::open(Some(output), &context.cancel)?;
                file.take(&bytes)?;
                file.finish()?;
                None
            }
            (_, bytes) => bytes.map(|bytes| hex(&bytes)),
        };
        let answer = Answer {
            schema_version: SCHEMA_VERSION,
            device: drive.to_string(),
            command: name,
            result,
            data,
        };
        context.console.report(self.json, &answer, Answer::text)?;
        Ok(Exit::Done)
    }
}

impl Answer {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(result) = self.result {
            text += &format!("{}: {result:#x}\n", self.command);
        }
        for (index, line) in self
            .data
            .as_deref()
            .unwrap_or_default()
            .as_bytes()
            .chunks(64)
            .enumerate()
        {
            text += &format!("{:06x}  {}\n", 32 * index, String::from_utf8_lossy(line));
        }
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The controller by the straight path, and the lock of its function.
fn open(
    context: &Context,
    drive: &Drive,
) -> Result<(Box<dyn ControllerHandle>, Option<FunctionLock>)> {
    let needs = Needs::one_queue(MOST_BYTES as usize + (1 << 20));
    match drive {
        Drive::Nvme(resolved) => {
            let lock = FunctionLock::take(&context.roots, resolved)?;
            let behind_iommu = resolved.controller.iommu_group.is_some();
            let handle = straight::open(&context.roots, resolved, behind_iommu, needs)?;
            Ok((handle, Some(lock)))
        }
        Drive::Model(model) => Ok((straight::open_model(model, needs)?, None)),
        _ => Err(Error::unsupported(format!(
            "{drive} is not an NVMe controller that the straight path drives"
        ))
        .hint("name an NVMe drive, or model:SIZE")),
    }
}
