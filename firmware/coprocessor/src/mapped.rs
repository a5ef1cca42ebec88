// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage as memory: serves the faults of the application on the second hart
//! (`docs/coprocessor.md`, "Mapped storage").

use block::Device;
use drive::Drive;
use hardware::{log, machine, second};
use interface::mapped::{
    Ask, Backing, CONTEXTS, Counts, IMAGE, IMAGE_PAGES, Layout, PAGE_BYTES, Reply, Request,
    STACK_TOP, Server, Space, WINDOW, WINDOW_PAGES, build, satp,
};
use interface::{Code, CompletionStatus};
use volume::{MountOptions, Volume};

use crate::backing::{Files, Metered, Ranges, waited};
use crate::board::Board;
use crate::memory;
use crate::monitor::{self, HART, MAILBOX};

/// The program's first words: this, the address where it begins to run, and its length in bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"SWAPPL01");
const HART_ZERO: usize = 0;

/// A context according to the boot arguments: `context=PROGRAM:ACCESS:SOURCE`.
#[derive(Clone, Copy)]
struct Order<'b> {
    /// Up to eight bytes that the program finds in a register.
    program: &'b [u8],
    writable: bool,
    source: Source<'b>,
}

#[derive(Clone, Copy)]
enum Source<'b> {
    /// `FIRST+LENGTH`: a range of the drive in bytes.
    Range(u64, u64),
    /// `/NAME`: a file of the volume.
    File(&'b [u8]),
}

