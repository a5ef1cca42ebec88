// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hostile client: random words in its page and its rings, for a bounded time. The coprocessor
//! keeps running, serves an honest client beside it, and writes nowhere except where it may.
//!
//! STRAIGHTWAY_BUDGET sets the duration or the number of rounds (2 s by default), STRAIGHTWAY_SEED
//! the words.
use std::time::{Duration, Instant};

use crate::support::{
    Coprocessor, DISK_BYTES, Raw, WINDOW_BYTES, disk, formatted, grants, memory, seed, window,
};
use block::{Device, blocking};
use crash::Budget;
use straightway_coprocessor::layout::{CLIENTS, PAGE_BYTES, client, client_offset, data_part};
use straightway_coprocessor::{
    Access, CoprocessorDisk, FLAG_WRITE, FilesClient, Opcode, Order, RingCommand,
};

fn budget() -> Budget {
    Budget::or(Budget::of_seconds(2)).unwrap()
}

/// Marks the commands that begin a stream.
const BEGINS: u16 = 0xbeef;

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

/// Waits a bounded time for a condition.
fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_millis(50);
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// The completion of a command with this identifier in the first round of the ring: code and value.
fn answer(raw: &Raw, id: u16) -> Option<(u32, u64)> {
    let word = |entry: usize, at: usize| raw.word(client::COMPLETIONS + 16 * entry + at);
    let mut entries = 0..32;
    let entry = entries
        .find(|&entry| word(entry, 0) >> 31 == 1 && word(entry, 0) & 0xffff == u32::from(id))?;
    let code = word(entry, 0) >> 16 & 0x3fff;
    Some((
        code,
        u64::from(word(entry, 8)) | u64::from(word(entry, 12)) << 32,
    ))
}

/// A session that is patient and almost right: it opens a file, sends a valid or nearly valid
/// order, hands in blocks, ends the stream or abandons it. True if a stream began.
fn stream(raw: &mut Raw, random: &mut fastrand::Rng) -> bool {
    let (start, _) = data_part(WINDOW_BYTES, 0);
    raw.set(client::ATTACH, 0);
    let session = random.u32(1..);
    if !soon(|| raw.word(client::ACCEPTED) == 0) {
        return false;
    }
    raw.attach(session, Access::Files as u32);
    if !soon(|| raw.word(client::ACCEPTED) == session) {
        return false;
    }
    let (begins, blocks, ends) = match random.u8(..3) {
        0 => (Opcode::Play, Opcode::PlayBlock, Opcode::PlayEnd),
        _ => (Opcode::Record, Opcode::RecordBlock, Opcode::RecordEnd),
    };
    raw.window.copy_in(start, b"loot");
    let mut files = [0; 2];
    for (index, file) in files.iter_mut().enumerate() {
        let id = 1 + index as u16;
        let mut named = RingCommand {
            id,
            data_bytes: 3 + index as u32,
            ..RingCommand::new(Opcode::Open)
        };
        if begins == Opcode::Record || random.bool() {
            named.flags = FLAG_WRITE;
        }
        raw.submit(named.encode());
        soon(|| answer(raw, id).is_some());
        if answer(raw, id).is_none_or(|(code, _)| code != 0) {
            let id = 3 + index as u16;
            (named.opcode, named.flags, named.id) = (Opcode::Create, 0, id);
            raw.submit(named.encode());
            soon(|| answer(raw, id).is_some());
            *file = answer(raw, id).map_or(0, |(_, file)| file);
        } else {
            *file = answer(raw, id).map_or(0, |(_, file)| file);
        }
    }
    let nearly = |random: &mut fastrand::Rng, good: u32| match random.u8(..16) {
        0 => number(random) as u32,
        _ => good,
    };
    let good = 512 << random.u32(..4);
    let order = Order {
        ring_offset: nearly(random, 8192),
        block_bytes: nearly(random, good),
        places: { random.u32(1..16) }.min(nearly(random, 15)),
        flags: { random.u32(..3) } & nearly(random, u32::from(begins == Opcode::Record)),
        bytes_per_second: { random.u64(..1 << 20) }.saturating_mul(random.u64(..3)),
        deadline_us: number(random),
        commit_bytes: number(random),
        commit_us: number(random),
        low_water_bytes: random.u64(..1 << 16),
        reserve_bytes: random.u64(..1 << 16),
        total_bytes: if random.bool() { 0 } else { number(random) },
        gap_file: files[1],
        gap_offset: nearly(random, 4096),
        retries: nearly(random, 2),
    };
    raw.window.copy_in(start + 512, &order.encode());
    let command = |opcode, data_offset, data_bytes, argument| RingCommand {
        data_offset,
        data_bytes,
        argument,
        extra: files[0],
        ..RingCommand::new(opcode)
    };
    let begin = RingCommand {
        id: BEGINS,
        ..command(begins, 512, 96, 0)
    };
    raw.submit(begin.encode());
    for block in 0..random.u64(..9) {
        let argument = match random.u8(..6) {
            0 => number(random),
            1 => block + random.u64(..5),
            _ if begins == Opcode::Play => 0,
            _ => block,
        };
        let block = command(blocks, 0, nearly(random, order.block_bytes), argument);
        raw.submit(block.encode());
    }
    if random.bool() {
        raw.submit(command(ends, 1024, nearly(random, 448), number(random)).encode());
    }
    soon(|| answer(raw, BEGINS).is_some());
    let has_begun = answer(raw, BEGINS).is_some_and(|(code, _)| code == 0);
    // What it does in the meantime to its file, its data and itself.
    for _ in 0..random.u8(..4) {
        let opcode = Opcode::ALL[random.usize(..Opcode::ALL.len())];
        raw.submit(command(opcode, 1024, number(random) as u32, number(random)).encode());
        raw.window
            .write32(start + 4 * random.usize(..4096), random.u32(..));
    }
    has_begun
}

/// Waits until the service has written this session's number; 0 when none is there any more.
fn until_accepted(raw: &Raw, session: u32) {
    let end = Instant::now() + Duration::from_secs(60);
    while raw.word(client::ACCEPTED) != session {
        assert!(
            Instant::now() < end,
            "no end of the session before {session}"
        );
        std::thread::yield_now();
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
            let command = RingCommand {
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
                ..RingCommand::new(Opcode::ALL[random.usize(..Opcode::ALL.len())])
            };
            raw.submit(command.encode());
            // It takes its completions occasionally, so that commands continue.
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
    let (budget, mut served) = (budget(), 0);
    // However slow the machine is, the honest client must be served a few times.
    while budget.allows(served) || served <= 10 {
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
    let budget = budget();
    let (mut rounds, mut streams) = (0, 0);
    // On a busy machine a stream may take long to begin; one must.
    let latest = Instant::now() + Duration::from_secs(300);
    while budget.allows(rounds) || (streams == 0 && Instant::now() < latest) {
        for _ in 0..50 {
            mischief(&mut raw, &mut random, Access::Files);
        }
        for _ in 0..4 {
            streams += u64::from(stream(&mut raw, &mut random));
        }
        // Names that the other client can only guess; the only permitted failure is lack of space.
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
    println!("{rounds} honest rounds, {streams} streams seen");
    assert!(streams > 0, "no stream ever began");
    raw.set(client::ATTACH, 0);
    assert!(honest.detach());
    // Its streams and files are ended before the drive is looked at. It may have written the
    // service's words itself, so only a new session shows that the one before has ended.
    let last = random.u32(1..);
    raw.attach(last, Access::Files as u32);
    until_accepted(&raw, last);
    raw.set(client::ATTACH, 0);
    until_accepted(&raw, 0);
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
