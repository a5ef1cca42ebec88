// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of Linux for a thread, from files that stay open.

use super::{Gauge, Reading};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SECTOR_BYTES: u64 = 512;

/// Reads the counters of the thread that makes it.
#[derive(Debug)]
pub struct ThreadGauge {
    schedstat: Option<File>,
    stat: Option<File>,
    io: Option<File>,
    memory: Option<File>,
    device: Option<File>,
}

impl ThreadGauge {
    /// For the calling thread, and the block device with this folder in sysfs
    /// (`/sys/class/block/NAME`) if the path goes through one.
    pub fn new(block_device: Option<&Path>) -> Self {
        let open = |path: &str| File::open(path).ok();
        let device = block_device.and_then(|folder| File::open(folder.join("stat")).ok());
        Self {
            schedstat: open("/proc/thread-self/schedstat"),
            stat: open("/proc/thread-self/stat"),
            io: open("/proc/self/io"),
            memory: open("/proc/pressure/memory"),
            device,
        }
    }
}

/// What `parse` finds in a file's text.
fn read<T>(file: Option<&File>, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut text = [0; 1024];
    let len = file?.read_at(&mut text, 0).ok()?;
    parse(std::str::from_utf8(text.get(..len)?).ok()?)
}

impl Gauge for ThreadGauge {
    fn read(&mut self, at_ns: u64) -> Reading {
        Reading {
            at_ns,
            waited_ns: read(self.schedstat.as_ref(), waited_ns),
            major_faults: read(self.stat.as_ref(), major_faults),
            memory_stall_ns: read(self.memory.as_ref(), stall_ns),
            device_bytes: read(self.device.as_ref(), device_bytes),
            own_bytes: read(self.io.as_ref(), own_bytes),
        }
    }
}

/// The kernel's Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`: time on the
/// processor, time on a run queue, both in nanoseconds, and time slices.
fn waited_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// proc(5): the twelfth field; the second, a name in brackets, may hold anything.
fn major_faults(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(9)?.parse().ok()
}

/// The kernel's Documentation/accounting/psi.rst: `some ... total=` in microseconds.
fn stall_ns(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let (_, total) = line.rsplit_once("total=")?;
    total.trim().parse::<u64>().ok()?.checked_mul(1000)
}

/// The kernel's Documentation/block/stat.rst: the third field is sectors read, the seventh sectors
/// written.
fn device_bytes(text: &str) -> Option<u64> {
    let mut fields = text.split_ascii_whitespace();
    let read: u64 = fields.nth(2)?.parse().ok()?;
    let written: u64 = fields.nth(3)?.parse().ok()?;
    read.checked_add(written)?.checked_mul(SECTOR_BYTES)
}

/// proc(5), `/proc/[pid]/io`: what the process had block devices read and write.
fn own_bytes(text: &str) -> Option<u64> {
    let of = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(": ")?
                .parse::<u64>()
                .ok()
        })
    };
    of("read_bytes")?.checked_add(of("write_bytes")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_s_documents_say() {
        assert_eq!(waited_ns("2140 77 12\n"), Some(77));
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 70 80 9 10 11 12";
        assert_eq!(major_faults(stat), Some(9));
        let memory = "some avg10=0.00 avg60=0.00 avg300=0.00 total=52\nfull avg10=0.00 total=9\n";
        assert_eq!(stall_ns(memory), Some(52_000));
        let stat = "  1 2 300 4 5 6 70 8 9 10 11\n";
        assert_eq!(device_bytes(stat), Some(370 * 512));
        let io =
            "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 9\n";
        assert_eq!(own_bytes(io), Some(4608));
        for text in ["", "x", "some total=", "1"] {
            assert_eq!((waited_ns(text), major_faults(text)), (None, None));
            assert_eq!((stall_ns(text), device_bytes(text)), (None, None));
            assert_eq!(own_bytes(text), None);
        }
    }

    /// What Linux itself says: a thread that has run has a time that is counted.
    #[test]
    fn the_machine_s_own_files_are_read() {
        let mut gauge = ThreadGauge::new(None);
        let (one, other) = (gauge.read(1), gauge.read(2));
        assert_eq!((one.at_ns, other.at_ns, one.device_bytes), (1, 2, None));
        assert!(one.major_faults.is_some() && other.major_faults >= one.major_faults);
        if std::path::Path::new("/proc/thread-self/schedstat").exists() {
            assert!(one.waited_ns.is_some() && other.waited_ns >= one.waited_ns);
        }
    }
}
