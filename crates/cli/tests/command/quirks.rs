//! What `info` reports of a drive's quirks and power states, and `--latency-limit`.

use crate::support::{json, ok, refused};

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
}
