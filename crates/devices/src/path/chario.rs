// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path through CharIO's driver.

use crate::error::{Error, Result};
use crate::guard::{FunctionLock, Grant};
use crate::path::borrow::Loan;
use crate::path::held::{Ends, Held};
use crate::path::memory::Memory;
use crate::path::{OpenOptions, Opened, namespace_of, refuse_partition};
use linux::chario::{Window, windows};
use linux::pci::{Controller, Namespace};
use linux::resolve::Resolved;
use linux::{Chario, CharioOptions, Claim, HostMemory, Roots, admin, bind};
use paths::{Carrier, PathKind};
use remedy::{Setting, Value};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffers begin at multiples of this.
const PAGE_BYTES: u64 = 4096;

/// Opens the path. A drive that is already bound to CharIO is used as it is; any other is borrowed.
///
/// # Errors
/// Something is missing or refused.
pub fn open(
    roots: &Roots,
    grant: &Grant,
    resolved: &Resolved,
    kind: &PathKind,
    options: &OpenOptions,
) -> Result<Opened> {
    refuse_partition(resolved, "CharIO supports")?;
    let nsid = namespace_of(resolved, options.namespace)?;
    // Borrowing would return the drive at the end and take it from other users.
    let lock = match resolved.controller.driver.as_deref() {
        Some(bind::CHARIO) => None,
        _ => Some(FunctionLock::take(roots, resolved)?),
    };
    let memory = HostMemory::new(options.buffer_bytes)?;
    refuse_unusable(roots, resolved, nsid)?;
    let loan = borrow(roots, resolved)?;
    let opened = node(roots, resolved, nsid).and_then(|node| {
        let path = roots.dev.join(&node);
        let claim = grant.claim(roots, &path, options.write)?;
        let place = window_place(options.window, memory.len_bytes() as u64);
        open_node(roots, &node, &claim, kind, loan.clone(), memory, place)
    });
    match opened {
        Ok(mut opened) => {
            opened.owner.loan = loan;
            opened.owner.lock = lock;
            Ok(opened)
        }
        Err(failure) => {
            loan.end()?;
            Err(failure)
        }
    }
}

/// Opens a namespace's device, which holds the loan. Without registered memory or a window, buffers
/// are ordinary memory.
///
/// # Errors
/// Something is missing or refused.
pub fn open_node(
    roots: &Roots,
    node: &Path,
    claim: &Claim,
    kind: &PathKind,
    loan: Option<Arc<Loan>>,
    memory: HostMemory,
    place: WindowPlace,
) -> Result<Opened> {
    let is_registered = kind.carrier == Carrier::CharioRegistered;
    let options = CharioOptions {
        poll: kind.polls(),
        registered: is_registered.then(|| memory.clone()),
    };
    let mut buffers = Memory::Host(memory.clone());
    let device = Held::open(loan, || {
        if kind.carrier != Carrier::CharioWindow {
            return Ok(Chario::open(claim, &options)?);
        }
        let window = window(roots, node, place)?;
        let (device, memory) = Chario::open_window(claim, &options, window)?;
        buffers = Memory::Host(memory);
        Ok(device)
    })?;
    Ok(Opened::new(kind, Box::new(device), buffers))
}

/// Where buffers in a window begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPlace {
    /// In any window with so many bytes.
    Any(u64),
    /// At this physical address.
    At(u64),
}

/// The place that the options name, or any with room for the buffers.
fn window_place(address: Option<u64>, buffer_bytes: u64) -> WindowPlace {
    address.map_or(WindowPlace::Any(buffer_bytes), WindowPlace::At)
}

/// Finds a granted window of physical memory, or the rest of one from an address on.
fn window(roots: &Roots, node: &Path, place: WindowPlace) -> Result<Window> {
    let mut all = windows(roots, &node.to_string_lossy()).into_iter();
    let (found, what) = match place {
        WindowPlace::Any(needed) => (
            all.find(|window| window.length_bytes >= needed),
            format!("no window of {needed} bytes of physical memory is granted"),
        ),
        WindowPlace::At(address) if address % PAGE_BYTES != 0 => {
            return Err(Error::usage(format!(
                "{address:#x} is not the address of a page of 4 KiB"
            )));
        }
        WindowPlace::At(address) => (
            all.find_map(|window| rest_of(window, address)),
            format!("no granted window contains the physical address {address:#x}"),
        ),
    };
    found.ok_or_else(|| {
        Error::unsupported(what)
            .hint("boot with memmap=64M$0x20000000, then: insmod chario.ko windows=0x20000000:64M")
    })
}

/// The part of a window from `address` on.
fn rest_of(window: Window, address: u64) -> Option<Window> {
    let skipped = address.checked_sub(window.address)?;
    let length_bytes = window.length_bytes.checked_sub(skipped)?;
    (length_bytes > 0).then_some(Window {
        address,
        length_bytes,
    })
}

/// Refuses a namespace that CharIO's driver would not accept, while the kernel's driver holds it
/// and can report the reason.
fn refuse_unusable(roots: &Roots, resolved: &Resolved, nsid: Option<u32>) -> Result<()> {
    let shown = resolved.controller.namespaces.as_slice();
    let nsid = match (nsid, shown) {
        (None, [only]) => only.nsid,
        (nsid, _) => nsid,
    };
    let controller = resolved.controller_path(roots);
    let (Some(nsid), Some(controller)) = (nsid, controller) else {
        return Ok(());
    };
    // Without the permission to query, borrowing fails too, with an error.
    let Ok(file) = File::open(controller) else {
        return Ok(());
    };
    let failed = |error| Error::request("identifying the namespace", error);
    let list = admin::descriptors(&file, nsid).map_err(failed)?;
    nvme::check_command_set(nsid, &list[..])?;
    let page = admin::identify_namespace(&file, nsid).map_err(failed)?;
    nvme::NamespaceInfo::parse(nsid, &page[..])?;
    Ok(())
}

/// Borrows the drive for CharIO's driver, unless it is already bound to it.
///
/// # Errors
/// The drive is in use, or cannot be bound.
pub fn borrow(roots: &Roots, resolved: &Resolved) -> Result<Option<Arc<Loan>>> {
    let controller = Controller::at(roots, resolved.controller.address)?;
    match controller.driver.as_deref() {
        Some(bind::CHARIO) => Ok(None),
        _ => Ok(Some(Arc::new(Loan::new(
            roots,
            controller.address,
            bind::to_chario,
        )?))),
    }
}

/// The name of the namespace's device, once the controller is bound to CharIO.
///
/// # Errors
/// The driver has no such device.
pub fn node(roots: &Roots, resolved: &Resolved, nsid: Option<u32>) -> Result<PathBuf> {
    let controller = Controller::at(roots, resolved.controller.address)?;
    let is_it = |one: &&Namespace| one.nsid.is_some() && one.nsid == nsid;
    let found = match (nsid, controller.namespaces.as_slice()) {
        (None, [only]) => Some(only),
        (None, [_, ..]) => {
            return Err(
                Error::usage(format!("{} has several namespaces", controller.address))
                    .hint(Setting::Namespace.to(Value::choice("N"))),
            );
        }
        (_, all) => all.iter().find(is_it),
    };
    let name = found.and_then(|one| one.chario.as_ref()).ok_or_else(|| {
        Error::missing(format!(
            "CharIO's driver has no such namespace of {}",
            controller.address
        ))
        .hint("dmesg shows which namespaces it ignored, and why")
    })?;
    Ok(PathBuf::from(name))
}
