// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Restores a drive's original driver and the machine's other settings on exit.
//!
//! A drive that `straightway bind` or its owner prepared is used and left as it is; any other is
//! borrowed from its driver. Records of borrowed drives survive a crash, and [`recover`] returns
//! the drives at the start of the next run.

use crate::error::{Error, Result};
use crate::path::held::Ends;
use crate::{Context, Progress};
use linux::pci::PciAddress;
use linux::{Roots, bind, latency};
use std::path::{Path, PathBuf};

/// Below `/sys`: the number of huge pages of 2 MiB that the kernel reserves.
const HUGE_PAGES: &str = "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// What is restored at the end by the object that [holds](crate::path::held) the loan.
#[derive(Debug)]
pub struct Loan {
    /// None if the drive was already bound to the path's driver.
    binding: Option<bind::Binding>,
    /// Dropped after the function has freed its pages.
    pub huge_pages: Option<HugePages>,
}

impl Loan {
    /// Borrows the drive and binds it with `bind` to the driver of a path, unless it already is.
    ///
    /// # Errors
    /// The drive is in use, or cannot be bound.
    pub fn new(
        roots: &Roots,
        address: PciAddress,
        bind: fn(&Roots, PciAddress) -> linux::Result<bind::Binding>,
    ) -> Result<Self> {
        let is_kept = bind::is_kept(roots, address);
        let binding = (!is_kept).then(|| bind(roots, address)).transpose()?;
        Ok(Self {
            binding,
            huge_pages: None,
        })
    }
}

impl Ends for Loan {
    fn end(self) -> Result<()> {
        if let Some(binding) = self.binding {
            binding.release()?;
        }
        Ok(())
    }
}

/// The original number of reserved huge pages, restored when this is dropped.
#[derive(Debug)]
pub struct HugePages {
    file: PathBuf,
    count: Option<String>,
}

impl HugePages {
    /// Reads the current number.
    pub fn remember(roots: &Roots) -> Self {
        let file = roots.sys.join(HUGE_PAGES);
        let count = std::fs::read_to_string(&file).ok();
        Self { file, count }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            // If this fails, memory stays reserved, which `doctor` shows.
            let _ = std::fs::write(&self.file, count.trim());
        }
    }
}

/// Where a process mounts the file system that it measures: one folder per process, so that the
/// folder of a dead process can be recognised.
pub fn mount_folder(roots: &Roots, pid: u32) -> PathBuf {
    mount_folders(roots).join(format!("mount-{pid}"))
}

/// What only root can do is in root's folder.
fn mount_folders(roots: &Roots) -> &Path {
    roots
        .state
        .first()
        .map_or(Path::new("/run/straightway"), PathBuf::as_path)
}

/// Restores what dead processes had borrowed or mounted, and reports it. Does nothing without the
/// permission to do so: this process may not use the drive then either.
pub fn recover(context: &Context) {
    let (roots, progress) = (&context.roots, &context.progress);
    let folder = mount_folders(roots);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("mount-"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if roots.proc.join(pid.to_string()).exists() {
            continue;
        }
        let path = entry.path();
        let unmounted = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH);
        let removed = std::fs::remove_dir(&path);
        if unmounted.is_ok() && removed.is_ok() {
            progress.say(format_args!(
                "unmounted what process {pid} had left mounted"
            ));
        }
    }
    let mut borrowed = bind::borrowed(roots).into_iter();
    if borrowed.any(|(_, _, is_alive)| !is_alive) {
        return_stale(roots, progress);
    }
    // The attribute is there once the kernel's driver has the drive again.
    if !latency::is_stale(roots) {
        return;
    }
    match latency::restore_stale(roots) {
        Ok(restored) => {
            for one in restored {
                progress.say(format_args!(
                    "the latency tolerance of {} is {} again; process {} had left it changed",
                    one.address, one.value, one.dead_pid
                ));
            }
        }
        Err(error) => not_reverted(progress, error),
    }
}

fn not_reverted(progress: &Progress, error: linux::Error) {
    let failure = Error::from(error);
    progress.say(format_args!(
        "the changes of an earlier run could not be reverted: {failure}"
    ));
}

fn return_stale(roots: &Roots, progress: &Progress) {
    match bind::restore_stale(roots) {
        Ok(restored) => {
            for one in restored {
                let driver = one.driver.as_deref().unwrap_or("no driver");
                progress.say(format_args!(
                    "{} was returned to {driver}; process {} had left it",
                    one.address, one.dead_pid
                ));
            }
        }
        Err(error) => not_reverted(progress, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_a_crash_left_is_restored_in_the_given_tree() {
        let folder =
            std::env::temp_dir().join(format!("straightway-borrow-{}", std::process::id()));
        let roots = Roots::under(&folder);
        let file = roots.sys.join(HUGE_PAGES);
        fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
        fs::write(&file, "7\n").expect("the number");
        let remembered = HugePages::remember(&roots);
        fs::write(&file, "64\n").expect("the number");
        drop(remembered);
        assert_eq!(fs::read_to_string(&file).expect("the number"), "7");
        assert_eq!(
            mount_folder(&roots, 12),
            folder.join("run/straightway/mount-12")
        );
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
