// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::access::{Access, Offsets, Operation, Pattern};
use crate::host::Monotonic;
use crate::path::Region;
use crate::tally::CellError;
use block::{Buffer, Completion, Error, Geometry, RamDisk, Refused, Request};

/// A RAM disk with a largest transfer of `max_transfer_blocks`, which counts and can fail.
struct Limited {
    inner: RamDisk<Vec<u8>, 8>,
    geometry: Geometry,
    requests: u64,
    most_outstanding: usize,
    fail_after: u64,
}

impl Limited {
    fn new(max_transfer_blocks: u32) -> Self {
        let inner = RamDisk::new(vec![0; 1 << 20], 9).unwrap();
        let geometry = Geometry {
            max_transfer_blocks,
            ..*inner.geometry()
        };
        Self {
            inner,
            geometry,
            requests: 0,
            most_outstanding: 0,
            fail_after: u64::MAX,
        }
    }
}

impl Device for Limited {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        self.requests += 1;
        self.inner.submit(request)?;
        self.most_outstanding = self.most_outstanding.max(self.inner.outstanding());
        Ok(())
    }
    fn kick(&mut self) {}
    fn poll(&mut self) -> Option<Completion> {
        let mut completion = self.inner.poll()?;
        if self.requests > self.fail_after {
            completion.result = Err(Error::Nvme { status: 0x281 });
        }
        Some(completion)
    }
    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}

fn buffers(count: usize, len: usize) -> Vec<Buffer> {
    (0..count)
        .map(|_| Buffer::from_static(Box::leak(vec![5; len].into_boxed_slice())))
        .collect()
}

fn closed_loop(operation: Operation, block: usize, depth: usize) -> ClosedLoop {
    let access = Access {
        operation,
        pattern: Pattern::Random,
        block_size_bytes: block as u64,
    };
    let offsets = Offsets::new(access, 1 << 20, 1, 0);
    let geometry = *Limited::new(8).geometry();
    let made = Operations::new(
        access,
        offsets,
        1 << 20,
        Region::whole(&geometry),
        &geometry,
        buffers(depth, block),
    );
    ClosedLoop::new(made.map_err(|(error, _)| error).unwrap())
}

static GO: AtomicBool = AtomicBool::new(false);

#[test]
fn a_block_is_split_into_exactly_ceil_requests() {
    for (block, most, expected) in [(4096, 8, 1), (4096, 7, 2), (65536, 8, 16), (65536, 9, 15)] {
        let mut device = Limited::new(most);
        let mut cell = closed_loop(Operation::Write, block, 2);
        let tally = cell.run(&mut device, &Monotonic, 2_000_000, &GO);
        assert!(tally.operations > 0);
        assert_eq!(
            device.requests,
            tally.operations * expected,
            "{block} by {most}"
        );
        assert_eq!(tally.bytes, tally.operations * block as u64);
        assert_eq!(cell.service_times().unwrap().len(), tally.operations);
        assert_eq!(
            (tally.errors, Operations::from(cell).into_buffers().len()),
            (0, 2)
        );
        // Queued together, as far as the queue of 8 goes.
        assert_eq!(device.most_outstanding as u64, (2 * expected).min(8));
    }
}

#[test]
fn at_least_one_operation_runs_however_short_the_time() {
    let mut device = Limited::new(8);
    let tally = closed_loop(Operation::Read, 4096, 1).run(&mut device, &Monotonic, 0, &GO);
    assert_eq!(tally.operations, 1);
    assert!(tally.elapsed_ns > 0);
}

#[test]
fn failures_are_counted_once_an_operation_and_keep_their_status() {
    let mut device = Limited::new(1);
    device.fail_after = 80;
    let mut cell = closed_loop(Operation::Read, 4096, 1);
    let tally = cell.run(&mut device, &Monotonic, 1_000_000, &GO);
    assert_eq!(tally.operations, 10);
    assert_eq!(tally.first_error, Some(Error::Nvme { status: 0x281 }));
    assert_eq!(device.requests, (tally.operations + tally.errors) * 8);
    assert_eq!(Operations::from(cell).into_buffers().len(), 1);
}

#[test]
fn a_refusal_ends_the_loop_and_loses_no_buffer() {
    let mut device = Limited::new(8);
    device.geometry.features.read_only = true;
    let mut cell = closed_loop(Operation::Write, 4096, 3);
    let tally = cell.run(&mut device, &Monotonic, u64::MAX, &GO);
    assert_eq!((tally.operations, tally.errors), (0, 1));
    assert_eq!(tally.first_error, Some(Error::ReadOnly));
    assert_eq!(Operations::from(cell).into_buffers().len(), 3);
}

#[test]
fn cancellation_ends_the_loop() {
    let mut device = Limited::new(8);
    let cancel = AtomicBool::new(true);
    let tally =
        closed_loop(Operation::Read, 512, 1).run(&mut device, &Monotonic, u64::MAX, &cancel);
    assert!(tally.cancelled && tally.operations == 1);
}

#[test]
fn what_does_not_fit_is_refused_with_the_buffers() {
    let geometry = *Limited::new(8).geometry();
    let make = |block_size_bytes, span_bytes, len| {
        let access = Access {
            operation: Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes,
        };
        let offsets = Offsets::new(access, span_bytes, 1, 0);
        let region = Region::whole(&geometry);
        let made = Operations::new(
            access,
            offsets,
            span_bytes,
            region,
            &geometry,
            buffers(1, len),
        );
        made.map(|_| ()).map_err(|(error, given_back)| {
            assert_eq!(given_back.len(), 1);
            error
        })
    };
    assert!(matches!(
        make(1000, 1 << 20, 1000),
        Err(CellError::Unaligned { .. })
    ));
    assert!(matches!(
        make(512, 1 << 21, 512),
        Err(CellError::RegionTooSmall { .. })
    ));
    assert!(matches!(
        make(1024, 1 << 20, 512),
        Err(CellError::BufferLength { .. })
    ));
    assert_eq!(make(1024, 1 << 20, 1024), Ok(()));
}
