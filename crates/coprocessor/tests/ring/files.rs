// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files over the ring: what a client reads is what a client wrote, and the volume agrees.
use std::collections::BTreeMap;

use crate::support::{Coprocessor, Microseconds, Raw, formatted, seed};
use block::Buffer;
use straightway_coprocessor::layout::client;
use straightway_coprocessor::{
    Access, ClientOptions, Code, Error as Failure, FileNumber, FilesClient, Opcode, RingCommand,
};
use volume::Error;

type Client = FilesClient<Microseconds>;

const PIECE: usize = 16 << 10;
/// Where the data of commands begins, after the client's scratch.
const DATA: usize = 8192;

fn attach(coprocessor: &Coprocessor, index: usize, number: u32) -> Client {
    let client = coprocessor.attach(index, number, Access::Files).unwrap();
    FilesClient::new(client, coprocessor.buffer(index, 0, 4096)).unwrap()
}

/// Byte `at` of the file given by `name` and `index`.
fn byte(name: u64, at: u64) -> u8 {
    let mix = (at ^ name.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    (mix >> 33) as u8
}

/// Appends `len` bytes with as many pieces in flight as there are buffers.
fn append(
    client: &mut Client,
    memory: &dyn Fn(usize) -> Buffer,
    file: FileNumber,
    name: u64,
    from: u64,
    len: usize,
) {
    let mut done = 0;
    let mut free: Vec<usize> = (0..8).collect();
    let mut offsets = BTreeMap::new();
    while done < len || client.outstanding() > 0 {
        while let (true, Some(place)) = (done < len, free.pop()) {
            let piece = PIECE.min(len - done);
            let mut buffer = memory(place);
            for (index, byte_of) in buffer[..piece].iter_mut().enumerate() {
                *byte_of = byte(name, from + (done + index) as u64);
            }
            client.append(file, buffer, piece, place as u32).unwrap();
            offsets.insert(place as u32, from + done as u64);
            done += piece;
        }
        if let Some(moved) = client.poll() {
            assert_eq!(moved.result.unwrap(), offsets[&moved.tag]);
            free.push(moved.tag as usize);
        }
    }
}

fn check(
    client: &mut Client,
    memory: &dyn Fn(usize) -> Buffer,
    file: FileNumber,
    name: u64,
    len: u64,
) {
    let mut offset = 0;
    while offset < len {
        client.read(file, offset, memory(0), 0).unwrap();
        let moved = loop {
            if let Some(moved) = client.poll() {
                break moved;
            }
        };
        let there = moved.result.unwrap();
        assert_eq!(there, (len - offset).min(PIECE as u64));
        let buffer = moved.buffer.unwrap();
        for (index, found) in buffer[..there as usize].iter().enumerate() {
            assert_eq!(
                *found,
                byte(name, offset + index as u64),
                "at {offset}+{index}"
            );
        }
        offset += there;
    }
}

#[test]
fn several_clients_write_read_list_and_delete() {
    let seed = seed();
    for checksums in [false, true] {
        let coprocessor = Coprocessor::start(formatted(checksums));
        std::thread::scope(|scope| {
            for index in 0..3usize {
                let coprocessor = &coprocessor;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed ^ index as u64);
                    let mut client = attach(coprocessor, index, 1);
                    let memory =
                        |place: usize| coprocessor.buffer(index, DATA + place * PIECE, PIECE);
                    let name = format!("file of {index}");
                    let id = index as u64;
                    let file = client.create(&name, 64 << 10, checksums).unwrap();
                    let whole = 512 * random.usize(1..1000);
                    append(&mut client, &memory, file, id, 0, whole);
                    assert_eq!(client.commit(file).unwrap(), whole as u64);
                    let rest = random.usize(1..5000);
                    append(&mut client, &memory, file, id, whole as u64, rest);
                    let size = (whole + rest) as u64;
                    assert_eq!(client.sync(file).unwrap(), size);
                    let sizes = client.sizes(file).unwrap();
                    assert_eq!((sizes.committed, sizes.completed), (size, size));
                    check(&mut client, &memory, file, id, size);
                    client.close(file).unwrap();
                    let file = client.open(&name, false).unwrap();
                    check(&mut client, &memory, file, id, size);
                    client.close(file).unwrap();
                    assert!(client.detach());
                });
            }
        });
        let mut client = attach(&coprocessor, 3, 1);
        let mut from = 0;
        let mut names = Vec::new();
        while let Some(entry) = client.list(from).unwrap() {
            assert_eq!(entry.checksums, checksums);
            names.push(entry.name.as_str().to_owned());
            from = entry.slot + 1;
        }
        names.sort();
        assert_eq!(names, ["file of 0", "file of 1", "file of 2"]);
        client.delete("file of 1").unwrap();
        let gone = client.open("file of 1", false).unwrap_err();
        assert_eq!(gone, Failure::Volume(Error::NotFound));
        assert!(client.detach());
        let (_, events) = coprocessor.stop();
        assert_eq!(events, []);
    }
}

