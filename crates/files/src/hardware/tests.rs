// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[test]
fn an_error_has_the_software_s_exit_status() {
    let exit = |status| failed("x", Error::Status(status, 0)).kind();
    assert_eq!(exit(CoreStatus::NOT_FOUND), ErrorKind::NotFound);
    assert_eq!(exit(CoreStatus::EXISTS), ErrorKind::Exists);
    assert_eq!(exit(CoreStatus::TABLE_FULL), ErrorKind::Full);
    assert_eq!(exit(CoreStatus::NOT_A_VOLUME), ErrorKind::Missing);
    assert_eq!(exit(CoreStatus::NEWER_VERSION), ErrorKind::Unsupported);
    assert_eq!(exit(CoreStatus(7)), ErrorKind::Other);
    assert_eq!(failed("x", Error::NoFront(0)).kind(), ErrorKind::Missing);
}

#[test]
fn what_is_not_a_board_has_its_exit_status() {
    let exit = |path| connect(Path::new(path)).err().map(|failure| failure.kind());
    assert_eq!(exit(""), Some(ErrorKind::Usage));
    assert_eq!(exit("/nonexistent/socket"), Some(ErrorKind::Missing));
    assert_eq!(exit("/dev/null"), Some(ErrorKind::Usage));
    assert_eq!(exit("/"), Some(ErrorKind::Unsupported));
}

/// A board with one file, whose drive changes a byte of what is read.
#[derive(Default)]
struct Played {
    registers: BTreeMap<u32, u32>,
    buffer: Vec<u8>,
    file: Arc<Mutex<Option<Vec<u8>>>>,
    wrong_at: Option<usize>,
    ended: u32,
}

impl Played {
    /// The command that a start carries out; its status and its value.
    fn command(&mut self) -> (u32, u64) {
        let number = |register: u32| self.registers.get(&register).map_or(0, |n| *n as usize);
        let (offset, length) = (number(0x18), number(0x20));
        let mut file = self.file.lock().unwrap();
        match number(0x10) & 15 {
            2 => match &*file {
                Some(data) => return (0, data.len() as u64),
                None => return (u32::from(CoreStatus::NOT_FOUND.0), 0),
            },
            3 => *file = Some(Vec::new()),
            4 => {
                let data = file.as_ref().unwrap();
                self.buffer = data[offset..offset + length].to_vec();
                let wrong_at = self.wrong_at.and_then(|at| at.checked_sub(offset));
                if let Some(byte) = wrong_at.and_then(|at| self.buffer.get_mut(at)) {
                    *byte ^= 1;
                }
            }
            5 => file.as_mut().unwrap().extend(&self.buffer[..length]),
            6 => return (0, length as u64),
            10 => *file = None,
            _ => {}
        }
        (0, 0)
    }
}

impl Board for Played {
    fn read(&mut self, register: u32) -> io::Result<u32> {
        Ok(match register {
            0x00 => 0x4648_5753,
            0x04 => 64 << 24 | 9 << 16 | 4 << 8 | 1,
            _ => self.registers.get(&register).copied().unwrap_or(0),
        })
    }
    fn write(&mut self, register: u32, value: u32) -> io::Result<()> {
        self.registers.insert(register, value);
        if register == 0x08 && value & 1 != 0 {
            let (status, result) = self.command();
            self.ended = (self.ended + 1) & 255;
            self.registers
                .insert(0x0c, self.ended << 24 | status << 8 | 2);
            self.registers.insert(0x30, result as u32);
        }
        Ok(())
    }
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn buffer_address(&self) -> u64 {
        0
    }
    fn buffer_bytes(&self) -> usize {
        40_000
    }
    fn load(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.buffer[..bytes.len()]);
        Ok(())
    }
    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer = bytes.to_vec();
        Ok(())
    }
}

/// What is verified after it was stored; the file that is left.
fn verified(wrong_at: Option<usize>) -> (Result<()>, Option<Vec<u8>>, Vec<u8>) {
    let data: Vec<u8> = (0..150_001u32).map(|i| ((i * 7) >> 4) as u8).collect();
    let name = format!("hardware-verified-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, &data).unwrap();
    let board = Played {
        wrong_at,
        ..Played::default()
    };
    let file = Arc::clone(&board.file);
    let mut files = Files {
        front: Front::new(Box::new(board) as Box<dyn Board>).unwrap(),
        device: "hwfs:played",
        slots: 64,
    };
    let (bar, cancel) = (Bar::hidden(), Cancel::default());
    let stop = Stop {
        bar: &bar,
        cancel: &cancel,
    };
    let mut sums = Chunks::default();
    let mut source = FileSource::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (length, _) = files.put("x", &mut source, Some(&mut sums), &stop).unwrap();
    assert_eq!(length, data.len() as u64);
    let result = files.verify("x", length, &sums.end(), &stop);
    let left = file.lock().unwrap().take();
    (result, left, data)
}

#[test]
fn a_put_that_is_verified_finds_a_wrong_byte_and_removes_the_file() {
    let (result, left, data) = verified(None);
    result.unwrap();
    assert_eq!(left, Some(data));
    for (at, chunk) in [(0, 0), (65_535, 0), (65_536, 65_536), (150_000, 131_072)] {
        let (result, left, _) = verified(Some(at));
        let failure = result.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Rot);
        let said = failure.to_string();
        assert!(
            said.contains(&format!("the 64 KiB at byte {chunk} differ")),
            "{said}"
        );
        assert_eq!(left, None);
    }
}
