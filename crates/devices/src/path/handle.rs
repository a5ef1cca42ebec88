// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An opened controller of any kind: a VFIO function, a function without an IOMMU, a model.

use crate::error::{Error, Result};
use crate::path::memory::Memory;
use block::Device;
use nvme::{
    Capabilities, CompletionMode, ControllerInfo, ErrorEntry, FirmwareSlots, GenericCommand,
    GenericData, NamespaceInfo, PowerStates, Quirks, Smart, Statistics, Transitions,
};
use remedy::{Remedy, Setting, Value, words};

/// A controller's limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The content of register CAP.
    pub capabilities: Capabilities,
    /// The specification's version, from register VS.
    pub version: u32,
    /// The longest transfer of one command.
    pub max_transfer_bytes: usize,
    /// Interrupt vectors in use.
    pub interrupt_vectors: u16,
    /// The quirks that apply.
    pub quirks: Quirks,
}

/// A queue whose user sets the deadlines of its commands.
pub trait Timed: Device {
    /// The queue itself.
    fn as_device(&mut self) -> &mut dyn Device;

    /// Sets how long the commands submitted from now on may take, in microseconds.
    fn set_timeout_us(&mut self, timeout_us: u64);

    /// What the driver did about late commands.
    fn statistics(&self) -> Statistics;
}

/// An enabled controller that this process drives.
pub trait ControllerHandle {
    /// Its kind: `vfio`, `noiommu` or `model`.
    fn name(&self) -> &'static str;

    /// The controller's identify data.
    fn info(&self) -> &ControllerInfo;

    /// The controller's serial number.
    fn serial(&self) -> String {
        self.info().serial.as_str().to_owned()
    }

    /// Its limits.
    ///
    /// # Errors
    /// The controller was closed.
    fn limits(&self) -> Result<Limits>;

    /// Whether queues can wait for interrupts.
    fn has_interrupts(&self) -> bool;

    /// The active namespaces.
    ///
    /// # Errors
    /// The controller refused the command.
    fn namespaces(&self) -> Result<Vec<u32>>;

    /// The properties of a namespace.
    ///
    /// # Errors
    /// The namespace does not exist or cannot be used.
    fn namespace(&self, nsid: u32) -> Result<NamespaceInfo>;

    /// Health and counters.
    ///
    /// # Errors
    /// The controller refused the command.
    fn smart(&self) -> Result<Smart>;

    /// The error log, newest first.
    ///
    /// # Errors
    /// The controller refused the command.
    fn error_log(&self) -> Result<Vec<ErrorEntry>>;

    /// The power states, and the autonomous transitions between them if it has any.
    ///
    /// # Errors
    /// The controller refused the command.
    fn power(&self) -> Result<(PowerStates, Option<Transitions>)>;

    /// The firmware slots.
    ///
    /// # Errors
    /// The controller refused the command.
    fn firmware_slots(&self) -> Result<FirmwareSlots>;

    /// Whether the machine recalls the controller: it is being unplugged or unbound, and the kernel
    /// waits until it is closed.
    fn is_recalled(&self) -> bool;

    /// The memory for buffers.
    fn memory(&self) -> &Memory;

    /// Opens a queue on a namespace, which one thread uses. It must be dropped before the handle is
    /// closed.
    ///
    /// # Errors
    /// There is no such namespace, no queue left, or no interrupt.
    fn open_queue(&self, nsid: u32, mode: CompletionMode) -> Result<Box<dyn Device + Send>>;

    /// Opens a queue that is polled and whose deadlines its user sets; otherwise as
    /// [`open_queue`](ControllerHandle::open_queue).
    ///
    /// # Errors
    /// Those of [`open_queue`](ControllerHandle::open_queue).
    fn open_timed_queue(&self, nsid: u32) -> Result<Box<dyn Timed>>;

    /// Runs an admin command that the driver does not interpret; returns dword 0 of its completion.
    ///
    /// # Errors
    /// It was not sent, or failed.
    fn generic(&self, command: &GenericCommand, data: GenericData<'_>) -> Result<u32>;

    /// Runs an I/O command that the driver does not interpret, in a queue of its own. Its data is
    /// in `bytes`, before or after, as its opcode says.
    ///
    /// # Errors
    /// It was not sent, or failed.
    fn generic_io(&self, nsid: u32, command: &GenericCommand, bytes: &mut [u8]) -> Result<()>;

    /// Resets the controller. Each queue then ends what it had outstanding, and goes on.
    ///
    /// # Errors
    /// The controller is busy with an admin command, or did not come up again.
    fn reset(&self) -> Result<()>;

    /// Shuts the drive down and returns it to its driver.
    ///
    /// # Errors
    /// The drive could not be returned to its driver.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Reports whether the machine recalls an open drive; without it only the next request would
/// notice. Drives on paths through a kernel driver are never recalled: nothing waits for their
/// descriptors.
#[derive(Clone, Copy)]
pub struct Recall<'r>(Option<&'r dyn ControllerHandle>);

impl<'r> Recall<'r> {
    /// Of a device that the machine does not recall.
    pub const NONE: Self = Self(None);

    pub(super) fn of(handle: Option<&'r dyn ControllerHandle>) -> Self {
        Self(handle)
    }

    /// Whether the drive must be closed now. This costs one load, so it can be called in a loop.
    pub fn is_requested(self) -> bool {
        self.0.is_some_and(ControllerHandle::is_recalled)
    }
}

/// The controller's only namespace.
///
/// # Errors
/// The controller has none, or several.
pub fn only_namespace(handle: &dyn ControllerHandle) -> Result<u32> {
    match handle.namespaces()?.as_slice() {
        [namespace] => Ok(*namespace),
        [] => Err(Error::missing("the controller has no active namespace")),
        several => {
            let list: Vec<String> = several.iter().map(u32::to_string).collect();
            let list = list.join(", ");
            Err(
                Error::usage(format!("the controller has several namespaces: {list}")).hint(
                    words!["name one, as ", Setting::Namespace.to(Value::Number(1))],
                ),
            )
        }
    }
}

/// The failure of waiting for interrupts at a controller of this kind ([`ControllerHandle::name`]),
/// which has none.
pub fn without_interrupts(kind: &str) -> Error {
    let (what, hint) = match kind {
        "noiommu" => (
            "without an IOMMU there are no interrupts in user space",
            Remedy::from("enable the IOMMU; straightway doctor shows how"),
        ),
        _ => (
            "the drive has no interrupt that reaches user space",
            Remedy::one_of([
                Setting::Mode.to("poll"),
                Remedy::from("a kernel without pci=nomsi"),
            ]),
        ),
    };
    Error::unsupported(what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interrupt_is_blamed_on_the_iommu_only_without_one() {
        let said = |kind| without_interrupts(kind).to_string();
        assert!(said("noiommu").contains("IOMMU"));
        assert!(!said("vfio").contains("IOMMU"));
    }
}
