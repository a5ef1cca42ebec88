// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations that run at the same time take turns.

use crate::support::{files, make, memory, mount};
use block::RamDisk;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use straightway_volume::FormatOptions;
use straightway_volume::blocking::run;

/// To remove many files is a series of operations, each of which begins as soon as the one before
/// it has ended: a recording that needs space comes before the next one, not after the last.
#[test]
fn an_operation_that_waits_comes_before_the_next_one_of_a_series() {
    let mut disk = RamDisk::<_, 32>::new(vec![0; 8 << 20], 9).unwrap();
    make(&mut disk, &FormatOptions::default());
    let mut files = files();
    let volume = mount(disk, memory(512, 0), &mut files, false).unwrap();
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for name in &names {
        let file = run(&volume, volume.create(name, &Default::default())).unwrap();
        run(&volume, volume.close(file)).unwrap();
    }
    let removed = Cell::new(0);
    let mut series = pin!(async {
        for name in &names {
            volume.remove(name).await.unwrap();
            removed.set(removed.get() + 1);
        }
    });
    let mut context = Context::from_waker(Waker::noop());
    assert!(series.as_mut().poll(&mut context).is_pending());
    let options = Default::default();
    let mut other = pin!(volume.create("other", &options));
    while other.as_mut().poll(&mut context).is_pending() {
        while volume.poll().is_some() {}
        assert!(series.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(removed.get(), 1);
    while series.as_mut().poll(&mut context).is_pending() {
        while volume.poll().is_some() {}
    }
    assert_eq!(removed.get(), names.len());
}
