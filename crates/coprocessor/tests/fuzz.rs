//! A hostile client: random words in its page and its rings, for a bounded time. The coprocessor goes
//! on, serves an honest client beside it, and writes nowhere but where it may.
//!
//! STRAIGHTWAY_FUZZ_SECONDS sets the time (2 without), STRAIGHTWAY_SEED the words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use block::{Device, blocking};
use coprocessor::layout::{CLIENTS, PAGE_BYTES, client, client_offset, data_part};
use coprocessor::{Access, Command, CoprocessorDisk, FilesClient, Opcode};
use support::{
    Coprocessor, DISK_BYTES, Raw, WINDOW_BYTES, disk, formatted, grants, memory, seed, window,
};

fn time() -> Duration {
    let seconds = std::env::var("STRAIGHTWAY_FUZZ_SECONDS").ok();
    Duration::from_secs(seconds.map_or(2, |text| text.parse().unwrap()))
}

const OPCODES: [Opcode; 16] = [
    Opcode::Read,
    Opcode::Write,
    Opcode::Flush,
    Opcode::Discard,
    Opcode::WriteZeroes,
    Opcode::Create,
    Opcode::Open,
    Opcode::Reserve,
    Opcode::Append,
    Opcode::ReadFile,
    Opcode::Commit,
    Opcode::Sync,
    Opcode::Close,
    Opcode::Delete,
    Opcode::List,
    Opcode::Status,
];

/// A number that is often near something that matters.
fn number(random: &mut fastrand::Rng) -> u64 {
    let (_, room) = data_part(WINDOW_BYTES, 0);
    let near = [
        0,
        1,
        511,
        512,
        4096,
        room as u64,
        1 << 16,
        u64::from(u32::MAX),
        u64::MAX,
    ];
    match random.u8(..4) {
        0 => random.u64(..),
        1 => random.u64(..2000),
        _ => near[random.usize(..near.len())]
            .wrapping_add(random.u64(..3))
            .wrapping_sub(1),
    }
}

/// One step of mischief on client 0's page.
fn mischief(raw: &mut Raw, random: &mut fastrand::Rng, access: Access) {
    match random.u8(..20) {
        0 => raw.attach(random.u32(..), random.u32(..5)),
        1 => raw.set(4 * random.usize(..PAGE_BYTES / 4), random.u32(..)),
        2 => raw.set(client::TAIL, raw.tail.wrapping_add(random.u32(..40))),
        3 => raw.set(client::HEAD, random.u32(..80)),
        4..8 => raw.submit([(); 4].map(|()| number(random))),
        _ => {
            let current = raw.word(client::ATTACH);
            if current == 0 || raw.word(client::ENDED) == current {
                raw.attach(random.u32(1..), access as u32);
            }
            let command = Command {
                id: random.u16(..),
                flags: random.u8(..8),
                deadline_ms: if random.bool() { 0 } else { random.u32(..100) },
                data_offset: number(random) as u32,
                data_bytes: number(random) as u32,
                argument: number(random),
                extra: if random.bool() {
                    number(random)
                } else {
                    1 << 16
                },
                ..Command::new(OPCODES[random.usize(..OPCODES.len())])
            };
            raw.submit(command.encode());
            // It takes its completions now and then, so that commands go on.
            if random.bool() {
                raw.set(client::HEAD, raw.tail.saturating_sub(4));
            }
        }
    }
}

