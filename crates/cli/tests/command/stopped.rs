// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readers of a recording whose process is stopped, and so answers nothing.

use crate::live::Take;
use crate::support::{Folder, command, noise, refused, stderr, volume};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};

fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
}

/// A stopped process, which goes on at the latest at the test's end.
struct Stopped(u32);

impl Stopped {
    fn new(id: u32) -> Self {
        signal(id, Signal::STOP);
        Self(id)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}

/// Waits for what a verb says of the process that does not answer.
fn until_told(child: &mut Child, device: &str, id: u32) -> BufReader<ChildStderr> {
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let wanted =
        format!("straightway: the process {id} that has {device} does not answer; still waiting\n");
    let mut line = String::new();
    while line != wanted {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended silently");
    }
    said
}

// partner: Linux | host kernel
#[test]
fn readers_of_a_stopped_recording_say_so_and_can_be_ended() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Take::committed(&device, "64K", &["--deadline", "60min"]);
    let data = noise(1, 64 << 10);
    take.write(&data);
    let stopped = Stopped::new(take.id());
    let verbs: [&[&str]; 9] = [
        &["status", &device],
        &["status", &device, "--json"],
        &["ls", &device],
        &["stat", &device],
        &["stat", &device, "take"],
        &["df", &device],
        &["get", &device, "take", "-"],
        &["cat", &device, "take"],
        &["export", &device, "take", &folder.path("copy")],
    ];
    let start = |words: &&[&str]| {
        let mut command = command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut children: Vec<Child> = verbs.iter().map(start).collect();
    let ends = [(Signal::TERM, 143), (Signal::INT, 130)]
        .into_iter()
        .cycle();
    for ((child, words), (number, status)) in children.iter_mut().zip(verbs).zip(ends) {
        let mut said = until_told(child, &device, stopped.0);
        signal(child.id(), number);
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status), "{words:?}");
        assert!(!rest.contains("still waiting"), "said once: {rest}");
        if words.contains(&"--json") {
            let exit = format!("\"exit\":{status}}}");
            assert!(rest.contains(&exit), "{rest}");
        }
    }
    // Those that write do not ask it.
    let input = folder.file("input", 1000);
    refused(&["put", &device, &input, "other"], 3, "(straightway)");
    refused(&["rm", &device, "take"], 3, "(straightway)");
    // One that waits gets its answer from a process that goes on, and its end too.
    let words = ["get", &device, "take", "-", "--follow"];
    let mut follow = start(&&words[..]);
    let said = until_told(&mut follow, &device, stopped.0);
    drop(stopped);
    let mut first = vec![0; data.len()];
    follow
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    take.write(&data);
    take.end();
    follow.stderr = Some(said.into_inner());
    let output = follow.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!([first, output.stdout].concat() == [&data[..], &data].concat());
}
