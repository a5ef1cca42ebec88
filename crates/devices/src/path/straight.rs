// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight path: our driver on a controller of our own.
//!
//! [`Controlled`] owns the controller, the memory that it reaches and the loan of the function from
//! its kernel driver; `Lane` is one queue on it. They end in the only safe order: queue, controller
//! (which shuts the drive down), function (which cuts it off from memory), driver, memory. The
//! types enforce that order: the loan is held by what is open on it ([`Held`]), a queue holds both.

use crate::drive::ModelDrive;
use crate::error::{Error, Result};
use crate::path::OpenOptions;
use crate::path::borrow::{HugePages, Loan};
use crate::path::handle::{ControllerHandle, Limits, Timed};
use crate::path::held::{Ends, Held};
use crate::path::memory::Memory;
use block::{Buffer, Completion, Device, Geometry, Refused, Request};
use linux::identity::Identity;
use linux::resolve::Resolved;
use linux::{Roots, bind, noiommu, vfio};
use model::{BusMemory, Config, FaultKind, Faults, Model, On, PowerStateConfig, Rule, When};
use nvme::{
    CompletionMode, Controller, ControllerInfo, ControllerOptions, ErrorEntry, FirmwareSlots,
    GenericCommand, GenericData, NamespaceInfo, Platform, PowerStates, QueuePair, Quirks, Smart,
    Statistics, Transitions,
};
use std::ops::Deref;
use std::sync::Arc;
use units::Time;

/// Maximum number of outstanding requests of a queue.
pub const DEPTH: usize = 64;
pub use super::MAX_TRANSFER_BYTES;
/// Queues that a controller has at least: one in use, and one that its successor is created beside.
const LEAST_QUEUES: u16 = 2;

type Queue<P, L> = QueuePair<P, Shared<P, L>, DEPTH>;

/// What a user of a controller needs of it.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Memory for buffers.
    pub buffer_bytes: usize,
    /// Queues that are open at the same time: one for each thread.
    pub queues: u16,
    /// The longest that a power state may delay a command, in microseconds, if the drive's own
    /// setting is not kept.
    pub latency_limit_us: Option<u32>,
}

impl Needs {
    /// One queue, and this memory for buffers.
    pub const fn one_queue(buffer_bytes: usize) -> Self {
        Self {
            buffer_bytes,
            queues: 1,
            latency_limit_us: None,
        }
    }

    /// One queue, as these options say.
    pub const fn of(options: &OpenOptions) -> Self {
        Self {
            latency_limit_us: options.latency_limit_us,
            ..Self::one_queue(options.buffer_bytes)
        }
    }

    fn queues(&self) -> u16 {
        self.queues.max(LEAST_QUEUES)
    }

    /// One interrupt vector for the admin queue and one for each other.
    fn interrupt_vectors(&self) -> u16 {
        self.queues.saturating_add(1)
    }
}

/// Memory for the controller and its queues, in addition to that for buffers.
pub const fn overhead_bytes(queues: u16) -> usize {
    // Pages of at most 64 KiB; every queue is rounded up to them, and runs are not dense.
    let queue_bytes = nvme::queue_memory_bytes(DEPTH, MAX_TRANSFER_BYTES, 64 << 10);
    nvme::controller_memory_bytes(64 << 10) + queues as usize * queue_bytes + (1 << 20)
}

/// Opens a controller of this machine, behind its IOMMU or without one.
///
/// # Errors
/// What is missing; the drive has the driver that it had then.
pub fn open(
    roots: &Roots,
    resolved: &Resolved,
    behind_iommu: bool,
    needs: Needs,
) -> Result<Box<dyn ControllerHandle>> {
    let address = resolved.controller.address;
    let queues = needs.queues();
    let memory_bytes = needs.buffer_bytes.saturating_add(overhead_bytes(queues));
    if !behind_iommu {
        let mut loan = Loan::new(roots, address, bind::to_nothing)?;
        let options = noiommu::Options {
            memory_bytes,
            reserve_huge_pages: true,
        };
        loan.huge_pages = Some(HugePages::remember(roots));
        let function = Held::open(loan, || {
            Ok(noiommu::Function::open(roots, address, &options)?)
        })?;
        let memory = Memory::Host(function.memory());
        let handle = Controlled::enable(function, memory, "noiommu", &needs)?;
        return same(resolved, handle);
    }
    let loan = Loan::new(roots, address, bind::to_vfio)?;
    let options = vfio::Options {
        memory_bytes,
        interrupt_vectors: needs.interrupt_vectors(),
    };
    let function = Held::open(loan, || Ok(vfio::Function::open(roots, address, &options)?))?;
    let memory = Memory::Host(function.memory());
    let handle = Controlled::enable(function, memory, "vfio", &needs)?;
    same(resolved, handle)
}