#[test]
fn hostile_block_commands_stay_in_their_grant() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disk = disk();
    let half = DISK_BYTES as u64 / 1024;
    let mut whole = memory(DISK_BYTES);
    whole.fill(0x5a);
    let written = blocking::write(&mut disk, 0, whole, false);
    assert_eq!(written.result, Ok(()));
    let mut grants = grants(&disk);
    grants[0].block_count = half;
    let window = window();
    for index in 1..CLIENTS {
        let (start, len) = data_part(WINDOW_BYTES, index);
        window.buffer(start, len).unwrap().fill(0xa5);
    }
    let coprocessor = Coprocessor::start_with(window, disk, grants);
    let honest = coprocessor.attach(1, 1, Access::ReadBlocks).unwrap();
    let mut honest = CoprocessorDisk::new(honest, Access::ReadBlocks);
    let mut raw = Raw::new(window, 0);
    let end = Instant::now() + time();
    let mut served = 0;
    while Instant::now() < end {
        for _ in 0..50 {
            mischief(&mut raw, &mut random, Access::WriteBlocks);
        }
        let read = blocking::read(
            &mut honest,
            half + served % half,
            coprocessor.buffer(1, 0, 512),
        );
        assert_eq!(read.result, Ok(()));
        assert!(read.buffer.iter().all(|&byte| byte == 0x5a));
        served += 1;
    }
    assert!(served > 10, "an honest client was hardly served: {served}");
    assert_eq!(honest.strays(), 0);
    drop(honest);
    let (mut disk, _) = coprocessor.stop();
    let whole = blocking::read(&mut disk, 0, written.buffer);
    let beyond = half as usize * 512;
    assert!(
        whole.buffer[beyond..].iter().all(|&byte| byte == 0x5a),
        "beyond its blocks"
    );
    for index in 2..CLIENTS {
        let (start, len) = data_part(WINDOW_BYTES, index);
        let data = window.buffer(start, len).unwrap();
        assert!(
            data.iter().all(|&byte| byte == 0xa5),
            "client {index}'s data"
        );
        let page = window.buffer(client_offset(index), PAGE_BYTES).unwrap();
        assert!(page.iter().all(|&byte| byte == 0), "client {index}'s page");
    }
    assert_eq!(disk.geometry().block_count, 2 * half);
}

#[test]
fn hostile_file_commands_leave_the_volume_whole() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let coprocessor = Coprocessor::start(formatted(true));
    let honest = coprocessor.attach(1, 1, Access::Files).unwrap();
    let mut honest = FilesClient::new(honest, coprocessor.buffer(1, 0, 4096)).unwrap();
    let mut raw = Raw::new(coprocessor.window, 0);
    let end = Instant::now() + time();
    let mut rounds = 0;
    while Instant::now() < end {
        for _ in 0..50 {
            mischief(&mut raw, &mut random, Access::Files);
        }
        // Names that the other can only guess; what fails may fail for lack of space alone.
        let name = format!("honest {rounds} {seed}");
        if let Ok(file) = honest.create(&name, 0, true) {
            let mut buffer = coprocessor.buffer(1, 8192, 1024);
            buffer.fill(rounds as u8);
            honest.append(file, buffer, 1000, 0).unwrap();
            let moved = loop {
                if let Some(moved) = honest.poll() {
                    break moved;
                }
            };
            if moved.result.is_ok() && honest.sync(file).is_ok() {
                let mut buffer = moved.buffer.unwrap();
                buffer.fill(0xff);
                honest.read(file, 0, buffer, 0).unwrap();
                let read = loop {
                    if let Some(moved) = honest.poll() {
                        break moved;
                    }
                };
                assert_eq!(read.result, Ok(1000));
                assert!(
                    read.buffer.unwrap()[..1000]
                        .iter()
                        .all(|&byte| byte == rounds as u8)
                );
                rounds += 1;
            }
            honest.close(file).unwrap();
            honest.delete(&name).unwrap();
        }
    }
    assert!(rounds > 0, "an honest client was never served");
    raw.set(client::ATTACH, 0);
    assert!(honest.detach());
    let (mut disk, _) = coprocessor.stop();
    let mut table = [const { volume::OpenFile::new() }; 1];
    let nodes = [(); 3].map(|()| memory(4096));
    let volume = volume::Volume::mount(&mut disk, nodes, &mut table, &Default::default()).unwrap();
    let mut findings = 0;
    let mut scratch = [0; 4096];
    let mut count = |finding| {
        println!("{finding:?}");
        findings += 1;
    };
    let summary = volume::blocking::run(&volume, volume.check(&mut scratch, &mut count));
    assert!(summary.is_ok(), "{summary:?}");
    assert_eq!(findings, 0);
}
