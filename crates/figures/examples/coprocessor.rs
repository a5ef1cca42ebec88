// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A coprocessor's drive and files from the command line, for the lab's tests and figures.
//!
//! `coprocessor WINDOW put NAME FILE | get NAME FILE | ls | rm NAME | grow NAME | rate read|write
//! [look] | record NAME BYTES RATE | play NAME FILE RATE`
//!
//! `record` records BYTES of `grow`'s pattern, in blocks of 64 KiB at RATE bytes per second (0: as
//! fast as slots become free), and prints `durable N` whenever more is durable. Blocks without a
//! free slot are gaps in NAME.gaps. `play` plays to FILE. Both print their report.
//!
//! `grow` appends and syncs until it is ended and prints `durable N` each time. `rate` moves the
//! whole drive twice, eight commands of 128 KiB in flight, and prints bytes and microseconds of the
//! second time; with `look` it never sleeps.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use block::{Buffer, Device, Operation, Request};
use coprocessor::layout::STREAM_PLACES;
use coprocessor::{
    Access, FilesClient, Moved, Playing, PlayingOptions, Recording, RecordingOptions,
};
use linux::coprocessor::{CoprocessorOptions, attach};
use linux::{Coprocessor, HostMemory, TscClock};
use stream::{PlayOptions, RecordOptions};

const PIECE: usize = 128 << 10;
const DEPTH: u32 = 8;
/// A block of a stream.
const BLOCK: usize = 64 << 10;
const DEADLINE_US: u64 = 1_000_000;
/// How long one wait for the drive may take.
const WAIT_US: u32 = 1_000;

type Anything<T> = Result<T, Box<dyn Error>>;

struct Files {
    client: FilesClient<TscClock>,
    memory: HostMemory,
    _file: std::fs::File,
}

fn open(window: &Path) -> Anything<Files> {
    let session = attach(window, Access::Files, 0)?;
    let scratch = session.memory.allocate(4096)?;
    Ok(Files {
        client: FilesClient::new(session.client, scratch)?,
        memory: session.memory,
        _file: session.file,
    })
}

fn next(client: &mut FilesClient<TscClock>) -> Moved {
    loop {
        if let Some(moved) = client.poll() {
            return moved;
        }
        std::thread::yield_now();
    }
}

fn put(window: &Path, name: &str, file: &str) -> Anything<()> {
    let data = std::fs::read(file)?;
    let mut files = open(window)?;
    let number = files.client.create(name, data.len() as u64, false)?;
    let mut spare: Vec<Buffer> = Vec::new();
    for piece in data.chunks(PIECE) {
        let mut buffer = match spare.pop() {
            Some(buffer) => buffer,
            None if files.client.outstanding() < DEPTH as usize => files.memory.allocate(PIECE)?,
            None => {
                let moved = next(&mut files.client);
                moved.result?;
                moved.buffer.ok_or("a buffer was lost")?
            }
        };
        buffer[..piece.len()].copy_from_slice(piece);
        let sent = files.client.append(number, buffer, piece.len(), 0);
        sent.map_err(|(failure, _)| failure)?;
        files.client.kick();
    }
    while files.client.outstanding() > 0 {
        let moved = next(&mut files.client);
        moved.result?;
        spare.extend(moved.buffer);
    }
    files.client.close(number)?;
    Ok(())
}

fn get(window: &Path, name: &str, file: &str) -> Anything<()> {
    let mut files = open(window)?;
    let number = files.client.open(name, false)?;
    let size = files.client.sizes(number)?.committed;
    let mut output = std::fs::File::create(file)?;
    let mut buffer = files.memory.allocate(PIECE)?;
    let mut offset = 0;
    while offset < size {
        let sent = files.client.read(number, offset, buffer, 0);
        sent.map_err(|(failure, _)| failure)?;
        let moved = next(&mut files.client);
        let there = moved.result?;
        buffer = moved.buffer.ok_or("a buffer was lost")?;
        output.write_all(&buffer[..there as usize])?;
        offset += there;
    }
    files.client.close(number)?;
    Ok(())
}

