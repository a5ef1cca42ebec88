// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that do not follow the protocol: they get its errors, and the server keeps its memory.

use crate::client::{self, Conversation, Talk, export, talk, talk_in};
use straightway_nbd::wire::{command, option};
use straightway_nbd::{End, Session, SessionEvent};

fn last_lines(client: &Conversation, count: usize) -> Vec<String> {
    let Talk { out, ended, .. } = talk(&export(true), &[&client.0]);
    assert_eq!(ended, None);
    let replies = client::parse(&out);
    replies[replies.len() - count..]
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn malformed_options_are_refused_and_the_handshake_goes_on() {
    let long = vec![b'x'; 9000];
    let mut truncated = client::go("disk", &[1, 2]);
    truncated.pop();
    let mut longer = client::go("disk", &[1]);
    longer.push(0);
    let not_text = [0, 0, 0, 2, 0xff, 0xfe, 0, 0];
    let endless = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    for (code, data, error) in [
        (option::LIST, &b"x"[..], 0x8000_0003u32),
        (option::STRUCTURED_REPLY, b"x", 0x8000_0003),
        (option::GO, b"", 0x8000_0003),
        (option::GO, &[0xff; 6], 0x8000_0003),
        (option::GO, &truncated, 0x8000_0003),
        (option::GO, &longer, 0x8000_0003),
        (option::GO, &not_text, 0x8000_0003),
        (option::GO, &client::go("other", &[]), 0x8000_0006),
        (option::INFO, &long, 0x8000_0009),
        // Structured replies come first.
        (
            option::SET_META_CONTEXT,
            &client::contexts("", &["base:allocation"]),
            0x8000_0003,
        ),
        (option::LIST_META_CONTEXT, &endless, 0x8000_0003),
        (
            option::LIST_META_CONTEXT,
            &client::contexts("other", &[]),
            0x8000_0006,
        ),
        (12345, &long, 0x8000_0009),
        (0, b"", 0x8000_0001),
    ] {
        let mut client = Conversation::default();
        client.flags(3);
        client.option(code, data);
        client.option(option::GO, &client::go("disk", &[]));
        client.request(0, command::READ, 1, 0, 1);
        // No structured reply was agreed on.
        let Talk { out, ended, .. } = talk(&export(true), &[&client.0]);
        assert_eq!(ended, None, "option {code}");
        let error = format!("option {code}: error {error:x}");
        // Without the simple reply to the read and its byte.
        let replies = client::parse(&out[..out.len() - 17]);
        assert_eq!(replies[1].to_string(), error);
        assert_eq!(replies.last().unwrap().to_string(), "option 7: ack");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_next_one_is_served() {
    let most = export(true).max_payload_bytes;
    let size = client::DISK_BYTES;
    for (flags, kind, offset, len, error) in [
        (0, command::READ, 0, 0, 22),
        (0, command::READ, size, 1, 22),
        (0, command::READ, u64::MAX, 512, 22),
        (0, command::READ, 0, most + 512, 22),
        (0x8000, command::READ, 0, 512, 22),
        (0, command::WRITE, 0, 0, 22),
        (0, command::WRITE, 512, 511, 22),
        (0, command::WRITE, 1, 512, 22),
        (0, command::WRITE, size - 512, 1024, 28),
        (0, command::WRITE, u64::MAX - 511, 512, 28),
        (0, command::WRITE, 0, most + 512, 22),
        (4, command::WRITE, 0, 512, 22),
        (0, command::WRITE_ZEROES, 0, 100, 22),
        (0, command::WRITE_ZEROES, size, 512, 28),
        (16, command::WRITE_ZEROES, 0, 512, 22),
        (0, command::FLUSH, 512, 0, 22),
        (0, command::FLUSH, 0, 512, 22),
        (0, command::TRIM, 0, 1, 22),
        (0, command::BLOCK_STATUS, 0, 512, 22),
        (0, 5, 0, 512, 22),
        (0, 77, 0, 512, 22),
    ] {
        let mut client = Conversation::default();
        client.flags(3);
        client.option(option::GO, &client::go("disk", &[]));
        client.request(flags, kind, 1, offset, len);
        if kind == command::WRITE {
            client.bytes(&vec![0x55; len as usize]);
        }
        client.request(0, command::FLUSH, 2, 0, 0);
        let lines = last_lines(&client, 2);
        let what = format!("{kind} with {flags:x} at {offset}: {len}");
        assert_eq!(
            lines,
            [format!("1: error {error}"), "2: done".into()],
            "{what}"
        );
        let talk = talk(&export(true), &[&client.0]);
        assert_eq!(
            (talk.refused, talk.disk == client::content()),
            (1, true),
            "{what}"
        );
    }
}

#[test]
fn what_the_device_lacks_is_not_announced_and_refused() {
    let export = straightway_nbd::Export {
        trim: false,
        write_zeroes: false,
        ..export(true)
    };
    assert_eq!(export.flags(true), 1 | 4 | 8 | 128 | 256);
    let mut client = Conversation::default();
    client.flags(3);
    client.option(option::GO, &client::go("disk", &[]));
    client.request(0, command::TRIM, 1, 0, 512);
    client.request(0, command::WRITE_ZEROES, 2, 0, 512);
    let Talk { out, .. } = talk(&export, &[&client.0]);
    let lines: Vec<_> = client::parse(&out)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(lines[lines.len() - 2..], ["1: error 95", "2: error 95"]);
}

#[test]
fn a_server_that_requires_tls_tells_nothing_before_it() {
    let mut client = Conversation::default();
    client.flags(3);
    client.option(option::LIST, &[]);
    client.option(option::STRUCTURED_REPLY, &[]);
    client.option(option::GO, &client::go("", &[]));
    client.option(option::STARTTLS, b"x");
    let mut encrypted = client.clone();
    let session = Session::requiring_tls;
    let lines = |client: &Conversation| -> Vec<String> {
        let Talk { out, .. } = talk_in(session(), &export(true), &[&client.0]);
        client::parse(&out)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let before = [
        "greeting 3",
        "option 3: error 80000005",
        "option 8: error 80000005",
        "option 7: error 80000005",
        "option 5: error 80000003",
    ];
    assert_eq!(lines(&client), before);
    // After it, everything is as without, and there is no second one.
    encrypted.option(option::STARTTLS, &[]);
    encrypted.option(option::STARTTLS, &[]);
    encrypted.option(option::LIST, &[]);
    let after = lines(&encrypted);
    assert_eq!(after[..5], before);
    assert_eq!(
        after[5..],
        [
            "option 5: ack",
            "option 5: error 80000003",
            "option 3: server disk, a disk",
            "option 3: ack"
        ]
    );
    let mut old = Conversation::default();
    old.flags(3);
    old.option(option::EXPORT_NAME, &[]);
    let Talk { out, ended, .. } = talk_in(session(), &export(true), &[&old.0]);
    assert_eq!((out.len(), ended), (18, Some(End::TlsRequired)));
}

#[test]
fn what_is_not_the_protocol_ends_the_connection() {
    let ends = |client: &Conversation| talk(&export(true), &[&client.0]).ended;
    let mut hello = Conversation::default();
    hello.bytes(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(ends(&hello), Some(End::NotNbd));
    for flags in [4, 7, 0xffff_fff3] {
        let mut old = Conversation::default();
        old.flags(flags);
        assert_eq!(ends(&old), Some(End::NotNbd), "{flags:x}");
    }
    let mut option = Conversation::default();
    option.flags(3);
    option.bytes(&[1; 16]);
    assert_eq!(ends(&option), Some(End::NotNbd));
    let mut name = Conversation::default();
    name.flags(3);
    name.option(option::EXPORT_NAME, b"other");
    assert_eq!(ends(&name), Some(End::UnknownExport));
    let mut abort = Conversation::default();
    abort.flags(3);
    abort.option(option::ABORT, &[]);
    assert_eq!(ends(&abort), Some(End::Aborted));
    let mut request = Conversation::default();
    request.flags(3);
    request.option(option::GO, &client::go("", &[]));
    request.bytes(&[0; 28]);
    assert_eq!(ends(&request), Some(End::NotNbd));
}

#[test]
fn random_changes_of_a_conversation_never_panic_and_lose_no_buffer() {
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let all = crate::everything().0;
    for _ in 0..2000 {
        let mut bytes = all.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] ^= 1 << random.u8(..8),
                1 => drop(bytes.drain(at..(at + random.usize(..40)).min(all.len() / 2).max(at))),
                _ => bytes.insert(at, random.u8(..)),
            }
        }
        // `talk` checks that each buffer comes back.
        let parts: Vec<&[u8]> = bytes.chunks(random.usize(1..200)).collect();
        talk(&export(random.bool()), &parts);
    }
}

#[test]
fn a_session_keeps_no_more_than_an_option() {
    // A client that claims 4 GiB of option data, and one that claims a 4 GiB write, are skipped and
    // not stored.
    let mut client = Conversation::default();
    client.flags(3);
    client.bytes(&straightway_nbd::wire::OPTION_MAGIC.to_be_bytes());
    client.bytes(&option::GO.to_be_bytes());
    client.bytes(&u32::MAX.to_be_bytes());
    let (mut session, mut out) = (Session::new(), Vec::new());
    let mut input = &client.0[..];
    let export = export(true);
    while !input.is_empty() {
        let (taken, _) = session.advance(&export, input, &mut out);
        input = &input[taken..];
    }
    let block = vec![0; 1 << 20];
    for _ in 0..4095 {
        let (taken, event) = session.advance(&export, &block, &mut out);
        assert_eq!((taken, event), (block.len(), SessionEvent::More));
    }
    assert!(out.is_empty());
    let (taken, event) = session.advance(&export, &block, &mut out);
    assert_eq!((taken, event), (block.len() - 1, SessionEvent::Message));
    assert!(out.len() < 100);
}
