// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway bind DEVICE`: binds a drive to vfio-pci, to CharIO or to no driver, until
//! `release`.

use crate::Context;
use crate::exit::Exit;
use clap::{Args, ValueEnum};
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{Error, Result};
use linux::bind;
use linux::pci::Controller;
use linux::resolve::Resolved;
use schemars::JsonSchema;
use serde::Serialize;

/// Take a drive from its kernel driver until `release`.
#[derive(Clone, Debug, Args)]
pub struct Bind {
    /// The drive
    pub device: String,
    /// The driver to give it to
    #[arg(long, value_enum, default_value = "vfio-pci")]
    pub driver: Driver,
    /// Check everything, but change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The driver that a drive is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// VFIO, for the path behind an IOMMU
    VfioPci,
    /// CharIO, which presents the drive as /dev/chardiskXnY
    Chario,
    /// No driver, for the path without an IOMMU
    None,
}

/// The result of `bind` and `release`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bound {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The controller's PCI address.
    pub pci_address: String,
    /// The driver that it is bound to now.
    pub driver: Option<String>,
    /// The driver that it was bound to before.
    pub driver_before: Option<String>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

impl Bound {
    /// Prints the result.
    ///
    /// # Errors
    /// Standard output was closed.
    pub fn tell(&self, context: &Context, json: bool) -> Result<Exit> {
        if json {
            context.console.json(self)?;
            return Ok(Exit::Done);
        }
        let name = |driver: &Option<String>| driver.clone().unwrap_or_else(|| "no driver".into());
        let went = if self.dry_run { "would go" } else { "went" };
        context.say(format_args!(
            "{} {went} from {} to {}",
            self.pci_address,
            name(&self.driver_before),
            name(&self.driver)
        ));
        Ok(Exit::Done)
    }
}

/// Finds the NVMe controller that `device` names; other kinds of devices have no driver.
///
/// # Errors
/// The device is not an NVMe controller.
pub fn controller_of(context: &Context, device: &str) -> Result<Resolved> {
    match Drive::find_and_say(context, device)? {
        Drive::Nvme(resolved) => Ok(*resolved),
        other => Err(Error::usage(format!("{other} has no driver"))),
    }
}

impl Bind {
    /// Runs the verb.
    ///
    /// # Errors
    /// The drive is in use, or cannot be bound.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let resolved = controller_of(context, &self.device)?;
        let (roots, address) = (&context.roots, resolved.controller.address);
        let before = resolved.controller.driver.clone();
        let wanted = match self.driver {
            Driver::VfioPci => Some(bind::VFIO_PCI.to_owned()),
            Driver::Chario => Some(bind::CHARIO.to_owned()),
            Driver::None => None,
        };
        let mut bound = Bound {
            schema_version: SCHEMA_VERSION,
            pci_address: address.to_string(),
            driver: wanted,
            driver_before: before.clone(),
            dry_run: self.dry_run,
        };
        if bind::is_kept(roots, address) {
            if before == bound.driver {
                return bound.tell(context, self.json);
            }
            return Err(
                Error::missing(format!("{address} is already bound to another driver"))
                    .hint(format!("straightway release {address}")),
            );
        }
        if self.dry_run {
            linux::can_be_taken(roots, &resolved.controller)?;
            if self.driver == Driver::VfioPci && resolved.controller.iommu_group.is_none() {
                let device = address.to_string();
                return Err(linux::Error::NoIommu { device }.into());
            }
            return bound.tell(context, self.json);
        }
        let binding = match self.driver {
            Driver::VfioPci => bind::to_vfio(roots, address)?,
            Driver::Chario => bind::to_chario(roots, address)?,
            Driver::None => bind::to_nothing(roots, address)?,
        };
        binding.keep()?;
        bound.driver = Controller::at(roots, address)?.driver;
        bound.tell(context, self.json)
    }
}
