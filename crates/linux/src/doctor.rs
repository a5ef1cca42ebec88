// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks what this machine has and lacks for each path.
//!
//! It opens no drive and changes nothing.

use crate::bind;
use crate::bridges;
use crate::coherence;
use crate::pci;
use crate::usage;
use crate::vfio::{has_groups, members};
use crate::{Roots, sysfs};
#[cfg(feature = "io-uring")]
use io_uring::IoUring;
use remedy::{Remedy, Setting, words};
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Ok,
    /// It works but could be better, or only some paths need it.
    Warning,
    /// A path cannot be used.
    Missing,
}

/// One check.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// The result.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What may fix it.
    pub hint: Option<Remedy>,
}

impl Check {
    fn new(name: impl Into<String>, state: State, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            found: found.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<Remedy>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs every check.
pub fn examine(roots: &Roots) -> Vec<Check> {
    let mut checks = vec![
        iommu(roots),
        vfio_module(roots, "vfio-pci", "bus/pci/drivers/vfio-pci"),
    ];
    if has_groups(roots) {
        checks.extend(vfio_container(roots))
    } else {
        checks.push(iommufd(roots))
    }
    checks.extend([
        locked_memory(roots),
        huge_pages(roots),
        #[cfg(feature = "io-uring")]
        io_uring(roots),
        poll_queues(roots),
    ]);
    checks.extend(controllers(roots));
    if has_groups(roots) {
        checks.extend(groups(roots))
    } else {
        checks.extend(vfio_nodes(roots))
    }
    checks.extend(stale(roots));
    checks
}

fn iommu(roots: &Roots) -> Check {
    let folder = roots.sys.join("kernel/iommu_groups");
    let groups = sysfs::names(&folder);
    if groups.is_empty() {
        return Check::new(
            "IOMMU",
            State::Missing,
            "no groups: there is none, or it is off",
        )
        .hint(
            "switch VT-d, AMD-Vi or SMMU on in the firmware and boot with intel_iommu=on; \
             or use the no-IOMMU path",
        );
    }
    let identity = |group: &&String| {
        sysfs::text(&folder.join(group).join("type")).as_deref() == Some("identity")
    };
    let untranslated = groups.iter().filter(identity).count();
    let found = format!(
        "{} groups, {untranslated} without translation",
        groups.len()
    );
    Check::new("IOMMU", State::Ok, found)
}

fn vfio_module(roots: &Roots, module: &'static str, place: &str) -> Check {
    let name = format!("module {module}");
    if roots.sys.join(place).exists() {
        Check::new(name, State::Ok, "loaded")
    } else {
        Check::new(name, State::Warning, "not loaded").hint(format!("modprobe {module}"))
    }
}

fn access(path: &Path) -> Option<bool> {
    path.exists().then(|| {
        let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
        rustix::fs::access(path, access).is_ok()
    })
}

/// Containers, and what they map memory by: which kernels without them do not have either.
fn vfio_container(roots: &Roots) -> Vec<Check> {
    let path = roots.dev.join("vfio/vfio");
    let name = path.display().to_string();
    let check = match access(&path) {
        Some(true) => Check::new(name, State::Ok, "can be opened"),
        Some(false) => Check::new(name.clone(), State::Missing, "no permission")
            .hint(format!("sudo chmod 666 {name}")),
        None => {
            let check = Check::new(name, State::Missing, "does not exist");
            return vec![check.hint("modprobe vfio-pci")];
        }
    };
    let type1 = vfio_module(roots, "vfio_iommu_type1", "module/vfio_iommu_type1");
    vec![type1, check]
}

/// What maps memory on a kernel whose VFIO has no groups.
fn iommufd(roots: &Roots) -> Check {
    owned_node(
        &roots.dev.join("iommu"),
        "VFIO's way on this kernel, by the drives' own nodes",
    )
}

/// A node that the user has to own.
fn owned_node(path: &Path, found: &str) -> Check {
    let name = path.display().to_string();
    match access(path) {
        Some(true) => Check::new(name, State::Ok, format!("can be opened: {found}")),
        _ => Check::new(
            name.clone(),
            State::Missing,
            format!("no permission: {found}"),
        )
        .hint(format!("sudo chown $USER {name}")),
    }
}

/// The groups' nodes, with the groups' members.
fn groups(roots: &Roots) -> Vec<Check> {
    let folder = roots.dev.join("vfio");
    let members = |group: &String| {
        let folder = roots.sys.join("kernel/iommu_groups").join(group);
        sysfs::names(&folder.join("devices")).join(", ")
    };
    sysfs::names(&folder)
        .iter()
        .filter(|name| name.parse::<u32>().is_ok())
        .map(|group| owned_node(&folder.join(group), &members(group)))
        .collect()
}

/// The functions' own nodes, with their addresses.
fn vfio_nodes(roots: &Roots) -> Vec<Check> {
    let folder = roots.dev.join("vfio/devices");
    let function = |name: &String| {
        let device = roots.sys.join("class/vfio-dev").join(name).join("device");
        sysfs::link_name(&device).unwrap_or_default()
    };
    sysfs::names(&folder)
        .iter()
        .map(|name| owned_node(&folder.join(name), &function(name)))
        .collect()
}

fn locked_memory(roots: &Roots) -> Check {
    let limit_bytes = getrlimit(Resource::Memlock).current;
    let status = sysfs::text(&roots.proc.join("self/status"));
    judge_locked_memory(limit_bytes, may_exceed(&status.unwrap_or_default()))
}

/// Whether the process of this `/proc/PID/status` may lock more than the limit: with CAP_IPC_LOCK
/// (capabilities(7)), which root in a container often lacks.
fn may_exceed(status: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}

fn judge_locked_memory(limit_bytes: Option<u64>, may_exceed: bool) -> Check {
    const ENOUGH_BYTES: u64 = 64 << 20;
    let name = "RLIMIT_MEMLOCK";
    match limit_bytes {
        None => Check::new(name, State::Ok, "unlimited"),
        Some(_) if may_exceed => Check::new(name, State::Ok, "does not apply with CAP_IPC_LOCK"),
        Some(bytes) if bytes >= ENOUGH_BYTES => {
            Check::new(name, State::Ok, format!("{} KiB", bytes >> 10))
        }
        Some(bytes) => {
            let found = format!("{} KiB, without CAP_IPC_LOCK", bytes >> 10);
            Check::new(name, State::Warning, found).hint(
                "ulimit -l 65536, memlock in /etc/security/limits.conf, or the capability CAP_IPC_LOCK for a container",
            )
        }
    }
}

fn huge_pages(roots: &Roots) -> Check {
    let folder = roots.sys.join("kernel/mm/hugepages/hugepages-2048kB");
    let read = |file| sysfs::number::<usize>(&folder.join(file));
    let name = "huge pages of 2 MiB";
    match (read("free_hugepages"), read("nr_hugepages")) {
        (Some(0), Some(all)) => Check::new(
            name,
            State::Warning,
            format!("0 of {all} free; only no-IOMMU needs them"),
        )
        .hint("echo 16 > /proc/sys/vm/nr_hugepages"),
        (Some(free), Some(all)) => Check::new(name, State::Ok, format!("{free} of {all} free")),
        _ => Check::new(name, State::Missing, "this kernel has none"),
    }
}

/// Asks the kernel for a small ring, which fails for whatever reason forbids one.
#[cfg(feature = "io-uring")]
fn io_uring(roots: &Roots) -> Check {
    let name = "io_uring";
    let setting = sysfs::text(&roots.proc.join("sys/kernel/io_uring_disabled"));
    match (IoUring::new(1), setting.as_deref()) {
        (Ok(_), _) => Check::new(name, State::Ok, "works"),
        (Err(_), Some(setting @ ("1" | "2"))) => {
            let found = format!("kernel.io_uring_disabled is {setting}");
            Check::new(name, State::Missing, found).hint("sysctl kernel.io_uring_disabled=0")
        }
        (Err(error), _) => Check::new(name, State::Missing, error.to_string())
            .hint("allow io_uring in the container's seccomp profile, or use a newer kernel"),
    }
}

fn poll_queues(roots: &Roots) -> Check {
    let name = "NVMe poll queues";
    let path = roots.sys.join("module/nvme/parameters/poll_queues");
    match sysfs::text(&path) {
        None => Check::new(name, State::Warning, "the module nvme is not loaded")
            .hint("modprobe nvme poll_queues=1"),
        Some(count) if count == "0" => {
            Check::new(name, State::Warning, "0: the kernel's paths cannot poll")
                .hint("boot with nvme.poll_queues=1")
        }
        Some(count) => Check::new(name, State::Ok, count),
    }
}

fn controllers(roots: &Roots) -> Vec<Check> {
    let all = pci::controllers(roots);
    if all.is_empty() {
        let found = "none on the PCI bus";
        return vec![Check::new("NVMe controllers", State::Missing, found).hint("lspci -Dnn")];
    }
    let tell = |controller: &pci::Controller| {
        let driver = controller.driver.as_deref().unwrap_or("no driver");
        let mut found = driver.to_owned();
        let parts = [
            &controller.kernel_name,
            &controller.model,
            &controller.serial,
        ];
        for part in parts.into_iter().flatten() {
            found += &format!(", {part}");
        }
        let name = format!("controller {}", controller.address);
        match usage::of_controller(roots, controller) {
            Ok(uses) if uses.is_empty() => {
                Check::new(name, State::Ok, format!("{found}; not in use"))
            }
            Ok(uses) => {
                let uses: Vec<String> = uses.iter().map(usage::Use::to_string).collect();
                Check::new(
                    name,
                    State::Warning,
                    format!("{found}; {}", uses.join("; ")),
                )
            }
            Err(error) => {
                let check = Check::new(name, State::Warning, format!("{found}; {error}"));
                match error.hint() {
                    Some(hint) => check.hint(hint),
                    None => check,
                }
            }
        }
    };
    let checks = |controller| {
        [tell(controller), coherent(roots, controller)]
            .into_iter()
            .chain(shares_group_with_port(roots, controller))
            .chain(below_a_filter(roots, controller))
    };
    all.iter().flat_map(checks).collect()
}

/// A port in the drive's group goes to VFIO with it, as for DMA: where the IOMMU also translates
/// interrupts by the group's domain (Arm's SMMU), the kernel then does not hear that the drive is
/// to be unplugged.
fn shares_group_with_port(roots: &Roots, controller: &pci::Controller) -> Option<Check> {
    let (port, _) = members(roots, controller.iommu_group?)
        .into_iter()
        .find(|(_, driver)| driver.as_deref() == Some("pcieport"))?;
    let polls = sysfs::text(&roots.sys.join("module/pciehp/parameters/pciehp_poll_mode"));
    let name = format!("hot plug {}", controller.address);
    let found = format!("its IOMMU group has its port, {port}");
    if polls.as_deref() == Some("Y") {
        return Some(Check::new(
            name,
            State::Ok,
            found + ", which the kernel polls",
        ));
    }
    let hint = "boot with pciehp.pciehp_poll_mode=1, or end what uses the drive by VFIO before it is unplugged";
    Some(
        Check::new(
            name,
            State::Warning,
            found + ": on Arm an unplugging goes unnoticed while VFIO has the drive",
        )
        .hint(hint),
    )
}

/// A bridge above that passes on none of the controller's accesses to memory: see [`bridges`].
fn below_a_filter(roots: &Roots, controller: &pci::Controller) -> Option<Check> {
    let bridge = bridges::filtering(roots, controller.address)?;
    let name = format!("bridge {bridge}");
    let found = format!(
        "bus mastering is off: it filters the memory accesses of {}",
        controller.address
    );
    Some(Check::new(name, State::Warning, found).hint(bridges::hint(bridge)))
}

/// Whether user space may drive the controller: see [`coherence`].
fn coherent(roots: &Roots, controller: &pci::Controller) -> Check {
    let name = format!("coherence {}", controller.address);
    let found = coherence::of(roots, controller.address);
    if found.is_coherent {
        Check::new(name, State::Ok, found.why)
    } else {
        Check::new(
            name,
            State::Warning,
            format!("not coherent: {}; no VFIO, no no-IOMMU", found.why),
        )
        .hint(words![
            "CharIO works: ",
            Setting::Path.to("chario"),
            "; so do the kernel's paths"
        ])
    }
}

fn stale(roots: &Roots) -> Vec<Check> {
    let tell = |(address, pid, alive): (pci::PciAddress, u32, bool)| {
        let name = format!("borrowed {address}");
        if alive {
            Check::new(
                name,
                State::Ok,
                format!("by process {pid}, which is running"),
            )
        } else {
            Check::new(
                name,
                State::Warning,
                format!("by process {pid}, which is dead"),
            )
            .hint(words!["straightway release ", remedy::Device])
        }
    };
    bind::borrowed(roots).into_iter().map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    fn state(checks: &[Check], name: &str) -> State {
        let check = checks.iter().find(|check| check.name.ends_with(name));
        check.unwrap_or_else(|| panic!("no check {name}")).state
    }

    #[test]
    fn an_empty_machine_lacks_everything_and_gives_hints() {
        let tree = Tree::new();
        let checks = examine(&tree.roots());
        assert_eq!(state(&checks, "IOMMU"), State::Missing);
        assert_eq!(state(&checks, "module vfio-pci"), State::Warning);
        assert_eq!(state(&checks, "vfio/vfio"), State::Missing);
        assert_eq!(state(&checks, "NVMe controllers"), State::Missing);
        for check in &checks {
            let bad = check.state != State::Ok && check.name != "huge pages of 2 MiB";
            assert!(!bad || check.hint.is_some(), "{check:?}");
        }
    }

    #[test]
    fn a_kernel_without_groups_is_asked_for_its_own_nodes() {
        let tree = Tree::with_drive();
        tree.file("dev/iommu", "")
            .file("dev/vfio/devices/vfio0", "");
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        tree.link("sys/class/vfio-dev/vfio0/device", device);
        let checks = examine(&tree.roots());
        assert_eq!(state(&checks, "dev/iommu"), State::Ok);
        assert_eq!(state(&checks, "devices/vfio0"), State::Ok);
        let node = checks.iter().find(|check| check.name.ends_with("vfio0"));
        assert!(node.unwrap().found.ends_with("0000:01:00.0"));
        assert!(!checks.iter().any(|check| check.name.contains("type1")));
        assert!(!checks.iter().any(|check| check.name.ends_with("vfio/vfio")));
        // Where there are both, the groups are used.
        tree.file("dev/vfio/vfio", "").file("dev/vfio/4", "");
        let checks = examine(&tree.roots());
        assert_eq!(state(&checks, "vfio/4"), State::Ok);
        assert_eq!(state(&checks, "vfio_iommu_type1"), State::Warning);
        assert!(!checks.iter().any(|check| check.name.ends_with("iommu")));
    }

    #[test]
    fn a_drive_is_reported_with_who_uses_it_and_who_borrowed_it() {
        let tree = Tree::with_drive();
        tree.file("dev/vfio/vfio", "").file("dev/vfio/4", "");
        tree.file("sys/module/nvme/parameters/poll_queues", "0\n");
        tree.file(
            "run/straightway/0000:01:00.0.borrowed",
            "straightway 1\npid 5\nstart 6\ndevice 0000:01:00.0\ndriver nvme\n",
        );
        let checks = examine(&tree.roots());
        assert_eq!(state(&checks, "controller 0000:01:00.0"), State::Ok);
        assert_eq!(state(&checks, "borrowed 0000:01:00.0"), State::Warning);
        assert_eq!(state(&checks, "NVMe poll queues"), State::Warning);
        assert_eq!(state(&checks, "vfio/4"), State::Ok);
        assert!(
            !checks
                .iter()
                .any(|check| check.name.starts_with("hot plug"))
        );
        let port = "sys/bus/pci/devices/0000:00:05.0";
        tree.link("sys/kernel/iommu_groups/4/devices/0000:00:05.0", port);
        tree.link(&format!("{port}/driver"), "sys/bus/pci/drivers/pcieport");
        for (polls, expected) in [("N", State::Warning), ("Y", State::Ok)] {
            tree.file("sys/module/pciehp/parameters/pciehp_poll_mode", polls);
            let checks = examine(&tree.roots());
            assert_eq!(state(&checks, "hot plug 0000:01:00.0"), expected);
        }
        tree.file("proc/self/mountinfo", "9 1 259:0 / /x rw - xfs /dev/y rw\n");
        let checks = examine(&tree.roots());
        assert_eq!(state(&checks, "controller 0000:01:00.0"), State::Warning);
    }

    #[test]
    fn root_without_the_capability_has_the_limit() {
        // The default set of a container's root: without CAP_IPC_LOCK.
        let container = may_exceed("Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n");
        let host = may_exceed("CapPrm:\t0\nCapEff:\t000001ffffffffff\n");
        assert_eq!((container, host, may_exceed("")), (false, true, false));
        for (limit, may, expected) in [
            (Some(8 << 20), false, State::Warning),
            (Some(8 << 20), true, State::Ok),
            (Some(64 << 20), false, State::Ok),
            (None, false, State::Ok),
        ] {
            assert_eq!(
                judge_locked_memory(limit, may).state,
                expected,
                "{limit:?} {may}"
            );
        }
    }
}
