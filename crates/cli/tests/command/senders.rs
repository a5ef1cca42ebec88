// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples and messages of one sender after another.

use crate::formats::{SAMPLES, mcap, mcap_record, meta_of, record};
use crate::support::{Folder, command, json, lossy_json, ok, stderr, volume};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};

/// A recording that listens.
struct Listening {
    child: Child,
    port: u16,
    says: Lines<BufReader<ChildStderr>>,
}

impl Listening {
    fn start(device: &str, words: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let from = format!("tcp://127.0.0.1:{port}");
        let all = [&["record", device, "take", "--from", &from], words].concat();
        let mut child = command(&all);
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let says = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, port, says }
    }

    fn connect(&mut self) -> TcpStream {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                return stream;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended");
            std::thread::yield_now();
        }
    }

    /// Sends this and leaves.
    fn send(&mut self, data: &[u8]) {
        self.connect().write_all(data).unwrap();
    }

    /// Waits until it says this.
    fn wait(&mut self, text: &str) {
        let found = self.says.find(|line| line.as_ref().unwrap().contains(text));
        assert!(found.is_some(), "it ended without: {text}");
    }

    /// Its status, what it printed and what else it said.
    fn end(self) -> (Option<i32>, String, String) {
        let Self {
            mut child, says, ..
        } = self;
        let rest: Vec<String> = says.map(Result::unwrap).collect();
        let mut printed = String::new();
        let mut output = child.stdout.take().unwrap();
        output.read_to_string(&mut printed).unwrap();
        (child.wait().unwrap().code(), printed, rest.join("\n"))
    }

    fn stop(self) -> (Option<i32>, String, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.end()
    }
}

/// A stream of MCAP whose channel has the number 1 like others, and means something else.
fn other_mcap(messages: u64) -> Vec<u8> {
    let mut stream = mcap(messages);
    let at = stream.windows(2).position(|two| two == b"/a").unwrap();
    stream[at + 1] = b'b';
    stream
}

#[test]
fn each_sender_of_messages_begins_a_segment() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let words = ["--format", "mcap", "--segment", "1M", "--json"];
    let mut take = Listening::start(&device, &words);
    // The first one is cut off inside a message; nothing of the second is taken for its rest.
    let first = mcap(1000);
    take.send(&first[..first.len() - 10]);
    take.wait("begins the next segment");
    // Others read what is there while none is connected; who only connects is not a sender.
    assert_eq!(ok(&["ls", &device]), "take.000001\n");
    drop(take.connect());
    take.send(&other_mcap(500));
    take.wait("begins the next segment");
    let mut last = take.connect();
    last.write_all(&mcap(300)).unwrap();
    last.write_all(&mcap_record(0x90, &[7; 5000])).unwrap();
    drop(last);
    take.wait("begins the next segment");
    let (status, printed, rest) = take.stop();
    assert_eq!(status, Some(0), "{rest}");
    let reports = serde_json::Deserializer::from_str(&printed).into_iter::<serde_json::Value>();
    let reports: Vec<_> = reports.map(Result::unwrap).collect();
    assert_eq!(reports.len(), 3);
    assert!(reports.iter().all(|report| report["ended_by"] == "source"));
    let target = folder.path("out.mcap");
    let report = json(&["export", &device, "take.0*", &target, "--json"]);
    assert_eq!(report["segments"], 3);
    assert_eq!(
        (&report["mcap"]["messages"], &report["mcap"]["channels"]),
        (&(999 + 500 + 300).into(), &2.into())
    );
    // Each is a recording, too.
    for (name, messages) in [("take.000002", 500), ("take.000003", 300)] {
        let report = json(&["export", &device, name, &target, "--json", "--force"]);
        assert_eq!(report["mcap"]["messages"], messages, "{report}");
    }
}

#[test]
fn each_sender_of_samples_begins_a_segment() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let words = [
        &SAMPLES[..],
        &["--segment", "64K", "--block", "16K", "--size", "200002"],
    ]
    .concat();
    let mut take = Listening::start(&device, &words);
    let part = |number: u8, len: usize| vec![number; len];
    // It ends inside a sample.
    take.send(&part(1, 100_001));
    take.wait("begins the next segment");
    take.send(&part(2, 40_000));
    take.wait("begins the next segment");
    // No more than was asked for.
    let mut last = take.connect();
    let _ = last.write_all(&part(3, 4_000_000));
    drop(last);
    let (status, _, rest) = take.end();
    assert_eq!(status, Some(0), "{rest}");
    let target = folder.path("out");
    // What is left of two samples is in no file.
    let report = lossy_json(&["export", &device, "take.0*", &target, "--json"]);
    let bytes = std::fs::read(format!("{target}.sigmf-data")).unwrap();
    let expected = [part(1, 100_000), part(2, 40_000), part(3, 60_000)].concat();
    assert!(bytes == expected, "{} {report}", bytes.len());
    assert_eq!(report["length_bytes"], 200_002);
    let meta = meta_of(&format!("{target}.sigmf-meta"));
    let captures = meta["captures"].as_array().unwrap();
    let starts = captures.iter().map(|one| one["core:sample_start"].as_u64());
    assert!(starts.eq([Some(0), Some(25_000), Some(35_000)]), "{meta}");
    let times: Vec<_> = captures
        .iter()
        .map(|one| one["core:datetime"].to_string())
        .collect();
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}

#[test]
fn a_sender_ends_one_file_and_the_time_ends_all() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let mut take = Listening::start(&device, &["--format", "mcap"]);
    take.send(&mcap(10));
    let (status, _, rest) = take.end();
    assert!(
        status == Some(0) && rest.contains("hint: with --segment"),
        "{rest}"
    );
    for words in [&["--once"][..], &["--for", "100ms"]] {
        let all = [&["--format", "mcap", "--segment", "1M"], words].concat();
        let mut take = Listening::start(&device, &all);
        take.send(&mcap(10));
        let (status, _, rest) = take.end();
        assert_eq!(status, Some(0), "{words:?}: {rest}");
        assert!(!rest.contains("hint: "), "{rest}");
    }
    // All that was asked for, at the end of a sender.
    let size = mcap(10).len().to_string();
    let words = ["--format", "mcap", "--segment", "1M", "--size", &size];
    let mut take = Listening::start(&device, &words);
    take.send(&mcap(10));
    assert_eq!(take.end().0, Some(0));
    // A sender of something else ends it, with the reason.
    let mut take = Listening::start(&device, &["--format", "mcap", "--segment", "1M"]);
    take.send(b"RIFF1234WAVE");
    let (status, _, rest) = take.end();
    assert!(status != Some(0) && rest.contains("not MCAP"), "{rest}");
    // From standard input it ends as before.
    let output = record(&device, "in", &["--format", "mcap"], &mcap(3));
    assert!(output.status.success() && !stderr(&output).contains("hint"));
}
