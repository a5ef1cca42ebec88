// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signatures on a device before a format: reported, wiped as wipefs does, and never changed by a
//! command that is refused. Also how other tools recognise a volume.

use crate::support::{Folder, json, run, stderr, stdout};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::{Command, Output};

const SIZE: u64 = 64 << 20;

/// Tools that a test found missing. It prints one line for all of them, and so is counted once.
#[derive(Default)]
struct Missing(RefCell<BTreeSet<String>>);

impl Missing {
    /// Runs a tool of the machine, or records that it is missing.
    fn tool(&self, words: &[&str]) -> Option<Output> {
        let (program, rest) = words.split_first().unwrap();
        let sbin = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        let output = Command::new(program).args(rest).env("PATH", sbin).output();
        if output.is_err() {
            self.note(program);
        }
        output.ok()
    }

    fn note(&self, program: &str) {
        self.0.borrow_mut().insert(program.to_owned());
    }
}

impl Drop for Missing {
    fn drop(&mut self) {
        let names: Vec<String> = self.0.take().into_iter().collect();
        if !names.is_empty() {
            println!("SKIPPED: what needs {}: not installed", names.join(", "));
        }
    }
}

fn blank(folder: &Folder, name: &str) -> String {
    let path = folder.path(name);
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    path
}

fn found(report: &serde_json::Value) -> Vec<&str> {
    let found = report["found"].as_array().unwrap().iter();
    found.map(|found| found["what"].as_str().unwrap()).collect()
}

#[test]
fn what_real_tools_made_is_named_and_wiped() {
    let missing = Missing::default();
    let folder = Folder::new();
    let gpt: &[&str] = &[
        "sh",
        "-c",
        "command -v sfdisk >/dev/null || exit 77; echo 'label: gpt\n,' | sfdisk -q $0",
    ];
    let mbr: &[&str] = &[
        "sh",
        "-c",
        "command -v sfdisk >/dev/null || exit 77; echo 'label: dos\n,' | sfdisk -q $0",
    ];
    let makers: [(&str, &[&str]); 12] = [
        (
            "a file system (ext2, ext3 or ext4)",
            &["mkfs.ext4", "-q", "-F"],
        ),
        (
            "a file system (ext2, ext3 or ext4)",
            &["mkfs.ext2", "-q", "-F", "-b", "1024"],
        ),
        ("swap space", &["mkswap", "-q"]),
        ("swap space", &["mkswap", "-q", "-p", "65536"]),
        ("a file system (Minix)", &["mkfs.minix"]),
        ("a file system (FAT)", &["mkfs.vfat"]),
        ("a partition table (GPT)", gpt),
        ("a partition table or a boot sector", mbr),
        ("a file system (FAT)", &["mkfs.vfat", "-F", "32"]),
        ("a file system (XFS)", &["mkfs.xfs", "-q", "--unsupported"]),
        ("a file system (btrfs)", &["mkfs.btrfs", "-q", "--mixed"]),
        ("a file system (F2FS)", &["mkfs.f2fs", "-q"]),
    ];
    let mut tried = 0;
    for (index, (what, maker)) in makers.into_iter().enumerate() {
        let disk = blank(&folder, &format!("disk{index}"));
        let Some(made) = missing.tool(&[maker, &[disk.as_str()]].concat()) else {
            continue;
        };
        if made.status.code() == Some(77) {
            missing.note("sfdisk");
            continue;
        }
        assert!(made.status.success(), "{maker:?}: {}", stderr(&made));
        tried += 1;
        let before = std::fs::read(&disk).unwrap();
        // A dry run reports it, without --force, and changes nothing.
        let dry = json(&["format", &disk, "--dry-run", "--json"]);
        assert!(found(&dry).contains(&what), "{maker:?}: {dry}");
        assert_eq!(dry["dry_run"], true);
        let output = run(&["format", &disk, "--dry-run"]);
        assert!(stdout(&output).contains(what) && stdout(&output).contains("would"));
        // Refused without --force; and with it, where a number is wrong.
        for words in [
            &[][..],
            &["--force", "--unit", "3000"],
            &["--force", "--slots", "600000"],
        ] {
            let output = run(&[&["format", disk.as_str()], words].concat());
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        }
        assert!(
            std::fs::read(&disk).unwrap() == before,
            "{maker:?}: nothing was changed"
        );
        let output = run(&["format", &disk, "--force", "--json"]);
        assert!(
            stderr(&output).contains(what),
            "{maker:?}: {}",
            stderr(&output)
        );
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["found"], dry["found"]);
        assert_nothing_remains(&missing, &disk);
        assert!(stdout(&run(&["check", &disk])).starts_with("sound"));
    }
    assert!(tried > 0 || missing.tool(&["mkfs.ext4", "-V"]).is_none());
}

