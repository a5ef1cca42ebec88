// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drivers of virtio-blk with memory of their own, over a RAM disk: each request, wrong ones, and
//! hostile ones at random.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod driver;
mod hostile;

use driver::{DATA, DISK_BYTES, Driver, Part, content, head, range};
use straightway_virtio::Broken;
use virtio_bindings::virtio_blk as kind;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// A request of one data segment: its status, and the used length.
fn ask(driver: &mut Driver, what: u32, sector: u64, data: Part) -> (u8, u32) {
    let chain = driver.request(&head(what, sector), &[data]);
    driver.run().unwrap();
    driver.outcome(chain).unwrap()
}

#[test]
fn what_is_written_is_read_in_any_segments() {
    let mut driver = Driver::new(true);
    let bytes: Vec<u8> = (0..6144u32).map(|i| (i * 7 + 3) as u8).collect();
    driver.store(DATA, &bytes);
    let parts = [(DATA, 1), (DATA + 1, 4095), (DATA + 4096, 2048)];
    let parts = parts.map(|(start, len)| Part::readable(start, len));
    let write = driver.request(&head(kind::VIRTIO_BLK_T_OUT, 5), &parts);
    driver.run().unwrap();
    assert_eq!(driver.outcome(write), Some((OK, 1)));
    assert!(driver.disk()[5 * 512..][..6144] == bytes);
    // Back to somewhere else, by a table of its own, in other pieces.
    let to = DATA + 0x8000;
    let parts = [(to, 512), (to + 512, 5000), (to + 5512, 632)];
    let parts = parts.map(|(start, len)| Part::writable(start, len));
    let read = driver.indirect(&head(kind::VIRTIO_BLK_T_IN, 5), &parts);
    driver.run().unwrap();
    assert_eq!(driver.outcome(read), Some((OK, 6145)));
    assert!(driver.load(to, 6144) == bytes);
}

#[test]
fn a_head_and_a_status_may_share_descriptors_with_the_data() {
    let mut driver = Driver::new(true);
    // 2.7.4: a device makes no assumptions on how a driver divides a message.
    let mut all = head(kind::VIRTIO_BLK_T_OUT, 1).to_vec();
    all.extend([9; 512]);
    driver.store(DATA, &all);
    let write = driver.chain(&[Part::readable(DATA, 528), Part::writable(DATA + 0x1000, 1)]);
    driver.store(DATA + 0x2000, &head(kind::VIRTIO_BLK_T_IN, 1));
    let read = driver.chain(&[
        Part::readable(DATA + 0x2000, 7),
        Part::readable(DATA + 0x2007, 9),
        Part::writable(DATA + 0x3000, 513),
    ]);
    driver.run().unwrap();
    assert_eq!(driver.load(DATA + 0x1000, 1), [OK]);
    assert_eq!(driver.used(write), Some(1));
    assert_eq!(driver.used(read), Some(513));
    assert_eq!(driver.load(DATA + 0x3000, 512), [9; 512]);
    assert_eq!(driver.load(DATA + 0x3200, 1), [OK]);
}

#[test]
fn ranges_are_discarded_and_zeroed_and_caches_flushed() {
    let mut driver = Driver::new(true);
    for (what, flags, sector, status) in [
        (kind::VIRTIO_BLK_T_WRITE_ZEROES, 0, 8, OK),
        (kind::VIRTIO_BLK_T_WRITE_ZEROES, 1, 12, OK),
        (kind::VIRTIO_BLK_T_WRITE_ZEROES, 2, 30, UNSUPPORTED),
        (kind::VIRTIO_BLK_T_DISCARD, 0, 20, OK),
        (kind::VIRTIO_BLK_T_DISCARD, 1, 30, UNSUPPORTED),
        (
            kind::VIRTIO_BLK_T_DISCARD,
            0,
            DISK_BYTES / 512 - 1,
            IO_ERROR,
        ),
    ] {
        driver.store(DATA, &range(sector, 2, flags));
        let found = ask(&mut driver, what, 0, Part::readable(DATA, 16));
        assert_eq!(found, (status, 1), "{what} {flags} {sector}");
    }
    let before = content();
    for sector in [8, 9, 12, 13] {
        assert_eq!(driver.disk()[sector * 512..][..512], [0; 512], "{sector}");
    }
    for at in [7, 10, 14, 30, 31].map(|sector| sector * 512) {
        assert!(driver.disk()[at..][..512] == before[at..][..512]);
    }
    let flush = driver.request(&head(kind::VIRTIO_BLK_T_FLUSH, 0), &[]);
    driver.run().unwrap();
    assert_eq!(driver.outcome(flush), Some((OK, 1)));
}

#[test]
fn the_identifier_is_cut_and_padded() {
    let mut driver = Driver::new(false);
    driver.store(DATA, &[0xff; 40]);
    let found = ask(
        &mut driver,
        kind::VIRTIO_BLK_T_GET_ID,
        0,
        Part::writable(DATA, 20),
    );
    assert_eq!(found, (OK, 21));
    assert_eq!(&driver.load(DATA, 21), b"a disk of a test\0\0\0\0\xff");
    let found = ask(
        &mut driver,
        kind::VIRTIO_BLK_T_GET_ID,
        0,
        Part::writable(DATA, 4),
    );
    assert_eq!(found, (OK, 5));
}

