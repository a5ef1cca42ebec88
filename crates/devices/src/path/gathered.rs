// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hybrid direct I/O over an open path: `--hybrid`, and the paths that gather.

use crate::error::{Error, Result};
use crate::path::memory::Memory;
use block::{Buffer, Completion, Device, Geometry, Refused, Request};
use hybrid::{Hybrid, HybridOptions};
use linux::TscClock;
use remedy::{Remedy, Setting, words};

/// Buffers that gather writes or are read ahead.
pub const LINES: usize = 8;
/// The length of a line, where the device's largest transfer allows it.
const LINE_BYTES: usize = 1 << 20;
/// Requests outstanding at most.
pub const DEPTH: usize = 64;
/// How long the end waits for the device at a time, in microseconds.
const WAIT_US: u32 = 10_000;

/// The memory for all lines, with room to align each.
pub const MEMORY_BYTES: usize = LINES * LINE_BYTES + super::LARGEST_BLOCK_BYTES * LINES;

/// An open path as a sized type.
pub struct Inner(pub Box<dyn Device>);

block::forward_device!(Inner, 0);

type Lines = Hybrid<Inner, TscClock, LINES, DEPTH>;

/// A path that gathers. Dropped, it waits for the device and returns its memory; what was not
/// flushed is lost, as with any volatile cache.
struct Gathered {
    /// `None` only while it is being dropped.
    hybrid: Option<Lines>,
    memory: Memory,
    geometry: Geometry,
}

/// `device` with small sequential accesses gathered, in lines of at most `most_line_bytes` from
/// `memory`.
///
/// # Errors
/// There is not enough memory, or the device's transfers are too short.
pub fn wrap(
    device: Box<dyn Device>,
    memory: &Memory,
    most_line_bytes: usize,
) -> Result<Box<dyn Device>> {
    let geometry = *device.geometry();
    let most = geometry.max_transfer_bytes().min(LINE_BYTES);
    let most = most.min(most_line_bytes);
    // A power of two of blocks.
    let line_bytes = 1usize << (usize::BITS - 1 - most.max(1).leading_zeros());
    let mut lines = Vec::new();
    while lines.len() < LINES {
        match memory.allocate(line_bytes) {
            Ok(line) => lines.push(line),
            Err(failure) => {
                lines.into_iter().for_each(|line| memory.give_back(line));
                return Err(failure.and(words![Setting::Hybrid, " needs memory for its lines"]));
            }
        }
    }
    let Ok(lines) = <[Buffer; LINES]>::try_from(lines) else {
        return Err(Error::unsupported("hybrid direct I/O without lines"));
    };
    match Lines::open(
        Inner(device),
        TscClock::new(),
        lines,
        HybridOptions::default(),
    ) {
        Ok(hybrid) => Ok(Box::new(Gathered {
            geometry: *hybrid.geometry(),
            hybrid: Some(hybrid),
            memory: memory.clone(),
        })),
        Err(error) => {
            let reason = error.reason;
            let lines = error.lines.into_iter().flatten();
            lines.for_each(|line| memory.give_back(line));
            Err(Error::unsupported(format!("hybrid direct I/O: {reason}"))
                .hint(Remedy::omit([Setting::Hybrid])))
        }
    }
}

impl Device for Gathered {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        match &mut self.hybrid {
            Some(hybrid) => hybrid.submit(request),
            None => Err(Refused {
                error: block::Error::Gone,
                request,
            }),
        }
    }

    fn kick(&mut self) {
        if let Some(hybrid) = &mut self.hybrid {
            hybrid.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.hybrid.as_mut()?.poll()
    }

    fn outstanding(&self) -> usize {
        self.hybrid.as_ref().map_or(0, Device::outstanding)
    }

    fn wait(&mut self, timeout_us: u32) {
        if let Some(hybrid) = &mut self.hybrid {
            hybrid.wait(timeout_us);
        }
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        let mut left = self.hybrid.take();
        while let Some(hybrid) = left.take() {
            match hybrid.into_parts() {
                Ok((device, lines)) => {
                    drop(device);
                    let lines = lines.into_iter().flatten();
                    lines.for_each(|line| self.memory.give_back(line));
                }
                // Each accepted request ends within a bounded time.
                Err(mut hybrid) => {
                    hybrid.discard_gathered();
                    hybrid.kick();
                    while hybrid.poll().is_some() {}
                    hybrid.wait(WAIT_US);
                    left = Some(hybrid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{RamDisk, blocking};
    use linux::HostMemory;

    #[test]
    fn a_path_that_gathers_returns_all_memory_and_has_what_was_flushed() {
        let memory = HostMemory::new(MEMORY_BYTES + (1 << 20)).unwrap();
        let disk: Box<dyn Device> = Box::new(RamDisk::<_, 64>::new(vec![0; 8 << 20], 9).unwrap());
        let shared = Memory::Host(memory.clone());
        let mut device = wrap(disk, &shared, usize::MAX).unwrap();
        let mut buffer = shared.allocate(4096).unwrap();
        for turn in 0..100 {
            buffer.fill(turn as u8);
            let written = blocking::write(device.as_mut(), turn * 8, buffer, false);
            written.result.unwrap();
            buffer = written.buffer;
        }
        blocking::flush(device.as_mut()).unwrap();
        for turn in 0..100 {
            let read = blocking::read(device.as_mut(), turn * 8, buffer);
            read.result.unwrap();
            buffer = read.buffer;
            assert!(buffer.iter().all(|&byte| byte == turn as u8), "{turn}");
        }
        shared.give_back(buffer);
        drop(device);
        assert_eq!(memory.buffers_out(), 0);
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let memory = HostMemory::new(1 << 20).unwrap();
        let disk: Box<dyn Device> = Box::new(RamDisk::<_, 64>::new(vec![0; 8 << 20], 9).unwrap());
        assert!(wrap(disk, &Memory::Host(memory.clone()), usize::MAX).is_err());
        assert_eq!(memory.buffers_out(), 0);
    }
}
