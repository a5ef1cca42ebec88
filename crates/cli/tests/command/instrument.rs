// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs that measure, as a user runs them: on memory, a file and the model controller.

use crate::support::{
    Folder, command, measured, refused, run, schema_names_all_keys, stderr, stdout, volume,
};
use serde_json::Value;
use std::process::{Output, Stdio};

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

fn said(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn every_run_is_described_by_its_published_schema_and_leaves_a_report() {
    let runs = [
        (
            "sustain",
            "ram:32M --rate 400iops --block 4K --deadline 500ms --duration 1s --span 16M --miss-rate 0.01",
        ),
        (
            "sweep",
            "model:32M --sizes 512,4K --depths 1,4 --rounds 5 --cell-duration 5ms --span 8M",
        ),
        ("trace", "model:32M --requests 50 --span 8M --timer"),
        (
            "periodic",
            "ram:32M --period 5ms --firings 10 --block 64K --priorities normal --loads none,medium --span 8M",
        ),
        (
            "explain",
            "model:32M --rounds 5 --cell-duration 5ms --span 8M",
        ),
        (
            "speed",
            "ram:32M --one --rounds 5 --cell-duration 5ms --span 8M",
        ),
    ];
    for (verb, text) in runs {
        let folder = Folder::new();
        let mut all = vec![verb];
        all.extend(words(text));
        let place = folder.path("out");
        all.extend(["--json", "--output", &place]);
        let output = run(&all);
        // There is a result, whatever the effect of the machine's load on the verdict.
        assert!(
            matches!(output.status.code(), Some(0 | 1 | 5)),
            "{verb}: {}",
            stderr(&output)
        );
        let value = said(&output);
        assert_eq!(
            (&value["schema_version"], &value["kind"]),
            (&2.into(), &verb.into())
        );
        let schema = stdout(&run(&["schema", verb]));
        schema_names_all_keys(&value, &schema);
        assert_eq!(
            std::fs::read_to_string(folder.path(&format!("out/{verb}.schema.json"))).unwrap(),
            schema
        );
        let saved = std::fs::read_to_string(folder.path(&format!("out/{verb}.json"))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&saved).unwrap(), value);
        let page = std::fs::read_to_string(folder.path("out/report.html")).unwrap();
        assert!(
            page.contains("</html>") && !page.contains("<script") && !page.contains("NaN"),
            "{verb}"
        );
    }
}

#[test]
fn a_rate_that_cannot_be_met_is_a_no_and_a_short_run_is_not_enough() {
    let no = run(&words(
        "sustain ram:32M --rate 1000iops --block 4K --deadline 1ns --duration 1s --span 8M",
    ));
    let told = String::from_utf8_lossy(&no.stdout);
    // A busy machine may only make the verdict inconclusive.
    if no.status.code() == Some(5) {
        assert!(measured(&no).starts_with("CANNOT TELL"), "{told}");
    } else {
        assert_eq!(no.status.code(), Some(1), "{}", stderr(&no));
        assert!(told.starts_with("DOES NOT"));
    }
    let short = run(&words(
        "sustain ram:32M --rate 100iops --block 4K --deadline 10s --duration 500ms --span 8M --warm-up 10ms",
    ));
    assert_eq!(short.status.code(), Some(5), "{}", stderr(&short));
    // 3,000 arrivals without a miss at 100 per second; the clock determines the last digit.
    let told = String::from_utf8_lossy(&short.stdout);
    if told.starts_with("CANNOT TELL") {
        measured(&short);
        return;
    }
    assert!(
        told.contains("A run of 29.9 s would decide")
            || told.contains("A run of 30.0 s would decide"),
        "{told}"
    );
}

