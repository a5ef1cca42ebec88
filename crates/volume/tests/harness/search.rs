// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every image that a power cut may leave must show, and the counting of images.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use block::{Buffer, Device};
use crash::{Config, CrashDisk, Medium, Sampling};
use straightway_volume::{
    CreateOptions, Error, Finding, MountOptions, OpenFile, Summary, Volume, blocking,
};

use super::independent::Scan;
use super::oracle::{Found, NAMES, Oracle, byte};
use super::owners::refused_where_overwritten;
use super::probe::{Hook, Probe};
use super::support::{buffer, free, memory};

/// The protocol that the volume under test follows.
#[cfg(feature = "mutations")]
pub type Mutation = straightway_volume::Mutation;

/// The images that were checked; searches from the same start share them.
pub type Seen = Arc<Mutex<HashSet<u64>>>;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    pub sampling: Sampling,
    /// The power is cut again at each step of the recovery.
    pub in_recovery: bool,
    /// The program dies, and the power is cut only when the next one has mounted or while it does.
    pub kill_first: bool,
}

impl Default for Depth {
    fn default() -> Self {
        Self {
            sampling: Sampling {
                samples: 24,
                ..Sampling::default()
            },
            in_recovery: true,
            kill_first: true,
        }
    }
}

impl Depth {
    /// With fewer samples, for the search of every sequence.
    pub fn quick() -> Self {
        Self {
            sampling: Sampling {
                exhaustive_blocks: 4,
                samples: 12,
                ..Sampling::default()
            },
            ..Self::default()
        }
    }
}

/// Checks images, each one once per promise.
pub struct Search {
    pub depth: Depth,
    pub oracle: Oracle,
    /// While false, nothing is checked.
    pub is_active: bool,
    pub states: u64,
    pub in_recovery_states: u64,
    /// The first violation, with its image's text.
    pub violation: Option<String>,
    seen: Seen,
    pub mutation: Mutation,
}

impl Search {
    pub fn new(depth: Depth) -> Self {
        Self {
            depth,
            oracle: Oracle::default(),
            is_active: false,
            states: 0,
            in_recovery_states: 0,
            violation: None,
            seen: Seen::default(),
            mutation: Mutation::None,
        }
    }

    /// A search that skips what another one from the same start has checked.
    pub fn beside(depth: Depth, seen: &Seen) -> Self {
        Self {
            seen: Arc::clone(seen),
            ..Self::new(depth)
        }
    }

    pub fn total(&self) -> u64 {
        self.states + self.in_recovery_states
    }

    /// Checks each image that a power cut may leave now.
    pub fn examine(&mut self, disk: &CrashDisk) {
        if !self.is_active || self.violation.is_some() {
            return;
        }
        let promise = self.oracle.hash();
        for image in disk.images(&self.depth.sampling) {
            if !self.is_new(promise, &image.medium, 0) {
                continue;
            }
            self.states += 1;
            if let Err(reason) = self.after_cut(&image.medium, promise) {
                self.violation = Some(format!("{reason}\n  image: {image}"));
                return;
            }
        }
        if self.depth.kill_first && !disk.pending().is_empty() {
            if let Err(reason) = self.after_kill(disk, promise) {
                self.violation = Some(format!("program killed, then power cut: {reason}"));
            }
        }
    }

    fn is_new(&mut self, promise: u64, medium: &Medium, kind: u64) -> bool {
        let key =
            medium.hash() ^ promise.rotate_left(17) ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.seen.lock().unwrap().insert(key)
    }

    fn after_cut(&mut self, medium: &Medium, promise: u64) -> Result<(), String> {
        // A check reads every node, so only a part of the images is checked.
        if medium.hash() % 4 == 0 {
            let without_recovery = self.checked(medium);
            without_recovery.map_err(|reason| format!("before recovery: {reason}"))?;
        }
        if medium.hash() % 32 == 1 {
            refused_where_overwritten(medium)?;
        }
        let again = Rc::new(RefCell::new(Vec::new()));
        let hook = self.depth.in_recovery.then(|| collect(&again, self.depth));
        self.settled(medium.open(Config::default()), hook)?;
        self.again(&again, promise)
    }

