// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume whose nodes say anything. Each eight bytes of the input are a store into a volume with
//! files, and the node that it is in is sealed again, so that what is behind the checksums is
//! reached. Every operation ends, and a repair leaves what a check accepts.
#![no_main]

use block::{Buffer, RamDisk};
use libfuzzer_sys::fuzz_target;

#[path = "volume/image.rs"]
mod image;

fuzz_target!(|data: &[u8]| image::play(data));

/// Memory for the device, which lives as long as the program.
pub fn buffer(len: usize) -> Buffer {
    Buffer::from_static(vec![0; len].leak())
}

pub type Disk = RamDisk<Vec<u8>, 8>;