/// Refuses a drive that is not the one that was resolved: between the two it may have been
/// unplugged, and another plugged in.
fn same<R: ControllerHandle + 'static>(
    resolved: &Resolved,
    handle: R,
) -> Result<Box<dyn ControllerHandle>> {
    let address = resolved.controller.address;
    Identity::of(&resolved.controller).refuse_serial(address, handle.info().serial.as_str())?;
    Ok(Box::new(handle))
}

/// The faults that delay each I/O command of a model by its latency.
fn slowness(model: &ModelDrive) -> Faults {
    let delay_us = u64::try_from(model.latency.as_micros()).unwrap_or(u64::MAX);
    let late = FaultKind::Delay {
        delay_us,
        abortable: true,
    };
    match delay_us {
        0 => Faults::none(),
        _ => Faults::new(&[Rule::new(On::Io, When::Always, late)]),
    }
}

/// A state of 5 W, and one of 10 mW that the model idles into and takes a while to leave; none for
/// no time.
fn power_states(model: &ModelDrive) -> Vec<PowerStateConfig> {
    let working = PowerStateConfig {
        max_power_mw: 5000,
        non_operational: false,
        entry_latency_us: 0,
        exit_latency_us: 0,
    };
    match Time(model.idle).whole_us() {
        0 => Vec::new(),
        exit_latency_us => {
            let idle = PowerStateConfig {
                max_power_mw: 10,
                non_operational: true,
                exit_latency_us,
                ..working
            };
            vec![working, idle]
        }
    }
}

/// Makes a model controller and opens it.
///
/// # Errors
/// Its file cannot be opened, or there is no memory.
pub fn open_model(model: &ModelDrive, needs: Needs) -> Result<Box<dyn ControllerHandle>> {
    let config = match &model.file {
        Some(file) => Config::file(file.clone(), model.size_bytes),
        None => Config::ram(model.size_bytes),
    };
    let config = match model.pci_id {
        Some(pci_id) => Config {
            quirks: Quirks::of_pci(pci_id),
            pci_id,
            ..config
        },
        None => config,
    };
    let config = Config {
        power_states: power_states(model),
        ..config
    };
    // The model adds a guard page on each side of a buffer, which is much for small buffers.
    let queues = needs.queues();
    let bytes = needs
        .buffer_bytes
        .saturating_mul(3)
        .saturating_add(overhead_bytes(queues));
    let memory = BusMemory::linear(bytes)
        .ok_or_else(|| Error::unsupported(format!("no memory for {bytes} bytes of buffers")))?;
    let platform = Model::with_faults(config, memory.clone(), slowness(model))
        .map_err(|error| Error::missing(format!("the model controller: {error}")))?;
    let platform = Held::open((), || Ok(platform))?;
    let handle = Controlled::enable(platform, Memory::Bus(memory), "model", &needs)?;
    Ok(Box::new(handle))
}

/// A controller and its loan, shared by the handle and its queues: the last of them closes the
/// controller and ends the loan.
struct Shared<P: Platform, L>(Arc<Held<Controller<P>, L>>);

impl<P: Platform, L> Deref for Shared<P, L> {
    type Target = Controller<P>;

    #[inline(always)]
    fn deref(&self) -> &Controller<P> {
        &self.0
    }
}

/// An enabled controller, its memory, and the loan that ends with it.
pub struct Controlled<P: Platform, L: Ends> {
    /// None after it has ended.
    controller: Option<Shared<P, L>>,
    info: ControllerInfo,
    memory: Memory,
    name: &'static str,
}

