// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment that the figures depend on besides the path, recorded before and after.
//!
//! A run in which a setting changed has effectively compared two machines, and is marked invalid
//! with the change as the reason. Missing files give `None`: a small board has no governor, a RAM
//! disk no PCIe link.

use crate::format::yes;
use crate::interrupts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The measured drive in `/sys`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its block device, such as `nvme0n1`.
    pub block_device: Option<String>,
    /// Its PCI function, such as `0000:01:00.0`.
    pub pci_address: Option<String>,
}

/// Settings and facts of the machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Kernel release and version.
    pub kernel: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Processors that are online.
    pub cpu_count: u32,
    /// Frequency governors in use, without duplicates.
    pub cpu_governor: Option<String>,
    /// Thermal throttling events of all cores since boot.
    pub cpu_throttle_count: Option<u64>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Whether the machine runs under a hypervisor.
    pub hypervisor: bool,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The block device's input/output scheduler.
    pub io_scheduler: Option<String>,
    /// The block device's queue length in the kernel.
    pub nr_requests: Option<u64>,
    /// Speed of the drive's PCIe link, as the kernel prints it.
    pub pcie_link_speed: Option<String>,
    /// Width of the drive's PCIe link in lanes.
    pub pcie_link_width: Option<u32>,
    /// The processors that handle the drive's interrupts, by line.
    pub interrupt_affinity: BTreeMap<String, String>,
}

/// One difference between two environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The changed setting.
    pub what: &'static str,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Change {
            what,
            before,
            after,
        } = self;
        write!(f, "{what} changed from {before} to {after} during the run")
    }
}

impl Environment {
    /// Reads the environment of this machine.
    pub fn read(subject: &Subject) -> Self {
        Self::read_under(Path::new("/"), subject)
    }

    /// Reads the environment from the `proc` and `sys` below `root`.
    pub fn read_under(root: &Path, subject: &Subject) -> Self {
        let files = Files {
            root: root.to_owned(),
        };
        let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
        let queue = |name: &str| {
            let device = subject.block_device.as_deref()?;
            files.text(&format!("sys/class/block/{device}/queue/{name}"))
        };
        let pci = files.pci_folder(subject);
        let link = |name: &str| files.text(&format!("{}/{name}", pci.as_deref()?));
        Self {
            kernel: files.kernel(),
            cpu_model: cpu_model(&cpuinfo).or_else(|| files.text("proc/device-tree/model")),
            cpu_count: files.cpu_count(),
            cpu_governor: files.governors(),
            cpu_throttle_count: files.throttle_count(),
            memory_bytes: files.memory_bytes(),
            hypervisor: has_flag(&cpuinfo, "hypervisor")
                || files.text("sys/hypervisor/type").is_some(),
            clock_source: files
                .text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            io_scheduler: queue("scheduler").map(|text| chosen(&text)),
            nr_requests: queue("nr_requests").and_then(|text| text.parse().ok()),
            pcie_link_speed: link("current_link_speed"),
            pcie_link_width: link("current_link_width").and_then(|text| text.parse().ok()),
            interrupt_affinity: files.affinity(subject),
        }
    }

    /// The differences in `after` that affect the figures.
    pub fn changes(&self, after: &Environment) -> Vec<Change> {
        let before_rows = self.rows();
        let after_rows = after.rows();
        let pairs = before_rows.into_iter().zip(after_rows);
        pairs
            .filter(|(before, after)| before.1 != after.1)
            .map(|((what, before), (_, after))| Change {
                what,
                before,
                after,
            })
            .collect()
    }

