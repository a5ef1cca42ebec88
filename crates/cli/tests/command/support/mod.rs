// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the command as a user does.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed at the end of its test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("straightway-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A file of `len` bytes, none of which repeats its neighbours.
    pub fn file(&self, name: &str, len: usize) -> String {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
        std::fs::write(self.0.join(name), bytes).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The command with these arguments. Unless they include a deadline, a stream gets a deadline of an
/// hour instead of a tenth of a second: a busy machine does not meet deadlines, and only tests of
/// deadlines need one.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_straightway"));
    let verb = words.iter().find(|word| !word.starts_with('-'));
    if matches!(verb, Some(&"record" | &"play")) && !words.contains(&"--deadline") {
        command.args(words).args(["--deadline", "60min"]);
    } else {
        command.args(words);
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

pub fn run(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

pub fn run_with_input(words: &[&str], input: &[u8]) -> Output {
    let mut child = command(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub fn code(words: &[&str]) -> i32 {
    run(words).status.code().unwrap()
}

pub fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard output of a run that measured: it ended with 0, or with 5 because other programs were
/// busy, since tests run on machines with other load.
pub fn measured(output: &Output) -> String {
    let disturbed = output.status.code() == Some(5) && stderr(output).contains("machine was busy");
    assert!(
        output.status.success() || disturbed,
        "{:?}: {}",
        output.status,
        stderr(output)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(&run(words))).unwrap()
}

/// Every key of a JSON value with a number.
pub fn schema_names_all_keys(value: &serde_json::Value, schema: &str) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                assert!(
                    schema.contains(&format!("\"{key}\"")),
                    "{key} is not in the schema"
                );
                schema_names_all_keys(value, schema);
            }
        }
        serde_json::Value::Array(list) => {
            list.iter()
                .for_each(|value| schema_names_all_keys(value, schema));
        }
        _ => {}
    }
}

/// Bytes that depend on `seed` and do not repeat within a short distance.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    (0..len).map(|_| next() as u8).collect()
}

pub fn ok(words: &[&str]) -> String {
    stdout(&run(words))
}

/// What an export of a recording that lost something prints, which ends with 7.
pub fn lossy(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(
        output.status.code(),
        Some(7),
        "{words:?}: {}",
        stderr(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The same, as JSON.
pub fn lossy_json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&lossy(words)).unwrap()
}

/// The command fails with `expected` and its error contains `words`.
pub fn refused(command: &[&str], expected: i32, words: &str) {
    let output = run(command);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(expected), "{command:?}: {said}");
    assert!(said.contains(words), "{command:?}: {said}");
}

pub fn volume(folder: &Folder, name: &str, options: &[&str]) -> String {
    let disk = folder.path(name);
    ok(&[&["format", &disk, "--size", "32M"], options].concat());
    disk
}

pub fn names(device: &str) -> Vec<String> {
    ok(&["ls", device]).lines().map(str::to_owned).collect()
}

pub fn free_bytes(device: &str) -> u64 {
    json(&["stat", device, "--json"])["volume"]["free_bytes"]
        .as_u64()
        .unwrap()
}

pub fn get(device: &str, name: &str, words: &[&str]) -> Vec<u8> {
    let output = run(&[&["get", device, name, "-"], words].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

/// Where a recording of the pattern ends in its source: each word is its own offset there, and
/// bytes are missing exactly where the companion's `lines` say. The recording begins at `source`.
pub fn end_of_pattern(data: &[u8], lines: &[u8], mut source: u64) -> u64 {
    let gaps = lines.chunks(stream::GAP_LINE_BYTES);
    let gaps = gaps.zip(0..);
    let mut gaps = gaps
        .map(|(line, number)| stream::parse_gap(line, number).unwrap())
        .peekable();
    for (index, word) in data.chunks(8).enumerate() {
        while let Some(gap) = gaps.next_if(|gap| gap.offset_bytes == index as u64 * 8) {
            source += gap.lost_bytes;
        }
        assert_eq!(word, source.to_le_bytes(), "word {index}");
        source += 8;
    }
    source + gaps.map(|gap| gap.lost_bytes).sum::<u64>()
}
