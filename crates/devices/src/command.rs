// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generic and vendor specific commands, by the straight path.
//!
//! Each is refused unless it is named, and each that may change the drive or its data also unless
//! that was permitted. What the driver itself owns (queues, events, doorbells) is refused always,
//! by the driver.

use crate::drive::Drive;
use crate::error::{Error, Result};
use crate::path::handle::{ControllerHandle, only_namespace};
use crate::path::namespace_of;
use nvme::{Direction, GenericCommand, GenericData};
use remedy::{Setting, Value, words};

/// The longest data of a command.
pub const MOST_BYTES: u64 = 1 << 20;

/// The queue that a command goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandQueue {
    /// The admin queue; data of at most 4 KiB.
    Admin,
    /// An I/O queue of the namespace; data of at most 1 MiB, in whole blocks where the command says
    /// so.
    Io,
}

/// A command to send.
#[derive(Clone, Debug)]
pub struct DriveCommand {
    /// Its queue.
    pub queue: CommandQueue,
    /// Its opcode; bits 1:0 are the direction of its data.
    pub opcode: u8,
    /// Command dwords 10 to 13.
    pub dwords: [u32; 4],
    /// The namespace of an admin command, 0 if not given; of an I/O command, the drive's only one
    /// if not given.
    pub namespace: Option<u32>,
    /// The name of the command, which allows it.
    pub allow: Option<String>,
}

/// The names of opcodes, and whether each leaves the drive and its data as they are (NVMe base and
/// NVM command set specifications, "Opcodes").
const ADMIN: &[(u8, &str, bool)] = &[
    (0x02, "get-log-page", true),
    (0x06, "identify", true),
    (0x09, "set-features", false),
    (0x0a, "get-features", true),
    (0x0d, "namespace-management", false),
    (0x10, "firmware-commit", false),
    (0x11, "firmware-download", false),
    (0x14, "device-self-test", false),
    (0x15, "namespace-attachment", false),
    (0x19, "directive-send", false),
    (0x1a, "directive-receive", false),
    (0x80, "format-nvm", false),
    (0x81, "security-send", false),
    (0x82, "security-receive", false),
    (0x84, "sanitize", false),
];
const IO: &[(u8, &str, bool)] = &[
    (0x00, "flush", true),
    (0x01, "write", false),
    (0x02, "read", true),
    (0x04, "write-uncorrectable", false),
    (0x05, "compare", true),
    (0x08, "write-zeroes", false),
    (0x09, "dataset-management", false),
    (0x0c, "verify", true),
    (0x0d, "reservation-register", false),
    (0x0e, "reservation-report", true),
    (0x11, "reservation-acquire", false),
    (0x15, "reservation-release", false),
];

/// The first vendor specific opcodes.
const ADMIN_VENDOR: u8 = 0xc0;
const IO_VENDOR: u8 = 0x80;

impl DriveCommand {
    /// Its name, and whether it leaves the drive and its data as they are.
    fn known(&self) -> (String, bool) {
        let (table, vendor) = match self.queue {
            CommandQueue::Admin => (ADMIN, ADMIN_VENDOR),
            CommandQueue::Io => (IO, IO_VENDOR),
        };
        let found = table.iter().find(|(opcode, ..)| *opcode == self.opcode);
        match (found, self.opcode) {
            (Some((_, name, is_harmless)), _) => ((*name).to_owned(), *is_harmless),
            (None, opcode) if opcode >= vendor => (format!("vendor-{opcode:02x}"), false),
            (None, opcode) => (format!("opcode-{opcode:02x}"), false),
        }
    }

    /// Refuses a command that the user did not name.
    ///
    /// # Errors
    /// It is another one, or none was named.
    pub fn allowed(&self) -> Result<(String, bool)> {
        let (name, is_harmless) = self.known();
        if self.allow.as_deref() == Some(&*name) {
            return Ok((name, is_harmless));
        }
        let what = match &self.allow {
            Some(other) => format!("the command is `{name}`, not `{other}`"),
            None => format!("the command `{name}` is refused unless it is named"),
        };
        let hint = if is_harmless {
            Setting::Allow.to(name)
        } else {
            words![
                "it may change the drive or its data: ",
                Setting::Allow.to(name),
                " ",
                Setting::DestroyData.to(Value::choice("SERIAL"))
            ]
            .into()
        };
        Err(Error::usage(what).hint(hint))
    }

    /// As the driver has it.
    pub fn generic(&self) -> GenericCommand {
        GenericCommand {
            opcode: self.opcode,
            nsid: self.namespace.unwrap_or(0),
            dwords: self.dwords,
        }
    }

    /// The longest data.
    pub const fn most_bytes(&self) -> u64 {
        match self.queue {
            CommandQueue::Admin => 4096,
            CommandQueue::Io => MOST_BYTES,
        }
    }

    /// Refuses data of a wrong length.
    ///
    /// # Errors
    /// The command has other data.
    pub fn check_len(&self, command: &GenericCommand, len: usize) -> Result<()> {
        let most = self.most_bytes();
        match command.direction() {
            Direction::None if len == 0 => Ok(()),
            Direction::ToController | Direction::FromController
                if len > 0 && len as u64 <= most =>
            {
                Ok(())
            }
            Direction::None => Err(Error::usage("this command has no data")),
            Direction::Both => Err(Error::unsupported(
                "data in both directions is not supported",
            )),
            _ => Err(Error::usage(format!(
                "the data of this command has 1 to {most} bytes"
            ))),
        }
    }

    /// Sends it to a controller that is open; the data is in `bytes`, before or after. `may_change`
    /// if the user has permitted changes of the drive.
    ///
    /// # Errors
    /// The command is not allowed, or failed.
    pub fn send_to(
        &self,
        drive: &Drive,
        handle: &dyn ControllerHandle,
        may_change: bool,
        bytes: &mut [u8],
    ) -> Result<Option<u32>> {
        let (name, is_harmless) = self.allowed()?;
        if !is_harmless && !may_change {
            let what = format!("the command `{name}` may change the drive or its data");
            return Err(Error::usage(what).hint("open the drive to write, with its serial number"));
        }
        let command = self.generic();
        self.check_len(&command, bytes.len())?;
        self.send(drive, handle, command, bytes)
    }

    /// Sends it, with all checks made.
    ///
    /// # Errors
    /// The namespace is not there, or the command failed.
    pub fn send(
        &self,
        drive: &Drive,
        handle: &dyn ControllerHandle,
        command: GenericCommand,
        bytes: &mut [u8],
    ) -> Result<Option<u32>> {
        let known = match self.queue {
            CommandQueue::Admin => command.admin_len(),
            // The driver compares it with the namespace's blocks.
            CommandQueue::Io => command.io_len(0),
        };
        if handle.name() == "noiommu" && known.is_none() && !bytes.is_empty() {
            return Err(Error::unsupported(
                "without an IOMMU the drive could access any memory, and the length of this command's data is not known",
            )
            .hint("enable the IOMMU; straightway doctor shows how"));
        }
        if self.queue == CommandQueue::Io {
            let named = match drive {
                Drive::Nvme(resolved) => namespace_of(resolved, self.namespace)?,
                _ => self.namespace,
            };
            let nsid = named.map_or_else(|| only_namespace(handle), Ok)?;
            handle.generic_io(nsid, &command, bytes)?;
            return Ok(None);
        }
        let data = match command.direction() {
            Direction::ToController => GenericData::ToController(bytes),
            Direction::FromController => GenericData::FromController(bytes),
            Direction::None | Direction::Both => GenericData::None,
        };
        handle.generic(&command, data).map(Some)
    }
}
