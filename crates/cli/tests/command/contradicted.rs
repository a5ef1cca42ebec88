// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a recording that are not what was recorded: replaced, renamed, continued, cut off, or
//! hidden by a later recording. No command that reads the recording ends with 0 then.

use crate::formats::SAMPLES;
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
pub fn said_by_all(folder: &Folder, device: &str, status: i32) -> String {
    said_by_each(folder, device, status, status)
}

/// The same, where `export` ends with a status of its own.
pub fn said_by_each(folder: &Folder, device: &str, status: i32, exported: i32) -> String {
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
        let status = if words[0] == "export" {
            exported
        } else {
            status
        };
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
        // Its length says nothing of its bytes.
        put(&device, name, &own);
        let said = said_by_all(&folder, &device, 7);
        let what = format!("`{name}`: was put where a segment was: its length is right");
        assert_eq!(said.matches(&what).count(), 5, "{said}");
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
pub fn lossy(folder: &Folder, name: &str, more: &[&str]) {
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
    for (name, more) in [("take.000001", &[][..]), ("take.000002", &["--append"])] {
        lossy(&folder, name, more);
        said_by_each(&folder, &device, 0, 7);
        let list = format!("{name}.gaps");
        let lines = get(&device, &list, &[]);
        put(&device, &list, &lines[..lines.len() - 1]);
        let what = format!("`{list}`: ends within a line");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        put(&device, &list, &lines);
        let what = format!("`{list}`: was put, and may not be");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        let empty = folder.path("empty");
        std::fs::write(&empty, b"").unwrap();
        ok(&["put", &device, &empty, &list, "--force"]);
        let what = format!("`{list}`: was put, and may not be");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        ok(&["rm", &device, &list]);
        let what = format!("`{list}`: is missing: something was lost in `{name}`");
        assert!(said_by_all(&folder, &device, 7).contains(&what));
        ok(&["rm", &device, name]);
    }
    // In segments, each keeps whether it has one.
    lossy(&folder, "take", &["--segment", "128K"]);
    said_by_each(&folder, &device, 0, 7);
    ok(&["rm", &device, "take.*.gaps"]);
    let said = said_by_all(&folder, &device, 7);
    assert!(said.contains("`take.000001.gaps`: is missing"), "{said}");
}

/// On a volume without checksums, where nothing else shows it.
#[test]
fn a_flipped_bit_in_a_list_of_gaps_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take.000001", &[]);
    said_by_each(&folder, &device, 0, 7);
    let lines = get(&device, "take.000001.gaps", &[]);
    let first = &lines[..64];
    let mut image = std::fs::read(&device).unwrap();
    let at = image.windows(64).position(|part| part == first).unwrap();
    // The last digit of how many bytes are missing.
    let digits = String::from_utf8(first.to_vec()).unwrap();
    let digits: Vec<&str> = digits.split_ascii_whitespace().collect();
    let lost = digits[1].as_bytes();
    let end = first
        .windows(lost.len() + 1)
        .position(|part| part.ends_with(b" ") && part.starts_with(lost));
    image[at + end.unwrap() + lost.len() - 1] ^= 1;
    std::fs::write(&device, &image).unwrap();
    let said = said_by_all(&folder, &device, 7);
    let what = "`take.000001.gaps`: line 1 is damaged, so what was lost is not known";
    assert_eq!(said.matches(what).count(), 5, "{said}");
    // The recording by its name alone, too; a part of it has all that was asked for.
    assert_eq!(said_of_one(&folder, &device, 7).matches(what).count(), 2);
    // Nothing is added to it, nor played by it.
    let append = [
        "record",
        &device,
        "take.000001",
        "--append",
        "--policy",
        "drop",
    ];
    let output = run_with_input(&append, &[3; 8192]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing was recorded"));
}

/// What `cat` and `get` say of the recording by its name alone, which both end with this status.
fn said_of_one(folder: &Folder, device: &str, status: i32) -> String {
    let to = folder.path("one");
    let mut said = String::new();
    for words in [
        &["cat", device, "take.000001"][..],
        &["get", device, "take.000001", &to, "--force"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        said += &stderr(&output);
    }
    // A part of it is all that is asked for.
    let rest = get(device, "take.000001", &["--offset", "1"]);
    assert!(std::fs::read(to).unwrap()[1..] == rest);
    said
}

/// Each line has a checksum that is right; only its number shows that it is another one.
#[test]
fn a_line_of_a_list_of_gaps_that_was_copied_over_another_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take.000001", &[]);
    said_by_each(&folder, &device, 0, 7);
    assert_eq!(said_of_one(&folder, &device, 0).matches("gaps").count(), 0);
    let lines = get(&device, "take.000001.gaps", &[]);
    assert!(lines.len() >= 128, "{} bytes", lines.len());
    let image = std::fs::read(&device).unwrap();
    let second = image.windows(64).position(|part| part == &lines[64..128]);
    let second = second.unwrap();
    let mut copied = image.clone();
    copied.copy_within(second - 64..second, second);
    std::fs::write(&device, &copied).unwrap();
    let what = "`take.000001.gaps`: line 2 is damaged";
    assert_eq!(
        said_by_all(&folder, &device, 7).matches(what).count(),
        5,
        "copied"
    );
    // Two that were exchanged.
    let (one, two) = (&lines[..64], &lines[64..128]);
    copied[second - 64..second + 64].copy_from_slice(&[two, one].concat());
    std::fs::write(&device, &copied).unwrap();
    let what = "`take.000001.gaps`: line 1 is damaged, and 1 more";
    let said = said_by_all(&folder, &device, 7);
    assert_eq!(said.matches(what).count(), 5, "{said}");
}

#[test]
fn a_list_of_gaps_without_checksums_is_read_and_said_to_have_none() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let line = format!("{:>20} {:>20} {:>16} {:>4}\n", 4096, 512, 7, 1);
    for name in ["take.000001", "take.000002"] {
        put(&device, name, &[1; 8192]);
        put(&device, &format!("{name}.gaps"), line.as_bytes());
    }
    let out = folder.path("out");
    let export = run(&["export", &device, "take.0*", &out]);
    let said = stderr(&export);
    assert_eq!(export.status.code(), Some(7), "{said}");
    let what = "`take.000001.gaps` and 1 other list have no checksums, as older versions wrote";
    assert!(said.contains(what), "{said}");
    let listed = std::fs::read_to_string(folder.path("out.gaps.json")).unwrap();
    assert!(listed.contains("\"lost_bytes\": 512"), "{listed}");
    assert!(!listed.contains("contradictions"), "{listed}");
    // As no recording of this version made any of the files, only the names show it.
    let check = ok(&["check", &device]);
    assert!(
        check.contains(what) && check.contains("1 harmless finding"),
        "{check}"
    );
}