#[test]
fn wrong_requests_have_their_status_and_change_nothing() {
    let mut driver = Driver::new(true);
    let last = DISK_BYTES / 512;
    for (what, sector, len, status) in [
        (kind::VIRTIO_BLK_T_IN, last, 512, IO_ERROR),
        (kind::VIRTIO_BLK_T_IN, last - 1, 1024, IO_ERROR),
        (kind::VIRTIO_BLK_T_IN, u64::MAX, 512, IO_ERROR),
        (kind::VIRTIO_BLK_T_IN, 1 << 55, 512, IO_ERROR),
        (kind::VIRTIO_BLK_T_IN, 0, 100, IO_ERROR),
        (kind::VIRTIO_BLK_T_IN, 0, 0x20000, IO_ERROR),
        (kind::VIRTIO_BLK_T_OUT, 0, 511, IO_ERROR),
        (kind::VIRTIO_BLK_T_OUT, last - 1, 1024, IO_ERROR),
        (kind::VIRTIO_BLK_T_DISCARD, 0, 15, IO_ERROR),
        (kind::VIRTIO_BLK_T_DISCARD, 0, 32, IO_ERROR),
        (77, 0, 512, UNSUPPORTED),
    ] {
        let part = match what {
            kind::VIRTIO_BLK_T_IN => Part::writable(DATA, len),
            _ => Part::readable(DATA, len),
        };
        assert_eq!(
            ask(&mut driver, what, sector, part),
            (status, 1),
            "{what} {sector} {len}"
        );
    }
    for what in [kind::VIRTIO_BLK_T_IN, kind::VIRTIO_BLK_T_OUT] {
        let empty = driver.request(&head(what, 0), &[]);
        driver.run().unwrap();
        assert_eq!(driver.outcome(empty), Some((IO_ERROR, 1)), "no data");
    }
    assert!(driver.disk() == content());
    assert_eq!(driver.refused(), 13);
}

#[test]
fn a_disk_that_is_read_only_is_not_changed() {
    let mut driver = Driver::new(false);
    driver.store(DATA, &range(0, 8, 0));
    for what in [
        kind::VIRTIO_BLK_T_OUT,
        kind::VIRTIO_BLK_T_DISCARD,
        kind::VIRTIO_BLK_T_WRITE_ZEROES,
    ] {
        let len = if what == kind::VIRTIO_BLK_T_OUT {
            512
        } else {
            16
        };
        let found = ask(&mut driver, what, 0, Part::readable(DATA, len));
        assert_eq!(found, (IO_ERROR, 1), "{what}");
    }
    assert_eq!(
        ask(
            &mut driver,
            kind::VIRTIO_BLK_T_IN,
            0,
            Part::writable(DATA, 512)
        )
        .0,
        OK
    );
    assert!(driver.disk() == content());
    let bits = driver.features();
    assert_ne!(bits & 1 << kind::VIRTIO_BLK_F_RO, 0);
    assert_eq!(bits & 1 << kind::VIRTIO_BLK_F_DISCARD, 0);
}

#[test]
fn rings_that_are_wrong_end_the_session() {
    let outside = Part::readable(driver::MEMORY_BYTES - 8, 16);
    let over = Part::readable(u64::MAX - 8, 16);
    let status = Part::writable(DATA + 0x5000, 1);
    let good = Part::readable(DATA, 16);
    let parts: &[&[Part]] = &[&[outside, status], &[over, status], &[status, good, status]];
    for parts in parts {
        let mut driver = Driver::new(true);
        driver.chain(parts);
        assert_eq!(driver.run(), Err(Broken::Chain), "{parts:?}");
    }
    let parts: &[&[Part]] = &[&[good], &[Part::readable(DATA, 15), status], &[status]];
    for parts in parts {
        let mut driver = Driver::new(true);
        driver.chain(parts);
        assert_eq!(driver.run(), Err(Broken::NoStatus), "{parts:?}");
    }
    // A loop, a next descriptor outside of the table, a head outside of it, and more chains than
    // entries.
    for (next, head, index) in [(0, 0, 1), (16, 0, 1), (1, 16, 1), (1, 0, 17)] {
        let mut driver = Driver::new(true);
        driver.descriptor(0, good, Some(next));
        driver.descriptor(1, status, None);
        driver.offer(head, index);
        assert!(driver.run().is_err(), "{next} {head} {index}");
    }
}

#[test]
fn a_queue_that_is_stopped_says_where_it_stopped() {
    let mut driver = Driver::new(true);
    for _ in 0..3 {
        ask(
            &mut driver,
            kind::VIRTIO_BLK_T_FLUSH,
            0,
            Part::readable(DATA, 16),
        );
    }
    assert_eq!(driver.rings().stop(0), Some(3));
    assert_eq!(driver.rings().stop(1), None);
    // Nothing is taken while it is stopped, and what waits then follows.
    let late = driver.request(&head(kind::VIRTIO_BLK_T_FLUSH, 0), &[]);
    driver.run().unwrap();
    assert_eq!(driver.outcome(late), None);
    driver.rings().start(0).unwrap();
    driver.run().unwrap();
    assert_eq!(driver.outcome(late), Some((OK, 1)));
}
