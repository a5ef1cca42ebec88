// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the first 4 KiB of a file or a block device.
//!
//! `cargo run --example file_read -- Cargo.lock`

use std::path::Path;
use straightway_linux::block::blocking;
use straightway_linux::{Claim, HostMemory, Roots, SyncFile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: file_read FILE")?;
    let claim = Claim::to_read(&Roots::system(), Path::new(&path))?;
    let mut file = SyncFile::open(&claim)?;
    let read = blocking::read(&mut file, 0, HostMemory::new(4096)?.allocate(4096)?);
    read.result?;
    println!("{:02x?}", &read.buffer[..16]);
    Ok(())
}