#[test]
fn a_list_of_gaps_of_an_earlier_file_is_left_out() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let out = folder.path("out");
    let export = ["export", &device, "take", &out, "--force"];
    let gaps = folder.path("out.gaps.json");
    lossy(&folder, "take", &[]);
    assert_eq!(run(&export).status.code(), Some(7));
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
    let check = run(&["check", &device]);
    assert_eq!(check.status.code(), Some(0));
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(
        said.contains("`take.gaps` is not of this recording"),
        "{said}"
    );
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
    let check = run(&["check", &device]);
    assert_eq!(check.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&check.stdout).contains("`take.gaps`: is left out"));
    // With its own list it is a recording again, under any name.
    ok(&["rm", &device, "take*"]);
    lossy(&folder, "take", &[]);
    ok(&["mv", &device, "take", "best"]);
    ok(&["mv", &device, "take.gaps", "best.gaps"]);
    let output = run(&["export", &device, "best", &out, "--force"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(!stderr(&output).contains("`best"), "{}", stderr(&output));
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

/// Records these bytes as samples with a frequency.
fn samples(device: &str, name: &str, bytes: &[u8], more: &[&str]) {
    let words = ["record", device, name, "--frequency", "100M"];
    let output = run_with_input(&[&words[..], &SAMPLES, more].concat(), bytes);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn several_recordings_are_not_one_export() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let all = segments(&device, &[]);
    let record = ["record", &device, "take.left", "--segment", "1M"];
    assert_eq!(
        run_with_input(&record, &noise(4, 400 << 10)).status.code(),
        Some(0)
    );
    let whole = ["record", &device, "take"];
    assert_eq!(run_with_input(&whole, &[7; 8192]).status.code(), Some(0));
    let out = folder.path("out");
    for (word, others, count) in [
        ("take.*", "`take.left.000001`", 2),
        ("take*", "`take`", 3),
        ("*", "`take`", 3),
    ] {
        let output = run(&["export", &device, word, &out]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{word}: {said}");
        let what = format!("these are of {count} recordings: ");
        assert!(said.contains(&what) && said.contains(others), "{said}");
        assert!(
            said.contains("'take.0*' FILE") || word != "take.*",
            "{said}"
        );
        assert!(!std::fs::exists(&out).unwrap());
    }
    // Each of them is looked at to its end.
    ok(&["rm", &device, all.last().unwrap()]);
    let missing = format!("segment {}, and any behind it, is missing", all.len());
    for (words, to) in [("cat", None), ("get", Some(folder.path("got")))] {
        let mut words = vec![words, &device, "take.*"];
        words.extend(to.as_deref());
        let output = run(&words);
        assert_eq!(output.status.code(), Some(7), "{words:?}");
        assert!(stderr(&output).contains(&missing), "{}", stderr(&output));
    }
    let fetch = run(&["get", &device, "--all", &folder.path("every")]);
    assert_eq!(fetch.status.code(), Some(7), "{}", stderr(&fetch));
    assert!(stderr(&fetch).contains(&missing), "{}", stderr(&fetch));
    let check = run(&["check", &device]);
    assert_eq!(check.status.code(), Some(7));
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains(&missing), "{said}");
}

#[test]
fn segments_are_exported_in_the_order_of_their_numbers_and_once() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let all = segments(&device, &[]);
    let out = folder.path("out");
    let mut words = vec!["export", &device];
    let mixed = [2, 0, 1, 1, 3].map(|at: usize| all[at].as_str());
    words.extend(mixed);
    words.extend(all[4..].iter().map(String::as_str));
    words.push(&out);
    let output = run(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(std::fs::read(&out).unwrap() == noise(3, 1 << 20));
}

#[test]
fn a_description_of_an_earlier_recording_is_left_out() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let out = folder.path("out");
    let described = folder.path("out.sigmf-meta");
    let left = "`band.sigmf-meta` does not describe `band`";
    let export = ["export", &device, "band", &out, "--force"];
    let bytes = noise(6, 8192);
    samples(&device, "band", &bytes, &[]);
    ok(&export);
    std::fs::remove_file(&described).unwrap();
    ok(&["rm", &device, "band"]);
    let output = run_with_input(&["record", &device, "band"], &bytes);
    let said = stderr(&output);
    assert!(
        said.contains("`band.sigmf-meta` is of an earlier recording"),
        "{said}"
    );
    let said_by_check = || String::from_utf8_lossy(&run(&["check", &device]).stdout).into_owned();
    for file in ["recorded", "put"] {
        let output = run(&export);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(left),
            "{file}: {}",
            stderr(&output)
        );
        assert!(!std::fs::exists(&described).unwrap(), "{file}");
        assert!(std::fs::read(&out).unwrap() == bytes);
        assert!(said_by_check().contains(left), "{file}");
        put(&device, "band", &bytes);
    }
    let asked = run(&[&export[..], &["--format", "sigmf"]].concat());
    assert_eq!(asked.status.code(), Some(2));
    assert!(stderr(&asked).contains(left), "{}", stderr(&asked));
    // What the user puts is the user's word.
    let meta = get(&device, "band.sigmf-meta", &[]);
    put(&device, "band.sigmf-meta", &meta);
    ok(&export);
    assert!(std::fs::exists(&described).unwrap());
    // Renamed with its description, and continued, it stays one recording.
    ok(&["rm", &device, "band*"]);
    samples(&device, "band", &bytes, &[]);
    ok(&["mv", &device, "band", "bond"]);
    ok(&["mv", &device, "band.sigmf-meta", "bond.sigmf-meta"]);
    let append = ["record", &device, "bond", "--append"];
    assert_eq!(run_with_input(&append, &bytes).status.code(), Some(0));
    let output = run(&["export", &device, "bond", &out, "--force"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("4096 samples in 2 captures"), "{said}");
}

#[test]
fn a_description_is_not_that_of_segments_that_are_no_samples() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let out = folder.path("out");
    let raw = ["record", &device, "take", "--segment", "1M"];
    // In one file before.
    samples(&device, "take", &[1; 8192], &[]);
    ok(&["rm", &device, "take"]);
    let meta = get(&device, "take.sigmf-meta", &[]);
    let more = [
        "--format",
        "sigmf",
        "--sigmf-datatype",
        "ru8",
        "--sample-rate",
        "1M",
    ];
    let refused = run_with_input(&[&raw[..], &more].concat(), &[2; 8192]);
    assert_eq!(refused.status.code(), Some(9), "{}", stderr(&refused));
    assert_eq!(get(&device, "take.sigmf-meta", &[]), meta);
    let said = stderr(&run_with_input(&raw, &[2; 8192]));
    assert!(
        said.contains("`take.sigmf-meta` is of an earlier recording"),
        "{said}"
    );
    let export = ["export", &device, "take.0*", &out, "--force"];
    let said = stderr(&run(&export));
    assert!(said.contains("does not describe `take.000001`"), "{said}");
    assert_eq!(std::fs::read(&out).unwrap(), [2; 8192]);
    ok(&["rm", &device, "take*"]);
    // In segments, with raw ones behind them.
    samples(&device, "take", &[1; 8192], &["--segment", "1M"]);
    let said = stderr(&run_with_input(&raw, &[2; 8192]));
    assert!(
        said.contains("`take.000001` was recorded as sigmf, this is raw"),
        "{said}"
    );
    let mixed = run(&export);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(stderr(&mixed).contains("as sigmf, and `take.000002` as raw"));
    // The samples removed, with numbers again from the beginning.
    ok(&["rm", &device, "take.0*"]);
    assert_eq!(run_with_input(&raw, &[3; 8192]).status.code(), Some(0));
    let output = run(&export);
    assert!(stderr(&output).contains("`take.sigmf-meta` does not describe"));
    assert_eq!(std::fs::read(&out).unwrap(), [3; 8192]);
}

