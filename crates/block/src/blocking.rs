// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocking calls, as loops over submit and poll.
//!
//! Each call needs the device to itself: it refuses to start while other requests are
//! outstanding. Transfers longer than the device's largest are split into exactly
//! `ceil(length / max_transfer_bytes)` requests, as many of them in flight as the queue holds.

use crate::{Buffer, Device, Error, Lent, Operation, Request};

/// How long one sleep in [`Device::wait`] may last, in microseconds; the loop then polls again.
const WAIT_US: u32 = 100_000;

/// The end of a blocking transfer: the buffer, returned to the caller, and the result.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    /// The buffer that was passed in.
    pub buffer: Buffer,
    /// The first error by address, or success.
    pub result: Result<(), Error>,
}

/// Reads `buffer.len()` bytes from block `lba` on.
pub fn read<D: Device + ?Sized>(device: &mut D, lba: u64, buffer: Buffer) -> Outcome {
    transfer(device, Way::Read, lba, buffer)
}

/// Writes `buffer` from block `lba` on; with `fua`, returns when it is durable.
pub fn write<D: Device + ?Sized>(device: &mut D, lba: u64, buffer: Buffer, fua: bool) -> Outcome {
    transfer(device, Way::Write { fua }, lba, buffer)
}

/// Makes completed writes durable.
///
/// # Errors
/// The device's error, or [`Error::Busy`] while other requests are outstanding.
pub fn flush<D: Device + ?Sized>(device: &mut D) -> Result<(), Error> {
    command(device, Operation::Flush)
}

/// Runs one operation without a buffer until it completes.
///
/// # Errors
/// The device's error, or [`Error::Busy`] while other requests are outstanding.
pub fn command<D: Device + ?Sized>(device: &mut D, operation: Operation) -> Result<(), Error> {
    if device.outstanding() != 0 {
        return Err(Error::Busy);
    }
    let request = Request { tag: 0, operation };
    device.submit(request).map_err(|refused| refused.error)?;
    device.kick();
    loop {
        if let Some(completion) = device.poll() {
            return completion.result;
        }
        device.wait(WAIT_US);
    }
}

/// The direction of a transfer: a value, so that one loop per kind of device is compiled.
#[derive(Clone, Copy)]
enum Way {
    Read,
    Write { fua: bool },
}

impl Way {
    const fn operation(self, lba: u64, buffer: Buffer) -> Operation {
        match self {
            Way::Read => Operation::Read { lba, buffer },
            Way::Write { fua } => Operation::Write { lba, buffer, fua },
        }
    }
}

fn transfer<D: Device + ?Sized>(device: &mut D, way: Way, lba: u64, buffer: Buffer) -> Outcome {
    let geometry = *device.geometry();
    if let Err(error) = check(device, lba, &buffer) {
        let result = Err(error);
        return Outcome { buffer, result };
    }
    let mut lent = Lent::new(buffer);
    // The failure with the lowest offset, so that all before it is known to be good.
    let mut failure: Option<(usize, Error)> = None;
    loop {
        while failure.is_none()
            && lent.remaining_bytes() > 0
            && device.outstanding() < usize::from(geometry.queue_depth)
        {
            let offset = lent.offset_bytes();
            let piece = lent.lend(geometry.max_transfer_bytes());
            let lba = lba + (offset >> geometry.block_size_log2) as u64;
            let tag = offset as u32;
            let request = Request {
                tag,
                operation: way.operation(lba, piece),
            };
            if let Err(refused) = device.submit(request) {
                if let Some(piece) = refused.request.operation.into_buffer() {
                    take_back(&mut lent, piece);
                }
                failure = Some((offset, refused.error));
            }
        }
        device.kick();
        if device.outstanding() == 0 {
            break;
        }
        match device.poll() {
            Some(completion) => {
                let offset = completion
                    .buffer
                    .map_or(0, |piece| take_back(&mut lent, piece));
                if let Err(error) = completion.result {
                    if failure.is_none_or(|(earlier, _)| offset < earlier) {
                        failure = Some((offset, error));
                    }
                }
            }
            None => device.wait(WAIT_US),
        }
    }
    let result = failure.map_or(Ok(()), |(_, error)| Err(error));
    match lent.into_whole() {
        Ok(buffer) => Outcome { buffer, result },
        // The device broke its promise to give each buffer back. What is missing may still be
        // written to, so only an empty buffer can be returned.
        Err(_) => Outcome {
            buffer: Buffer::from_static(&mut []),
            result: Err(Error::Gone),
        },
    }
}

fn take_back(lent: &mut Lent, piece: Buffer) -> usize {
    // A piece of another buffer stays out; `into_whole` then reports the loss.
    lent.give_back(piece).unwrap_or(0)
}

/// Checks the whole transfer, so that an invalid one is refused before its first piece is written.
fn check<D: Device + ?Sized>(device: &D, lba: u64, buffer: &Buffer) -> Result<(), Error> {
    let geometry = device.geometry();
    if device.outstanding() != 0 {
        return Err(Error::Busy);
    }
    if buffer.is_empty() || buffer.len() % geometry.block_size_bytes() != 0 {
        return Err(Error::Unaligned);
    }
    let block_count = (buffer.len() >> geometry.block_size_log2) as u64;
    match lba.checked_add(block_count) {
        Some(end) if end <= geometry.block_count => Ok(()),
        _ => Err(Error::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Completion, Geometry, RamDisk, Refused};
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    /// A disk that completes nothing at two polls of three, as hardware does.
    struct Slow {
        disk: RamDisk<Vec<u8>, 4>,
        geometry: Geometry,
        polls: u32,
        requests: u32,
    }

    impl Device for Slow {
        fn geometry(&self) -> &Geometry {
            &self.geometry
        }

        fn submit(&mut self, request: Request) -> Result<(), Refused> {
            self.requests += 1;
            self.disk.submit(request)
        }

        fn kick(&mut self) {}

        fn poll(&mut self) -> Option<Completion> {
            self.polls += 1;
            if self.polls % 3 == 0 {
                self.disk.poll()
            } else {
                None
            }
        }

        fn outstanding(&self) -> usize {
            self.disk.outstanding()
        }
    }

    fn slow(max_transfer_blocks: u32) -> Slow {
        let disk = RamDisk::new(vec![0; 64 << 10], 9).unwrap();
        Slow {
            geometry: Geometry {
                max_transfer_blocks,
                ..*disk.geometry()
            },
            disk,
            polls: 0,
            requests: 0,
        }
    }

    #[test]
    fn a_transfer_of_more_pieces_than_the_queue_holds() {
        let mut device = slow(3);
        let data = Box::leak(
            (0..20 * 512)
                .map(|i| i as u8)
                .collect::<Vec<_>>()
                .into_boxed_slice(),
        );
        let written = write(&mut device, 5, Buffer::from_static(data), false);
        assert_eq!(written.result, Ok(()));
        assert_eq!(device.requests, 7, "20 blocks in pieces of 3");
        let mut buffer = written.buffer;
        buffer.fill(0);
        let read = read(&mut device, 5, buffer);
        assert_eq!(read.result, Ok(()));
        assert!(
            read.buffer
                .iter()
                .enumerate()
                .all(|(i, &byte)| byte == i as u8)
        );
    }

    #[test]
    fn a_transfer_past_the_end_writes_nothing() {
        let mut device = slow(3);
        let data = Box::leak(vec![1; 20 * 512].into_boxed_slice());
        let written = write(&mut device, 120, Buffer::from_static(data), false);
        assert_eq!(written.result, Err(Error::OutOfRange));
        assert_eq!(device.requests, 0);
    }
}
