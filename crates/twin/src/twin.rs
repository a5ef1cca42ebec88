// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume, its disk and its open files.
//!
//! [`Twin`] owns all of them. Mounting builds the volume from its parts and unmounting takes it
//! apart; the disk is shared, so that its bytes can be read at any time.

use block::Buffer;
use crash::{Config, CrashDisk, Cut, Medium, Sampling};
use volume::{
    CreateOptions, Error, File, FormatOptions, MountOptions, OpenFile, Volume, blocking, format,
};

/// The outcome of a call as a number: 0, or the kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// Success.
    Done = 0,
    /// Some other error of the volume.
    Other = -1,
    /// The power is cut.
    Gone = -2,
    /// No such file.
    NotFound = -3,
    /// The name is taken.
    Exists = -4,
    /// No space is left.
    NoSpace = -5,
    /// All slots are taken.
    TableFull = -6,
    /// The volume is mounted already, or not yet; or no file is open there.
    Misuse = -7,
    /// A node is damaged.
    Corrupt = -8,
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Device(device) if device.error() == block::Error::Gone => Status::Gone,
            Error::NotFound => Status::NotFound,
            Error::Exists => Status::Exists,
            Error::NoSpace => Status::NoSpace,
            Error::TableFull => Status::TableFull,
            Error::Corrupt(_) | Error::Rot { .. } => Status::Corrupt,
            _ => Status::Other,
        }
    }
}

/// Files that may be open at the same time.
pub const PLACES: usize = 8;
/// The longest transfer of one call, and the memory for it.
const TRANSFER_BYTES: usize = 4 << 20;
/// What one checksum covers.
const CHUNK_BYTES: u64 = 1 << 16;
const NODE_BYTES_MOST: usize = 16_384;

/// A volume on a disk that forgets what was not flushed.
#[derive(Debug)]
pub struct Twin {
    disk: CrashDisk,
    block_bytes: usize,
    volume: Option<Volume<'static, CrashDisk>>,
    places: [Option<File>; PLACES],
    /// Lent to the volume while it is mounted.
    memory: Option<[Buffer; 3]>,
    /// For data; present between calls.
    transfer: Option<Buffer>,
}

fn buffer(len: usize) -> Buffer {
    // A twin lives as long as its simulation: its memory is never given back.
    Buffer::from_static(Box::leak(vec![0; len].into_boxed_slice()))
}

impl Twin {
    /// A disk of these bytes, with blocks of `1 << block_size_log2`.
    ///
    /// # Errors
    /// [`Status::Other`] if the bytes are not whole blocks.
    pub fn new(block_size_log2: u8, bytes: &[u8]) -> Result<Self, Status> {
        let medium = Medium::from_bytes(block_size_log2, bytes).map_err(|_| Status::Other)?;
        Ok(Self {
            disk: CrashDisk::new(medium, Config::default()),
            block_bytes: 1 << block_size_log2,
            volume: None,
            places: [None; PLACES],
            memory: Some([NODE_BYTES_MOST; 3].map(buffer)),
            transfer: Some(buffer(TRANSFER_BYTES)),
        })
    }

