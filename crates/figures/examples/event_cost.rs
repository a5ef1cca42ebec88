// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events in user space between the markers of lab/count, 132 of each kind: the ring, the ring
//! while it is paused, the ring when it is full, a mapped device, and a line written to tracefs's
//! `trace_marker`.
//!
//!     event_cost WINDOW TRACE_MARKER
//!
//! WINDOW is a page with a timer's ID and SHAPE. The labels are 1 (nothing) to 6.

use events::{Device, Recorder, Ring, Window};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

const TIMES: usize = 132;

/// A marker of lab/count/marker.h: a no-operation that carries a label.
macro_rules! marker {
    ($label:literal, $kind:literal) => {
        // SAFETY: the instruction accesses and changes nothing.
        unsafe {
            core::arch::asm!(
                "nopl {marker}(%rax)",
                marker = const 0x5357_0000 + $label * 256 + $kind,
                options(att_syntax, nostack, preserves_flags)
            )
        }
    };
}

macro_rules! counted {
    ($label:literal, $of:expr, $what:expr) => {
        for _ in 0..TIMES {
            let of = black_box(&mut $of);
            marker!($label, 1);
            $what(of)?;
            marker!($label, 2);
        }
    };
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [window, trace_marker] = words.as_slice() else {
        return Err("usage: event_cost WINDOW TRACE_MARKER".into());
    };
    let nothing = |_: &mut ()| Ok::<(), std::io::Error>(());
    let mut none = ();
    counted!(1, none, nothing);
    let mut ring = Ring::anonymous("cost", TIMES as u32)?;
    ring.record()?;
    counted!(2, ring, |ring: &mut Ring| ring.stamp(0x10));
    counted!(4, ring, |ring: &mut Ring| ring.stamp(0x10));
    ring.pause()?;
    counted!(3, ring, |ring: &mut Ring| ring.stamp(0x10));
    let lane = ring.take()?;
    if (lane.events.len(), lane.lost) != (TIMES, TIMES as u64) {
        return Err("the ring did not keep the first events and count the others".into());
    }
    let mut device = Device::new(Window::open(Path::new(window))?)?;
    counted!(5, device, |device: &mut Device<Window>| device.stamp(0x10));
    let mut file: OwnedFd = rustix::fs::open(trace_marker.as_str(), OFlags::WRONLY, Mode::empty())?;
    counted!(6, file, |file: &mut OwnedFd| rustix::io::write(
        &*file, b"0x10\n"
    ));
    Ok(())
}
