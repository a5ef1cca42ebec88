// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an export leaves out, or cannot have, is named and counted, and the exit status shows it.

use crate::formats::{SAMPLES, mcap, mcap_record, meta_of, put, record, refused};
use crate::live::Take;
use crate::support::{
    Folder, get, json, lossy_json, ok, run, schema_names_all_keys, stderr, volume,
};
use serde_json::{Value, json};

/// Runs an export that lacks something: its report, and what it says.
fn lossy(words: &[&str], status: i32) -> (Value, String) {
    let output = run(&[words, &["--json"]].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("{words:?}: {said}")), said)
}

/// A recording of the name `take` in at least five segments; each part is durable before the next
/// one is sent.
fn take(device: &str, words: &[&str], data: &[u8]) -> Vec<(String, usize)> {
    let mut take = Take::committed(device, "64K", &[words, &["--segment", "192K"]].concat());
    for part in data.chunks(64 << 10) {
        if part.len() == 64 << 10 {
            take.write(part);
        } else {
            take.send(part);
        }
    }
    take.end();
    let files = json(&["ls", device, "--json"])["files"].clone();
    let files = files.as_array().unwrap().iter();
    let segments: Vec<_> = files
        .map(|file| {
            let size = file["size_bytes"].as_u64().unwrap() as usize;
            (file["name"].as_str().unwrap().to_owned(), size)
        })
        .filter(|(name, _)| !name.ends_with("meta"))
        .collect();
    assert!(segments.len() >= 5, "{segments:?}");
    assert_eq!(
        segments.iter().map(|(_, size)| size).sum::<usize>(),
        data.len()
    );
    segments
}

/// Each capture's first sample is that which its index names, and its time agrees.
fn check_samples(target: &str, rate: f64) -> Vec<u64> {
    let data = std::fs::read(format!("{target}.sigmf-data")).unwrap();
    let meta = meta_of(&format!("{target}.sigmf-meta"));
    let captures = meta["captures"].as_array().unwrap();
    let time = |capture: &Value| {
        let time = humantime::parse_rfc3339(capture["core:datetime"].as_str().unwrap()).unwrap();
        time.duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
    };
    let indexes: Vec<u64> = captures
        .iter()
        .map(|capture| {
            let at = capture["core:sample_start"].as_u64().unwrap() as usize * 4;
            let place = u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
            let index = capture["core:global_index"].as_u64().unwrap_or(0);
            assert_eq!(index, place / 4, "{capture}");
            index
        })
        .collect();
    for (capture, index) in captures.iter().zip(&indexes) {
        let passed = (index - indexes[0]) as f64 / rate;
        let told = time(capture) - time(&captures[0]);
        assert!((told - passed).abs() < 1e-5, "{captures:?}");
    }
    indexes
}

#[test]
fn samples_behind_a_missing_segment_have_their_index_and_time() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let samples: Vec<u8> = (0..1_200_000_u64)
        .step_by(8)
        .flat_map(u64::to_le_bytes)
        .collect();
    let segments = take(&device, &SAMPLES, &samples);
    let index_of = |at: usize| {
        segments[..at]
            .iter()
            .map(|(_, size)| *size as u64 / 4)
            .sum::<u64>()
    };
    let target = folder.path("out");
    let all = ["export", &device, "take.0*", &target, "--force"];
    assert_eq!(
        json(&[&all[..], &["--json"]].concat())["missing_segments"],
        json!([])
    );
    assert_eq!(check_samples(&target, 1e6), [0]);
    let begin = meta_of(&folder.path("out.sigmf-meta"))["captures"][0]["core:datetime"].clone();
    // The volume has it, but it was not named.
    let words = [
        "export",
        &device,
        &segments[0].0,
        &segments[2].0,
        &target,
        "--force",
    ];
    let (report, said) = lossy(&words, 0);
    assert!(said.contains("segment 2 is not named"), "{said}");
    assert_eq!(report["gaps"], 1);
    assert_eq!(check_samples(&target, 1e6), [0, index_of(2)]);

    ok(&["rm", &device, "take.000002"]);
    let (report, said) = lossy(&all, 7);
    assert!(
        said.contains("segment 2 is missing on the volume"),
        "{said}"
    );
    schema_names_all_keys(&report, &ok(&["schema", "export"]));
    assert_eq!(
        report["missing_segments"],
        json!([{"first": 2, "last": 2, "offset_bytes": segments[0].1, "missing_bytes": segments[1].1,
            "reason": "not_stored", "and_later": false}])
    );
    assert_eq!(report["lost_bytes"], segments[1].1);
    assert_eq!(check_samples(&target, 1e6), [0, index_of(2)]);
    let (_, said) = lossy(&["export", &device, "take.000003", &target, "--force"], 7);
    assert!(
        said.contains(
            "segment 2 is missing on the volume; of segments 1 to 2, the other one is not named"
        ),
        "{said}"
    );
    assert_eq!(check_samples(&target, 1e6), [index_of(2)]);
    let alone = meta_of(&folder.path("out.sigmf-meta"))["captures"][0].clone();
    // The first one, too. Its description stays.
    ok(&["rm", &device, "take.000001"]);
    lossy(&all, 7);
    assert_eq!(check_samples(&target, 1e6), [index_of(2)]);
    let same = meta_of(&folder.path("out.sigmf-meta"))["captures"][0].clone();
    assert_eq!(same, alone);
    assert_ne!(same["core:datetime"], begin);
    // Without the description nothing is written under the format's name, and it is still known to
    // be that of samples.
    ok(&["rm", &device, "take.sigmf-meta"]);
    let named = folder.path("raw.sigmf-meta");
    let said = refused(&["export", &device, "take.000003", &named], 2);
    assert!(said.contains("--format raw"), "{said}");
    assert!(!std::path::Path::new(&named).exists());
    // Under another name they are its bytes.
    let raw = folder.path("raw");
    let said = refused(&["export", &device, "take.000003", &raw], 7);
    assert!(said.contains("nothing describes its samples"), "{said}");
    assert!(std::fs::read(&raw).unwrap() == get(&device, "take.000003", &[]));
}

