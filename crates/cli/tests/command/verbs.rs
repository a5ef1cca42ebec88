// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command as a user runs it, on files, memory and the model controller: no drive, no root.

use crate::support::{
    Folder, code, command, json, measured, ok, run, run_with_input, schema_names_all_keys, stderr,
    stdout,
};
use std::process::Stdio;

#[test]
fn a_check_says_what_it_read() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    ok(&["format", &disk, "--size", "4M"]);
    let unread = ok(&["check", &disk]);
    assert!(unread.starts_with("sound: 0 files") && unread.contains("was not read: --read-data"));
    assert!(!ok(&["check", &disk, "--read-data"]).contains("not read"));
    assert_eq!(json(&["check", &disk, "--json"])["data_read"], false);
}

#[test]
fn an_empty_file_is_no_missing_drive() {
    let folder = Folder::new();
    let empty = folder.path("empty.img");
    std::fs::write(&empty, "").unwrap();
    for words in [&["ls", &empty][..], &["format", &empty], &["stat", &empty]] {
        let output = run(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(
            said.contains("has 0 bytes, less than a block of 512")
                && said.contains(&format!("straightway format {empty} --size 1G"))
                && !said.contains("/dev/nvme"),
            "{words:?}: {said}"
        );
    }
    let first = run(&[]);
    assert_eq!(first.status.code(), Some(2));
    assert!(stderr(&first).starts_with("straightway: record, keep and measure data"));
    let help = stdout(&run(&["--help"]));
    let mount = help
        .lines()
        .find(|line| line.trim_start().starts_with("mount "));
    assert!(mount.unwrap().contains("--write"), "{mount:?}");
}

#[test]
fn what_is_written_is_read_back_on_each_kind_of_path() {
    let folder = Folder::new();
    let input = folder.file("input", 3 << 20);
    let disk = folder.file("disk", 8 << 20);
    let model = format!("model:8M,file={}", folder.path("model"));
    let file = format!("file:{disk}");
    for (device, name) in [(&file, "disk"), (&model, "model")] {
        for size in ["512", "4K", "192K", "1M", "16M"] {
            let write = [
                "write",
                device,
                "--destroy-data",
                name,
                "--input",
                &input,
                "--offset",
                "4096",
                "--block-size",
                size,
                "--flush",
            ];
            assert_eq!(stdout(&run(&write)), "");
            let read = [
                "read",
                device,
                "--offset",
                "4K",
                "--length",
                "3M",
                "--block-size",
                size,
            ];
            let found = run(&read).stdout;
            assert_eq!(found, std::fs::read(&input).unwrap(), "{device} by {size}");
        }
    }
}

#[test]
fn each_mode_of_the_driver_reads_the_same() {
    let folder = Folder::new();
    let data = folder.file("data", 1 << 20);
    let model = format!("model:1M,file={data}");
    let digest = |words: &[&str]| {
        let all = [&["--quiet", "read", &model, "--checksum"], words].concat();
        stdout(&run(&all))
    };
    let expected = digest(&[]);
    assert_eq!(expected.trim().len(), 64);
    for mode in ["poll", "interrupt", "hybrid"] {
        for depth in ["1", "64", "200"] {
            assert_eq!(
                digest(&["--mode", mode, "--queue-depth", depth, "--block-size", "8K"]),
                expected
            );
        }
    }
}

#[test]
fn standard_input_is_written_until_it_ends() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let device = format!("file:{disk}");
    let write = ["write", &device, "--destroy-data", &disk, "--json"];
    let report: serde_json::Value =
        serde_json::from_str(&stdout(&run_with_input(&write, &[9; 2048]))).unwrap();
    assert_eq!(report["length_bytes"], 2048);
    let bytes = std::fs::read(&disk).unwrap();
    assert_eq!(
        (bytes[2047], bytes[2048]),
        (9, (2048 * 7 + 2048 / 251) as u8)
    );
    let odd = run_with_input(&write, &[5; 1000]);
    assert_eq!(odd.status.code(), Some(2));
    assert!(stderr(&odd).contains("last 488 bytes"), "{}", stderr(&odd));
    assert_eq!(std::fs::read(&disk).unwrap()[512], 9);
    let long = run_with_input(&write, &vec![1; (1 << 20) + 1]);
    assert_eq!(long.status.code(), Some(1), "{}", stderr(&long));
}