#[test]
fn bad_input_has_its_exit_code_and_says_a_hint() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let newer = folder.path("newer.json");
    std::fs::write(&newer, "{\"schema_version\": 99}").unwrap();
    let other = folder.path("other.toml");
    std::fs::write(&other, "name = 3").unwrap();
    let read_only =
        format!("sustain {disk} --rate 10iops --block 4K --deadline 1s --operation write");
    let not_svg = format!("trace ram:32M --figure {other}");
    let no_volume = format!("workload oltp {disk}");
    let unknown_set = format!("workload {other} {}", folder.0.display());
    let cases = [
        (
            "sustain ram:32M --rate 4q --block 4K --deadline 1s",
            2,
            "unknown unit",
        ),
        (
            "sustain ram:32M --rate 1M --block 4K --deadline 5",
            2,
            "unit",
        ),
        (
            "sustain ram:32M --rate 1M --block 0 --deadline 5ms",
            2,
            "more than 0",
        ),
        (
            "sustain ram:1M --rate 1M --block 4M --deadline 5ms",
            2,
            "do not fit",
        ),
        (
            "sustain ram:32M --rate 1M --block 4K --deadline 5ms --path ext4-direct",
            4,
            "hint",
        ),
        (
            "sustain ram:32M --rate 1M --block 4K --deadline 5ms --path nonesuch",
            2,
            "file-direct",
        ),
        (
            "sustain /nowhere/at/all --rate 1M --block 4K --deadline 5ms",
            3,
            "nowhere",
        ),
        (&read_only, 2, "--destroy-data"),
        ("trace ram:32M --requests 5", 2, "10.."),
        ("explain /nowhere.json", 10, "nowhere"),
        (&format!("explain {newer}"), 2, "schema version 99"),
        ("import /nowhere.json", 10, "nowhere"),
        (&format!("import {newer}"), 2, "fio version"),
        (&format!("speed {newer}"), 2, "schema version 99"),
        ("speed ram:32M other.json", 2, "only runs can be joined"),
        ("profile ram:32M --duration 0s", 2, "more than 0"),
        (&not_svg, 2, "not an SVG picture"),
        ("workload nonesuch /tmp", 2, "webserver"),
        (&unknown_set, 2, "other.toml"),
        ("workload oltp /nowhere/at/all", 3, "nowhere"),
        (&no_volume, 3, "no Straightway volume"),
    ];
    for (text, code, word) in cases {
        let output = run(&words(text));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{text}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(word),
            "{text}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{text}");
    }
}

/// Number of voluntary context switches of a process's threads.
fn sleeps(process: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")));
    let counts = statuses.map(|status| {
        let status = status.unwrap_or_default();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    });
    counts.sum()
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_marks_it() {
    let text = "sustain ram:32M --rate 200iops --block 4K --deadline 1s --duration 600s --span 8M --warm-up 10ms --json";
    let mut child = command(&words(text))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It sleeps before each arrival: the run itself has begun by then.
    while sleeps(child.id()) < 100 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let value = said(&output);
    assert_eq!(value["complete"], false);
    assert!(value["arrivals"].as_u64().unwrap() < 120_000);
}

#[test]
fn fio_s_results_become_a_table_and_a_report() {
    let folder = Folder::new();
    let file = folder.path("fio.json");
    let text = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0, "job options": {"rw": "randread",
        "bs": "4k", "iodepth": "4"}, "read": {"io_bytes": 41943040, "runtime": 2000, "total_ios": 10240}}]}"#;
    std::fs::write(&file, text).unwrap();
    let place = folder.path("out");
    let table = stdout(&run(&["import", &file, "--output", &place]));
    assert!(
        table.contains("Random read, 4 KiB") && table.contains("20.0"),
        "{table}"
    );
    for name in ["fio.json", "fio.schema.json", "fio.csv", "report.html"] {
        assert!(
            std::path::Path::new(&folder.path(&format!("out/{name}"))).exists(),
            "{name}"
        );
    }
}

#[test]
fn a_comparison_that_was_saved_can_be_explained() {
    let folder = Folder::new();
    let place = folder.path("out");
    let mut all = words(
        "sweep model:32M --sizes 4K,16K --patterns random --depths 1,8 --rounds 5 --cell-duration 10ms --span 8M --output",
    );
    all.push(&place);
    let swept = run(&all);
    assert!(
        matches!(swept.status.code(), Some(0 | 5)),
        "{}",
        stderr(&swept)
    );
    let file = folder.path("out/sweep.json");
    let output = run(&["explain", &file, "--path", "straightway-poll", "--json"]);
    assert!(
        matches!(output.status.code(), Some(0 | 5)),
        "{}",
        stderr(&output)
    );
    let value = said(&output);
    let one = &value["explanations"][0];
    assert_eq!(one["path"], "straightway-poll");
    assert!(one["trials"].as_array().unwrap().len() >= 2, "{one}");
}

