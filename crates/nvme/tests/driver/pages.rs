// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Systems with pages of 4, 16 and 64 KiB, each anywhere on the bus, and controllers whose smallest
//! page is one of these: every list of pages is in the controller's, which is never larger than the
//! system's.

use block::blocking;
use straightway_model::{BusMemory, Config, Faults, Model};

use crate::support::{Bench, config, options};

const SHIFTS: [u8; 3] = [12, 14, 16];
/// Where a buffer begins in a system's page, and its length: within a page, across one, across
/// many, the longest transfer.
const PLACES: [(usize, usize); 7] = [
    (0, 512),
    (512, 4096),
    (3584, 1024),
    (8 << 10, 16 << 10),
    (60 << 10, 8 << 10),
    (512, 192 << 10),
    (0, 256 << 10),
];

fn byte(seed: usize, index: usize) -> u8 {
    (index / 5 + index / 4096 + 37 * seed + 1) as u8
}

fn bench(system: u8, drive: u8) -> Bench {
    let memory = BusMemory::scattered(4 << 20, 8 << 20, system, u64::from(system)).unwrap();
    let config = Config {
        min_page_shift: drive,
        max_page_shift: drive.max(13),
        ..config()
    };
    let model = Model::with_faults(config, memory.clone(), Faults::none()).unwrap();
    Bench { memory, model }
}

#[test]
fn data_in_pages_of_every_size_is_where_it_belongs() {
    for (system, drive) in SHIFTS
        .into_iter()
        .flat_map(|system| SHIFTS.map(|drive| (system, drive)))
    {
        if drive > system {
            continue;
        }
        let bench = bench(system, drive);
        let (memory, model) = (&bench.memory, &bench.model);
        let what = format!("pages of {} and {} bytes", 1 << system, 1 << drive);
        let ran = bench.with_queue(options(), |queue| {
            for (seed, (offset, len)) in PLACES.into_iter().enumerate() {
                let (before, mut buffer) = memory.allocate(offset + len).unwrap().split_at(offset);
                buffer
                    .iter_mut()
                    .enumerate()
                    .for_each(|(index, place)| *place = byte(seed, index));
                let lba = 2048 * seed as u64;
                let written = blocking::write(queue, lba, buffer, false);
                assert_eq!(written.result, Ok(()), "{what}: {len} bytes at {offset}");
                let mut buffer = written.buffer;
                buffer.fill(0);
                let read = blocking::read(queue, lba, buffer);
                assert_eq!(read.result, Ok(()), "{what}: {len} bytes at {offset}");
                let is_right = |(index, found): (usize, &u8)| *found == byte(seed, index);
                assert!(
                    read.buffer.iter().enumerate().all(is_right),
                    "{what}: {len} bytes at {offset}"
                );
                if offset > 0 {
                    memory.give_back(before).unwrap();
                }
                memory.give_back(read.buffer).unwrap();
            }
        });
        assert_eq!(ran, Ok(()), "{what}");
        assert!(
            memory.check_guards().is_empty() && memory.violations().is_empty(),
            "{what}: {:?}",
            memory.violations()
        );
        assert!(
            model.violations().is_empty(),
            "{what}: {:?}",
            model.violations()
        );
    }
}
