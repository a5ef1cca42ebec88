// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounting and unmounting.

use block::{Buffer, Device, Lent, Operation as Request, blocking as device};

use crate::checksum::{Crc32c, crc32c};
use crate::file::OpenFile;
use crate::io::{Flags, Io, NO_GROUP, NO_SLOT, SPARE, State, WORK};
use crate::layout::{SEQ_END, SEQ_RESERVE, SUPERBLOCK_B, SUPERBLOCK_BYTES};
#[cfg(feature = "mutations")]
use crate::order::Mutation;
use crate::order::Order;
use crate::steps::{Addresses, Steps};
use crate::superblock::{Operation, Superblock, is_overwritten, superblock_len};
use crate::table::Table;
use crate::{Error, Volume, blocking};

/// How to mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// Change nothing, not even to complete an interrupted operation.
    pub read_only: bool,
    /// The CRC32C to use.
    pub crc32c: Crc32c,
    /// The time stamped on what changes, in nanoseconds since 1970; see [`Volume::set_time`].
    pub now_ns: u64,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            crc32c,
            now_ns: 0,
        }
    }
}

/// The device and memory that a volume used, given back.
#[derive(Debug)]
pub struct Unmounted<D> {
    /// The device.
    pub device: D,
    /// The node memory; `None` where the device failed to give it back.
    pub memory: [Option<Buffer>; 3],
    /// Why it could not be mounted, or not unmounted cleanly.
    pub result: Result<(), Error>,
}

impl<D> core::fmt::Display for Unmounted<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.result {
            Ok(()) => f.write_str("the volume was unmounted cleanly"),
            Err(error) => error.fmt(f),
        }
    }
}

impl<D: core::fmt::Debug> core::error::Error for Unmounted<D> {}

impl<'a, D: Device> Volume<'a, D> {
    /// Mounts the volume on `device`.
    ///
    /// Each buffer of `memory` is at least one node long; with a longer second and third buffer, up
    /// to eight nodes, looking up a name takes fewer reads. `files` has an entry for each file that
    /// may be open at the same time, at most 128.
    ///
    /// Mounting reads the two superblocks. After a power cut it also completes or undoes the one
    /// operation that may have been in progress: at most 28 reads and 6 writes more, and a write
    /// for each slot of that operation that was torn.
    ///
    /// # Errors
    /// Everything is given back with the reason: [`Error::NotAVolume`], [`Error::NewerVersion`],
    /// [`Error::UnknownFeatures`], [`Error::Truncated`], [`Error::Corrupt`],
    /// [`Error::StaleSuperblock`], [`Error::Unsuitable`], [`Error::Memory`] or a device's error;
    /// unless it is mounted read-only, also [`Error::Overwritten`] and [`Error::SequenceEnd`].
    #[allow(clippy::result_large_err)]
    pub fn mount(
        device: D,
        memory: [Buffer; 3],
        files: &'a mut [OpenFile],
        options: &MountOptions,
    ) -> Result<Self, Unmounted<D>> {
        Self::mount_as(
            device,
            memory,
            files,
            options,
            #[cfg(feature = "mutations")]
            Mutation::None,
        )
    }

    /// Mounts a volume that violates the protocol in one way, to test the tests.
    ///
    /// # Errors
    /// Those of [`Volume::mount`].
    #[cfg(feature = "mutations")]
    #[allow(clippy::result_large_err)]
    pub fn mount_mutated(
        device: D,
        memory: [Buffer; 3],
        files: &'a mut [OpenFile],
        options: &MountOptions,
        mutation: Mutation,
    ) -> Result<Self, Unmounted<D>> {
        Self::mount_as(device, memory, files, options, mutation)
    }