#[test]
fn runs_at_two_speeds_are_joined_and_one_alone_tells_nothing() {
    let folder = Folder::new();
    let place = folder.path("one");
    let mut all = words("speed ram:32M --one --rounds 5 --cell-duration 5ms --span 8M --output");
    all.push(&place);
    let one = run(&all);
    measured(&one);
    let file = folder.path("one/speed.json");
    let mut slower: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    // Joining is arithmetic on the file: the run is marked as valid, however busy this machine is.
    slower["valid"] = true.into();
    slower["invalid_reasons"] = Value::Array(Vec::new());
    std::fs::write(&file, slower.to_string()).unwrap();
    let alone = run(&["speed", &file, "--json"]);
    assert_eq!(alone.status.code(), Some(5), "{}", stderr(&alone));
    assert!(stderr(&alone).contains("one speed"), "{}", stderr(&alone));
    // The same run with all times doubled is a processor half as fast that does nothing but work.
    let double = |value: &mut Value| *value = (value.as_u64().unwrap() * 2).into();
    for point in slower["points"].as_array_mut().unwrap() {
        double(&mut point["loop_ns"]);
        for result in point["results"].as_array_mut().unwrap() {
            for sample in result["samples"].as_array_mut().unwrap() {
                double(&mut sample["elapsed_ns"]);
            }
        }
    }
    let other = folder.path("other.json");
    std::fs::write(&other, slower.to_string()).unwrap();
    let joined = run(&["speed", &file, &other, "--json"]);
    assert_eq!(joined.status.code(), Some(0), "{}", stderr(&joined));
    let value = said(&joined);
    let scaling = &value["scalings"][0];
    assert!(
        (scaling["work_share"].as_f64().unwrap() - 1.0).abs() < 1e-6,
        "{scaling}"
    );
    assert!(scaling["misfit"].as_f64().unwrap() < 1e-6, "{scaling}");
}

#[test]
fn a_profile_names_functions_or_says_why_it_cannot() {
    let output = run(&words("profile ram:32M --duration 1s --span 8M --json"));
    match output.status.code() {
        Some(3 | 4) => {
            assert!(stderr(&output).contains("perf"), "{}", stderr(&output));
            println!("SKIPPED: {}", stderr(&output).trim());
        }
        Some(0 | 5) => {
            let value = said(&output);
            schema_names_all_keys(&value, &stdout(&run(&["schema", "profile"])));
            let kinds = value["kinds"].as_array().unwrap();
            let sum: f64 = kinds.iter().filter_map(|kind| kind[1].as_f64()).sum();
            let busy = value["busy_samples"].as_u64().unwrap();
            assert!(busy == 0 || (sum - 1.0).abs() < 1e-6, "{value}");
        }
        code => panic!("{code:?}: {}", stderr(&output)),
    }
}

#[test]
fn every_workload_runs_on_a_volume_and_leaves_it_as_it_was() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    let kept = folder.file("kept", 9000);
    let done = run(&words(&format!("format {disk} --size 1G --slots 4096")));
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    run(&words(&format!("put {disk} {kept}")));
    let before = stdout(&run(&words(&format!("ls {disk} --json"))));
    let names = [
        "webserver",
        "fileserver",
        "varmail",
        "videoserver",
        "netsfs",
        "webproxy",
        "oltp",
    ];
    for name in names {
        // While other tests sync, one round that waits for the disk may take longer than a second.
        let operations_per_s = ["200ms", "8s", "64s"].into_iter().find_map(|duration| {
            let worked = run(&words(&format!(
                "workload {name} {disk} --dataset 8M --runs 1 --duration {duration} --json"
            )));
            measured(&worked);
            let worked = said(&worked);
            assert_eq!(worked["first_error"], Value::Null, "{name}");
            assert!(
                worked["dataset_bytes"].as_u64().unwrap() > 1 << 20,
                "{name}"
            );
            worked["operations_per_s"]
                .as_f64()
                .filter(|rate| *rate > 0.0)
        });
        assert!(operations_per_s.is_some(), "{name}");
    }
    assert_eq!(stdout(&run(&words(&format!("ls {disk} --json")))), before);
    let checked = run(&words(&format!("check {disk}")));
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