#[test]
fn a_durable_write_needs_no_flush() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let input = folder.file("input", 4096);
    for device in [format!("file:{disk}"), format!("model:1M,file={disk}")] {
        let mut words = vec!["write", &device, "--destroy-data", &disk];
        words.extend(["--input", &input, "--offset", "8K", "--fua", "--flush"]);
        ok(&words);
        let written = std::fs::read(&disk).unwrap();
        assert_eq!(written[8192..][..4096], std::fs::read(&input).unwrap());
        std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    }
}

#[test]
fn nothing_is_written_without_its_name() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let input = folder.file("input", 4096);
    let before = std::fs::read(&disk).unwrap();
    let device = format!("file:{disk}");
    let model = format!("model:1M,file={disk}");
    for device in [&device, &model] {
        for name in [None, Some("other"), Some("")] {
            let mut words = vec!["write", device, "--input", &input];
            words.extend(name.iter().flat_map(|name| ["--destroy-data", name]));
            let refused = run(&words);
            assert_eq!(refused.status.code(), Some(2));
            assert!(
                stderr(&refused).contains("nothing was done"),
                "{}",
                stderr(&refused)
            );
        }
        let dry = [
            "write",
            device,
            "--destroy-data",
            "disk",
            "--input",
            &input,
            "--dry-run",
        ];
        assert_eq!(code(&dry), 0);
    }
    assert_eq!(std::fs::read(&disk).unwrap(), before);
}

#[test]
fn bad_ranges_are_refused_before_anything_is_written() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let input = folder.file("input", 4096);
    let before = std::fs::read(&disk).unwrap();
    let device = format!("file:{disk}");
    let bad = [
        ["--offset", "100"],
        ["--offset", "1M"],
        ["--offset", "1044992"],
        ["--offset", "16E"],
        ["--length", "100"],
        ["--length", "8K"],
        ["--block-size", "100"],
        ["--block-size", "0"],
        ["--queue-depth", "0"],
    ];
    for words in bad {
        let write = [
            &[
                "write",
                &device,
                "--destroy-data",
                "disk",
                "--input",
                &input,
            ],
            &words[..],
        ];
        assert_eq!(code(&write.concat()), 2, "{words:?}");
    }
    assert_eq!(std::fs::read(&disk).unwrap(), before);
}

#[test]
fn exit_codes() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let device = format!("file:{disk}");
    let cases: &[(&[&str], i32)] = &[
        (&["--help"], 0),
        (&["--version"], 0),
        (&[], 2),
        (&["polish"], 2),
        (&["read", "ram:4q", "--checksum"], 2),
        (&["read", "ram:4kb2", "--checksum"], 2),
        (&["read", "ram:1M", "--checksum", "--offset=-1"], 2),
        (&["read", "ram:1M", "--checksum", "--output", "x"], 2),
        (&["read", "ram:1M", "--json"], 2),
        (&["read", &disk, "--checksum"], 0),
        (&["read", "/nonexistent", "--checksum"], 3),
        (&["read", "file:/nonexistent", "--checksum"], 3),
        (&["read", "0000:ff:1f.7", "--checksum"], 3),
        (&["read", "model:1M", "--checksum", "--namespace", "2"], 3),
        (&["read", "ram:1M", "--checksum", "--namespace", "2"], 3),
        (&["read", "model:1M", "--checksum", "--path", "vfio"], 4),
        (&["read", &device, "--checksum", "--path", "passthrough"], 4),
        (&["read", &device, "--checksum", "--mode", "poll"], 4),
        (&["read", "tcp:10.0.0.1/x", "--checksum"], 2),
        (&["info", "tcp://127.0.0.1:1/x"], 3),
        (&["info", "ram:1M"], 4),
        (&["bind", "ram:1M"], 2),
        (&["compare", "ram:1M"], 2),
        (&["compare", "model:1M"], 2),
        (&["compare", "model:64M", "--cell-duration", "250"], 2),
        (&["compare", "model:64M", "--sizes", "4q"], 2),
        (
            &["compare", "model:64M", "--paths", "train", "--sizes", "4K"],
            2,
        ),
        (&["compare", "model:64M", "--operations", "erase"], 2),
        (&["compare", "model:64M", "--rounds", "0"], 2),
    ];
    for (words, expected) in cases {
        let output = run(words);
        assert_eq!(
            output.status.code(),
            Some(*expected),
            "{words:?}: {}",
            stderr(&output)
        );
        assert!(
            *expected == 0 || !output.stderr.is_empty(),
            "{words:?} says nothing"
        );
    }
}

