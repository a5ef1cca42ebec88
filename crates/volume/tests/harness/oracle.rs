// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the volume promised: for each file, what it may show after a power cut now.
//!
//! A file's byte is a function of the file's incarnation, its offset and the number of the
//! overwrite, so the model holds no data. The incarnation is in the file's application tag.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Files of the model. Each has two names.
pub const FILES: usize = 2;
/// The granularity of overwrites.
pub const BLOCK: u64 = 256;

/// A name of 255 bytes; all agree in the first 254.
macro_rules! long {
    ($end:literal) => {
        concat!(
            "0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/",
            "0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/",
            "0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/",
            "0123456789/0123456789/0123456789/0123456789/0123456789/x",
            $end
        )
    };
}

/// The names of file `file`: in different buckets of a table of 16 slots, see the test. The third
/// one is long.
pub const NAMES: [[&str; 3]; FILES] = [["a0", "a1", long!("a")], ["b0", "b1", long!("b")]];
/// The number of the long name.
pub const LONG: usize = 2;

/// The byte of `incarnation` at `offset`, after overwrite number `version` (0: as appended).
pub fn byte(incarnation: u64, offset: u64, version: u32) -> u8 {
    let mut value = incarnation
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((offset >> 3).wrapping_mul(0xd6e8_feb8_6659_fd93))
        ^ u64::from(version).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (value >> (8 * (offset & 7))) as u8 ^ (value >> 61) as u8
}

/// Bytes `from..to` as appended.
pub fn bytes(incarnation: u64, from: u64, to: u64) -> Vec<u8> {
    (from..to).map(|at| byte(incarnation, at, 0)).collect()
}

/// The version of a block that a power cut tore in an earlier run: it may hold anything.
pub const TORN: u32 = u32::MAX;

/// A file that may be shown.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Shown {
    pub incarnation: u64,
    pub name: usize,
    pub checksums: bool,
    /// Sizes that a power cut may leave.
    pub sizes: Vec<u64>,
    /// Overwritten blocks: the versions that each may have. A read returns the last one.
    pub versions: BTreeMap<u64, Vec<u32>>,
}

/// A file as the software sees it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Live {
    pub shown: Shown,
    pub is_open: bool,
    pub appended: u64,
    pub committed: u64,
    /// Ends of appends since the last commit: a commit takes one of them.
    pub ends: Vec<u64>,
    pub overwrites: u32,
}

impl Live {
    /// With another name of its file.
    #[must_use]
    pub fn called(mut self, name: usize) -> Self {
        self.shown.name = name;
        self
    }

    pub fn new(incarnation: u64, checksums: bool) -> Self {
        Self {
            shown: Shown {
                incarnation,
                name: 0,
                checksums,
                sizes: vec![0],
                versions: BTreeMap::new(),
            },
            is_open: true,
            appended: 0,
            committed: 0,
            ends: Vec::new(),
            overwrites: 0,
        }
    }

    /// A file that was made with all of its data, and is closed.
    pub fn whole(incarnation: u64, checksums: bool, size: u64) -> Self {
        let mut live = Self::new(incarnation, checksums);
        live.is_open = false;
        live.appended = size;
        live.synced(size);
        live
    }

    /// A commit may have begun.
    pub fn committing(&mut self) {
        for end in &self.ends {
            if !self.shown.sizes.contains(end) {
                self.shown.sizes.push(*end);
            }
        }
    }

    /// A commit returned.
    pub fn committed(&mut self, size: u64) {
        self.committed = size;
        let pending: Vec<u64> = self
            .ends
            .iter()
            .copied()
            .filter(|end| *end > size)
            .collect();
        self.shown.sizes.retain(|size| !pending.contains(size));
        self.ends = pending;
    }

    /// A sync that began with these versions returned.
    pub fn synced(&mut self, size: u64) {
        self.committed(size);
        self.shown.sizes = vec![size];
        for versions in self.shown.versions.values_mut() {
            let last = versions.last().copied();
            versions.retain(|version| Some(*version) == last);
        }
    }
}

/// One file, and what it was while an operation on it has not returned.
#[derive(Clone, Debug, Default, Hash)]
pub struct Slot {
    pub now: Option<Live>,
    pub before: Option<Option<Live>>,
}

/// All that is promised.
#[derive(Clone, Debug, Default, Hash)]
pub struct Oracle {
    pub files: [Slot; FILES],
    pub next_incarnation: u64,
    /// Sizes that the volume may have; empty until it is resized.
    pub volume_bytes: Vec<u64>,
    /// The slot table may grow.
    pub grows: bool,
    /// Operations with the long names are tried too.
    pub long_names: bool,
    /// Files that no operation names, which are all there at any time; 0: not counted.
    pub fillers: usize,
}

