// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device with one defect each, over the model controller: every one is found and named.

use super::*;
use block::{Buffer, Completion, Device, Geometry, Operation, Refused, Request};
use devices::guard::Purpose;
use std::collections::HashMap;

/// What is wrong with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// The first read of the block after its third write returns what was there before.
    Stale(u64),
    /// The third write of the block is lost.
    Drop(u64),
    /// Reads of each block return the other's data.
    Swap(u64, u64),
    /// One bit of the block is inverted in every read.
    Bit(u64),
    /// Reads of the block after its third write have old data in their last 64 bytes.
    Torn(u64),
    /// Every write of zeroes does nothing.
    NoZeroes,
    /// A discard takes one block more than it should.
    WideDiscard,
    /// Reads report success and transfer nothing.
    Untouched(u64),
}

/// What was written to a block: the newest data, the data before, and how often.
#[derive(Clone, Default)]
struct Written {
    new: Vec<u8>,
    old: Vec<u8>,
    count: u32,
    was_stale: bool,
}

struct Faulty {
    device: Box<dyn Device>,
    defect: Defect,
    written: HashMap<u64, Written>,
    reads: HashMap<u32, u64>,
}

impl Faulty {
    fn note(&mut self, lba: u64, buffer: &Buffer) {
        let bytes = self.device.geometry().block_size_bytes();
        for (index, block) in buffer.chunks_exact(bytes).enumerate() {
            let one = self.written.entry(lba + index as u64).or_default();
            one.old = std::mem::replace(&mut one.new, block.to_vec());
            one.count += 1;
        }
    }

    fn spoil(&mut self, lba: u64, block: &mut [u8]) {
        let Some(one) = self.written.get_mut(&lba) else {
            return;
        };
        match self.defect {
            Defect::Stale(at) if at == lba && one.count == 3 && !one.was_stale => {
                one.was_stale = true;
                block.copy_from_slice(&one.old);
            }
            Defect::Drop(at) if at == lba && one.count == 3 => block.copy_from_slice(&one.old),
            Defect::Bit(at) if at == lba => block[100] ^= 4,
            Defect::Torn(at) if at == lba && one.count == 3 => {
                let from = block.len() - 64;
                block[from..].copy_from_slice(&one.old[from..]);
            }
            Defect::Untouched(at) if at == lba => block.fill(0xa5),
            Defect::Swap(a, b) if lba == a || lba == b => {
                let other = if lba == a { b } else { a };
                if let Some(other) = self.written.get(&other) {
                    block.copy_from_slice(&other.new);
                }
            }
            _ => {}
        }
    }
}

impl Device for Faulty {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, mut request: Request) -> std::result::Result<(), Refused> {
        match &mut request.operation {
            Operation::Write { lba, buffer, .. } => self.note(*lba, buffer),
            Operation::Read { lba, .. } => {
                self.reads.insert(request.tag, *lba);
            }
            Operation::WriteZeroes { .. } if self.defect == Defect::NoZeroes => {
                request.operation = Operation::Flush;
            }
            Operation::WriteZeroes {
                lba, block_count, ..
            } => {
                for at in *lba..*lba + u64::from(*block_count) {
                    self.written.remove(&at);
                }
            }
            Operation::Discard { block_count, .. } => {
                *block_count += u32::from(self.defect == Defect::WideDiscard);
            }
            Operation::Flush => {}
        }
        self.device.submit(request)
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let mut completion = self.device.poll()?;
        let lba = self.reads.remove(&completion.tag);
        if let (Some(lba), Some(buffer)) = (lba, &mut completion.buffer) {
            let bytes = self.device.geometry().block_size_bytes();
            for (index, block) in buffer.chunks_exact_mut(bytes).enumerate() {
                self.spoil(lba + index as u64, block);
            }
        }
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }
}

fn tested(defect: Defect) -> Vec<TestCheck> {
    let context = devices::Context::system();
    let drive = Drive::find(&context.roots, "model:16M").unwrap();
    let grant = Grant::of(&context.roots, drive, Purpose::Destroy(None)).unwrap();
    let choice = ("straightway", Some(Mode::Poll));
    let mut opened = path::open(&context, &grant, &options(choice).unwrap()).unwrap();
    let device = std::mem::replace(
        &mut opened.device,
        Box::new(block::RamDisk::<_, 1>::new(vec![0; 4096], 9).unwrap()),
    );
    opened.device = Box::new(Faulty {
        device,
        defect,
        written: HashMap::new(),
        reads: HashMap::new(),
    });
    let bounds = Bounds {
        seed: 3,
        offset_bytes: 1 << 20,
        size_bytes: 256 << 10,
    };
    let mut checks = Vec::new();
    on_path(&grant, &mut opened, &mut None, bounds, &mut checks).unwrap();
    opened.close().unwrap();
    checks
}

