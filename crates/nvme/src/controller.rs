// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller from enable to shutdown (NVMe base specification, "Controller Initialization").

use block::Buffer;

use crate::admin::Admin;
use crate::command::{Command, admin};
use crate::deadline::Deadline;
use crate::doorbell::{Doorbell, Gate, MAX_QUEUES, Shadow};
use crate::error::{Error, Unsupported};
use crate::identify::{CONTROLLER_HEAD_BYTES, ControllerInfo, cns};
use crate::layout::{
    ADMIN_ENTRIES, controller_memory_bytes, controller_memory_bytes_without_shadows,
};
use crate::memory::{Shared, TryLock};
use crate::platform::Platform;
use crate::quirks::{Quirks, READY_DELAY_US, SHORT_TRANSFER_BYTES};
use crate::registers::{
    ACQ, AQA, ASQ, CAP, CC, CC_ENABLE, CC_SHUTDOWN_MASK, CC_SHUTDOWN_NORMAL, Capabilities,
    ControllerStatus, VS, enable_value,
};

/// Interrupt Mask Set, for a function without MSI-X.
const INTMS: usize = 0x0c;
/// Feature identifier of Number of Queues.
const NUMBER_OF_QUEUES: u32 = 7;

/// Settings that the owner of a controller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How long an I/O command may take before recovery begins, in microseconds.
    pub io_timeout_us: u64,
    /// How long an admin command may take, in microseconds.
    pub admin_timeout_us: u64,
    /// How long an aborted command may take to complete, in microseconds.
    pub abort_grace_us: u64,
    /// I/O queue pairs to request; the controller may grant fewer.
    pub queues: u16,
    /// Use shadow doorbells where the controller has them.
    pub shadow_doorbells: bool,
    /// Quirks that the owner knows of, in addition to those in the driver's table.
    pub quirks: Quirks,
    /// The longest that an autonomous power state transition may delay a command, in microseconds:
    /// states that take longer are not entered, and 0 switches transitions off. `None` leaves what
    /// is set. Ignored where the platform knows its drive
    /// ([`Registers::is_any_drive`](crate::Registers::is_any_drive)).
    pub latency_limit_us: Option<u32>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            io_timeout_us: 10_000_000,
            admin_timeout_us: 5_000_000,
            abort_grace_us: 500_000,
            queues: 8,
            shadow_doorbells: true,
            quirks: Quirks::NONE,
            latency_limit_us: None,
        }
    }
}

/// An enabled controller. Dropping it shuts the drive down.
///
/// Shared by reference between the threads that own its queue pairs. Admin commands run one at a
/// time; a thread that finds another one using the admin queue waits for at most the admin
/// time-out.
#[derive(Debug)]
pub struct Controller<P: Platform> {
    pub(crate) platform: P,
    pub(crate) options: ControllerOptions,
    pub(crate) capabilities: Capabilities,
    pub(crate) gate: Gate,
    pub(crate) admin: TryLock<Admin>,
    version: u32,
    page_shift: u8,
    info: ControllerInfo,
    queue_limit: u16,
    shadow_active: bool,
    quirks: Quirks,
    stripe_bytes: u32,
}

/// A controller that could not be enabled. The memory is returned to the caller: the controller is
/// disabled, or cut off from the bus.
#[derive(Debug)]
pub struct EnableFailed<P> {
    /// Why.
    pub error: Error,
    /// The platform, given back.
    pub platform: P,
    /// The memory, given back.
    pub memory: Buffer,
}

impl<P: Platform> Controller<P> {
    /// The smallest page size that the controller at `platform` supports, at least 4 KiB: the
    /// argument for [`controller_memory_bytes`].
    ///
    /// # Errors
    /// [`Error::Gone`] or [`Error::Unsupported`].
    pub fn page_bytes_of(platform: &P) -> Result<usize, Error> {
        let (_, page_shift) = probe(platform)?;
        Ok(1 << page_shift)
    }

