// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices of the kernel that are not namespaces of an NVMe drive on PCI: SATA and USB disks,
//! SD cards and eMMC, virtio, loop devices, RAM disks, and partitions of them.
//!
//! All that is known of them is in sysfs (`Documentation/ABI/stable/sysfs-block`).

use crate::{Error, Result, Roots, sysfs};
use rustix::fs::FileType;
use std::fmt;
use std::path::{Path, PathBuf};

/// What the names of the kernel's block devices begin with, and what that means.
const KINDS: [(&str, &str); 11] = [
    ("sd", "a SCSI, SATA or USB disk"),
    ("vd", "a virtio disk"),
    ("mmcblk", "an SD card or eMMC"),
    ("loop", "a loop device"),
    ("dm-", "a device-mapper volume"),
    ("md", "a RAID array"),
    ("zram", "a compressed RAM disk"),
    ("ram", "a RAM disk"),
    ("nvme", "an NVMe namespace that is not on PCI"),
    ("nbd", "a network block device"),
    ("sr", "an optical drive"),
];
/// Sectors of sysfs, whatever the logical block.
const SECTOR_BYTES: u64 = 512;

/// A block device. `Display` is one line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its node in `/dev`, with links resolved.
    pub node: PathBuf,
    /// The kernel's name: `sda`, `sda1`.
    pub name: String,
    /// What it is, with its article.
    pub kind: &'static str,
    /// The model, if the device reports one.
    pub model: Option<String>,
    /// The serial number, if the device has one: loop devices and RAM disks do not.
    pub serial: Option<String>,
    /// Size.
    pub size_bytes: u64,
    /// The folder in sysfs of the whole disk, with links resolved.
    whole: PathBuf,
    /// That of the partition, or of the disk.
    folder: PathBuf,
}

/// A disk's limits, of its request queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Logical block.
    pub block_bytes: u64,
    /// The longest transfer of one command.
    pub max_transfer_bytes: u64,
    /// Requests that the queue holds.
    pub queue_depth: u16,
    /// A power cut loses written data that has not been flushed.
    pub volatile_write_cache: bool,
    /// Ranges can be discarded.
    pub discard: bool,
    /// Ranges can be zeroed without data.
    pub write_zeroes: bool,
    /// Nothing can be written.
    pub read_only: bool,
}

impl Disk {
    /// The block device at `path`, or at the end of its links; `None` if that is something else.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] if the kernel does not know the device of the node.
    pub fn find(roots: &Roots, path: &Path) -> Result<Option<Self>> {
        let Ok(stat) = rustix::fs::stat(path) else {
            return Ok(None);
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            return Ok(None);
        }
        let (major, minor) = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
        let folder = std::fs::canonicalize(&link).map_err(|_| Error::NoSuchDevice {
            name: path.display().to_string(),
            why: format!("the kernel has no device {major}:{minor}"),
        })?;
        Ok(Self::at(sysfs::canonical(path), folder))
    }

    /// Every disk of the machine that has a medium, without partitions and without namespaces on
    /// PCI, by name.
    pub fn all(roots: &Roots) -> Vec<Self> {
        let blocks = roots.sys.join("class/block");
        let on_pci = crate::pci::controllers(roots);
        let is_on_pci = |name: &str| {
            let mut namespaces = on_pci.iter().flat_map(|one| &one.namespaces);
            namespaces.any(|one| one.block.as_deref() == Some(name))
        };
        let names = sysfs::names(&blocks).into_iter();
        names
            .filter(|name| !is_on_pci(name))
            .filter_map(|name| {
                let folder = std::fs::canonicalize(blocks.join(&name)).ok()?;
                Self::at(roots.dev.join(name), folder)
            })
            .filter(|disk| disk.whole == disk.folder && disk.size_bytes != 0)
            .collect()
    }