    #[allow(clippy::result_large_err)]
    fn mount_as(
        mut device: D,
        memory: [Buffer; 3],
        files: &'a mut [OpenFile],
        options: &MountOptions,
        #[cfg(feature = "mutations")] mutation: Mutation,
    ) -> Result<Self, Unmounted<D>> {
        let mut memory = memory.map(Some);
        let mut newest = None;
        let found = read_superblock(&mut device, &mut memory, &mut newest);
        let (superblock, operation) = match found {
            Ok(found) => found,
            Err(error) => {
                return Err(Unmounted {
                    device,
                    memory,
                    result: Err(error),
                });
            }
        };
        for file in files.iter_mut() {
            file.reset();
        }
        let read_only =
            options.read_only || superblock.read_only || device.geometry().features.read_only;
        if let (false, Err(error)) = (read_only, may_be_written(&device, &memory, superblock)) {
            return Err(Unmounted {
                device,
                memory,
                result: Err(error),
            });
        }
        let volume = Self::from_state(State {
            device,
            superblock: Superblock {
                read_only,
                ..*superblock
            },
            table: Table::of_format(&superblock.shape),
            files,
            nodes: memory,
            io: Io::Idle,
            steps: Steps::EMPTY,
            addresses: Addresses::NONE,
            crc32c: options.crc32c,
            now_ns: options.now_ns,
            cached_slot: NO_SLOT,
            renamed: NO_SLOT,
            cached_group: NO_GROUP,
            flags: Flags::default(),
            moves: 0,
            both: false,
            changing: false,
            failed: false,
            // What was in the device's cache when the program started is not known to be durable.
            unflushed: true,
            #[cfg(feature = "mutations")]
            mutation,
        });
        let result = blocking::run(&volume, volume.begin(operation));
        match result {
            Ok(()) => Ok(volume),
            Err(error) => {
                let mut unmounted = volume.take_apart();
                unmounted.result = Err(error);
                Err(unmounted)
            }
        }
    }

    /// What a mount reads and writes besides the superblock.
    async fn begin(&self, operation: &Operation) -> Result<(), Error> {
        {
            let mut turn = self.turn().await?;
            self.load_table(turn.slot.lend()).await?;
            turn.done();
        }
        let (clean, read_only) = {
            let state = self.state();
            (state.superblock.clean, state.superblock.read_only)
        };
        match (clean, read_only) {
            (true, _) => Ok(()),
            (false, true) => self.leave_out_renamed(operation).await,
            (false, false) => self.recover(operation).await,
        }
    }

    /// Writes everything that is pending, marks the volume clean and gives the device back. Close
    /// files first: what was appended to an open one since its last commit is lost.
    ///
    /// The volume is unmounted in any case; if `result` is an error it is in the state that a power
    /// cut leaves.
    pub fn unmount(self) -> Unmounted<D> {
        let result = blocking::run(&self, self.finish());
        let mut unmounted = self.take_apart();
        unmounted.result = result;
        unmounted
    }

    /// Abandons the volume without writing, as a power cut would.
    pub fn abandon(self) -> Unmounted<D> {
        self.take_apart()
    }

    async fn finish(&self) -> Result<(), Error> {
        let turn = self.turn().await?;
        let clean = {
            let state = self.state();
            state.superblock.read_only || state.superblock.clean
        };
        self.perform(|state| {
            state.order(Order::NodesBeforeClean);
            // Both members, one after the other: from now on either may rot.
            for which in [SPARE, WORK].into_iter().filter(|_| !clean) {
                state.put_superblock(which, &Operation::None, true);
                state.order(Order::CleanBeforeClean);
            }
        })
        .await?;
        turn.done();
        Ok(())
    }

    fn take_apart(self) -> Unmounted<D> {
        let state = self.state.into_inner();
        Unmounted {
            device: state.device,
            memory: state.nodes,
            result: Ok(()),
        }
    }
}

