// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that the driver does not interpret: generic and vendor specific ones (NVMe base
//! specification, "Opcodes").
//!
//! A controller accesses as much memory as a command tells it to, whatever the driver meant. So
//! data that does not match the direction in its opcode (bits 1:0), or the length in its dwords
//! where the specifications define one, is refused; [`GenericCommand::admin_len`] and
//! [`GenericCommand::io_len`] say where none is known. Commands that change what the driver owns
//! (queues, event requests, doorbells) are refused, too. Whether a command is safe for the drive's
//! data is for the caller to decide. Dwords 14 and 15 are zero.

use core::ops::Deref;

use block::{Buffer, Tag};

use crate::command::{Command, admin, io};
use crate::controller::Controller;
use crate::error::{Error, GenericRefusal};
use crate::platform::Platform;
use crate::prp;
use crate::queue::QueuePair;
use crate::quirks::Quirks;
use crate::service::State;

/// Feature identifier of Set Features that the driver owns: the number of queues.
const NUMBER_OF_QUEUES: u32 = 0x07;
/// Feature identifier of the temperature threshold.
const TEMPERATURE_THRESHOLD: u32 = 0x04;
const FIRMWARE_DOWNLOAD: u8 = 0x11;
const COMPARE: u8 = 0x05;
const RESERVATION_REPORT: u8 = 0x0e;
/// Keep Alive: the timer belongs to whoever enabled it.
const KEEP_ALIVE: u8 = 0x18;

/// Where a command's data goes, by bits 1:0 of its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It has none.
    None,
    /// To the controller.
    ToController,
    /// From the controller.
    FromController,
    /// Both ways.
    Both,
}

/// A command. The driver adds its identifier and the addresses of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenericCommand {
    /// The opcode.
    pub opcode: u8,
    /// The namespace; a queue pair uses its own.
    pub nsid: u32,
    /// Command dwords 10 to 13.
    pub dwords: [u32; 4],
}

