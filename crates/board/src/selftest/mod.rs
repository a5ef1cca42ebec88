// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a drive and the board around it: bounded, over every path that the host has, with data
//! that explains its own defects.

mod area;
mod late;
mod pattern;
mod steps;
#[cfg(test)]
mod tests;

use area::{Area, MARGIN_BYTES};
use block::{Device, Error, Operation, Request};
use devices::Context;
use devices::SCHEMA_VERSION;
use devices::drive::Drive;
use devices::error::{ErrorKind, Result};
use devices::guard::Grant;
use devices::path::handle::ControllerHandle;
use devices::path::memory::Memory;
use devices::path::{self, LARGEST_BLOCK_BYTES, Mode, OpenOptions, Opened, PathChoice};
use remedy::{Remedy, Setting, words};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};
use steps::{MAX_BYTES, MAX_DEPTH, Rig};

/// How long one sleep for a completion lasts; the loop then polls again.
const WAIT_US: u32 = 100_000;
/// How long a queue may take to come back after a reset.
const RESET_LIMIT: Duration = Duration::from_secs(30);

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// Wrong.
    Failed,
    /// The drive, the path or the host lacks what the step needs.
    NotPossible,
}

impl Outcome {
    /// For the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotPossible => "not possible",
        }
    }
}

/// One step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TestCheck {
    /// Its name.
    pub name: String,
    /// The result.
    pub outcome: Outcome,
    /// What was done, or what is wrong.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The same, before it was worded.
    #[serde(skip)]
    #[schemars(skip)]
    remedy: Option<Remedy>,
}

impl TestCheck {
    fn new(name: &str, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            outcome,
            detail: detail.into(),
            hint: None,
            remedy: None,
        }
    }

    fn hint(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The steps on one path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathTested {
    /// The path, with how it waits.
    pub path: String,
    /// Its steps, in order.
    pub checks: Vec<TestCheck>,
}

/// The result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SelfTested {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The drive.
    pub device: String,
    /// The seed of the data.
    pub seed: u64,
    /// Where the tested range begins.
    pub offset_bytes: u64,
    /// Its length; 0 if no path could be opened.
    pub size_bytes: u64,
    /// Whether nothing failed and at least one path was tested.
    pub ok: bool,
    /// The paths, in the order in which they were tested.
    pub paths: Vec<PathTested>,
}

/// What to test.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The seed of the data.
    pub seed: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub size_bytes: u64,
}