/// The end of a stream, with the channel again, as writers make it.
fn ended(mut stream: Vec<u8>) -> Vec<u8> {
    let channel = stream[8 + 9 + 12..][..9 + 22].to_vec();
    assert_eq!(channel[0], 4);
    stream.extend(mcap_record(15, &[0; 4]));
    stream.extend(channel);
    stream.extend(mcap_record(2, &[0; 20]));
    stream.extend(b"\x89MCAP0\r\n");
    stream
}

#[test]
fn messages_behind_a_missing_segment_are_exported() {
    const MESSAGE: usize = 33;
    let messages = 33_000;
    for has_end in [true, false] {
        let folder = Folder::new();
        let device = volume(&folder, "disk", &[]);
        let stream = mcap(messages);
        let begin = stream.len() - messages as usize * MESSAGE;
        let stream = if has_end { ended(stream) } else { stream };
        let segments = take(&device, &["--format", "mcap"], &stream);
        // Messages that are whole in these bytes of the stream.
        let whole = |from: usize, to: usize| {
            let first = from.saturating_sub(begin).div_ceil(MESSAGE);
            let last = (to.saturating_sub(begin) / MESSAGE).min(messages as usize);
            last.saturating_sub(first) as u64
        };
        let end_of = |count: usize| {
            segments[..count]
                .iter()
                .map(|(_, size)| size)
                .sum::<usize>()
        };
        let target = folder.path("out.mcap");
        let all = ["export", &device, "take.0*", &target, "--force"];
        assert_eq!(
            json(&[&all[..], &["--json"]].concat())["mcap"]["messages"],
            messages
        );
        // A later one alone: the others have its channel.
        let words = ["export", &device, "take.000003", &target, "--force"];
        let (report, said) = lossy(&words, 7);
        assert!(said.contains("segments 1 to 2 are not named"), "{said}");
        assert_eq!(report["mcap"]["messages"], whole(end_of(2), end_of(3)));
        assert_eq!(report["mcap"]["recalled_channels"], 1);

        ok(&["rm", &device, "take.000002"]);
        let (report, said) = lossy(&all, 7);
        assert!(
            said.contains("segment 2 is missing on the volume"),
            "{said}"
        );
        let behind = whole(end_of(2), stream.len());
        assert_eq!(report["mcap"]["messages"], whole(0, end_of(1)) + behind);
        let missing = &report["missing_segments"][0];
        assert_eq!(
            (&missing["first"], &missing["missing_bytes"]),
            (&json!(2), &json!(segments[1].1))
        );
        let bytes = std::fs::read(&target).unwrap();
        assert!(bytes.starts_with(b"\x89MCAP0\r\n") && bytes.ends_with(b"\x89MCAP0\r\n"));

        ok(&["rm", &device, "take.000001"]);
        if has_end {
            // Its end repeats the channel.
            let (report, said) = lossy(&all, 7);
            assert!(said.contains("segments 1 to 2 are missing"), "{said}");
            assert_eq!(report["mcap"]["messages"], behind);
            assert_eq!(report["mcap"]["has_header"], false);
        } else {
            std::fs::remove_file(&target).unwrap();
            let said = refused(&all, 7);
            assert!(said.contains("nothing shows what the messages"), "{said}");
            assert!(!std::fs::exists(&target).unwrap());
        }
    }
}

