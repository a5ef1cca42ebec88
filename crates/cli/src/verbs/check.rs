// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway check DEVICE`: checks a volume, and repairs damage if the repair can be proved
//! right.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::error::{ErrorKind, Result};
use devices::transfer::IoOptions;
use files::drain::{Part, drain};
use files::flow::Sums;
use files::listing::{FileEntry, Listing};
use files::names::UNFINISHED;
use files::{Access, Mounted, Store, failed, findings, pace, route, shown};
use live::origin::Origin;
use recorder::export::{Contradiction, said_of};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use units::{counted, rounded};
use volume::layout::CHUNK_BYTES;
use volume::{Finding, Summary};

/// The longest map of the volume's units that is held in memory; a larger volume takes more passes.
const SCRATCH_BYTES: u64 = 64 << 20;
/// Memory with which a check finds names that are there twice without looking each up.
const NAME_BYTES_PER_SLOT: u64 = 4;
/// Maximum number of printed findings of one kind.
const MOST_SHOWN: usize = 1000;

/// Check a volume, and repair what a scan can prove.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --read-data only the volume's structures are checked: names, sizes, maps and free space. Rotten
data is found by --read-data, in files with checksums.

Without --repair nothing is changed, not even an operation that a power cut or a killed command
interrupted: the next command that changes the volume completes or undoes it, as does
check --repair. Such an operation is not damage, and check reports it separately.

The signature of another owner on the device, such as a volume group or a partition table, is
reported too: whatever changes the volume is refused then, because it would destroy that.

--repair rewrites invalid copies from the valid ones and makes the free space consistent with the
files. It never changes data, nor a file that cannot be read. A removed file that rot has brought
back, and whose space another file has, is removed again.

Exit status: 0 sound, or repaired; 1 something is wrong; 6 only data is: it no longer has its
checksum; 7 the volume is sound, but the files of a recording are not what was recorded: a segment is missing
(not if a ring has removed it), was replaced or continued, or its list of gaps was. Lists of gaps and descriptions
that an earlier recording of a name has left are named too.")]
pub struct Check {
    /// The device with the volume
    pub device: String,
    /// Repair what can be proved
    #[arg(long, help_heading = GRAVE)]
    pub repair: bool,
    /// Also read the data and verify that of every file that has checksums; reports files without
    /// checksums
    #[arg(long)]
    pub read_data: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Checked {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The device's resolved name.
    pub device: String,
    /// Nothing is wrong, or everything was repaired.
    pub sound: bool,
    /// The volume was not unmounted cleanly: the next command that changes it recovers it first.
    pub recovers_at_next_write: bool,
    /// Each finding as text, with neighbouring nodes as one range; after a repair, the findings
    /// before it.
    pub findings: Vec<String>,
    /// Findings that affect a file or space.
    pub damages: u64,
    /// Harmless findings: the other copy is valid, or the next write cleans up.
    pub harmless: u64,
    /// Nodes written by the repair.
    pub repaired: u64,
    /// Files.
    pub files: u64,
    /// Removed files whose space has not been freed yet.
    pub to_reap: u64,
    /// Bytes of data in files.
    pub data_bytes: u64,
    /// The data of files with checksums was read (`--read-data`); otherwise only the volume's
    /// structures were.
    pub data_read: bool,
    /// Bytes that were verified against their checksums.
    pub compared_bytes: u64,
    /// With --read-data: files without checksums, which were not verified.
    pub not_compared_files: u64,
    /// The bytes in those files.
    pub not_compared_bytes: u64,
    /// Data that does not match its checksum.
    pub rot: Vec<Rotten>,
    /// Files of recordings that are not what was recorded, which the volume itself does not know.
    pub contradictions: Vec<Contradiction>,
}

/// A range of a file that does not match its checksum.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rotten {
    /// The file.
    pub name: String,
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Its length, at most 64 KiB.
    pub length_bytes: u64,
}

