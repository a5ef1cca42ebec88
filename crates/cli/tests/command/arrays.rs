// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arrays of plain files.

use crate::support::{Folder, get, json, noise, ok, refused, run, schema_names_all_keys, stderr};

/// Files of 8 MiB.
fn files(folder: &Folder, names: &[&str]) -> Vec<String> {
    let make = |name: &&str| {
        let path = folder.path(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        path
    };
    names.iter().map(make).collect()
}

#[test]
fn stripes_hold_a_volume_whose_blocks_are_where_the_layout_says() {
    let folder = Folder::new();
    let files = files(&folder, &["a", "b", "c"]);
    let [a, b, c] = [&files[0], &files[1], &files[2]];
    let array = format!("stripe:4K,{a},{b},{c}");
    let input = folder.path("input");
    let data = noise(3, 2_000_001);
    std::fs::write(&input, &data).unwrap();
    refused(&["put", &array, &input], 2, "has no label");
    refused(&["array", &array, "--create"], 2, "nothing was done");
    refused(
        &["array", &array, "--create", "--destroy-data", "a,b"],
        2,
        "nothing was done",
    );
    refused(
        &["array", &array, "--create", "--destroy-data", "a,c,b"],
        2,
        "nothing was done",
    );
    ok(&["array", &array, "--create", "--destroy-data", "a,b,c"]);
    ok(&["format", &array, "--checksums"]);
    ok(&["put", &array, &input, "x"]);
    assert!(get(&array, "x", &[]) == data);
    ok(&["check", &array, "--read-data"]);
    let report = json(&["array", &array, "--json"]);
    assert_eq!(report["members"][2]["state"], "in use");
    schema_names_all_keys(&report, &ok(&["schema", "array"]));
    // The whole, put together by hand, is a volume too.
    let parts: Vec<Vec<u8>> = files
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    let mut whole = Vec::new();
    for row in 0..((8 << 20) - 8192) / 4096 {
        parts
            .iter()
            .for_each(|part| whole.extend(&part[row * 4096..][..4096]));
    }
    let joined = folder.path("joined");
    std::fs::write(&joined, whole).unwrap();
    assert!(get(&joined, "x", &[]) == data);
    let bare = format!("stripe:4K,bare,{a},{b},{c}");
    assert!(get(&bare, "x", &[]) == data);

    let state = || {
        files
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect::<Vec<_>>()
    };
    let before = state();
    for (array, says) in [
        (
            format!("stripe:4K,{b},{a},{c}"),
            "swapped: member 1 is member 2",
        ),
        (format!("stripe:8K,{a},{b},{c}"), "the members are striped"),
        (format!("stripe:4K,{a},{b}"), "has 3 members, and 2"),
        (format!("mirror:{a},{b},{c}"), "the members are striped"),
        (format!("stripe:3K,{a},{b}"), "a power of two"),
        (format!("stripe:4K,{a}"), "1 devices"),
        (format!("stripe:4K,{a},{a}"), "named twice"),
        (format!("stripe:4K,{a},mirror:{b}"), ""),
    ] {
        refused(&["put", &array, &input, "y"], 2, says);
    }
    refused(
        &["put", &format!("stripe:4K,{a},/nowhere"), &input, "y"],
        3,
        "/nowhere",
    );
    refused(
        &["put", &format!("stripe:4K,{a},model:8M"), &input, "y"],
        4,
        "its memory is its own",
    );
    refused(&["put", &array, a, "y"], 2, "");
    refused(
        &["read", &array, "--length", "4K", "--output", b, "--force"],
        2,
        "is the source itself",
    );
    assert!(state() == before);
}

#[test]
fn a_mirror_goes_on_without_a_member_and_rebuilds_it() {
    let folder = Folder::new();
    let files = files(&folder, &["a", "b"]);
    let [a, b] = [&files[0], &files[1]];
    let (mirror, away) = (format!("mirror:{a},{b}"), folder.path("away"));
    let input = folder.path("input");
    ok(&["array", &mirror, "--create", "--destroy-data", "a,b"]);
    ok(&["format", &mirror]);
    std::fs::rename(b, &away).unwrap();
    std::fs::write(&input, noise(1, 500_000)).unwrap();
    let done = run(&["put", &mirror, &input, "x"]);
    assert!(done.status.success());
    assert!(stderr(&done).contains("is missing"), "{}", stderr(&done));
    std::fs::rename(&away, b).unwrap();
    let state =
        |member: usize| json(&["array", &mirror, "--json"])["members"][member]["state"].clone();
    assert_eq!(state(1), "to be rebuilt");
    assert!(get(&mirror, "x", &[]) == noise(1, 500_000));
    ok(&["array", &mirror, "--rebuild"]);
    assert_eq!(state(1), "in use");
    let data = |path: &str| std::fs::read(path).unwrap()[..(8 << 20) - 8192].to_vec();
    assert!(data(a) == data(b));
    // Each is used without the other.
    for (path, name) in [(a, "y"), (b, "z")] {
        std::fs::rename(path, &away).unwrap();
        ok(&["put", &mirror, &input, name]);
        std::fs::rename(&away, path).unwrap();
    }
    refused(&["ls", &mirror], 2, "without the other");
}