/// The result of the machine's own tools.
fn assert_nothing_remains(missing: &Missing, disk: &str) {
    if let Some(probed) = missing.tool(&["blkid", "-p", disk]) {
        assert_eq!(
            probed.status.code(),
            Some(2),
            "{}",
            String::from_utf8_lossy(&probed.stdout)
        );
    }
    if let Some(left) = missing.tool(&["wipefs", "--no-act", disk]) {
        assert!(
            left.status.success() && left.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&left.stdout)
        );
    }
}

/// Signatures after the tables and at the device's end, written by the test.
#[test]
fn signatures_at_the_end_are_wiped_and_nothing_beside_them() {
    let folder = Folder::new();
    let disk = blank(&folder, "disk");
    let mut image = vec![0x77u8; SIZE as usize];
    let md = [0xfc, 0x4e, 0x2b, 0xa9];
    let mut places: Vec<(u64, &[u8], &str)> = vec![
        (SIZE - 512, b"EFI PART", "a partition table (GPT)"),
        (SIZE - 8192, &md, "a part of a RAID (md)"),
        (SIZE - 65_536, &md, "a part of a RAID (md)"),
        (0x40_0000, b"SKUL\xba\xbe", "an encrypted volume (LUKS)"),
        (
            SIZE - 1024,
            b"Intel Raid ISM Cfg Sig. ",
            "a part of a RAID (Intel)",
        ),
    ];
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    for label in [0, 256 << 10, SIZE - (512 << 10), SIZE - (256 << 10)] {
        for block in [128, 129, 200] {
            places.push((label + (block << 10), &uberblock, "a part of a pool (ZFS)"));
        }
    }
    for (at, magic, _) in &places {
        let at = *at as usize;
        image[at..at + magic.len()].copy_from_slice(magic);
    }
    std::fs::write(&disk, &image).unwrap();
    let report = json(&["format", &disk, "--force", "--json"]);
    for (at, _, what) in &places {
        let found = report["found"].as_array().unwrap();
        let is_it = |found: &&serde_json::Value| found["offset_bytes"] == *at;
        assert_eq!(
            found.iter().find(is_it).map(|found| &found["what"]),
            Some(&(*what).into())
        );
    }
    let after = std::fs::read(&disk).unwrap();
    for (at, magic, what) in &places {
        let at = *at as usize;
        assert!(after[at..at + magic.len()] != **magic, "{what} at {at}");
        if at as u64 > SIZE - (1 << 20) {
            // The rest of the device's end is unchanged.
            assert!(
                after[at..at + magic.len()].iter().all(|&byte| byte == 0),
                "{what} at {at}"
            );
            // As long as the report says: libblkid's magic numbers can be longer than what the
            // table has.
            let found = report["found"].as_array().unwrap().iter();
            let mut found = found.filter(|found| found["offset_bytes"] == at as u64);
            let len = found.next().unwrap()["length_bytes"].as_u64().unwrap() as usize;
            assert!(
                (magic.len()..=magic.len() + 8).contains(&len),
                "{what}: {len}"
            );
            assert_eq!(
                (after[at - 1], after.get(at + len).copied().unwrap_or(0x77)),
                (0x77, 0x77),
                "{what}"
            );
        }
    }
    assert_eq!(
        json(&["format", &disk, "--dry-run", "--json"])["found"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn file_knows_a_volume_by_its_magic() {
    let missing = Missing::default();
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    run(&[
        "format",
        &disk,
        "--size",
        "8M",
        "--label",
        "my label",
        "--checksums",
    ]);
    let magic = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/probes/straightway.magic"
    );
    let Some(said) = missing.tool(&["file", "--brief", "-m", magic, &disk]) else {
        return;
    };
    let uuid = json(&["stat", &disk, "--json"])["volume"]["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let uuid = [
        &uuid[..8],
        &uuid[8..12],
        &uuid[12..16],
        &uuid[16..20],
        &uuid[20..],
    ]
    .join("-");
    let expected = format!(
        "Straightway volume, version 1.0, label \"my label\", UUID {uuid}, 8388608 bytes, files have checksums\n"
    );
    assert_eq!(stdout(&said), expected);
    let mut image = std::fs::read(&disk).unwrap();
    image[..256].fill(0);
    std::fs::write(&disk, &image).unwrap();
    let said = missing
        .tool(&["file", "--brief", "-m", magic, &disk])
        .unwrap();
    assert_eq!(
        stdout(&said),
        "Straightway volume, first superblock lost, label \"my label\"\n"
    );
}

/// Each wrong number is reported with its allowed range; and nothing is created or left behind.
#[test]
fn a_wrong_number_is_named_with_its_range() {
    let folder = Folder::new();
    let disk = folder.path("none.img");
    let cases: [(&[&str], &[&str]); 10] = [
        (
            &["--unit", "100"],
            &["--unit is 100 bytes", "from 512 B to 1 GiB"],
        ),
        (
            &["--node", "128"],
            &["--node is 128 bytes", "from 512 B to 16 KiB"],
        ),
        (
            &["--slots", "100000000"],
            &["--slots is 100000000", "1 to 524288"],
        ),
        (&["--size", "0"], &["--size is 0 bytes", "block of 512"]),
        (&["--size", "1"], &["--size is 1 bytes", "block of 512"]),
        (&["--size", "511"], &["--size is 511 bytes", "block of 512"]),
        (
            &["--size", "64K"],
            &["65536 bytes are too few", "256 KiB are enough"],
        ),
        (
            &["--size", "1M", "--slots", "524288"],
            &["too few", "fewer --slots"],
        ),
        (&["--size", "18446744073709551615"], &["at most 8 EiB"]),
        (&["--label", "a\nb"], &["a\\nb", "control character"]),
    ];
    for (words, expected) in cases {
        let mut all = vec!["format", disk.as_str()];
        if !words.contains(&"--size") {
            all.extend(["--size", "16M"]);
        }
        let output = run(&[&all[..], words].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{words:?}: {said}");
        }
        assert!(!std::path::Path::new(&disk).exists(), "{words:?}");
    }
    // An empty file is still empty.
    std::fs::write(&disk, "").unwrap();
    assert_eq!(
        run(&["format", &disk, "--size", "64K"]).status.code(),
        Some(2)
    );
    assert_eq!(std::fs::metadata(&disk).unwrap().len(), 0);
    // Longer than the file system supports here; if it does support it, the volume is made.
    let output = run(&["format", &disk, "--size", "4E", "--force"]);
    let said = stderr(&output);
    assert!(
        output.status.success() || said.contains("a smaller --size"),
        "{said}"
    );
}

#[test]
fn how_many_files_fit_is_no_promise_that_is_broken() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    let report = json(&["format", &disk, "--size", "64M", "--json"]);
    assert_eq!(
        (&report["slots"], &report["slots_before_refusal"]),
        (&1024.into(), &969.into())
    );
    // A sparse file; nothing is written.
    let large = folder.path("large.img");
    let file = std::fs::File::create(&large).unwrap();
    for (gib, slots, promised) in [(16, 1024, 969), (17, 2048, 1938), (8192, 524_288, 498_066)] {
        file.set_len(gib << 30).unwrap();
        let report = json(&["format", &large, "--dry-run", "--json"]);
        assert_eq!(
            (&report["slots"], &report["slots_before_refusal"]),
            (&slots.into(), &promised.into())
        );
    }
    // Each file needs a unit for its data, and one for its checksums.
    let few = [
        "format",
        &disk,
        "--force",
        "--unit",
        "1M",
        "--checksums",
        "--json",
    ];
    assert_eq!(json(&few)["slots_before_refusal"], 31);
    let text = stdout(&run(&["format", &disk, "--force", "--slots", "8"]));
    assert!(
        text.contains("in 8 slots: at least 8 files before their table grows"),
        "{text}"
    );
    let text = stdout(&run(&["format", &disk, "--force"]));
    assert!(text.contains("1024 slots: at least 969 files"), "{text}");
}

/// A volume of 4 KiB blocks with a file, whose first block then gets another owner: the second
/// superblock is still there.
fn taken_over(folder: &Folder, name: &str, at: u64, bytes: &[u8]) -> String {
    let disk = folder.path(name);
    let made = run(&["format", &disk, "--size", "64M", "--label", "old"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let put = crate::support::run_with_input(&["put", &disk, "-", "kept"], b"kept");
    assert!(put.status.success(), "{}", stderr(&put));
    let mut image = std::fs::read(&disk).unwrap();
    // What stood there is gone, as after a wipefs or a mkfs that zeroes the beginning.
    image[..512].fill(0);
    image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    std::fs::write(&disk, image).unwrap();
    disk
}

#[test]
fn a_device_that_another_owner_took_over_is_not_changed_and_its_files_are_read() {
    let folder = Folder::new();
    let owners: [(&str, u64, &[u8], &str); 4] = [
        ("swap", 4086, b"SWAPSPACE2", "swap space"),
        (
            "md",
            4096,
            &[0xfc, 0x4e, 0x2b, 0xa9],
            "a part of a RAID (md)",
        ),
        ("gpt", 512, b"EFI PART", "a partition table (GPT)"),
        ("lvm", 536, b"LVM2 001", "a part of a volume group (LVM)"),
    ];
    for (name, at, magic, what) in owners {
        let disk = taken_over(&folder, name, at, magic);
        let before = std::fs::read(&disk).unwrap();
        let local = folder.file("local", 100);
        for words in [
            &["put", &disk, &local][..],
            &["rm", &disk, "kept"],
            &["mv", &disk, "kept", "other"],
            &["label", &disk, "new"],
            &[
                "record", &disk, "take", "--from", "pattern", "--rate", "1M", "--size", "1M",
            ],
            &["check", &disk, "--repair"],
            &["resize", &disk, "--least"],
        ] {
            let output = run(words);
            assert_eq!(
                output.status.code(),
                Some(3),
                "{name} {words:?}: {}",
                stderr(&output)
            );
            assert!(
                stderr(&output).contains("straightway wipe"),
                "{}",
                stderr(&output)
            );
        }
        let check = run(&["check", &disk]);
        assert_eq!(check.status.code(), Some(1), "{name}");
        let says = String::from_utf8_lossy(&check.stdout);
        assert!(says.contains(what), "{name}: {says}");
        let got = run(&["get", &disk, "kept", "-"]);
        assert!(got.stdout == b"kept", "{name}: {}", stderr(&got));
        assert!(
            std::fs::read(&disk).unwrap() == before,
            "{name}: nothing was changed"
        );
        // The owner keeps the device, without the volume.
        let refused = run(&["wipe", &disk]);
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{name}: {}",
            stderr(&refused)
        );
        let wiped = json(&["wipe", &disk, "--force", "--json"]);
        crate::support::schema_names_all_keys(&wiped, &stdout(&run(&["schema", "wipe"])));
        assert_eq!(wiped["label"], "old");
        let after = std::fs::read(&disk).unwrap();
        assert!(after[at as usize..].starts_with(magic), "{name}");
        assert_ne!(run(&["ls", &disk]).status.code(), Some(0), "{name}");
        let again = run(&["wipe", &disk, "--force"]);
        assert_ne!(again.status.code(), Some(0), "{name}: there is no volume");
    }
}

#[test]
fn a_volume_is_wiped_only_if_that_is_asked_for() {
    let folder = Folder::new();
    let disk = folder.path("disk.img");
    run(&["format", &disk, "--size", "16M"]);
    let before = std::fs::read(&disk).unwrap();
    for words in [&["wipe", &disk][..], &["wipe", &disk, "--dry-run"]] {
        run(words);
        assert!(std::fs::read(&disk).unwrap() == before, "{words:?}");
    }
    let output = run(&["wipe", &disk, "--force"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let after = std::fs::read(&disk).unwrap();
    let changed = before
        .iter()
        .zip(&after)
        .filter(|(one, other)| one != other);
    assert!((1..=512).contains(&changed.count()));
    assert_ne!(run(&["ls", &disk]).status.code(), Some(0));
}

#[test]
fn a_file_with_data_anywhere_is_not_formatted_without_force() {
    let folder = Folder::new();
    for at in [5 << 20, SIZE - 1] {
        let disk = blank(&folder, "data");
        let mut image = vec![0; SIZE as usize];
        image[at as usize] = 1;
        std::fs::write(&disk, &image).unwrap();
        let output = run(&["format", &disk]);
        assert_eq!(output.status.code(), Some(2), "{at}");
        assert!(
            stderr(&output).contains("holds data"),
            "{}",
            stderr(&output)
        );
        assert!(std::fs::read(&disk).unwrap() == image);
    }
    let disk = blank(&folder, "empty");
    assert!(run(&["format", &disk]).status.success());
}

/// What files left behind a volume that was made shorter is no other owner.
#[test]
fn old_data_behind_a_shorter_volume_is_nobody_s() {
    let folder = Folder::new();
    let disk = blank(&folder, "disk");
    run(&["format", &disk, "--force"]);
    let sector = [&b"EFI PART"[..], &[0; 504]].concat();
    let full = folder.path("full");
    std::fs::write(&full, sector.repeat(50 << 11)).unwrap();
    stdout(&run(&["put", &disk, &full]));
    stdout(&run(&["rm", &disk, "full"]));
    stdout(&run(&["resize", &disk, "32M"]));
    // To the end, as a file that filled the volume leaves it.
    let image = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, &sector, SIZE - 512).unwrap();
    drop(image);
    std::fs::write(&full, "small").unwrap();
    stdout(&run(&["put", &disk, &full, "--name", "x"]));
    stdout(&run(&["resize", &disk, "64M"]));
}

/// Runs a line of the shell with the programs that `tools/setup mkfs` unpacks; whether they are
/// there.
fn made(line: &str, disk: &str) -> bool {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/mkfs");
    let (path, libraries) = (
        std::env::var("PATH").unwrap(),
        format!("{tree}/usr/lib/x86_64-linux-gnu:{tree}/lib/x86_64-linux-gnu"),
    );
    let output = Command::new("sh")
        .args(["-ec", line, disk])
        .env(
            "PATH",
            format!("{tree}/sbin:{tree}/usr/sbin:{path}:/usr/sbin:/sbin"),
        )
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .unwrap();
    let said = stderr(&output);
    if !output.status.success() && said.contains("not found") {
        println!("SKIPPED: {line}: not installed; run: tools/setup mkfs");
        return false;
    }
    assert!(output.status.success(), "{line}: {said}");
    true
}

/// What leaves both superblocks as they are: a table in the third sector, and what is at the end,
/// where the volume's last unit is.
// partner: mkfs | writer
#[test]
fn owners_beside_two_whole_superblocks_are_seen() {
    let folder = Folder::new();
    let md = [
        (0, &[0xfc, 0x4e, 0x2b, 0xa9, 1][..]),
        (144, &(SIZE / 512 - 16).to_le_bytes()),
    ];
    let owners: [(&str, &str); 4] = [
        ("parted -s $0 mklabel amiga", "a partition table (Amiga)"),
        (
            "yes yes | drbdmeta --force 0 v08 $0 internal create-md",
            "a part of a mirror (DRBD)",
        ),
        // Its table at the end alone: the volume's first sectors are written back.
        (
            "head -c 32768 $0 >$0.head; sgdisk -o $0; dd if=$0.head of=$0 conv=notrunc status=none",
            "a partition table (GPT)",
        ),
        // mdadm makes one of devices only; linux/raid/md_p.h has its bytes.
        ("", "a part of a RAID (md)"),
    ];
    for (line, what) in owners {
        let disk = blank(&folder, "disk");
        let report = json(&["format", &disk, "--force", "--json"]);
        let bytes = |name: &str| report[name].as_u64().unwrap();
        // Its last unit is the device's last one.
        assert_eq!(bytes("metadata_bytes") + bytes("capacity_bytes"), SIZE);
        let local = folder.file("local", 100);
        stdout(&run(&["put", &disk, &local, "--name", "kept"]));
        if line.is_empty() {
            let image = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
            for (at, bytes) in md {
                let at = SIZE - 8192 + at;
                std::os::unix::fs::FileExt::write_all_at(&image, bytes, at).unwrap();
            }
        } else if !made(line, &disk) {
            continue;
        }
        let before = std::fs::read(&disk).unwrap();
        let output = run(&["put", &disk, &local, "--name", "new"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(said.contains(what), "{line}: {said}");
        assert_eq!(run(&["check", &disk]).status.code(), Some(1), "{line}");
        assert_eq!(
            run(&["get", &disk, "kept", "-"]).stdout.len(),
            100,
            "{line}"
        );
        assert!(std::fs::read(&disk).unwrap() == before, "{line}");
        stdout(&run(&["format", &disk, "--force"]));
        stdout(&run(&["put", &disk, &local, "--name", "new"]));
    }
}

/// The image of a shorter disk, whose end is exactly the device's end, is a file.
// partner: mkfs | writer
#[test]
fn the_image_of_a_disk_at_the_end_of_a_volume_is_a_file() {
    let folder = Folder::new();
    let disk = blank(&folder, "disk");
    stdout(&run(&["format", &disk, "--force"]));
    let report = json(&["df", &disk, "--json"]);
    let free = report["volumes"][0]["free_bytes"].as_u64().unwrap();
    let image = folder.path("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(free)
        .unwrap();
    if !made("sgdisk -o $0", &image) {
        return;
    }
    stdout(&run(&["put", &disk, &image, "--name", "image"]));
    let bytes = std::fs::read(&disk).unwrap();
    assert!(bytes[SIZE as usize - 512..].starts_with(b"EFI PART"));
    for words in [
        &["mv", &disk, "image", "other"][..],
        &["rm", &disk, "other"],
        &["put", &disk, &image, "--name", "image"],
    ] {
        stdout(&run(words));
    }
}