/// A path to test, and how it waits.
pub type Choice = (&'static str, Option<Mode>);

/// Runs the test over `choices`; the first that could be opened is tested again at the end, after
/// the others.
///
/// # Errors
/// The drive is another one than the user named, the bounds do not fit, or the user cancelled. A
/// path that cannot be opened and a step that fails are results.
pub fn run(
    context: &Context,
    grant: &Grant,
    choices: &[Choice],
    bounds: Bounds,
) -> Result<SelfTested> {
    let mut tested = SelfTested {
        schema_version: SCHEMA_VERSION,
        device: grant.drive().to_string(),
        seed: bounds.seed,
        offset_bytes: bounds.offset_bytes,
        size_bytes: 0,
        ok: false,
        paths: Vec::new(),
    };
    let mut area = None;
    let mut first = None;
    let is_kept = match grant.drive() {
        Drive::Ram(_) => false,
        Drive::Model(model) => model.file.is_some(),
        _ => true,
    };
    let mut size_bytes = 0;
    for choice in choices {
        if context.cancel.is_set() {
            return Err(devices::Error::interrupted(
                "interrupted; the rest was not tested",
            ));
        }
        let name = match choice.1 {
            Some(mode) => format!("{}, {mode:?}", choice.0).to_lowercase(),
            None => choice.0.to_owned(),
        };
        context.say(format_args!("testing {name}"));
        let mut checks = Vec::new();
        match path::open(context, grant, &options(*choice)?) {
            Err(failure) => checks.push(not_opened(&failure)),
            Ok(mut opened) => {
                let result = on_path(grant, &mut opened, &mut area, bounds, &mut checks);
                opened.close_after(result)?;
                if let Some(area) = &area {
                    size_bytes = (area.blocks() * area.block_bytes()) as u64;
                }
                // Memory is empty when it is opened again.
                if is_kept {
                    first = first.or(Some(*choice))
                } else {
                    area = None
                }
            }
        }
        tested.paths.push(PathTested { path: name, checks });
    }
    if let (Some(choice), Some(area)) = (first, &mut area) {
        let mut checks = Vec::new();
        match path::open(context, grant, &options(choice)?) {
            Err(failure) => {
                let check = TestCheck::new("open", Outcome::Failed, failure.to_string());
                checks.push(check.hint(remedy_of(&failure, "straightway doctor")));
            }
            Ok(mut opened) => {
                let device = opened.device.as_mut();
                let memory = &opened.memory;
                checks.push(
                    Rig {
                        device,
                        memory,
                        area,
                    }
                    .cross_read(),
                );
                opened.close()?;
            }
        }
        let path = format!("{}, opened again", choice.0);
        tested.paths.push(PathTested { path, checks });
    }
    for check in tested.paths.iter_mut().flat_map(|path| &mut path.checks) {
        let remedy = check.remedy.as_ref();
        check.hint = remedy.map(|remedy| remedy.word(context.wording, None));
    }
    tested.size_bytes = size_bytes;
    let mut checks = tested.paths.iter().flat_map(|path| &path.checks);
    tested.ok = size_bytes > 0 && checks.all(|check| check.outcome != Outcome::Failed);
    Ok(tested)
}

fn options((path, mode): Choice) -> Result<OpenOptions> {
    let buffer_bytes = MAX_BYTES + MAX_DEPTH * (LARGEST_BLOCK_BYTES + 2 * MARGIN_BYTES) + (1 << 20);
    Ok(OpenOptions {
        path: PathChoice::by_name(path)?,
        mode,
        write: true,
        ..OpenOptions::reading(buffer_bytes, MAX_DEPTH as u16)
    })
}

fn not_opened(failure: &devices::Error) -> TestCheck {
    let outcome = match failure.kind() {
        ErrorKind::Missing | ErrorKind::Unsupported | ErrorKind::Usage => Outcome::NotPossible,
        _ => Outcome::Failed,
    };
    let check = TestCheck::new("open", outcome, failure.to_string());
    check.hint(remedy_of(
        failure,
        "straightway doctor shows what is missing",
    ))
}

fn remedy_of(failure: &devices::Error, otherwise: &str) -> Remedy {
    let remedy = failure.remedy().cloned();
    remedy.unwrap_or_else(|| otherwise.into())
}

fn on_path(
    grant: &Grant,
    opened: &mut Opened,
    area: &mut Option<Area>,
    bounds: Bounds,
    checks: &mut Vec<TestCheck>,
) -> Result<()> {
    grant.confirm(opened.serial().as_deref())?;
    let geometry = *opened.device.geometry();
    if geometry.features.read_only {
        return Err(devices::Error::request("writing", block::Error::ReadOnly));
    }
    let block_bytes = geometry.block_size_bytes();
    let size = geometry.size_bytes();
    let is_first = area.is_none();
    if is_first {
        *area = Some(area_of(bounds, size, block_bytes)?);
    }
    let detail = format!("{size} bytes in blocks of {block_bytes}");
    checks.push(TestCheck::new("identify", Outcome::Ok, detail));
    let Some(area) = area.as_mut() else {
        return Ok(());
    };
    if area.block_bytes() != block_bytes {
        let detail = format!("another path has blocks of {} bytes", area.block_bytes());
        checks.push(TestCheck::new("block size", Outcome::Failed, detail));
        return Ok(());
    }
    let device = opened.device.as_mut();
    let memory = &opened.memory;
    let mut rig = Rig {
        device,
        memory,
        area,
    };
    if !is_first {
        checks.push(rig.cross_read());
    }
    checks.extend(rig.run());
    checks.push(late::late(grant.drive(), opened, area));
    checks.push(reset(opened, area));
    let device = opened.device.as_mut();
    let memory = &opened.memory;
    let mut after = Rig {
        device,
        memory,
        area,
    }
    .cross_read();
    after.name = "reading all again".to_owned();
    checks.push(after);
    Ok(())
}

fn area_of(bounds: Bounds, size: u64, block_bytes: usize) -> Result<Area> {
    let unit = block_bytes as u64;
    let room = size.saturating_sub(bounds.offset_bytes);
    let blocks = bounds.size_bytes.min(room) / unit;
    if bounds.offset_bytes % unit != 0 || blocks == 0 {
        return Err(devices::Error::usage(words![
            Setting::Offset,
            format!(" {} and ", bounds.offset_bytes),
            Setting::Size,
            format!(
                " {} are not a range of whole blocks of {unit} bytes on a device of {size}",
                bounds.size_bytes
            )
        ])
        .hint(words![
            Remedy::omit([Setting::Offset]),
            ", and give ",
            Setting::Size,
            " at least a block"
        ]));
    }
    let first = bounds.offset_bytes / unit;
    Ok(Area::new(bounds.seed, first, blocks as usize, block_bytes))
}

/// Resets the controller while a read is outstanding, which must end exactly once.
fn reset(opened: &mut Opened, area: &Area) -> TestCheck {
    const NAME: &str = "reset";
    const HINT: &str =
        "dmesg | tail; a drive that does not survive a reset cannot recover from a lost command";
    if opened.handle().is_none() {
        let why = "the kernel's driver resets by itself on this path";
        return TestCheck::new(NAME, Outcome::NotPossible, why);
    }
    match reset_during_a_read(opened, area) {
        Ok(told) => TestCheck::new(NAME, Outcome::Ok, told),
        Err(failure) => TestCheck::new(NAME, Outcome::Failed, failure.to_string()).hint(HINT),
    }
}

fn reset_during_a_read(opened: &mut Opened, area: &Area) -> Result<&'static str> {
    begin_read(opened.device.as_mut(), &opened.memory, area)?
        .map_err(|error| devices::Error::request("reading", error))?;
    let reset = opened.handle().map_or(Ok(()), ControllerHandle::reset);
    let first = end_read(opened.device.as_mut(), &opened.memory);
    reset?;
    settled(opened.device.as_mut(), &opened.memory, area)?;
    match first {
        Ok(()) => Ok("a read ended before the reset"),
        Err(Error::Aborted) => Ok("it ended a read that was outstanding"),
        Err(error) => Err(devices::Error::request("a read during the reset", error)),
    }
}