    /// Enables the controller, whatever state it is in.
    ///
    /// `memory` has [`controller_memory_bytes`] bytes, or without shadow doorbells
    /// [`controller_memory_bytes_without_shadows`], aligned to a page and contiguous on the bus.
    /// Takes at most three times CAP.TO and four admin time-outs.
    ///
    /// # Errors
    /// The reason, with what was passed in.
    #[allow(clippy::result_large_err)]
    pub fn enable(
        platform: P,
        memory: Buffer,
        options: ControllerOptions,
    ) -> Result<Self, EnableFailed<P>> {
        platform.connect();
        let failed = |error, platform, memory| EnableFailed {
            error,
            platform,
            memory,
        };
        let (capabilities, page_shift) = match probe(&platform) {
            Ok(found) => found,
            Err(error) => return Err(failed(error, platform, memory)),
        };
        let quirks = quirks_before(&platform, &options);
        if quirks.has(Quirks::REFUSED) {
            let error = Error::Unsupported(Unsupported::Quirk);
            return Err(failed(error, platform, memory));
        }
        let page_bytes = 1 << page_shift;
        let needed_bytes = if options.shadow_doorbells {
            controller_memory_bytes(page_bytes)
        } else {
            controller_memory_bytes_without_shadows(page_bytes)
        };
        let error = Error::Memory { needed_bytes };
        let shared = match Shared::new(memory, &platform, page_bytes) {
            Ok(shared) => shared,
            Err(memory) => return Err(failed(error, platform, memory)),
        };
        let mut admin = match Admin::new(shared, page_bytes, options.shadow_doorbells) {
            Ok(admin) => admin,
            Err(shared) => return Err(failed(error, platform, shared.into_buffer())),
        };
        let setup = Setup {
            platform: &platform,
            options: &options,
            capabilities: &capabilities,
            page_shift,
            quirks,
        };
        let brought_up = setup.disable().and_then(|()| setup.bring_up(&mut admin));
        match brought_up {
            Ok(found) => Ok(Self {
                version: platform.read32(VS),
                shadow_active: admin.shadow_active,
                admin: TryLock::new(admin),
                platform,
                options,
                capabilities,
                gate: Gate::new(),
                page_shift,
                info: found.info,
                queue_limit: found.queue_limit,
                quirks: found.quirks,
                stripe_bytes: found.stripe_bytes,
            }),
            Err(error) => {
                if setup.disable().is_err() {
                    platform.isolate();
                }
                let memory = admin.memory.take().map(Shared::into_buffer);
                let memory = memory.unwrap_or_else(|| Buffer::from_static(&mut []));
                Err(failed(error, platform, memory))
            }
        }
    }

    /// The controller's capabilities (CAP).
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Specification version (VS): major in bits 31:16, minor in 15:8, tertiary in 7:0.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The controller's identify data.
    pub const fn info(&self) -> &ControllerInfo {
        &self.info
    }

    /// The page size in use, in bytes.
    pub const fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }

    pub(crate) const fn page_shift(&self) -> u8 {
        self.page_shift
    }

    /// The largest transfer of one command, in bytes: MDTS, or less because of a quirk; at most
    /// 2^31.
    pub fn max_transfer_bytes(&self) -> usize {
        let shift = self.capabilities.min_page_shift;
        let max_bytes = self.info.max_transfer_bytes(shift);
        if self.quirks().has(Quirks::SHORT_TRANSFERS) {
            max_bytes.min(SHORT_TRANSFER_BYTES)
        } else {
            max_bytes
        }
    }

    /// The quirks that apply to the controller.
    #[inline(always)]
    pub fn quirks(&self) -> Quirks {
        if self.platform.is_any_drive() {
            self.quirks
        } else {
            Quirks::NONE
        }
    }

    /// Transfers that cross a multiple of this many bytes are slower, on every namespace, which
    /// NOIOB does not say ([`Quirks::STRIPE`]); 0 if there is no such boundary.
    pub fn stripe_bytes(&self) -> u32 {
        if self.quirks().has(Quirks::STRIPE) {
            self.stripe_bytes
        } else {
            0
        }
    }

    /// How many I/O queue pairs the controller granted.
    pub const fn queue_limit(&self) -> u16 {
        self.queue_limit
    }

    /// Whether shadow doorbells are in use.
    pub const fn uses_shadow_doorbells(&self) -> bool {
        self.shadow_active
    }

    /// The platform under the controller.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// Whether the driver has given up the controller: it failed or was removed.
    pub fn is_gone(&self) -> bool {
        self.gate.is_dead()
    }

    /// Shuts the drive down and gives the memory back. Every queue pair must be closed.
    pub fn shutdown(mut self) -> Buffer {
        self.halt();
        let memory = self.admin.get_mut().memory.take();
        memory.map_or_else(|| Buffer::from_static(&mut []), Shared::into_buffer)
    }

    pub(crate) fn setup(&self) -> Setup<'_, P> {
        Setup {
            platform: &self.platform,
            options: &self.options,
            capabilities: &self.capabilities,
            page_shift: self.page_shift,
            quirks: self.quirks(),
        }
    }

    /// The doorbell of queue `queue`, with its shadow if that is in use.
    pub(crate) fn doorbell(&self, admin: &Admin, queue: u16, completion: bool) -> Doorbell {
        let register = self.capabilities.doorbell(queue, completion);
        let offset = register - self.capabilities.doorbell(0, false);
        let words = (admin.shadow.0.word(offset), admin.shadow.1.word(offset));
        let shadow = match words {
            (Some(doorbell), Some(event)) if admin.shadow_active => {
                Some(Shadow { doorbell, event })
            }
            _ => None,
        };
        Doorbell { register, shadow }
    }

    /// Shuts the drive down and gives it up while queues are open: they report what they had
    /// outstanding as [`Gone`](block::Error::Gone). No other thread may be using the admin queue or
    /// a doorbell.
    pub(crate) fn halt(&self) {
        if self.gate.is_dead() {
            return;
        }
        self.gate.close();
        self.setup().shut_down();
        if self.setup().disable().is_err() {
            self.platform.isolate();
        }
        self.gate.die();
    }
}