    /// Human-readable name and value of each entry.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        fn or_dash<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map_or("—".to_owned(), T::to_string)
        }
        let affinity = self.interrupt_affinity.iter();
        let affinity: Vec<String> = affinity
            .map(|(line, processors)| format!("{line}: {processors}"))
            .collect();
        let affinity = (!affinity.is_empty()).then(|| affinity.join("; "));
        let memory = self
            .memory_bytes
            .map(|bytes| format!("{} MiB", bytes >> 20));
        let lanes = self.pcie_link_width.map(|lanes| format!("x{lanes}"));
        vec![
            ("kernel", or_dash(&self.kernel)),
            ("processor", or_dash(&self.cpu_model)),
            ("processors online", self.cpu_count.to_string()),
            ("frequency governor", or_dash(&self.cpu_governor)),
            ("throttling events", or_dash(&self.cpu_throttle_count)),
            ("memory", or_dash(&memory)),
            ("hypervisor", yes(self.hypervisor)),
            ("clock source", or_dash(&self.clock_source)),
            ("block scheduler", or_dash(&self.io_scheduler)),
            ("nr_requests", or_dash(&self.nr_requests)),
            ("PCIe link speed", or_dash(&self.pcie_link_speed)),
            ("PCIe link width", or_dash(&lanes)),
            ("interrupt affinity", or_dash(&affinity)),
        ]
    }
}

/// The word in brackets of "mq-deadline [none]", or the text itself.
fn chosen(text: &str) -> String {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name")
        .or_else(|| value("Model"))
        .or_else(|| value("uarch"))
        .or_else(|| value("Hardware"))
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_ascii_whitespace().any(|word| word == flag))
}

/// Files below a root that can replace `/`.
struct Files {
    root: PathBuf,
}

impl Files {
    fn text(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn folders(&self, path: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.root.join(path));
        entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    fn kernel(&self) -> Option<String> {
        let release = self.text("proc/sys/kernel/osrelease")?;
        match self.text("proc/sys/kernel/version") {
            Some(version) => Some(format!("{release} {version}")),
            None => Some(release),
        }
    }

    /// Folders of `cpu0`, `cpu1`, ... .
    fn cpus(&self) -> impl Iterator<Item = PathBuf> {
        let folders = self.folders("sys/devices/system/cpu");
        folders.into_iter().filter(|folder| {
            let name = folder.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.strip_prefix("cpu"))
                .is_some_and(|digits| digits.parse::<u32>().is_ok())
        })
    }

