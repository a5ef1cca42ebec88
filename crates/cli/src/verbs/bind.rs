//! `straightway bind DEVICE`: from its kernel driver to vfio-pci, to CharIO or to none, until
//! `release`.

use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::{Context, SCHEMA_VERSION};
use clap::{Args, ValueEnum};
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
    /// Check everything and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Whom a drive is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// VFIO, for the path behind an IOMMU
    VfioPci,
    /// CharIO's, which shows the drive as /dev/chardiskXnY
    Chario,
    /// No driver, for the path without an IOMMU
    None,
}

/// What was done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Bound {
    /// Version of this form: 2.
    pub schema_version: u32,
    /// The controller's PCI address.
    pub pci_address: String,
    /// The driver that it has now.
    pub driver: Option<String>,
    /// The driver that it had before.
    pub driver_before: Option<String>,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

impl Bound {
    /// Tells it.
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

/// The NVMe controller that `device` names; the other kinds have no driver.
///
/// # Errors
/// It is none.
pub fn controller_of(context: &Context, device: &str) -> Result<Resolved> {
    match Drive::find_and_say(&context.roots, device, &context.console)? {
        Drive::Nvme(resolved) => Ok(*resolved),
        other => Err(Failure::usage(format!("{other} has no driver"))),
    }
}

impl Bind {
    /// Runs it.
    ///
    /// # Errors
    /// The drive is in use, or does not bind.
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
                Failure::missing(format!("{address} is kept at another driver"))
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