impl<'b> Order<'b> {
    fn parse(text: &'b [u8]) -> Option<Self> {
        let mut parts = text.splitn(3, |&byte| byte == b':');
        let program = parts.next().filter(|name| name.len() <= 8)?;
        let writable = match parts.next()? {
            b"rw" => true,
            b"ro" => false,
            _ => return None,
        };
        let source = match parts.next()? {
            [b'/', name @ ..] => Source::File(name),
            range => {
                let mut both = range.split(|&byte| byte == b'+').map(number);
                Source::Range(both.next()??, both.next()??)
            }
        };
        Some(Self {
            program,
            writable,
            source,
        })
    }
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Serves until no context is left.
pub fn run(drive: Drive<'_>, board: &Board) -> Result<(), Code> {
    let mut orders = [None; CONTEXTS];
    let mut frames = memory::mapped::FRAMES;
    let mut given = 0;
    for word in board.words() {
        if let Some(text) = word.strip_prefix(b"context=") {
            let order = Order::parse(text);
            match (orders.get_mut(given), order) {
                (Some(place), Some(_)) => *place = order,
                _ => {
                    log!("not understood: #", word);
                    return Err(Code::BadField);
                }
            }
            given += 1;
        } else if let Some(text) = word.strip_prefix(b"frames=") {
            // A load or store that is not aligned touches two pages at once.
            let most = 2..=memory::mapped::FRAMES as u64;
            let count = number(text).filter(|count| most.contains(count));
            frames = count.ok_or(Code::BadField)? as usize;
        }
    }
    if given == 0 || !second::begin(&board.machine) {
        return Err(Code::BadMachine);
    }
    let is_file = |order: &Order<'_>| matches!(order.source, Source::File(_));
    let mut all = orders.iter().flatten();
    match (all.clone().all(is_file), all.any(is_file)) {
        (true, _) => on_files(drive, &orders, frames, board.seed),
        (false, false) => on_ranges(drive, &orders, frames, board.seed),
        // What is written to a range could be the volume's.
        (false, true) => Err(Code::InUse),
    }
}

#[inline(never)]
fn on_ranges(
    drive: Drive<'_>,
    orders: &[Option<Order<'_>>; CONTEXTS],
    frames: usize,
    seed: u64,
) -> Result<(), Code> {
    let geometry = *drive.geometry();
    let drive_bytes = geometry.block_count << geometry.block_size_log2;
    let mut ranges = [(0, 0); CONTEXTS];
    for (place, order) in ranges.iter_mut().zip(orders) {
        let Some(Order {
            source: Source::Range(first, bytes),
            writable,
            ..
        }) = *order
        else {
            continue;
        };
        let is_whole = (first | bytes) & (geometry.block_size_bytes() as u64 - 1) == 0;
        let is_inside = first <= drive_bytes && bytes <= drive_bytes - first;
        if !is_whole || !is_inside || bytes == 0 {
            return Err(Code::OutsideGrant);
        }
        if writable && geometry.features.read_only {
            return Err(Code::NoRight);
        }
        *place = (first, bytes);
    }
    let [first, second] = ranges;
    let overlap = first.0 < second.0 + second.1 && second.0 < first.0 + first.1;
    if overlap && orders.iter().flatten().any(|order| order.writable) {
        return Err(Code::InUse);
    }
    let mut backing = Ranges {
        drive: Metered::new(drive),
        ranges,
    };
    let lengths = ranges.map(|(_, bytes)| bytes);
    serve(&mut backing, orders, lengths, frames, seed)
}

#[inline(never)]
fn on_files(
    drive: Drive<'_>,
    orders: &[Option<Order<'_>>; CONTEXTS],
    frames: usize,
    seed: u64,
) -> Result<(), Code> {
    let block_bytes = drive.geometry().block_size_bytes();
    let (nodes, table) = (memory::nodes(), memory::open_files());
    let drive = Metered::new(drive);
    let mounted = Volume::mount(drive, nodes, table, &MountOptions::default());
    let Ok(volume) = mounted else {
        return Err(Code::NoVolume);
    };
    let result = on_volume(&volume, orders, block_bytes, frames, seed);
    let unmounted = volume.unmount().result;
    if let Err(error) = unmounted {
        log!(
            "unmount: status #",
            u64::from(CompletionStatus::from(error).code)
        );
    }
    result
}

#[inline(never)]
fn on_volume(
    volume: &Volume<'_, Metered<'_>>,
    orders: &[Option<Order<'_>>; CONTEXTS],
    block_bytes: usize,
    frames: usize,
    seed: u64,
) -> Result<(), Code> {
    let mut files = [None; CONTEXTS];
    for (place, order) in files.iter_mut().zip(orders) {
        let Some(Order {
            source: Source::File(name),
            writable,
            ..
        }) = *order
        else {
            continue;
        };
        let name = core::str::from_utf8(name).map_err(|_| Code::BadField)?;
        let opened = if writable {
            volume::blocking::run(volume, volume.open_to_write(name))
        } else {
            volume::blocking::run(volume, volume.open(name))
        };
        let status = opened.and_then(|file| Ok((file, volume.file_status(file)?)));
        let (file, status) = status.map_err(|error| {
            log!(
                "open: status #",
                u64::from(CompletionStatus::from(error).code)
            );
            Code::BadFile
        })?;
        if status.checksums || status.completed_bytes == 0 {
            // A checksum covers 16 pages: one alone cannot be compared, and not changed either.
            log!("a file that is empty or has checksums cannot be mapped");
            return Err(Code::BadFile);
        }
        *place = Some((file, status.completed_bytes));
    }
    let mut backing = Files {
        volume,
        files,
        block_bytes,
    };
    let lengths = files.map(|file| file.map_or(0, |(_, bytes)| bytes));
    let result = serve(&mut backing, orders, lengths, frames, seed);
    for (file, _) in files.iter().flatten() {
        if let Err(error) = volume::blocking::run(volume, volume.close(*file)) {
            log!(
                "close: status #",
                u64::from(CompletionStatus::from(error).code)
            );
        }
    }
    result
}

/// The program's entry and length in pages.
fn program() -> Result<(u64, usize), Code> {
    unsafe extern "C" {
        static __image_start: [u64; 3];
    }
    // SAFETY: memory of the board in which nothing else is placed; it holds a program or anything.
    let [magic, entry, bytes] = unsafe { (&raw const __image_start).read_volatile() };
    let most = (IMAGE_PAGES * PAGE_BYTES) as u64;
    let is_inside = entry.checked_sub(IMAGE).is_some_and(|at| at < bytes);
    if magic != MAGIC || bytes > most || !is_inside {
        log!("there is no program at 0x#", image());
        return Err(Code::BadMachine);
    }
    Ok((entry, (bytes as usize).div_ceil(PAGE_BYTES)))
}

/// The program's physical address.
fn image() -> u64 {
    unsafe extern "C" {
        static __image_start: u8;
    }
    &raw const __image_start as u64
}

#[inline(never)]
fn serve<B: Backing>(
    backing: &mut B,
    orders: &[Option<Order<'_>>; CONTEXTS],
    lengths: [u64; CONTEXTS],
    frames: usize,
    seed: u64,
) -> Result<(), Code> {
    let (entry, image_pages) = program()?;
    let mut spaces = [Space::default(); CONTEXTS];
    let every = spaces.iter_mut().zip(&memory::mapped::TABLES).zip(lengths);
    for (index, (((space, tables), bytes), order)) in every.zip(orders).enumerate() {
        let Some(order) = order else {
            continue;
        };
        let pages = bytes.div_ceil(PAGE_BYTES as u64);
        if pages > WINDOW_PAGES as u64 {
            log!("a window of # bytes is too long", bytes);
            return Err(Code::OutsideGrant);
        }
        let layout = Layout {
            image: image(),
            image_pages,
            stack: memory::mapped::stack(index),
            leak: cfg!(feature = "leak").then_some(0x8000_0000),
        };
        *space = Space {
            tables: build(tables, &layout),
            pages: pages as u32,
            writable: order.writable,
        };
        let arguments = [WINDOW, bytes, packed(order.program), seed, index as u64];
        let root = satp(tables, index as u16 + 1);
        // SAFETY: the second hart is woken below.
        unsafe { monitor::prepare(index, root, entry, STACK_TOP, arguments) };
    }
    let (records, memory) = memory::mapped::frames(frames);
    let mut server = Server::new(records, memory, spaces);
    log!("ready, # frames", frames as u64);
    second::wake(HART);
    loop {
        machine::progress();
        let Some(request) = MAILBOX.request() else {
            second::sleep(HART_ZERO, || MAILBOX.request().is_some());
            continue;
        };
        let reply = match request {
            Some(request) if request.ask == Ask::Done => break,
            Some(request) => answer(&mut server, backing, &request),
            None => Reply {
                status: Code::BadOpcode.into(),
                value: 0,
            },
        };
        MAILBOX.answer(&reply);
        second::wake(HART);
    }
    tell(server.counts());
    Ok(())
}

fn answer<B: Backing>(server: &mut Server<'_>, backing: &mut B, request: &Request) -> Reply {
    let context = request.context as usize;
    let (argument, value) = (request.argument, request.value);
    let text = argument.to_le_bytes();
    let mut waits = 0;
    let result = match request.ask {
        Ask::Load => server.fault(backing, context, argument, false),
        Ask::Store => server.fault(backing, context, argument, true),
        Ask::Sync => server.sync(backing, context),
        Ask::Report => {
            let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
            log!("context #: # #", request.context, text, value);
            Ok(())
        }
        Ask::Waited => {
            waits = waited();
            Ok(())
        }
        Ask::Exit => {
            log!("context #: exit #", request.context, argument);
            end(server, backing, context)
        }
        Ask::Stop => {
            log!(
                "context #: stopped at 0x#: status #, detail #",
                request.context,
                value,
                argument & 0xffff_ffff,
                argument >> 32
            );
            end(server, backing, context)
        }
        Ask::Done => Ok(()),
    };
    Reply {
        status: result.err().unwrap_or(CompletionStatus::OK),
        value: waits,
    }
}

/// What a context stored is written, whether it ended by itself or not; nobody is left to be told.
fn end<B: Backing>(
    server: &mut Server<'_>,
    backing: &mut B,
    context: usize,
) -> Result<(), CompletionStatus> {
    let result = server.end(backing, context);
    if let Err(status) = result {
        log!(
            "context #: its stores could not be written: status #",
            context as u64,
            u64::from(status.code)
        );
    }
    result
}

#[inline(never)]
fn tell(counts: Counts) {
    log!(
        "mapped: faults #, reads #, writes #, evictions #, most resident #",
        counts.faults,
        counts.reads,
        counts.writes,
        counts.evictions,
        counts.most_resident
    );
}

/// A name as a number.
fn packed(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes
        .iter_mut()
        .zip(name)
        .for_each(|(place, byte)| *place = *byte);
    u64::from_le_bytes(bytes)
}
