// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user of files on a volume: what it stored, and what a power cut or a failure may have left.

mod changes;

use crate::content;
use crate::machine::Machine;
use crate::recordings::{self, Recordings, recording_of};
use crate::run::{Steps, not_opened};
use crate::script::{Step, Verb};
use crate::world::wall_ns;
use ::files::{Access, Mount, MountPoint, Mounted};
use block::Device;
use devices::drive::Drive;
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use std::collections::BTreeMap;
use volume::{Error, FormatOptions, OpenFile, blocking};

const BLOCK: u64 = 512;
/// The longest request.
const PIECE: u64 = 32 << 10;
const LABEL_BYTES: usize = 8;

/// What a file holds: the payload of a seed. After a failure its length is one of a range, and it
/// may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    seed: u64,
    least: u64,
    most: u64,
    may_miss: bool,
}

type Names = BTreeMap<String, Held>;

/// What the user knows.
pub struct Expected {
    drive: Drive,
    is_formatted: bool,
    /// What the volume may hold: one of these.
    possible: Vec<Names>,
    recordings: Recordings,
    next_seed: u64,
    volume_bytes: u64,
}

/// Why a step ended a session.
enum Ended {
    /// A promise was broken.
    Broken(String),
    /// The volume or the device failed.
    Failed(Error),
    /// The same in a recording.
    Stopped(String),
}

type Done<T> = Result<T, Ended>;

