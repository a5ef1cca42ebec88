// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a recording that are not what was recorded: replaced, renamed, continued, cut off, or
//! hidden by a later recording. No command that reads the recording ends with 0 then.

use crate::formats::mcap;
use crate::live::Take;
use crate::support::{Folder, get, names, noise, ok, run, run_with_input, stderr, volume};

/// A recording in at least four segments; each part is durable before the next one is sent.
fn segments(device: &str, more: &[&str]) -> Vec<String> {
    let mut take = Take::committed(device, "64K", &[&["--segment", "192K"], more].concat());
    for part in noise(3, 1 << 20).chunks(64 << 10) {
        take.write(part);
    }
    take.end();
    let all = names(device).into_iter();
    let all: Vec<String> = all.filter(|name| name.starts_with("take.0")).collect();
    assert!(all.len() >= 4, "{all:?}");
    all
}

fn put(device: &str, name: &str, bytes: &[u8]) {
    let put = ["--quiet", "put", device, "-", name, "--force"];
    assert_eq!(run_with_input(&put, bytes).status.code(), Some(0), "{name}");
}

/// What `cat`, `get`, `export` and `check` say of the segments, which all end with this status.
fn said_by_all(folder: &Folder, device: &str, status: i32) -> String {
    let (to, out) = (folder.path("got"), folder.path("out"));
    let mut said = String::new();
    for words in [
        &["cat", device, "take.0*"][..],
        &["get", device, "take.0*", &to, "--force"],
        &["export", device, "take.0*", &out, "--force"],
        &["check", device],
    ] {
        let output = run(words);
        let what = format!(
            "{}{}",
            stderr(&output),
            String::from_utf8_lossy(&output.stdout)
        );
        assert_eq!(output.status.code(), Some(status), "{words:?}: {what}");
        said += &stderr(&output);
        if words[0] != "cat" {
            said += &String::from_utf8_lossy(&output.stdout);
        }
    }
    said
}

#[test]
fn a_later_recording_does_not_hide_that_the_last_segment_is_missing() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let first = segments(&device, &[]);
    let last = first.last().unwrap();
    ok(&["rm", &device, last]);
    let second = segments(&device, &[]);
    assert!(!second.contains(last), "{second:?}");
    let missing = format!("segment {} is missing on the volume", first.len());
    let (to, out) = (folder.path("got"), folder.path("out"));
    let cat = ["cat", &device, "take.0*"];
    let fetch = ["get", &device, "take.0*", &to, "--force"];
    let export = ["export", &device, "take.0*", &out, "--force"];
    let gapped = |words: &[&str], what: &str| {
        let output = run(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(7), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
    };
    for words in [&cat[..], &fetch, &export] {
        gapped(words, &missing);
    }
    // As an older version numbered them, which the segments themselves contradict.
    for (from, to) in (first.len() + 1..)
        .zip(first.len()..)
        .take(second.len() + 1 - first.len())
    {
        let (from, to) = (format!("take.{from:06}"), format!("take.{to:06}"));
        ok(&["mv", &device, &from, &to]);
    }
    let said = said_by_all(&folder, &device, 7);
    assert!(said.contains("has a number before that of"), "{said}");
}

#[test]
fn a_segment_that_was_replaced_is_named() {
    // Another length: of the first one, one in the middle, and the last one.
    for (at, longer_by, what) in [
        (0, -1, "ends at byte "),
        (1, -1, "ends at byte "),
        (1, 512, "ends at byte "),
        (3, 512, "was put where a segment was, and nothing shows "),
    ] {
        let folder = Folder::new();
        let device = volume(&folder, "disk", &[]);
        let all = segments(&device, &[]);
        said_by_all(&folder, &device, 0);
        let name = if at == 3 {
            all.last().unwrap()
        } else {
            &all[at]
        };
        let own = get(&device, name, &[]);
        let mut other = own.clone();
        other.resize(own.len().saturating_add_signed(longer_by), 1);
        put(&device, name, &other);
        let said = said_by_all(&folder, &device, 7);
        let what = format!("`{name}`: {what}");
        // By `cat`, `get`, `check`, and twice by `export`.
        assert_eq!(said.matches(&what).count(), 5, "{what}: {said}");
        let listed = std::fs::read_to_string(folder.path("out.gaps.json")).unwrap();
        assert!(listed.contains("\"contradictions\""), "{listed}");
        if at == 3 {
            continue;
        }
        // With its length it may be what was recorded: that is said, and nothing else.
        put(&device, name, &own);
        let out = folder.path("out");
        let again = run(&["export", &device, "take.0*", &out, "--force"]);
        let said = stderr(&again);
        assert_eq!(again.status.code(), Some(0), "{said}");
        assert!(
            said.contains("was put where a segment was, and has its length"),
            "{said}"
        );
    }
}

#[test]
fn a_segment_that_was_moved_or_continued_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let all = segments(&device, &[]);
    for (from, to) in [
        (&all[0], "x"),
        (&all[1], &all[0]),
        (&"x".to_owned(), &all[1]),
    ] {
        ok(&["mv", &device, from, to]);
    }
    let said = said_by_all(&folder, &device, 7);
    assert!(
        said.contains("`take.000001`: has the number of its recording's first"),
        "{said}"
    );
    for (from, to) in [
        (&all[0], "x"),
        (&all[1], &all[0]),
        (&"x".to_owned(), &all[1]),
    ] {
        ok(&["mv", &device, from, to]);
    }
    said_by_all(&folder, &device, 0);
    // Bytes in the middle of a recording.
    let append = ["record", &device, &all[1], "--append"];
    let refused = run_with_input(&append, &[1; 4096]);
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    assert!(
        said.contains("is a segment of a recording that goes on behind it"),
        "{said}"
    );
    assert!(
        said.contains("nothing was recorded\nhint: do not append"),
        "{said}"
    );
    said_by_all(&folder, &device, 0);
    // At its end it is what the user wants.
    let last = all.last().unwrap();
    let append = ["record", &device, last, "--append"];
    assert_eq!(run_with_input(&append, &[1; 4096]).status.code(), Some(0));
    said_by_all(&folder, &device, 0);
}

