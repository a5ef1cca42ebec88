// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands and interrupts, counted at the drive.
//!
//! Commands are those that the drive itself counts in its health log: of all namespaces, after any
//! splitting or merging. Reading the log is an admin command, which counts neither as a read nor as
//! an interrupt of an I/O queue.

use devices::path::handle::ControllerHandle;
use devices::path::kernel::Nodes;
use linux::disk::Disk;
use linux::{Roots, admin};
use measure::{Counters, interrupts};
use nvme::Smart;

/// Counters from the drive's log and the interrupt lines; without lines the reason.
fn counters(smart: &Smart, interrupts: Option<u64>, why: &str) -> Counters {
    Counters {
        read_commands: u64::try_from(smart.host_read_commands).ok(),
        write_commands: u64::try_from(smart.host_write_commands).ok(),
        interrupts,
        reason: interrupts.is_none().then(|| why.to_owned()),
    }
}

const NO_LINES: &str = "the driver has no interrupt lines";

/// The counters of a disk that has no health log of NVMe: the commands that the kernel's block
/// layer completed.
pub(super) fn of_disk(disk: &Disk) -> Counters {
    let completed = disk.completed();
    Counters {
        read_commands: completed.map(|(reads, _)| reads),
        write_commands: completed.map(|(_, writes)| writes),
        interrupts: disk
            .interrupt()
            .and_then(|name| interrupts_of(|action| action.starts_with(&name))),
        reason: Some(
            "the kernel's block layer counted the commands, a flush as a write".to_owned(),
        ),
    }
}

/// The counters while the kernel's driver holds the drive.
pub(super) fn of_kernel(nodes: &Nodes) -> Counters {
    let Some(controller) = &nodes.controller else {
        return Counters::uncounted("the drive has no controller");
    };
    let smart = match admin::smart_of(&controller.path) {
        Ok(smart) => smart,
        Err(error) => return Counters::uncounted(error.to_string()),
    };
    let (is_queue, admin) = (
        interrupts::is_nvme_queue_of(&controller.name),
        format!("{}q0", controller.name),
    );
    let interrupts = interrupts_of(|action| is_queue(action) && action != admin);
    counters(&smart, interrupts, NO_LINES)
}

/// The counters while this process drives the controller; `address` is its PCI address if it has
/// one.
pub(super) fn of_handle(
    handle: &dyn ControllerHandle,
    address: Option<&str>,
    polls: bool,
) -> Counters {
    let smart = match handle.smart() {
        Ok(smart) => smart,
        Err(failure) => return Counters::uncounted(failure.to_string()),
    };
    let counted = address.and_then(|address| interrupts_of(interrupts::is_vfio_of(address)));
    let interrupts = match (counted, polls) {
        // A polled queue has its vector disabled, and then it has no line.
        (None, true) => Some(0),
        (counted, _) => counted,
    };
    counters(&smart, interrupts, "the drive's interrupts have no line")
}

/// The counters while CharIO holds the drive; `name` is for example `chardisk0n1`.
pub(super) fn of_chario(roots: &Roots, name: &str) -> Counters {
    let log = roots.sys.join("class/chario").join(name).join("health_log");
    let page = std::fs::read(&log).ok();
    let Some(page) = page.filter(|page| page.len() == nvme::SMART_BYTES) else {
        return Counters::uncounted(format!("{} cannot be read", log.display()));
    };
    // chardisk0n1 is a namespace of the controller whose lines are chario0q1, chario0q2, ...
    let instance = name
        .trim_start_matches("chardisk")
        .split('n')
        .next()
        .unwrap_or_default();
    let controller = format!("chario{instance}");
    let interrupts = interrupts_of(interrupts::is_nvme_queue_of(&controller));
    counters(&Smart::parse(&page), interrupts, NO_LINES)
}

fn interrupts_of(matches: impl Fn(&str) -> bool) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/interrupts").ok()?;
    interrupts::count(&text, matches)
}