    fn after_kill(&mut self, disk: &CrashDisk, promise: u64) -> Result<(), String> {
        let again = Rc::new(RefCell::new(Vec::new()));
        let fork = disk.fork();
        if !self.is_new(promise ^ fork.durable().hash(), &fork.current(), 1) {
            return Ok(());
        }
        self.in_recovery_states += 1;
        self.settled(fork, Some(collect(&again, self.depth)))?;
        self.again(&again, promise)
    }

    /// The power was cut again while the volume was mounted: mount once more.
    fn again(&mut self, media: &RefCell<Vec<Medium>>, promise: u64) -> Result<(), String> {
        for medium in media.take() {
            if self.is_new(promise, &medium, 0) {
                self.in_recovery_states += 1;
                self.settled(medium.open(Config::default()), None)
                    .map_err(|reason| format!("cut again in recovery: {reason}"))?;
            }
        }
        Ok(())
    }

    /// Mounts, compares what is shown with what was promised, reaps, and counts the units.
    fn settled(&self, disk: CrashDisk, hook: Option<Hook>) -> Result<(), String> {
        let device = Probe::new(disk.clone(), hook.clone());
        let mut files: [OpenFile; 2] = Default::default();
        let node = node_bytes(&disk);
        let volume = mount(device, node, &mut files, self.mutation)
            .map_err(|error| format!("mount: {error}"))?;
        let is_probed = hook.is_some();
        let result = self.shown(&volume).and_then(|()| {
            sweep(&volume)?;
            if is_probed { use_it(&volume) } else { Ok(()) }
        });
        volume.abandon().memory.into_iter().flatten().for_each(free);
        result?;
        let bytes = disk.current().to_bytes();
        let scan = Scan::new(&bytes)?;
        scan.check_space()?;
        let sizes = &self.oracle.volume_bytes;
        if !sizes.is_empty() && !sizes.contains(&scan.regions.bytes) {
            let bytes = scan.regions.bytes;
            return Err(format!("a volume of {bytes} bytes, not one of {sizes:?}"));
        }
        if let Some(name) = scan.abandoned.first() {
            return Err(format!("`{name}` keeps a dead writer's reservation"));
        }
        if let Some(slot) = scan.half_free.first() {
            return Err(format!("slot {slot} is free in one member only"));
        }
        if scan.half_a_table {
            return Err("rot of one copy of the table node would hide a bucket".into());
        }
        if scan.torn_bitmaps > 0 {
            return Err("a bitmap has an invalid member after recovery".into());
        }
        let found = scan.files.iter().map(|file| Found {
            name: file.name.clone(),
            incarnation: file.app_tag,
            size_bytes: file.size_bytes,
            data: vec![(0, scan.data(&bytes, file))],
        });
        let (filler, found): (Vec<Found>, Vec<Found>) = found
            .filter(|found| found.name != PROBE)
            .partition(|found| found.name.starts_with(FILLER));
        self.counted(filler.iter().map(|filler| filler.name.as_str()))
            .map_err(|reason| format!("by the independent reader: {reason}"))?;
        for filler in filler {
            let right = |(at, is): (u64, &u8)| *is == byte(filler.incarnation, at, 0);
            if !(0..).zip(&filler.data[0].1).all(right) {
                return Err("an untouched file has changed".into());
            }
        }
        self.oracle
            .check(&found)
            .map_err(|reason| format!("by the independent reader: {reason}"))
    }