#[test]
fn a_hole_between_raw_segments_is_named() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = vec![7; 1_100_000];
    let segments = take(&device, &[], &data);
    let target = folder.path("out");
    let words = [
        "export",
        &device,
        "take.000001",
        "take.000003",
        &target,
        "--force",
    ];
    let (report, said) = lossy(&words, 0);
    assert!(said.contains("segment 2 is not named"), "{said}");
    assert_eq!(report["lost_bytes"], segments[1].1);
    ok(&["rm", &device, "take.000002"]);
    let (_, said) = lossy(&words, 7);
    assert!(
        said.contains("segment 2 is missing on the volume"),
        "{said}"
    );
    let gaps = meta_of(&folder.path("out.gaps.json"));
    assert_eq!(gaps["gaps"][0]["lost_bytes"], segments[1].1);
    assert_eq!(gaps["missing_segments"][0]["last"], 2);
    let all = ["export", &device, "take.0*", &target, "--force"];
    assert!(lossy(&all, 7).1.contains("segment 2 is missing"));
    ok(&["rm", &device, "take.000001"]);
    assert!(lossy(&all, 7).1.contains("segments 1 to 2 are missing"));
    // Files that were put say nothing of themselves.
    for name in ["shot.000004", "shot.000006", "shot.000007"] {
        put(&device, name, b"bytes");
    }
    let shot = ["export", &device, "shot.000006", &target, "--force"];
    assert_eq!(lossy(&shot, 0).0["missing_segments"], json!([]));
    let shots = ["export", &device, "shot.*", &target, "--force"];
    let (report, said) = lossy(&shots, 7);
    assert!(said.contains("segment 5 is missing"), "{said}");
    assert_eq!(report["missing_segments"][0]["missing_bytes"], Value::Null);
    assert!(ok(&["get", &device, "take.000003", "-"]).len() == segments[2].1);
}

/// A ring removes its oldest segments by itself.
#[test]
fn what_a_ring_has_removed_is_no_loss() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let words = ["--segment", "128K", "--keep", "512K"];
    let mut take = Take::committed(&device, "64K", &words);
    for _ in 0..24 {
        take.write(&[5; 64 << 10]);
    }
    take.end();
    let (report, said) = lossy(&["export", &device, "take.0*", &folder.path("out")], 0);
    assert!(
        said.contains("removed: by the ring (--keep), or by hand"),
        "{said}"
    );
    assert_eq!(report["missing_segments"][0]["reason"], "ring_removed");
}

