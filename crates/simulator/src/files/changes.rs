// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user of files changes: each change is possible while it is made, and certain after it.

use super::{BLOCK, Done, Ended, Expected, Held, PIECE, broken, is_refusal, is_refused, name_of};
use crate::content;
use crate::machine::Machine;
use crate::script::Step;
use crate::setup::Only;
use ::files::Mounted;
use volume::{CreateOptions, NewFile, blocking};

impl Expected {
    pub(super) fn seed(&mut self) -> u64 {
        self.next_seed += 1;
        self.next_seed
    }

    pub(super) fn put(
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
    pub(super) fn replace(
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
    pub(super) fn write(
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

    pub(super) fn append(
        &mut self,
        mounted: &Mounted<'_, '_>,
        name: &str,
        bytes: u64,
        kind: u32,
    ) -> Done<()> {
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

    pub(super) fn remove(&mut self, mounted: &Mounted<'_, '_>, name: &str) -> Done<()> {
        let mut after = self.now();
        if after.remove(name).is_none() {
            return Ok(());
        }
        self.begin([after.clone()]);
        blocking::run(mounted.volume, mounted.volume.remove_whole(name))?;
        self.done(after);
        Ok(())
    }

    pub(super) fn rename(&mut self, mounted: &Mounted<'_, '_>, old: &str, new: &str) -> Done<()> {
        let mut after = self.now();
        if after.contains_key(new) {
            return Ok(());
        }
        let Some(held) = after.remove(old) else {
            return Ok(());
        };
        after.insert(new.to_owned(), held);
        self.begin([after.clone()]);
        let volume = mounted.volume;
        blocking::run(volume, volume.with_space(|| volume.rename(old, new)))?;
        self.done(after);
        Ok(())
    }

    /// Appends to a file while names are added, for which the slot of the open file may move.
    pub(super) fn across(
        &mut self,
        mounted: &Mounted<'_, '_>,
        step: &Step,
        bytes: u64,
        machine: &Machine,
    ) -> Done<()> {
        let [a, _, c] = step.numbers;
        let name = name_of(a, machine);
        let before = self.now();
        let Some(held) = before.get(&name).copied() else {
            return Ok(());
        };
        let (middle, end) = (held.least + bytes / 2, held.least + bytes);
        let mut longer = before;
        longer.insert(name.clone(), Held { most: end, ..held });
        self.done(longer);
        let volume = mounted.volume;
        let file = blocking::run(volume, volume.open_to_write(&name))?;
        let mut written = self.write(mounted, file, held.seed, held.least, middle);
        for number in 0..4 + c % 16 {
            let other = name_of(a + 1 + number, machine);
            if other == name || written.is_err() {
                continue;
            }
            let before = self.now();
            written = self.put(mounted, &other, u64::from(number) * 100, number, machine);
            if is_refused(&written) && !machine.power.is_off() {
                (self.possible, written) = (vec![before], Ok(()));
            }
        }
        let written = written.and_then(|()| self.write(mounted, file, held.seed, middle, end));
        let written = match written {
            Ok(()) => blocking::run(volume, volume.sync(file)).map_err(Ended::from),
            Err(failure) => Err(failure),
        };
        let closed = blocking::run(volume, volume.close(file)).map_err(Ended::from);
        if is_refused(&written) && closed.is_ok() {
            return self.compare(mounted);
        }
        let synced = written?;
        closed?;
        if synced != end {
            return broken(format!("`{name}`: {synced} of {end} bytes are synced"));
        }
        let mut after = self.now();
        let whole = Held {
            least: end,
            most: end,
            ..held
        };
        after.insert(name, whole);
        self.done(after);
        Ok(())
    }

    pub(super) fn batch(
        &mut self,
        mounted: &Mounted<'_, '_>,
        [first, bytes, kind]: [u32; 3],
        machine: &Machine,
    ) -> Done<()> {
        let before = self.now();
        let most_names = if machine.setup.only == Only::Growth {
            24
        } else {
            6
        };
        let most_bytes = machine.setup.most_bytes().min(40 << 10);
        let names = first..first + 1 + kind % most_names;
        let names = names.map(|number| name_of(number, machine));
        let names: Vec<String> = names.filter(|name| !before.contains_key(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let seeds: Vec<u64> = names.iter().map(|_| self.seed()).collect();
        let mut data = Vec::new();
        let mut possible = before.clone();
        for (index, (name, seed)) in names.iter().zip(&seeds).enumerate() {
            let len = (u64::from(bytes) * 7 + index as u64 * 300) % most_bytes;
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
            0 | 1 => {
                let create = volume.with_space(|| volume.create_many(&new, checksums));
                blocking::run(volume, create)
            }
            _ => {
                let create = volume.with_space(|| volume.create_batch::<13>(&new, checksums));
                blocking::run(volume, create)
            }
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

    pub(super) fn resize(
        &mut self,
        mounted: &Mounted<'_, '_>,
        machine: &Machine,
        wanted: u64,
    ) -> Done<()> {
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
