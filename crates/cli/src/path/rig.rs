//! An opened controller, whatever it is made of: a VFIO function, one without an IOMMU, a model.

use crate::drive::ModelDrive;
use crate::failure::{Failure, Result};
use crate::path::PathKind;
use crate::path::borrow::{HugePages, Loan};
use crate::path::memory::Memory;
use crate::path::straight::{self, Controlled};
use block::Device;
use linux::resolve::Resolved;
use linux::{Roots, noiommu, vfio};
use model::{BusMemory, Config, Model};
use nvme::{
    Capabilities, CompletionMode, ControllerInfo, ErrorEntry, FirmwareSlots, NamespaceInfo, Smart,
};

/// Vectors that are asked for: the admin queue's and one queue's.
const INTERRUPT_VECTORS: u16 = 2;

/// What a controller can do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What its register CAP says.
    pub capabilities: Capabilities,
    /// The specification's version, as register VS has it.
    pub version: u32,
    /// The longest transfer of one command.
    pub max_transfer_bytes: usize,
    /// Queue pairs that it granted of those that were asked for.
    pub io_queues: u16,
    /// Interrupt vectors in use.
    pub interrupt_vectors: u16,
    /// Whether shadow doorbells are in use.
    pub shadow_doorbells: bool,
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
    fn namespace(&self, namespace: u32) -> Result<NamespaceInfo>;

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

    /// What buffers are taken from.
    fn memory(&self) -> &Memory;

    /// Opens a queue on a namespace. It must be dropped before the rig is closed.
    ///
    /// # Errors
    /// There is no such namespace, no queue left, or no interrupt.
    fn open_queue(&self, namespace: u32, mode: CompletionMode) -> Result<Box<dyn Device>>;

    /// Shuts the drive down and gives it back to its driver.
    ///
    /// # Errors
    /// The driver could not be given back.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Opens a controller of this machine; `path` is `Vfio` or `Noiommu`.
///
/// # Errors
/// What is missing; the drive has the driver that it had then.
pub fn open(
    roots: &Roots,
    resolved: &Resolved,
    path: PathKind,
    buffer_bytes: usize,
) -> Result<Box<dyn Rig>> {
    let address = resolved.controller.address;
    let memory_bytes = buffer_bytes.saturating_add(straight::overhead_bytes());
    if path == PathKind::Noiommu {
        let mut loan = Loan::of_nothing(roots, address)?;
        let options = noiommu::Options {
            memory_bytes,
            reserve_huge_pages: true,
        };
        loan.huge_pages = Some(HugePages::remember());
        let function = noiommu::Function::open(roots, address, &options)?;
        let memory = Memory::Dma(function.memory());
        let rig = Controlled::enable(function, memory, Some(loan), "noiommu")?;
        return Ok(Box::new(rig));
    }
    let loan = Loan::of_vfio(roots, address)?;
    let options = vfio::Options {
        memory_bytes,
        interrupt_vectors: INTERRUPT_VECTORS,
    };
    let function = vfio::Function::open(roots, address, &options)?;
    let memory = Memory::Dma(function.memory());
    let rig = Controlled::enable(function, memory, Some(loan), "vfio")?;
    Ok(Box::new(rig))
}

/// Makes a model controller and opens it.
///
/// # Errors
/// Its file cannot be opened, or there is no memory.
pub fn open_model(model: &ModelDrive, buffer_bytes: usize) -> Result<Box<dyn Rig>> {
    let config = match &model.file {
        Some(file) => Config::file(file.clone(), model.size_bytes),
        None => Config::ram(model.size_bytes),
    };
    // The model keeps a page on each side of a buffer as a guard, which small buffers pay dearly.
    let bytes = buffer_bytes
        .saturating_mul(3)
        .saturating_add(straight::overhead_bytes());
    let memory = BusMemory::linear(bytes)
        .ok_or_else(|| Failure::unsupported(format!("no memory for {bytes} bytes of buffers")))?;
    let platform = Model::new(config, memory.clone())
        .map_err(|error| Failure::missing(format!("the model controller: {error}")))?;
    let rig = Controlled::enable(platform, Memory::Bus(memory), None, "model")?;
    Ok(Box::new(rig))
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
                    .mend("name one, as --namespace 1"),
            )
        }
    }
}
