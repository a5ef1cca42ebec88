// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens an array: each member by its own path, with memory that all of them can reach.

use crate::drive::{ArrayDrive, ArrayShape, Drive};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Grant;
use crate::path::memory::Memory;
use crate::path::{LARGEST_BLOCK_BYTES, OpenOptions, Opened, PathChoice};
use crate::{Context, Progress};
use block::{Buffer, Completion, Device, Geometry, Refused, Request};
use linux::HostMemory;
use paths::PathKind;
use remedy::{Part, Remedy, Setting, Value, words};
use stripe::{
    ArrayEvent, ArrayKind, Label, MOST_MEMBERS, Mirror, MirrorMemory, SetError, Striped, Watch,
    check, read_label,
};

/// Requests in flight.
pub const DEPTH: usize = 256;
/// What a rebuild copies at a time.
const COPY_BYTES: usize = 1 << 20;
const LABELS_BYTES: usize = MOST_MEMBERS * LARGEST_BLOCK_BYTES;

/// An open member.
pub struct OpenMember(Opened);

impl Device for OpenMember {
    fn geometry(&self) -> &Geometry {
        self.0.device.geometry()
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        self.0.device.submit(request)
    }

    fn kick(&mut self) {
        self.0.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.0.device.poll()
    }

    fn outstanding(&self) -> usize {
        self.0.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.0.device.wait(timeout_us);
    }
}

/// Reports what happens to the members, once for each.
pub struct Reports {
    progress: Progress,
    array: String,
    names: Vec<String>,
    has_failed: u8,
}

impl Watch for Reports {
    fn event(&mut self, event: ArrayEvent) {
        let name = |member: usize| self.names.get(member).map_or("?", String::as_str);
        let console = &self.progress;
        match event {
            ArrayEvent::Failed { member, error } if self.has_failed & (1 << member) == 0 => {
                console.say(format_args!("warning: {}: {error}", name(member)));
                self.has_failed |= 1 << member;
            }
            ArrayEvent::Stale { member } => console.say(words![format!("warning: the mirror goes on without {}, which missed a write; when it is back: straightway array {} ", name(member), self.array), Part::Option(Setting::Rebuild)]),
            ArrayEvent::LabelFailed { member, error } => console.say(format_args!(
                "warning: storing the label of {}: {error}",
                name(member)
            )),
            ArrayEvent::Equal => console.say("the mirror's members are equal"),
            _ => {}
        }
    }
}

/// An open mirror.
pub type OpenMirror = Mirror<OpenMember, Vec<Option<OpenMember>>, Reports, DEPTH>;

/// Stores that the members are equal when it is dropped.
struct Closing(OpenMirror, Progress);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            self.1.say(format_args!(
                "warning: closing the mirror: {error}; its members are made equal at the next use"
            ));
        }
    }
}

block::forward_device!(Closing, 0);

/// The members of an array, open, with their labels and their memory.
pub struct OpenSet {
    /// `None` for a missing one.
    pub members: Vec<Option<OpenMember>>,
    /// As read.
    pub labels: Vec<Option<Label>>,
    /// For all of them.
    pub memory: HostMemory,
}

