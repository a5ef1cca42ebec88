//! Whom a drive goes back to when we are done with it, and what else is put back.
//!
//! A drive that `straightway bind` or its owner prepared is used and left as it is; any other is
//! borrowed from its driver. Records of what was borrowed outlive a crash, and [`recover`] at the
//! start of the next run gives it back.

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::keep;
use linux::pci::{Controller, PciAddress};
use linux::{Roots, admin, bind};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Huge pages of 2 MiB that the kernel keeps.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// How long the kernel's driver may take to show a drive again.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Identify: the list of active namespaces.
const CNS_ACTIVE_NAMESPACES: u8 = 2;

/// What is given back at the end.
#[derive(Debug)]
pub struct Loan {
    roots: Roots,
    /// None if the drive was ours already.
    binding: Option<bind::Binding>,
    /// Dropped after the function has given its pages back.
    pub huge_pages: Option<HugePages>,
}

impl Loan {
    /// The drive for the path behind the IOMMU.
    ///
    /// # Errors
    /// It is in use, or cannot be bound.
    pub fn of_vfio(roots: &Roots, address: PciAddress) -> Result<Self> {
        Self::new(roots, address, || bind::to_vfio(roots, address))
    }

    /// The drive for the path without one.
    ///
    /// # Errors
    /// It is in use, or cannot be bound.
    pub fn of_nothing(roots: &Roots, address: PciAddress) -> Result<Self> {
        Self::new(roots, address, || bind::to_nothing(roots, address))
    }

    fn new(
        roots: &Roots,
        address: PciAddress,
        borrow: impl FnOnce() -> linux::Result<bind::Binding>,
    ) -> Result<Self> {
        let binding = match keep::is_kept(roots, address) {
            true => None,
            false => Some(borrow()?),
        };
        Ok(Self {
            roots: roots.clone(),
            binding,
            huge_pages: None,
        })
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// The driver could not be given back; the next run tries again.
    pub fn end(self) -> Result<()> {
        match self.binding {
            Some(binding) => {
                let address = binding.address();
                binding.release()?;
                wait_for_namespaces(&self.roots, address);
                Ok(())
            }
            None => Ok(()),
        }
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
                wait_for_namespaces(roots, one.address);
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

/// The kernel's driver finds namespaces in the background, one after another; what comes next
/// expects them all. The controller itself is asked how many there are.
pub fn wait_for_namespaces(roots: &Roots, address: PciAddress) {
    let began = Instant::now();
    while began.elapsed() < PROBE_LIMIT {
        match Controller::at(roots, address) {
            Ok(controller) if controller.driver.as_deref() == Some("nvme") => {
                if has_all_namespaces(roots, &controller) == Some(true) {
                    return;
                }
            }
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `None` while the controller cannot be asked.
fn has_all_namespaces(roots: &Roots, controller: &Controller) -> Option<bool> {
    let file = File::open(roots.dev.join(controller.kernel_name.as_ref()?)).ok()?;
    let list = admin::identify(&file, 0, CNS_ACTIVE_NAMESPACES).ok()?;
    let mut active = nvme::active_namespaces(&list[..], 0);
    let has_node = |name: &Option<String>| {
        name.as_ref()
            .is_some_and(|name| roots.dev.join(name).exists())
    };
    let is_shown = |namespace: u32| {
        let mut all = controller.namespaces.iter();
        let found = all.find(|one| one.nsid == Some(namespace));
        // One with a format that the kernel cannot use has a character device alone.
        found.is_some_and(|found| match &found.block {
            Some(_) => has_node(&found.block),
            None => has_node(&found.character),
        })
    };
    Some(active.all(is_shown))
}
