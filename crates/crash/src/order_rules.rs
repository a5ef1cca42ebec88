// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of flush order, and their violations.

use crate::command::Command;
use std::fmt;
use std::ops::Range;

/// A block's membership in a pair of which one member must be durable before the other is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The pair's identifier.
    pub id: u64,
    /// The member's number, such as 0 and 1.
    pub member: u8,
}

/// Maps a block to its pair.
pub(crate) type PairOf = Box<dyn Fn(u64) -> Option<Pair> + Send>;

/// Whether a rule applies to a change.
pub(crate) type Select = Box<dyn Fn(&Command) -> bool + Send>;

/// A change that `later` selects requires every change that `first` selects to be durable.
pub(crate) struct DurableFirst {
    pub(crate) name: &'static str,
    pub(crate) first: Select,
    pub(crate) later: Select,
}

/// The rules that an [`Orders`](crate::Orders) device checks.
///
/// A change (write, write-zeroes, discard) is durable when it completes if it is FUA, otherwise
/// when a flush that was submitted after that completes. A rule is checked when the later command
/// is submitted, because the device may execute it from then on.
#[derive(Default)]
pub struct OrderRules {
    pub(crate) separate: Vec<Range<u64>>,
    pub(crate) pairs: Vec<(Range<u64>, PairOf)>,
    pub(crate) durable_first: Vec<DurableFirst>,
    pub(crate) apart: Vec<Range<u64>>,
}

impl OrderRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// In `blocks`, a block is changed only when its last change is durable.
    #[must_use]
    pub fn separate(mut self, blocks: Range<u64>) -> Self {
        self.separate.push(blocks);
        self
    }

    /// In `blocks`, a member of a pair is changed only when all changes of its other members are
    /// durable. `pair` is called for each block of each change there.
    #[must_use]
    pub fn pairs(
        mut self,
        blocks: Range<u64>,
        pair: impl Fn(u64) -> Option<Pair> + Send + 'static,
    ) -> Self {
        self.pairs.push((blocks, Box::new(pair)));
        self
    }

    /// A change that `later` selects is submitted only when all changes that `first` selects are
    /// durable.
    #[must_use]
    pub fn durable_first(
        mut self,
        name: &'static str,
        first: impl Fn(&Command) -> bool + Send + 'static,
        later: impl Fn(&Command) -> bool + Send + 'static,
    ) -> Self {
        self.durable_first.push(DurableFirst {
            name,
            first: Box::new(first),
            later: Box::new(later),
        });
        self
    }

    /// In `blocks`, no command is submitted that overlaps an outstanding one, if one of the two is
    /// a change: the device may execute them in either order.
    #[must_use]
    pub fn apart(mut self, blocks: Range<u64>) -> Self {
        self.apart.push(blocks);
        self
    }
}

impl fmt::Debug for OrderRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<_> = self.pairs.iter().map(|(blocks, _)| blocks).collect();
        let names: Vec<_> = self.durable_first.iter().map(|rule| rule.name).collect();
        f.debug_struct("OrderRules")
            .field("separate", &self.separate)
            .field("pairs", &pairs)
            .field("durable_first", &names)
            .field("apart", &self.apart)
            .finish()
    }
}

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// [`OrderRules::separate`].
    Separate,
    /// [`OrderRules::pairs`], with the pair's id.
    Pair(u64),
    /// [`OrderRules::durable_first`], with the rule's name.
    DurableFirst(&'static str),
    /// [`OrderRules::apart`].
    Apart,
}

/// Two commands that broke a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The rule.
    pub broken: Broken,
    /// The first block of the later command that is concerned.
    pub lba: u64,
    /// The command that was not durable, or was outstanding.
    pub earlier: Command,
    /// The command that should have waited; the same one if one write changes both members of a
    /// pair.
    pub later: Command,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (earlier, later, lba) = (self.earlier, self.later, self.lba);
        match self.broken {
            Broken::Separate => {
                write!(
                    f,
                    "{later}: block {lba} was changed by {earlier}, not durable yet"
                )
            }
            Broken::Pair(id) => {
                write!(
                    f,
                    "{later}: of pair {id} (block {lba}), {earlier} is not durable yet"
                )
            }
            Broken::DurableFirst(name) => {
                write!(f, "{later}: {name}: {earlier} is not durable yet")
            }
            Broken::Apart => write!(f, "{later}: block {lba} is under way in {earlier}"),
        }
    }
}
