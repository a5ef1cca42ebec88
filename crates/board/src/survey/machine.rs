// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine around the drives: kernel, processor, pages, the firmware's description, limits,
//! modules, the kernel's log.

use super::reader::Reader;
use linux::Roots;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Files with one value each: name in the report, root, path.
const PROC_FILES: [(&str, &str); 3] = [
    ("kernel release", "sys/kernel/osrelease"),
    ("kernel build", "sys/kernel/version"),
    ("kernel log restricted", "sys/kernel/dmesg_restrict"),
];
const SYS_FILES: [(&str, &str); 7] = [
    ("board (device tree)", "firmware/devicetree/base/model"),
    (
        "compatible (device tree)",
        "firmware/devicetree/base/compatible",
    ),
    ("board vendor (DMI)", "class/dmi/id/board_vendor"),
    ("board (DMI)", "class/dmi/id/board_name"),
    ("firmware version (DMI)", "class/dmi/id/bios_version"),
    ("processors online", "devices/system/cpu/online"),
    (
        "transparent huge pages",
        "kernel/mm/transparent_hugepage/enabled",
    ),
];
/// The lines of `/proc/cpuinfo` that are taken; some boards have their serial number in others.
const CPU_LINES: [&str; 12] = [
    "model name",
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "isa",
    "mmu",
    "uarch",
];
const MEMORY_LINES: [&str; 8] = [
    "MemTotal",
    "MemAvailable",
    "CmaTotal",
    "CmaFree",
    "HugePages_Total",
    "HugePages_Free",
    "Hugepagesize",
    "Hugetlb",
];
const LIMITS: [&str; 4] = [
    "Max locked memory",
    "Max open files",
    "Max address space",
    "Max realtime priority",
];
/// Kernel parameters are taken if their name contains one of these; others may hold secrets.
const PARAMETERS: [&str; 9] = [
    "iommu", "smmu", "pci", "nvme", "vfio", "huge", "isolcpus", "cma", "swiotlb",
];
const MODULES: [&str; 8] = [
    "nvme",
    "nvme_core",
    "vfio",
    "vfio_pci",
    "vfio_pci_core",
    "vfio_iommu_type1",
    "iommufd",
    "chario",
];
/// Lines of the kernel's log are taken if they contain one of these, in any case.
const LOG_WORDS: [&str; 14] = [
    "nvme", "vfio", "iommu", "dmar", "amd-vi", "smmu", "pcie", "aer:", "chario", "swiotlb",
    "pci 0", "pci-host", "msi", "coheren",
];
/// The newest lines of the log that are kept.
const LOG_LINES: usize = 400;
/// Records that are read at most: the kernel may add lines all the time.
const LOG_RECORDS: usize = 100_000;

/// Kernel, processor, pages, memory and the firmware's description of the board.
pub fn describe(roots: &Roots, reader: &mut Reader) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    add("architecture", std::env::consts::ARCH.to_owned());
    add("page bytes", rustix::param::page_size().to_string());
    for (name, file) in PROC_FILES {
        if let Some(text) = reader.required(&roots.proc.join(file)) {
            add(name, text);
        }
    }
    for (name, file) in SYS_FILES {
        if let Some(text) = reader.optional(&roots.sys.join(file)) {
            add(name, text);
        }
    }
    let tables = reader.names(&roots.sys.join("firmware/acpi/tables"));
    let is_table = |name: &&String| {
        name.chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    let tables: Vec<&str> = tables.iter().filter(is_table).map(String::as_str).collect();
    let has_tree = roots.sys.join("firmware/devicetree/base").exists();
    let description = match (has_tree, tables.is_empty()) {
        (true, true) => "device tree".to_owned(),
        (true, false) => format!("device tree, and ACPI: {}", tables.join(" ")),
        (false, false) => format!("ACPI: {}", tables.join(" ")),
        (false, true) => "neither device tree nor ACPI".to_owned(),
    };
    add("described by", description);
    for (file, names) in [("cpuinfo", &CPU_LINES[..]), ("meminfo", &MEMORY_LINES)] {
        let text = reader.required(&roots.proc.join(file)).unwrap_or_default();
        for (name, value) in pairs(&text, names) {
            add(&format!("{file}: {name}"), value);
        }
    }
    let sizes = reader.names(&roots.sys.join("kernel/mm/hugepages"));
    add("huge page sizes", sizes.join(" "));
    let iommus = reader.names(&roots.sys.join("class/iommu"));
    add("IOMMUs", iommus.join(" "));
    if let Some(line) = reader.required(&roots.proc.join("cmdline")) {
        add("kernel parameters", parameters(&line));
    }
    facts
}

