// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for the namespaces of a controller that was given back to the kernel's driver, which finds
//! them in the background, one after another, while the next program expects them all.

use crate::Roots;
use crate::pci::{Controller, PciAddress};
use std::time::{Duration, Instant};

/// How long the kernel's driver may take.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How long a kernel may take to show character devices; before Linux 5.13 there are none.
const CHARACTER_LIMIT: Duration = Duration::from_secs(2);

/// Waits until every active namespace of the controller is shown, if it is bound to the kernel's
/// driver.
pub(crate) fn wait_for_namespaces(roots: &Roots, address: PciAddress) {
    let began = Instant::now();
    while began.elapsed() < PROBE_LIMIT {
        match Controller::at(roots, address) {
            Ok(controller) if controller.driver.as_deref() == Some("nvme") => {
                let patient = began.elapsed() < CHARACTER_LIMIT;
                if has_all(roots, &controller, patient) {
                    return;
                }
            }
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_all(roots: &Roots, controller: &Controller, with_character: bool) -> bool {
    let has_node = |name: &Option<String>| {
        let name = name.as_ref();
        name.is_some_and(|name| roots.dev.join(name).exists())
    };
    let is_shown = |nsid: u32| {
        let mut all = controller.namespaces.iter();
        let found = all.find(|one| one.nsid == Some(nsid));
        // A namespace with a format that the kernel cannot use has only a character device.
        found.is_some_and(|found| {
            let character = has_node(&found.character);
            match &found.block {
                Some(_) => has_node(&found.block) && (character || !with_character),
                None => character,
            }
        })
    };
    match asked(roots, controller) {
        Some(list) => list.into_iter().all(is_shown),
        // If the controller cannot be asked, trust the kernel's list.
        None => {
            let mut all = controller.namespaces.iter();
            all.all(|one| has_node(&one.block)) && !controller.namespaces.is_empty()
        }
    }
}

/// The active namespaces, if the controller can be asked.
#[cfg(feature = "nvme")]
fn asked(roots: &Roots, controller: &Controller) -> Option<Vec<u32>> {
    let node = roots.dev.join(controller.kernel_name.as_ref()?);
    crate::admin::active_namespaces(&std::fs::File::open(node).ok()?).ok()
}

/// Without NVMe's structures it cannot.
#[cfg(not(feature = "nvme"))]
fn asked(_: &Roots, _: &Controller) -> Option<Vec<u32>> {
    None
}