/// The data of an admin command, at most 4 KiB.
#[derive(Debug)]
pub enum GenericData<'d> {
    /// None.
    None,
    /// What the controller gets.
    ToController(&'d [u8]),
    /// What it returns.
    FromController(&'d mut [u8]),
}

impl GenericCommand {
    /// Where its data goes.
    pub const fn direction(&self) -> Direction {
        match self.opcode & 3 {
            0 => Direction::None,
            1 => Direction::ToController,
            2 => Direction::FromController,
            _ => Direction::Both,
        }
    }

    /// The length of its data as an admin command, in bytes; `None` if it has none, or the
    /// specification defines none.
    pub const fn admin_len(&self) -> Option<u64> {
        let [cdw10, cdw11, ..] = self.dwords;
        match self.opcode {
            admin::IDENTIFY => Some(4096),
            admin::GET_LOG_PAGE => {
                Some(((cdw10 >> 16) as u64 + (((cdw11 & 0xffff) as u64) << 16) + 1) * 4)
            }
            FIRMWARE_DOWNLOAD => Some((cdw10 as u64 + 1) * 4),
            _ => None,
        }
    }

    /// The length of its data as an I/O command, in bytes, on a namespace with these blocks; `None`
    /// if it has none, or the specification defines none.
    pub const fn io_len(&self, block_size_log2: u8) -> Option<u64> {
        let [cdw10, _, cdw12, _] = self.dwords;
        match self.opcode {
            io::READ | io::WRITE | COMPARE => {
                Some(((cdw12 & 0xffff) as u64 + 1) << block_size_log2)
            }
            io::DATASET_MANAGEMENT => Some(((cdw10 & 0xff) as u64 + 1) * 16),
            RESERVATION_REPORT => Some((cdw10 as u64 + 1) * 4),
            _ => None,
        }
    }

    /// Whether it would change what the driver owns.
    const fn is_the_driver_s(&self) -> bool {
        matches!(
            self.opcode,
            admin::DELETE_SUBMISSION_QUEUE
                | admin::CREATE_SUBMISSION_QUEUE
                | admin::DELETE_COMPLETION_QUEUE
                | admin::CREATE_COMPLETION_QUEUE
                | admin::ABORT
                | admin::ASYNC_EVENT_REQUEST
                | admin::DOORBELL_BUFFER_CONFIG
                | KEEP_ALIVE
        ) || self.opcode == admin::SET_FEATURES && self.dwords[0] & 0xff == NUMBER_OF_QUEUES
    }

    fn refused(&self, why: GenericRefusal) -> Error {
        let opcode = self.opcode;
        Error::Generic { opcode, why }
    }
}

impl<P: Platform> Controller<P> {
    /// Runs an admin command, and returns dword 0 of its completion.
    ///
    /// # Errors
    /// [`Error::Generic`] if it is not sent, those of the admin command otherwise.
    pub fn generic(&self, command: &GenericCommand, data: GenericData<'_>) -> Result<u32, Error> {
        let mut data = data;
        let (direction, len) = match &data {
            GenericData::None => (Direction::None, 0),
            GenericData::ToController(bytes) => (Direction::ToController, bytes.len()),
            GenericData::FromController(bytes) => (Direction::FromController, bytes.len()),
        };
        if command.is_the_driver_s() {
            return Err(command.refused(GenericRefusal::Owned));
        }
        if self.quirks().has(Quirks::NO_TEMPERATURE_THRESHOLD)
            && command.opcode == admin::SET_FEATURES
            && command.dwords[0] & 0xff == TEMPERATURE_THRESHOLD
        {
            return Err(command.refused(GenericRefusal::Quirk));
        }
        if command.direction() != direction {
            return Err(command.refused(GenericRefusal::Direction));
        }
        let is_other = command.admin_len().is_some_and(|known| known != len as u64);
        let is_odd = direction != Direction::None && !(1..=crate::encode::PAGE).contains(&len);
        if is_other || is_odd {
            return Err(command.refused(GenericRefusal::Length));
        }
        self.with_admin(|admin| {
            admin.data.clear();
            if let GenericData::ToController(bytes) = &data {
                admin.data.copy_in(bytes);
            }
            let memory = (admin.data.address(), admin.data.len);
            self.platform.clean(memory.0, memory.1);
            let entry = Command {
                opcode: command.opcode,
                nsid: command.nsid,
                prp1: if len > 0 { admin.data.bus } else { 0 },
                dwords: command.dwords,
                ..Command::default()
            };
            let answer = self.run(admin, &entry)?;
            if let GenericData::FromController(bytes) = &mut data {
                self.platform.invalidate(memory.0, memory.1);
                admin.data.copy_out(bytes);
            }
            Ok(answer)
        })
    }
}

impl<P: Platform, C: Deref<Target = Controller<P>>, const DEPTH: usize> QueuePair<P, C, DEPTH> {
    /// Submits an I/O command for the queue's namespace, as [`block::Device::submit`] does: it is
    /// sent by a `kick` and completed by a `poll`, with this tag. A buffer holds exactly its data.
    ///
    /// # Errors
    /// With the buffer: [`block::Error::Unsupported`] if the data does not match the opcode's
    /// direction, [`block::Error::TooLarge`] if it has another length than the dwords, or more than
    /// the queue's longest, an error of its address, [`block::Error::QueueFull`].
    #[allow(clippy::result_large_err)]
    pub fn submit_generic(
        &mut self,
        tag: Tag,
        command: &GenericCommand,
        buffer: Option<Buffer>,
    ) -> Result<(), (block::Error, Option<Buffer>)> {
        let has_data = match command.direction() {
            Direction::None => false,
            Direction::ToController | Direction::FromController => true,
            Direction::Both => return Err((block::Error::Unsupported, buffer)),
        };
        if has_data != buffer.is_some() {
            return Err((block::Error::Unsupported, buffer));
        }
        let (State::Ready, Some(index)) = (self.state(), self.slots.next()) else {
            return Err((self.refusal(), buffer));
        };
        let (platform, encoder) = (&self.controller.platform, &self.encoder);
        let mut entry = Command {
            opcode: command.opcode,
            nsid: encoder.nsid,
            dwords: command.dwords,
            ..Command::default()
        };
        let most = encoder.geometry.max_transfer_bytes();
        let known = command.io_len(encoder.geometry.block_size_log2);
        let len = buffer.as_ref().map_or(0, |buffer| buffer.len());
        if len > most || known.is_some_and(|known| known != len as u64) {
            return Err((block::Error::TooLarge, buffer));
        }
        let addresses = buffer.as_ref().map(|buffer| {
            let list = || encoder.list(index);
            prp::build(
                platform,
                buffer.address(),
                buffer.len(),
                encoder.page_shift,
                list,
            )
        });
        match addresses.transpose() {
            Ok(found) => (entry.prp1, entry.prp2) = found.unwrap_or_default(),
            Err(error) => return Err((error, buffer)),
        }
        encoder.clean(platform, index, buffer.as_ref());
        let now = platform.ticks();
        let cid = self.slots.take(index, tag, buffer, now);
        self.rings.submission.push(platform, entry.sqe(cid));
        Ok(())
    }
}