    /// Counts the ranges of "0-3,6".
    fn cpu_count(&self) -> u32 {
        let online = self.text("sys/devices/system/cpu/online");
        let count = online.iter().flat_map(|text| text.split(','));
        let count = count.filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        });
        count.fold(0, u32::saturating_add)
    }

    fn governors(&self) -> Option<String> {
        let mut governors: Vec<String> = self
            .cpus()
            .filter_map(|cpu| std::fs::read_to_string(cpu.join("cpufreq/scaling_governor")).ok())
            .map(|text| text.trim().to_owned())
            .collect();
        governors.sort();
        governors.dedup();
        (!governors.is_empty()).then(|| governors.join(", "))
    }

    fn throttle_count(&self) -> Option<u64> {
        let counts = self.cpus().filter_map(|cpu| {
            let file = cpu.join("thermal_throttle/core_throttle_count");
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        });
        counts.fold(None, |sum: Option<u64>, count: u64| {
            Some(sum.unwrap_or(0).saturating_add(count))
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    }

    /// The folder of the drive's PCI function below the root.
    fn pci_folder(&self, subject: &Subject) -> Option<String> {
        if let Some(address) = &subject.pci_address {
            return Some(format!("sys/bus/pci/devices/{address}"));
        }
        let device = subject.block_device.as_deref()?;
        // With native multipath the block device's parent is a subsystem; its controller is then
        // found by name.
        let controller = controller_of(device)?;
        Some(format!("sys/class/nvme/{controller}/device"))
    }

    fn affinity(&self, subject: &Subject) -> BTreeMap<String, String> {
        let mut affinity = BTreeMap::new();
        let controller = subject.block_device.as_deref().and_then(controller_of);
        let (Some(controller), Some(text)) = (controller, self.text_untrimmed("proc/interrupts"))
        else {
            return affinity;
        };
        let is_ours = interrupts::is_nvme_queue_of(controller);
        for line in interrupts::lines(&text) {
            for action in line.actions.split(',').map(str::trim) {
                let file = format!("proc/irq/{}/smp_affinity_list", line.name);
                if let (true, Some(processors)) = (is_ours(action), self.text(&file)) {
                    affinity.insert(action.to_owned(), processors);
                }
            }
        }
        affinity
    }

    fn text_untrimmed(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }
}

/// `nvme0` of `nvme0n1` or `nvme0n1p2`.
fn controller_of(block_device: &str) -> Option<&str> {
    let digits = block_device.strip_prefix("nvme")?;
    let end = digits.find('n')?;
    (end > 0).then(|| block_device.get(..4 + end)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when it is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("measure-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn put(&self, path: &str, text: &str) {
            let file = self.0.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_is_read() {
        let root = Scratch::new("machine");
        root.put("proc/sys/kernel/osrelease", "6.1.0\n");
        root.put(
            "proc/cpuinfo",
            "model name\t: A 9\nflags\t\t: fpu hypervisor\n",
        );
        root.put("proc/meminfo", "MemTotal:       1048576 kB\n");
        root.put("sys/devices/system/cpu/online", "0-2,5\n");
        for (cpu, governor) in [(0, "performance"), (1, "powersave"), (2, "performance")] {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            root.put(&format!("{folder}/cpufreq/scaling_governor"), governor);
            root.put(
                &format!("{folder}/thermal_throttle/core_throttle_count"),
                "2\n",
            );
        }
        root.put(
            "sys/class/block/nvme0n1/queue/scheduler",
            "mq-deadline [none]\n",
        );
        root.put("sys/class/block/nvme0n1/queue/nr_requests", "1023\n");
        root.put(
            "sys/class/nvme/nvme0/device/current_link_speed",
            "8.0 GT/s PCIe\n",
        );
        root.put("sys/class/nvme/nvme0/device/current_link_width", "4\n");
        root.put(
            "proc/interrupts",
            "  CPU0 CPU1\n 25: 1 2 PCI-MSIX-0000:01:00.0 1-edge nvme0q1\n",
        );
        root.put("proc/irq/25/smp_affinity_list", "0-1\n");
        let subject = Subject {
            block_device: Some("nvme0n1p2".to_owned()),
            pci_address: None,
        };
        let partition = Environment::read_under(&root.0, &subject);
        assert_eq!(partition.pcie_link_width, Some(4));
        assert_eq!(partition.io_scheduler, None);
        let subject = Subject {
            block_device: Some("nvme0n1".to_owned()),
            pci_address: None,
        };
        let environment = Environment::read_under(&root.0, &subject);
        let affinity = [("nvme0q1".to_owned(), "0-1".to_owned())];
        let expected = Environment {
            kernel: Some("6.1.0".into()),
            cpu_model: Some("A 9".into()),
            cpu_count: 4,
            cpu_governor: Some("performance, powersave".into()),
            cpu_throttle_count: Some(6),
            memory_bytes: Some(1 << 30),
            hypervisor: true,
            clock_source: None,
            io_scheduler: Some("none".into()),
            nr_requests: Some(1023),
            pcie_link_speed: Some("8.0 GT/s PCIe".into()),
            pcie_link_width: Some(4),
            interrupt_affinity: affinity.into(),
        };
        assert_eq!(environment, expected);
    }

    #[test]
    fn a_bare_machine_is_read_as_nothing() {
        let root = Scratch::new("bare");
        let environment = Environment::read_under(&root.0, &Subject::default());
        assert_eq!(environment, Environment::default());
    }

    #[test]
    fn changes_are_named() {
        let before = Environment {
            cpu_governor: Some("performance".into()),
            pcie_link_width: Some(4),
            ..Environment::default()
        };
        let after = Environment {
            pcie_link_width: Some(2),
            ..before.clone()
        };
        assert_eq!(before.changes(&before), []);
        let changes: Vec<String> = before
            .changes(&after)
            .iter()
            .map(Change::to_string)
            .collect();
        assert_eq!(
            changes,
            ["PCIe link width changed from x4 to x2 during the run"]
        );
    }

    #[test]
    fn controllers_are_named_in_block_devices() {
        assert_eq!(controller_of("nvme12n1p3"), Some("nvme12"));
        assert_eq!(controller_of("sda"), None);
        assert_eq!(controller_of("nvmen1"), None);
    }
}
