// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A verilated timer behind a socket.

use crate::device::Registers;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The registers of a simulated timer (`rtl/test/bench_timer.py`). A request is `r` or `w`, three
/// zeroes, then the register and the value, 4 bytes each; an answer is the bus's response and the
/// value.
#[derive(Debug)]
pub struct Simulation {
    socket: UnixStream,
}

impl Simulation {
    /// Connects to a simulation's socket.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        Ok(Self { socket })
    }

    fn access(&mut self, operation: u8, register: u32, value: u32) -> io::Result<u32> {
        let [a, b, c, d] = register.to_le_bytes();
        let [e, f, g, h] = value.to_le_bytes();
        self.socket
            .write_all(&[operation, 0, 0, 0, a, b, c, d, e, f, g, h])?;
        let mut answer = [0; 8];
        self.socket.read_exact(&mut answer)?;
        let [response, _, _, _, low @ ..] = answer;
        match response {
            0 => Ok(u32::from_le_bytes(low)),
            _ => Err(io::Error::other(format!(
                "the timer refused an access to register {register:#x} (response {response})"
            ))),
        }
    }
}

impl Registers for Simulation {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        self.access(b'r', register, 0)
    }

    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        self.access(b'w', register, value).map(|_| ())
    }
}
