// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload's files in a folder of a file system.

use super::store::{Named, Session, Store, Use};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What direct access needs of offsets and lengths: a multiple of every drive's block.
const DIRECT_UNIT: u64 = 4096;

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

    fn path(&self, file: Named<'_>) -> PathBuf {
        // A thousand files per folder: file systems are slow with a million.
        let thousand = (file.number / 1000).to_string();
        let folder = self.root().join(file.set).join(thousand);
        folder.join(file.number.to_string())
    }
}

impl Store for Folder {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn unit_bytes(&self) -> u64 {
        self.direct.map_or(1, |_| DIRECT_UNIT)
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

    fn session(&self) -> io::Result<Box<dyn Session + '_>> {
        Ok(Box::new(Files {
            folder: self,
            open: BTreeMap::new(),
        }))
    }

    fn clear(&self) -> io::Result<()> {
        fs::remove_dir_all(self.root())
    }
}

struct Files<'a> {
    folder: &'a Folder,
    open: BTreeMap<u8, File>,
}

impl Files<'_> {
    fn file(&self, number: u8) -> io::Result<&File> {
        let none = || io::Error::other(format!("file {number} is not open"));
        self.open.get(&number).ok_or_else(none)
    }
}

impl Session for Files<'_> {
    fn open(&mut self, number: u8, file: Named<'_>, how: Use) -> io::Result<u64> {
        let path = self.folder.path(file);
        let mut options = OpenOptions::new();
        options.read(true).write(how != Use::Read);
        if let Use::Create(_) = how {
            options.create_new(true);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
        }
        if let Some(flag) = self.folder.direct {
            options.custom_flags(flag);
        }
        let opened = options.open(path)?;
        let len = opened.metadata()?.len();
        self.open.insert(number, opened);
        Ok(len)
    }

    fn read(&mut self, number: u8, offset: u64, buffer: &mut [u8]) -> io::Result<u64> {
        Ok(self.file(number)?.read_at(buffer, offset)? as u64)
    }

    fn write(&mut self, number: u8, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file(number)?.write_all_at(data, offset)
    }

    fn append(&mut self, number: u8, data: &[u8]) -> io::Result<()> {
        let end = self.file(number)?.metadata()?.len();
        self.write(number, end, data)
    }

    fn sync(&mut self, number: u8) -> io::Result<()> {
        self.file(number)?.sync_data()
    }

    fn close(&mut self, number: u8) -> io::Result<()> {
        self.open.remove(&number);
        Ok(())
    }

    fn remove(&mut self, file: Named<'_>) -> io::Result<()> {
        fs::remove_file(self.folder.path(file))
    }

    fn stat(&mut self, file: Named<'_>) -> io::Result<u64> {
        Ok(fs::metadata(self.folder.path(file))?.len())
    }
}