impl<P: Platform, L: Ends> Controlled<P, L> {
    /// Enables the controller on `platform`, which can access `memory`.
    ///
    /// # Errors
    /// The controller could not be enabled; everything was released then.
    pub fn enable(
        platform: Held<P, L>,
        memory: Memory,
        name: &'static str,
        needs: &Needs,
    ) -> Result<Self> {
        let controller = platform.and_then(|platform| {
            let page_bytes = Controller::page_bytes_of(&platform)?;
            let bytes = nvme::controller_memory_bytes(page_bytes);
            let own = memory.allocate_pages(bytes, page_bytes)?;
            let options = ControllerOptions {
                queues: needs.queues(),
                latency_limit_us: needs.latency_limit_us,
                ..ControllerOptions::default()
            };
            Controller::enable(platform, own, options).map_err(|failed| {
                memory.give_back(failed.memory);
                Error::from(failed.error)
            })
        })?;
        Ok(Self {
            info: *controller.info(),
            controller: Some(Shared(Arc::new(controller))),
            memory,
            name,
        })
    }

    fn controller(&self) -> Result<&Shared<P, L>> {
        let controller = self.controller.as_ref();
        controller.ok_or_else(|| Error::missing("the controller was closed"))
    }

    fn end(&mut self) -> Result<()> {
        let Some(controller) = self.controller.take() else {
            return Ok(());
        };
        match Arc::into_inner(controller.0) {
            Some(held) => held.close(|controller| self.memory.give_back(controller.shutdown())),
            // The queue that is still open closes the controller when it is dropped.
            None => Err(Error::missing("a queue is still open")),
        }
    }
}

