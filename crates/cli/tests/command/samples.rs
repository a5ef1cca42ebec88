// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of samples: their times and blocks.

use crate::formats::{SAMPLES, meta_of_file, record};
use crate::support::{Folder, command, noise, stderr, volume};
use serde_json::{Value, json};
use std::io::Write;

#[test]
fn the_time_of_a_capture_is_that_of_its_first_sample() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_secs_f64()
    };
    let mut times = Vec::new();
    for append in [&[][..], &["--append"]] {
        let words = [&["record", &device, "a"], &SAMPLES[..], append].concat();
        let mut recording = command(&words);
        let mut child = recording
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The receiver is switched on later than the recording.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let before = now();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&[7; 8_192]).unwrap();
        drop(input);
        assert!(child.wait().unwrap().success());
        times.push((before, now()));
    }
    let meta = meta_of_file(&device, "a.sigmf-meta", &folder);
    let captures = meta["captures"].as_array().unwrap();
    assert_eq!(captures.len(), times.len());
    for (capture, (before, after)) in captures.iter().zip(times) {
        let time = humantime::parse_rfc3339(capture["core:datetime"].as_str().unwrap());
        let since = time.unwrap().duration_since(std::time::UNIX_EPOCH);
        let at = since.unwrap().as_secs_f64();
        assert!(before <= at + 1e-5 && at <= after, "{before} {at} {after}");
    }
}

#[test]
fn a_block_has_whole_samples_if_its_size_is_not_given() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = noise(2, 3 << 20);
    let words = [&SAMPLES[..], &["--channels", "3"]].concat();
    let output = record(&device, "a", &words, &data);
    assert!(output.status.success(), "{}", stderr(&output));
    // It goes on in such blocks, though nothing but the description says so.
    let output = record(&device, "a", &["--append", "--json"], &data);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["length_bytes"], &report["blocks"]),
        (&json!(3 << 20), &json!(4))
    );
    let segmented = [&words[..], &["--segment", "2M"]].concat();
    let output = record(&device, "b", &segmented, &data);
    assert!(output.status.success(), "{}", stderr(&output));
}