impl<P: Platform> Drop for Controller<P> {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Reads and checks CAP; returns it with the page size to use, as a power of two.
fn probe<P: Platform>(platform: &P) -> Result<(Capabilities, u8), Error> {
    let cap = platform.read64(CAP);
    if cap == u64::MAX || ControllerStatus::read(platform).is_gone() {
        return Err(Error::Gone);
    }
    let capabilities = Capabilities::from_register(cap);
    let unsupported = |what| Err(Error::Unsupported(what));
    if !capabilities.nvm_command_set {
        return unsupported(Unsupported::NvmCommandSet);
    }
    if capabilities.max_queue_entries < 2 {
        return unsupported(Unsupported::QueueEntries);
    }
    if capabilities.min_page_shift > capabilities.max_page_shift.min(16) {
        return unsupported(Unsupported::PageSize);
    }
    // At least one I/O queue pair must have its doorbells in the register space.
    if capabilities.doorbell(1, true) + 4 > platform.len_bytes() {
        return unsupported(Unsupported::DoorbellStride);
    }
    Ok((capabilities, capabilities.min_page_shift))
}

/// The quirks that are known before the controller is enabled.
fn quirks_before<P: Platform>(platform: &P, options: &ControllerOptions) -> Quirks {
    if !platform.is_any_drive() {
        return Quirks::NONE;
    }
    let by_id = platform.pci_id().map_or(Quirks::NONE, Quirks::of_pci);
    options.quirks.and(by_id)
}

/// What a controller that was brought up reports about itself.
pub(crate) struct BroughtUp {
    info: ControllerInfo,
    queue_limit: u16,
    quirks: Quirks,
    stripe_bytes: u32,
}

/// The steps between a controller's states, without its queues.
pub(crate) struct Setup<'a, P: Platform> {
    pub(crate) platform: &'a P,
    pub(crate) options: &'a ControllerOptions,
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) page_shift: u8,
    /// Those that are known so far.
    pub(crate) quirks: Quirks,
}