impl<P: Platform, L: Ends> Drop for Controlled<P, L> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl<P, L> ControllerHandle for Controlled<P, L>
where
    P: Platform + Send + Sync + 'static,
    L: Ends + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn info(&self) -> &ControllerInfo {
        &self.info
    }

    fn limits(&self) -> Result<Limits> {
        let controller = self.controller()?;
        Ok(Limits {
            capabilities: *controller.capabilities(),
            version: controller.version(),
            max_transfer_bytes: controller.max_transfer_bytes(),
            interrupt_vectors: controller.platform().interrupt_vectors(),
            quirks: controller.quirks(),
        })
    }

    fn has_interrupts(&self) -> bool {
        self.limits()
            .is_ok_and(|limits| limits.interrupt_vectors > 0)
    }

    fn namespaces(&self) -> Result<Vec<u32>> {
        let mut found = [0; 1024];
        let count = self.controller()?.namespaces(0, &mut found)?;
        Ok(found.iter().take(count).copied().collect())
    }

    fn namespace(&self, nsid: u32) -> Result<NamespaceInfo> {
        Ok(self.controller()?.namespace(nsid)?)
    }

    fn smart(&self) -> Result<Smart> {
        Ok(self.controller()?.smart()?)
    }

    fn error_log(&self) -> Result<Vec<ErrorEntry>> {
        let mut entries = [ErrorEntry::default(); 64];
        let count = self.controller()?.error_log(&mut entries)?;
        Ok(entries.iter().take(count).copied().collect())
    }

    fn power(&self) -> Result<(PowerStates, Option<Transitions>)> {
        let controller = self.controller()?;
        Ok((controller.power_states()?, controller.transitions()?))
    }

    fn firmware_slots(&self) -> Result<FirmwareSlots> {
        Ok(self.controller()?.firmware_slots()?)
    }

    fn is_recalled(&self) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|controller| controller.platform().is_recalled())
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn open_queue(&self, nsid: u32, mode: CompletionMode) -> Result<Box<dyn Device + Send>> {
        Ok(Box::new(self.lane(nsid, mode)?))
    }

    fn open_timed_queue(&self, nsid: u32) -> Result<Box<dyn Timed>> {
        Ok(Box::new(self.lane(nsid, CompletionMode::Poll)?))
    }

    fn reset(&self) -> Result<()> {
        Ok(self.controller()?.restart()?)
    }

    fn generic(&self, command: &GenericCommand, data: GenericData<'_>) -> Result<u32> {
        Ok(self.controller()?.generic(command, data)?)
    }

    fn generic_io(&self, nsid: u32, command: &GenericCommand, bytes: &mut [u8]) -> Result<()> {
        let mut lane = self.lane(nsid, CompletionMode::Poll)?;
        let mut buffer = match bytes.len() {
            0 => None,
            len => Some(self.memory.allocate(len)?),
        };
        if let Some(buffer) = &mut buffer {
            buffer.copy_from_slice(bytes);
        }
        let (buffer, result) = lane.generic(command, buffer);
        if let Some(buffer) = buffer {
            bytes.copy_from_slice(&buffer);
            self.memory.give_back(buffer);
        }
        let opcode = command.opcode;
        result.map_err(|error| Error::request(format_args!("command {opcode:#04x}"), error))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl<P: Platform, L: Ends> Controlled<P, L> {
    fn lane(&self, nsid: u32, mode: CompletionMode) -> Result<Lane<P, L>> {
        let controller = self.controller()?;
        let namespace = controller.namespace(nsid)?;
        let max_bytes = MAX_TRANSFER_BYTES.min(controller.max_transfer_bytes());
        let bytes = Queue::<P, L>::memory_bytes(max_bytes, controller.page_bytes());
        let own = self.memory.allocate_pages(bytes, controller.page_bytes())?;
        let queue = match Queue::create(
            Shared(Arc::clone(&controller.0)),
            &namespace,
            own,
            max_bytes,
        ) {
            Ok(queue) => queue,
            Err(failed) => {
                self.memory.give_back(failed.memory);
                return Err(failed.error.into());
            }
        };
        let mut lane = Lane {
            geometry: *queue.geometry(),
            queue: Some(queue),
            memory: self.memory.clone(),
        };
        if let Some(queue) = &mut lane.queue {
            queue.set_completion_mode(mode)?;
        }
        Ok(lane)
    }
}

/// One queue. Dropping it deletes the queue and frees its memory.
struct Lane<P: Platform, L> {
    /// Taken only by `drop`.
    queue: Option<Queue<P, L>>,
    geometry: Geometry,
    memory: Memory,
}

impl<P: Platform, L> Lane<P, L> {
    /// Runs one generic command; nothing else is outstanding. It ends within the driver's
    /// time-outs.
    fn generic(
        &mut self,
        command: &GenericCommand,
        buffer: Option<Buffer>,
    ) -> (Option<Buffer>, std::result::Result<(), block::Error>) {
        let Some(queue) = &mut self.queue else {
            return (buffer, Err(block::Error::Gone));
        };
        if let Err((error, buffer)) = queue.submit_generic(0, command, buffer) {
            return (buffer, Err(error));
        }
        queue.kick();
        loop {
            if let Some(done) = queue.poll() {
                return (done.buffer, done.result);
            }
        }
    }
}

impl<P: Platform, L> Drop for Lane<P, L> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.memory.give_back(queue.close());
        }
    }
}

impl<P: Platform, L> Timed for Lane<P, L> {
    fn as_device(&mut self) -> &mut dyn Device {
        self
    }

    fn set_timeout_us(&mut self, timeout_us: u64) {
        if let Some(queue) = &mut self.queue {
            queue.set_timeout_us(timeout_us);
        }
    }

    fn statistics(&self) -> Statistics {
        let queue = self.queue.as_ref();
        queue.map_or_else(Statistics::default, |queue| *queue.statistics())
    }
}

impl<P: Platform, L> Device for Lane<P, L> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        match &mut self.queue {
            Some(queue) => queue.submit(request),
            None => Err(Refused {
                error: block::Error::Gone,
                request,
            }),
        }
    }

    fn kick(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.kick();
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.queue.as_mut()?.poll()
    }

    fn outstanding(&self) -> usize {
        self.queue.as_ref().map_or(0, Device::outstanding)
    }

    fn wait(&mut self, timeout_us: u32) {
        if let Some(queue) = &mut self.queue {
            queue.wait(timeout_us);
        }
    }
}

#[cfg(test)]
#[path = "straight_tests.rs"]
mod tests;
