// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps on one open path, in order.

use super::area::{Area, Fault, MARGIN_BYTES, Span};
use super::{Outcome, TestCheck};
use block::{Device, Operation, blocking};
use devices::path::memory::Memory;
use remedy::{Part, Remedy, Setting, words};

/// Rounds of the coherence test.
const ROUNDS: usize = 64;
/// The longest transfer of the test.
pub const MAX_BYTES: usize = 1 << 20;
/// The most requests in flight, and the length of each: what the buffers' memory must hold.
pub const MAX_DEPTH: usize = 32;
/// The controller's page, in which PRP entries count.
const PAGE_BYTES: usize = 4096;

fn cable() -> Remedy {
    words!["the slot, its power or its link may corrupt transfers: straightway doctor ", Part::Option(Setting::Report), " FILE has the link's speed and error counters; try another drive in the slot, or a slower link"].into()
}

fn coherence_hint() -> Remedy {
    words![
        "PCIe may not see the processor's caches although the device tree says so: use ",
        Setting::Path.to("chario"),
        " or io_uring, and see docs/boards.md"
    ]
    .into()
}

fn drive() -> Remedy {
    "try the drive in another machine: if it fails there too, the drive is defective".into()
}

/// An open device, the memory for its buffers and the tested range.
pub struct Rig<'r> {
    /// The device.
    pub device: &'r mut dyn Device,
    /// Its buffers' memory.
    pub memory: &'r Memory,
    /// The tested range.
    pub area: &'r mut Area,
}

