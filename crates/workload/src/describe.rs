// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload's description in TOML: sets of files, semaphores, and groups of threads with steps.
//!
//! Operations have Filebench's meaning. A thread has numbered files: `open` and `create` put one
//! into a number, the steps that follow use it, `close` ends it. A step that names a set without a
//! number opens and closes a file of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// A description in one sentence.
    pub about: String,
    /// Tables of sizes, by name.
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
    /// Its sets of files.
    #[serde(rename = "set")]
    pub sets: Vec<FileSet>,
    /// What groups wait for.
    #[serde(rename = "semaphore", default)]
    pub semaphores: Vec<Semaphore>,
    /// Its threads.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
}

/// A set of files.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Its name, and that of its folder.
    pub name: String,
    /// Number of files; by default from the data set's size.
    pub files: Option<u64>,
    /// Average bytes of a file; by default from the data set's size.
    pub mean_size: Option<u64>,
    /// Shape of the gamma distribution of sizes; by default all sizes are equal.
    pub shape: Option<f64>,
    /// The name of a table of sizes, instead of a mean.
    pub table: Option<String>,
    /// Shape of the gamma distribution of which file is used; by default each is as likely.
    pub popularity: Option<f64>,
    /// Its share of the data set's bytes.
    #[serde(default)]
    pub share: f64,
    /// The share of files that exist at the start.
    pub filled: f64,
}

/// Rows of weight, least bytes and most bytes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Table(pub Vec<[u64; 3]>);

impl Table {
    /// The mean of what is drawn.
    pub fn mean(&self) -> u64 {
        let weight: u64 = self.0.iter().map(|[weight, ..]| weight).sum();
        let sum = self
            .0
            .iter()
            .map(|[weight, least, most]| *weight as f64 * (least + most) as f64 / 2.0)
            .sum::<f64>();
        (sum / weight.max(1) as f64) as u64
    }

    /// The most that can be drawn.
    pub fn most(&self) -> Option<u64> {
        self.0.iter().map(|[.., most]| *most).max()
    }

    fn makes_sense(&self) -> bool {
        self.0.iter().any(|row| row[0] > 0)
            && self
                .0
                .iter()
                .all(|[_, least, most]| (1..=*most).contains(least) && *most <= 1 << 40)
    }
}

/// A semaphore between groups.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Semaphore {
    /// Its name.
    pub name: String,
    /// A `post` waits while the semaphore is this high, or as high as its longest `wait` needs.
    pub highwater: u64,
}

/// Threads with the same steps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of them.
    pub threads: u32,
    /// Rounds per second of all threads together; by default as fast as possible.
    pub per_second: Option<f64>,
    /// The steps of a round.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// The set of files.
    #[serde(default)]
    pub set: String,
    /// The number of the thread's file.
    pub file: Option<u8>,
    /// The number of the file whose length a `write_all` writes.
    pub like: Option<u8>,
    /// Bytes of each transfer; of an append, the most.
    pub size: Option<Amount>,
    /// Number of repetitions.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether it is durable when it completes.
    #[serde(default)]
    pub sync: bool,
    /// Length of a pause.
    #[serde(default)]
    pub seconds: f64,
    /// The semaphore.
    #[serde(default)]
    pub semaphore: String,
    /// What a `wait` takes from the semaphore, and a `post` adds; stores to memory of a `compute`.
    #[serde(default = "one")]
    pub count: u64,
    /// The steps of a `repeat`.
    #[serde(default)]
    pub steps: Vec<Step>,
}

impl Step {
    /// This step, and all that it repeats.
    fn all(&self) -> Vec<&Step> {
        let inner = self.steps.iter().flat_map(Step::all);
        std::iter::once(self).chain(inner).collect()
    }
}

fn once() -> u32 {
    1
}

fn one() -> u64 {
    1
}

/// A size, or a table of sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// Always so many bytes.
    Bytes(u64),
    /// Drawn from the table of this name.
    Table(String),
}

