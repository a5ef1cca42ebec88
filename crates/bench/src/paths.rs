// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A path for `measure`: opened by `devices::path` on the resources of the bench.

use super::OrMissing;
use super::{Bench, counters, stretch};
use block::{Buffer, Device, Geometry};
use devices::drive::Drive;
use devices::error::{Error, Result};
use devices::path::memory::Memory;
use devices::path::{self, Opened, chario, coprocessor, gathered, kernel, straight};
use linux::SyncFile;
use measure::{Counters, Missing, Path, Region};
use paths::{Carrier, Group, PathKind};
use remedy::{Setting, Value, words};
use std::rc::Rc;

/// The byte that fills the bench's RAM disk.
const RAM_FILL: u8 = 0x5a;

/// One path of the table.
pub(super) struct BenchPath {
    bench: Rc<Bench>,
    kind: &'static PathKind,
    /// The memory for buffers, while the path is open.
    memory: Option<Memory>,
    /// How further threads open their devices, while the path is open.
    twin: Option<SyncFile>,
}

impl BenchPath {
    pub(super) fn new(bench: &Rc<Bench>, kind: &'static PathKind) -> Self {
        Self {
            bench: Rc::clone(bench),
            kind,
            memory: None,
            twin: None,
        }
    }

    /// Opens the path on what its group has prepared.
    fn open_now(&self) -> Result<Opened> {
        let (bench, kind) = (&self.bench, self.kind);
        let memory = bench.memory.clone();
        match kind.carrier {
            Carrier::Array | Carrier::Remote => bench.open_drive(),
            Carrier::Memory => kernel::open_ram(bench.plan.span_bytes, RAM_FILL, kind, memory),
            Carrier::Queue => {
                let handle = bench.handle.borrow();
                let handle = handle
                    .as_ref()
                    .ok_or_else(|| Error::missing("the controller is not open"))?;
                path::open_queue(handle.as_ref(), bench.nsid, kind)
            }
            Carrier::Coprocessor => {
                let window = bench.window.as_ref().ok_or_else(|| {
                    Error::missing("no coprocessor was named").hint(words![
                        Setting::Coprocessor.to(Value::choice("FILE")),
                        ", its window"
                    ])
                })?;
                coprocessor::open(window, kind, bench.plan.destroys)
            }
            Carrier::Chario | Carrier::CharioRegistered | Carrier::CharioWindow => {
                let node = bench.chario_node()?;
                let claim = bench.claim(&bench.context.roots.dev.join(&node))?;
                let loan = bench.loan.borrow().clone();
                let place = chario::WindowPlace::Any(memory.len_bytes() as u64);
                chario::open_node(
                    &bench.context.roots,
                    &node,
                    &claim,
                    kind,
                    loan,
                    memory,
                    place,
                )
            }
            Carrier::File | Carrier::Ring | Carrier::Passthrough => {
                let claim = match (kind.group, bench.drive()) {
                    (Group::Ext4, _) => bench.claim(&bench.ext4_file()?)?,
                    (Group::Plain, Drive::File(file)) => bench.claim(file)?,
                    (Group::Plain, _) => {
                        return Err(Error::unsupported("the device is not a file")
                            .hint("file:PATH, or the file's path"));
                    }
                    _ => bench.claim(bench.nodes()?.for_kind(kind)?)?,
                };
                let lines = if kind.gathers {
                    gathered::LINES as u16
                } else {
                    0
                };
                let depth = bench.plan.queue_depth.saturating_add(lines);
                kernel::open(
                    &bench.context.roots,
                    &claim,
                    kind,
                    depth,
                    memory,
                    kind.gathers,
                )
            }
        }
    }
}

impl Path for BenchPath {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn group(&self) -> &str {
        self.kind.group.name()
    }

    fn polls(&self) -> bool {
        self.kind.polls()
    }

    fn is_buffered(&self) -> bool {
        self.kind.is_buffered
    }

