// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor --report`: what it contains, what it leaves out, and that it replaces nothing.
//! `selftest`: its report, and what it refuses.

use crate::support::{Folder, json, ok, refused, run, schema_names_all_keys, stderr};

#[test]
fn a_report_is_new_redacted_and_described_by_its_schema() {
    let folder = Folder::new();
    let file = folder.path("board.json");
    let output = run(&["doctor", "--report", &file]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert!(stderr(&output).contains("wrote "), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["kind"], "doctor report");
    assert_eq!(report["with_serials"], false);
    assert!(!report["checks"].as_array().unwrap().is_empty());
    let page_bytes = report["machine"]["page bytes"].as_str().unwrap();
    assert!(page_bytes.parse::<u64>().unwrap() >= 4096);
    // Where there is no drive, the report says so.
    if report["drives"].as_array().unwrap().is_empty() {
        let unread = report["unread"].as_array().unwrap();
        assert!(unread.iter().any(|one| one["what"] == "drives"), "{text}");
    }
    let schema: serde_json::Value =
        serde_json::from_str(&ok(&["schema", "doctor-report"])).unwrap();
    for key in report.as_object().unwrap().keys() {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    schema_names_all_keys(&report["unread"], &schema.to_string());
    refused(&["doctor", "--report", &file], 9, "exists");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let missing = folder.path("missing/board.json");
    let output = run(&["doctor", "--report", &missing]);
    assert!(stderr(&output).contains("making"), "{output:?}");
    refused(&["doctor", "--with-serials"], 2, "--report");
    assert!(report["reads"].is_null());

    // Of a drive that is named, every path reads the same.
    let (disk, with_drive) = (folder.file("disk", 16 << 20), folder.path("with-drive"));
    let output = run(&["doctor", &disk, "--report", &with_drive]);
    assert!(stderr(&output).contains("wrote "), "{output:?}");
    let text = std::fs::read_to_string(&with_drive).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["reads"]["agree"], true, "{text}");
    let paths = report["reads"]["paths"].as_array().unwrap();
    let read = paths.iter().filter(|one| one["outcome"] == "read").count();
    assert!(read >= 2, "{text}");
    schema_names_all_keys(&report["reads"], &schema.to_string());
    let output = run(&["doctor", &disk, "--report", &disk]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_selftest_reports_every_step_and_writes_only_its_range() {
    let folder = Folder::new();
    let model = format!("model:8M,file={}", folder.path("model.img"));
    let report = json(&[
        "selftest",
        &model,
        "--size",
        "256K",
        "--destroy-data",
        "model.img",
        "--json",
    ]);
    schema_names_all_keys(&report, &ok(&["schema", "selftest"]));
    assert_eq!(report["schema_version"], 2);
    assert_eq!(
        (&report["ok"], &report["size_bytes"]),
        (&true.into(), &(256 << 10).into())
    );
    // Polled, by interrupts, and opened again.
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 3, "{report}");
    for check in paths
        .iter()
        .flat_map(|path| path["checks"].as_array().unwrap())
    {
        match check["name"].as_str() {
            // This model answers at once.
            Some("late commands") => {
                assert_eq!(check["outcome"], "not_possible", "{check}");
                let why = check["detail"].as_str().unwrap();
                assert!(why.starts_with("not tested: the drive answered"), "{why}");
            }
            _ => assert_eq!(check["outcome"], "ok", "{check}"),
        }
    }
    let slow = json(&[
        "selftest",
        "model:8M,latency=1ms",
        "--size",
        "16K",
        "--json",
    ]);
    for path in slow["paths"].as_array().unwrap() {
        let mut checks = path["checks"].as_array().unwrap().iter();
        let late = checks
            .find(|check| check["name"] == "late commands")
            .unwrap();
        assert_eq!(late["outcome"], "ok", "{late}");
        let told = late["detail"].as_str().unwrap();
        assert!(told.starts_with("round 1 of 4 reads: "), "{told}");
    }
    assert!(ok(&["selftest", "model:8M", "--size", "64K"]).contains("straightway, interrupt"));
    let disk = folder.path("disk.img");
    std::fs::write(&disk, vec![0x77; 1 << 20]).unwrap();
    refused(&["selftest", &disk], 2, "overwrite data");
    refused(
        &["selftest", &disk, "--destroy-data", "other"],
        2,
        "nothing was done",
    );
    let odd = [
        "selftest",
        &disk,
        "--destroy-data",
        "disk.img",
        "--offset",
        "100",
    ];
    refused(&odd, 2, "whole blocks");
    assert!(
        std::fs::read(&disk)
            .unwrap()
            .iter()
            .all(|byte| *byte == 0x77)
    );
    let words = [
        "--destroy-data",
        "disk.img",
        "--offset",
        "256K",
        "--size",
        "128K",
    ];
    let text = ok(&[&["selftest", &disk], &words[..]].concat());
    assert!(
        text.contains("not possible") && !text.contains("failed"),
        "{text}"
    );
    let bytes = std::fs::read(&disk).unwrap();
    let (before, rest) = bytes.split_at(256 << 10);
    let (inside, after) = rest.split_at(128 << 10);
    assert!(before.iter().chain(after).all(|byte| *byte == 0x77));
    assert!(inside.iter().any(|byte| *byte != 0x77));
}
