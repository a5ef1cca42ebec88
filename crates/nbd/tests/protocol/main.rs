// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversations of clients with a server over a RAM disk: every split of their bytes, malformed
//! ones, and random ones.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod client;
mod engine;
mod malformed;

use client::{Conversation, Talk, export, talk};
use straightway_nbd::wire::{self, command, command_flag, info, option};

/// A conversation with every option and request of the protocol that the server has.
fn everything() -> Conversation {
    let mut all = Conversation::default();
    all.flags(3);
    all.option(option::LIST, &[]);
    all.option(option::STARTTLS, &[]);
    all.option(99, b"an option of the future");
    all.option(option::STRUCTURED_REPLY, &[]);
    all.option(
        option::LIST_META_CONTEXT,
        &client::contexts("disk", &["base:"]),
    );
    all.option(
        option::SET_META_CONTEXT,
        &client::contexts("", &["x:y", wire::BASE_ALLOCATION]),
    );
    all.option(option::INFO, &client::go("nothing", &[]));
    all.option(
        option::INFO,
        &client::go("disk", &[info::NAME, info::DESCRIPTION]),
    );
    all.option(option::GO, &client::go("disk", &[info::BLOCK_SIZE]));
    let pattern: Vec<u8> = (0..3072u32).map(|i| (i * 7) as u8).collect();
    all.request(command_flag::FUA, command::WRITE, 1, 512, 3072);
    all.bytes(&pattern);
    all.request(0, command::READ, 2, 513, 3000);
    all.request(0, command::WRITE, 3, 1, 700);
    all.bytes(&[9; 700]);
    all.request(0, command::WRITE_ZEROES, 4, 1024, 512);
    all.request(command_flag::DF, command::READ, 5, 1000, 100);
    all.request(0, command::TRIM, 6, 8192, 512);
    all.request(
        command_flag::REQ_ONE,
        command::BLOCK_STATUS,
        7,
        0,
        client::DISK_BYTES as u32,
    );
    all.request(0, command::FLUSH, 8, 0, 0);
    all.request(0, command::READ, 9, client::DISK_BYTES - 5, 5);
    all.request(0, command::READ, 10, client::DISK_BYTES - 5, 6);
    all.request(0, command::DISC, 0, 0, 0);
    all
}

#[test]
fn every_split_of_the_bytes_has_the_same_replies() {
    let all = everything().0;
    let whole = talk(&export(true), &[&all]);
    assert!(whole.ended.unwrap().is_clean());
    for at in 0..=all.len() {
        let (first, second) = all.split_at(at);
        let parts = talk(&export(true), &[first, second]);
        assert_eq!(parts, whole, "split at {at}");
    }
    for size in 1..40 {
        let parts: Vec<&[u8]> = all.chunks(size).collect();
        assert_eq!(talk(&export(true), &parts), whole, "in pieces of {size}");
    }
}

#[test]
fn what_was_written_is_read_and_each_reply_is_the_protocol_s() {
    let Talk { out, disk, .. } = talk(&export(true), &[&everything().0]);
    let replies = client::parse(&out);
    let text: Vec<String> = replies.iter().map(ToString::to_string).collect();
    let flags = 1 | 4 | 8 | 32 | 64 | 256;
    let with_df = flags | 128;
    let size = client::DISK_BYTES;
    assert_eq!(
        text,
        [
            "greeting 3",
            "option 3: server disk, a disk",
            "option 3: ack",
            "option 5: error 80000001",
            "option 99: error 80000001",
            "option 8: ack",
            "option 9: context 1 base:allocation",
            "option 9: ack",
            "option 10: context 1 base:allocation",
            "option 10: ack",
            "option 6: error 80000006",
            &format!("option 6: export {size} {with_df}"),
            "option 6: name disk",
            "option 6: description a disk",
            "option 6: blocks 512 4096 8192",
            "option 6: ack",
            &format!("option 7: export {size} {with_df}"),
            "option 7: blocks 512 4096 8192",
            "option 7: ack",
            "1: done",
            "2: data at 513: 3000 bytes",
            "3: error 22",
            "4: done",
            "5: data at 1000: 100 bytes",
            "6: done",
            "7: status 1 65536 0",
            "8: done",
            "9: data at 65531: 5 bytes",
            "10: error 22 the range ends past the export's end",
        ]
    );
    let pattern: Vec<u8> = (0..3072u32).map(|i| (i * 7) as u8).collect();
    assert_eq!(client::data_of(&replies, 2), &pattern[1..3001]);
    let mut read = pattern[488..588].to_vec();
    read[24..].fill(0);
    assert_eq!(client::data_of(&replies, 5), read);
    assert_eq!(disk[512..1024], pattern[..512]);
    assert_eq!(disk[1024..1536], [0; 512]);
    assert_eq!(disk[1536..3584], pattern[1024..]);
}

#[test]
fn an_old_client_gets_simple_replies_and_zeroes() {
    // With FIXED_NEWSTYLE, and plain newstyle, which has no flags.
    for flags in [0, 1, 2, 3] {
        let no_zeroes = flags & 2 != 0;
        let mut old = Conversation::default();
        old.flags(flags);
        old.option(option::EXPORT_NAME, b"disk");
        old.request(0, command::READ, 1, 3, 5);
        old.request(0, command::READ, 2, 1 << 40, 5);
        old.request(0, command::BLOCK_STATUS, 3, 0, 512);
        let Talk { out, .. } = talk(&export(false), &[&old.0]);
        let head = 18 + 10 + if no_zeroes { 0 } else { 124 };
        assert_eq!(out[18..26], client::DISK_BYTES.to_be_bytes());
        assert_eq!(out[26..28], (1u16 | 2 | 4 | 256).to_be_bytes());
        let replies = client::parse_requests(&out[head..], &[(1, 5)]);
        let text: Vec<String> = replies.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["1: data: 5 bytes", "2: error 22", "3: error 22"]);
    }
}

#[test]
fn a_read_only_export_changes_nothing() {
    let mut client = Conversation::default();
    client.flags(3);
    client.option(option::GO, &client::go("", &[]));
    client.request(0, command::WRITE, 1, 0, 512);
    client.bytes(&[1; 512]);
    client.request(0, command::WRITE_ZEROES, 2, 0, 512);
    client.request(0, command::TRIM, 3, 0, 512);
    client.request(0, command::FLUSH, 4, 0, 0);
    let Talk { out, disk, .. } = talk(&export(false), &[&client.0]);
    let text: Vec<String> = client::parse(&out)
        .iter()
        .map(ToString::to_string)
        .collect();
    let blocks = "option 7: blocks 1 4096 8192";
    assert!(text.iter().any(|line| line == blocks), "{text:?}");
    let replies = &text[text.len() - 4..];
    assert_eq!(
        replies,
        ["1: error 1", "2: error 1", "3: error 1", "4: done"]
    );
    assert!(disk == client::content());
}