/// The operation of a step.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Opens an existing file of the set.
    Open,
    /// Makes a file of the set.
    Create,
    /// Reads the file from beginning to end.
    ReadAll,
    /// Writes all of a new file.
    WriteAll,
    /// Writes at the end of the file: 1 byte to `size`.
    Append,
    /// Makes the file durable.
    Sync,
    /// Closes the file.
    Close,
    /// Removes a file of the set that is not open, or the thread's closed file.
    Delete,
    /// Queries a file's length.
    Stat,
    /// Reads on in a file that the thread keeps open, from its beginning again after its end.
    ReadNext,
    /// Reads at a random place.
    ReadBlock,
    /// Writes at a random place.
    WriteBlock,
    /// The same, by a helper of the thread, as POSIX AIO has them.
    WriteAsync,
    /// Waits until the thread's helpers have written everything.
    AwaitWrites,
    /// Occupies the processor.
    Compute,
    /// Takes from a semaphore, as soon as there is enough.
    Wait,
    /// Adds to a semaphore.
    Post,
    /// Pauses.
    Pause,
    /// Does steps of its own, one after another.
    Repeat,
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Serialize::serialize(self, f)
    }
}

impl Op {
    /// Whether it accesses files: such operations count in rates and mean times.
    pub const fn is_access(self) -> bool {
        !matches!(
            self,
            Self::AwaitWrites
                | Self::Compute
                | Self::Wait
                | Self::Post
                | Self::Pause
                | Self::Repeat
        )
    }

    /// Whether it moves a file's bytes.
    pub(super) const fn moves_data(self) -> bool {
        matches!(
            self,
            Self::ReadAll
                | Self::WriteAll
                | Self::Append
                | Self::ReadNext
                | Self::ReadBlock
                | Self::WriteBlock
                | Self::WriteAsync
        )
    }

    const fn needs_set(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Create
                | Self::Stat
                | Self::ReadNext
                | Self::ReadBlock
                | Self::WriteBlock
                | Self::WriteAsync
        )
    }

    const fn needs_file(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Create
                | Self::ReadAll
                | Self::WriteAll
                | Self::Append
                | Self::Sync
                | Self::Close
        )
    }
}

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The text is not TOML, or has unknown keys.
    #[error("{0}")]
    Toml(String),
    /// Its contents are invalid.
    #[error("{0}")]
    Sense(String),
}

type Checked = Result<(), WorkloadError>;

fn nonsense<T>(what: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Sense(what))
}

impl Workload {
    /// Reads a workload.
    ///
    /// # Errors
    /// The text is not TOML of this form, or its contents are invalid.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let this: Self =
            toml::from_str(text).map_err(|error| WorkloadError::Toml(error.to_string()))?;
        if this.groups.is_empty() {
            return nonsense("a workload needs at least one group".to_owned());
        }
        if let Some((name, _)) = this.tables.iter().find(|(_, table)| !table.makes_sense()) {
            return nonsense(format!("table {name} needs rows of [weight, least, most]"));
        }
        this.sets.iter().try_for_each(|set| set.check(&this))?;
        this.groups
            .iter()
            .try_for_each(|group| group.check(&this))?;
        Ok(this)
    }

    /// How high a semaphore may rise.
    pub(super) fn highest(&self, semaphore: &Semaphore) -> u64 {
        let steps = self.groups.iter().flat_map(Group::all);
        let waits = steps.filter(|step| step.op == Op::Wait && step.semaphore == semaphore.name);
        let longest = waits.map(|step| step.count).max().unwrap_or(0);
        longest.max(semaphore.highwater)
    }
}

impl FileSet {
    fn check(&self, workload: &Workload) -> Checked {
        let name = &self.name;
        if name.is_empty() || name.contains(['/', '.']) {
            return nonsense(format!("invalid name `{name}` of a set"));
        }
        if !(0.0..=1.0).contains(&self.filled) || !(0.0..=1.0).contains(&self.share) {
            return nonsense(format!("shares of set {name} must be between 0 and 1"));
        }
        let sized = self.mean_size.is_some() || self.table.is_some();
        if self.share <= 0.0 && (self.files.is_none() || !sized) {
            return nonsense(format!("set {name} needs a share, or files and mean_size"));
        }
        if self.files.is_none() && !sized {
            return nonsense(format!("set {name} needs files, mean_size or a table"));
        }
        let shapes = [self.shape, self.popularity];
        if shapes
            .iter()
            .flatten()
            .any(|shape| !(0.01..=100.0).contains(shape))
        {
            return nonsense(format!(
                "a shape of set {name} must be between 0.01 and 100"
            ));
        }
        if let Some(table) = &self.table {
            if !workload.tables.contains_key(table) || self.mean_size.is_some() {
                return nonsense(format!(
                    "set {name} needs the name of a table, or mean_size, but not both"
                ));
            }
        }
        Ok(())
    }
}

impl Group {
    /// All steps, and those that they repeat.
    pub(super) fn all(&self) -> Vec<&Step> {
        self.steps.iter().flat_map(Step::all).collect()
    }