/// Reads until a read succeeds: after a recovery, a queue ends what it held, and takes no request
/// until it has created itself again.
///
/// # Errors
/// It did not come back in time, or reads fail.
fn settled(device: &mut dyn Device, memory: &Memory, area: &Area) -> Result<()> {
    let began = Instant::now();
    loop {
        let read = begin_read(device, memory, area)?.and_then(|()| end_read(device, memory));
        match read {
            Ok(()) => return Ok(()),
            Err(Error::Aborted | Error::QueueFull) if began.elapsed() < RESET_LIMIT => {
                let _ = device.poll();
                device.wait(WAIT_US);
            }
            Err(error) => return Err(devices::Error::request("reading after the recovery", error)),
        }
    }
}

/// Begins to read the area's first block. The inner error is the device's.
fn begin_read(
    device: &mut dyn Device,
    memory: &Memory,
    area: &Area,
) -> Result<std::result::Result<(), Error>> {
    let operation = Operation::Read {
        lba: area.lba(0),
        buffer: memory.allocate(area.block_bytes())?,
    };
    if let Err(refused) = device.submit(Request { tag: 0, operation }) {
        if let Some(buffer) = refused.request.operation.into_buffer() {
            memory.give_back(buffer);
        }
        return Ok(Err(refused.error));
    }
    device.kick();
    Ok(Ok(()))
}

/// Waits for the read that is outstanding.
fn end_read(device: &mut dyn Device, memory: &Memory) -> std::result::Result<(), Error> {
    loop {
        if let Some(completion) = device.poll() {
            if let Some(buffer) = completion.buffer {
                memory.give_back(buffer);
            }
            return completion.result;
        }
        device.wait(WAIT_US);
    }
}
