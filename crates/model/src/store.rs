// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a namespace's bytes are kept.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A namespace's bytes. The caller keeps offsets and lengths inside
/// [`len_bytes`](Store::len_bytes).
pub trait Store: Send + fmt::Debug {
    /// Size in bytes.
    fn len_bytes(&self) -> u64;

    /// Reads from byte `offset` on.
    ///
    /// # Errors
    /// The backing's; the command then ends with Unrecovered Read Error.
    fn read(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()>;

    /// Writes from byte `offset` on.
    ///
    /// # Errors
    /// The backing's; the command then ends with Write Fault.
    fn write(&mut self, offset: u64, source: &[u8]) -> io::Result<()>;

    /// Makes `len` bytes from `offset` on read as zeroes.
    ///
    /// # Errors
    /// Those of [`write`](Store::write).
    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// Those of [`write`](Store::write).
    fn sync(&mut self) -> io::Result<()>;
}

const CHUNK_SHIFT: u32 = 16;
const CHUNK: usize = 1 << CHUNK_SHIFT;

/// Memory, allocated in chunks of 64 KiB when they are first written.
#[derive(Debug)]
pub struct SparseRam {
    len_bytes: u64,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl SparseRam {
    /// `len_bytes` of zeroes.
    pub fn new(len_bytes: u64) -> Self {
        Self {
            len_bytes,
            chunks: Vec::new(),
        }
    }

    /// How many bytes are held in memory.
    pub fn held_bytes(&self) -> u64 {
        self.chunks.iter().flatten().count() as u64 * CHUNK as u64
    }

    fn chunk(&mut self, index: usize) -> &mut [u8] {
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        self.chunks[index].get_or_insert_with(|| vec![0; CHUNK].into_boxed_slice())
    }
}

/// The first chunk's index, the position of `offset` in it, and how many of `len` bytes it has.
fn place(offset: u64, len: usize) -> (usize, usize, usize) {
    let within = offset as usize & (CHUNK - 1);
    (
        (offset >> CHUNK_SHIFT) as usize,
        within,
        len.min(CHUNK - within),
    )
}

impl Store for SparseRam {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&mut self, mut offset: u64, mut target: &mut [u8]) -> io::Result<()> {
        while !target.is_empty() {
            let (index, within, len) = place(offset, target.len());
            let (part, rest) = target.split_at_mut(len);
            match self.chunks.get(index) {
                Some(Some(chunk)) => part.copy_from_slice(&chunk[within..within + len]),
                _ => part.fill(0),
            }
            target = rest;
            offset += len as u64;
        }
        Ok(())
    }

    fn write(&mut self, mut offset: u64, mut source: &[u8]) -> io::Result<()> {
        while !source.is_empty() {
            let (index, within, len) = place(offset, source.len());
            let (part, rest) = source.split_at(len);
            self.chunk(index)[within..within + len].copy_from_slice(part);
            source = rest;
            offset += len as u64;
        }
        Ok(())
    }

    fn zero(&mut self, mut offset: u64, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let room = usize::try_from(len).unwrap_or(usize::MAX);
            let (index, within, part) = place(offset, room);
            // Past the last chunk there is nothing but zeroes.
            let Some(chunk) = self.chunks.get_mut(index) else {
                break;
            };
            if part == CHUNK {
                *chunk = None;
            } else if let Some(chunk) = chunk {
                chunk[within..within + part].fill(0);
            }
            len -= part as u64;
            offset += part as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file, or a block device's node.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    len_bytes: u64,
}

impl FileStore {
    /// Opens `path`, creating it (sparse) if it does not exist; `len_bytes` of it are used, and a
    /// shorter file is extended.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path, len_bytes: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() < len_bytes {
            file.set_len(len_bytes)?;
        }
        Ok(Self { file, len_bytes })
    }
}

impl Store for FileStore {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(target, offset)
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> io::Result<()> {
        self.file.write_all_at(source, offset)
    }

    fn zero(&mut self, mut offset: u64, mut len: u64) -> io::Result<()> {
        let zeroes = [0; 4096];
        while len > 0 {
            let part = len.min(zeroes.len() as u64);
            self.file.write_all_at(&zeroes[..part as usize], offset)?;
            offset += part;
            len -= part;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exercise(store: &mut dyn Store) {
        let data: Vec<u8> = (0..200_000_u32).map(|value| value as u8 | 1).collect();
        store.write(60_000, &data).unwrap();
        let mut back = vec![9; 200_002];
        store.read(59_999, &mut back).unwrap();
        assert_eq!((back[0], back[200_001]), (0, 0));
        assert_eq!(&back[1..200_001], &data[..]);
        store.zero(65_530, 65_600).unwrap();
        store.read(60_000, &mut back[..200_000]).unwrap();
        assert_eq!(&back[..5530], &data[..5530]);
        assert!(back[5530..71_130].iter().all(|&byte| byte == 0));
        assert_eq!(&back[71_130..200_000], &data[71_130..]);
        store.sync().unwrap();
    }

    #[test]
    fn sparse_ram_holds_what_was_written() {
        let mut ram = SparseRam::new(1 << 40);
        exercise(&mut ram);
        // Chunks 0 to 3 were written, chunk 1 was zeroed whole.
        assert_eq!(ram.held_bytes(), 3 * CHUNK as u64);
        ram.zero(0, 1 << 40).unwrap();
        assert_eq!(ram.held_bytes(), 0);
    }

    #[test]
    fn a_file_keeps_its_bytes() {
        let name = format!("straightway-model-store-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        exercise(&mut FileStore::open(&path, 1 << 20).unwrap());
        let mut again = FileStore::open(&path, 1 << 20).unwrap();
        let mut byte = [0];
        again.read(60_001, &mut byte).unwrap();
        assert_eq!((byte, again.len_bytes()), ([1], 1 << 20));
        std::fs::remove_file(&path).unwrap();
    }
}
