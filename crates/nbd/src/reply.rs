// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The replies to requests that the device has ended.

use crate::wire::{self, Errno, chunk};
use ::export::{Answer, ExportCommand};

/// Appends the reply to a request without a read's data, which follows it, to `out`.
pub fn put_head(answer: &Answer, structured: bool, out: &mut Vec<u8>) {
    let request = answer.request;
    let cookie = request.cookie;
    let is_chunk = structured && request.command == ExportCommand::Read;
    match answer.error {
        Some(error) if is_chunk => {
            wire::put_error_chunk(out, cookie, Errno::of(error), &error.to_string());
        }
        Some(error) => wire::put_simple(out, cookie, Errno::of(error) as u32),
        None if is_chunk => {
            wire::put_chunk(out, cookie, chunk::OFFSET_DATA, 8 + request.len_bytes);
            out.extend(request.offset_bytes.to_be_bytes());
        }
        None => wire::put_simple(out, cookie, 0),
    }
}