    /// The device of this node and this folder of sysfs.
    fn at(node: PathBuf, folder: PathBuf) -> Option<Self> {
        let name = sysfs::name_of(&folder)?;
        let whole = if folder.join("partition").exists() {
            folder.parent()?.to_owned()
        } else {
            folder.clone()
        };
        let disk = sysfs::name_of(&whole)?;
        let text = |file: &str| {
            let text = sysfs::text(&whole.join(file))?;
            (!text.is_empty()).then_some(text)
        };
        let model = text("device/model").or_else(|| text("device/name"));
        let serial = text("serial").or_else(|| text("device/serial"));
        let serial = serial.or_else(|| unit_serial(&whole.join("device/vpd_pg80")));
        Some(Self {
            node,
            kind: kind_of(&disk),
            model,
            serial,
            size_bytes: sysfs::number::<u64>(&folder.join("size"))?.saturating_mul(SECTOR_BYTES),
            name,
            whole,
            folder,
        })
    }

    /// The number of the whole disk as the kernel's events print it: `8,0`.
    pub fn event_name(&self) -> Option<String> {
        Some(sysfs::text(&self.whole.join("dev"))?.replace(':', ","))
    }

    /// What the names of its interrupts begin with, if they can be told from those of other
    /// devices.
    pub fn interrupt(&self) -> Option<String> {
        let names = self.whole.iter().filter_map(|name| name.to_str());
        let name = names.rev().find(|name| {
            let rest = |prefix| name.strip_prefix(prefix);
            let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
            ["virtio", "mmc", "ata"]
                .iter()
                .filter_map(rest)
                .any(|rest| !rest.is_empty() && is_number(rest))
        })?;
        Some(if name.starts_with("ata") {
            // The controller's, which its ports share.
            "ahci".to_owned()
        } else {
            name.to_owned()
        })
    }

    /// Reads and writes that the kernel's block layer completed (`Documentation/block/stat`).
    pub fn completed(&self) -> Option<(u64, u64)> {
        let text = sysfs::text(&self.folder.join("stat"))?;
        let mut fields = text.split_ascii_whitespace();
        let reads = fields.next()?.parse().ok()?;
        Some((reads, fields.nth(3)?.parse().ok()?))
    }

    /// The limits of its queue.
    pub fn limits(&self) -> Limits {
        let queue = |file: &str| self.whole.join("queue").join(file);
        let number = |file| sysfs::number::<u64>(&queue(file)).unwrap_or(0);
        Limits {
            block_bytes: number("logical_block_size"),
            max_transfer_bytes: number("max_sectors_kb") << 10,
            queue_depth: u16::try_from(number("nr_requests")).unwrap_or(u16::MAX),
            volatile_write_cache: sysfs::text(&queue("write_cache"))
                .is_some_and(|text| text == "write back"),
            discard: number("discard_max_bytes") != 0,
            write_zeroes: number("write_zeroes_max_bytes") != 0,
            read_only: sysfs::number::<u32>(&self.folder.join("ro")).is_some_and(|ro| ro != 0),
        }
    }

    /// Whether the kernel's device of this name is the disk, or a part of it.
    pub fn has_part(&self, name: &str) -> bool {
        name == self.name || self.folder.join(name).join("partition").exists()
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name, self.kind)?;
        if let Some(model) = &self.model {
            write!(f, ", {model}")?;
        }
        if let Some(serial) = &self.serial {
            write!(f, ", serial {serial}")?;
        }
        f.write_str(")")
    }
}

/// What a block device of this name is.
fn kind_of(name: &str) -> &'static str {
    let known = KINDS.iter().find(|(prefix, _)| name.starts_with(prefix));
    known.map_or("a block device", |(_, kind)| kind)
}

