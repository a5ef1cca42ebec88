// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io;

/// Access to a front: its registers, its interrupt, and a buffer in memory that its DMA can reach.
pub trait Board {
    /// Reads the register at a byte offset. An access that the bus refuses is an error.
    fn read(&mut self, register: u32) -> io::Result<u32>;

    /// Writes the register at a byte offset.
    fn write(&mut self, register: u32, value: u32) -> io::Result<()>;

    /// Waits until the interrupt is raised; it stays so until it is acknowledged in a register.
    /// Returns [`io::ErrorKind::TimedOut`] if it is not raised.
    fn wait(&mut self) -> io::Result<()>;

    /// The buffer's address, as the hardware sees it.
    fn buffer_address(&self) -> u64;

    /// The buffer's size in bytes: at least 80 and a multiple of 4.
    fn buffer_bytes(&self) -> usize;

    /// Copies data that the hardware wrote out of the buffer, from its start on.
    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()>;

    /// Copies data for the hardware into the buffer, from its start on.
    fn store(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl<B: Board + ?Sized> Board for Box<B> {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        (**self).read(register)
    }

    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        (**self).write(register, value)
    }

    fn wait(&mut self) -> io::Result<()> {
        (**self).wait()
    }

    fn buffer_address(&self) -> u64 {
        (**self).buffer_address()
    }

    fn buffer_bytes(&self) -> usize {
        (**self).buffer_bytes()
    }

    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        (**self).load(bytes)
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).store(bytes)
    }
}
