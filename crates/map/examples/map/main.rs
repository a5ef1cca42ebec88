// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a map does, in one program: each command is a file of this folder.
//!
//! `cargo run --release -p straightway-map --example map -- drive DEVICE [FILE [CAPACITY]]`
//!
//! | command | does |
//! | --- | --- |
//! | `drive` | maps a drive, or a file of the volume on it, over VFIO, or lets the file grow by standard input |
//! | `window` | copies between two drives without a copy by the processor |
//! | `soak` | compares random loads and stores with a copy |
//! | `storm` | loads and stores by many threads while the device fails at random |

mod drive;
#[path = "../../tests/mapped/queue.rs"]
mod queue;
mod soak;
mod storm;
mod tolerant;
mod window;

use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, arguments) = words.split_first().ok_or("map drive|window|soak|storm")?;
    match command.as_str() {
        "drive" => drive::main(arguments),
        "window" => window::main(arguments),
        "soak" => soak::main(arguments),
        "storm" => storm::main(arguments),
        _ => Err(format!("unknown command `{command}`: drive, window, soak or storm").into()),
    }
}

/// The seed that the user gives, or one by chance; printed, so that the run can be repeated.
fn seed() -> Result<u64> {
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = seed.map(|text| text.parse()).transpose()?;
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    Ok(seed)
}