fn list(window: &Path) -> Anything<()> {
    let mut files = open(window)?;
    let mut from = 0;
    while let Some(entry) = files.client.list(from)? {
        println!("{} {}", entry.size_bytes, entry.name.as_str());
        from = entry.slot + 1;
    }
    Ok(())
}

/// Byte `at` of the file is a mix of `at`'s bits, so that the data after a power cut can be
/// checked.
fn fill(block: &mut [u8], from: u64) {
    for (index, place) in block.iter_mut().enumerate() {
        let at = from + index as u64;
        *place = (at ^ at >> 8 ^ at >> 16) as u8;
    }
}

fn record(window: &Path, name: &str, bytes: u64, rate: u64) -> Anything<()> {
    let mut files = open(window)?;
    let client = &mut files.client;
    let number = client.create(name, 0, false)?;
    let companion = client.create(&format!("{name}.gaps"), 0, false)?;
    let gap_block = files.memory.allocate(client.block_bytes())?;
    let ring = files.memory.allocate(STREAM_PLACES * BLOCK)?;
    let options = RecordingOptions {
        block_bytes: BLOCK as u32,
        bytes_per_second: rate,
        record: RecordOptions {
            deadline_us: DEADLINE_US,
            commit_bytes: 4 * BLOCK as u64,
            low_water_bytes: 1 << 20,
            reserve_bytes: 2 << 20,
            total_bytes: Some(bytes),
            ..RecordOptions::default()
        },
    };
    let gaps = Some((companion, gap_block));
    let mut recording = Recording::begin(client, number, ring, gaps, &options)?;
    let begin = Instant::now();
    let (mut at, mut durable) = (0u64, 0);
    'producer: while at < bytes {
        loop {
            match recording.poll(client) {
                Ok(Some(_)) if recording.durable_bytes() > durable => {
                    durable = recording.durable_bytes();
                    println!("durable {durable}");
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                // The recording has failed; its end has the reason.
                Err(_) => break 'producer,
            }
        }
        let due = at as f64 / rate.max(1) as f64;
        if rate > 0 && begin.elapsed().as_secs_f64() < due {
            std::thread::yield_now();
            continue;
        }
        let len = BLOCK.min((bytes - at) as usize);
        match recording.take() {
            Some(mut block) => {
                fill(&mut block[..len], at);
                if recording.hand_in(client, block, len).is_err() {
                    break;
                }
            }
            None if rate > 0 => recording.overrun(1),
            None => {
                std::thread::yield_now();
                continue;
            }
        }
        at += len as u64;
    }
    let (result, report) = recording.finish(client)?;
    println!("durable {}", report.durable_bytes);
    println!(
        "blocks {} misses {} lateness {} us, smallest ring {:?} blocks, lost {} in {} gaps, \
         {} writes repeated, commits {}, {} us",
        report.blocks,
        report.misses,
        report.lateness_max_us,
        report.smallest_ring_blocks(),
        report.lost_blocks,
        report.gaps,
        report.retries,
        report.commits,
        begin.elapsed().as_micros()
    );
    result?;
    client.close(companion)?;
    client.close(number)?;
    Ok(())
}

fn play(window: &Path, name: &str, file: &str, rate: u64) -> Anything<()> {
    let mut files = open(window)?;
    let client = &mut files.client;
    let number = client.open(name, false)?;
    let ring = files.memory.allocate(STREAM_PLACES * BLOCK)?;
    let options = PlayingOptions {
        block_bytes: BLOCK as u32,
        play: PlayOptions {
            bytes_per_second: rate,
            deadline_us: DEADLINE_US,
            ..PlayOptions::default()
        },
    };
    let mut output = std::fs::File::create(file)?;
    let mut playing = Playing::begin(client, number, ring, &options)?;
    let begin = Instant::now();
    while !playing.is_over() {
        match playing.next(client)? {
            Some(block) => {
                output.write_all(&block.buffer[..block.len_bytes])?;
                playing.give_back(client, block.buffer)?;
            }
            None => std::thread::yield_now(),
        }
    }
    let (result, report) = playing.finish(client)?;
    println!(
        "blocks {} misses {} lateness {} us, underruns {}, smallest ring {:?} blocks, {} us",
        report.blocks,
        report.misses,
        report.lateness_max_us,
        report.underruns,
        report.smallest_ring_blocks(),
        begin.elapsed().as_micros()
    );
    result?;
    client.close(number)?;
    Ok(())
}