    /// Replaces the disk's bytes, and with them its length; the power is on again.
    ///
    /// # Errors
    /// [`Status::Misuse`] while a volume is mounted; as [`Twin::new`].
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), Status> {
        if self.volume.is_some() {
            return Err(Status::Misuse);
        }
        let log2 = self.block_bytes.trailing_zeros() as u8;
        let medium = Medium::from_bytes(log2, bytes).map_err(|_| Status::Other)?;
        self.disk = CrashDisk::new(medium, Config::default());
        Ok(())
    }

    /// The disk's content while the power is on.
    pub fn bytes(&self) -> Vec<u8> {
        self.disk.current().to_bytes()
    }

    /// One of the images that the power cut may have left.
    pub fn cut_image(&self, seed: u64) -> Vec<u8> {
        let sampling = Sampling {
            exhaustive_blocks: 0,
            samples: 24,
            tears: 2,
            seed,
        };
        let images: Vec<_> = self.disk.images(&sampling).collect();
        let chosen = images.get(seed as usize % images.len().max(1));
        chosen.map_or_else(|| self.bytes(), |image| image.medium.to_bytes())
    }

    /// Cuts the power during the `number`-th write or flush from now on.
    pub fn stop_after(&self, number: u64) {
        self.disk
            .stop_after(self.disk.changes() + number, Cut::During);
    }

    /// Whether the power is cut.
    pub fn is_off(&self) -> bool {
        self.disk.is_off()
    }

    /// Makes a volume of the whole disk.
    ///
    /// # Errors
    /// [`Status::Misuse`] while one is mounted; the volume's errors.
    pub fn format(
        &mut self,
        unit: u64,
        node: u32,
        slots: u32,
        uuid: [u8; 16],
        checksums: bool,
    ) -> Result<(), Status> {
        if self.volume.is_some() {
            return Err(Status::Misuse);
        }
        let options = FormatOptions {
            unit_bytes: Some(unit),
            node_bytes: Some(node),
            slots: Some(slots),
            uuid,
            checksums,
            ..FormatOptions::default()
        };
        let memory = self.transfer.take().ok_or(Status::Misuse)?;
        let (result, memory) = format(&mut self.disk.clone(), memory, &options);
        self.transfer = memory;
        result.map(drop).map_err(Status::from)
    }

    /// Mounts; recovers where the power was cut.
    ///
    /// # Errors
    /// [`Status::Misuse`] if it is mounted; the volume's errors.
    pub fn mount(&mut self, read_only: bool) -> Result<(), Status> {
        if self.volume.is_some() {
            return Err(Status::Misuse);
        }
        let memory = self
            .memory
            .take()
            .unwrap_or_else(|| [NODE_BYTES_MOST; 3].map(buffer));
        let files: &'static mut [OpenFile] =
            Box::leak(Box::new([const { OpenFile::new() }; PLACES]));
        let options = MountOptions {
            read_only,
            ..MountOptions::default()
        };
        match Volume::mount(self.disk.clone(), memory, files, &options) {
            Ok(volume) => {
                self.volume = Some(volume);
                Ok(())
            }
            Err(unmounted) => {
                self.keep(unmounted.memory);
                Err(unmounted
                    .result
                    .map_or_else(Status::from, |()| Status::Other))
            }
        }
    }

    /// Adds a bucket to the slot table, and moves to it what belongs there.
    ///
    /// # Errors
    /// [`Status::Misuse`] if no volume is mounted; the volume's errors.
    pub fn grow(&mut self) -> Result<(), Status> {
        let volume = self.volume()?;
        blocking::run(volume, volume.grow_table())?;
        Ok(())
    }

    /// Unmounts; open files are not closed, as with a power cut.
    ///
    /// # Errors
    /// [`Status::Misuse`] if it is not mounted; the volume's errors.
    pub fn unmount(&mut self) -> Result<(), Status> {
        let volume = self.volume.take().ok_or(Status::Misuse)?;
        self.places = [None; PLACES];
        let unmounted = volume.unmount();
        self.keep(unmounted.memory);
        unmounted.result.map_err(Status::from)
    }

    /// Abandons the volume as a power cut does.
    pub fn abandon(&mut self) {
        self.places = [None; PLACES];
        if let Some(volume) = self.volume.take() {
            let unmounted = volume.abandon();
            self.keep(unmounted.memory);
        }
    }

    fn keep(&mut self, memory: [Option<Buffer>; 3]) {
        if let [Some(one), Some(two), Some(three)] = memory {
            self.memory = Some([one, two, three]);
        }
    }

    fn volume(&self) -> Result<&Volume<'static, CrashDisk>, Status> {
        self.volume.as_ref().ok_or(Status::Misuse)
    }

    fn file(&self, place: usize) -> Result<File, Status> {
        self.places
            .get(place)
            .copied()
            .flatten()
            .ok_or(Status::Misuse)
    }

    /// Makes a file with space for `reserve_bytes`, optionally with checksums, and opens it in a
    /// place.
    ///
    /// # Errors
    /// [`Status::Misuse`] if the place is taken; the volume's errors.
    pub fn create(
        &mut self,
        place: usize,
        name: &str,
        reserve_bytes: u64,
        checksums: bool,
    ) -> Result<(), Status> {
        let options = CreateOptions {
            reserve_bytes,
            checksums,
            ..CreateOptions::default()
        };
        let volume = self.volume()?;
        let file = blocking::run(volume, volume.create(name, &options))?;
        self.place(place, file)
    }

    /// Opens a file in a place.
    ///
    /// # Errors
    /// Those of [`Twin::create`].
    pub fn open(&mut self, place: usize, name: &str, to_write: bool) -> Result<(), Status> {
        let volume = self.volume()?;
        let file = if to_write {
            blocking::run(volume, volume.open_to_write(name))?
        } else {
            blocking::run(volume, volume.open(name))?
        };
        self.place(place, file)
    }

    fn place(&mut self, place: usize, file: File) -> Result<(), Status> {
        match self.places.get_mut(place) {
            Some(free @ None) => {
                *free = Some(file);
                Ok(())
            }
            _ => Err(Status::Misuse),
        }
    }

    /// Appends bytes. Only the last append of a file may end inside a block.
    ///
    /// # Errors
    /// [`Status::Misuse`] for more bytes than one call takes; the volume's errors.
    pub fn append(&mut self, place: usize, data: &[u8]) -> Result<(), Status> {
        let file = self.file(place)?;
        self.with_transfer(data.len(), |volume, mut whole| {
            let (first, rest) = whole.split_at_mut(data.len());
            first.copy_from_slice(data);
            rest.fill(0);
            blocking::append(volume, file, whole, data.len())
        })
        .map(drop)
    }

    /// Overwrites existing bytes; the offset and the length are whole blocks.
    ///
    /// # Errors
    /// Those of [`Twin::append`].
    pub fn overwrite(&mut self, place: usize, offset: u64, data: &[u8]) -> Result<(), Status> {
        let file = self.file(place)?;
        self.with_transfer(data.len(), |volume, mut whole| {
            whole.copy_from_slice(data);
            blocking::overwrite(volume, file, offset, whole)
        })
        .map(drop)
    }

    /// Reads bytes; the offset is a multiple of the block. For a file with checksums, whole chunks
    /// are compared if the offset is the start of a chunk.
    ///
    /// # Errors
    /// Those of [`Twin::append`]; [`Status::Corrupt`] for a chunk that differs from what was
    /// written.
    pub fn read(&mut self, place: usize, offset: u64, target: &mut [u8]) -> Result<(), Status> {
        let file = self.file(place)?;
        let len = target.len();
        self.with_transfer(len, |volume, whole| {
            blocking::read(volume, file, offset, whole)
        })?;
        let read = self.transfer.as_ref().and_then(|buffer| buffer.get(..len));
        target.copy_from_slice(read.ok_or(Status::Other)?);
        if offset % CHUNK_BYTES != 0 {
            return Ok(());
        }
        let volume = self.volume()?;
        match blocking::run(volume, volume.verify(file, offset, target)) {
            Ok(()) | Err(Error::Unsupported) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lends as many blocks as hold `len` bytes to a transfer.
    fn with_transfer(
        &mut self,
        len: usize,
        transfer: impl FnOnce(&Volume<'static, CrashDisk>, Buffer) -> blocking::Outcome,
    ) -> Result<(), Status> {
        let blocks = len.next_multiple_of(self.block_bytes);
        if len == 0 || blocks > TRANSFER_BYTES {
            return if len == 0 {
                Ok(())
            } else {
                Err(Status::Misuse)
            };
        }
        self.volume()?;
        let mut whole = block::Lent::new(self.transfer.take().ok_or(Status::Misuse)?);
        let piece = whole.lend(blocks);
        let volume = self.volume.as_ref().ok_or(Status::Misuse)?;
        let outcome = transfer(volume, piece);
        if whole.give_back(outcome.buffer).is_ok() {
            self.transfer = whole.into_whole().ok();
        }
        outcome.result.map_err(Status::from)
    }

    /// Commits what was written; with `durable`, makes it durable.
    ///
    /// # Errors
    /// The volume's errors.
    pub fn commit(&mut self, place: usize, durable: bool) -> Result<(), Status> {
        let (file, volume) = (self.file(place)?, self.volume()?);
        if durable {
            blocking::run(volume, volume.sync(file))?;
        } else {
            blocking::run(volume, volume.commit(file))?;
        }
        Ok(())
    }

    /// Closes the file in a place.
    ///
    /// # Errors
    /// The volume's errors; the place is free in any case.
    pub fn close(&mut self, place: usize) -> Result<(), Status> {
        let file = self.file(place)?;
        if let Some(open) = self.places.get_mut(place) {
            *open = None;
        }
        let volume = self.volume()?;
        Ok(blocking::run(volume, volume.close(file))?)
    }

    /// Deletes a file and gives all its units back.
    ///
    /// # Errors
    /// The volume's errors.
    pub fn delete(&mut self, name: &str) -> Result<(), Status> {
        let volume = self.volume()?;
        blocking::run(volume, volume.remove(name))?;
        let mut from = 0;
        while let Some(next) = blocking::run(volume, volume.reap(from))? {
            from = next;
        }
        Ok(())
    }

    /// Renames a file.
    ///
    /// # Errors
    /// The volume's errors.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), Status> {
        let volume = self.volume()?;
        Ok(blocking::run(volume, volume.rename(old, new))?)
    }

    /// A file's size.
    ///
    /// # Errors
    /// The volume's errors.
    pub fn size(&self, name: &str) -> Result<u64, Status> {
        let volume = self.volume()?;
        Ok(blocking::run(volume, volume.find(name))?.size_bytes)
    }

    /// The number of files of the volume, if nothing is damaged: no finding affects data.
    ///
    /// # Errors
    /// [`Status::Corrupt`] if something is; the volume's errors.
    pub fn check(&self) -> Result<u64, Status> {
        let volume = self.volume()?;
        let mut scratch = vec![0; 1 << 20];
        let summary = blocking::run(volume, volume.check(&mut scratch, &mut |_| {}))?;
        if summary.damages == 0 && summary.complete {
            Ok(summary.files)
        } else {
            Err(Status::Corrupt)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twin() -> Twin {
        let mut twin = Twin::new(9, &vec![0; 1 << 20]).unwrap();
        twin.format(512, 512, 16, [7; 16], true).unwrap();
        twin
    }

    #[test]
    fn a_file_comes_and_goes() {
        let mut twin = twin();
        assert_eq!(twin.create(0, "one", 0, false), Err(Status::Misuse));
        twin.mount(false).unwrap();
        twin.create(0, "one", 4000, false).unwrap();
        twin.append(0, &[1; 1024]).unwrap();
        twin.append(0, &[2; 700]).unwrap();
        twin.commit(0, true).unwrap();
        twin.overwrite(0, 512, &[3; 512]).unwrap();
        let mut read = vec![0; 1724];
        twin.read(0, 0, &mut read).unwrap();
        assert_eq!((read[0], read[600], read[1100]), (1, 3, 2));
        twin.close(0).unwrap();
        twin.rename("one", "two").unwrap();
        assert_eq!(
            (twin.size("two"), twin.size("one")),
            (Ok(1724), Err(Status::NotFound))
        );
        assert_eq!(twin.check(), Ok(1));
        twin.delete("two").unwrap();
        assert_eq!(twin.check(), Ok(0));
        twin.unmount().unwrap();
    }

    #[test]
    fn what_a_cut_leaves_can_be_mounted() {
        for number in 1..12 {
            let mut twin = twin();
            twin.mount(false).unwrap();
            twin.create(0, "kept", 0, true).unwrap();
            twin.append(0, &[1; 600]).unwrap();
            twin.commit(0, true).unwrap();
            twin.stop_after(number);
            let result = twin
                .create(1, "perhaps", 2000, false)
                .and_then(|()| twin.close(1));
            assert!(matches!(result, Ok(()) | Err(Status::Gone)));
            let image = twin.cut_image(number);
            twin.abandon();
            twin.load(&image).unwrap();
            twin.mount(false).unwrap();
            assert_eq!(twin.size("kept"), Ok(600));
            assert!(matches!(twin.check(), Ok(1 | 2)));
        }
    }
}