#[test]
fn bytes_are_not_written_under_the_name_of_a_format() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let stream = mcap(3);
    for len in 0..8 {
        let name = format!("cut{len}");
        if len == 0 {
            // What a power cut leaves.
            put(&device, &name, b"");
        } else {
            let output = record(&device, &name, &["--format", "mcap"], &stream[..len]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        for words in [&[][..], &["--format", "mcap"]] {
            let target = folder.path("bag.mcap");
            let words = [&["export", &device, &name, &target], words].concat();
            assert!(refused(&words, 1).contains("no whole record yet"));
            assert!(!std::fs::exists(&target).unwrap());
        }
    }
    put(&device, "notes", b"a text that is not MCAP");
    for (file, format) in [
        ("a.mcap", "mcap"),
        ("a.pcapng", "pcapng"),
        ("a.sigmf-data", "sigmf"),
    ] {
        let said = refused(&["export", &device, "notes", &folder.path(file)], 2);
        assert!(
            said.contains(&format!("--format {format}, or --format raw")),
            "{said}"
        );
    }
    for (format, what) in [("mcap", "is not MCAP"), ("pcapng", "is not pcapng")] {
        let target = folder.path("x");
        let said = refused(
            &["export", &device, "notes", &target, "--format", format],
            2,
        );
        assert!(
            said.contains(what) && said.contains("--format raw"),
            "{said}"
        );
        assert!(!std::fs::exists(&target).unwrap(), "{format}");
    }
    let target = folder.path("a.mcap");
    ok(&["export", &device, "notes", &target, "--format", "raw"]);
    assert_eq!(std::fs::read(&target).unwrap(), b"a text that is not MCAP");
}

/// SigMF 1.2.0, "Global Object", core:offset: all indices of samples are absolute.
#[test]
fn samples_are_counted_from_the_offset_of_their_file() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data = vec![1; 16_000];
    let meta = json!({
        "global": {"core:datatype": "ci16_le", "core:version": "1.2.0", "core:offset": 10_000, "core:sample_rate": 1000},
        "captures": [{"core:sample_start": 10_000, "core:frequency": 1},
            {"core:sample_start": 12_000, "core:frequency": 2}, {"core:sample_start": 14_000}],
        "annotations": [{"core:sample_start": 11_000, "core:sample_count": 3}]});
    put(&device, "a", &data);
    put(&device, "a.sigmf-meta", meta.to_string().as_bytes());
    let target = folder.path("a");
    let report = json(&["export", &device, "a", &target, "--json"]);
    // The last one begins behind the samples.
    assert_eq!(report["sigmf"]["captures"], 2);
    assert_eq!(report["sigmf"]["left_out_captures"], 1);
    let found = meta_of(&folder.path("a.sigmf-meta"));
    assert_eq!(found["captures"][0], meta["captures"][0]);
    assert_eq!(found["captures"][1], meta["captures"][1]);
    assert_eq!(found["annotations"], meta["annotations"]);
    assert_eq!(found["global"]["core:offset"], 10_000);
    // A gap behind 1000 samples.
    let line = format!("{:>20} {:>20} {:>16} {:>4}\n", 4000, 400, 7, 1);
    put(&device, "a.gaps", line.as_bytes());
    crate::support::lossy(&["export", &device, "a", &target, "--force"]);
    let captures = &meta_of(&folder.path("a.sigmf-meta"))["captures"];
    assert_eq!(
        captures[1],
        json!({"core:sample_start": 11_000, "core:global_index": 11_100, "core:frequency": 1})
    );
    // It goes on there.
    let words = [
        "--append",
        "--format",
        "sigmf",
        "--frequency",
        "3",
        "--block",
        "4K",
    ];
    put(&device, "b", &data[..4096]);
    put(&device, "b.sigmf-meta", meta.to_string().as_bytes());
    assert!(record(&device, "b", &words, &data[..4096]).status.success());
    ok(&["export", &device, "b", &target, "--force"]);
    let captures = &meta_of(&folder.path("a.sigmf-meta"))["captures"];
    assert_eq!(
        (
            &captures[1]["core:sample_start"],
            &captures[1]["core:global_index"]
        ),
        (&json!(11_024), &json!(11_024))
    );
}

/// SigMF 1.2.0, "Non-Conforming Datasets".
#[test]
fn bytes_that_are_no_samples_stay_where_they_are() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let data: Vec<u8> = (0..16_006_u32).map(|at| at as u8).collect();
    let global =
        json!({"core:datatype": "ci16_le", "core:version": "1.2.0", "core:dataset": "radio.wav"});
    let mut trailing = global.clone();
    trailing["core:trailing_bytes"] = json!(6);
    let header = json!([{"core:sample_start": 0, "core:header_bytes": 6}]);
    let plain = json!([{"core:sample_start": 0}]);
    let target = folder.path("out");
    for (global, captures, samples, cut) in [
        (&global, &header, 4000, 0),
        (&trailing, &plain, 4000, 0),
        (&trailing, &header, 3998, 0),
        (&global, &plain, 4001, 2),
    ] {
        let meta = json!({"global": global, "captures": captures, "annotations": []});
        put(&device, "radio.wav", &data);
        put(&device, "radio.sigmf-meta", meta.to_string().as_bytes());
        // Each of the names that the pair has.
        for name in ["radio", "radio.wav", "radio.sigmf-meta"] {
            let words = ["export", &device, name, &target, "--json", "--force"];
            // The rest of the last sample is nowhere.
            let report = match cut {
                0 => json(&words),
                _ => lossy_json(&words),
            };
            assert_eq!(report["sigmf"]["samples"], samples, "{name} {meta}");
            assert_eq!(report["sigmf"]["cut_bytes"], cut);
            let written = std::fs::read(folder.path("out.sigmf-data")).unwrap();
            assert!(written == data[..data.len() - cut]);
            let found = meta_of(&folder.path("out.sigmf-meta"));
            assert_eq!(&found["captures"], captures);
            // It names the file that is written, if that needs a name.
            let expected = match cut {
                0 => json!("out.sigmf-data"),
                _ => Value::Null,
            };
            assert_eq!(found["global"]["core:dataset"], expected);
        }
        ok(&["rm", &device, "radio.wav", "radio.sigmf-meta"]);
    }
}

