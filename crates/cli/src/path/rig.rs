//! An opened controller, whatever it is made of: a VFIO function, one without an IOMMU, a model.

use crate::failure::{Failure, Result};
use crate::path::memory::Memory;
use block::Device;
use nvme::{
    Capabilities, CompletionMode, ControllerInfo, ErrorEntry, FirmwareSlots, NamespaceInfo, Smart,
};

/// What a controller can do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What its register CAP says.
    pub capabilities: Capabilities,
    /// The specification's version, as register VS has it.
    pub version: u32,
    /// The longest transfer of one command.
    pub max_transfer_bytes: usize,
    /// Interrupt vectors in use.
    pub interrupt_vectors: u16,
}

/// An enabled controller that is ours.
pub trait Rig {
    /// What it is: `vfio`, `noiommu` or `model`.
    fn name(&self) -> &'static str;

    /// What the controller says of itself.
    fn info(&self) -> &ControllerInfo;

    /// What it can do.
    ///
    /// # Errors
    /// It was closed.
    fn limits(&self) -> Result<Limits>;

    /// Whether a queue can be waited for.
    fn has_interrupts(&self) -> bool;

    /// The active namespaces.
    ///
    /// # Errors
    /// What the controller answered; of the following too.
    fn namespaces(&self) -> Result<Vec<u32>>;

    /// One namespace.
    ///
    /// # Errors
    /// It is not there or cannot be used.
    fn namespace(&self, nsid: u32) -> Result<NamespaceInfo>;

    /// Health and counters.
    ///
    /// # Errors
    /// What the controller answered.
    fn smart(&self) -> Result<Smart>;

    /// The error log, newest first.
    ///
    /// # Errors
    /// What the controller answered.
    fn error_log(&self) -> Result<Vec<ErrorEntry>>;

    /// The firmware slots.
    ///
    /// # Errors
    /// What the controller answered.
    fn firmware_slots(&self) -> Result<FirmwareSlots>;

    /// Whether the machine wants the controller back: it is being unplugged or unbound, and the kernel
    /// waits until it is closed.
    fn is_recalled(&self) -> bool;

    /// What buffers are taken from.
    fn memory(&self) -> &Memory;

    /// Opens a queue on a namespace. It must be dropped before the rig is closed.
    ///
    /// # Errors
    /// There is no such namespace, no queue left, or no interrupt.
    fn open_queue(&self, nsid: u32, mode: CompletionMode) -> Result<Box<dyn Device>>;

    /// Shuts the drive down and gives it back to its driver.
    ///
    /// # Errors
    /// The driver could not be given back.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Tells whether the machine wants an open drive back, which I/O alone reports at the next request only.
/// Paths through a driver of the kernel never do: no one waits for their descriptors.
#[derive(Clone, Copy)]
pub struct Recall<'r>(pub(super) Option<&'r dyn Rig>);

impl Recall<'_> {
    /// Whether the drive is to be closed now. Costs a load, so it can be asked in a loop.
    pub fn is_requested(self) -> bool {
        self.0.is_some_and(Rig::is_recalled)
    }
}

/// The one namespace that there is.
///
/// # Errors
/// There is none, or several.
pub fn only_namespace(rig: &dyn Rig) -> Result<u32> {
    match rig.namespaces()?.as_slice() {
        [namespace] => Ok(*namespace),
        [] => Err(Failure::missing("the controller has no active namespace")),
        several => {
            let list: Vec<String> = several.iter().map(u32::to_string).collect();
            let list = list.join(", ");
            Err(
                Failure::usage(format!("the controller has several namespaces: {list}"))
                    .hint("name one, as --namespace 1"),
            )
        }
    }
}
