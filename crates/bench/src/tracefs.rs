// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's events, through a separate instance of tracefs.
//!
//! An instance has its own buffer and switches, so no other tracing is disturbed; it is removed at
//! the end, which disables all its events.

use super::OrMissing;
use devices::error::{Error, Result};
use linux::Roots;
use measure::Missing;
use measure::trace::events::{Whose, parse};
use measure::trace::{Probe, Recorded, Sees};
use std::fs;
use std::path::{Path, PathBuf};

/// Kilobytes of events per processor.
const BUFFER_KB: &str = "8192";

/// An instance of tracefs that records one thread's requests.
#[derive(Debug)]
pub struct Tracefs {
    instance: PathBuf,
    whose: Whose,
    commands: Commands,
}

/// Whose events tell when a command is submitted and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commands {
    /// The NVMe driver's.
    OfNvme,
    /// The block layer's, for a device that is not an NVMe namespace.
    OfBlockLayer,
    /// There are none.
    Unseen,
}

impl Commands {
    const fn events(self) -> &'static [&'static str] {
        match self {
            Commands::OfNvme => &["nvme/nvme_setup_cmd", "nvme/nvme_complete_rq"],
            Commands::OfBlockLayer => &["block/block_rq_issue", "block/block_rq_complete"],
            Commands::Unseen => &[],
        }
    }
}

impl Tracefs {
    /// Makes an instance for the calling thread. Without events of commands it records only system
    /// calls, interrupts and sleeps.
    ///
    /// # Errors
    /// tracefs, permission or an event is missing.
    pub fn new(roots: &Roots, whose: Whose, commands: Commands) -> Result<Self> {
        let root = roots.sys.join("kernel/tracing");
        if let Err(error) = fs::read_dir(&root) {
            if error.kind() == std::io::ErrorKind::PermissionDenied {
                let what = format!(
                    "no permission to read the kernel's events in {}",
                    root.display()
                );
                return Err(Error::missing(what).hint("run it as root"));
            }
        }
        if !root.join("events").exists() {
            return Err(Error::missing(format!(
                "the kernel's events are not available: {} is empty",
                root.display()
            ))
            .hint(format!("as root: mount -t tracefs none {}", root.display())));
        }
        let instance = root.join(format!("instances/straightway-{}", std::process::id()));
        fs::create_dir(&instance).map_err(|error| failed("making", &instance, &error))?;
        let this = Self {
            instance,
            whose,
            commands,
        };
        this.switch_on()?;
        Ok(this)
    }

    fn switch_on(&self) -> Result<()> {
        let pid = self.whose.pid;
        self.put("trace_clock", "mono")?;
        self.put("buffer_size_kb", BUFFER_KB)?;
        let call = format!("common_pid == {pid}");
        let wake = format!("pid == {pid}");
        let switch = format!("prev_pid == {pid} || next_pid == {pid}");
        let mut events = vec![
            ("raw_syscalls/sys_enter", Some(&call)),
            ("raw_syscalls/sys_exit", Some(&call)),
            ("irq/irq_handler_entry", None),
            ("sched/sched_waking", Some(&wake)),
            ("sched/sched_switch", Some(&switch)),
        ];
        events.extend(self.commands.events().iter().map(|event| (*event, None)));
        for (event, filter) in events {
            let folder = self.instance.join("events").join(event);
            if !folder.exists() {
                return Err(
                    Error::unsupported(format!("this kernel has no event {event}"))
                        .hint("a kernel with CONFIG_FTRACE_SYSCALLS and the nvme driver's events"),
                );
            }
            if let Some(filter) = filter {
                self.put(&format!("events/{event}/filter"), filter)?;
            }
            self.put(&format!("events/{event}/enable"), "1")?;
        }
        self.put("tracing_on", "0")
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let file = self.instance.join(name);
        fs::write(&file, text).map_err(|error| failed("writing", &file, &error))
    }

    /// Number of events lost because the buffer was full.
    fn lost(&self) -> u64 {
        let folders = fs::read_dir(self.instance.join("per_cpu"));
        let stats = folders.into_iter().flatten().flatten().filter_map(|cpu| {
            let text = fs::read_to_string(cpu.path().join("stats")).ok()?;
            let count = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                line.trim().parse::<u64>().ok()
            };
            Some(count("overrun:").unwrap_or(0) + count("dropped events:").unwrap_or(0))
        });
        stats.sum()
    }
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::io(doing, path, error).hint("run it as root, on a kernel with tracefs")
}

impl Probe for Tracefs {
    fn start(&mut self) -> std::result::Result<(), Missing> {
        // Writing to it empties the buffer.
        self.put("trace", "").or_missing()?;
        self.put("tracing_on", "1").or_missing()
    }

    fn stop(&mut self) -> std::result::Result<Recorded, Missing> {
        self.put("tracing_on", "0").or_missing()?;
        let file = self.instance.join("trace");
        let text = fs::read(&file)
            .map_err(|error| failed("reading", &file, &error))
            .or_missing()?;
        Ok(Recorded {
            events: parse(&String::from_utf8_lossy(&text), &self.whose),
            marks: Vec::new(),
            lost: self.lost(),
        })
    }

    fn sees(&self) -> Sees {
        match self.commands {
            Commands::Unseen => Sees::Calls,
            _ => Sees::Commands,
        }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = self.put("tracing_on", "0");
        // A remaining instance only costs memory; its name identifies its owner.
        let _ = fs::remove_dir(&self.instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use devices::error::ErrorKind;

    fn whose() -> Whose {
        Whose {
            pid: 1,
            interrupt: "nvme0q".into(),
            device: "nvme0".into(),
        }
    }

    #[test]
    fn a_kernel_without_tracefs_or_without_an_event_is_told_apart_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("tracefs-{}", std::process::id()));
        let root = folder.join("sys/kernel/tracing");
        fs::create_dir_all(&root).unwrap();
        let roots = Roots::under(&folder);
        let none = Tracefs::new(&roots, whose(), Commands::OfNvme).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::Missing);
        assert!(
            none.remedy()
                .is_some_and(|hint| hint.to_string().contains("mount -t tracefs"))
        );
        fs::create_dir_all(root.join("events")).unwrap();
        fs::create_dir_all(root.join("instances")).unwrap();
        // The folder that replaces tracefs has no events, as on a kernel without them.
        let lacks = Tracefs::new(&roots, whose(), Commands::OfNvme).unwrap_err();
        assert_eq!(lacks.kind(), ErrorKind::Unsupported);
        assert!(
            lacks
                .to_string()
                .contains("no event raw_syscalls/sys_enter"),
            "{lacks}"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