#[test]
fn a_pair_of_files_that_was_put_is_one_recording() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("made");
    ok(&["put", &device, "-", "x", "--quiet"]);
    ok(&["rm", &device, "x"]);
    assert!(
        record(&device, "made", &SAMPLES, &[9; 8192])
            .status
            .success()
    );
    ok(&["export", &device, "made", &target]);
    ok(&["rm", &device, "made", "made.sigmf-meta"]);
    ok(&[
        "put",
        &device,
        &folder.path("made.sigmf-data"),
        &folder.path("made.sigmf-meta"),
    ]);
    for name in ["made", "made.sigmf-data", "made.sigmf-meta", "made*"] {
        let report = json(&["export", &device, name, &target, "--json", "--force"]);
        assert_eq!(
            (&report["format"], &report["sigmf"]["samples"]),
            (&json!("sigmf"), &json!(2048)),
            "{name}"
        );
        assert_eq!(report["name"], "made.sigmf-data");
        assert_eq!(report["sigmf"]["differs_from_digest"], false);
    }
    // The power failed before the metadata had its first commit: there is no recording yet.
    put(&device, "begun.sigmf-meta", b"");
    assert!(
        refused(&["export", &device, "begun", &target, "--force"], 10)
            .contains("no file has this name")
    );
    put(&device, "begun.txt", b"text");
    let begun = folder.path("begun");
    assert_eq!(
        json(&["export", &device, "begun.txt", &begun, "--json"])["format"],
        "raw"
    );
    // Other bytes than those which the digest is of.
    ok(&["rm", &device, "made.sigmf-data"]);
    put(&device, "made.sigmf-data", &[8; 8192]);
    let (report, _) = lossy(&["export", &device, "made", &target, "--force"], 6);
    assert_eq!(report["sigmf"]["differs_from_digest"], true);
    assert!(
        refused(&["export", &device, "other", &target, "--force"], 10)
            .contains("no file has this name")
    );
}

/// A list of gaps, as recordings write it: where, and how many bytes.
fn lines(gaps: &[(u64, u64)]) -> Vec<u8> {
    let line = |(at, lost): &(u64, u64)| format!("{at:>20} {lost:>20} {:>16} {:>4}\n", 7, 1);
    gaps.iter().map(line).collect::<String>().into_bytes()
}

/// The last blocks of a recording can be lost as the others can.
#[test]
fn a_gap_at_the_end_is_counted_in_every_format() {
    let folder = Folder::new();
    let device = volume(&folder, "disk", &[]);
    let target = folder.path("out");
    let counts = |report: &Value| (report["gaps"].clone(), report["lost_bytes"].clone());
    let both = (json!(2), json!(1200));
    put(&device, "a", &[1; 4000]);
    put(&device, "a.gaps", &lines(&[(400, 800), (4000, 400)]));
    let (report, said) = lossy(&["export", &device, "a", &target], 7);
    assert_eq!(counts(&report), both, "{said}");
    let listed = meta_of(&folder.path("out.gaps.json"));
    assert_eq!(listed["gaps"][1]["offset_bytes"], 4000);
    // Nothing else is missing.
    put(&device, "b", &[1; 4000]);
    put(&device, "b.gaps", &lines(&[(4000, 400)]));
    let (report, _) = lossy(&["export", &device, "b", &target, "--force"], 7);
    assert_eq!(counts(&report), (json!(1), json!(400)));
    // Segments: at the end of the first, and of the last.
    for name in ["c.000001", "c.000002"] {
        put(&device, name, &[1; 4000]);
        put(&device, &format!("{name}.gaps"), &lines(&[(4000, 600)]));
    }
    let words = ["export", &device, "c.0*", &target, "--force"];
    assert_eq!(counts(&lossy(&words, 7).0), both);
    let samples = json!({"global": {"core:datatype": "ci16_le", "core:version": "1.2.0"},
        "captures": [{"core:sample_start": 0}], "annotations": []});
    put(&device, "a.sigmf-meta", samples.to_string().as_bytes());
    let (report, _) = lossy(&["export", &device, "a", &target, "--force"], 7);
    assert_eq!(counts(&report), both);
    // No capture begins behind the last sample.
    assert_eq!(
        (
            &report["sigmf"]["captures"],
            &report["sigmf"]["lost_at_end_samples"]
        ),
        (&json!(2), &json!(100))
    );
    assert!(
        crate::support::lossy(&["export", &device, "a", &target, "--force"])
            .contains("100 samples LOST behind")
    );
    let stream = mcap(10);
    let size = stream.len() as u64;
    put(&device, "m", &stream);
    put(&device, "m.gaps", &lines(&[(size, 1200)]));
    let (report, _) = lossy(&["export", &device, "m", &target, "--force"], 7);
    assert_eq!(counts(&report), (json!(1), json!(1200)));
    assert_eq!(report["mcap"]["messages"], 10);
}
