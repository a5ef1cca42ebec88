// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of vhost-user ("Front-end message types"), as far as a disk needs them, on a
//! machine's rings.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio::vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
use virtio::{Broken, Rings};

/// Bit of the feature that counts of the rings say when to wake (VIRTIO_F_EVENT_IDX).
const EVENT_INDEX: u64 = 1 << 29;
/// The most bytes of the configuration space that a message asks for.
const MAX_CONFIG_BYTES: u32 = 256;

/// Where a region of the machine's memory is in its emulator, and in the machine.
#[derive(Clone, Copy)]
struct Place {
    user: u64,
    len: u64,
    guest: u64,
}

/// The files of a queue.
#[derive(Default)]
struct Files {
    kick: Option<Arc<File>>,
    call: Option<File>,
}

/// One machine's side of the protocol.
pub struct Backend {
    pub rings: Rings,
    places: Vec<Place>,
    files: Vec<Files>,
}

impl Backend {
    pub fn new(rings: Rings) -> Self {
        let queues = rings.disk().queues;
        Self {
            rings,
            places: Vec::new(),
            files: (0..queues).map(|_| Files::default()).collect(),
        }
    }

    /// The files that wake us.
    pub fn kicks(&self) -> Vec<Arc<File>> {
        let kicks = self.files.iter().filter_map(|files| files.kick.clone());
        kicks.collect()
    }

    /// Wakes the machine where chains were answered.
    pub fn notify(&mut self) -> std::result::Result<(), Broken> {
        for index in self.rings.to_notify()? {
            let call = self.files.get(index).and_then(|files| files.call.as_ref());
            if let Some(mut call) = call {
                // A full counter wakes it, too.
                let _ = call.write(&1u64.to_ne_bytes());
            }
        }
        Ok(())
    }

    /// The place in the machine's memory of an address in its emulator.
    fn guest_address(&self, user: u64) -> Result<u64> {
        let place = self.places.iter().find(|place| {
            let at = user.checked_sub(place.user);
            at.is_some_and(|at| at < place.len)
        });
        let place = place.ok_or(Error::InvalidParam)?;
        Ok(place.guest + (user - place.user))
    }

    fn stop_all(&mut self) {
        for (index, files) in self.files.iter_mut().enumerate() {
            let _ = self.rings.stop(index);
            let _ = self.rings.enable(index, false);
            *files = Files::default();
        }
    }

    fn files_of(&mut self, index: u8) -> Result<&mut Files> {
        self.files
            .get_mut(usize::from(index))
            .ok_or(Error::InvalidParam)
    }
}

/// Only what is there at once may be read or written: the file is another process's.
fn without_waiting(file: File) -> Result<File> {
    let flags = fcntl_getfl(&file).map_err(|error| Error::SocketError(error.into()))?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK)
        .map_err(|error| Error::SocketError(error.into()))?;
    Ok(file)
}

fn unless(is_wrong: bool) -> Result<()> {
    if is_wrong {
        Err(Error::InvalidParam)
    } else {
        Ok(())
    }
}

const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");

impl VhostUserBackendReqHandlerMut for Backend {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        Ok(self.rings.disk().features() | protocol)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_features()?;
        if features & !offered != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.rings.set_event_index(features & EVENT_INDEX != 0);
        // Without the protocol's features queues are enabled when they are started ("Ring states").
        if features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            for index in 0..self.files.len() {
                let _ = self.rings.enable(index, true);
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        let mut mapped = Vec::new();
        let mut places = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            let len = usize::try_from(region.memory_size).map_err(|_| Error::InvalidParam)?;
            let offset = FileOffset::new(file, region.mmap_offset);
            let mapping = MmapRegion::from_file(offset, len).map_err(|_| Error::InvalidParam)?;
            let start = GuestAddress(region.guest_phys_addr);
            mapped.push(GuestRegionMmap::new(mapping, start).ok_or(Error::InvalidParam)?);
            places.push(Place {
                user: region.user_addr,
                len: region.memory_size,
                guest: region.guest_phys_addr,
            });
        }
        mapped.sort_by_key(|region| virtio::vm_memory::GuestMemoryRegion::start_addr(region).0);
        let memory = GuestMemoryMmap::from_regions(mapped).map_err(|_| Error::InvalidParam)?;
        self.rings.set_memory(memory);
        self.places = places;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        unless(!self.rings.set_size(index as usize, num))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let addresses = [
            self.guest_address(descriptor)?,
            self.guest_address(available)?,
            self.guest_address(used)?,
        ];
        unless(!self.rings.set_addresses(index as usize, addresses))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        unless(!self.rings.set_base(index as usize, base))
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.rings.stop(index as usize).ok_or(Error::InvalidParam)?;
        if let Some(files) = self.files.get_mut(index as usize) {
            *files = Files::default();
        }
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = file.map(without_waiting).transpose()?;
        self.files_of(index)?.kick = file.map(Arc::new);
        let started = self.rings.start(index.into());
        started.map_err(|_| Error::InvalidParam)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = file.map(without_waiting).transpose()?;
        self.files_of(index)?.call = file;
        Ok(())
    }

    fn set_vring_err(&mut self, _index: u8, _file: Option<File>) -> Result<()> {
        // A ring that is wrong ends the connection.
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_protocol_features()?;
        unless(features & !offered.bits() != 0)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.rings.disk().queues.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        unless(!self.rings.enable(index as usize, enable))
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        unless(offset.saturating_add(size) > MAX_CONFIG_BYTES)?;
        Ok(self.rings.disk().config(offset as usize, size as usize))
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        // The one field that a driver may write is the cache's mode, which is not offered.
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
