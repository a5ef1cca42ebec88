// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A front end of rust-vmm as a virtual machine with memory and a queue of its own. The tests' and
//! that of a figure.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio::vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

const MEMORY_BYTES: usize = 2 << 20;
/// Where the machine's memory is in its own addresses, and in those that the messages use.
const GUEST: u64 = 0x4000_0000;
const USER: u64 = 0x7000_0000_0000;
const ENTRIES: u16 = 16;
const TABLE: u64 = 0x1000;
pub const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADS: u64 = 0x4000;
const STATUSES: u64 = 0x5000;
pub const DATA: u64 = 0x10000;
pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const IDENTIFY: u32 = 8;
const PROTOCOL: u64 = 1 << 30;

/// A virtual machine with one queue.
pub struct Machine {
    pub frontend: Frontend,
    memory: GuestMemoryMmap,
    pub features: u64,
    pub kick: EventFd,
    call: EventFd,
    pub available: u16,
}

impl Machine {
    fn connect(socket: &str) -> Self {
        let file = memfd_create("machine", MemfdFlags::empty()).unwrap();
        ftruncate(&file, MEMORY_BYTES as u64).unwrap();
        let file = std::fs::File::from(file);
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        let mut frontend = Frontend::connect(socket, 64).unwrap();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        assert_ne!(features & PROTOCOL, 0);
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK;
        assert!(protocol.contains(wanted));
        frontend.set_protocol_features(wanted).unwrap();
        frontend.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(features).unwrap();
        assert_eq!(frontend.get_queue_num().unwrap(), 64);
        frontend.set_mem_table(&[region]).unwrap();
        let offset = Some(FileOffset::new(file, 0));
        let ranges = [(GuestAddress(0), MEMORY_BYTES, offset)];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        Self {
            frontend,
            memory,
            features,
            kick: EventFd::new(0).unwrap(),
            call: EventFd::new(0).unwrap(),
            available: 0,
        }
    }

    /// Starts the queue from this index on.
    fn start(&mut self, base: u16) {
        let config = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: USER + TABLE,
            used_ring_addr: USER + USED,
            avail_ring_addr: USER + AVAILABLE,
            log_addr: None,
        };
        self.frontend.set_vring_num(0, ENTRIES).unwrap();
        self.frontend.set_vring_addr(0, &config).unwrap();
        self.frontend.set_vring_base(0, base).unwrap();
        self.frontend.set_vring_call(0, &self.call).unwrap();
        self.frontend.set_vring_kick(0, &self.kick).unwrap();
        self.frontend.set_vring_enable(0, true).unwrap();
    }

    pub fn started(socket: &str) -> Self {
        let mut machine = Self::connect(socket);
        machine.start(0);
        machine
    }

    pub fn config(&mut self, offset: u32, len: usize) -> Vec<u8> {
        let flags = VhostUserConfigFlags::WRITABLE;
        let wanted = vec![0; len];
        let (_, bytes) = self
            .frontend
            .get_config(offset, len as u32, flags, &wanted)
            .unwrap();
        bytes
    }

    pub fn store(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub fn load(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    fn entry(&self, index: u64, start: u64, len: u32, flags: u16) {
        let mut bytes = (GUEST + start).to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend((index as u16 + 1).to_le_bytes());
        self.store(TABLE + index * 16, &bytes);
    }

    /// Makes a request of up to 5 available, and wakes the server.
    pub fn submit(&mut self, kind: u32, sector: u64, data: u64, len: u32) {
        let slot = u64::from(self.available % 5);
        let mut head = [0; 16];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[8..].copy_from_slice(&sector.to_le_bytes());
        self.store(HEADS + slot * 16, &head);
        self.store(STATUSES + slot, &[0xff]);
        let first = slot * 3;
        self.entry(first, HEADS + slot * 16, 16, 1);
        let is_device_s = u16::from(kind != WRITE) * 2;
        let mut status = first + 1;
        if len > 0 {
            self.entry(first + 1, data, len, 1 | is_device_s);
            status += 1;
        }
        self.entry(status, STATUSES + slot, 1, 2);
        let at = AVAILABLE + 4 + u64::from(self.available % ENTRIES) * 2;
        self.store(at, &(first as u16).to_le_bytes());
        self.available += 1;
        self.store(AVAILABLE + 2, &self.available.to_le_bytes());
        self.kick.write(1).unwrap();
    }

    /// Waits until everything is answered, by the server's wakes; `sleep` until there is one.
    pub fn wait(&mut self, mut sleep: impl FnMut(&EventFd)) {
        loop {
            // VIRTIO_F_EVENT_IDX: wake us at the next answer, unless it has come before this was
            // stored.
            let used = self.used();
            let at = AVAILABLE + 4 + 2 * u64::from(ENTRIES);
            self.store(at, &used.to_le_bytes());
            fence(Ordering::SeqCst);
            if used == self.available {
                return;
            }
            if self.used() == used {
                sleep(&self.call);
            }
        }
    }

    fn used(&self) -> u16 {
        let used = self.load(USED + 2, 2);
        u16::from_le_bytes([used[0], used[1]])
    }

    pub fn status(&self, number: u16) -> u8 {
        self.load(STATUSES + u64::from(number % 5), 1)[0]
    }

    /// Stops the queue; returns the index of the next request.
    pub fn stop(&mut self) -> u32 {
        self.frontend.get_vring_base(0).unwrap()
    }
}
