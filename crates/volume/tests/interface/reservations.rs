// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a writer reserved and did not use: given back after it died, kept where requested.

use crate::support::{filled, free, make, on};
use block::RamDisk;
use straightway_volume::{CreateOptions, Finding, FormatOptions, Volume, blocking};

const UNIT: u64 = 4096;
const RESERVED: u64 = 100 * UNIT;

type Disk = RamDisk<Vec<u8>, 8>;
type Mounted<'a> = Volume<'a, Disk>;

fn disk() -> Disk {
    let mut disk = RamDisk::new(vec![0xa5; 4 << 20], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(UNIT),
        slots: Some(16),
        checksums: true,
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn reclaim(volume: &Mounted<'_>) {
    let mut next = Some(0);
    while let Some(from) = next {
        next = blocking::run(volume, volume.reclaim(from)).unwrap();
    }
}

fn allocated(volume: &Mounted<'_>, name: &str) -> u64 {
    let entry = blocking::run(volume, volume.find(name)).unwrap();
    entry.allocated_bytes
}

fn findings(volume: &Mounted<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut scratch = vec![0; 1024];
    let mut report = |finding| found.push(finding);
    let checked = volume.check(&mut scratch, &mut report);
    let summary = blocking::run(volume, checked).unwrap();
    assert_eq!(summary.damages, 0, "{found:?}");
    found
}

/// An open file of `len` bytes with space reserved after them.
fn write(
    volume: &Mounted<'_>,
    name: &str,
    len: usize,
    checksums: bool,
) -> straightway_volume::File {
    let options = CreateOptions {
        reserve_bytes: RESERVED,
        checksums,
        app_tag: 0,
    };
    let file = blocking::run(volume, volume.create(name, &options)).unwrap();
    let outcome = blocking::append(volume, file, filled(&vec![7; len], 512), len);
    free(outcome.buffer);
    outcome.result.unwrap();
    blocking::run(volume, volume.sync(file)).unwrap();
    file
}

#[test]
fn a_dead_writers_reservation_is_found_and_given_back() {
    let mut free_units = 0;
    let disk = on(disk(), false, false, |volume| {
        free_units = blocking::run(volume, volume.free_units()).unwrap();
    });
    let disk = on(disk, true, false, |volume| {
        write(volume, "plain", 5000, false);
        write(volume, "summed", 5000, true);
    });
    // Checked without changing anything: reported, and not damage.
    let disk = on(disk, true, true, |volume| {
        let reserved: Vec<u64> = findings(volume)
            .into_iter()
            .filter_map(|finding| match finding {
                Finding::Reserved { units, .. } => Some(units),
                _ => None,
            })
            .collect();
        assert_eq!(reserved, [98, 98]);
    });
    let disk = on(disk, false, false, |volume| {
        reclaim(volume);
        assert_eq!(allocated(volume, "plain"), 2 * UNIT);
        assert_eq!(allocated(volume, "summed"), 3 * UNIT);
        let now = blocking::run(volume, volume.free_units()).unwrap();
        assert_eq!(now, free_units - 5);
    });
    on(disk, false, true, |volume| {
        assert_eq!(findings(volume), []);
        let file = blocking::run(volume, volume.open("summed")).unwrap();
        let outcome = blocking::read(volume, file, 0, crate::support::buffer(5120));
        assert!(outcome.buffer[..5000].iter().all(|&byte| byte == 7));
        free(outcome.buffer);
        outcome.result.unwrap();
    });
}

#[test]
fn a_reservation_that_was_kept_or_is_in_use_stays() {
    let disk = on(disk(), true, false, |volume| {
        let kept = write(volume, "kept", 5000, false);
        blocking::run(volume, volume.close_keeping(kept, 40 * UNIT)).unwrap();
        write(volume, "open", 5000, false);
        // The writer of this one is alive.
        reclaim(volume);
        assert_eq!(allocated(volume, "open"), RESERVED);
        assert_eq!(allocated(volume, "kept"), 42 * UNIT);
        assert_eq!(findings(volume), []);
    });
    on(disk, false, false, |volume| {
        reclaim(volume);
        assert_eq!(allocated(volume, "open"), 2 * UNIT);
        assert_eq!(allocated(volume, "kept"), 42 * UNIT);
    });
}