fn grow(window: &Path, name: &str) -> Anything<()> {
    const STEP: usize = 32 << 10;
    let mut files = open(window)?;
    let number = files.client.create(name, 1 << 20, false)?;
    let mut buffer = files.memory.allocate(STEP)?;
    let mut from = 0u64;
    loop {
        fill(&mut buffer, from);
        let sent = files.client.append(number, buffer, STEP, 0);
        sent.map_err(|(failure, _)| failure)?;
        let moved = next(&mut files.client);
        moved.result?;
        buffer = moved.buffer.ok_or("a buffer was lost")?;
        from += STEP as u64;
        let size = files.client.sync(number)?;
        println!("durable {size}");
    }
}

fn rate(window: &Path, write: bool, poll: bool) -> Anything<()> {
    let options = CoprocessorOptions { write, poll };
    let mut device = Coprocessor::open(window, options)?;
    let memory = device.memory().clone();
    let mut free: Vec<Buffer> = Vec::new();
    for _ in 0..DEPTH {
        free.push(memory.allocate(PIECE)?);
    }
    // The first pass uses up the burst credit of a limited drive.
    pass(&mut device, &mut free, write, poll)?;
    let begin = Instant::now();
    let bytes = pass(&mut device, &mut free, write, poll)?;
    println!("bytes {bytes} us {}", begin.elapsed().as_micros());
    Ok(())
}

/// Moves the whole drive once, with all of `free`; returns the bytes.
fn pass(
    device: &mut Coprocessor,
    free: &mut Vec<Buffer>,
    write: bool,
    poll: bool,
) -> Anything<u64> {
    let geometry = *device.geometry();
    let blocks = (PIECE >> geometry.block_size_log2) as u64;
    let end = geometry.block_count / blocks * blocks;
    let mut lba = 0;
    while lba < end || device.outstanding() > 0 {
        let mut moved = false;
        while let (true, Some(buffer)) = (lba < end, free.pop()) {
            let fua = false;
            let operation = if write {
                Operation::Write { lba, buffer, fua }
            } else {
                Operation::Read { lba, buffer }
            };
            let request = Request { tag: 0, operation };
            device.submit(request).map_err(|refused| refused.error)?;
            lba += blocks;
            moved = true;
        }
        device.kick();
        while let Some(completion) = device.poll() {
            completion.result?;
            free.extend(completion.buffer);
            moved = true;
        }
        if !moved {
            if poll {
                std::thread::yield_now()
            } else {
                // A client that only polls takes a processor from the emulated machine, which needs
                // two.
                device.wait(WAIT_US)
            }
        }
    }
    Ok(end << geometry.block_size_log2)
}

fn run(words: &[&str]) -> Anything<()> {
    match *words {
        [window, "put", name, file] => put(Path::new(window), name, file),
        [window, "get", name, file] => get(Path::new(window), name, file),
        [window, "ls"] => list(Path::new(window)),
        [window, "rm", name] => Ok(open(Path::new(window))?.client.delete(name)?),
        [window, "grow", name] => grow(Path::new(window), name),
        [window, "record", name, bytes, rate] => {
            record(Path::new(window), name, bytes.parse()?, rate.parse()?)
        }
        [window, "play", name, file, rate] => play(Path::new(window), name, file, rate.parse()?),
        [window, "rate", way] => rate(Path::new(window), way == "write", false),
        [window, "rate", way, "look"] => rate(Path::new(window), way == "write", true),
        _ => Err("see the top of crates/figures/examples/coprocessor.rs".into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coprocessor: {error}");
            ExitCode::FAILURE
        }
    }
}
