// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device and its interrupt are played: a plain file, and a socket.

use super::*;
use hwfs::{CoreStatus, Front};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const BUFFER_BYTES: usize = 8192;
const ADDRESS: u64 = 0x1f00_0000;

/// A tree with `sys` and `dev`, in which a plain file has the device's two maps.
struct Tree {
    folder: PathBuf,
    roots: Roots,
}

impl Tree {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("uio-{}-{name}", std::process::id()));
        let roots = Roots::under(&folder);
        let tree = Self { folder, roots };
        tree.map(0, 0x43c0_0000, 4096, 0);
        tree.map(1, ADDRESS, BUFFER_BYTES as u64, 0);
        fs::create_dir_all(&tree.roots.dev).unwrap();
        let page = rustix::param::page_size();
        fs::write(tree.device(), vec![0; page + BUFFER_BYTES]).unwrap();
        tree
    }

    fn map(&self, number: u32, address: u64, bytes: u64, offset: u64) {
        let folder = self
            .roots
            .sys
            .join(format!("class/uio/uio0/maps/map{number}"));
        fs::create_dir_all(&folder).unwrap();
        for (file, value) in [("addr", address), ("size", bytes), ("offset", offset)] {
            fs::write(folder.join(file), format!("{value:#x}\n")).unwrap();
        }
    }

    fn device(&self) -> PathBuf {
        self.roots.dev.join("uio0")
    }

    fn open(&self) -> Result<Uio> {
        Uio::open_in(&self.roots, &self.device())
    }

    /// The same file, as the hardware has it: registers and buffer.
    fn hardware(&self) -> (Mmio, Mmio) {
        let file = File::options()
            .read(true)
            .write(true)
            .open(self.device())
            .unwrap();
        let page = rustix::param::page_size();
        let part =
            |offset, len| Mmio::new(Mapping::device(&file, offset as u64, len).unwrap()).unwrap();
        (part(0, 4096), part(page, BUFFER_BYTES))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn what_is_not_a_front_s_uio_device_is_refused_with_the_reason() {
    let refused = |tree: &Tree| match tree.open().unwrap_err() {
        Error::BadName { why, .. } => why,
        other => panic!("{other}"),
    };
    let tree = Tree::new("bad");
    tree.map(0, 0, 2048, 0);
    assert!(refused(&tree).contains("4 KiB of registers"));
    tree.map(0, 0, 4096, 0x10);
    assert!(refused(&tree).contains("begins at a page"));
    tree.map(0, 0, 4096, 0);
    for bytes in [76, 82] {
        tree.map(1, ADDRESS, bytes, 0);
        assert!(refused(&tree).contains("multiple of 4"));
    }
    fs::remove_dir_all(tree.roots.sys.join("class/uio/uio0/maps/map1")).unwrap();
    assert!(refused(&tree).contains("map 1"));
    assert!(matches!(
        Uio::open_in(&tree.roots, Path::new("/dev/null")),
        Err(Error::BadName { .. })
    ));
}

#[test]
fn one_process_has_it_at_a_time() {
    let tree = Tree::new("lock");
    let first = tree.open().unwrap();
    assert!(matches!(tree.open(), Err(Error::InUse { .. })));
    drop(first);
    tree.open().unwrap();
}

#[test]
fn the_buffer_takes_any_length_that_fits() {
    use hwfs::Board;
    let tree = Tree::new("buffer");
    let mut board = tree.open().unwrap();
    assert_eq!(
        (board.buffer_address(), board.buffer_bytes()),
        (ADDRESS, BUFFER_BYTES)
    );
    let data: Vec<u8> = (0..BUFFER_BYTES).map(|at| at as u8).collect();
    for len in [0, 1, 3, 4, 79, BUFFER_BYTES] {
        let mut back = vec![0xee; len];
        board.store(&data[..len]).unwrap();
        board.load(&mut back).unwrap();
        assert_eq!(back, data[..len]);
    }
    assert!(board.store(&[0; BUFFER_BYTES + 1]).is_err());
    assert!(board.load(&mut [0; BUFFER_BYTES + 1]).is_err());
}

/// Ends each command that is started: `Open` with a size, `Read` with the data, `List` with no
/// file; raises the interrupt by a line on `interrupt`.
fn play(registers: &Mmio, buffer: &Mmio, mut interrupt: UnixStream, data: &[u8], end: &AtomicBool) {
    let (mut ended, mut enabled) = (0_u32, [0; 4]);
    while !end.load(Ordering::Relaxed) {
        if registers.read32(0x08) & 1 == 0 {
            thread::yield_now();
            continue;
        }
        registers.write32(0x08, 0);
        let (mut status, mut value) = (CoreStatus::OK.0, 0);
        match registers.read32(0x10) & 15 {
            2 => value = data.len() as u32,
            4 => {
                let (from, len) = (
                    registers.read32(0x18) as usize,
                    registers.read32(0x20) as usize,
                );
                assert_eq!(registers.read32(0x28), ADDRESS as u32);
                for (index, part) in data[from..from + len].chunks(4).enumerate() {
                    let mut word = [0; 4];
                    word[..part.len()].copy_from_slice(part);
                    buffer.write32(4 * index, u32::from_le_bytes(word));
                }
            }
            12 => status = CoreStatus::NOT_FOUND.0,
            _ => {}
        }
        ended = ended.wrapping_add(1) & 255;
        registers.write32(0x30, value);
        registers.write32(0x0c, ended << 24 | u32::from(status) << 8 | 2);
        interrupt.read_exact(&mut enabled).unwrap();
        assert_eq!(u32::from_ne_bytes(enabled), 1);
        interrupt.write_all(&ended.to_ne_bytes()).unwrap();
    }
}

#[test]
fn commands_by_registers_interrupt_and_buffer() {
    let tree = Tree::new("commands");
    let mut board = tree.open().unwrap();
    let (registers, buffer) = tree.hardware();
    registers.write32(0x00, 0x4648_5753);
    registers.write32(0x04, 1);
    let (ours, theirs) = UnixStream::pair().unwrap();
    // A plain file has no interrupts.
    board.interrupt = File::from(OwnedFd::from(ours));
    let data: Vec<u8> = (0..20_001_u32).map(|at| (at * 7) as u8).collect();
    let end = Arc::new(AtomicBool::new(false));
    let player = thread::spawn({
        let (data, end) = (data.clone(), Arc::clone(&end));
        move || play(&registers, &buffer, theirs, &data, &end)
    });
    let mut front = Front::new(board).unwrap();
    front.mount(true).unwrap();
    let mut found = Vec::new();
    assert_eq!(front.get("data", &mut found).unwrap(), data.len() as u64);
    assert!(found == data);
    assert_eq!(front.list().unwrap(), []);
    front.unmount().unwrap();
    end.store(true, Ordering::Relaxed);
    player.join().unwrap();
}

#[test]
fn an_interrupt_that_never_comes_is_a_time_out() {
    let tree = Tree::new("silent");
    let mut board = tree.open().unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    board.interrupt = File::from(OwnedFd::from(ours));
    board.limit = Duration::from_millis(20);
    let error = hwfs::Board::wait(&mut board).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