#[test]
fn a_recording_whose_list_of_gaps_is_gone_gets_no_new_one() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take", &[]);
    let list = get(&device, "take.gaps", &[]);
    ok(&["rm", &device, "take.gaps"]);
    let append = ["record", &device, "take", "--append", "--policy", "drop"];
    let output = run_with_input(&append, &[3; 8192]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("`take.gaps` is missing: something was lost in `take`"),
        "{said}"
    );
    assert!(said.contains("nothing was recorded\nhint: "), "{said}");
    let names = names(&device);
    assert!(!names.contains(&"take.gaps".to_owned()), "{names:?}");
    assert!(!list.is_empty());
    // What loses nothing can go on; what was lost before stays named.
    let append = ["record", &device, "take", "--append"];
    assert_eq!(run_with_input(&append, &[3; 8192]).status.code(), Some(0));
    let export = run(&["export", &device, "take", &folder.path("out")]);
    assert_eq!(export.status.code(), Some(7));
}

#[test]
fn what_belongs_to_a_recording_is_named_when_it_is_renamed() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    lossy(&folder, "take", &["--append"]);
    put(&device, "band.sigmf-data", &[1; 8192]);
    put(&device, "band.sigmf-meta", b"{}");
    put(&device, "alone", &[1; 8192]);
    for (old, new, left, then) in [
        ("take", "best", "take.gaps", "best.gaps"),
        (
            "band.sigmf-data",
            "b.sigmf-data",
            "band.sigmf-meta",
            "b.sigmf-meta",
        ),
        ("alone", "other", "", ""),
    ] {
        let output = run(&["mv", &device, old, new]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        if left.is_empty() {
            assert_eq!(said, "");
            continue;
        }
        let hint = format!(
            "`{left}` belongs to it and keeps its name: straightway mv {device} '{left}' '{then}'"
        );
        assert!(said.contains(&hint), "{said}");
        let report = crate::support::json(&["mv", &device, new, old, "--json"]);
        assert_eq!(report["companions"], serde_json::json!([]));
        let report = crate::support::json(&["mv", &device, old, new, "--json"]);
        assert_eq!(report["companions"], serde_json::json!([left]));
        // As it says.
        ok(&["mv", &device, left, then]);
    }
    for (name, copy, other, then) in [
        ("best", "c", "best.gaps", "c.gaps"),
        (
            "b.sigmf-meta",
            "d.sigmf-meta",
            "b.sigmf-data",
            "d.sigmf-data",
        ),
    ] {
        let said = stderr(&run(&["cp", &device, name, copy]));
        let hint = format!(
            "`{other}` belongs to it and is not copied: straightway cp {device} '{other}' '{then}'"
        );
        assert!(said.contains(&hint), "{said}");
        // As it says; then nothing is left to copy.
        let said = stderr(&run(&["cp", &device, other, then]));
        assert!(!said.contains("belongs to it"), "{said}");
    }
    // The other half first.
    for (old, new, left) in [
        ("best.gaps", "x.gaps", "best"),
        ("b.sigmf-meta", "x.sigmf-meta", "b.sigmf-data"),
    ] {
        let said = stderr(&run(&["mv", &device, old, new]));
        let hint = format!("`{left}` belongs to it and keeps its name");
        assert!(said.contains(&hint), "{said}");
        ok(&["mv", &device, new, old]);
    }
    let export = run(&["export", &device, "best", &folder.path("out")]);
    assert!(
        !stderr(&export).contains("best.gaps"),
        "{}",
        stderr(&export)
    );
}