/// A file that a volume shows.
#[derive(Clone, Debug)]
pub struct Found {
    pub name: String,
    pub incarnation: u64,
    pub size_bytes: u64,
    /// Parts of its bytes, with their offsets.
    pub data: Vec<(u64, Vec<u8>)>,
}

impl Oracle {
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }

    /// Whether a volume may show these files (those of the model; others are left out).
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, found: &[Found]) -> Result<(), String> {
        for other in found {
            if !NAMES.iter().flatten().any(|name| other.name == *name) {
                return Err(format!("a file that was never made: {:?}", other.name));
            }
        }
        for (file, slot) in self.files.iter().enumerate() {
            let of_file = |found: &&Found| NAMES[file].contains(&found.name.as_str());
            let shown: Vec<&Found> = found.iter().filter(of_file).collect();
            if shown.len() > 1 {
                return Err(format!("file {file} has both names"));
            }
            let shown = shown.first().copied();
            let mut reason = match fits(file, slot.now.as_ref(), shown) {
                Ok(()) => continue,
                Err(reason) => reason,
            };
            if let Some(before) = &slot.before {
                match fits(file, before.as_ref(), shown) {
                    Ok(()) => continue,
                    Err(other) => reason = format!("{reason}; before: {other}"),
                }
            }
            return Err(format!("file {file}: {reason}"));
        }
        Ok(())
    }

    /// After a remount: the model is what is shown.
    pub fn adopt(&mut self, found: &[Found]) {
        for (file, slot) in self.files.iter_mut().enumerate() {
            let shown = found
                .iter()
                .find(|found| NAMES[file].contains(&found.name.as_str()));
            let before = slot.before.take().flatten();
            let candidates = [slot.now.take(), before];
            slot.now = shown.and_then(|shown| {
                let fit = |live: &&Live| fits(file, Some(live), Some(shown)).is_ok();
                let mut live = candidates.iter().flatten().find(fit)?.clone();
                live.is_open = false;
                live.appended = shown.size_bytes;
                // What is past the end will be appended again, as version 0.
                let size = shown.size_bytes;
                live.shown.versions.retain(|block, _| block * BLOCK < size);
                for (block, versions) in &mut live.shown.versions {
                    let at = block * BLOCK;
                    let end = (at + BLOCK).min(size);
                    let fits = |version: &u32| {
                        *version == TORN
                            || (at..end).all(|at| {
                                let is = shown.data[0].1[at as usize];
                                is == byte(shown.incarnation, at, *version)
                            })
                    };
                    versions.retain(fits);
                    if versions.is_empty() {
                        versions.push(TORN);
                    }
                }
                live.synced(size);
                live.ends.clear();
                Some(live)
            });
        }
    }
}

fn fits(file: usize, live: Option<&Live>, found: Option<&Found>) -> Result<(), String> {
    let (live, found) = match (live, found) {
        (None, None) => return Ok(()),
        (None, Some(found)) => return Err(format!("{:?} should be gone", found.name)),
        (Some(live), None) => {
            let name = NAMES[file][live.shown.name];
            return Err(format!("{name:?} is lost"));
        }
        (Some(live), Some(found)) => (live, found),
    };
    let shown = &live.shown;
    if found.name != NAMES[file][shown.name] {
        return Err(format!("it is called {:?}", found.name));
    }
    if found.incarnation != shown.incarnation {
        let (is, was) = (found.incarnation, shown.incarnation);
        return Err(format!("another file: {is}, not {was}"));
    }
    let size = found.size_bytes;
    if !shown.sizes.contains(&size) {
        return Err(format!("size {size}, not one of {:?}", shown.sizes));
    }
    let last = found.data.last();
    if last.map_or(0, |(from, bytes)| from + bytes.len() as u64) != size {
        return Err(format!("not all of {size} bytes can be read"));
    }
    for (from, bytes) in &found.data {
        for (block, part) in blocks(*from, bytes) {
            let versions = shown
                .versions
                .get(&(block / BLOCK))
                .map_or(&[0][..], |all| all);
            for (at, is) in (block..).zip(part) {
                // Torn overwrites leave each byte old or new.
                let right = |version: &u32| {
                    *version == TORN || *is == byte(shown.incarnation, at, *version)
                };
                if !versions.iter().any(right) {
                    return Err(format!("byte {at} of {size} is wrong"));
                }
            }
        }
    }
    Ok(())
}

/// The parts of `bytes` by blocks of [`BLOCK`]; `from` is a block's begin.
fn blocks(from: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let starts = (from..).step_by(BLOCK as usize);
    starts.zip(bytes.chunks(BLOCK as usize))
}