fn broken<T>(what: impl Into<String>) -> Done<T> {
    Err(Ended::Broken(what.into()))
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Runs a script on a volume.
///
/// # Errors
/// A promise was broken.
pub fn go(machine: &mut Machine, steps: &mut Steps<'_>) -> Result<(), String> {
    let mut expected = Expected {
        drive: Drive::Ram(0),
        is_formatted: false,
        possible: vec![Names::new()],
        recordings: Recordings::default(),
        next_seed: 1,
        volume_bytes: 0,
    };
    while !steps.is_over() {
        machine.power_on();
        session(machine, &mut expected, steps)?;
        check(machine)?;
    }
    machine.recover();
    session(machine, &mut expected, steps)?;
    session(machine, &mut expected, steps)?;
    check(machine)
}

fn check(machine: &Machine) -> Result<(), String> {
    machine.testimony.check_bounds();
    machine.violation().map_or(Ok(()), Err)
}

/// From opening the device to closing it, or until something fails.
fn session(
    machine: &mut Machine,
    expected: &mut Expected,
    steps: &mut Steps<'_>,
) -> Result<(), String> {
    let mut device = match machine.open() {
        Ok(device) => device,
        Err(why) => return not_opened(machine, why),
    };
    if !expected.is_formatted {
        let buffer = machine.memory.allocate(64 << 10);
        let buffer = buffer.map_err(|error| error.to_string())?;
        // The rest of the device is another owner's.
        let volume_bytes = device.geometry().size_bytes() / 4 * 3 / BLOCK * BLOCK;
        machine.testimony.set_end(volume_bytes / BLOCK);
        let options = FormatOptions {
            volume_bytes: Some(volume_bytes),
            unit_bytes: Some(machine.setup.unit_bytes),
            slots: Some(machine.setup.slots()),
            checksums: machine.setup.checksums,
            uuid: [7; 16],
            ..FormatOptions::default()
        };
        let (made, buffer) = volume::format(&mut device, buffer, &options);
        buffer.map(|buffer| machine.memory.give_back(buffer));
        if let Err(error) = made {
            return Err(format!("formatting: {error}"));
        }
        (expected.is_formatted, expected.volume_bytes) = (true, volume_bytes);
    }
    let drive = expected.drive.clone();
    let mut table: Vec<OpenFile> = (0..8).map(|_| OpenFile::new()).collect();
    let point = MountPoint {
        device: &mut device,
        memory: Memory::Host(machine.memory.clone()),
        drive: &drive,
        path: String::new(),
        recall: Recall::NONE,
        wall_ns,
    };
    let mount = match Mount::new(point, Access::Write, &mut table) {
        Ok(mount) => mount,
        Err(failure) => return not_opened(machine, format!("mounting: {failure}")),
    };
    let result = used(machine, expected, steps, &mount);
    match result {
        Ok(true) => {
            let unmounted = mount.unmount_after(Ok(()));
            match unmounted {
                Err(failure) if !machine.tolerates_failures() => {
                    Err(format!("without a fault: {failure}"))
                }
                _ => Ok(()),
            }
        }
        // The process dies.
        Ok(false) => Ok(()),
        Err(Ended::Broken(what)) => Err(what),
        Err(Ended::Failed(error)) => {
            drop(mount);
            not_opened(machine, error.to_string())
        }
        Err(Ended::Stopped(why)) => {
            drop(mount);
            not_opened(machine, why)
        }
    }
}

/// Checks what the volume holds, and does steps. False: the process dies.
fn used(
    machine: &mut Machine,
    expected: &mut Expected,
    steps: &mut Steps<'_>,
    mount: &Mount<'_>,
) -> Done<bool> {
    let mounted = mount.mounted();
    let volume_bytes = mounted.volume.status().shape.volume_bytes;
    expected.volume_bytes = volume_bytes;
    machine.testimony.set_end(volume_bytes / BLOCK);
    expected.compare(&mounted)?;
    sound(&mounted)?;
    while let Some(step) = steps.next(machine) {
        match step.verb {
            Verb::Reopen => return Ok(true),
            Verb::Kill => return Ok(false),
            Verb::Stall => machine.stall(&step),
            Verb::Idle => machine.world.work(10_000 * u64::from(step.numbers[0])),
            _ => {
                machine.world.work(10);
                expected.step(&mounted, &step, machine)?;
            }
        }
        let violation = machine.violation();
        violation.map_or(Ok(()), broken)?;
        machine.calm();
    }
    expected.compare(&mounted)?;
    Ok(true)
}

/// Checks the volume's structures.
fn sound(mounted: &Mounted<'_, '_>) -> Done<()> {
    let mut found = Vec::new();
    let mut scratch = vec![0; 4096];
    let summary = blocking::run(
        mounted.volume,
        mounted.volume.check(&mut scratch, &mut |finding| {
            if !finding.is_harmless() {
                found.push(finding.to_string());
            }
        }),
    )?;
    match found.first() {
        Some(finding) => broken(format!("the volume is not sound: {finding}")),
        None if summary.damages > 0 => broken("the volume is damaged"),
        None => Ok(()),
    }
}

/// One of the names. Some need a slot of a newer version of the format.
fn name_of(number: u32, machine: &Machine) -> String {
    let number = number % machine.setup.names();
    if number % 12 == 11 {
        format!("f{number}-{}", "long".repeat(16 + number as usize / 3))
    } else {
        format!("f{number}")
    }
}

/// Whether an error says that nothing was done, which needs no fault.
const fn is_refusal(error: Error) -> bool {
    matches!(
        error,
        Error::NoSpace | Error::MapFull | Error::TableFull | Error::Exists | Error::NotFound
    )
}

/// Whether it ended so.
const fn is_refused<T>(done: &Done<T>) -> bool {
    matches!(done, Err(Ended::Failed(error)) if is_refusal(*error))
}

impl Expected {
    /// What the volume holds, if that is certain.
    fn now(&self) -> Names {
        self.possible.first().cloned().unwrap_or_default()
    }

    /// A change begins: until [`done`](Self::done) each of these is possible.
    fn begin(&mut self, more: impl IntoIterator<Item = Names>) {
        self.possible.truncate(1);
        self.possible.extend(more);
    }

    fn done(&mut self, now: Names) {
        self.possible = vec![now];
    }

    /// Compares all files with what is possible; then it is certain.
    fn compare(&mut self, mounted: &Mounted<'_, '_>) -> Done<()> {
        let mut found = BTreeMap::new();
        let mut recorded = BTreeMap::new();
        let mut from = 0;
        while let Some(entry) = blocking::run(mounted.volume, mounted.volume.next_file(from))? {
            from = entry.slot + 1;
            let name = entry.name.as_str().to_owned();
            if recording_of(&name).is_some() {
                recorded.insert(name, entry.size_bytes);
                continue;
            }
            if found.insert(name.clone(), entry.size_bytes).is_some() {
                return broken(format!("`{name}` is there twice"));
            }
        }
        let mut why = String::new();
        let fits = self.possible.iter().find(|names| {
            why = differs(names, &found).unwrap_or_default();
            why.is_empty()
        });
        let Some(names) = fits else {
            let count = self.possible.len();
            return broken(format!("{why} (none of {count} possible states)"));
        };
        let mut names = names.clone();
        names.retain(|name, _| found.contains_key(name));
        for (name, held) in &mut names {
            let size = found.get(name).copied().unwrap_or_default();
            (held.least, held.most, held.may_miss) = (size, size, false);
            self.read(mounted, name, *held)?;
        }
        self.done(names);
        let checked = self.recordings.check(mounted, &recorded)?;
        checked.map_err(Ended::Broken)
    }

    /// Reads a file and compares it.
    fn read(&self, mounted: &Mounted<'_, '_>, name: &str, held: Held) -> Done<()> {
        let file = blocking::run(mounted.volume, mounted.volume.open(name))?;
        let mut result = Ok(());
        let mut offset = 0;
        while offset < held.least && result.is_ok() {
            let len = (held.least - offset).min(PIECE);
            let Ok(buffer) = mounted
                .memory
                .allocate(len.next_multiple_of(BLOCK) as usize)
            else {
                return broken("no memory for a read");
            };
            let outcome = blocking::read(mounted.volume, file, offset, buffer);
            result = outcome.result.map_err(Ended::from).and_then(|()| {
                let data = &outcome.buffer[..len as usize];
                match content::difference(data, held.seed, offset) {
                    Some(at) => broken(format!(
                        "`{name}`: byte {} of {} is wrong",
                        offset + at as u64,
                        held.least
                    )),
                    None => Ok(()),
                }
            });
            mounted.memory.give_back(outcome.buffer);
            offset += len;
        }
        let closed = blocking::run(mounted.volume, mounted.volume.close(file));
        result?;
        Ok(closed?)
    }

    fn step(&mut self, mounted: &Mounted<'_, '_>, step: &Step, machine: &mut Machine) -> Done<()> {
        let [a, b, c] = step.numbers;
        let volume = mounted.volume;
        volume.set_time((mounted.wall_ns)());
        let before = self.now();
        let name = name_of(a, machine);
        let most = machine.setup.most_bytes();
        let (stored, more) = (u64::from(b) * 37 % most, u64::from(b) * 41 % most);
        let result = match step.verb {
            Verb::Replace if before.contains_key(&name) => {
                self.replace(mounted, &name, stored, c, machine)
            }
            Verb::Put | Verb::Replace => self.put(mounted, &name, stored, c, machine),
            Verb::Get => match before.get(&name) {
                Some(held) => self.read(mounted, &name, *held),
                None => Ok(()),
            },
            Verb::Remove => self.remove(mounted, &name),
            Verb::Move => self.rename(mounted, &name, &name_of(b, machine)),
            Verb::Append => self.append(mounted, &name, more, c),
            Verb::Fill => {
                let free = blocking::run(volume, volume.free_units())?;
                // A ring that has fewer may have room for a single segment, which it removes for
                // what comes: with nothing in the end, if that fails.
                let left = 12 + u64::from(b) % 64;
                let bytes = free.saturating_sub(left) * volume.status().shape.unit_bytes();
                self.put(mounted, &name, bytes, 0, machine)
            }
            Verb::Across => self.across(mounted, step, more, machine),
            Verb::Batch => self.batch(mounted, step.numbers, machine),
            Verb::Resize => self.resize(mounted, machine, u64::from(a) << 12 | u64::from(b)),
            Verb::Trim if !machine.setup.features.discard => Ok(()),
            Verb::Trim => {
                let mut next = Some(0);
                while let Some(from) = next {
                    next = blocking::run(volume, volume.discard_free(from, 0))?.next_unit;
                }
                Ok(())
            }
            Verb::Label => {
                let label = format!("{a:.LABEL_BYTES$}");
                Ok(blocking::run(volume, volume.set_label(&label))?)
            }
            Verb::Record | Verb::Ring | Verb::Long => {
                let seed = self.seed();
                match self.recordings.record(mounted, step, machine, seed) {
                    // The others are compared later.
                    recordings::Ended::Well | recordings::Ended::Early
                        if step.salt % 4 != 0 && !self.recordings.is_due() =>
                    {
                        Ok(())
                    }
                    recordings::Ended::Well | recordings::Ended::Early => self.compare(mounted),
                    // The volume may go on, and another ring meets what this one has left.
                    recordings::Ended::Failed(_)
                        if step.salt % 2 == 0 && machine.tolerates_failures() =>
                    {
                        Ok(())
                    }
                    recordings::Ended::Failed(why) => Err(Ended::Stopped(why)),
                    recordings::Ended::Broken(what) => broken(what),
                }
            }
            Verb::Check => self.compare(mounted).and_then(|()| sound(mounted)),
            _ => Ok(()),
        };
        match result {
            // Without power nothing has been taken back.
            Err(Ended::Failed(error)) if is_refusal(error) && !machine.power.is_off() => {
                self.done(before);
                self.refused(mounted, error, step)
            }
            result => result,
        }
    }

    /// A refusal for lack of space is right only if there is none.
    fn refused(&self, mounted: &Mounted<'_, '_>, error: Error, step: &Step) -> Done<()> {
        let is_full_table = error == Error::TableFull;
        let is_judged = error == Error::NoSpace || is_full_table;
        if !is_judged || !matches!(step.verb, Verb::Put | Verb::Append) {
            return Ok(());
        }
        let free = blocking::run(mounted.volume, mounted.volume.free_units())?;
        let shape = mounted.volume.status().shape;
        let unit = shape.unit_bytes();
        if is_full_table {
            let slots = mounted.volume.slots();
            if free > shape.unit_count() / 2 {
                let files = self.now().len();
                return broken(format!(
                    "no slot for file {files} of {slots}, with {free} free units"
                ));
            }
            return Ok(());
        }
        let wanted = (u64::from(step.numbers[1]) * 41).div_ceil(unit) + 40;
        if free > wanted {
            broken(format!("no space, with {free} free units"))
        } else {
            Ok(())
        }
    }
}

/// What is found and should not be, or the other way round.
fn differs(names: &Names, found: &BTreeMap<String, u64>) -> Option<String> {
    for (name, held) in names {
        match found.get(name) {
            None if held.may_miss => {}
            None => return Some(format!("`{name}` is missing")),
            Some(size) if !(held.least..=held.most).contains(size) => {
                let (least, most) = (held.least, held.most);
                return Some(format!("`{name}` has {size} bytes, not {least} to {most}"));
            }
            Some(_) => {}
        }
    }
    let more = found.keys().find(|name| !names.contains_key(*name))?;
    Some(format!("`{more}` should not be there"))
}