#[test]
fn a_volume_that_is_too_small_for_a_workload_says_so_and_is_left_as_it_was() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    run(&words(&format!("format {disk} --size 16M --slots 64")));
    let many = run(&words(&format!(
        "workload varmail {disk} --dataset 8M --duration 200ms"
    )));
    // The table grows; whether the measurement is valid is another matter.
    assert!(!stderr(&many).contains("--slots"), "{}", stderr(&many));
    let large = run(&words(&format!(
        "workload oltp {disk} --dataset 64M --duration 200ms"
    )));
    assert_ne!(large.status.code(), Some(0));
    let names = stdout(&run(&words(&format!("ls {disk}"))));
    assert!(!names.contains("workload."), "{names}");
}

#[test]
fn threads_multiply_what_is_in_flight_and_keep_to_their_parts() {
    let folder = Folder::new();
    let disk = folder.file("disk", 8 << 20);
    let text = format!(
        "sweep {disk} --paths file-direct,file-buffered,ram --sizes 4K --patterns random --threads 1,3 --rounds 5 \
         --cell-duration 20ms --span 8M --json"
    );
    let swept = run(&words(&text));
    measured(&swept);
    let swept = said(&swept);
    let comparisons = swept["comparisons"].as_array().unwrap();
    let threads: Vec<u64> = comparisons
        .iter()
        .map(|one| one["threads"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [1, 3]);
    for one in comparisons {
        let results = one["results"].as_array().unwrap();
        assert!(
            results.iter().any(|result| result["path"] == "file-direct"),
            "{one}"
        );
        assert!(
            results
                .iter()
                .all(|result| result["errors"] == 0 && result["threads"] == one["threads"])
        );
    }
    // Three threads need three blocks.
    let short = run(&words(
        "sweep ram:1M --paths ram --sizes 512K --threads 3 --rounds 5 --cell-duration 5ms --span 1M",
    ));
    assert_ne!(short.status.code(), Some(0));
    assert!(stderr(&short).contains("threads"), "{}", stderr(&short));
}

/// A sweep that names no sizes takes those that fit, for each of its threads, and says what it
/// leaves out.
#[test]
fn a_small_drive_is_swept_in_the_sizes_that_fit() {
    let largest = |what: &str| -> (u64, String) {
        let output = run(&words(&format!(
            "sweep {what} --operations read --patterns random --rounds 1 --cell-duration 1ms --span 2M --json"
        )));
        measured(&output);
        let swept = said(&output);
        let comparisons = swept["comparisons"].as_array().unwrap();
        let results = comparisons
            .iter()
            .flat_map(|one| one["results"].as_array().unwrap());
        let sizes = results.map(|one| one["block_size_bytes"].as_u64().unwrap());
        (sizes.max().unwrap(), stderr(&output))
    };
    let (bytes, said) = largest("ram:2M --paths ram");
    assert_eq!(bytes, 1 << 20);
    assert!(
        said.contains("without operations of 16 MiB and more"),
        "{said}"
    );
    let four = largest("model:16M --paths straightway-poll --threads 4");
    assert_eq!(four.0, 512 << 10);
    // Sizes that were named are not left out.
    let named = run(&words(
        "sweep ram:2M --paths ram --sizes 4K,16M --rounds 1 --cell-duration 1ms --span 2M",
    ));
    assert_eq!(named.status.code(), Some(2));
    assert!(stderr(&named).contains("do not fit"), "{}", stderr(&named));
}

#[test]
fn each_thread_has_a_queue_on_the_straight_path() {
    let output = run(&words(
        "compare model:64M --paths straightway-poll,straightway --sizes 4K --patterns random --threads 3 --queue-depth 4 --rounds 5 \
         --cell-duration 5ms --span 8M --json",
    ));
    assert!(
        matches!(output.status.code(), Some(0 | 5)),
        "{}",
        stderr(&output)
    );
    let value = said(&output);
    let results = value["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{value}");
    assert!(value["missing"].as_array().unwrap().is_empty(), "{value}");
    for result in results {
        assert_eq!(
            (&result["errors"], &result["threads"]),
            (&0.into(), &3.into())
        );
    }
}

/// A dump of one lane: its page, and three events.
fn dump() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"SWEV\x01\0\0\0");
    bytes[8] = 3;
    bytes[16] = 5;
    bytes[40..48].copy_from_slice(&1000_u64.to_le_bytes());
    bytes[48..56].copy_from_slice(&2000_u64.to_le_bytes());
    bytes[56..60].copy_from_slice(b"task");
    for (at, tag, source) in [(100_u64, 7_u32, 2_u32), (300, 0x10, 2), (200, 1, 3)] {
        bytes.extend(at.to_le_bytes());
        bytes.extend(tag.to_le_bytes());
        bytes.extend(source.to_le_bytes());
    }
    bytes
}

