// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: its settings, and which driver has the drive.

use super::Bench;
use super::OrMissing;
use super::filesystem::Mounted;
use super::instructions::LabCounter;
use super::processor::ProcessorCounter;
use devices::drive::Drive;
use devices::error::Error;
use devices::path::held::Ends;
use devices::path::kernel::Nodes;
use devices::path::straight::{self, Needs};
use devices::path::{chario, power};
use measure::why::{Gauge, ThreadGauge};
use measure::{Environment, Host, LatencyLimit, Missing, Subject, WorkCounter};
use paths::Group;
use remedy::{Setting, Value, Wording};
use std::path::PathBuf;
use std::rc::Rc;

/// The machine while it measures.
pub struct BenchHost {
    bench: Rc<Bench>,
    /// The file of the lab's counter.
    counts: Option<PathBuf>,
}

impl BenchHost {
    /// The machine for this bench.
    pub fn new(bench: &Rc<Bench>) -> Self {
        Self {
            bench: Rc::clone(bench),
            counts: None,
        }
    }

    /// With the lab's counter of instructions, which writes into this file ([`COUNTS`] names it).
    ///
    /// [`COUNTS`]: crate::COUNTS
    #[must_use]
    pub fn counting(mut self, counts: Option<PathBuf>) -> Self {
        self.counts = counts;
        self
    }

    fn take_controller(&self) -> Result<(), Error> {
        let needs = Needs {
            buffer_bytes: self.bench.buffer_bytes,
            queues: self.bench.plan.threads,
            latency_limit_us: self.bench.plan.latency_limit_us,
        };
        let handle = match self.bench.drive() {
            Drive::Nvme(resolved) => {
                let behind_iommu = resolved.controller.iommu_group.is_some();
                straight::open(&self.bench.context.roots, resolved, behind_iommu, needs)?
            }
            Drive::Model(model) => straight::open_model(model, needs)?,
            Drive::Coprocessor(_) => {
                return Err(Error::unsupported("the coprocessor owns the controller"));
            }
            Drive::Disk(_)
            | Drive::File(_)
            | Drive::Ram(_)
            | Drive::Array(_)
            | Drive::Remote(_) => {
                return Err(Error::unsupported("the device is not an NVMe drive")
                    .hint("name an NVMe drive, or model:SIZE"));
            }
        };
        *self.bench.handle.borrow_mut() = Some(handle);
        Ok(())
    }

    /// The drive as the kernel knows it.
    fn subject(&self) -> Subject {
        let block = |nodes: Nodes| {
            let name = nodes.block.file_name()?.to_str()?;
            Some(name.to_owned())
        };
        match self.bench.drive() {
            Drive::Nvme(resolved) => Subject {
                block_device: self.bench.nodes().ok().and_then(block),
                pci_address: Some(resolved.controller.address.to_string()),
            },
            Drive::Disk(disk) => Subject {
                block_device: Some(disk.name.clone()),
                pci_address: None,
            },
            _ => Subject::default(),
        }
    }

    /// Brings the drive to where the paths of a group need it.
    fn prepare(&self, group: Option<Group>) -> Result<(), Missing> {
        match group {
            Some(Group::Ext4) if !self.bench.plan.destroys => Err(Missing::new(
                "ext4 needs a separate file system on the drive",
                Setting::DestroyData.to(Value::choice("SERIAL")),
            )),
            Some(Group::Ext4) => {
                let mounted = Mounted::mount(&self.bench.nodes().or_missing()?).or_missing()?;
                *self.bench.mounted.borrow_mut() = Some(mounted);
                Ok(())
            }
            Some(Group::Kernel) => {
                self.bench.nodes().or_missing()?;
                Ok(())
            }
            Some(Group::Chario) => {
                let resolved = self.bench.resolved().or_missing()?;
                *self.bench.loan.borrow_mut() =
                    chario::borrow(&self.bench.context.roots, resolved).or_missing()?;
                Ok(())
            }
            Some(Group::Straightway) => Ok(self.take_controller().or_missing()?),
            Some(Group::Plain | Group::Coprocessor | Group::Array | Group::Remote) | None => Ok(()),
        }
    }

