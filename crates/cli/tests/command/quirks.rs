// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `info` reports of a drive's quirks and power states, and `--latency-limit`.

use crate::support::{json, ok, refused, run, stderr};
use serde_json::Value;

const DRIVE: &str = "model:16M,pci=144d:a822";

#[test]
fn info_shows_the_quirks_that_apply() {
    let text = ok(&["info", DRIVE]);
    assert!(text.contains("quirk ready-delay "), "{text}");
    assert!(text.contains("not read for 2.3 s"), "{text}");
    assert!(text.contains("quirk no-write-zeroes "), "{text}");
    let json = json(&["info", DRIVE, "--json"]);
    let names = json["quirks"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ready-delay", "no-write-zeroes"]);
    assert_eq!(json["power"]["states"][0]["max_power_mw"], 5000);
    assert!(!ok(&["info", "model:16M"]).contains("quirk"));
}

#[test]
fn a_drive_that_needs_wide_entries_is_refused() {
    refused(
        &["info", "model:16M,pci=106b:2005"],
        4,
        "submission entries of 128 bytes",
    );
    let bad = ["info", "model:16M,pci=106b"];
    refused(&bad, 2, "hint: two numbers of four");
}

#[test]
fn a_latency_limit_is_never_ignored() {
    ok(&[
        "read",
        "model:16M",
        "--length",
        "4K",
        "--latency-limit",
        "1ms",
    ]);
    let kernel = ["read", "ram:1M", "--length", "4K", "--latency-limit", "1ms"];
    refused(&kernel, 4, "hint: --path straightway");
    for verb in ["compare", "sweep", "explain", "trace", "profile"] {
        let words = [verb, "ram:1M", "--latency-limit", "1ms"];
        refused(&words, 4, "does not limit a drive's power states");
    }
}

/// What a run on an idling model said about its limits, whatever its verdict.
fn limits(words: &str) -> Value {
    let words: Vec<&str> = words.split(' ').collect();
    let output = run(&words);
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    value["latency_limits"].clone()
}

#[test]
fn a_limited_run_says_what_the_drive_then_has() {
    let info = json(&["info", "model:16M,idle=20ms", "--json"]);
    assert_eq!(info["power"]["worst_latency_us"], 20_000);
    for run in [
        "compare model:16M,idle=20ms --sizes 4K --rounds 5 --cell-duration 1ms --span 4M --json",
        "sustain model:16M,idle=20ms --rate 1000iops --block 4K --deadline 1s --duration 300ms --warm-up 10ms --span 4M --json",
        "periodic model:16M,idle=20ms --period 1ms --firings 10 --block 4K --priorities normal --loads none --span 4M --json",
        "sweep model:16M,idle=20ms --sizes 4K --depths 1 --rounds 5 --cell-duration 1ms --span 4M --json",
        "trace model:16M,idle=20ms --requests 10 --span 4M --json",
    ] {
        for (limit, worst_us) in [("30ms", 20_000), ("20ms", 20_000), ("19ms", 0), ("0us", 0)] {
            let found = limits(&format!("{run} --latency-limit {limit}"));
            let one = &found[0];
            assert_eq!(one["group"], "straightway", "{run}: {found}");
            assert_eq!(
                (&one["by"], &one["before"]),
                (&"driver".into(), &Value::Null)
            );
            assert_eq!(one["worst_latency_us"], worst_us, "{run}, {limit}");
        }
        assert_eq!(limits(run), Value::Array(Vec::new()));
    }
    let plain = "compare model:16M --sizes 4K --rounds 5 --cell-duration 1ms --span 4M --json";
    assert_eq!(
        limits(&format!("{plain} --latency-limit 1ms"))[0]["by"],
        "nothing"
    );
}