/// The first line with each name of a file of `NAME: VALUE` lines.
fn pairs(text: &str, names: &[&str]) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let lines: Vec<(&str, &str)> = lines
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let first = |name: &&str| lines.iter().find(|(known, _)| known == name);
    let found = names.iter().filter_map(first);
    found
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The kernel parameters that concern drives, and how many others there are.
fn parameters(line: &str) -> String {
    let is_ours = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        PARAMETERS.iter().any(|part| name.contains(part))
    };
    let (ours, others): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(is_ours);
    format!("{} ({} others left out)", ours.join(" "), others.len())
}

/// The limits of this process.
pub fn limits(roots: &Roots, reader: &mut Reader) -> Vec<String> {
    let text = reader.required(&roots.proc.join("self/limits"));
    let text = text.unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| LIMITS.iter().any(|name| line.starts_with(name)));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Version and parameters of each module that is loaded or built in.
pub fn modules(roots: &Roots, reader: &mut Reader) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for name in MODULES {
        let folder = roots.sys.join("module").join(name);
        if !folder.exists() {
            continue;
        }
        let mut facts = reader.attributes(&folder, &["version", "srcversion", "taint"]);
        for parameter in reader.names(&folder.join("parameters")) {
            if let Some(value) = reader.optional(&folder.join("parameters").join(&parameter)) {
                facts.insert(format!("parameter {parameter}"), value);
            }
        }
        found.insert(name.to_owned(), facts);
    }
    found
}

/// The newest lines of the kernel's log about drives, PCIe and the IOMMU.
pub fn kernel_log(roots: &Roots, reader: &mut Reader) -> Vec<String> {
    let path = roots.dev.join("kmsg");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) => {
            reader.failed(
                path.display().to_string(),
                format!("{error}; hint: run the command as root"),
            );
            return Vec::new();
        }
    };
    let mut text = Vec::new();
    let mut record = [0_u8; 8192];
    for _ in 0..LOG_RECORDS {
        match rustix::io::read(&file, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(len) => text.extend_from_slice(record.get(..len).unwrap_or_default()),
            // A record was overwritten before it was read; the next read continues after it.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(error) => {
                reader.failed(path.display().to_string(), error.to_string());
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<String> = text.lines().filter_map(log_line).collect();
    lines.drain(..lines.len().saturating_sub(LOG_LINES));
    lines
}

/// A record of `/dev/kmsg` (`PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`) with its time in seconds,
/// if it concerns drives.
fn log_line(line: &str) -> Option<String> {
    let (head, text) = line.split_once(';')?;
    let lower = text.to_ascii_lowercase();
    // The kernel repeats its parameters, which `parameters` filters.
    let is_parameters = lower.contains("command line");
    if is_parameters || !LOG_WORDS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let time_us: u64 = head.split(',').nth(2)?.parse().ok()?;
    let (seconds, us) = (time_us / 1_000_000, time_us % 1_000_000);
    Some(format!("[{seconds}.{us:06}] {text}"))
}

/// The names of this machine's users, without those of the system.
pub fn users() -> Vec<String> {
    let mut users: Vec<String> = ["USER", "LOGNAME", "SUDO_USER"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .collect();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.extend(passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        (uid >= 1000).then(|| name.to_owned())
    }));
    // Names of the system, which say nothing about anyone and are words of the kernel's messages.
    users.retain(|name| !["root", "nobody", ""].contains(&name.as_str()));
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_about_drives_are_shown() {
        let line = "root=UUID=1234 intel_iommu=on ip=10.0.0.1 nvme_core.io_timeout=5 token=secret";
        let shown = parameters(line);
        assert_eq!(
            shown,
            "intel_iommu=on nvme_core.io_timeout=5 (3 others left out)"
        );
    }

    #[test]
    fn only_lines_about_drives_are_taken_from_the_log() {
        assert_eq!(
            log_line("6,339,5140900,-;nvme nvme0: pci function 0000:01:00.0").as_deref(),
            Some("[5.140900] nvme nvme0: pci function 0000:01:00.0")
        );
        assert_eq!(
            log_line("6,340,5140901,-;usb 1-1: SerialNumber: 1234"),
            None
        );
        assert_eq!(log_line(" SUBSYSTEM=nvme"), None);
        let line = "5,1,0,-;Kernel command line: nvme.poll_queues=1 token=secret";
        assert_eq!(log_line(line), None);
    }

    #[test]
    fn a_boards_serial_number_in_cpuinfo_is_not_taken() {
        let text = "processor : 0\nCPU part : 0xd08\nSerial : 10000000abcdef\n";
        let found = pairs(text, &CPU_LINES);
        assert_eq!(found, [("CPU part".to_owned(), "0xd08".to_owned())]);
    }
}
