// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open device: its memory and its requests in flight.

use crate::error::{Fault, usage};
use crate::memory::Memory;
use api::{Device, DeviceCommand, DeviceOptions, Error};
use block::{Completion, Geometry, Operation, Request};
use std::collections::VecDeque;

/// How long one sleep of a wait lasts at most, in microseconds.
const WAIT_US: u32 = 100_000;
/// The longest range of one discard: drives take their time over long ones, and a request has a
/// deadline.
const DISCARD_BYTES: u64 = 1 << 30;
const FLUSHING: &str = "flushing";

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The device's data to memory.
    Read,
    /// Memory's data to the device.
    Write {
        /// Whether it completes only when the data survives a power cut.
        fua: bool,
    },
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Flight {
    /// The caller's number; none for a blocking call's own request.
    tag: Option<u64>,
    address: usize,
    bytes: usize,
}

/// A request that has ended.
pub struct Done {
    /// The caller's number for it; none for a blocking call's own.
    pub tag: Option<u64>,
    /// Its memory; 0 for a flush.
    pub address: usize,
    /// Its length.
    pub bytes: usize,
    /// The result.
    pub result: Result<(), block::Error>,
}

/// An open device.
pub struct Session {
    device: Device,
    memory: Memory,
    geometry: Geometry,
    /// By the device's tag.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// Ended while a blocking call waited for its own.
    ended: VecDeque<Done>,
}

