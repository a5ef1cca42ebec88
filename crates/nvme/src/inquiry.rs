// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Run-time queries and settings of a controller: namespaces, log pages, features, events.

use crate::admin::Admin;
use crate::command::{Command, admin};
use crate::controller::Controller;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::identify::{
    Descriptor, NAMESPACE_HEAD_BYTES, NamespaceInfo, PAGE_BYTES, active_namespaces,
    check_command_set, cns, descriptors,
};
use crate::log::{self, DriveEvent, ErrorEntry, FirmwareSlots, Smart};
use crate::platform::Platform;
use crate::quirks::Quirks;
use crate::status::StatusField;

/// The first version (VS) with descriptor lists.
const NVME_1_3: u32 = 0x0001_0300;
/// All namespaces, for commands that concern the controller.
const ALL_NAMESPACES: u32 = u32::MAX;

/// Feature identifiers (NVMe base specification, "Feature Identifiers").
mod feature {
    pub(super) const VOLATILE_WRITE_CACHE: u32 = 0x06;
    pub(super) const INTERRUPT_COALESCING: u32 = 0x08;
    pub(super) const INTERRUPT_VECTOR: u32 = 0x09;
    pub(super) const ASYNC_EVENTS: u32 = 0x0b;
}

impl<P: Platform> Controller<P> {
    /// Runs `action` with the admin queue, once no other thread is using it.
    pub(crate) fn with_admin<R>(
        &self,
        mut action: impl FnMut(&mut Admin) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let deadline = Deadline::after_us(&self.platform, self.options.admin_timeout_us);
        loop {
            if self.gate.is_dead() {
                return Err(Error::Gone);
            }
            if let Some(result) = self.admin.with(&mut action) {
                return result;
            }
            if deadline.is_over(&self.platform) {
                return Err(Error::Busy);
            }
            self.platform.relax();
        }
    }

    /// Runs an admin command; if it times out, resets the controller, which may still write to the
    /// data page.
    pub(crate) fn run(&self, admin: &mut Admin, command: &Command) -> Result<u32, Error> {
        let result = self.setup().execute(admin, command);
        if let Err(Error::TimedOut { .. } | Error::Fatal | Error::Gone) = result {
            let _ = self.reset(admin);
        }
        result
    }

    /// Runs a command that returns at most a page, into `page`, and returns dword 0. The command's
    /// parts are separate arguments: a whole command would be built, and that code repeated, at
    /// each call.
    #[inline(never)]
    pub(crate) fn fetch(
        &self,
        opcode: u8,
        nsid: u32,
        cdw10: u32,
        page: &mut [u8],
    ) -> Result<u32, Error> {
        self.with_admin(|admin| {
            let data = admin.data;
            data.clear();
            self.platform.clean(data.address(), data.len);
            let command = Command {
                opcode,
                nsid,
                prp1: admin.data.bus,
                dwords: [cdw10, 0, 0, 0],
                ..Command::default()
            };
            let dword = self.run(admin, &command)?;
            self.platform.invalidate(data.address(), data.len);
            data.copy_out(page);
            Ok(dword)
        })
    }

    fn identify(&self, cns: u32, nsid: u32, page: &mut [u8]) -> Result<(), Error> {
        self.fetch(admin::IDENTIFY, nsid, cns, page).map(|_| ())
    }

