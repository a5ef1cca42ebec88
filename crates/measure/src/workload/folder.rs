//! A workload's files in a folder of a file system.

use super::Op;
use super::store::{Ask, LONGEST, Store, UNIT};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files below `straightway-workload` in a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    folder: PathBuf,
    /// This system's O_DIRECT, to bypass the page cache.
    direct: Option<i32>,
}

impl Folder {
    /// Files in `folder`; with this system's O_DIRECT flag they bypass the page cache.
    pub fn new(folder: &Path, direct: Option<i32>) -> Self {
        Self {
            folder: folder.to_path_buf(),
            direct,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.join("straightway-workload")
    }

    fn path(&self, ask: &Ask<'_>) -> PathBuf {
        // A thousand files per folder: file systems are slow with a million.
        let thousand = (ask.number / 1000).to_string();
        let folder = self.root().join(ask.set).join(thousand);
        folder.join(ask.number.to_string())
    }

    fn open(&self, ask: &Ask<'_>, options: &mut OpenOptions) -> io::Result<File> {
        if let Some(flag) = self.direct {
            options.custom_flags(flag);
        }
        options.open(self.path(ask))
    }
}

impl Store for Folder {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn begin(&self) -> io::Result<()> {
        let root = self.root();
        fs::create_dir(&root).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::new(
                error.kind(),
                format!("{0} already exists: rm -r {0}", root.display()),
            ),
            _ => error,
        })
    }

    fn act(&self, ask: &Ask<'_>, buffer: &mut [u8]) -> io::Result<u64> {
        let size = ask.piece_bytes;
        let part = buffer.get_mut(..size as usize).unwrap_or_default();
        let read = || OpenOptions::new().read(true).clone();
        let write = || OpenOptions::new().write(true).clone();
        match ask.op {
            Op::ReadFile => {
                let file = self.open(ask, &mut read())?;
                let mut done = 0;
                // Each pass moves a whole piece, or ends.
                loop {
                    let moved = file.read_at(part, done)? as u64;
                    done += moved;
                    if moved < size {
                        return Ok(done);
                    }
                }
            }
            Op::CreateFile => {
                let path = self.path(ask);
                fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
                let file = self.open(ask, write().create(true))?;
                let bytes = write_whole(&file, ask.len_bytes, part)?;
                if ask.sync {
                    file.sync_all()?;
                }
                Ok(bytes)
            }
            Op::Rewrite => {
                let file = self.open(ask, &mut write())?;
                let len = file.metadata()?.len().div_ceil(UNIT) * UNIT;
                let bytes = write_whole(&file, len, part)?;
                if ask.sync {
                    file.sync_data()?;
                }
                Ok(bytes)
            }
            Op::Append => {
                let file = self.open(ask, &mut write())?;
                let end = file.metadata()?.len().div_ceil(UNIT) * UNIT;
                file.write_all_at(part, end)?;
                if ask.sync {
                    file.sync_data()?;
                }
                Ok(size)
            }
            Op::ReadBlock | Op::WriteBlock => {
                let reads = ask.op == Op::ReadBlock;
                let mut options = if reads { read() } else { write() };
                let file = self.open(ask, &mut options)?;
                let blocks = (file.metadata()?.len() / size).max(1);
                let at = ask.pick % blocks * size;
                if reads {
                    return Ok(file.read_at(part, at)? as u64);
                }
                file.write_all_at(part, at)?;
                if ask.sync {
                    file.sync_data()?;
                }
                Ok(size)
            }
            Op::Delete => fs::remove_file(self.path(ask)).map(|()| 0),
            Op::Stat => fs::metadata(self.path(ask)).map(|_| 0),
            Op::Pause => Ok(0),
        }
    }

    fn clear(&self) -> io::Result<()> {
        fs::remove_dir_all(self.root())
    }
}

fn write_whole(file: &File, len: u64, data: &[u8]) -> io::Result<u64> {
    let mut done = 0;
    while done < len {
        let part = (len - done).min(LONGEST).min(data.len() as u64) as usize;
        let data = data.get(..part).unwrap_or_default();
        file.write_all_at(data, done)?;
        done += part as u64;
    }
    Ok(len)
}
