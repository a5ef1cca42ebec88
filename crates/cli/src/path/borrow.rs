//! Whom a drive goes back to when we are done with it, and what else is put back.
//!
//! A drive that `straightway bind` or its owner prepared is used and left as it is; any other is
//! borrowed from its driver. Records of what was borrowed outlive a crash, and [`recover`] at the
//! start of the next run gives it back.

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::path::held::Ends;
use linux::pci::PciAddress;
use linux::{Roots, bind};
use std::path::{Path, PathBuf};

/// Huge pages of 2 MiB that the kernel keeps.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// What is given back at the end, by what is [held](crate::path::held) on it.
#[derive(Debug)]
pub struct Loan {
    /// None if the drive was ours already.
    binding: Option<bind::Binding>,
    /// Dropped after the function has given its pages back.
    pub huge_pages: Option<HugePages>,
}

impl Loan {
    /// The drive, bound by `bind` to the driver of a path unless it is kept at one.
    ///
    /// # Errors
    /// It is in use, or cannot be bound.
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

/// How many huge pages the kernel kept; it is told to keep that many again when this is dropped.
#[derive(Debug)]
pub struct HugePages {
    count: Option<String>,
}

impl HugePages {
    /// Looks how many there are now.
    pub fn remember() -> Self {
        let count = std::fs::read_to_string(HUGE_PAGES).ok();
        Self { count }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            // Where that fails, memory stays reserved, as the doctor shows.
            let _ = std::fs::write(HUGE_PAGES, count.trim());
        }
    }
}

/// Where a process mounts what it measures: one folder a process, so that a dead one's is known.
pub fn mount_folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/run/straightway/mount-{pid}"))
}

/// Gives back what runs that died had borrowed or mounted, and says so. Without the right to do it
/// nothing is done: the drive is then not ours to use either.
pub fn recover(roots: &Roots, console: &Console) {
    let folder = Path::new("/run/straightway");
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
            console.say(format_args!(
                "unmounted what process {pid} had left mounted"
            ));
        }
    }
    if bind::borrowed(roots)
        .iter()
        .all(|(_, _, is_alive)| *is_alive)
    {
        return;
    }
    match bind::restore_stale(roots) {
        Ok(restored) => {
            for one in restored {
                let driver = one.driver.as_deref().unwrap_or("no driver");
                console.say(format_args!(
                    "{} went back to {driver}; process {} had left it",
                    one.address, one.dead_pid
                ));
            }
        }
        Err(error) => {
            let failure = Failure::from(error);
            console.say(format_args!(
                "what an earlier run left could not be put back: {failure}"
            ));
        }
    }
}
