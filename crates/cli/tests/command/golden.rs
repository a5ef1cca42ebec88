// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Volumes and recordings that builds of before wrote (`tests/golden/make`): each is read whole,
//! written, and read again.

use crate::support::{Folder, code, get, json, lossy, noise, ok};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");

struct Golden {
    name: String,
    facts: Value,
}

impl Golden {
    /// Unpacks the image into the folder; the device's name.
    fn unpack(&self, folder: &Folder) -> String {
        let mut device = self.facts["device"].as_str().unwrap().to_owned();
        for part in self.facts["parts"].as_array().unwrap() {
            let part = part.as_str().unwrap();
            let packed = std::fs::File::open(Path::new(HERE).join(part)).unwrap();
            let path = folder.path(part.trim_end_matches(".zst"));
            let mut image = std::fs::File::create(&path).unwrap();
            let mut bytes = ruzstd::decoding::StreamingDecoder::new(packed).unwrap();
            std::io::copy(&mut bytes, &mut image).unwrap();
            device = device.replacen("{}", &path, 1);
        }
        device
    }

    /// The length and the SHA-256 of each file.
    fn files(&self) -> BTreeMap<String, (u64, String)> {
        let files = self.facts["files"].as_object().unwrap().iter();
        let fact = |file: &Value| {
            (
                file["bytes"].as_u64().unwrap(),
                file["sha256"].as_str().unwrap().to_owned(),
            )
        };
        files
            .map(|(name, file)| (name.clone(), fact(file)))
            .collect()
    }
}

fn all() -> Vec<Golden> {
    let list = std::fs::read_to_string(Path::new(HERE).join("images.json")).unwrap();
    let list: serde_json::Map<String, Value> = serde_json::from_str(&list).unwrap();
    assert!(list.len() >= 16, "{} images", list.len());
    list.into_iter()
        .map(|(name, facts)| Golden { name, facts })
        .collect()
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every file of the volume, read back.
fn contents(device: &str) -> BTreeMap<String, (u64, String)> {
    let listed = json(&["ls", device, "--json"]);
    let files = listed["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            let name = file["name"].as_str().unwrap();
            let data = get(device, name, &[]);
            (name.to_owned(), (data.len() as u64, digest(&data)))
        })
        .collect()
}

fn is_sound(device: &str) {
    let checked = json(&["check", device, "--read-data", "--json"]);
    assert_eq!(checked["sound"], true, "{device}: {checked}");
}

#[test]
fn a_volume_of_before_is_read_whole() {
    for golden in all() {
        let folder = Folder::new();
        let device = golden.unpack(&folder);
        assert_eq!(contents(&device), golden.files(), "{}", golden.name);
        let checked = json(&["check", &device, "--read-data", "--json"]);
        for fact in ["sound", "compared_bytes"] {
            assert_eq!(
                checked[fact], golden.facts[fact],
                "{}: {checked}",
                golden.name
            );
        }
        let volume = json(&["df", &device, "--json"])["volumes"][0].clone();
        for (key, wanted) in golden.facts["volume"].as_object().unwrap() {
            // The build that made it said 1.0 of every volume.
            let wanted = match (golden.name.as_str(), key.as_str()) {
                ("long-names", "format") => &serde_json::json!("1.1"),
                _ => wanted,
            };
            assert_eq!(&volume[key], wanted, "{}: {key} in {volume}", golden.name);
        }
    }
}

#[test]
fn a_volume_of_before_is_written() {
    let folder = Folder::new();
    let data = noise(7, 100_001);
    std::fs::write(folder.path("new"), &data).unwrap();
    for golden in all() {
        let folder = (Folder::new(), &folder);
        let device = golden.unpack(&folder.0);
        let mut wanted = golden.files();
        ok(&["put", &device, &folder.1.path("new"), "new"]);
        wanted.insert("new".into(), (data.len() as u64, digest(&data)));
        let (first, _) = wanted.first_key_value().unwrap();
        let first = first.clone();
        ok(&["mv", &device, &first, "moved"]);
        let moved = wanted.remove(&first).unwrap();
        wanted.insert("moved".into(), moved);
        let (last, _) = wanted.last_key_value().unwrap();
        let last = last.clone();
        ok(&["rm", &device, &last]);
        wanted.remove(&last);
        is_sound(&device);
        assert_eq!(contents(&device), wanted, "{}", golden.name);
    }
}

#[test]
fn a_recording_of_before_goes_on_and_is_exported() {
    let mut formats = 0;
    for golden in all() {
        let folder = Folder::new();
        let device = golden.unpack(&folder);
        for (name, (length, _)) in golden.files() {
            let is_recording = ["bytes", "lossy", "cut", "messages", "recorded"].contains(&&*name);
            if is_recording && length % 512 == 0 {
                let before = get(&device, &name, &[]);
                let source = folder.file("source", 70_000);
                let mut words = vec!["record", &device, &name, "--append", "--rate", "100M"];
                words.extend(["--from", &source]);
                ok(&words);
                let after = get(&device, &name, &[]);
                assert_eq!(after[..before.len()], before, "{}: {name}", golden.name);
                let more = std::fs::read(&source).unwrap();
                assert_eq!(after[before.len()..], more, "{}: {name}", golden.name);
            }
            let export = |to: &str, format: &str| {
                let path = folder.path(to);
                let export = ["export", &device, &name, &path, "--format", format];
                if name == "lossy" {
                    lossy(&export);
                } else {
                    ok(&export);
                }
                let data = if format == "sigmf" { ".sigmf-data" } else { "" };
                std::fs::metadata(path + data).unwrap().len()
            };
            let (to, format) = match &*name {
                "bag" => ("bag.mcap", "mcap"),
                "band" | "cut" => ("band", "sigmf"),
                "packets" => ("packets.pcapng", "pcapng"),
                "lossy" => ("lossy", "raw"),
                _ => continue,
            };
            assert!(export(to, format) > 0, "{name}");
            formats += 1;
        }
    }
    assert_eq!(formats, 5);
}

#[test]
fn a_volume_of_before_becomes_longer_and_shorter() {
    for golden in all() {
        if golden.facts["device"] != "{}" {
            continue;
        }
        let folder = Folder::new();
        let device = golden.unpack(&folder);
        let wanted = golden.files();
        ok(&["resize", &device, "8M"]);
        is_sound(&device);
        ok(&["resize", &device, "--least"]);
        is_sound(&device);
        assert_eq!(contents(&device), wanted, "{}", golden.name);
        assert_eq!(code(&["resize", &device, "64K"]), 8, "{}", golden.name);
    }
}