/// Records from a source that is faster than the drive: something is lost.
fn lossy(folder: &Folder, name: &str, more: &[&str]) {
    let device = format!("model:64MiB,file={},latency=5ms", folder.path("disk"));
    let words = [
        "--quiet",
        "record",
        &device,
        name,
        "--from",
        "pattern",
        "--rate",
        "1T",
        "--size",
        "8M",
        "--buffers",
        "2",
        "--block",
        "64K",
        "--policy",
        "drop",
        "--deadline",
        "1min",
    ];
    let output = run(&[&words[..], more].concat());
    let said = stderr(&output);
    // A status that is not 0 says why, also with --quiet.
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("something was lost\nhint: "), "{said}");
}

#[test]
fn a_list_of_gaps_that_is_missing_or_cut_off_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take.000001", &[]);
    lossy(&folder, "take.000002", &["--append"]);
    said_by_all(&folder, &device, 0);
    for name in ["take.000001", "take.000002"] {
        let list = format!("{name}.gaps");
        let lines = get(&device, &list, &[]);
        put(&device, &list, &lines[..lines.len() - 1]);
        let what = format!("`{list}`: ends within a line");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        put(&device, &list, &lines);
        let what = format!("`{list}`: was put, and may not be");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        put(&device, &list, b"");
        let what = format!("`{list}`: was put, and may not be");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        ok(&["rm", &device, &list]);
        let what = format!("`{list}`: is missing: something was lost in `{name}`");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        ok(&["rm", &device, name]);
    }
    // In segments, each keeps whether it has one.
    lossy(&folder, "take", &["--segment", "128K"]);
    said_by_all(&folder, &device, 0);
    ok(&["rm", &device, "take.*.gaps"]);
    let said = said_by_all(&folder, &device, 7);
    assert!(said.contains("`take.000001.gaps`: is missing"), "{said}");
}

#[test]
fn a_list_of_gaps_of_an_earlier_file_is_left_out() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let out = folder.path("out");
    let export = ["export", &device, "take", &out, "--force"];
    let gaps = folder.path("out.gaps.json");
    lossy(&folder, "take", &[]);
    assert_eq!(run(&export).status.code(), Some(0));
    std::fs::remove_file(&gaps).unwrap();
    // Recorded again, and whole: nothing of the old list is said of it.
    ok(&["rm", &device, "take"]);
    let record = ["record", &device, "take"];
    assert_eq!(run_with_input(&record, &[3; 8192]).status.code(), Some(0));
    let output = run(&export);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("`take.gaps` is not of this recording"),
        "{said}"
    );
    assert!(!std::fs::exists(&gaps).unwrap());
    // It is not added to either.
    let append = ["record", &device, "take", "--append", "--policy", "drop"];
    let before = get(&device, "take.gaps", &[]);
    let output = run_with_input(&append, &[3; 8192]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("is not the list of gaps of `take`"), "{said}");
    assert!(
        said.contains("nothing was recorded\nhint: straightway mv "),
        "{said}"
    );
    assert_eq!(get(&device, "take.gaps", &[]), before);
    // Put: which of the two it belongs to is not known.
    put(&device, "take", &[4; 8192]);
    let output = run(&export);
    assert_eq!(output.status.code(), Some(7));
    let said = stderr(&output);
    assert!(
        said.contains("`take.gaps`: is left out: another recording"),
        "{said}"
    );
    // With its own list it is a recording again, under any name.
    ok(&["rm", &device, "take*"]);
    lossy(&folder, "take", &[]);
    ok(&["mv", &device, "take", "best"]);
    ok(&["mv", &device, "take.gaps", "best.gaps"]);
    let output = run(&["export", &device, "best", &out, "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(std::fs::exists(&gaps).unwrap());
}

#[test]
fn segments_of_different_formats_are_not_one_export() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let bytes = noise(5, 5000);
    let messages = mcap(3);
    for (data, format) in [(&bytes, "raw"), (&messages, "mcap")] {
        let record = [
            "record",
            &device,
            "take",
            "--segment",
            "1M",
            "--format",
            format,
        ];
        assert_eq!(run_with_input(&record, data).status.code(), Some(0));
    }
    let out = folder.path("out");
    let export = ["export", &device, "take.0*", &out];
    for more in [&[][..], &["--format", "mcap"]] {
        let output = run(&[&export[..], more].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let what = "`take.000001` was recorded as raw, and `take.000002` as mcap; nothing was";
        assert!(said.contains(what), "{said}");
        assert!(
            said.contains("hint: name the segments of one of them"),
            "{said}"
        );
        assert!(!std::fs::exists(&out).unwrap());
    }
    ok(&[&export[..], &["--format", "raw"]].concat());
    assert!(std::fs::read(&out).unwrap() == [bytes, messages].concat());
    ok(&["export", &device, "take.000002", &folder.path("out.mcap")]);
}