    fn check(&self, workload: &Workload) -> Checked {
        let name = &self.name;
        if self.threads == 0 || self.threads > 4096 || self.steps.is_empty() {
            return nonsense(format!("group {name} needs 1 to 4096 threads and a step"));
        }
        if self
            .per_second
            .is_some_and(|rate| !(rate > 0.0 && rate < 1e9))
        {
            return nonsense(format!("the rate of group {name} must be more than 0"));
        }
        for step in self.all() {
            let of_set = workload.sets.iter().any(|set| set.name == step.set);
            let has_set = !step.set.is_empty();
            if (has_set || step.op.needs_set()) && !of_set {
                return nonsense(format!("group {name} uses the unknown set `{}`", step.set));
            }
            if step.op.needs_file() && step.file.is_none() {
                return nonsense(format!("`{}` of group {name} needs a file", step.op));
            }
            if step.op == Op::Delete && !has_set && step.file.is_none() {
                return nonsense(format!("`delete` of group {name} needs a set or a file"));
            }
            let waits = matches!(step.op, Op::Wait | Op::Post);
            let known = workload
                .semaphores
                .iter()
                .any(|one| one.name == step.semaphore);
            if waits && !known {
                let unknown = &step.semaphore;
                return nonsense(format!(
                    "group {name} uses the unknown semaphore `{unknown}`"
                ));
            }
            if !(0.0..=3600.0).contains(&step.seconds) {
                return nonsense(format!("a pause of group {name} must be 0 to 3600 s"));
            }
            let makes_sense = match &step.size {
                Some(Amount::Table(table)) => workload.tables.contains_key(table),
                Some(Amount::Bytes(bytes)) => (1..=1 << 40).contains(bytes),
                None => true,
            };
            if !makes_sense {
                return nonsense(format!(
                    "a size of group {name} is neither bytes nor the name of a table"
                ));
            }
            if (step.op == Op::Repeat) == step.steps.is_empty() {
                return nonsense(format!("`repeat` of group {name}, and only it, has steps"));
            }
            for number in [step.file, step.like].into_iter().flatten() {
                if !self.fills(number, step) {
                    return nonsense(format!("group {name} uses file {number} but opens none"));
                }
            }
        }
        Ok(())
    }

    /// Whether a step of a round puts a file into this number.
    fn fills(&self, number: u8, asking: &Step) -> bool {
        let opens = |step: &Step| {
            step.file == Some(number)
                && (matches!(step.op, Op::Open | Op::Create)
                    || !step.set.is_empty() && step.op != Op::Delete)
        };
        self.all().into_iter().any(opens) || opens(asking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BUILT_IN;

    #[test]
    fn all_seven_can_be_read() {
        for (name, text) in BUILT_IN {
            let workload = Workload::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(workload.name, name);
            let shares: f64 = workload.sets.iter().map(|set| set.share).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (_, good) = BUILT_IN[0];
        for (from, to) in [
            ("threads = 50", "threads = 0"),
            ("set = \"pages\"", "set = \"nowhere\""),
            ("name = \"pages\"", "name = \"../etc\""),
            ("filled = 1.0", "filled = 2.0"),
            ("op = \"append\"", "op = \"explode\""),
            ("shape = 1.5", "shape = 0.0"),
            ("mean_size = 16384\nshape", "shape"),
            ("mean_size = 16384\nshape", "table = \"none\"\nshape"),
            ("size = 16384", "size = \"none\""),
            ("op = \"close\", file = 1", "op = \"repeat\""),
            ("op = \"close\", file = 1", "op = \"close\""),
            ("op = \"close\", file = 1", "op = \"close\", file = 7"),
            (
                "op = \"close\", file = 1",
                "op = \"wait\", semaphore = \"none\"",
            ),
            ("op = \"close\", file = 1", "op = \"close\", often = 10"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(Workload::parse(&bad).is_err(), "{to}");
        }
    }

    #[test]
    fn a_table_has_a_mean_and_a_semaphore_rises_to_what_a_wait_needs() {
        assert_eq!(Table(vec![[1, 100, 300], [3, 400, 400]]).mean(), 350);
        let oltp = BUILT_IN.iter().find(|(name, _)| *name == "oltp").unwrap().1;
        let workload = Workload::parse(oltp).unwrap();
        let highest: Vec<u64> = workload
            .semaphores
            .iter()
            .map(|one| workload.highest(one))
            .collect();
        assert_eq!(highest, [3200, 2000]);
    }
}