impl<P: Platform> Setup<'_, P> {
    fn wait_ready(&self, enable: bool) -> Result<(), Error> {
        let waited_ms = self.capabilities.ready_timeout_ms;
        let deadline = Deadline::after_us(self.platform, u64::from(waited_ms) * 1000);
        loop {
            let status = ControllerStatus::read(self.platform);
            if status.is_gone() {
                return Err(Error::Gone);
            }
            if enable && status.is_fatal() {
                return Err(Error::Fatal);
            }
            if status.is_ready() == enable {
                return Ok(());
            }
            if deadline.is_over(self.platform) {
                return Err(Error::NotReady { enable, waited_ms });
            }
            self.platform.relax();
        }
    }

    /// Disables the controller: when this succeeds it no longer touches memory.
    pub(crate) fn disable(&self) -> Result<(), Error> {
        let status = ControllerStatus::read(self.platform);
        let cc = self.platform.read32(CC);
        if status.is_gone() {
            return Err(Error::Gone);
        }
        if cc & CC_ENABLE != 0 && !status.is_ready() && !status.is_fatal() {
            // It was left enabled: EN must not be cleared before RDY is set. If RDY is never set,
            // clearing EN is the only option left.
            let _ = self.wait_ready(true);
        }
        self.platform
            .write32(CC, cc & !(CC_ENABLE | CC_SHUTDOWN_MASK));
        if cc & CC_ENABLE != 0 && self.quirks.has(Quirks::READY_DELAY) {
            let deadline = Deadline::after_us(self.platform, READY_DELAY_US);
            while !deadline.is_over(self.platform) {
                self.platform.relax();
            }
        }
        self.wait_ready(false)
    }

    /// Asks the drive to save its cached data; bounded by CAP.TO. There is no result because the
    /// next step is the same either way.
    fn shut_down(&self) {
        let cc = self.platform.read32(CC);
        let status = ControllerStatus::read(self.platform);
        if status.is_gone() || !status.is_ready() {
            return;
        }
        self.platform
            .write32(CC, cc & !CC_SHUTDOWN_MASK | CC_SHUTDOWN_NORMAL);
        let limit_us = u64::from(self.capabilities.ready_timeout_ms) * 1000;
        let deadline = Deadline::after_us(self.platform, limit_us);
        loop {
            let status = ControllerStatus::read(self.platform);
            if status.is_shut_down() || status.is_gone() || deadline.is_over(self.platform) {
                return;
            }
            self.platform.relax();
        }
    }

    /// From disabled to ready for I/O queues: admin queue, identify, number of queues, shadow
    /// doorbells, event requests.
    pub(crate) fn bring_up(&self, admin: &mut Admin) -> Result<BroughtUp, Error> {
        self.platform.connect();
        admin.restart(self.platform);
        let (submission, completion) = admin.addresses();
        // CAP.MQES limits I/O queues only; admin queues may have 2 to 4,096 entries.
        let last = ADMIN_ENTRIES - 1;
        self.platform.write32(AQA, last | last << 16);
        self.platform.write64(ASQ, submission);
        self.platform.write64(ACQ, completion);
        if self.platform.interrupt_vectors() == 0 {
            self.platform.write32(INTMS, u32::MAX);
        }
        self.platform.write32(CC, enable_value(self.page_shift));
        self.wait_ready(true)?;

        let info = self.identify_controller(admin)?;
        let (mut quirks, mut stripe_bytes) = (self.quirks, 0);
        if self.platform.is_any_drive() {
            quirks = quirks.and(Quirks::of_identify(&info));
            stripe_bytes = self.stripe_bytes(admin);
            self.limit_transitions(admin, &info, quirks)?;
        }
        let queue_limit = self.request_queues(admin)?;
        let fits = self.platform.cache_line_bytes() == 0 && !self.platform.interrupts_by_line();
        if self.options.shadow_doorbells && info.shadow_doorbells() && fits {
            self.configure_shadow(admin)?;
        }
        admin.arm_events(self.platform, self.capabilities, info.event_limit);
        Ok(BroughtUp {
            info,
            queue_limit,
            quirks,
            stripe_bytes,
        })
    }

    /// Runs an admin command within the admin time-out.
    pub(crate) fn execute(&self, admin: &mut Admin, command: &Command) -> Result<u32, Error> {
        let deadline = Deadline::after_us(self.platform, self.options.admin_timeout_us);
        admin.execute(self.platform, self.capabilities, command, deadline)
    }

    fn identify_controller(&self, admin: &mut Admin) -> Result<ControllerInfo, Error> {
        let command = Command {
            opcode: admin::IDENTIFY,
            prp1: admin.data.bus,
            dwords: [cns::CONTROLLER, 0, 0, 0],
            ..Command::default()
        };
        self.execute(admin, &command)?;
        // Only the parsed part, not the whole page: this is on the deepest call path.
        let mut head = [0; CONTROLLER_HEAD_BYTES];
        let data = admin.data;
        self.platform.invalidate(data.address(), data.len);
        data.copy_out(&mut head);
        ControllerInfo::parse(&head)
    }

    /// Byte 3 of the vendor's part of the Identify Controller data: a stripe, as a power of two of
    /// the smallest page.
    fn stripe_bytes(&self, admin: &Admin) -> u32 {
        const VENDOR: usize = 3072;
        let word = admin.data.word(VENDOR).map_or(0, |word| word.read());
        let shift = (word >> 24) + u32::from(self.capabilities.min_page_shift);
        match word >> 24 {
            0 => 0,
            _ => 1_u32.checked_shl(shift).unwrap_or(0),
        }
    }

    fn request_queues(&self, admin: &mut Admin) -> Result<u16, Error> {
        let wanted = u32::from(self.options.queues.clamp(1, MAX_QUEUES as u16));
        let command = Command {
            opcode: admin::SET_FEATURES,
            dwords: [NUMBER_OF_QUEUES, (wanted - 1) | ((wanted - 1) << 16), 0, 0],
            ..Command::default()
        };
        let granted = self.execute(admin, &command)?;
        let granted = (granted & 0xffff).min(granted >> 16) + 1;
        // Doorbells must be inside the register space, and shadows inside their page.
        let reach = |queue: &u32| {
            let end = self.capabilities.doorbell(*queue as u16, true) + 4;
            let shadow_end = end - self.capabilities.doorbell(0, false);
            end <= self.platform.len_bytes() && shadow_end <= 1 << self.page_shift
        };
        let limit = (1..=granted.min(wanted)).take_while(reach).count();
        Ok(limit as u16)
    }

    /// Shadow doorbells are an optimisation: a controller that refuses them is used without.
    fn configure_shadow(&self, admin: &mut Admin) -> Result<(), Error> {
        let command = Command {
            opcode: admin::DOORBELL_BUFFER_CONFIG,
            prp1: admin.shadow.0.bus,
            prp2: admin.shadow.1.bus,
            ..Command::default()
        };
        match self.execute(admin, &command) {
            Ok(_) => admin.shadow_active = true,
            Err(Error::Status { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