    fn queue_depth(&self) -> u16 {
        match self.kind.carrier {
            Carrier::Ring | Carrier::Passthrough => self.bench.plan.queue_depth,
            Carrier::Queue => straight::DEPTH as u16,
            // Commands that one client may have in progress.
            Carrier::Coprocessor => ::coprocessor::layout::CREDITS as u16,
            Carrier::Memory => kernel::RAM_DEPTH as u16,
            Carrier::Array => path::array::DEPTH as u16,
            Carrier::Remote => linux::fabric::DEPTH as u16,
            _ => 1,
        }
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        let opened = self.open_now().or_missing()?.aligned();
        let opened = if self.kind.gathers {
            opened.gathered().or_missing()?
        } else {
            opened
        };
        self.memory = Some(opened.memory);
        self.twin = opened.twin;
        Ok(opened.device)
    }

    fn another(&mut self) -> Result<Box<dyn Device + Send>, Missing> {
        if self.kind.carrier == Carrier::Queue && !self.kind.gathers {
            let handle = self.bench.handle.borrow();
            let handle = handle.as_ref().ok_or_else(Missing::one_queue)?;
            return path::another_queue(handle.as_ref(), self.bench.nsid, self.kind).or_missing();
        }
        let twin = self.twin.as_ref().ok_or_else(Missing::one_queue)?;
        match twin.twin() {
            Ok(device) => Ok(Box::new(device)),
            Err(error) => Err(Missing::new(
                format!("no further thread can open it: {error}"),
                "ulimit -n",
            )),
        }
    }

    fn close(&mut self, device: Box<dyn Device>) {
        self.twin = None;
        drop(device);
        self.memory = None;
    }

    fn region(&self, geometry: &Geometry) -> Region {
        let (offset_bytes, span_bytes) = match self.kind.group {
            Group::Ext4 | Group::Plain => return Region::whole(geometry),
            // The drive belongs to the coprocessor, so the range is part of it.
            Group::Coprocessor => stretch(geometry.size_bytes(), self.bench.plan.span_bytes),
            _ => (self.bench.plan.raw_offset_bytes, self.bench.plan.span_bytes),
        };
        Region {
            first_lba: offset_bytes >> geometry.block_size_log2,
            block_count: span_bytes >> geometry.block_size_log2,
        }
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        match &self.memory {
            Some(memory) => Ok(memory.allocate(len_bytes).or_missing()?),
            None => Err(Missing::new("the path is closed", "open it first")),
        }
    }

    fn release(&mut self, buffer: Buffer) {
        if let Some(memory) = &self.memory {
            memory.give_back(buffer);
        }
    }

    fn counters(&mut self) -> Counters {
        let bench = &self.bench;
        let counted = match self.kind.group {
            Group::Ext4 | Group::Kernel if bench.drive().disk().is_some() => {
                let disk = bench.drive().disk();
                Ok(disk.map_or_else(|| Counters::uncounted("no disk"), counters::of_disk))
            }
            Group::Ext4 | Group::Kernel => bench.nodes().map(|nodes| counters::of_kernel(&nodes)),
            Group::Chario => bench
                .chario_node()
                .map(|node| counters::of_chario(&bench.context.roots, &node.to_string_lossy())),
            Group::Straightway => {
                let resolved = bench.resolved().ok();
                let address = resolved.map(|known| known.controller.address.to_string());
                match bench.handle.borrow().as_ref() {
                    Some(handle) => Ok(counters::of_handle(
                        handle.as_ref(),
                        address.as_deref(),
                        self.polls(),
                    )),
                    None => Err(Error::missing("the controller is not open")),
                }
            }
            Group::Coprocessor => Ok(Counters::uncounted(
                "only the coprocessor can read the drive's health log",
            )),
            Group::Array | Group::Remote => Ok(Counters::uncounted(
                "commands of other machines and of several devices are not counted",
            )),
            Group::Plain if self.kind.carrier == Carrier::Memory => {
                Ok(Counters::uncounted("memory has no commands"))
            }
            Group::Plain => Ok(Counters::uncounted(
                "a file's commands cannot be separated from other commands",
            )),
        };
        counted.unwrap_or_else(|failure| Counters::uncounted(failure.to_string()))
    }
}
