// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A window in ordinary memory, a coprocessor that serves a RAM disk in a thread, and a client that
//! writes arbitrary words.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use block::{Buffer, Clock, Device, RamDisk};
use straightway_coprocessor::layout::{
    CLIENTS, SUBMISSION_BYTES, client, client_offset, data_part,
};
use straightway_coprocessor::{
    Access, Client, ClientEvent, ClientOptions, Drive, Files, Grant, Service, Want, Window,
};
use volume::{FormatOptions, MountOptions, OpenFile, Volume};

pub const WINDOW_BYTES: usize = 2 << 20;
pub const DISK_BYTES: usize = 8 << 20;
pub type Disk = RamDisk<Vec<u8>, 16>;

#[derive(Clone, Copy, Debug)]
pub struct Microseconds(Instant);

impl Microseconds {
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Microseconds {
    fn ticks(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// A window of zeroes with a `'static` lifetime.
pub fn window() -> Window {
    let pages = Box::leak(vec![Page([0; 4096]); WINDOW_BYTES / 4096].into_boxed_slice());
    // SAFETY: leaked, aligned, and reached through the window alone.
    unsafe { Window::new(NonNull::from(pages).cast(), WINDOW_BYTES) }
}

pub fn disk() -> Disk {
    RamDisk::new(vec![0; DISK_BYTES], 9).unwrap()
}

pub fn memory(len: usize) -> Buffer {
    Buffer::from_static(Box::leak(vec![0; len].into_boxed_slice()))
}

/// A disk with a volume.
pub fn formatted(checksums: bool) -> Disk {
    let mut disk = disk();
    let options = FormatOptions {
        checksums,
        ..FormatOptions::default()
    };
    volume::format(&mut disk, memory(4096), &options).0.unwrap();
    disk
}

pub fn grants(disk: &Disk) -> [Grant; CLIENTS] {
    std::array::from_fn(|index| Grant::whole(WINDOW_BYTES, index, disk.geometry().block_count))
}

/// The equivalent of the firmware's main loop: blocks, and files while a client wants them, until
/// `ended`.
pub fn serve<D: Device>(
    window: &Window,
    disk: &mut D,
    grants: [Grant; CLIENTS],
    ended: &dyn Fn() -> bool,
) -> Vec<ClientEvent> {
    let clock = Microseconds::new();
    Service::announce(window);
    let geometry = *disk.geometry();
    let mut service =
        Service::new(window, geometry, &Drive::default(), grants, &clock).expect("a window");
    let mut events = Vec::new();
    while !ended() {
        if service.want() == Want::Blocks || !service.is_idle(disk) {
            if !service.step(disk, &clock) {
                std::thread::yield_now();
            }
            events.extend(service.take_event());
        } else {
            files(&mut service, disk, &clock, &mut events, ended);
        }
    }
    events
}

fn files<D: Device>(
    service: &mut Service,
    disk: &mut D,
    clock: &Microseconds,
    events: &mut Vec<ClientEvent>,
    ended: &dyn Fn() -> bool,
) {
    let mut table = [const { OpenFile::new() }; 4];
    let nodes = [(); 3].map(|()| memory(4096));
    let Ok(volume) = Volume::mount(&mut *disk, nodes, &mut table, &MountOptions::default()) else {
        return service.refuse_files(straightway_coprocessor::Code::NoVolume);
    };
    {
        let files = Files::new(service, &volume, clock);
        let mut work = pin!(files.work());
        loop {
            let has_moved = files.step(work.as_mut());
            events.extend(files.take_event());
            if !has_moved && (ended() || files.is_over()) {
                break;
            }
            if !has_moved {
                std::thread::yield_now();
            }
        }
    }
    let _ = volume.unmount();
}

/// A coprocessor in a thread, and the disk that it returns at the end.
pub struct Coprocessor<R = Disk> {
    pub window: Window,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(R, Vec<ClientEvent>)>>,
}

impl Coprocessor {
    pub fn start(disk: Disk) -> Self {
        let grants = grants(&disk);
        Self::start_with(window(), disk, grants)
    }

    pub fn start_with(window: Window, disk: Disk, grants: [Grant; CLIENTS]) -> Self {
        Self::start_made(window, Some(grants), || disk, |disk| disk)
    }
}

impl<R: Send + 'static> Coprocessor<R> {
    /// With a device that its thread creates, which therefore need not be `Send`.
    pub fn start_made<D: Device>(
        window: Window,
        grants: Option<[Grant; CLIENTS]>,
        make: impl FnOnce() -> D + Send + 'static,
        finish: impl FnOnce(D) -> R + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut disk = make();
            let blocks = disk.geometry().block_count;
            let whole = std::array::from_fn(|index| Grant::whole(WINDOW_BYTES, index, blocks));
            let grants = grants.unwrap_or(whole);
            let events = serve(&window, &mut disk, grants, &|| flag.load(Ordering::Relaxed));
            (finish(disk), events)
        });
        // Anything written before the start is cleared by it.
        let is_ready = |header: straightway_coprocessor::Header| {
            header.state == straightway_coprocessor::State::Ready
        };
        while !straightway_coprocessor::Header::read(&window).is_ok_and(is_ready) {
            assert!(!thread.is_finished(), "the coprocessor's thread ended");
            std::thread::yield_now();
        }
        Self {
            window,
            stop,
            thread: Some(thread),
        }
    }

    /// Stops it: the disk, and what was logged.
    pub fn stop(mut self) -> (R, Vec<ClientEvent>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn attach(
        &self,
        index: usize,
        number: u32,
        access: Access,
    ) -> Result<Client<Microseconds>, straightway_coprocessor::AttachFailed> {
        self.attach_with(ClientOptions {
            access,
            index,
            number,
            ..ClientOptions::default()
        })
    }

    pub fn attach_with(
        &self,
        options: ClientOptions,
    ) -> Result<Client<Microseconds>, straightway_coprocessor::AttachFailed> {
        Client::attach(self.window, Microseconds::new(), options)
    }

    /// A buffer in client `index`'s data.
    pub fn buffer(&self, index: usize, offset: usize, len: usize) -> Buffer {
        let (start, room) = data_part(WINDOW_BYTES, index);
        assert!(offset + len <= room);
        self.window.buffer(start + offset, len).unwrap()
    }
}

/// A client that writes arbitrary words.
pub struct Raw {
    pub window: Window,
    pub index: usize,
    pub tail: u32,
}

impl Raw {
    pub fn new(window: Window, index: usize) -> Self {
        Self {
            window,
            index,
            tail: 0,
        }
    }

    pub fn word(&self, offset: usize) -> u32 {
        self.window.read32(client_offset(self.index) + offset)
    }

    pub fn set(&self, offset: usize, value: u32) {
        self.window
            .write32(client_offset(self.index) + offset, value);
    }

    pub fn attach(&mut self, number: u32, access: u32) {
        self.tail = 0;
        self.set(client::TAIL, 0);
        self.set(client::HEAD, 0);
        self.set(client::ACCESS, access);
        self.set(client::ATTACH, number);
    }

    pub fn submit(&mut self, entry: [u64; 4]) {
        let at = client::SUBMISSIONS + (self.tail % 32) as usize * SUBMISSION_BYTES;
        for (index, word) in entry.iter().enumerate() {
            self.set(at + 8 * index, *word as u32);
            self.set(at + 8 * index + 4, (*word >> 32) as u32);
        }
        self.tail = self.tail.wrapping_add(1);
        self.set(client::TAIL, self.tail);
    }
}

/// The seed of a random test: STRAIGHTWAY_SEED, or a new one each time; it is printed.
pub fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}
