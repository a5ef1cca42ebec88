// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The function of `straightway.h` for a drive's own commands.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::calls::{check_size, null, straightway_device, string};
use crate::error::{Status, finish, usage};
use crate::handles;
use crate::session::Session;
use crate::volume_calls::check_memory;
use api::DeviceCommand;
use std::ffi::{c_char, c_void};

/// A generic or vendor specific command (NVMe Base Specification, "Submission Queue Entry").
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_command {
    /// sizeof(struct straightway_command).
    pub size: usize,
    /// 1 for an I/O queue, 0 for the admin queue.
    pub is_io: u32,
    /// The opcode. Its bits 1:0 are the direction of the data: 1 to the drive, 2 from the drive, 0
    /// none.
    pub opcode: u32,
    /// The namespace of an admin command; or of an I/O command, or 0 for the drive's only one.
    pub namespace_id: u32,
    /// Command dwords 10 to 13.
    pub dwords: [u32; 4],
    /// Its name, which allows it, as `straightway command --allow` takes it: "identify",
    /// "vendor-c1". NULL is refused.
    pub name: *const c_char,
    /// The data, in any memory: at most 4 KiB of an admin command, 1 MiB of an I/O command.
    pub data: *mut c_void,
    /// Its length.
    pub bytes: usize,
    /// Set by the call: dword 0 of an admin command's completion, 0 of an I/O command.
    pub result: u32,
}

/// Sends a command to a drive that this process drives itself (a straight path, or model:SIZE), and
/// waits for its end. Requests in flight stay so. A command that may change the drive or its data
/// needs a device that was opened to write. What the driver owns (queues, events, doorbells) is
/// refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_send_command(
    device: straightway_device,
    command: *mut straightway_command,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let given = unsafe { command.as_mut() }.ok_or_else(|| null("command"))?;
        let known = size_of::<straightway_command>();
        check_size("straightway_command", given.size, known)?;
        let opcode = u8::try_from(given.opcode)
            .map_err(|_| usage(format!("an opcode of {:#x}", given.opcode), "give one byte"))?;
        let bytes: &mut [u8] = match given.bytes {
            0 => &mut [],
            bytes => {
                check_memory(given.data, bytes)?;
                // SAFETY: C's promise: `bytes` of memory that nothing else uses during the call.
                unsafe { std::slice::from_raw_parts_mut(given.data.cast::<u8>(), bytes) }
            }
        };
        let command = DeviceCommand {
            is_io: given.is_io != 0,
            opcode,
            namespace: (given.namespace_id != 0).then_some(given.namespace_id),
            dwords: given.dwords,
            // SAFETY: C's promise: null or valid.
            name: unsafe { string("name", given.name)? },
        };
        let result = handles::with(device, |session: &mut Session| {
            session.command(&command, bytes)
        })?;
        given.result = result.unwrap_or(0);
        Ok(())
    })
}
