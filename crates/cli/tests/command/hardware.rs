// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hwfs:PATH`: which verbs such a drive supports, and what is refused without hardware.
//! `rtl/test/test_hwfs_axi.py` runs the command on the verilated core.

use crate::support::{Folder, code, refused};
use std::os::unix::net::UnixListener;

const DEVICE: &str = "hwfs:/nonexistent/socket";

#[test]
fn verbs_that_need_blocks_are_refused() {
    let folder = Folder::new();
    let input = folder.file("input", 4096);
    let verbs: &[&[&str]] = &[
        &["read", DEVICE, "--checksum"],
        &["write", DEVICE, "--destroy-data", "x", "--input", &input],
        &["format", DEVICE],
        &["format", DEVICE, "--size", "1M"],
        &["check", DEVICE],
        &["check", DEVICE, "--repair"],
        &[
            "record", DEVICE, "name", "--from", "pattern", "--rate", "1M",
        ],
        &["play", DEVICE, "name", "--to", "null"],
        &["bind", DEVICE],
        &["release", DEVICE],
        &["doctor", DEVICE],
        &["compare", DEVICE],
        &["sweep", DEVICE],
        &["explain", DEVICE],
        &["trace", DEVICE],
        &["profile", DEVICE],
        &[
            "sustain",
            DEVICE,
            "--rate",
            "1M",
            "--block",
            "4K",
            "--deadline",
            "5ms",
        ],
        &["periodic", DEVICE, "--period", "10ms", "--block", "4K"],
    ];
    for verb in verbs {
        refused(
            verb,
            4,
            "it supports only ls, put, get, rm, mv, stat, info, blast",
        );
    }
}

#[test]
fn verbs_that_are_served_look_for_the_hardware() {
    let folder = Folder::new();
    let (input, target) = (folder.file("input", 10), folder.path("target"));
    let query = folder.path("query.fa");
    std::fs::write(&query, ">q\nACGTTGCAAGGC\n").unwrap();
    let verbs: &[&[&str]] = &[
        &["ls", DEVICE],
        &["put", DEVICE, &input],
        &["get", DEVICE, "name", &target],
        &["rm", DEVICE, "name"],
        &["mv", DEVICE, "old", "new"],
        &["stat", DEVICE],
        &["stat", DEVICE, "name"],
        &["info", DEVICE],
        &["put", DEVICE, &input, "--verify"],
        &["blast", DEVICE, "name", &query],
    ];
    for verb in verbs {
        refused(verb, 3, "connecting to /nonexistent/socket");
    }
    assert!(!std::path::Path::new(&target).exists());
    assert_eq!(code(&["ls", "hwfs:"]), 2);
    assert_eq!(code(&["ls", &format!("hwfs:{input}")]), 4);
    refused(&["ls", "hwfs:/dev/null"], 2, "not a UIO device");
    // A socket that nothing listens on any more.
    let socket = folder.path("socket");
    drop(UnixListener::bind(&socket).unwrap());
    assert_eq!(code(&["ls", &format!("hwfs:{socket}")]), 3);
}

#[test]
fn what_the_hardware_does_not_do_is_refused_before_it_is_asked() {
    let folder = Folder::new();
    let (input, target) = (folder.file("input", 10), folder.path("target"));
    for (words, option) in [
        (&["ls", DEVICE, "--path", "chario"][..], "--path"),
        (&["ls", DEVICE, "--namespace", "2"], "--namespace"),
        (&["rm", DEVICE, "x", "--mode", "poll"], "--mode"),
        (&["mv", DEVICE, "x", "y", "--mode", "poll"], "--mode"),
        (&["stat", DEVICE, "--path", "chario"], "--path"),
        (&["put", DEVICE, &input, "--checksums"], "--checksums"),
        (&["put", DEVICE, &input, "--keep-partial"], "--keep-partial"),
        (
            &["put", DEVICE, &input, "--queue-depth", "4"],
            "--queue-depth",
        ),
        (&["get", DEVICE, "x", &target, "--verify"], "--verify"),
        (
            &["get", DEVICE, "x", &target, "--block-size", "4K"],
            "--block-size",
        ),
    ] {
        refused(words, 2, option);
    }
}
