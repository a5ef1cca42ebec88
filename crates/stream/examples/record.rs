// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records 20 blocks of 64 KiB into a file of a volume on a RAM disk, with a deadline for each.

use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use straightway_stream::block::{Buffer, Clock, RamDisk};
use straightway_stream::volume::{self, FormatOptions, MountOptions, OpenFile, Volume, blocking};
use straightway_stream::{RecordOptions, Recorder, RingPlace};

struct Microseconds(Instant);

impl Clock for Microseconds {
    fn ticks(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

fn buffer(len: usize) -> Buffer {
    Buffer::from_static(Box::leak(vec![0; len].into_boxed_slice()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut disk = RamDisk::<_, 32>::new(vec![0; 8 << 20], 9)?;
    volume::format(&mut disk, buffer(4096), &FormatOptions::default()).0?;
    let mut files = [const { OpenFile::new() }; 1];
    let memory = [(); 3].map(|()| buffer(4096));
    let volume = Volume::mount(disk, memory, &mut files, &MountOptions::default())?;
    let file = blocking::run(&volume, volume.create("take 1", &Default::default()))?;

    let clock = Microseconds(Instant::now());
    let mut ring = [(); 4].map(|()| RingPlace::new(buffer(64 << 10)));
    let options = RecordOptions {
        deadline_us: 1_000_000,
        ..RecordOptions::default()
    };
    let recorder = Recorder::new(&volume, file, &clock, &mut ring, None, &options)?;
    let mut upkeep = pin!(recorder.upkeep());
    let mut blocks = 0;
    while recorder.step(upkeep.as_mut(), &mut |_| {}) == Poll::Pending {
        if blocks == 20 {
            recorder.finish();
        } else if let Some(mut buffer) = recorder.take() {
            buffer.fill(blocks);
            let refused = recorder.hand_in(buffer, 64 << 10, clock.ticks());
            refused.map_err(|(error, _)| error)?;
            blocks += 1;
        }
    }
    let report = recorder.report();
    println!(
        "{} bytes durable, {} deadlines missed",
        report.durable_bytes, report.misses
    );
    blocking::run(&volume, volume.close(file))?;
    Ok(())
}
