// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free space that is given back to the device, and the label.

use crate::support::{buffer, filled, free, make, on_least as on};
use block::RamDisk;
use straightway_volume::{CreateOptions, Discarded, Error, FormatOptions, Volume, blocking};

const UNIT: usize = 4096;
const DISK_BYTES: usize = 4 << 20;

type Disk = RamDisk<Vec<u8>, 8>;

/// A volume in memory that was full of other data.
fn disk() -> Disk {
    let mut disk = RamDisk::new(vec![0xa5; DISK_BYTES], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(UNIT as u64),
        slots: Some(16),
        label: "before",
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn put(volume: &Volume<'_, Disk>, name: &str, units: usize) {
    let create = CreateOptions {
        reserve_bytes: (units * UNIT) as u64,
        ..CreateOptions::default()
    };
    let file = blocking::run(volume, volume.create(name, &create)).unwrap();
    for _ in 0..units {
        let outcome = blocking::append(volume, file, filled(&[1; UNIT], 512), UNIT);
        free(outcome.buffer);
        outcome.result.unwrap();
    }
    blocking::run(volume, volume.close(file)).unwrap();
}

/// The ranges' bytes.
fn discard_all(volume: &Volume<'_, Disk>, least_bytes: u64) -> Result<Vec<u64>, Error> {
    let mut ranges = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let done: Discarded = blocking::run(volume, volume.discard_free(from, least_bytes))?;
        ranges.extend(Some(done.bytes).filter(|bytes| *bytes > 0));
        next = done.next_unit;
    }
    Ok(ranges)
}

#[test]
fn free_space_is_forgotten_and_nothing_else() {
    let (disk, free_bytes) = on(disk(), false, |volume| {
        for (name, units) in [("a", 3), ("b", 5), ("c", 2)] {
            put(volume, name, units);
        }
        blocking::run(volume, volume.remove("b")).unwrap();
        let free = blocking::run(volume, volume.free_units()).unwrap() * UNIT as u64;
        let ranges = discard_all(volume, 0).unwrap();
        assert_eq!(ranges.iter().sum::<u64>(), free);
        assert!(ranges.len() > 1, "`b` left a hole");
        let least = *ranges.iter().min().unwrap() + 1;
        let long: Vec<u64> = ranges.into_iter().filter(|bytes| *bytes >= least).collect();
        assert_eq!(discard_all(volume, least).unwrap(), long);
        let past = blocking::run(volume, volume.discard_free(u64::MAX, 0)).unwrap();
        assert_eq!((past.bytes, past.next_unit), (0, None));
        free
    });
    let (mut disk, data_start) = on(disk, true, |volume| {
        let found = ["a", "c"].map(|name| blocking::run(volume, volume.find(name)).unwrap());
        assert_eq!(
            found.map(|entry| entry.size_bytes),
            [3, 2].map(|units| units * UNIT as u64)
        );
        let refused = blocking::run(volume, volume.discard_free(0, 0));
        assert_eq!(refused, Err(Error::ReadOnly));
        volume.status().shape.data_start() as usize
    });
    let outcome = block::blocking::read(&mut disk, 0, buffer(DISK_BYTES));
    outcome.result.unwrap();
    let units = outcome.buffer[data_start..].chunks_exact(UNIT);
    let kept = units.clone().filter(|unit| *unit == [1; UNIT]).count();
    let forgotten = units.filter(|unit| *unit == [0; UNIT]).count();
    assert_eq!((kept, forgotten), (5, free_bytes as usize / UNIT));
    free(outcome.buffer);
}

#[test]
fn a_label_is_changed_and_cut_between_letters() {
    for (label, kept) in [
        ("rack 7", "rack 7"),
        ("", ""),
        (
            "0123456789abcdef0123456789abcdeü",
            "0123456789abcdef0123456789abcde",
        ),
    ] {
        let (disk, ()) = on(disk(), false, |volume| {
            blocking::run(volume, volume.set_label(label)).unwrap();
        });
        let (_, found) = on(disk, true, |volume| {
            let refused = blocking::run(volume, volume.set_label("x"));
            assert_eq!(refused, Err(Error::ReadOnly));
            volume.status().label
        });
        let text = std::str::from_utf8(&found).unwrap();
        assert_eq!(text.trim_end_matches('\0'), kept);
    }
}