#[test]
fn errors_go_to_standard_error_with_a_hint() {
    let output = run(&["read", "file:/nonexistent", "--checksum"]);
    assert!(output.stdout.is_empty());
    assert!(
        stderr(&output).contains("hint: straightway format"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn errors_are_json_where_results_are() {
    let folder = Folder::new();
    let error = |words: &[&str]| {
        let output = run(words);
        assert!(output.stdout.is_empty(), "{words:?}");
        let text = stderr(&output);
        let report: serde_json::Value = serde_json::from_str(text.lines().last().unwrap())
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"));
        schema_names_all_keys(&report, &stdout(&run(&["schema", "error"])));
        assert_eq!(report["exit"], output.status.code().unwrap(), "{text}");
        report
    };
    let missing = error(&["ls", &folder.path("none"), "--json"]);
    assert_eq!(missing["exit"], 3);
    assert!(missing["error"].as_str().unwrap().contains("none"));
    // The parser's own errors too, without any other output.
    for (words, hint) in [
        (&["read", "ram:1M", "--jsn", "--json"][..], "--json"),
        (
            &["read", "ram:4q", "--json", "--checksum", "--length", "x"],
            "--help",
        ),
        (&["list", "--json", "--nonesuch"], "--help"),
    ] {
        let report = error(words);
        assert_eq!(report["exit"], 2, "{report}");
        assert!(report["hint"].as_str().unwrap().contains(hint), "{report}");
        assert!(!report["error"].as_str().unwrap().contains("Usage:"));
    }
    let text = run(&["ls", "--", "--json"]);
    assert!(
        stderr(&text).starts_with("straightway: "),
        "{}",
        stderr(&text)
    );
}

#[test]
fn what_is_full_taken_or_missing_has_its_own_exit_code() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    let small = folder.file("small", 1000);
    let large = folder.file("large", 8 << 20);
    assert_eq!(code(&["format", &disk, "--size", "4M"]), 0);
    assert_eq!(code(&["put", &disk, &small]), 0);
    for (words, expected) in [
        (&["put", &disk, &large][..], 8),
        (&["put", &disk, &small], 9),
        (&["get", &disk, "none", "-"], 10),
        (&["put", &disk, &folder.path("none")], 10),
        (&["ls", &folder.path("none.img")], 3),
        (&["ls"], 2),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
    }
    // The hint names the user's device.
    let said = stderr(&run(&["stat", &disk, "none"]));
    assert!(
        said.contains(&format!("hint: straightway ls {disk}\n")),
        "{said}"
    );
    let page = stdout(&run(&["man"]));
    assert!(page.contains("No such file"), "{page}");
}

#[test]
fn quiet_says_nothing() {
    let output = run(&["--quiet", "read", "ram:1M", "--checksum"]);
    assert_eq!(stderr(&output), "");
    // SHA-256 of 1 MiB of zeroes.
    let expected = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn hybrid_direct_io_gathers_what_is_short_and_leaves_the_page_cache_alone() {
    let folder = Folder::new();
    let (disk, input) = (folder.file("disk", 4 << 20), folder.file("input", 3 << 20));
    let whole = std::fs::read(&input).unwrap();
    let write = [
        "write",
        &disk,
        "--destroy-data",
        &disk,
        "--input",
        &input,
        "--offset",
        "512K",
    ];
    let hybrid = ["--hybrid", "--block-size", "4K", "--json"];
    let written = json(&[&write[..], &hybrid[..]].concat());
    assert_eq!(written["path"], "file-io_uring, hybrid direct I/O");
    // Without --flush too, the end of the command writes what was gathered.
    assert_eq!(std::fs::read(&disk).unwrap()[512 << 10..][..3 << 20], whole);
    let output = folder.path("output");
    let words = [
        "read", &disk, "--offset", "512K", "--length", "3M", "--output", &output,
    ];
    json(&[&words[..], &hybrid[..]].concat());
    assert_eq!(std::fs::read(&output).unwrap(), whole);
    let refused = run(&["read", &disk, "--hybrid", "--path", "sync", "--checksum"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("page cache"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_volume_behind_hybrid_direct_io_is_as_any_other() {
    let folder = Folder::new();
    let (disk, input) = (
        folder.file("disk", 16 << 20),
        folder.file("input", 1_000_003),
    );
    let done = |words: &[&str]| {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    done(&["format", &disk, "--destroy-data", &disk, "--hybrid"]);
    done(&["put", &disk, &input, "--hybrid", "--block-size", "4K"]);
    done(&["check", &disk]);
    let output = folder.path("output");
    done(&[
        "get",
        &disk,
        "input",
        &output,
        "--hybrid",
        "--block-size",
        "4K",
    ]);
    assert_eq!(
        std::fs::read(&output).unwrap(),
        std::fs::read(&input).unwrap()
    );
}

#[test]
fn a_volume_with_short_reads_kept_is_as_any_other() {
    let folder = Folder::new();
    let disk = folder.file("disk", 16 << 20);
    let input = folder.file("input", 1_000_003);
    let output = folder.path("output");
    let cached = |words: &[&str]| {
        let done = run(&[words, &["--cache", "256K"]].concat());
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    };
    cached(&["format", &disk, "--destroy-data", &disk]);
    cached(&["put", &disk, &input, "--block-size", "4K"]);
    cached(&["mv", &disk, "input", "other"]);
    assert_eq!(run(&["check", &disk]).status.code(), Some(0));
    let short = ["--hybrid", "--block-size", "4K"];
    cached(&[&["get", &disk, "other", &output], &short[..]].concat());
    assert_eq!(
        std::fs::read(&output).unwrap(),
        std::fs::read(&input).unwrap()
    );
    let small = run(&["ls", &disk, "--cache", "8K"]);
    assert_eq!(small.status.code(), Some(2));
    assert!(stderr(&small).contains("32K"), "{}", stderr(&small));
}

#[test]
fn a_closed_pipe_is_quiet() {
    let mut child = command(&["--quiet", "read", "ram:64M"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(141), String::new())
    );
}

#[test]
fn reports_are_json_with_a_published_schema() {
    let reports: &[(&str, &[&str])] = &[
        ("info", &["info", "model:16M", "--json"]),
        ("list", &["list", "--json"]),
        ("read", &["read", "model:1M", "--checksum", "--json"]),
        ("write", &["write", "ram:1M", "--json"]),
    ];
    for (verb, words) in reports {
        let report = json(words);
        assert_eq!(report["schema_version"], 2, "{verb}");
        schema_names_all_keys(&report, &stdout(&run(&["schema", verb])));
    }
    let doctor = run(&["doctor", "--json"]);
    let diagnosis: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let expected = if diagnosis["ok"] == true { 0 } else { 1 };
    assert_eq!(doctor.status.code(), Some(expected));
    // On a machine without a drive, the hint names what works without one.
    assert_eq!(stderr(&doctor).contains("plain files"), expected == 1);
}

#[test]
fn a_model_tells_everything() {
    let info = json(&["info", "model:16M", "--json"]);
    assert_eq!(info["asked_by"], "model");
    assert_eq!(info["namespaces"][0]["size_bytes"], 16 << 20);
    assert_eq!(info["limits"]["max_queue_entries"], 4096);
    assert!(stdout(&run(&["info", "model:16M"])).contains("entries in a queue (MQES)"));
}

#[test]
fn comparing_a_model_gives_a_table_a_report_and_json() {
    let folder = Folder::new();
    let output = folder.path("out");
    let words = [
        "compare",
        "model:64M",
        "--sizes",
        "4K,64K",
        "--rounds",
        "2",
        "--cell-duration",
        "5ms",
        "--patterns",
        "random",
        "--output",
        &output,
    ];
    let table = measured(&run(&words));
    assert!(
        table.contains("Random read, 4 KiB") && table.contains("straightway-poll"),
        "{table}"
    );
    for file in ["compare.json", "compare.schema.json", "report.html"] {
        assert!(
            std::fs::metadata(folder.0.join("out").join(file))
                .unwrap()
                .len()
                > 1000
        );
    }
    let text = std::fs::read_to_string(folder.0.join("out/compare.json")).unwrap();
    let comparison: measure::Comparison = serde_json::from_str(&text).unwrap();
    let info = &comparison.run;
    assert!(info.complete);
    assert_eq!(info.valid, info.invalid_reasons.is_empty());
    for result in &comparison.results {
        assert_eq!(
            result.device_commands,
            Some(result.operations),
            "commands are counted"
        );
    }
    let alone = measured(&run(&[&words[..8], &["--json", "--quiet"]].concat()));
    let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(alone["schema_version"], 2);
}

#[test]
fn the_build_is_shown_with_its_parts_and_formats() {
    let build = json(&["version", "--json"]);
    assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(build["volume_formats"], serde_json::json!(["1.0", "1.1"]));
    let parts = build["features"].as_array().unwrap();
    assert!(parts.contains(&"fuse".into()), "{build}");
    schema_names_all_keys(&build, &stdout(&run(&["schema", "version"])));
    let told = stdout(&run(&["version"]));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    assert!(lines[0].ends_with(env!("CARGO_PKG_VERSION")), "{told}");
}

#[test]
fn completions_and_manual_pages_come_from_the_same_source() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&run(&["completions", shell])).contains("destroy-data"),
            "{shell}"
        );
    }
    assert!(stdout(&run(&["man"])).contains(".TH straightway"));
    let folder = Folder::new();
    assert_eq!(code(&["man", &folder.path("man")]), 0);
    let page = std::fs::read_to_string(folder.0.join("man/straightway-write.1")).unwrap();
    assert!(page.contains("destroy\\-data"), "{page}");
    let main = stdout(&run(&["man"]));
    assert!(
        main.contains("straightway\\-record") && !main.contains("straightway\\-help"),
        "{main}"
    );
    for entry in std::fs::read_dir(folder.path("man")).unwrap() {
        let file = entry.unwrap().path();
        let page = std::fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let sections = match name {
            "straightway" => &["SYNOPSIS", "COMMANDS", "EXIT"][..],
            _ => &["SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT", "SEE"],
        };
        for section in sections {
            assert!(
                page.contains(&format!(".SH {section}")),
                "{name}: {section}"
            );
        }
        assert!(!page.contains(".SH EXTRA"), "{name}");
        // Every page that is referred to is written.
        for other in page.split("\\fBstraightway\\-").skip(1) {
            let verb = other.split("\\fR").next().unwrap();
            let path = folder.path(&format!("man/straightway-{verb}.1"));
            assert!(std::path::Path::new(&path).exists(), "{name}: {verb}");
        }
    }
    let record = std::fs::read_to_string(folder.path("man/straightway-record.1")).unwrap();
    assert!(
        record.contains("[\\fB\\-\\-rate\\fR \\fIRATE\\fR]"),
        "{record}"
    );
    assert!(record.contains("\n\\fIDEVICE\\fR\n"), "{record}");
}

/// Help as on a terminal with this number of columns.
fn help(verb: &str, columns: usize) -> String {
    let output = command(&[verb, "--help"])
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    stdout(&output)
}

#[test]
fn help_is_wrapped_once_at_any_width() {
    for verb in [
        "record", "play", "workload", "check", "format", "put", "get",
    ] {
        for columns in [60, 80, 100] {
            let text = help(verb, columns);
            let (_, after) = text.rsplit_once("Print help").unwrap();
            let lines: Vec<&str> = after.lines().collect();
            for pair in lines.windows(2) {
                let (line, next) = (pair[0], pair[1]);
                let Some(word) = next.split(' ').next().filter(|word| !word.is_empty()) else {
                    continue;
                };
                assert!(line.chars().count() <= columns, "{verb}: {line}");
                assert!(
                    line.is_empty()
                        || line.starts_with(' ')
                        || line.len() + 1 + word.len() > columns,
                    "{verb} at {columns}: `{line}` ends early before `{word}`"
                );
            }
        }
    }
    let speed = help("speed", 100);
    assert!(
        !speed.contains("[default: read] [default: read]"),
        "{speed}"
    );
    assert!(!help("format", 100).contains("[default: \"\"]"));
    let read = help("read", 100);
    let words: Vec<&str> = read.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("pread and pwrite for a plain file"),
        "{read}"
    );
}

#[test]
fn h_after_l_means_sizes_for_people() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    let data = folder.file("data", 3 << 19);
    assert_eq!(code(&["format", &disk, "--size", "8M"]), 0);
    assert_eq!(code(&["put", &disk, &data]), 0);
    let listing = stdout(&run(&["ls", "-lh", &disk]));
    assert!(listing.trim_start().starts_with("1.50 MiB "), "{listing}");
    assert_eq!(listing.lines().count(), 1, "{listing}");
    assert!(
        stdout(&run(&["ls", "-l", &disk]))
            .trim_start()
            .starts_with("1572864 ")
    );
    assert_eq!(stdout(&run(&["ls", "-h", &disk])), "data\n");
    assert_eq!(code(&["ls", "-h"]), 2);
    assert!(stdout(&run(&["ls", "--help"])).contains("--human-readable"));
}

#[test]
fn a_negative_number_is_told_what_a_size_is() {
    for words in [
        &["format", "x.img", "--size", "-1"][..],
        &["read", "ram:1M", "--checksum", "--offset", "-1"],
        &["record", "x.img", "a", "--rate", "-5"],
    ] {
        let output = run(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("starts with digits") && !said.contains("-- -"),
            "{said}"
        );
    }
}

#[test]
fn a_file_with_holes_is_not_measured() {
    let folder = Folder::new();
    let sparse = folder.path("sparse.img");
    let file = std::fs::File::create(&sparse).unwrap();
    file.set_len(8 << 20).unwrap();
    for verb in ["compare", "sweep"] {
        let output = run(&[
            verb,
            &sparse,
            "--sizes",
            "4K",
            "--rounds",
            "1",
            "--cell-duration",
            "5ms",
        ]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("has a hole at byte 0") && said.contains("--sparse=never"),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
    // The part that is not measured may have holes.
    let part = folder.file("part.img", 1 << 20);
    let file = std::fs::OpenOptions::new().write(true).open(&part).unwrap();
    file.set_len(8 << 20).unwrap();
    let words = [
        "compare", &part, "--span", "1M", "--sizes", "4K", "--rounds", "1",
    ];
    measured(&run(&[&words[..], &["--cell-duration", "5ms"]].concat()));
}

#[test]
fn a_path_with_a_colon_or_in_shared_memory_is_a_file() {
    let folder = Folder::new();
    let mut all = vec![folder.path("rec-12:30.img")];
    if std::path::Path::new("/dev/shm").is_dir() {
        all.push(format!("/dev/shm/straightway-{}.img", std::process::id()))
    } else {
        println!("SKIPPED in part: this machine has no /dev/shm")
    }
    for path in &all {
        let made = run(&["format", path, "--size", "1M"]);
        let listed = run(&["ls", path]);
        let _ = std::fs::remove_file(path);
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    }
}

#[test]
fn nothing_is_said_twice() {
    let folder = Folder::new();
    let disk = folder.file("disk", 1 << 20);
    let read = stderr(&run(&["read", &disk, "--checksum"]));
    assert!(!read.contains("is the file"), "{read}");
    assert_eq!(stderr(&run(&["info", "model:1M"])), "");
    let small = folder.file("small", 3);
    let image = folder.path("image");
    assert_eq!(code(&["format", &image, "--size", "1M"]), 0);
    let put = stderr(&run(&["put", &image, &small]));
    assert!(put.contains("`small`: 3 B in"), "{put}");
}

#[test]
fn an_input_that_ends_within_a_block_is_padded_when_asked() {
    let folder = Folder::new();
    let disk = folder.file("disk", 64 << 10);
    let input = folder.file("input", 1000);
    let before = std::fs::read(&disk).unwrap();
    let write = |words: &[&str]| {
        let all = ["write", &disk, "--destroy-data", "disk"];
        run(&[&all[..], words].concat())
    };
    let refused = write(&["--input", &input]);
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("has 1000 bytes") && said.contains("hint: --pad"),
        "{said}"
    );
    assert!(!said.contains("--length"), "{said}");
    assert_eq!(std::fs::read(&disk).unwrap(), before);
    assert_eq!(stdout(&write(&["--input", &input, "--pad"])), "");
    let padded = [&std::fs::read(&input).unwrap()[..], &[0; 24]].concat();
    assert_eq!(std::fs::read(&disk).unwrap()[..1024], padded);
    assert_eq!(std::fs::read(&disk).unwrap()[1024..], before[1024..]);
    // Standard input too, whose length is not known in advance.
    let piped = [
        "write",
        &disk,
        "--destroy-data",
        "disk",
        "--pad",
        "--offset",
        "4K",
    ];
    let output = run_with_input(&piped, &[7; 3]);
    assert!(output.status.success(), "{}", stderr(&output));
    let after = std::fs::read(&disk).unwrap();
    assert_eq!(
        (&after[4096..4099], &after[4099..4608]),
        (&[7; 3][..], &[0; 509][..])
    );
    assert_eq!(after[4608..], before[4608..]);
    let past = stderr(&run(&["read", &disk, "--offset", "65M", "--checksum"]));
    assert!(
        past.contains("--offset is 68157440, past the end"),
        "{past}"
    );
}
