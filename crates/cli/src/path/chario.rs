//! The path through CharIO's driver.

use crate::failure::{Failure, Result};
use crate::guard::{FunctionLock, Grant};
use crate::path::borrow::Loan;
use crate::path::held::{Ends, Held};
use crate::path::memory::Memory;
use crate::path::{Mode, Opened, Wish, namespace_of};
use linux::pci::{Controller, Namespace};
use linux::resolve::Resolved;
use linux::{Chario, CharioOptions, HostMemory, Roots, admin, bind};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens it. A drive that is at its device already is used as it is; any other is borrowed.
///
/// # Errors
/// What is missing or refused.
pub fn open(roots: &Roots, grant: &Grant, resolved: &Resolved, wish: &Wish) -> Result<Opened> {
    let (poll, name) = match wish.mode {
        None | Some(Mode::Interrupt) => (false, "chario, interrupt"),
        Some(Mode::Poll) => (true, "chario, poll"),
        Some(Mode::Hybrid) => {
            return Err(Failure::unsupported("CharIO has no hybrid waiting")
                .hint("--mode poll, or --mode interrupt"));
        }
    };
    if let Some(partition) = &resolved.partition {
        return Err(Failure::unsupported(format!(
            "{partition} is a partition, and CharIO knows whole namespaces only"
        ))
        .hint("--path io_uring, or name the namespace"));
    }
    let namespace = namespace_of(resolved, wish.namespace)?;
    // Whoever borrows it gives it back at the end, which would take it from others.
    let lock = match resolved.controller.driver.as_deref() {
        Some(bind::CHARIO) => None,
        _ => Some(FunctionLock::take(roots, resolved)?),
    };
    let memory = HostMemory::new(wish.buffer_bytes)?;
    let options = CharioOptions {
        poll,
        registered: None,
    };
    refuse_unusable(roots, resolved, namespace)?;
    let loan = borrow(roots, resolved)?;
    let device = Held::open(loan.clone(), || {
        let node = roots.dev.join(node(roots, resolved, namespace)?);
        let claim = grant.claim(roots, &node, wish.write)?;
        Ok(Chario::open(&claim, &options)?)
    });
    match device {
        Ok(device) => Ok(Opened {
            device: Box::new(device),
            memory: Memory::Host(memory),
            name: name.to_owned(),
            rig: None,
            loan,
            _lock: lock,
            told_serial: None,
        }),
        Err(failure) => {
            loan.end()?;
            Err(failure)
        }
    }
}

/// Refuses a namespace that CharIO's driver would leave alone, while the kernel's driver has it and
/// can be asked why.
fn refuse_unusable(roots: &Roots, resolved: &Resolved, namespace: Option<u32>) -> Result<()> {
    let shown = resolved.controller.namespaces.as_slice();
    let namespace = match (namespace, shown) {
        (None, [only]) => only.nsid,
        (namespace, _) => namespace,
    };
    let controller = resolved.controller_path(roots);
    let (Some(namespace), Some(controller)) = (namespace, controller) else {
        return Ok(());
    };
    // Without the right to ask, borrowing fails too, and says so.
    let Ok(file) = File::open(controller) else {
        return Ok(());
    };
    let failed = |error| Failure::request("identifying the namespace", error);
    let list = admin::descriptors(&file, namespace).map_err(failed)?;
    nvme::check_command_set(namespace, &list[..])?;
    let page = admin::identify_namespace(&file, namespace).map_err(failed)?;
    nvme::NamespaceInfo::parse(namespace, &page[..])?;
    Ok(())
}

/// The drive for CharIO's driver; nothing is borrowed where it has it already.
///
/// # Errors
/// It is in use, or cannot be bound.
pub fn borrow(roots: &Roots, resolved: &Resolved) -> Result<Option<Arc<Loan>>> {
    let controller = Controller::at(roots, resolved.controller.address)?;
    match controller.driver.as_deref() {
        Some(bind::CHARIO) => Ok(None),
        _ => Ok(Some(Arc::new(Loan::of_chario(roots, controller.address)?))),
    }
}

/// The name of the namespace's device, once CharIO's driver has the controller.
///
/// # Errors
/// The driver shows none.
pub fn node(roots: &Roots, resolved: &Resolved, namespace: Option<u32>) -> Result<PathBuf> {
    let controller = Controller::at(roots, resolved.controller.address)?;
    let is_it = |one: &&Namespace| one.nsid.is_some() && one.nsid == namespace;
    let found = match (namespace, controller.namespaces.as_slice()) {
        (None, [only]) => Some(only),
        (None, [_, ..]) => {
            return Err(
                Failure::usage(format!("{} has several namespaces", controller.address))
                    .hint("--namespace N"),
            );
        }
        (_, all) => all.iter().find(is_it),
    };
    let name = found.and_then(|one| one.chario.as_ref()).ok_or_else(|| {
        Failure::missing(format!(
            "CharIO's driver shows no such namespace of {}",
            controller.address
        ))
        .hint("dmesg tells which namespaces it left alone, and why")
    })?;
    Ok(PathBuf::from(name))
}