/// Names of more than 64 bytes, and a client of version 1.1, which has no room for them.
#[test]
fn a_long_name_comes_through() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut client = attach(&coprocessor, 0, 1);
    let names = ["n".repeat(255), "n".repeat(64)];
    for name in &names {
        let file = client.create(name, 0, false).unwrap();
        client.close(file).unwrap();
        let file = client.open(name, false).unwrap();
        client.close(file).unwrap();
    }
    let too_long = client.create(&"n".repeat(256), 0, false);
    assert_eq!(too_long, Err(Failure::Volume(Error::BadName)));
    let mut from = 0;
    let mut found = Vec::new();
    while let Some(entry) = client.list(from).unwrap() {
        found.push(entry.name.as_str().to_owned());
        from = entry.slot + 1;
    }
    found.sort_by_key(|name| core::cmp::Reverse(name.len()));
    assert_eq!(found, names);
    assert!(client.detach());
    coprocessor.stop();
}

#[test]
fn a_volume_s_errors_come_through_and_change_nothing() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut client = attach(&coprocessor, 0, 1);
    let memory = |place: usize| coprocessor.buffer(0, DATA + place * PIECE, PIECE);
    let volume = Failure::Volume;
    let file = client.create("a", 0, false).unwrap();
    assert_eq!(client.create("a", 0, false), Err(volume(Error::Exists)));
    assert_eq!(client.open("b", true), Err(volume(Error::NotFound)));
    assert_eq!(client.open("a", true), Err(volume(Error::InUse)));
    assert_eq!(client.create("", 0, false), Err(volume(Error::BadName)));
    assert_eq!(
        client.create("c", 1 << 40, false),
        Err(volume(Error::NoSpace))
    );
    assert_eq!(client.create("c", 0, true), Err(volume(Error::Unsupported)));
    assert_eq!(client.delete("a"), Err(volume(Error::InUse)));
    append(&mut client, &memory, file, 1, 0, 4096);
    client.close(file).unwrap();
    assert_eq!(client.commit(file), Err(Failure::Interface(Code::BadFile)));
    let file = client.open("a", false).unwrap();
    client.append(file, memory(0), 512, 1).unwrap();
    client.read(file, 4096, memory(1), 2).unwrap();
    client.read(file, 100, memory(2), 3).unwrap();
    let mut results = BTreeMap::new();
    while client.outstanding() > 0 {
        if let Some(moved) = client.poll() {
            results.insert(moved.tag, moved.result);
        }
    }
    assert_eq!(results[&1], Err(volume(Error::NotWritable)));
    assert_eq!(results[&2], Err(volume(Error::PastEnd)));
    assert_eq!(results[&3], Err(volume(Error::Unaligned)));
    check(&mut client, &memory, file, 1, 4096);
}