    /// Reads an image as a power cut left it, without recovery: what the next mount will complete
    /// or undo is not damage, and a reader already sees what that leaves.
    fn checked(&self, medium: &Medium) -> Result<(), String> {
        let mut damage = None;
        let mut report = |finding: Finding| {
            if !finding.is_harmless() {
                damage.get_or_insert(finding);
            }
        };
        let (summary, shown) = reading(medium, |volume, node| {
            let mut scratch = vec![0; 8 * node];
            let check = volume.check(&mut scratch, &mut report);
            let checked = blocking::run(volume, check);
            let shown = match &checked {
                Ok(summary) => counted(volume, summary).and_then(|()| self.shown(volume)),
                Err(_) => Ok(()),
            };
            (checked, shown)
        })?;
        match (summary, damage) {
            (Ok(_), None) => shown.map_err(|reason| format!("a reader: {reason}")),
            (Ok(_), Some(finding)) => Err(format!("a check: {finding}")),
            (Err(error), _) => Err(format!("a check: {error}")),
        }
    }

    fn shown<D: Device>(&self, volume: &Volume<'_, D>) -> Result<(), String> {
        let mut fillers = Vec::new();
        let found = list_with(volume, &mut fillers).map_err(|error| format!("reading: {error}"))?;
        self.counted(fillers.iter().map(String::as_str))?;
        self.oracle.check(&found)
    }

    /// Whether every filler is there, once: one that is moved to make room has one place at any
    /// time.
    fn counted<'n>(&self, fillers: impl Iterator<Item = &'n str>) -> Result<(), String> {
        let mut names: Vec<&str> = fillers.collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        let wanted = self.oracle.fillers;
        if wanted > 0 && (all, names.len()) != (wanted, wanted) {
            return Err(format!("{all} untouched files, not {wanted}: {names:?}"));
        }
        Ok(())
    }
}

/// The counts in the superblock, where it has some, are those of the tables.
fn counted<D: Device>(volume: &Volume<'_, D>, found: &Summary) -> Result<(), String> {
    let free_units = blocking::run(volume, volume.free_units());
    let free_units = free_units.map_err(|error| format!("free units: {error}"));
    match volume.known_usage() {
        None => Ok(()),
        Some(known) if (free_units?, found.files) == (known.free_units, known.files.into()) => {
            Ok(())
        }
        Some(known) => Err(format!("{known:?} is counted, and {found:?} found")),
    }
}

/// The file that fragments the others, and how the names of others begin that no operation touches.
pub const FILLER: &str = "filler";

/// A file that is made after a mount, to see that this works.
pub const PROBE: &str = "probe";

fn use_it<D: Device>(volume: &Volume<'_, D>) -> Result<(), String> {
    match blocking::run(volume, volume.create(PROBE, &CreateOptions::default())) {
        Ok(_) | Err(Error::TableFull | Error::Exists) => Ok(()),
        Err(error) => Err(format!("no file can be made: {error}")),
    }
}

fn collect(media: &Rc<RefCell<Vec<Medium>>>, depth: Depth) -> Hook {
    let media = Rc::clone(media);
    Rc::new(RefCell::new(move |disk: &CrashDisk| {
        let images = disk.images(&depth.sampling);
        media.borrow_mut().extend(images.map(|image| image.medium));
    }))
}

fn node_bytes(disk: &CrashDisk) -> usize {
    // The largest here; a mount accepts more memory than it needs.
    disk.geometry().block_size_bytes().max(512)
}

/// With the processor's own CRC32C: that of the tables, which other tests have, took a third of the
/// search.
fn options() -> MountOptions {
    MountOptions {
        crc32c: ::crc32c::crc32c_append,
        ..MountOptions::default()
    }
}

