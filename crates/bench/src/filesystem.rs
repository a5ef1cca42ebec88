// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file system on the first half of the drive, and the data that all paths read before they
//! write.

use super::Bench;
use devices::cancel::Cancel;
use devices::error::{Error, Result};
use devices::path::borrow::mount_folder;
use devices::path::kernel::Nodes;
use linux::Roots;
use linux::SyncFile;
use measure::random::Random;
use remedy::{Setting, words};
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHUNK_BYTES: usize = 1 << 20;
/// Distinguishes the initial data on the drive from written data.
const SALT: u64 = 0x6472_6976;

/// A mounted file system. Dropping it unmounts it; if that fails, the next run unmounts it.
#[derive(Debug)]
pub(super) struct Mounted {
    folder: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Mounts the file system in a folder that no other user can enter.
    pub(super) fn mount(nodes: &Nodes) -> Result<Self> {
        let folder = mount_folder(&Roots::system(), std::process::id());
        let failed = |doing, error: std::io::Error| Error::io(doing, &folder, &error);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|error| failed("making", error))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        let done = mount(&nodes.block, &folder, c"ext4", flags, None);
        if let Err(error) = done {
            let _ = fs::remove_dir(&folder);
            return Err(failed("mounting ext4 at", error.into()).hint("dmesg"));
        }
        Ok(Self {
            folder,
            is_mounted: true,
        })
    }

    /// The measured file.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn unmount(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_mounted) {
            let done = unmount(&self.folder, UnmountFlags::empty());
            done.map_err(|error| Error::io("unmounting", &self.folder, &error.into()))?;
            let _ = fs::remove_dir(&self.folder);
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Makes the file system with its file, and writes the raw paths' range once: a drive reads blocks
/// that were never written without accessing its medium.
///
/// # Errors
/// A tool is missing, or the drive failed.
pub fn prepare(bench: &Bench, with_ext4: bool, seed: u64, cancel: &Cancel) -> Result<()> {
    if !bench.plan.destroys {
        return Ok(());
    }
    let nodes = bench.nodes()?;
    write_raw(bench, &nodes, seed, cancel)?;
    if with_ext4 {
        make(&nodes.block, bench.plan.raw_offset_bytes)?;
        let mounted = Mounted::mount(&nodes)?;
        write_file(&mounted.file(), bench.plan.span_bytes, seed, cancel)?;
        mounted.unmount()?;
    }
    Ok(())
}

/// Makes a file system on the first `len_bytes` of the drive, fully initialised, so that the kernel
/// does no background work during the measurement.
fn make(block: &Path, len_bytes: u64) -> Result<()> {
    let mut command = Command::new("mkfs.ext4");
    command
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-E"])
        .arg("lazy_itable_init=0,lazy_journal_init=0,nodiscard")
        .arg(block)
        .arg(format!("{}k", len_bytes >> 10));
    let package = words!["e2fsprogs; or exclude ext4 with ", Setting::Paths];
    let output = command.output();
    let output = output.map_err(|error| Error::tool("mkfs.ext4", package, &error))?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::other(format!("mkfs.ext4: {}", said.trim())).hint("dmesg"))
    }
}

fn write_file(path: &Path, len_bytes: u64, seed: u64, cancel: &Cancel) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("writing", path, &error);
    let mut file = File::create(path).map_err(failed)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes)
        .map_err(|error| failed(error.into()))?;
    each_chunk(len_bytes, seed, cancel, |_, chunk| {
        file.write_all(chunk).map_err(failed)
    })?;
    file.sync_all().map_err(failed)
}

fn write_raw(bench: &Bench, nodes: &Nodes, seed: u64, cancel: &Cancel) -> Result<()> {
    let mut device = SyncFile::open_direct(&bench.claim(&nodes.block)?)?;
    let shift = block::Device::geometry(&device).block_size_log2;
    let mut spare = Some(bench.memory.allocate(CHUNK_BYTES)?);
    let written = each_chunk(bench.plan.span_bytes, seed, cancel, |offset, chunk| {
        let Some(mut buffer) = spare.take() else {
            return Err(Error::missing("the buffer was lost"));
        };
        buffer.copy_from_slice(chunk);
        let lba = (bench.plan.raw_offset_bytes + offset) >> shift;
        let done = block::blocking::write(&mut device, lba, buffer, false);
        spare = Some(done.buffer);
        done.result
            .map_err(|error| Error::request("writing the drive", error))
    });
    if let Some(buffer) = spare {
        let _ = bench.memory.give_back(buffer);
    }
    written?;
    block::blocking::flush(&mut device).map_err(|error| Error::request("flushing", error))
}

/// Calls `action` with each MiB of random data and its offset; lengths are whole MiB.
fn each_chunk(
    len_bytes: u64,
    seed: u64,
    cancel: &Cancel,
    mut action: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut random = Random::derived(seed, &[SALT]);
    random.fill(&mut chunk);
    for offset in (0..len_bytes).step_by(CHUNK_BYTES) {
        if cancel.is_set() {
            return Err(Error::interrupted(
                "interrupted while the drive was being prepared",
            ));
        }
        // Each chunk differs, so that no drive can store them as one.
        chunk.rotate_left(1 + offset as usize / CHUNK_BYTES % 4096);
        action(offset, &chunk)?;
    }
    Ok(())
}
