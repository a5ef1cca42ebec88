// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway array DEVICE`: makes, shows and rebuilds stripes and mirrors.

use crate::Context;
use crate::exit::Exit;
use crate::grave::GRAVE;
use block::Device;
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::cancel::Cancel;
use devices::drive::{ArrayDrive, ArrayShape, Drive};
use devices::error::{Error, Result};
use devices::guard::{Grant, Purpose};
use devices::path::array::{self, OpenMember, OpenSet};
use devices::path::{LARGEST_BLOCK_BYTES, OpenOptions};
use files::format::random_identity;
use schemars::JsonSchema;
use serde::Serialize;
use stripe::{ArrayKind, Label, create};

/// Make, show or rebuild an array of devices.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without an option, it shows the members and their labels, and writes nothing. A label is behind the data of each member. A mirror that lost a member \
goes on without it, and rebuilds it in every command that writes, as far as the command lasts; --rebuild completes it, and an interrupted rebuild goes on where it was.")]
pub struct Array {
    /// The array: stripe:64K,DEVICE,DEVICE or mirror:DEVICE,DEVICE
    pub device: String,
    /// Label the members as a new array; a mirror is then made equal, from its first member
    #[arg(long, conflicts_with = "rebuild")]
    pub create: bool,
    /// Make a mirror's members equal
    #[arg(long)]
    pub rebuild: bool,
    /// For --create: the members' serial numbers or file names, in order, separated by commas
    #[arg(long, value_name = "NAMES", requires = "create", help_heading = GRAVE)]
    pub destroy_data: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An array and its members.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArrayReport {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The array.
    pub array: String,
    /// Size of the data on each member.
    pub member_data_bytes: u64,
    /// In order.
    pub members: Vec<MemberReport>,
}

/// A member of an array.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MemberReport {
    /// Its name.
    pub name: String,
    /// `in use`, `to be made equal`, `to be rebuilt` or `missing`.
    pub state: String,
    /// Blocks that a rebuild has copied.
    pub rebuilt_blocks: Option<u64>,
}

impl Array {
    /// Runs the verb.
    ///
    /// # Errors
    /// The members cannot be opened, are not this array, or failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let Drive::Array(array) = Drive::find(&context.roots, &self.device)? else {
            return Err(Error::usage(format!("`{}` is not an array", self.device))
                .hint("stripe:64K,DEVICE,DEVICE or mirror:DEVICE,DEVICE"));
        };
        let purpose = match (self.create, self.rebuild) {
            (true, _) => Purpose::Destroy(self.destroy_data.as_deref()),
            (_, true) => Purpose::Change,
            _ => Purpose::Read,
        };
        let options = OpenOptions {
            write: self.create || self.rebuild,
            ..OpenOptions::reading(2 * LARGEST_BLOCK_BYTES, 32)
        };
        let grant = Grant::of(&context.roots, Drive::Array(array.clone()), purpose)?;
        let mut set = array::open_members(context, &grant, &array, &options)?;
        if self.create {
            set = Self::label(&array, set)?;
        }
        let kind = kind_of(&array, &set);
        let data_blocks = array::check_labels(&array, &set, kind)?;
        if (self.create || self.rebuild) && kind == ArrayKind::Mirror {
            let failure = Error::request("rebuilding the mirror", block::Error::Aborted);
            let (mut mirror, memory) = array::assemble(context, &array, set, true)?;
            let interrupt = Cancel::listen();
            while mirror.rebuilding() != 0 && !interrupt.is_set() {
                // The mirror has no requests of ours.
                let _ = mirror.poll();
                mirror.wait(100_000);
            }
            let live = mirror.live();
            mirror
                .close()
                .map_err(|error| Error::request("closing the mirror", error))?;
            if mirror.rebuilding() != 0 {
                return Err(Error::interrupted(
                    "interrupted; the next rebuild goes on here",
                ));
            }
            let present = array.drives().count() as u32;
            if live.count_ones() < present {
                return Err(failure.hint("see the warnings above; exchange the member that failed"));
            }
            drop((mirror, memory));
            set = array::open_members(context, &grant, &array, &options)?;
        }
        let report = report(&array, &set, data_blocks);
        context.console.report(self.json, &report, text)?;
        Ok(Exit::Done)
    }

    fn label(array: &ArrayDrive, set: OpenSet) -> Result<OpenSet> {
        let kind = kind_of(array, &set);
        let count = set.members.len();
        let mut members: Vec<OpenMember> = set.members.into_iter().flatten().collect();
        if members.len() != count {
            return Err(Error::missing(
                "a new array needs all its members; nothing was written",
            ));
        }
        let buffer = set.memory.allocate(LARGEST_BLOCK_BYTES)?;
        create(&mut members, kind, random_identity()?, buffer)
            .map_err(|error| array::failed(array, error))?;
        let mut labels = Vec::new();
        for member in &mut members {
            let buffer = set.memory.allocate(LARGEST_BLOCK_BYTES)?;
            let (_, label) = stripe::read_label(member, buffer);
            labels.push(label.map_err(|error| Error::request("reading a label", error))?);
        }
        Ok(OpenSet {
            members: members.into_iter().map(Some).collect(),
            labels,
            memory: set.memory,
        })
    }
}

fn kind_of(array: &ArrayDrive, set: &OpenSet) -> ArrayKind {
    let first = set.members.iter().flatten().next();
    let shift = first.map_or(9, |member| member.geometry().block_size_log2);
    match array.shape {
        ArrayShape::Mirror => ArrayKind::Mirror,
        ArrayShape::Striped { stripe_bytes, .. } => ArrayKind::Striped {
            stripe_blocks: (stripe_bytes >> shift) as u32,
        },
    }
}

fn report(array: &ArrayDrive, set: &OpenSet, data_blocks: u64) -> ArrayReport {
    let newest: Option<Label> = set
        .labels
        .iter()
        .flatten()
        .max_by_key(|label| label.sequence)
        .copied();
    let state = newest.map(|label| label.mirror).unwrap_or_default();
    let block_size_log2 = newest.map_or(9, |label| label.block_size_log2);
    let members = array.members.iter().zip(&set.members).enumerate();
    let members = members.map(|(index, (member, open))| {
        let is_current = array.shape != ArrayShape::Mirror || state.current & (1 << index) != 0;
        let is_rebuilding = state.rebuilding & (1 << index) != 0;
        MemberReport {
            name: member.name.clone(),
            state: match (open, is_current) {
                (None, _) => "missing",
                (_, false) => "to be rebuilt",
                (_, true) if state.is_dirty => "to be made equal",
                _ => "in use",
            }
            .to_owned(),
            rebuilt_blocks: is_rebuilding.then_some(state.rebuilt_blocks),
        }
    });
    ArrayReport {
        schema_version: SCHEMA_VERSION,
        array: array.to_string(),
        member_data_bytes: data_blocks << block_size_log2,
        members: members.collect(),
    }
}

fn text(report: &ArrayReport) -> String {
    let mut text = format!(
        "{}: {} of data on each member\n",
        report.array,
        units::Size(report.member_data_bytes)
    );
    for member in &report.members {
        text += &format!("  {:<24} {}\n", member.name, member.state);
    }
    text
}