impl Session {
    /// Opens the device of this name.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn open(name: &str, options: &DeviceOptions<'_>) -> Result<Self, Fault> {
        let device = Device::open(name, options)?;
        let geometry = device.geometry();
        let depth = u32::from(geometry.queue_depth);
        Ok(Self {
            device,
            memory: Memory::default(),
            geometry,
            flights: vec![None; depth as usize],
            free: (0..depth).rev().collect(),
            ended: VecDeque::new(),
        })
    }

    /// Shape and limits.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The name of the path.
    pub fn path(&self) -> &str {
        self.device.path()
    }

    /// Keeps the memory of the buffers mapped while it exists, also when the device is closed.
    pub fn keep_memory(&self) -> impl Send + Sync + 'static + use<> {
        self.device.memory()
    }

    /// A file that is readable while a completion may be there, as long as the device is open.
    pub fn completion_file(&mut self) -> Option<i32> {
        self.device.device().completion_file()
    }

    /// Allocates a buffer: its address.
    ///
    /// # Errors
    /// No memory is left of what the device was opened with.
    pub fn allocate(&mut self, bytes: usize) -> Result<*mut u8, Fault> {
        if bytes == 0 {
            return Err(usage("a buffer of 0 bytes", "give a length"));
        }
        let buffer = self.device.allocate(bytes)?;
        Ok(self.memory.add(buffer).as_ptr())
    }

    /// Frees a buffer.
    ///
    /// # Errors
    /// It is none, or a request has part of it.
    pub fn free(&mut self, address: usize) -> Result<(), Fault> {
        let buffer = self.memory.remove(address)?;
        self.device.give_back(buffer);
        Ok(())
    }

    /// Submits a transfer of the bytes from `offset` of the device.
    ///
    /// # Errors
    /// The queue is full, or the range, the memory or the operation is not possible; nothing was
    /// submitted.
    pub fn submit(
        &mut self,
        way: Way,
        offset: u64,
        address: usize,
        bytes: usize,
        tag: Option<u64>,
    ) -> Result<(), Fault> {
        if way != Way::Read {
            self.check_writes()?;
        }
        self.check_whole_blocks(offset, bytes as u64)?;
        if bytes > self.geometry.max_transfer_bytes() {
            let most = self.geometry.max_transfer_bytes();
            return Err(usage(
                format!("{bytes} bytes are more than the {most} of one request"),
                "submit several requests, or make the call that waits",
            ));
        }
        let slot = self.free.pop().ok_or(Fault::Again)?;
        let lent = self.memory.lend(address, bytes);
        let buffer = match lent {
            Ok(buffer) => buffer,
            Err(fault) => {
                self.free.push(slot);
                return Err(fault);
            }
        };
        let lba = offset / self.geometry.block_size_bytes() as u64;
        let operation = match way {
            Way::Read => Operation::Read { lba, buffer },
            Way::Write { fua } => Operation::Write { lba, buffer, fua },
        };
        self.start(
            slot,
            operation,
            Flight {
                tag,
                address,
                bytes,
            },
            doing(way),
        )
    }

    fn check_writes(&self) -> Result<(), Fault> {
        if !self.device.writes() {
            return Err(usage(
                "the device was opened to read it",
                "set `write` when it is opened",
            ));
        }
        Ok(())
    }

    fn check_whole_blocks(&self, offset: u64, bytes: u64) -> Result<(), Fault> {
        let block = self.geometry.block_size_bytes() as u64;
        if offset % block != 0 || bytes % block != 0 || bytes == 0 {
            return Err(usage(
                format!("{bytes} bytes at byte {offset} are not whole blocks of {block} bytes"),
                "the geometry tells the block size",
            ));
        }
        Ok(())
    }

    fn check_fits(&self, offset: u64, bytes: u64) -> Result<(), Fault> {
        let size = self.geometry.size_bytes();
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(usage(
                format!("{bytes} bytes at byte {offset} do not fit on a device of {size} bytes"),
                "the geometry tells the size",
            ));
        }
        Ok(())
    }

    /// Submits a flush.
    ///
    /// # Errors
    /// The queue is full, or the device refused it.
    pub fn submit_flush(&mut self, tag: Option<u64>) -> Result<(), Fault> {
        self.submit_without_memory(Operation::Flush, tag, FLUSHING)
    }

    fn submit_without_memory(
        &mut self,
        operation: Operation,
        tag: Option<u64>,
        doing: &str,
    ) -> Result<(), Fault> {
        let slot = self.free.pop().ok_or(Fault::Again)?;
        let flight = Flight {
            tag,
            address: 0,
            bytes: 0,
        };
        self.start(slot, operation, flight, doing)
    }

    fn start(
        &mut self,
        slot: u32,
        operation: Operation,
        flight: Flight,
        doing: &str,
    ) -> Result<(), Fault> {
        match self.device.device().submit(Request {
            tag: slot,
            operation,
        }) {
            Ok(()) => {
                self.flights[slot as usize] = Some(flight);
                Ok(())
            }
            Err(refused) => {
                if let Some(part) = refused.request.operation.into_buffer() {
                    self.memory.take_back(part);
                }
                self.free.push(slot);
                match refused.error {
                    block::Error::Busy => Err(Fault::Again),
                    error => Err(Error::request(doing, error).into()),
                }
            }
        }
    }

    /// Starts what was submitted.
    pub fn kick(&mut self) {
        self.device.device().kick();
    }

    /// The next request that has ended.
    pub fn poll(&mut self) -> Option<Done> {
        self.ended.pop_front().or_else(|| self.poll_device())
    }

    fn poll_device(&mut self) -> Option<Done> {
        let completion = self.device.device().poll()?;
        Some(self.done(completion))
    }

    fn done(&mut self, completion: Completion) -> Done {
        if let Some(part) = completion.buffer {
            self.memory.take_back(part);
        }
        let flight = self
            .flights
            .get_mut(completion.tag as usize)
            .and_then(Option::take);
        debug_assert!(flight.is_some(), "a completion of no request");
        let flight = flight.unwrap_or(Flight {
            tag: None,
            address: 0,
            bytes: 0,
        });
        self.free.push(completion.tag);
        Done {
            tag: flight.tag,
            address: flight.address,
            bytes: flight.bytes,
            result: completion.result,
        }
    }

    /// Sleeps until a completion may be there or the time has passed.
    pub fn wait(&mut self, timeout_us: u32) {
        if self.ended.is_empty() {
            self.kick();
            self.device.device().wait(timeout_us);
        }
    }

    /// Requests in flight, and ended ones that were not polled.
    pub fn outstanding(&self) -> usize {
        self.flights.len() - self.free.len() + self.ended.len()
    }

    /// Transfers any number of whole blocks, and returns when all are done. Other requests stay in
    /// flight.
    ///
    /// # Errors
    /// The first error by address. Some of the data may have been transferred.
    pub fn transfer(
        &mut self,
        way: Way,
        offset: u64,
        address: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        let most = self.geometry.max_transfer_bytes();
        // Checked whole before anything is submitted.
        self.check_fits(offset, bytes as u64)?;
        let whole = self.memory.lend(address, bytes)?;
        self.memory.take_back(whole);
        let (mut at, mut own) = (0, 0usize);
        let mut failure: Option<(usize, Fault)> = None;
        let mut kept = VecDeque::new();
        while at < bytes.max(1) && failure.is_none() || own > 0 {
            if at < bytes.max(1) && failure.is_none() {
                let len = most.min(bytes - at);
                match self.submit(way, offset + at as u64, address + at, len, None) {
                    Ok(()) => {
                        at += len;
                        own += 1;
                        continue;
                    }
                    Err(Fault::Again) if self.outstanding() > 0 => {}
                    Err(fault) => {
                        failure = Some((at, fault));
                        continue;
                    }
                }
            }
            self.kick();
            match self.poll_device() {
                Some(done) if done.tag.is_none() => {
                    own -= 1;
                    let place = done.address - address;
                    if let Err(error) = done.result
                        && failure.as_ref().is_none_or(|(first, _)| place < *first)
                    {
                        let doing = format!("{} at byte {}", doing(way), offset + place as u64);
                        failure = Some((place, Error::request(doing, error).into()));
                    }
                }
                Some(done) => kept.push_back(done),
                None => self.device.device().wait(WAIT_US),
            }
        }
        self.ended.append(&mut kept);
        failure.map_or(Ok(()), |(_, fault)| Err(fault))
    }

    /// Makes all completed writes durable. Other requests stay in flight.
    ///
    /// # Errors
    /// The device's error.
    pub fn flush(&mut self) -> Result<(), Fault> {
        self.without_memory(&|| Operation::Flush, FLUSHING)
    }

    /// Gives the bytes from `offset` back to the drive. Other requests stay in flight.
    ///
    /// # Errors
    /// The range is not whole blocks of the device, the device was opened to read or cannot
    /// discard, or its error; what precedes the named byte may have been given back.
    pub fn discard(&mut self, offset: u64, bytes: u64) -> Result<(), Fault> {
        self.check_writes()?;
        self.check_whole_blocks(offset, bytes)?;
        self.check_fits(offset, bytes)?;
        let block = self.geometry.block_size_bytes() as u64;
        let mut at = offset;
        let end = offset + bytes;
        while at < end {
            let part = (end - at).min(DISCARD_BYTES);
            let operation = || Operation::Discard {
                lba: at / block,
                block_count: (part / block) as u32,
            };
            self.without_memory(&operation, &format!("discarding at byte {at}"))?;
            at += part;
        }
        Ok(())
    }

    /// Submits a request that has no memory, and waits for its end.
    fn without_memory(
        &mut self,
        operation: &dyn Fn() -> Operation,
        doing: &str,
    ) -> Result<(), Fault> {
        loop {
            match self.submit_without_memory(operation(), None, doing) {
                Ok(()) => break,
                Err(Fault::Again) if self.outstanding() > self.ended.len() => self.take_one(),
                Err(fault) => return Err(fault),
            }
        }
        self.kick();
        loop {
            match self.poll_device() {
                Some(done) if done.tag.is_none() => {
                    return done
                        .result
                        .map_err(|error| Error::request(doing, error).into());
                }
                Some(done) => self.ended.push_back(done),
                None => self.device.device().wait(WAIT_US),
            }
        }
    }

    /// Waits for one completion, and keeps it.
    fn take_one(&mut self) {
        self.kick();
        match self.poll_device() {
            Some(done) => self.ended.push_back(done),
            None => self.device.device().wait(WAIT_US),
        }
    }

    /// Sends a command that the driver does not interpret, and waits for its end.
    ///
    /// # Errors
    /// As [`Device::command`].
    pub fn command(
        &mut self,
        command: &DeviceCommand<'_>,
        bytes: &mut [u8],
    ) -> Result<Option<u32>, Fault> {
        Ok(self.device.command(command, bytes)?)
    }

    /// Waits for what is in flight, frees the buffers and closes the device.
    ///
    /// # Errors
    /// The drive could not be returned to its driver.
    pub fn close(mut self) -> Result<(), Fault> {
        while self.outstanding() > self.ended.len() {
            self.take_one();
        }
        while let Some(buffer) = self.memory.pop() {
            self.device.give_back(buffer);
        }
        Ok(self.device.close()?)
    }
}

fn doing(way: Way) -> &'static str {
    match way {
        Way::Read => "reading",
        Way::Write { .. } => "writing",
    }
}
