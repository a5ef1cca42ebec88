// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user of files on a volume: what it stored, and what a power cut or a failure may have left.

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
use volume::{CreateOptions, Error, FormatOptions, NewFile, OpenFile, blocking};

/// Files that are used.
const NAMES: u32 = 10;
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

fn name_of(number: u32) -> String {
    format!("f{}", number % NAMES)
}

/// Whether an error says that nothing was done, which needs no fault.
const fn is_refusal(error: Error) -> bool {
    matches!(
        error,
        Error::NoSpace | Error::MapFull | Error::TableFull | Error::Exists | Error::NotFound
    )
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
        let name = name_of(a);
        let result = match step.verb {
            Verb::Put => self.put(mounted, &name, u64::from(b) * 37, c, machine),
            Verb::Replace if before.contains_key(&name) => {
                self.replace(mounted, &name, u64::from(b) * 37, c, machine)
            }
            Verb::Replace => self.put(mounted, &name, u64::from(b) * 37, c, machine),
            Verb::Get => match before.get(&name) {
                Some(held) => self.read(mounted, &name, *held),
                None => Ok(()),
            },
            Verb::Remove => self.remove(mounted, &name),
            Verb::Move => self.rename(mounted, &name, &name_of(b)),
            Verb::Append => self.append(mounted, &name, u64::from(b) * 41, c),
            Verb::Batch => self.batch(mounted, a, b, c),
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
        if error != Error::NoSpace || !matches!(step.verb, Verb::Put | Verb::Append) {
            return Ok(());
        }
        let free = blocking::run(mounted.volume, mounted.volume.free_units())?;
        let unit = mounted.volume.status().shape.unit_bytes();
        let wanted = (u64::from(step.numbers[1]) * 41).div_ceil(unit) + 40;
        if free > wanted {
            broken(format!("no space, with {free} free units"))
        } else {
            Ok(())
        }
    }

    fn seed(&mut self) -> u64 {
        self.next_seed += 1;
        self.next_seed
    }

    fn put(
        &mut self,
        mounted: &Mounted<'_, '_>,
        name: &str,
        bytes: u64,
        kind: u32,
        machine: &Machine,
    ) -> Done<()> {
        let before = self.now();
        if before.contains_key(name) {
            return Ok(());
        }
        let seed = self.seed();
        let held = Held {
            seed,
            least: 0,
            most: bytes,
            may_miss: true,
        };
        let mut partial = before.clone();
        partial.insert(name.to_owned(), held);
        let whole = Held {
            least: bytes,
            may_miss: false,
            ..held
        };
        let mut after = before.clone();
        after.insert(name.to_owned(), whole);
        self.begin([partial]);
        let volume = mounted.volume;
        let options = CreateOptions {
            reserve_bytes: if kind % 2 == 0 { bytes } else { 0 },
            checksums: volume.status().checksums && kind % 3 == 0,
            app_tag: 0,
        };
        let made = volume.with_space(|| volume.create(name, &options));
        let file = blocking::run(volume, made)?;
        let written = self.write(mounted, file, seed, 0, bytes);
        let written = match written {
            Ok(()) => blocking::run(volume, volume.sync(file))
                .map(|_| ())
                .map_err(Ended::from),
            failed => failed,
        };
        if written.is_ok() {
            // From now on nothing else is right.
            self.possible = vec![after.clone()];
        }
        let closed = blocking::run(volume, volume.close(file)).map_err(Ended::from);
        if let Err(failure) = written.and(closed) {
            if !machine.power.is_off() {
                // As `put` does.
                self.possible.push(before);
                blocking::run(volume, volume.remove_whole(name))?;
            }
            return Err(failure);
        }
        self.done(after);
        Ok(())
    }

    /// Puts a file beside the one of its name, and then has it take the name.
    fn replace(
        &mut self,
        mounted: &Mounted<'_, '_>,
        name: &str,
        bytes: u64,
        kind: u32,
        machine: &Machine,
    ) -> Done<()> {
        let stored = ::files::names::unfinished_name(name);
        self.put(mounted, &stored, bytes, kind, machine)?;
        let before = self.now();
        let mut removed = before.clone();
        removed.remove(name);
        let mut after = removed.clone();
        if let Some(whole) = after.remove(&stored) {
            after.insert(name.to_owned(), whole);
        }
        self.begin([removed, after.clone()]);
        let volume = mounted.volume;
        blocking::run(volume, volume.remove_whole(name))?;
        blocking::run(volume, volume.rename(&stored, name))?;
        self.done(after);
        Ok(())
    }

    /// Appends payload from `from` to `end`.
    fn write(
        &self,
        mounted: &Mounted<'_, '_>,
        file: volume::File,
        seed: u64,
        from: u64,
        end: u64,
    ) -> Done<()> {
        let mut at = from;
        while at < end {
            // The rest of a block that the file ends in comes with its beginning.
            let begin = at / BLOCK * BLOCK;
            let most = if begin < at { BLOCK } else { PIECE };
            let len = (end - begin).min(most);
            let Ok(mut buffer) = mounted
                .memory
                .allocate(len.next_multiple_of(BLOCK) as usize)
            else {
                return broken("no memory for a write");
            };
            content::fill(&mut buffer, seed, begin);
            buffer[len as usize..].fill(0);
            let outcome = if begin < at {
                blocking::append_merged(mounted.volume, file, buffer, len as usize)
            } else {
                blocking::append(mounted.volume, file, buffer, len as usize)
            };
            mounted.memory.give_back(outcome.buffer);
            outcome.result?;
            at = begin + len;
        }
        Ok(())
    }

    fn append(&mut self, mounted: &Mounted<'_, '_>, name: &str, bytes: u64, kind: u32) -> Done<()> {
        let before = self.now();
        let Some(held) = before.get(name).copied() else {
            return Ok(());
        };
        let end = held.least + bytes;
        let mut longer = before.clone();
        longer.insert(name.to_owned(), Held { most: end, ..held });
        self.begin([longer.clone()]);
        let volume = mounted.volume;
        let file = blocking::run(volume, volume.open_to_write(name))?;
        let written = self.write(mounted, file, held.seed, held.least, end);
        if let Err(failure) = written {
            // What was written before stays.
            let closed = blocking::run(volume, volume.close(file));
            self.possible = vec![longer];
            if matches!(failure, Ended::Failed(error) if is_refusal(error)) && closed.is_ok() {
                return self.compare(mounted);
            }
            return Err(failure);
        }
        let durable = match kind % 3 {
            0 => blocking::run(volume, volume.sync(file))?,
            1 => blocking::run(volume, volume.commit(file))?,
            _ => end,
        };
        if durable != end {
            return broken(format!("`{name}`: {durable} of {end} bytes are synced"));
        }
        let after = Held {
            least: end,
            most: end,
            ..held
        };
        if kind % 3 == 0 {
            let mut synced = before.clone();
            synced.insert(name.to_owned(), after);
            self.possible = vec![synced];
        }
        blocking::run(volume, volume.close(file))?;
        let mut now = before;
        now.insert(name.to_owned(), after);
        self.done(now);
        Ok(())
    }

    fn remove(&mut self, mounted: &Mounted<'_, '_>, name: &str) -> Done<()> {
        let mut after = self.now();
        if after.remove(name).is_none() {
            return Ok(());
        }
        self.begin([after.clone()]);
        blocking::run(mounted.volume, mounted.volume.remove_whole(name))?;
        self.done(after);
        Ok(())
    }

    fn rename(&mut self, mounted: &Mounted<'_, '_>, old: &str, new: &str) -> Done<()> {
        let mut after = self.now();
        if after.contains_key(new) {
            return Ok(());
        }
        let Some(held) = after.remove(old) else {
            return Ok(());
        };
        after.insert(new.to_owned(), held);
        self.begin([after.clone()]);
        blocking::run(mounted.volume, mounted.volume.rename(old, new))?;
        self.done(after);
        Ok(())
    }

    fn batch(&mut self, mounted: &Mounted<'_, '_>, first: u32, bytes: u32, kind: u32) -> Done<()> {
        let before = self.now();
        let names = (first..first + 1 + kind % 6).map(name_of);
        let names: Vec<String> = names.filter(|name| !before.contains_key(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let seeds: Vec<u64> = names.iter().map(|_| self.seed()).collect();
        let mut data = Vec::new();
        let mut possible = before.clone();
        for (index, (name, seed)) in names.iter().zip(&seeds).enumerate() {
            let len = (u64::from(bytes) * 7 + index as u64 * 300) % (40 << 10);
            let mut piece = vec![0; len as usize];
            content::fill(&mut piece, *seed, 0);
            data.push(piece);
            let held = Held {
                seed: *seed,
                least: len,
                most: len,
                may_miss: true,
            };
            possible.insert(name.clone(), held);
        }
        self.begin([possible.clone()]);
        let new = names.iter().zip(&data);
        let new: Vec<NewFile<'_>> = new
            .map(|(name, data)| NewFile {
                name,
                data,
                mtime_ns: (mounted.wall_ns)(),
                app_tag: 0,
            })
            .collect();
        let volume = mounted.volume;
        let checksums = volume.status().checksums && kind % 2 == 0;
        let made = match kind % 4 {
            0 | 1 => blocking::run(volume, volume.create_many(&new, checksums)),
            _ => blocking::run(volume, volume.create_batch::<13>(&new, checksums)),
        };
        let made = made?.files;
        let mut after = before;
        for name in names.iter().take(made) {
            if let Some(held) = possible.get(name) {
                let held = Held {
                    may_miss: false,
                    ..*held
                };
                after.insert(name.clone(), held);
            }
        }
        self.done(after);
        Ok(())
    }

    fn resize(&mut self, mounted: &Mounted<'_, '_>, machine: &Machine, wanted: u64) -> Done<()> {
        let volume = mounted.volume;
        let most = volume.geometry().size_bytes() - (64 << 10);
        let least = most / 2;
        let bytes = least + wanted % (most - least) / 4096 * 4096;
        let end = |bytes: u64| machine.testimony.set_end(bytes / BLOCK);
        end(bytes.max(self.volume_bytes));
        let resized = blocking::run(volume, volume.resize(bytes));
        self.volume_bytes = volume.status().shape.volume_bytes;
        if resized.is_ok() {
            end(self.volume_bytes);
        }
        resized?;
        Ok(())
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
