// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::Board;

const BASE: u64 = 0x1_0000_0000;
const BUFFER_BYTES: usize = 1 << 16;
/// Longer than the core's own time-out, which ends anything that stalls.
const WAIT_CYCLES: u32 = 400_000_000;

/// The verilated core behind the socket of `rtl/sim/hwfs_axi/hwfs_axi_bench.cpp`, whose head has
/// the protocol.
#[derive(Debug)]
pub struct Simulation {
    socket: UnixStream,
}

impl Simulation {
    /// Connects to a simulation's socket. When this is dropped, the simulation writes its drive's
    /// image back.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: UnixStream::connect(path)?,
        })
    }

    fn ask(&mut self, operation: u8, address: u64, length: u32, data: &[u8]) -> io::Result<()> {
        let mut request = Vec::with_capacity(16 + data.len());
        request.extend([operation, 0, 0, 0]);
        request.extend(length.to_le_bytes());
        request.extend(address.to_le_bytes());
        request.extend(data);
        self.socket.write_all(&request)
    }

    fn answer(&mut self) -> io::Result<[u32; 2]> {
        let mut bytes = [0; 8];
        self.socket.read_exact(&mut bytes)?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok([word(0), word(4)])
    }

    /// The length of `data`, if it fits into the buffer.
    fn fits(length: usize) -> io::Result<u32> {
        match u32::try_from(length) {
            Ok(fits) if length <= BUFFER_BYTES => Ok(fits),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more data than the buffer has room for",
            )),
        }
    }
}

fn accepted(response: u32, register: u32) -> io::Result<()> {
    if response == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the bus refused an access to register {register:#x} (response {response})"
    )))
}

impl Board for Simulation {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        self.ask(b'r', register.into(), 0, &[])?;
        let [response, value] = self.answer()?;
        accepted(response, register)?;
        Ok(value)
    }

    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        self.ask(b'w', register.into(), 4, &value.to_le_bytes())?;
        accepted(self.answer()?[0], register)
    }

    fn wait(&mut self) -> io::Result<()> {
        self.ask(b'i', 0, WAIT_CYCLES, &[])?;
        match self.answer()?[0] {
            0 => Err(io::Error::new(io::ErrorKind::TimedOut, "no interrupt")),
            _ => Ok(()),
        }
    }

    fn buffer_address(&self) -> u64 {
        BASE
    }

    fn buffer_bytes(&self) -> usize {
        BUFFER_BYTES
    }

    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.ask(b'R', BASE, Self::fits(bytes.len())?, &[])?;
        self.socket.read_exact(bytes)
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ask(b'W', BASE, Self::fits(bytes.len())?, bytes)?;
        self.answer().map(|_| ())
    }
}