#[test]
fn another_client_s_file_is_none_of_ours() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut owner = attach(&coprocessor, 0, 1);
    let _ = owner.create("mine", 0, false).unwrap();
    let mut client = coprocessor.attach(1, 1, Access::Files).unwrap();
    // Every number that the first file can have.
    for number in [0u64, 1 << 16, 1 << 16 | 1, 2 << 16, u64::MAX, 1 << 32] {
        let command = RingCommand {
            extra: number,
            ..RingCommand::new(Opcode::Sync)
        };
        assert!(client.submit(&command));
        client.kick();
        let answer = loop {
            if let Some(answer) = client.poll() {
                break answer;
            }
        };
        assert_eq!(answer.code, Code::BadFile as u16, "{number:#x}");
    }
}

#[test]
fn a_client_that_dies_while_it_writes_leaves_what_it_made_durable() {
    let coprocessor = Coprocessor::start(formatted(false));
    let memory = |place: usize| coprocessor.buffer(0, DATA + place * PIECE, PIECE);
    let mut client = attach(&coprocessor, 0, 1);
    let file = client.create("take", 1 << 20, false).unwrap();
    append(&mut client, &memory, file, 5, 0, 3 * PIECE);
    assert_eq!(client.sync(file).unwrap(), 3 * PIECE as u64);
    for place in 0..8 {
        client.append(file, memory(place), PIECE, 0).unwrap();
    }
    client.kick();
    std::mem::forget(client);
    // The next client on its page: the file is closed, and can be written again.
    let mut client = attach(&coprocessor, 0, 2);
    let file = client.open("take", true).unwrap();
    let sizes = client.sizes(file).unwrap();
    assert!(sizes.committed >= 3 * PIECE as u64, "{sizes:?}");
    check(&mut client, &memory, file, 5, 3 * PIECE as u64);
}

#[test]
fn a_lease_gives_a_dead_client_s_files_back() {
    let coprocessor = Coprocessor::start(formatted(false));
    let client = coprocessor.attach_with(ClientOptions {
        access: Access::Files,
        number: 1,
        lease_ms: 2000,
        ..ClientOptions::default()
    });
    let mut dead = FilesClient::new(client.unwrap(), coprocessor.buffer(0, 0, 4096)).unwrap();
    dead.create("take", 0, false).unwrap();
    std::mem::forget(dead);
    let mut client = attach(&coprocessor, 1, 1);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match client.open("take", true) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, Failure::Volume(Error::InUse)),
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the lease never ended"
        );
    }
    let (_, events) = coprocessor.stop();
    assert_eq!(events.len(), 1);
}

#[test]
fn blocks_and_files_take_turns() {
    let coprocessor = Coprocessor::start(formatted(false));
    for round in 1..6 {
        let files = attach(&coprocessor, 0, 2 * round);
        let blocks = coprocessor.attach(1, round, Access::ReadBlocks);
        assert!(blocks.is_err());
        assert!(files.detach());
        let blocks = coprocessor.attach(0, 2 * round + 1, Access::WriteBlocks);
        let mut blocks = blocks.unwrap();
        assert!(blocks.detach());
    }
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut raw = Raw::new(coprocessor.window, 0);
    raw.attach(1, Access::Files as u32);
    while raw.word(client::ACCEPTED) != 1 {
        std::thread::yield_now();
    }
    coprocessor
        .buffer(0, 0, 4)
        .copy_from_slice(&[0xff, 0xfe, b'a', 0]);
    let command = RingCommand {
        data_bytes: 4,
        ..RingCommand::new(Opcode::Create)
    };
    raw.submit(command.encode());
    while raw.word(client::COMPLETIONS) == 0 {
        std::thread::yield_now();
    }
    let code = (raw.word(client::COMPLETIONS) >> 16) as u16 & 0x7fff;
    assert_eq!(
        code,
        straightway_coprocessor::CompletionStatus::from(Error::BadName).code
    );
}