/// The unit serial number of a SCSI device (SPC, page 80h): four bytes, the last of which is the
/// length, then ASCII.
fn unit_serial(page: &Path) -> Option<String> {
    let page = std::fs::read(page).ok()?;
    let length = usize::from(*page.get(3)?);
    let text = std::str::from_utf8(page.get(4..4 + length)?).ok()?;
    let text = text.trim_matches([' ', '\0']);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Lets the kernel read this far ahead of a program that reads files of the file system at `folder`
/// in order. Only root may; otherwise, and where the kernel has no such setting, nothing changes.
pub fn set_read_ahead(roots: &Roots, folder: &Path, bytes: u32) {
    let Ok(data) = std::fs::metadata(folder) else {
        return;
    };
    let device = std::os::linux::fs::MetadataExt::st_dev(&data);
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let place = roots
        .sys
        .join(format!("class/bdi/{major}:{minor}/read_ahead_kb"));
    let _ = std::fs::write(place, (bytes >> 10).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;
    use std::fs;

    /// A SATA disk with a partition, as sysfs shows it.
    fn disk(tree: &Tree) -> PathBuf {
        let folder = tree
            .path()
            .join("devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda");
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::create_dir_all(folder.join("sda1")).unwrap();
        fs::create_dir_all(folder.join("device")).unwrap();
        for (file, text) in [
            ("size", "131072\n"),
            ("dev", "8:0\n"),
            ("ro", "0\n"),
            (
                "stat",
                "  12  0  96  3  7  0  56  2  0  5  5  0  0  0  0  1  0\n",
            ),
            ("device/model", "QEMU HARDDISK   \n"),
            ("device/vpd_pg80", "\0\u{80}\0\u{14}                LAB1"),
            ("queue/logical_block_size", "512\n"),
            ("queue/max_sectors_kb", "1280\n"),
            ("queue/nr_requests", "32\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/discard_max_bytes", "2147450880\n"),
            ("queue/write_zeroes_max_bytes", "0\n"),
            ("sda1/partition", "1\n"),
            ("sda1/size", "2048\n"),
            ("sda1/ro", "1\n"),
        ] {
            let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
            fs::write(folder.join(file), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn a_disk_and_its_partition_are_described() {
        let tree = Tree::new();
        let folder = disk(&tree);
        let blocks = tree.roots().sys.join("class/block");
        fs::create_dir_all(&blocks).unwrap();
        for (name, target) in [("sda", folder.clone()), ("sda1", folder.join("sda1"))] {
            std::os::unix::fs::symlink(target, blocks.join(name)).unwrap();
        }
        let whole = Disk::at("/dev/sda".into(), folder.clone()).unwrap();
        let all = Disk::all(&tree.roots());
        let all: Vec<&str> = all.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(all, ["sda"]);
        assert_eq!(
            whole.to_string(),
            "sda (a SCSI, SATA or USB disk, QEMU HARDDISK, serial LAB1)"
        );
        assert_eq!(whole.size_bytes, 64 << 20);
        assert_eq!(whole.completed(), Some((12, 7)));
        assert_eq!(whole.event_name().as_deref(), Some("8,0"));
        assert_eq!(whole.interrupt().as_deref(), Some("ahci"));
        let limits = whole.limits();
        assert_eq!((limits.block_bytes, limits.queue_depth), (512, 32));
        assert_eq!(limits.max_transfer_bytes, 1280 << 10);
        assert!(limits.volatile_write_cache && limits.discard);
        assert!(!limits.write_zeroes && !limits.read_only);
        let part = Disk::at("/dev/sda1".into(), folder.join("sda1")).unwrap();
        assert_eq!((part.size_bytes, part.name.as_str()), (1 << 20, "sda1"));
        assert_eq!(part.serial, whole.serial);
        assert_eq!(part.event_name(), whole.event_name());
        assert!(part.limits().read_only);
        assert!(whole.has_part("sda1") && whole.has_part("sda"));
        assert!(!whole.has_part("sdb") && !part.has_part("sda"));
    }

    #[test]
    fn what_is_no_block_device_is_none() {
        let roots = Roots::system();
        for path in ["/dev/null", "/tmp", "/nonexistent/x"] {
            assert_eq!(Disk::find(&roots, Path::new(path)).unwrap(), None, "{path}");
        }
        for (name, kind) in [
            ("vda", "a virtio disk"),
            ("ram0", "a RAM disk"),
            ("x", "a block device"),
        ] {
            assert_eq!(kind_of(name), kind);
        }
    }

    #[test]
    fn a_page_of_any_content_is_read_or_not() {
        let tree = Tree::new();
        let page = tree.path().join("page");
        for (bytes, serial) in [
            (&b""[..], None),
            (b"\0\x80\0\x09LAB", None),
            (b"\0\x80\0\0", None),
            (b"\0\x80\0\x02\xff\xff", None),
            (b"\0\x80\0\x03A1 ", Some("A1")),
        ] {
            fs::write(&page, bytes).unwrap();
            assert_eq!(unit_serial(&page).as_deref(), serial);
        }
    }
}
