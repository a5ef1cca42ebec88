// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the library on a simulated front: its behaviour with faulty hardware. The verilated
//! hardware is in `rtl/test/test_hwfs_axi.py`.

use std::io;

use super::*;

/// Registers that store what is written; each started command ends with the next status.
struct Played {
    id: u32,
    shape: u32,
    status: u32,
    ends: Vec<u8>,
    operations: Vec<u32>,
    silent: bool,
    twice: bool,
}

impl Played {
    fn new(ends: &[u8]) -> Self {
        let ends = ends.iter().rev().copied().collect();
        Played {
            id: ID,
            shape: 1,
            status: 0xff << 24,
            ends,
            operations: Vec::new(),
            silent: false,
            twice: false,
        }
    }
}

impl Board for &mut Played {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        Ok(match register {
            register::ID => self.id,
            register::SHAPE => self.shape,
            register::STATUS => self.status,
            _ => 4,
        })
    }
    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        if register == register::COMMAND {
            self.operations.push(value & 15);
        }
        if register == register::CONTROL && value & START != 0 {
            let ended = (self.status >> 24).wrapping_add(if self.twice { 2 } else { 1 }) & 255;
            let status = self.ends.pop().unwrap_or(0);
            self.status = ended << 24 | u32::from(status) << 8 | DONE;
        }
        Ok(())
    }
    fn wait(&mut self) -> io::Result<()> {
        if self.silent {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(())
        }
    }
    fn buffer_address(&self) -> u64 {
        0
    }
    fn buffer_bytes(&self) -> usize {
        128
    }
    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(7);
        Ok(())
    }
    fn store(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_no_front_is_refused() {
    let mut played = Played {
        id: 0x1234,
        ..Played::new(&[])
    };
    assert!(matches!(
        Front::new(&mut played),
        Err(Error::NoFront(0x1234))
    ));
    let mut played = Played {
        shape: 2,
        ..Played::new(&[])
    };
    assert!(matches!(Front::new(&mut played), Err(Error::Version(2))));
    let mut played = Played {
        status: 1,
        ..Played::new(&[])
    };
    assert!(matches!(Front::new(&mut played), Err(Error::Busy)));
}

#[test]
fn a_command_ends_once_and_by_its_own_end() -> Result<(), Error> {
    let mut played = Played::new(&[0]);
    Front::new(&mut played)?.mount(false)?; // the count of ends goes from 255 to 0
    played.twice = true;
    assert!(matches!(
        Front::new(&mut played)?.mount(false),
        Err(Error::OutOfStep(_))
    ));
    played.silent = true;
    assert!(matches!(
        Front::new(&mut played)?.mount(false),
        Err(Error::Io(_))
    ));
    Ok(())
}

#[test]
fn a_name_without_room_is_not_asked_for() -> Result<(), Error> {
    let mut played = Played::new(&[]);
    let long = "n".repeat(NAME_MAX + 1);
    assert!(matches!(
        Front::new(&mut played)?.delete(&long),
        Err(Error::Status(CoreStatus::BAD_NAME, 0))
    ));
    assert!(played.operations.is_empty());
    Ok(())
}

#[test]
fn a_put_that_fails_leaves_no_file() -> Result<(), Error> {
    let mut played = Played::new(&[0, 0, 48]);
    let failed = Front::new(&mut played)?.put("name", 300, &mut [0; 300].as_slice());
    assert!(matches!(
        failed,
        Err(Error::Status(CoreStatus::SLAVE_ERROR, _))
    ));
    assert_eq!(played.operations, [3, 5, 5, 9, 10]); // create, two writes, close, delete
    // The source ends early.
    let mut played = Played::new(&[]);
    assert!(matches!(
        Front::new(&mut played)?.put("name", 300, &mut [0; 200].as_slice()),
        Err(Error::Io(_))
    ));
    assert_eq!(played.operations, [3, 5, 9, 10]);
    Ok(())
}

#[test]
fn a_part_that_is_not_in_the_file_is_not_read() -> Result<(), Error> {
    // Every command's value is 4, the file's size among them.
    let mut played = Played::new(&[]);
    let mut sink = Vec::new();
    let mut front = Front::new(&mut played)?;
    assert_eq!(front.size("name")?, 0x4_0000_0004);
    front.get_part("name", 3, 1, &mut sink)?;
    assert_eq!(sink, [7]);
    for (offset, length) in [(0x4_0000_0004, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let past = front.get_part("name", offset, length, &mut sink);
        assert!(matches!(past, Err(Error::Status(CoreStatus::PAST_END, 0))));
    }
    assert_eq!(sink, [7]);
    assert_eq!(played.operations, [2, 9, 2, 4, 9, 2, 9, 2, 9, 2, 9]);
    Ok(())
}

#[test]
fn a_stream_s_file_gets_space_as_it_grows() -> Result<(), Error> {
    let mut played = Played::new(&[]);
    let size = Front::new(&mut played)?.put_stream("name", &mut [0; 300].as_slice())?;
    assert_eq!(size, 300);
    // Space once, of which there is plenty; two whole buffers and the rest.
    assert_eq!(played.operations, [3, 6, 5, 5, 5, 9]);
    // No space for as much again, and none for the data either.
    let mut played = Played::new(&[0, 28, 28]);
    let failed = Front::new(&mut played)?.put_stream("name", &mut [0; 300].as_slice());
    assert!(matches!(
        failed,
        Err(Error::Status(CoreStatus::NO_SPACE, _))
    ));
    assert_eq!(played.operations, [3, 6, 6, 9, 10]);
    Ok(())
}

#[test]
fn the_shape_is_what_the_registers_have() -> Result<(), Error> {
    let mut board = Played::new(&[]);
    board.shape = 64 << 24 | 9 << 16 | 4 << 8 | 1;
    let shape = Front::new(&mut board)?.shape()?;
    let expected = Shape {
        version: 1,
        open_files: 4,
        name_bytes: 64,
        block_bytes: 512,
        block_count: None,
    };
    assert_eq!(shape, expected);
    board.status |= READY;
    let shape = Front::new(&mut board)?.shape()?;
    assert_eq!(shape.block_count, Some(4 << 32 | 4));
    // The widest number that the register can hold.
    board.shape = 255 << 16 | 1;
    assert_eq!(Front::new(&mut board)?.shape()?.block_bytes, 0);
    Ok(())
}