/// Opens the members and reads their labels.
///
/// # Errors
/// A member cannot be opened or read; a mirror's member that is missing is reported and omitted.
pub fn open_members(
    context: &Context,
    grant: &Grant,
    array: &ArrayDrive,
    options: &OpenOptions,
) -> Result<OpenSet> {
    let is_usual = options.path == PathChoice::AUTO || options.path == PathChoice::SYNC;
    if !is_usual && options.path != PathChoice::IO_URING || options.mode.is_some() {
        return Err(Error::unsupported(format!(
            "an array has no path {}: its members share memory, which paths in user space cannot",
            options.path
        ))
        .hint(Remedy::one_of([
            Remedy::omit([Setting::Path, Setting::Mode]),
            Setting::Path.to(Value::choice("io_uring or sync")),
        ])));
    }
    let bytes = options
        .buffer_bytes
        .saturating_add(COPY_BYTES + 2 * LABELS_BYTES);
    let memory = HostMemory::new(bytes)?;
    let mut set = OpenSet {
        members: Vec::new(),
        labels: Vec::new(),
        memory,
    };
    for (member, grant) in array.members.iter().zip(grant.members()) {
        let (Ok(drive), Some(grant)) = (&member.drive, grant) else {
            let why = member.drive.as_ref().err().map_or("", String::as_str);
            let name = &member.name;
            context.say(format_args!("warning: {name} is missing: {why}"));
            set.members.push(None);
            set.labels.push(None);
            continue;
        };
        let path = match drive {
            Drive::Nvme(_) | Drive::Disk(_) if options.path == PathChoice::AUTO => {
                PathChoice::IO_URING
            }
            Drive::Ram(_) | Drive::Remote(_) => PathChoice::AUTO,
            Drive::Model(_) | Drive::Coprocessor(_) => {
                return Err(Error::unsupported(format!(
                    "`{}` cannot be a member of an array: its memory is its own",
                    member.name
                ))
                .hint("NVMe drives, other block devices, plain files and ram:SIZE can"));
            }
            _ => options.path,
        };
        let options = OpenOptions {
            path,
            buffer_bytes: 4096,
            // The array gathers, not each member.
            hybrid: false,
            cache_bytes: 0,
            ..*options
        };
        let mut opened = match super::open(context, grant, &options) {
            Ok(opened) => OpenMember(opened),
            // As a drive that was unplugged: a target that does not answer.
            Err(failure)
                if array.shape == ArrayShape::Mirror && failure.kind() == ErrorKind::Missing =>
            {
                let name = &member.name;
                context.say(format_args!("warning: {name} is missing: {failure}"));
                set.members.push(None);
                set.labels.push(None);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let align_bytes = opened.geometry().buffer_align_bytes;
        set.memory = set.memory.aligned_to(align_bytes as usize);
        let buffer = set.memory.allocate(LARGEST_BLOCK_BYTES)?;
        let (_, label) = read_label(&mut opened, buffer);
        let doing = || format!("reading the label of {}", member.name);
        set.labels
            .push(label.map_err(|error| Error::request(doing(), error))?);
        set.members.push(Some(opened));
    }
    Ok(set)
}

/// What is wrong with a set, for the user.
pub fn failed(array: &ArrayDrive, error: SetError) -> Error {
    let failure = Error::usage(format!("{}: {error}; nothing was written", array.name));
    let name = &array.name;
    match error {
        SetError::Unlabelled { .. } => failure.hint(words![format!("straightway array {name} "), Part::Option(Setting::Create), " ", Part::Option(Setting::DestroyData), " NAMES makes a new array; `stripe:SIZE,bare,...` uses an array of the hardware, which has no labels"]),
        SetError::Swapped { .. } => failure.hint("name the members in their order"),
        SetError::Diverged { .. } => failure.hint(
            "decide which of them to keep, save the other's files with `get` from a mirror that has only that one, and make the array again",
        ),
        SetError::NotCurrent { .. } => failure.hint("connect the missing member"),
        SetError::Kind { .. } => failure.hint("name the array as it was made"),
        _ => failure.hint(words!["straightway list shows the drives; ", Setting::DestroyData, " with ", Setting::Create, " makes a new array of these members"]),
    }
}

/// Opens an array.
///
/// # Errors
/// The members cannot be opened, or are not this array.
pub fn open(
    context: &Context,
    grant: &Grant,
    array: &ArrayDrive,
    kind: &PathKind,
    options: &OpenOptions,
) -> Result<Opened> {
    let set = open_members(context, grant, array, options)?;
    let (device, memory): (Box<dyn Device>, _) = match array.shape {
        ArrayShape::Mirror => {
            let (mirror, memory) = assemble(context, array, set, options.write)?;
            let closing = Closing(mirror, context.progress.clone());
            (Box::new(closing), memory)
        }
        ArrayShape::Striped {
            stripe_bytes,
            has_labels,
        } => {
            let first = set.members.iter().flatten().next();
            let shift = first.map_or(9, |member| member.geometry().block_size_log2);
            let stripe_blocks = (stripe_bytes >> shift) as u32;
            let data_blocks = if has_labels {
                check_labels(array, &set, ArrayKind::Striped { stripe_blocks })?
            } else {
                let members = set.members.iter().flatten();
                let sizes = members.map(|member| member.geometry().block_count);
                sizes.min().unwrap_or_default()
            };
            let members: Vec<OpenMember> = set.members.into_iter().flatten().collect();
            let striped: Striped<_, _, _, DEPTH> =
                Striped::new(members, stripe_blocks, data_blocks, reports(context, array))
                    .map_err(|error| {
                        Error::request("assembling the stripes", error).hint(
                            "members have the same block size, and a stripe is at least a block",
                        )
                    })?;
            (Box::new(striped), set.memory)
        }
    };
    Ok(Opened {
        name: array.to_string(),
        ..Opened::new(kind, device, Memory::Host(memory))
    })
}

/// Assembles a mirror from its open members.
///
/// # Errors
/// They are not one mirror, or none of them is up to date.
pub fn assemble(
    context: &Context,
    array: &ArrayDrive,
    set: OpenSet,
    may_write: bool,
) -> Result<(OpenMirror, HostMemory)> {
    let allocate = |len| -> Result<Buffer> { Ok(set.memory.allocate(len)?) };
    let memory = MirrorMemory {
        labels: allocate(LABELS_BYTES)?,
        copy: allocate(COPY_BYTES)?,
    };
    let mirror = Mirror::new(
        set.members,
        &set.labels,
        memory,
        may_write,
        reports(context, array),
    );
    let mirror = mirror.map_err(|error| failed(array, error))?;
    Ok((mirror, set.memory))
}

fn reports(context: &Context, array: &ArrayDrive) -> Reports {
    Reports {
        progress: context.progress.clone(),
        array: array.name.clone(),
        names: array
            .members
            .iter()
            .map(|member| member.name.clone())
            .collect(),
        has_failed: 0,
    }
}

/// Checks the labels; returns the blocks of data on each member.
///
/// # Errors
/// The members are not this array.
pub fn check_labels(array: &ArrayDrive, set: &OpenSet, kind: ArrayKind) -> Result<u64> {
    let members = set.members.iter().zip(&set.labels);
    let found: Vec<_> = members
        .map(|(member, label)| member.as_ref().map(|member| (*member.geometry(), *label)))
        .collect();
    let label = check(kind, &found).map_err(|error| failed(array, error))?;
    Ok(label.data_blocks)
}
