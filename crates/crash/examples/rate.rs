// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures crash states per second: listed, and opened, read and written.
//!
//! Usage: `cargo run --release -p straightway-crash --example rate`

use block::{Buffer, blocking};
use crash::{Config, Medium, Sampling};
use std::time::Instant;

const HELD_BLOCKS: u64 = 4096;
const BLOCK_SIZE: usize = 512;

fn main() -> Result<(), block::Error> {
    let mut medium = Medium::new(9, 1 << 20)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut block = [0; BLOCK_SIZE];
    for _ in 0..HELD_BLOCKS {
        random.fill(&mut block);
        medium.write(random.u64(0..1 << 20), &block)?;
    }
    let mut device = medium.open(Config::default());
    let mut buffer = Buffer::from_static(Box::leak(Box::new([0; BLOCK_SIZE])));
    for index in 0..6 {
        random.fill(&mut buffer);
        let outcome = blocking::write(&mut device, index * 1000, buffer, false);
        outcome.result?;
        buffer = outcome.buffer;
    }
    for tears in [1, 2, 4] {
        let sampling = Sampling {
            tears,
            ..Sampling::default()
        };
        let start = Instant::now();
        let listed = device.images(&sampling).count();
        let listed_s = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let mut opened = 0_u32;
        for image in device.images(&sampling) {
            let mut again = image.open(Config::default());
            for index in 0..6 {
                let outcome = blocking::read(&mut again, index * 1000, buffer);
                outcome.result?;
                buffer = outcome.buffer;
            }
            for index in 0..2 {
                let outcome = blocking::write(&mut again, index, buffer, false);
                outcome.result?;
                buffer = outcome.buffer;
                blocking::flush(&mut again)?;
            }
            opened += 1;
        }
        let opened_s = start.elapsed().as_secs_f64();
        println!(
            "6 pending blocks, {tears} tears: {listed} images; {:.0} listed/s; {:.0} opened, \
             read (6) and written (2, 2 flushes)/s",
            listed as f64 / listed_s,
            f64::from(opened) / opened_s
        );
    }
    Ok(())
}
