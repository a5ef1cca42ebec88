// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway release DEVICE`: returns a drive to the driver that it had.

use crate::Context;
use crate::exit::Exit;
use crate::verbs::bind::{Bound, controller_of};
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::{Error, Result};
use linux::pci::PciAddress;

/// Return a drive to the driver that it had.
#[derive(Clone, Debug, Args)]
pub struct Release {
    /// The drive
    pub device: String,
    /// Change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Release {
    /// Runs the verb.
    ///
    /// # Errors
    /// A running process uses the drive, or its driver does not accept it.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let resolved = controller_of(context, &self.device)?;
        let (roots, address) = (&context.roots, resolved.controller.address);
        let before = resolved.controller.driver.clone();
        let owner = linux::bind::borrowed(roots);
        let owner = owner.iter().find(|(of, ..)| *of == address);
        let mut bound = Bound {
            schema_version: SCHEMA_VERSION,
            pci_address: address.to_string(),
            driver: before.clone(),
            driver_before: before.clone(),
            dry_run: self.dry_run,
        };
        match owner {
            // Drives of crashed processes were returned when this run began.
            None if before.as_deref() == Some("nvme") => {}
            None => {
                return Err(Error::missing(format!(
                    "straightway did not bind {address} to {}",
                    before.as_deref().unwrap_or("no driver")
                ))
                .hint(by_hand(address, before.as_deref())));
            }
            Some((_, pid, true)) if !linux::bind::is_kept(roots, address) => {
                let (device, pid) = (address.to_string(), *pid);
                return Err(linux::Error::Owned { device, pid }.into());
            }
            Some(_) if self.dry_run => {}
            Some(_) => {
                if let Some(name) = vfio_user(context, address) {
                    return Err(Error::missing(format!("{address} is open in {name}"))
                        .hint("end that process first"));
                }
                let restored = linux::bind::release_kept(roots, address)?;
                bound.driver = restored.and_then(|restored| restored.driver);
            }
        }
        bound.tell(context, self.json)
    }
}

/// The shell commands that undo a manual binding.
fn by_hand(address: PciAddress, driver: Option<&str>) -> String {
    let mut words = format!("echo > /sys/bus/pci/devices/{address}/driver_override; ");
    if let Some(driver) = driver {
        words += &format!("echo {address} > /sys/bus/pci/drivers/{driver}/unbind; ");
    }
    words + &format!("echo {address} > /sys/bus/pci/drivers_probe")
}

/// The process that has the function open by VFIO: unbinding it would wait for that process
/// indefinitely.
fn vfio_user(context: &Context, address: PciAddress) -> Option<String> {
    let nodes = linux::vfio::nodes(&context.roots, address);
    let processes = std::fs::read_dir(&context.roots.proc).ok()?;
    for process in processes.flatten() {
        let files = std::fs::read_dir(process.path().join("fd"));
        for file in files.into_iter().flatten().flatten() {
            if std::fs::read_link(file.path()).is_ok_and(|target| nodes.contains(&target)) {
                return Some(format!("process {}", process.file_name().to_string_lossy()));
            }
        }
    }
    None
}
