//! The machine: its settings, and which driver has the drive.

use super::filesystem::Mounted;
use super::{Bench, CHARIO, COPROCESSOR, EXT4, KERNEL, PLAIN, Target, chario};
use crate::failure::Failure;
use crate::path::held::Ends;
use crate::path::{PathKind, straight};
use measure::{Environment, Host, Missing, Subject};
use std::rc::Rc;

/// The machine while it measures.
pub struct BenchHost {
    bench: Rc<Bench>,
}

impl BenchHost {
    /// The machine for this bench.
    pub fn new(bench: &Rc<Bench>) -> Self {
        Self {
            bench: Rc::clone(bench),
        }
    }

    fn take_controller(&self) -> Result<(), Failure> {
        let rig = match &self.bench.target {
            Target::Nvme { resolved, .. } => {
                let path = match resolved.controller.iommu_group {
                    Some(_) => PathKind::Vfio,
                    None => PathKind::Noiommu,
                };
                straight::open(&self.bench.roots, resolved, path, self.bench.buffer_bytes)?
            }
            Target::Model(model) => straight::open_model(model, self.bench.buffer_bytes)?,
            Target::Coprocessor(_) => {
                return Err(Failure::unsupported("the controller is the coprocessor's"));
            }
            Target::File(_) | Target::Ram(_) => {
                return Err(Failure::unsupported("the device is no NVMe drive")
                    .hint("name an NVMe drive, or model:SIZE"));
            }
        };
        *self.bench.rig.borrow_mut() = Some(rig);
        Ok(())
    }
}

impl Host for BenchHost {
    fn environment(&mut self) -> Environment {
        let block = |nodes: super::Nodes| {
            let name = nodes.block.file_name()?.to_str()?;
            Some(name.to_owned())
        };
        let subject = match &self.bench.target {
            Target::Nvme { resolved, .. } => Subject {
                block_device: self.bench.nodes().ok().and_then(block),
                pci_address: Some(resolved.controller.address.to_string()),
            },
            _ => Subject::default(),
        };
        Environment::read(&subject)
    }

    fn prepare_group(&mut self, group: &str) -> Result<(), Missing> {
        match group {
            EXT4 if !self.bench.destroys => Err(Missing::new(
                "ext4 needs a file system of its own on the drive",
                "--destroy-data SERIAL",
            )),
            EXT4 => {
                let mounted = Mounted::mount(&self.bench.nodes()?)?;
                *self.bench.mounted.borrow_mut() = Some(mounted);
                Ok(())
            }
            KERNEL => {
                self.bench.nodes()?;
                Ok(())
            }
            PLAIN | COPROCESSOR => Ok(()),
            CHARIO => Ok(chario::take(&self.bench)?),
            _ => Ok(self.take_controller()?),
        }
    }

    fn leave_group(&mut self, _group: &str) -> Result<(), Missing> {
        if let Some(mounted) = self.bench.mounted.take() {
            mounted.unmount()?;
        }
        self.bench.loan.take().end()?;
        match self.bench.rig.take() {
            Some(rig) => Ok(rig.close()?),
            None => Ok(()),
        }
    }

    fn drop_caches(&mut self) -> Result<(), Missing> {
        drop_caches()
    }
}

/// Writes dirty pages back and drops the page cache.
///
/// # Errors
/// It is not permitted.
pub fn drop_caches() -> Result<(), Missing> {
    rustix::fs::sync();
    let file = "/proc/sys/vm/drop_caches";
    std::fs::write(file, "1")
        .map_err(|error| Missing::new(format!("writing to {file}: {error}"), "run it as root"))
}
