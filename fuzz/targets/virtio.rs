// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest that puts anything into its tables and rings. Each six bytes of the input are a store:
//! where, and what.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/virtio/tests/driver/driver.rs"]
mod driver;

use driver::{AVAILABLE, DATA, DISK_BYTES, Driver, ENTRIES, Part, TABLE, content, head};
use libfuzzer_sys::fuzz_target;

/// Where a store may be: the tables, the rings, a head.
const PLACES: [u64; 4] = [TABLE, AVAILABLE, 0x4000, DATA];

fuzz_target!(|data: &[u8]| {
    let Some((&how, input)) = data.split_first() else {
        return;
    };
    let is_writable = how & 1 == 1;
    let mut driver = Driver::new(is_writable);
    let chain = [Part::writable(DATA, 1024)];
    let sector = u64::from(how >> 1) % (DISK_BYTES / 512);
    if how & 2 == 0 {
        driver.request(&head(0, sector), &chain);
    } else {
        driver.indirect(&head(0, sector), &chain);
    }
    for store in input.chunks_exact(6) {
        let place = PLACES[usize::from(store[0] & 3)] + u64::from(store[1]);
        driver.store(place, &store[2..6]);
        // A turn of the device after some of them.
        if store[0] & 0x80 != 0 && driver.run().is_err() {
            break;
        }
    }
    let _ = driver.run();
    if !is_writable {
        assert!(driver.disk() == content());
    }
    driver.end();
    let _ = ENTRIES;
});