type Hint = fn() -> Remedy;
type Step = fn(&mut Rig<'_>) -> Result<String, Ended>;

/// How a step ended without success.
enum Ended {
    Failed(Fault),
    NotPossible(&'static str),
}

impl<F: Into<Fault>> From<F> for Ended {
    fn from(fault: F) -> Self {
        Self::Failed(fault.into())
    }
}

const STEPS: [(&str, Hint, Step); 8] = [
    ("sizes and offsets", cable, sizes),
    ("alignment and PRP lists", cable, alignments),
    ("queue depths", cable, depths),
    ("memory coherence", coherence_hint, coherence),
    ("overlapping writes", drive, overlaps),
    ("flush", drive, flush),
    ("discard", drive, discard),
    ("write zeroes", drive, write_zeroes),
];

impl Rig<'_> {
    /// Runs every step.
    pub fn run(&mut self) -> Vec<TestCheck> {
        let steps = STEPS.iter();
        steps
            .map(|(name, hint, step)| self.one(name, *hint, *step))
            .collect()
    }

    /// Only reads what an earlier path wrote.
    pub fn cross_read(&mut self) -> TestCheck {
        self.one("cross-reading", coherence_hint, cross_read)
    }

    fn one(&mut self, name: &str, hint: Hint, step: Step) -> TestCheck {
        match step(self) {
            Ok(detail) => TestCheck::new(name, Outcome::Ok, detail),
            Err(Ended::NotPossible(why)) => TestCheck::new(name, Outcome::NotPossible, why),
            Err(Ended::Failed(fault)) => {
                let hint = match &fault {
                    Fault::Device(_) => words![
                        "dmesg | tail, and straightway info ",
                        remedy::Device,
                        " for the drive's error log"
                    ]
                    .into(),
                    Fault::Overrun => coherence_hint(),
                    Fault::Data(what) if what.contains("stale") => coherence_hint(),
                    Fault::Data(what) if what.contains("lost") || what.contains("swapped") => {
                        drive()
                    }
                    Fault::Data(_) => hint(),
                };
                TestCheck::new(name, Outcome::Failed, fault.to_string()).hint(hint)
            }
        }
    }

    fn max_blocks(&self) -> usize {
        let bytes = self.device.geometry().max_transfer_bytes().min(MAX_BYTES);
        (bytes / self.area.block_bytes()).clamp(1, self.area.blocks())
    }

    fn round_trip(&mut self, spans: &[Span]) -> Result<(), Fault> {
        self.area.write(self.device, self.memory, spans)?;
        self.area.check(self.device, self.memory, spans)
    }

    /// The whole area, in transfers of the largest length.
    fn check_all(&mut self) -> Result<(), Fault> {
        let step = self.max_blocks();
        for first in (0..self.area.blocks()).step_by(step) {
            let blocks = step.min(self.area.blocks() - first);
            self.area
                .check(self.device, self.memory, &[span(first, blocks)])?;
        }
        Ok(())
    }

    fn fill_all(&mut self) -> Result<(), Fault> {
        let step = self.max_blocks();
        for first in (0..self.area.blocks()).step_by(step) {
            let blocks = step.min(self.area.blocks() - first);
            self.area
                .write(self.device, self.memory, &[span(first, blocks)])?;
        }
        Ok(())
    }
}

const fn span(first: usize, blocks: usize) -> Span {
    Span {
        first,
        blocks,
        page_offset: 0,
    }
}

fn cross_read(rig: &mut Rig<'_>) -> Result<String, Ended> {
    rig.check_all()?;
    Ok(format!(
        "{} blocks are as the earlier path left them",
        rig.area.blocks()
    ))
}

fn sizes(rig: &mut Rig<'_>) -> Result<String, Ended> {
    rig.fill_all()?;
    rig.check_all()?;
    let (mut blocks, mut count) = (1, 0);
    loop {
        let last = rig.area.blocks() - blocks;
        for first in [0, 1, 7, last / 2, last.saturating_sub(1), last] {
            rig.round_trip(&[span(first.min(last), blocks)])?;
            count += 1;
        }
        if blocks == rig.max_blocks() {
            break;
        }
        // Between powers of two too: 1, 2, 3, 6, 7, 14, ...
        blocks = (blocks * 2 + count % 2).min(rig.max_blocks());
    }
    rig.check_all()?;
    Ok(format!(
        "{count} transfers of up to {} bytes",
        blocks * rig.area.block_bytes()
    ))
}

fn alignments(rig: &mut Rig<'_>) -> Result<String, Ended> {
    let align = (rig.device.geometry().buffer_align_bytes as usize).max(4);
    if align >= PAGE_BYTES {
        return Err(Ended::NotPossible("this path's buffers begin at pages"));
    }
    let block_bytes = rig.area.block_bytes();
    let most = rig.max_blocks();
    let mut count = 0;
    for bytes in [
        block_bytes,
        PAGE_BYTES,
        2 * PAGE_BYTES,
        3 * PAGE_BYTES,
        MAX_BYTES,
    ] {
        let blocks = bytes.div_ceil(block_bytes).min(most);
        for offset in [align, 512, 2048, PAGE_BYTES - 512, PAGE_BYTES - align] {
            let offset = offset.next_multiple_of(align).min(MARGIN_BYTES - align);
            let span = Span {
                first: count % (rig.area.blocks() - blocks + 1),
                blocks,
                page_offset: offset,
            };
            rig.round_trip(&[span])?;
            count += 1;
        }
    }
    Ok(format!(
        "{count} buffers across pages, multiples of {align} bytes"
    ))
}

fn depths(rig: &mut Rig<'_>) -> Result<String, Ended> {
    let most = usize::from(rig.device.geometry().queue_depth).min(MAX_DEPTH);
    let each = (PAGE_BYTES / rig.area.block_bytes()).max(1);
    let most = most.min(rig.area.blocks() / each).max(1);
    let each = each.min(rig.area.blocks());
    let mut depth = 1;
    loop {
        for stride in [1, 5] {
            // 5 has no factor in common with a power of two: all places differ.
            let places = rig.area.blocks() / each;
            let spans: Vec<Span> = (0..depth)
                .map(|index| span(index * stride % places * each, each))
                .collect();
            let is_distinct = stride == 1 || places % 5 != 0;
            if is_distinct {
                rig.round_trip(&spans)?;
            }
        }
        if depth == most {
            break;
        }
        depth = (depth * 2).min(most);
    }
    Ok(format!("up to {most} in flight"))
}

/// Writes and reads the same block again and again: the allocator returns the same memory, whose
/// lines are then dirty or stale.
fn coherence(rig: &mut Rig<'_>) -> Result<String, Ended> {
    let blocks = (PAGE_BYTES / rig.area.block_bytes()).clamp(1, rig.area.blocks());
    for round in 0..ROUNDS {
        let page_offset = match round % 2 {
            1 if rig.device.geometry().buffer_align_bytes <= 64 => 64,
            _ => 0,
        };
        rig.round_trip(&[Span {
            first: 0,
            blocks,
            page_offset,
        }])?;
    }
    Ok(format!(
        "{ROUNDS} rounds of write and read in the same memory"
    ))
}

fn overlaps(rig: &mut Rig<'_>) -> Result<String, Ended> {
    if rig.device.geometry().queue_depth < 2 || rig.area.blocks() < 12 {
        return Err(Ended::NotPossible(
            "this path has one request in flight, or the area is too small",
        ));
    }
    for first in 0..4 {
        let spans = [span(first, 8), span(first + 4, 4)];
        rig.round_trip(&spans)?;
        // And at once, in one order that counts.
        rig.round_trip(&[span(first, 8)])?;
    }
    rig.check_all()?;
    Ok("each block has one of the two writes, whole".to_owned())
}

fn flush(rig: &mut Rig<'_>) -> Result<String, Ended> {
    rig.area.write(rig.device, rig.memory, &[span(0, 1)])?;
    blocking::flush(rig.device)?;
    rig.check_all()?;
    Ok("data is the same after it".to_owned())
}

/// The middle of the area, so that blocks on both sides show what went too far.
fn middle(rig: &Rig<'_>) -> Result<(Span, u64, u32), Ended> {
    let third = rig.area.blocks() / 3;
    match third {
        0 => Err(Ended::NotPossible("the area is too small")),
        third => Ok((span(third, third), rig.area.lba(third), third as u32)),
    }
}

fn discard(rig: &mut Rig<'_>) -> Result<String, Ended> {
    if !rig.device.geometry().features.discard {
        return Err(Ended::NotPossible("the drive or this path cannot discard"));
    }
    let (span, lba, block_count) = middle(rig)?;
    rig.area.forget(span);
    blocking::command(rig.device, Operation::Discard { lba, block_count })?;
    rig.check_all()?;
    rig.fill_all()?;
    rig.check_all()?;
    Ok(format!("{block_count} blocks; the others kept their data"))
}

fn write_zeroes(rig: &mut Rig<'_>) -> Result<String, Ended> {
    if !rig.device.geometry().features.write_zeroes {
        return Err(Ended::NotPossible(
            "the drive or this path cannot write zeroes",
        ));
    }
    let (span, lba, block_count) = middle(rig)?;
    rig.area.forget(span);
    let operation = Operation::WriteZeroes {
        lba,
        block_count,
        fua: false,
    };
    blocking::command(rig.device, operation)?;
    rig.area.zeroed(span);
    rig.check_all()?;
    rig.fill_all()?;
    Ok(format!("{block_count} blocks; the others kept their data"))
}
