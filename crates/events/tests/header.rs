// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C header: what it stores is a dump, and it writes the timer's registers.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use straightway_events::parse;

/// A folder of this test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("events-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compiled(folder: &Path, compiler: &str, options: &[&str]) -> PathBuf {
    let (root, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join(compiler));
    let done = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(root.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/header.c"))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    program
}

fn stamps(program: &Path, folder: &Path, name: &str) {
    let (dump, registers) = (folder.join(name), folder.join("registers"));
    let mut page = vec![0u8; 4096];
    page[..4].copy_from_slice(b"TIMR");
    page[0x24] = 7;
    std::fs::write(&registers, page).unwrap();
    let done = Command::new(program)
        .arg(&dump)
        .arg(&registers)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(done.stdout, b"7\n");

    let lanes = parse(&std::fs::read(&dump).unwrap()).unwrap();
    let [lane] = &lanes[..] else {
        panic!("{lanes:?}");
    };
    let tags: Vec<u32> = lane.events.iter().map(|event| event.tag).collect();
    assert_eq!((tags, lane.lost), ((0..8).collect(), 3));
    assert_eq!(lane.name, "a name that is longer than thir");
    assert!(lane.number > 0 && lane.events.iter().all(|event| !event.is_line));
    let at: Vec<u64> = lane.events.iter().map(|event| event.at).collect();
    assert!(at.is_sorted() && lane.begin.counter <= at[0] && at[7] <= lane.end.counter);
    assert!(lane.begin.ns > 0 && lane.begin.ns <= lane.end.ns);

    let registers = std::fs::read(registers).unwrap();
    assert_eq!(registers[0x08], 1);
    assert_eq!(registers[0x10..0x14], [0x34, 0x12, 0, 0]);
}

#[test]
fn a_c_program_stamps_events_that_are_read_as_any_others() {
    let folder = Folder::new("header");
    let program = compiled(&folder.0, "gcc", &["-std=gnu99"]);
    stamps(&program, &folder.0, "c");
}

#[test]
fn the_header_is_also_c_plus_plus() {
    let folder = Folder::new("header-plus");
    let program = compiled(&folder.0, "g++", &["-x", "c++"]);
    stamps(&program, &folder.0, "c++");
}
