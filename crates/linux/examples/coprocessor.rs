//! A coprocessor's drive and files from the command line, for the lab's tests and figures.
//!
//! `coprocessor WINDOW put NAME FILE | get NAME FILE | ls | rm NAME | grow NAME | rate read|write`
//!
//! `grow` appends and syncs until it is ended and prints `durable N` each time. `rate` moves the whole
//! drive once, eight commands of 128 KiB in flight, and prints bytes, microseconds and the processor
//! time that this process took.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use block::{Buffer, Device, Operation, Request};
use coprocessor::{Access, FilesClient, Moved};
use linux::coprocessor::{CoprocessorOptions, attach};
use linux::{Coprocessor, DmaMemory, TscClock};

const PIECE: usize = 128 << 10;
const DEPTH: u32 = 8;

type Anything<T> = Result<T, Box<dyn Error>>;

struct Files {
    client: FilesClient<TscClock>,
    memory: DmaMemory,
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

/// Byte `at` of the file is `at` mixed a little, so that what a power cut left can be checked.
fn grow(window: &Path, name: &str) -> Anything<()> {
    const STEP: usize = 32 << 10;
    let mut files = open(window)?;
    let number = files.client.create(name, 1 << 20, false)?;
    let mut buffer = files.memory.allocate(STEP)?;
    let mut from = 0u64;
    loop {
        for (index, place) in buffer.iter_mut().enumerate() {
            let at = from + index as u64;
            *place = (at ^ at >> 8 ^ at >> 16) as u8;
        }
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

fn rate(window: &Path, write: bool) -> Anything<()> {
    let options = CoprocessorOptions { write, poll: true };
    let mut device = Coprocessor::open(window, options)?;
    let geometry = *device.geometry();
    let blocks = (PIECE >> geometry.block_size_log2) as u64;
    let memory = device.memory().clone();
    let mut free: Vec<Buffer> = Vec::new();
    for _ in 0..DEPTH {
        free.push(memory.allocate(PIECE)?);
    }
    let mut lba = 0;
    let end = geometry.block_count / blocks * blocks;
    let begin = Instant::now();
    while lba < end || device.outstanding() > 0 {
        let mut moved = false;
        while let (true, Some(buffer)) = (lba < end, free.pop()) {
            let fua = false;
            let operation = match write {
                true => Operation::Write { lba, buffer, fua },
                false => Operation::Read { lba, buffer },
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
            // The emulated coprocessor may need this processor.
            std::thread::yield_now();
        }
    }
    let us = begin.elapsed().as_micros();
    println!("bytes {} us {us}", end << geometry.block_size_log2);
    Ok(())
}

fn run(words: &[&str]) -> Anything<()> {
    match *words {
        [window, "put", name, file] => put(Path::new(window), name, file),
        [window, "get", name, file] => get(Path::new(window), name, file),
        [window, "ls"] => list(Path::new(window)),
        [window, "rm", name] => Ok(open(Path::new(window))?.client.delete(name)?),
        [window, "grow", name] => grow(Path::new(window), name),
        [window, "rate", way] => rate(Path::new(window), way == "write"),
        _ => Err("see the top of crates/linux/examples/coprocessor.rs".into()),
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