impl Check {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device failed, or the volume cannot be mounted.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let io = self.route.with_buffers(1 << 20, 8);
        let options = route::open_options(&io, self.repair);
        let mut store = Store::open(context, &self.device, &options)?;
        let checked = self.check_opened(context, &mut store, &io);
        let checked = store.close(checked)?;
        let exit = match (checked.sound, checked.rot.is_empty()) {
            (false, _) => Exit::No,
            (true, false) => Exit::Rot,
            (true, true) if !checked.contradictions.is_empty() => Exit::Late,
            (true, true) => Exit::Done,
        };
        if self.json {
            context.console.json(&checked)?;
        } else if exit == Exit::Done {
            context.console.print_outcome(&checked.text())?;
        } else {
            // Damage is reported even with --quiet.
            context.console.print(&checked.text())?;
        }
        Ok(exit)
    }

    fn check_opened(
        &self,
        context: &Context,
        store: &mut Store,
        io: &IoOptions,
    ) -> Result<Checked> {
        let access = if self.repair {
            Access::Write
        } else {
            Access::Read
        };
        let owners = store.other_owners(&context.cancel)?;
        // A mount to write writes both superblocks.
        let mut before = Vec::new();
        if self.repair {
            before = store.mount(Access::Read, superblock_findings)?;
        }
        let mut checked =
            store.mount(access, |mounted| self.check(context, mounted, io, before))?;
        for owner in &owners {
            checked.sound = false;
            checked.damages += 1;
            checked.findings.push(format!(
                "another owner has the device: {} (at byte {}); nothing may be changed",
                owner.what, owner.offset_bytes
            ));
        }
        Ok(checked)
    }

    fn check(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        io: &IoOptions,
        before: Vec<Finding>,
    ) -> Result<Checked> {
        let volume = mounted.volume;
        let failed_here = |error| failed(format_args!("checking {}", mounted.drive), error);
        let status = volume.status();
        let shape = status.shape;
        let node_bits = shape.node_bytes() as u64 / 2;
        let scratch_bytes = (shape.group_count() * node_bits).min(SCRATCH_BYTES.max(node_bits));
        let name_bytes = NAME_BYTES_PER_SLOT * u64::from(volume.slots());
        let mut scratch = vec![0; (scratch_bytes + name_bytes) as usize];
        let mut listing = if self.repair {
            // For the names of what the repair removes.
            Listing::read(mounted)?
        } else {
            Listing {
                schema_version: SCHEMA_VERSION,
                files: Vec::new(),
                damaged: Vec::new(),
            }
        };
        let mut findings = Vec::new();
        let mut report = |finding: Finding| findings.push(finding);
        let first = if self.repair {
            volume::blocking::run(volume, volume.repair(&mut scratch, &mut report))
        } else {
            let mut each = |entry| listing.files.push(FileEntry::new(&entry));
            let check = volume.check_files(&mut scratch, &mut report, &mut each);
            volume::blocking::run(volume, check)
        };
        let mut first = first.map_err(failed_here)?;
        for finding in before {
            if !findings.contains(&finding) {
                findings.insert(0, finding);
                first.harmless += 1;
                first.repaired += 1;
            }
        }
        // The state after the repair decides.
        let last = if self.repair {
            mounted.reclaim().map_err(failed_here)?;
            mounted.count().map_err(failed_here)?;
            let mut ignore = |_| {};
            let again = volume.check(&mut scratch, &mut ignore);
            volume::blocking::run(volume, again).map_err(failed_here)?
        } else {
            first
        };
        let name = |slot| {
            let mut files = listing.files.iter();
            let file = files.find(|file| file.slot == slot)?;
            Some(file.name.clone())
        };
        let lines = findings::lines(&findings, shape.unit_bytes(), &name);
        if self.repair {
            listing = Listing::read(mounted)?
        } else {
            listing.sort()
        }
        let mut checked = Checked::new(mounted, &first, &last, lines);
        checked.recovers_at_next_write = !status.clean && !self.repair;
        for file in &listing.files {
            checked.look_for_remains(file);
        }
        checked.look_at_recordings(context, io, mounted, &listing)?;
        checked.data_read = self.read_data;
        if self.read_data {
            self.read_data(context, mounted, io, &listing, &mut checked)?;
        }
        Ok(checked)
    }

    fn read_data(
        &self,
        context: &Context,
        mounted: &Mounted<'_, '_>,
        io: &IoOptions,
        listing: &Listing,
        checked: &mut Checked,
    ) -> Result<()> {
        for file in listing.files.iter().filter(|file| !file.has_checksums()) {
            checked.not_compared_files += 1;
            checked.not_compared_bytes += file.size_bytes;
        }
        let files = || listing.files.iter().filter(|file| file.has_checksums());
        let total_bytes = files().map(|file| file.size_bytes).sum();
        let bar = context.bytes_bar(Some(total_bytes));
        let pace = pace(mounted, io)?;
        for file in files() {
            let part = Part {
                name: &file.name,
                offset_bytes: 0,
                length_bytes: file.size_bytes,
                size_bytes: file.size_bytes,
                sums: Sums::Stored,
                past_rot: true,
                pace,
            };
            let drained = match drain(mounted, &part, &mut |_| Ok(()), &bar, &context.cancel) {
                Ok(drained) => drained,
                // The drive cannot read a part, or a file is damaged: continue with the rest.
                Err(failure) if failure.kind() == ErrorKind::Other => {
                    checked.sound = false;
                    checked.findings.push(failure.to_string());
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            checked.compared_bytes += drained.bytes;
            for offset_bytes in drained.rot {
                checked.rot.push(Rotten {
                    name: file.name.clone(),
                    offset_bytes,
                    length_bytes: CHUNK_BYTES.min(file.size_bytes - offset_bytes),
                });
            }
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// What is wrong with a superblock.
fn superblock_findings(mounted: &Mounted<'_, '_>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut report = |finding| findings.push(finding);
    let found = mounted.volume.superblock_findings(&mut report);
    mounted.run(format_args!("checking {}", mounted.drive), found)?;
    Ok(findings)
}

impl Checked {
    fn new(
        mounted: &Mounted<'_, '_>,
        first: &Summary,
        last: &Summary,
        findings: Vec<String>,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            device: mounted.drive.to_string(),
            sound: last.damages == 0,
            findings,
            damages: first.damages,
            harmless: first.harmless,
            repaired: first.repaired,
            files: last.files,
            to_reap: last.to_reap,
            data_bytes: last.data_bytes,
            ..Self::default()
        }
    }

    /// Reports the remains of an interrupted put.
    fn look_for_remains(&mut self, file: &FileEntry) {
        let remains = match (file.unfinished, file.name.ends_with(UNFINISHED)) {
            (true, true) => {
                "a part of a new file, which an interrupted put --force left; straightway rm removes it"
            }
            (true, false) => {
                "the beginning of a file, which an interrupted put or cp left; straightway put --force stores it again, \
                 straightway rm removes it"
            }
            (false, true) => {
                "looks like the remains of an interrupted put --force; if the file itself is gone, this is \
                 the new one, whole (straightway mv), else straightway rm removes it"
            }
            (false, false) => return,
        };
        self.harmless += 1;
        self.findings
            .push(format!("`{}`: {remains}", shown(&file.name)));
    }

    /// Reports files that are not what was recorded, by what recordings keep of them.
    fn look_at_recordings(
        &mut self,
        context: &Context,
        io: &IoOptions,
        mounted: &Mounted<'_, '_>,
        listing: &Listing,
    ) -> Result<()> {
        let origin = Origin::here(context, io, mounted);
        let said = said_of(&origin, &listing.files)?;
        self.contradictions = said.contradictions;
        self.harmless += said.notes.len() as u64;
        self.findings.extend(said.notes);
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for finding in self.findings.iter().take(MOST_SHOWN) {
            let _ = writeln!(text, "{finding}");
        }
        if let Some(more) = self.findings.len().checked_sub(MOST_SHOWN + 1) {
            let _ = writeln!(text, "... and {} more", more + 1);
        }
        for rot in &self.rot {
            let _ = writeln!(
                text,
                "`{}`: {} bytes at offset {} do not match their checksum",
                shown(&rot.name),
                rot.length_bytes,
                rot.offset_bytes
            );
        }
        for contradiction in self.contradictions.iter().take(MOST_SHOWN) {
            let _ = writeln!(text, "{}", contradiction.text());
        }
        let verdict = match (self.sound, self.rot.len(), self.repaired) {
            (true, 0, 0) => "sound".to_owned(),
            (true, 0, 1) => "repaired: 1 node was written".to_owned(),
            (true, 0, repaired) => format!("repaired: {repaired} nodes were written"),
            (true, chunks, _) => counted(chunks as u64, "corrupt chunk"),
            (false, ..) => "damaged".to_owned(),
        };
        let _ = writeln!(
            text,
            "{verdict}: {}, {}, {}, {}",
            counted(self.files, "file"),
            rounded(self.data_bytes),
            counted(self.harmless, "harmless finding"),
            counted(self.damages, "damage")
        );
        if !self.data_read {
            text.push_str(
                "checked: the volume's structures; the data in files was not read: --read-data verifies what has checksums\n",
            );
        }
        if self.compared_bytes > 0 {
            let compared = rounded(self.compared_bytes);
            let _ = writeln!(text, "{compared} were compared with their checksums");
        }
        if self.not_compared_files > 0 {
            let files = match self.not_compared_files {
                1 => "1 file has".to_owned(),
                files => format!("{files} files have"),
            };
            let bytes = rounded(self.not_compared_bytes);
            let _ = writeln!(text, "{files} no checksums: not verified ({bytes})");
        }
        if self.recovers_at_next_write {
            text.push_str("the volume was not unmounted cleanly: it recovers at the next write\n");
        }
        text
    }
}