    /// Writes the identifiers of the active namespaces above `after` to `found`, in ascending
    /// order; returns how many were written. For more, call again with the last one.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn namespaces(&self, after: u32, found: &mut [u32]) -> Result<usize, Error> {
        let mut page = [0; PAGE_BYTES];
        self.identify(cns::ACTIVE_NAMESPACES, after, &mut page)?;
        let mut count = 0;
        for (place, namespace) in found.iter_mut().zip(active_namespaces(&page, after)) {
            *place = namespace;
            count += 1;
        }
        Ok(count)
    }

    /// The identify data of namespace `nsid`.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] if it is not active, [`Error::Namespace`] if its kind or its format
    /// cannot be used, or those of the admin command.
    pub fn namespace(&self, nsid: u32) -> Result<NamespaceInfo, Error> {
        if nsid == 0 || nsid >= 0xffff_fffe {
            return Err(Error::NoNamespace { nsid });
        }
        let mut page = [0; NAMESPACE_HEAD_BYTES];
        // First, because a namespace of another command set may have no NVM data structure.
        let quirks = self.quirks();
        if self.version() >= NVME_1_3 && !quirks.has(Quirks::NO_DESCRIPTORS) {
            match self.identify(cns::DESCRIPTORS, nsid, &mut page) {
                // A controller that refuses this has only the NVM command set: the list is empty.
                Ok(()) | Err(Error::Status { .. }) => check_command_set(nsid, &page)?,
                Err(error) => return Err(error),
            }
        }
        match self.identify(cns::NAMESPACE, nsid, &mut page) {
            // The controller never executed the command.
            Err(Error::Status { status, .. })
                if status.code() == StatusField::INVALID_NAMESPACE_OR_FORMAT =>
            {
                Err(Error::NoNamespace { nsid })
            }
            Err(error) => Err(error),
            Ok(()) => {
                let mut info = NamespaceInfo::parse(nsid, &page)?;
                if quirks.has(Quirks::BOGUS_IDENTIFIERS) {
                    (info.eui64, info.nguid) = ([0; 8], [0; 16]);
                }
                Ok(info)
            }
        }
    }

    /// Calls `each` with every identification descriptor of a namespace; identifiers that a quirk
    /// makes worthless are left out.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn descriptors(&self, nsid: u32, mut each: impl FnMut(Descriptor)) -> Result<(), Error> {
        if self.quirks().has(Quirks::NO_DESCRIPTORS) {
            return Ok(());
        }
        let mut page = [0; PAGE_BYTES];
        self.identify(cns::DESCRIPTORS, nsid, &mut page)?;
        let bogus = self.quirks().has(Quirks::BOGUS_IDENTIFIERS);
        let is_set = |one: &Descriptor| matches!(one, Descriptor::CommandSet(_));
        descriptors(&page)
            .filter(|one| !bogus || is_set(one))
            .for_each(&mut each);
        Ok(())
    }

    fn log(&self, lid: u32, page: &mut [u8]) -> Result<(), Error> {
        let cdw10 = lid | log::dwords(page.len()) << 16;
        self.fetch(admin::GET_LOG_PAGE, ALL_NAMESPACES, cdw10, page)
            .map(|_| ())
    }

    /// Resets the controller (CC.EN), as recovery does. Each queue then ends what it had
    /// outstanding, completed or with [`Aborted`](block::Error::Aborted), and creates itself again.
    ///
    /// # Errors
    /// [`Error::Busy`], or [`Error::Gone`] if it does not come up again.
    pub fn restart(&self) -> Result<(), Error> {
        self.with_admin(|admin| self.reset(admin))
    }

    /// Health and counters.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn smart(&self) -> Result<Smart, Error> {
        let mut page = [0; log::SMART_BYTES];
        self.log(log::lid::SMART, &mut page)?;
        Ok(Smart::parse(&page))
    }

    /// Writes the newest errors, newest first, to `found`; returns how many there are, at most 64.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn error_log(&self, found: &mut [ErrorEntry]) -> Result<usize, Error> {
        const ROOM: usize = PAGE_BYTES / log::ERROR_ENTRY_BYTES;
        let entries = found
            .len()
            .min(ROOM)
            .min(usize::from(self.info().error_log_entries))
            .max(1);
        let mut page = [0; PAGE_BYTES];
        let page = page.get_mut(..entries * log::ERROR_ENTRY_BYTES);
        let page = page.unwrap_or_default();
        self.log(log::lid::ERROR, page)?;
        let parsed = page
            .chunks_exact(log::ERROR_ENTRY_BYTES)
            .map_while(ErrorEntry::parse);
        let mut count = 0;
        for (place, entry) in found.iter_mut().zip(parsed) {
            *place = entry;
            count += 1;
        }
        Ok(count)
    }

    /// Firmware slots.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn firmware_slots(&self) -> Result<FirmwareSlots, Error> {
        let mut page = [0; log::FIRMWARE_BYTES];
        self.log(log::lid::FIRMWARE, &mut page)?;
        Ok(FirmwareSlots::parse(&page))
    }

    fn feature(&self, opcode: u8, lid: u32, value: u32) -> Result<u32, Error> {
        let command = Command {
            opcode,
            dwords: [lid, value, 0, 0],
            ..Command::default()
        };
        self.with_admin(|admin| self.run(admin, &command))
    }

    /// Whether the volatile write cache is on. False where there is none.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn write_cache(&self) -> Result<bool, Error> {
        if !self.info().volatile_write_cache {
            return Ok(false);
        }
        let value = self.feature(admin::GET_FEATURES, feature::VOLATILE_WRITE_CACHE, 0)?;
        Ok(value & 1 != 0)
    }

    /// Switches the volatile write cache on or off. Existing queues keep their geometry.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn set_write_cache(&self, enabled: bool) -> Result<(), Error> {
        let value = u32::from(enabled);
        self.feature(admin::SET_FEATURES, feature::VOLATILE_WRITE_CACHE, value)?;
        Ok(())
    }

    /// Sets interrupt coalescing: an interrupt after `threshold` completions (1 to 256) or
    /// `time_100us` times 100 us, whichever comes first.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn set_interrupt_coalescing(&self, threshold: u16, time_100us: u8) -> Result<(), Error> {
        let threshold = u32::from(threshold.clamp(1, 256)) - 1;
        let value = threshold | u32::from(time_100us) << 8;
        self.feature(admin::SET_FEATURES, feature::INTERRUPT_COALESCING, value)?;
        Ok(())
    }

    /// Excludes a vector from coalescing, or includes it.
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn set_vector_coalescing(&self, vector: u16, coalesce: bool) -> Result<(), Error> {
        let value = u32::from(vector) | u32::from(!coalesce) << 16;
        self.feature(admin::SET_FEATURES, feature::INTERRUPT_VECTOR, value)?;
        Ok(())
    }

    /// Chooses which asynchronous events are sent (dword 11 of feature 0Bh).
    ///
    /// # Errors
    /// Those of the admin command.
    pub fn set_events(&self, mask: u32) -> Result<(), Error> {
        self.feature(admin::SET_FEATURES, feature::ASYNC_EVENTS, mask)?;
        Ok(())
    }

    /// The next asynchronous event, if any; never waits.
    pub fn next_event(&self) -> Option<DriveEvent> {
        if self.gate.is_dead() {
            return None;
        }
        let next = |admin: &mut Admin| admin.next_event(&self.platform, &self.capabilities);
        self.admin.with(next).flatten()
    }
}