/// Reads both superblocks and stores the newest valid one in `newest`, which is empty.
fn read_superblock<'n>(
    device: &mut dyn Device,
    memory: &mut [Option<Buffer>; 3],
    newest: &'n mut Option<(Superblock, Operation)>,
) -> Result<&'n (Superblock, Operation), Error> {
    let geometry = *device.geometry();
    let len = superblock_len(geometry.block_size_log2);
    let align = geometry.buffer_align_bytes as usize;
    let fits = memory
        .iter()
        .flatten()
        .all(|buffer| buffer.len() >= len.max(SUPERBLOCK_BYTES) && buffer.address() % align == 0);
    if !fits {
        return Err(Error::Memory);
    }
    let mut refused = None;
    for (address, place) in [0, SUPERBLOCK_B].into_iter().zip(memory.iter_mut()) {
        let end = (address + len as u64).div_ceil(geometry.block_size_bytes() as u64);
        if end > geometry.block_count {
            continue;
        }
        read_into(device, address, len, place)?;
        let bytes = place.as_deref().unwrap_or_default();
        match Superblock::decode(bytes, address) {
            Ok(Some(found))
                if newest
                    .as_ref()
                    .is_none_or(|(best, _)| found.0.seq > best.seq) =>
            {
                *newest = Some(found);
            }
            Ok(_) => {}
            Err(error) => refused = Some(error),
        }
    }
    // A member of a newer version, or one that contradicts itself, is never skipped in favour of an
    // older one: that would undo its changes.
    if let Some(error) = refused {
        return Err(error);
    }
    let found = newest.as_ref().ok_or(Error::NotAVolume)?;
    let shape = &found.0.shape;
    if geometry.size_bytes() < shape.volume_bytes {
        let missing_bytes = shape.volume_bytes - geometry.size_bytes();
        return Err(Error::Truncated {
            missing_kib: u32::try_from(missing_bytes.div_ceil(1024)).unwrap_or(u32::MAX),
        });
    }
    let block = geometry.block_size_log2;
    if block > shape.node_log2
        || block > shape.unit_log2
        || geometry.max_transfer_bytes() < shape.node_bytes()
    {
        return Err(Error::Unsuitable);
    }
    let short = memory
        .iter()
        .flatten()
        .any(|buffer| buffer.len() < shape.node_bytes());
    if short {
        return Err(Error::Memory);
    }
    Ok(found)
}

/// Whether a volume may be written whose superblocks are in `memory`, as they were read.
fn may_be_written(
    device: &dyn Device,
    memory: &[Option<Buffer>; 3],
    superblock: &Superblock,
) -> Result<(), Error> {
    let len = superblock_len(device.geometry().block_size_log2);
    for (address, place) in [0, SUPERBLOCK_B].into_iter().zip(memory) {
        let bytes = place.as_deref().and_then(|buffer| buffer.get(..len));
        let bytes = bytes.unwrap_or_default();
        // The next superblock but one would be written over what another owner has there.
        if matches!(Superblock::decode(bytes, address), Ok(None))
            && is_overwritten(bytes, &superblock.uuid)
        {
            return Err(Error::Overwritten);
        }
    }
    if superblock.seq < SEQ_END / 2 - SEQ_RESERVE {
        Ok(())
    } else {
        Err(Error::SequenceEnd)
    }
}

/// Reads `len_bytes` into the buffer in `place`.
fn read_into(
    device: &mut dyn Device,
    address: u64,
    len_bytes: usize,
    place: &mut Option<Buffer>,
) -> Result<(), Error> {
    move_bytes(device, false, address, len_bytes, place)
}

/// Writes `len_bytes` of the buffer in `place`.
pub(crate) fn write_from(
    device: &mut dyn Device,
    address: u64,
    len_bytes: usize,
    place: &mut Option<Buffer>,
) -> Result<(), Error> {
    move_bytes(device, true, address, len_bytes, place)
}

/// I/O before a volume is mounted goes through `dyn Device`: it is rare and need not be fast, so it
/// is compiled only once.
#[inline(never)]
pub(crate) fn move_bytes(
    device: &mut dyn Device,
    write: bool,
    address: u64,
    len_bytes: usize,
    place: &mut Option<Buffer>,
) -> Result<(), Error> {
    let whole = place.take().ok_or(Error::Memory)?;
    let lba = address >> device.geometry().block_size_log2;
    let mut lent = Lent::new(whole);
    let piece = lent.lend(len_bytes);
    let outcome = if write {
        device::write(device, lba, piece, false)
    } else {
        device::read(device, lba, piece)
    };
    let _ = lent.give_back(outcome.buffer);
    *place = lent.into_whole().ok();
    Ok(outcome.result?)
}

/// Flushes, if the device has a cache.
pub(crate) fn flush(device: &mut dyn Device) -> Result<(), Error> {
    if device.geometry().features.volatile_write_cache {
        device::command(device, Request::Flush)?;
    }
    Ok(())
}