/// Mounts an image to read, without recovery; `body` also gets the length of a node at most.
pub fn reading<T>(
    medium: &Medium,
    body: impl FnOnce(&Volume<'_, CrashDisk>, usize) -> T,
) -> Result<T, String> {
    let disk = medium.open(Config::default());
    let mut files: [OpenFile; 1] = Default::default();
    let options = MountOptions {
        read_only: true,
        ..options()
    };
    let node = node_bytes(&disk);
    let volume = Volume::mount(disk, memory(node, 7), &mut files, &options);
    let volume = volume.map_err(|unmounted| {
        unmounted.memory.into_iter().flatten().for_each(free);
        format!("mount: {:?}", unmounted.result)
    })?;
    let result = body(&volume, node);
    volume.abandon().memory.into_iter().flatten().for_each(free);
    Ok(result)
}

/// Mounts for an inspection: long memory, so that few reads are needed.
pub fn mount<D: Device>(
    device: D,
    node_bytes: usize,
    files: &mut [OpenFile],
    mutation: Mutation,
) -> Result<Volume<'_, D>, Error> {
    Volume::mount_mutated(device, memory(node_bytes, 7), files, &options(), mutation).map_err(
        |unmounted| {
            unmounted.memory.into_iter().flatten().for_each(free);
            unmounted.result.unwrap_err()
        },
    )
}

/// Every file with its bytes, read through the volume. The fillers are left out.
pub fn list<D: Device>(volume: &Volume<'_, D>) -> Result<Vec<Found>, Error> {
    list_with(volume, &mut Vec::new())
}

/// The same, with the names of the fillers.
fn list_with<D: Device>(
    volume: &Volume<'_, D>,
    fillers: &mut Vec<String>,
) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(entry) = blocking::run(volume, volume.next_file(from))? {
        from = entry.slot + 1;
        if entry.name.as_str() == PROBE {
            continue;
        }
        let known = blocking::run(volume, volume.find(entry.name.as_str()))?;
        if known != entry {
            return Err(Error::NotFound);
        }
        if entry.name.as_str().starts_with(FILLER) {
            fillers.push(entry.name.as_str().to_owned());
            continue;
        }
        found.push(Found {
            name: entry.name.as_str().to_string(),
            incarnation: entry.app_tag,
            size_bytes: entry.size_bytes,
            data: read(volume, entry.name.as_str(), entry.size_bytes)?,
        });
    }
    // A name that is not listed is not found either.
    let most = volume.status().shape.longest_name_bytes();
    let names = NAMES.iter().flatten();
    for name in names.filter(|name| name.len() <= most) {
        if !found.iter().any(|found| found.name == *name)
            && blocking::run(volume, volume.find(name)) != Err(Error::NotFound)
        {
            return Err(Error::Exists);
        }
    }
    Ok(found)
}

/// Longer files are read through the volume at both ends only; the independent reader reads all of
/// it.
const WHOLE_BYTES: u64 = 4096;
const END_BYTES: u64 = 1024;

/// The parts of a file that were read, with their offsets.
fn read<D: Device>(
    volume: &Volume<'_, D>,
    name: &str,
    size: u64,
) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let block = volume.geometry().block_size_bytes() as u64;
    let parts = match size {
        0 => Vec::new(),
        1..=WHOLE_BYTES => vec![(0, size)],
        _ => vec![(0, END_BYTES), ((size - END_BYTES) / block * block, size)],
    };
    let file = blocking::run(volume, volume.open(name))?;
    let mut found = Vec::new();
    for (from, to) in parts {
        let len = (to - from) as usize;
        let memory: Buffer = buffer(len.next_multiple_of(block as usize));
        let outcome = blocking::read(volume, file, from, memory);
        found.push((from, outcome.buffer[..len].to_vec()));
        free(outcome.buffer);
        outcome.result?;
    }
    blocking::run(volume, volume.close(file))?;
    Ok(found)
}

/// Gives back what removed files and dead writers still have.
pub fn sweep<D: Device>(volume: &Volume<'_, D>) -> Result<(), String> {
    let mut next = Some(0);
    while let Some(from) = next {
        next = blocking::run(volume, volume.reclaim(from))
            .map_err(|error| format!("reclaim: {error}"))?;
    }
    Ok(())
}