    /// Limits what the drive's power states delay a command by. Memory, which is measured beside a
    /// drive, has none.
    fn limit(&self, group: Group, limit_us: u32) -> Result<(), Error> {
        let bench = &self.bench;
        let (name, handle) = (group.name(), bench.handle.borrow());
        let limit = match (group, bench.drive(), handle.as_ref()) {
            (Group::Plain, ..) => return Ok(()),
            (Group::Straightway, _, Some(handle)) => {
                power::limited_by_driver(handle.as_ref(), name, limit_us)?
            }
            (Group::Ext4 | Group::Kernel, Drive::Nvme(resolved), _) => {
                let tolerance = bench.tolerance.as_ref();
                power::limit_by_kernel(&bench.context.roots, resolved, tolerance, name, limit_us)?
            }
            _ => return Err(power::refused(name)),
        };
        let mut limits = bench.limits.borrow_mut();
        if !limits.contains(&limit) {
            limits.push(limit);
        }
        Ok(())
    }
}

impl Host for BenchHost {
    fn wording(&self) -> &'static dyn Wording {
        self.bench.context.wording
    }

    fn environment(&mut self) -> Environment {
        Environment::read(&self.subject())
    }

    fn prepare_group(&mut self, group: &str) -> Result<(), Missing> {
        let group = Group::named(group);
        let limit_us = self.bench.plan.latency_limit_us;
        if let (Some(Group::Chario), Some(_)) = (group, limit_us) {
            return Err(super::missing(power::refused(Group::Chario.name())));
        }
        self.prepare(group)?;
        match (group, limit_us) {
            (Some(group), Some(limit_us)) => Ok(self.limit(group, limit_us).or_missing()?),
            _ => Ok(()),
        }
    }

    fn leave_group(&mut self, _group: &str) -> Result<(), Missing> {
        if let Some(mounted) = self.bench.mounted.take() {
            mounted.unmount().or_missing()?;
        }
        self.bench.loan.take().end().or_missing()?;
        if let Some(handle) = self.bench.handle.take() {
            handle.close().or_missing()?;
        }
        match &self.bench.tolerance {
            Some(tolerance) => Ok(tolerance.put_back().map_err(Error::from).or_missing()?),
            None => Ok(()),
        }
    }

    fn latency_limits(&mut self) -> Vec<LatencyLimit> {
        self.bench.limits.borrow().clone()
    }

    fn work_counter(&mut self) -> Result<Box<dyn WorkCounter>, Missing> {
        match &self.counts {
            Some(file) => Ok(Box::new(LabCounter::new(file)?)),
            None => Ok(Box::new(ProcessorCounter::new(&self.bench.context.roots)?)),
        }
    }

    fn gauge(&mut self) -> Box<dyn Gauge> {
        let folder = match self.bench.drive() {
            Drive::File(path) => disk_of(path),
            // While the kernel has it; a driver of our own has no other user.
            _ => self
                .subject()
                .block_device
                .map(|name| PathBuf::from("/sys/class/block").join(name)),
        };
        Box::new(ThreadGauge::new(folder.as_deref()))
    }

    fn drop_caches(&mut self) -> Result<(), Missing> {
        drop_caches()
    }
}

/// The folder in sysfs of the disk that a file is on; none for a file system without one.
fn disk_of(file: &std::path::Path) -> Option<PathBuf> {
    let number = rustix::fs::stat(file).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    if folder.join("partition").exists() {
        return folder.parent().map(PathBuf::from);
    }
    Some(folder)
}

/// Writes dirty pages back and drops the page cache.
///
/// # Errors
/// Permission is missing.
pub fn drop_caches() -> Result<(), Missing> {
    rustix::fs::sync();
    let file = "/proc/sys/vm/drop_caches";
    std::fs::write(file, "1")
        .map_err(|error| Missing::new(format!("writing to {file}: {error}"), "run it as root"))
}
