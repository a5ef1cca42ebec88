// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of signatures beside libblkid, over what the programs of Debian make: a device is
//! judged alike by the command that finds the library and by the static one, which has only the
//! table.

use super::found::{Ends, names};
use super::scratch::Folder;
use linux::blkid;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const SIZE_BYTES: u64 = 320 << 20;

/// Lines of a shell; `$0` is a file of 320 MiB.
const MAKERS: [&str; 44] = [
    "mkfs.ext4 -q -F $0",
    "mkfs.ext4 -q -F -b 1024 -O journal_dev $0",
    "mkswap -q $0",
    "mkswap -q -p 65536 $0",
    "mkfs.minix $0",
    "mkfs.minix -3 $0",
    "mkfs.bfs $0",
    "mkfs.cramfs $1 $0",
    "truncate -s 8M $0 && mkfs.fat -F 12 $0",
    "mkfs.fat -F 16 $0",
    "mkfs.fat -F 32 $0",
    "mkfs.exfat $0",
    "mkfs.ntfs -qFf $0",
    "mkfs.xfs -q $0",
    "mkfs.btrfs -q $0",
    "mkfs.f2fs -q $0",
    "mkfs.jfs -q $0",
    "mkfs.nilfs2 -q -f $0",
    "mkfs.reiserfs -q -ff $0",
    "mkfs.reiser4 -y -f $0",
    "mksquashfs $1 $0 -noappend -quiet",
    "rm $0 && mkfs.erofs $0 $1 && truncate -s 64M $0",
    "genisoimage -quiet -o $0 $1",
    "genisoimage -quiet -udf -o $0 $1",
    "mkudffs $0",
    "mkfs.gfs2 -O -p lock_nolock $0",
    "mkfs.ubifs -r $1 -m 2048 -e 129024 -c 2047 -o $0",
    "hformat -f $0",
    "makefs -t ffs -s 64m $0 $1",
    "makefs -t ffs -o version=2 -s 64m $0 $1",
    "genromfs -f $0 -d $1",
    "echo 'label: gpt' | sfdisk -q $0",
    "printf 'label: dos\\n,\\n' | sfdisk -q $0",
    "printf 'label: sun\\n,\\n' | sfdisk -q $0",
    "printf 'label: sgi\\n,\\n' | sfdisk -q $0",
    "sgdisk -o $0",
    "parted -s $0 mklabel mac",
    "parted -s $0 mklabel atari mkpart ext2 1 100",
    "echo pass | cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 $0 -",
    "echo pass | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $0 -",
    "truncate -s 1M $0.d && veritysetup format $0.d $0",
    "make-bcache -B $0",
    "make-bcache -C $0",
    "yes yes | drbdmeta --force 0 v08 $0 internal create-md",
];

/// What libblkid does not know, and what the table calls it.
const UNKNOWN: [(&str, &str); 6] = [
    ("mkfs.jffs2 -l -r $1 -o $0", "a file system (jffs2)"),
    ("mkfs.jffs2 -b -r $1 -o $0", "a file system (jffs2)"),
    ("mkfs.jffs2 -n -p -r $1 -o $0", "a file system (jffs2)"),
    ("parted -s $0 mklabel bsd", "a partition table (BSD)"),
    ("parted -s $0 mklabel amiga", "a partition table (Amiga)"),
    ("parted -s $0 mklabel atari", "a partition table (Atari)"),
];

/// Makes `image`; `None`, with a line that says so, if a program is not here.
fn made(line: &str, image: &Path) -> Option<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = root.join("build/mkfs");
    let at = |part: &str| tree.join(part).display().to_string();
    let path = format!(
        "{}:{}:{}:{}:/usr/sbin:/sbin",
        at("sbin"),
        at("usr/sbin"),
        at("usr/bin"),
        std::env::var("PATH").unwrap_or_default()
    );
    let libraries = ["usr/lib", "lib"].map(|part| at(&format!("{part}/x86_64-linux-gnu")));
    File::create(image).unwrap().set_len(SIZE_BYTES).unwrap();
    let source = image.with_file_name("source");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("file"), [7; 5000]).unwrap();
    let output = Command::new("sh")
        .args(["-ec", line])
        .args([image, &source])
        .env("PATH", path)
        .env("LD_LIBRARY_PATH", libraries.join(":"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && text.contains("not found") {
        println!("SKIPPED: {line}: not installed; run: tools/setup mkfs");
        return None;
    }
    assert!(output.status.success(), "{line}: {text}");
    Some(())
}

/// What libblkid's marks in the whole file and the table's in its ends are named.
fn judged(image: &Path) -> (Vec<String>, Vec<String>) {
    let marks = blkid::marks(&File::open(image).unwrap(), 512).unwrap();
    let library = marks
        .iter()
        .map(|mark| super::found::described(mark).into());
    let table = Ends::read(image, 512).unwrap().in_the_table();
    (
        library.collect(),
        names(&table).into_iter().map(str::to_owned).collect(),
    )
}

// partner: libblkid, mkfs | reader, writer
#[test]
fn the_table_names_what_libblkid_names_in_what_debian_s_programs_make() {
    if blkid::version().is_none() {
        println!("SKIPPED: this machine has no libblkid.so.1");
        return;
    }
    let folder = Folder::new();
    let image = folder.0.join("image");
    let mut wrong = Vec::new();
    for line in MAKERS {
        if made(line, &image).is_none() {
            continue;
        }
        let (library, table) = judged(&image);
        assert!(!library.is_empty(), "{line}: libblkid names nothing");
        let missing: Vec<_> = (library.iter())
            .filter(|name| !table.contains(name))
            .collect();
        if !missing.is_empty() {
            wrong.push(format!("{line}: {missing:?} not in {table:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// partner: libblkid, mkfs | reader, writer
#[test]
fn the_table_names_what_libblkid_does_not_know() {
    if blkid::version().is_none() {
        println!("SKIPPED: this machine has no libblkid.so.1");
        return;
    }
    let folder = Folder::new();
    let image = folder.0.join("image");
    for (line, what) in UNKNOWN {
        if made(line, &image).is_some() {
            let (library, table) = judged(&image);
            // What it learns one day has the same name.
            assert!(
                library.is_empty() || library == [what],
                "{line}: {library:?}"
            );
            assert_eq!(table, [what], "{line}");
        }
    }
}