/// The details of what failed.
fn failures(defect: Defect) -> String {
    let failed = tested(defect).into_iter();
    let failed = failed.filter(|check| check.outcome == Outcome::Failed);
    let lines = failed.map(|check| {
        assert!(check.remedy.is_some(), "{}", check.name);
        format!("{}: {}\n", check.name, check.detail)
    });
    lines.collect()
}

#[test]
fn a_sound_drive_passes_every_step() {
    let checks = tested(Defect::None);
    assert_eq!(checks.len(), 12);
    for check in checks {
        let expected = match check.name.as_str() {
            // This model answers at once.
            "late commands" => Outcome::NotPossible,
            _ => Outcome::Ok,
        };
        assert_eq!(check.outcome, expected, "{}: {}", check.name, check.detail);
    }
}

#[test]
fn each_defect_is_found_and_named() {
    let first = (1 << 20) / 512;
    for (defect, words) in [
        (Defect::Stale(first), "stale data: a second read is right"),
        (
            Defect::Drop(first + 1),
            "lost write: a second read is the same",
        ),
        (Defect::Swap(first + 9, first + 20), "are swapped"),
        (Defect::Bit(first + 3), "one bit is wrong, in byte 100"),
        (Defect::Torn(first), "torn: 1 of 8 lines"),
        (Defect::NoZeroes, "write zeroes: block "),
        (Defect::WideDiscard, "discard: block "),
        (Defect::Untouched(first + 4), "did not fill the buffer"),
    ] {
        let found = failures(defect);
        assert!(found.contains(words), "{defect:?}: {found}");
    }
}

/// A late read on a model with these faults: what was told, and what the model then has.
fn late_on(rules: &[model::Rule]) -> Result<Option<String>> {
    use devices::path::held::Held;
    use devices::path::memory::Memory;
    use devices::path::straight::{Controlled, Needs, overhead_bytes};
    let config = model::Config {
        time: model::Time::Virtual {
            step_us: 1,
            relax_us: 1000,
        },
        ..model::Config::ram(1 << 20)
    };
    let memory = model::BusMemory::linear(overhead_bytes(2) * 3 + (4 << 20)).unwrap();
    let platform = model::Model::new(config, memory.clone()).unwrap();
    let model = platform.clone();
    let held = Held::open((), || Ok(platform)).unwrap();
    let memory = Memory::Bus(memory);
    let handle = Controlled::enable(held, memory.clone(), "model", &Needs::one_queue(0)).unwrap();
    let mut area = Area::new(5, 100, 64, 512);
    let mut device = handle.open_queue(1, nvme::CompletionMode::Poll).unwrap();
    let span = area::Span {
        first: 0,
        blocks: 64,
        page_offset: 0,
    };
    area.write(device.as_mut(), &memory, &[span]).unwrap();
    for rule in rules {
        model.inject(*rule);
    }
    let told = late::on_queue(&handle, 1, &area)?;
    settled(device.as_mut(), &memory, &area)?;
    area.check(device.as_mut(), &memory, &[span]).unwrap();
    Ok(told)
}

#[test]
fn each_step_of_the_recovery_from_a_late_command_is_tested_and_told() {
    use model::{FaultKind, On, Rule, When};
    let late = FaultKind::Delay {
        delay_us: 120_000_000,
        abortable: true,
    };
    let never = FaultKind::NeverComplete { abortable: false };
    let fails = FaultKind::Status {
        sct: 0,
        sc: 6,
        dnr: false,
    };
    let first = |kind| Rule::new(On::Io, When::Nth(1), kind);
    let admin = |opcode, kind| Rule::new(On::AdminOpcode(opcode), When::Always, kind);
    let refused = admin(8, FaultKind::AbortRefused);
    for (rules, words) in [
        (vec![first(late)], "round 1 of 4 reads: 1 late, 1 failed"),
        (
            vec![first(late)],
            "1 aborts, 0 deletions of the queue, 0 resets",
        ),
        (
            vec![first(never)],
            "1 aborts, 1 deletions of the queue, 0 resets",
        ),
        (
            vec![first(never), refused, admin(0, fails)],
            "1 aborts, 0 deletions of the queue, 1 resets",
        ),
    ] {
        let told = late_on(&rules).map_err(|failure| failure.to_string());
        let told = told.unwrap().unwrap();
        assert!(told.contains(words), "{words}: {told}");
    }
    // Nothing is late: a drive that answers at once.
    assert_eq!(late_on(&[]).unwrap(), None);
    // A drive that does not come back.
    let gone = vec![first(never), admin(8, FaultKind::Remove)];
    assert!(late_on(&gone).is_err());
}