#[test]
fn a_dump_is_shown_as_a_timeline() {
    let folder = Folder::new();
    let (file, names) = (folder.path("dump"), folder.path("names"));
    std::fs::write(&file, dump()).unwrap();
    std::fs::write(&names, "# mine\n16 frame begins\n").unwrap();
    let output = run(&["timeline", &file, "--names", &names, "--json"]);
    let value = said(&output);
    schema_names_all_keys(&value, &stdout(&run(&["schema", "timeline"])));
    assert_eq!(value["lanes"][0]["lost"], 5);
    let shown: Vec<(u64, &str)> = value["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            (
                event["at_ns"].as_u64().unwrap(),
                event["name"].as_str().unwrap(),
            )
        })
        .collect();
    // A tick is 2 ns.
    assert_eq!(shown, [(0, "0x7"), (200, "line 1"), (400, "frame begins")]);
    let text = stdout(&run(&[
        "timeline", &file, "--names", &names, "--events", "1",
    ]));
    assert!(text.contains("task (0): 3 events, 5 lost"), "{text}");
    assert!(text.contains("2 more events: --events"), "{text}");
    std::fs::write(&names, "frame\n").unwrap();
    let bad = run(&["timeline", &file, "--names", &names]);
    assert!(
        stderr(&bad).contains("names:1: not a tag and its name"),
        "{}",
        stderr(&bad)
    );
    std::fs::write(&file, &dump()[..4100]).unwrap();
    let short = run(&["timeline", &file]);
    assert_eq!(short.status.code(), Some(2), "{}", stderr(&short));
    assert!(stderr(&short).contains("truncated"), "{}", stderr(&short));
    let missing = run(&words(
        "trace model:32M --requests 10 --timer=/nonexistent/timer",
    ));
    assert!(
        stderr(&missing).contains("opening the profiling timer"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn a_volume_whose_name_ends_as_a_run_s_is_a_device() {
    let folder = Folder::new();
    let disk = volume(&folder, "run.json", &[]);
    for verb in ["explain", "speed"] {
        let said = stderr(&run(&[verb, &disk, "--json"]));
        assert!(
            !said.contains("UTF-8") && !said.contains("reading"),
            "{said}"
        );
    }
    let text = folder.path("other.json");
    std::fs::write(&text, "{}").unwrap();
    refused(&["explain", &text], 2, "schema_version");
}

#[test]
fn what_is_measured_is_what_was_asked_for() {
    let cases = [
        (
            "explain model:32M --rounds 5 --cell-duration 5ms --span 8M --pattern sequential",
            "\"pattern\": \"sequential\"",
            "\"pattern\": \"random\"",
        ),
        (
            "periodic ram:32M --period 5ms --firings 10 --block 64K --priorities normal --loads none --span 8M --modes sync",
            "\"synchronous\": true",
            "\"synchronous\": false",
        ),
        (
            "trace model:32M --requests 10 --span 8M --timer --operation write --durable",
            "\"durable\": true",
            "\"durable\": false",
        ),
    ];
    for (text, wanted, other) in cases {
        let mut all = words(text);
        all.push("--json");
        let output = run(&all);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The command line is part of a run.
        let said = text.contains(wanted) && !text.contains(other);
        assert!(said, "{all:?}: {text}{}", stderr(&output));
    }
    let nowhere = "compare model:64M --paths coprocessor --coprocessor /nowhere/window --sizes 4K \
                   --span 8M --rounds 5 --cell-duration 5ms";
    let output = run(&words(nowhere));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("/nowhere/window"));
}
