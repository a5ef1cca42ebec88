// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which commands fail, and how: the rules of a [`Faulty`](crate::Faulty) device, and the handle
//! through which a test changes them and sees their effects.

use crate::command::{Command, CommandKind};
use crate::lock;
use crate::medium::Medium;
use block::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The commands that a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// All.
    Any,
    /// All but reads.
    Change,
    /// Those of one kind.
    Kind(CommandKind),
}

impl On {
    fn includes(self, kind: CommandKind) -> bool {
        match self {
            On::Any => true,
            On::Change => kind != CommandKind::Read,
            On::Kind(only) => kind == only,
        }
    }
}

/// What goes wrong with a command. A rule does not count commands to which its fault does not
/// apply: `FlipRead` on [`On::Any`] counts reads.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The device does not accept it.
    Refuse(Error),
    /// It has no effect and ends with this error.
    Fail(Error),
    /// It takes effect but ends with this error.
    FailDone(Error),
    /// A read or write of which only the first blocks are moved: this many, at most all but one.
    /// It ends with [`Error::ShortTransfer`].
    Short {
        /// How many blocks are moved.
        done_blocks: u32,
    },
    /// From this command on, every command ends with [`Error::Gone`], including outstanding ones,
    /// which may take effect.
    Remove,
    /// It is reported as done but has no effect. Not for reads.
    Lose,
    /// A read, write, write-zeroes or discard goes to an address this many blocks further, wrapping
    /// at the device's end, and is reported as done.
    Misdirect {
        /// By how many blocks; may be negative.
        by_blocks: i64,
    },
    /// A read returns each block as it was before its newest write through this wrapper; a block
    /// that was written less than twice is returned as in `before`.
    Stale {
        /// An older image.
        before: Medium,
    },
    /// One bit of what a read returns is inverted. Bit 0 is the lowest of the first byte; the
    /// number wraps at the transfer's end.
    FlipRead {
        /// Which.
        bit: u32,
    },
    /// One bit of what a write stores is inverted.
    FlipWrite {
        /// Which.
        bit: u32,
    },
}

impl Fault {
    fn applies_to(&self, kind: CommandKind) -> bool {
        match self {
            Fault::Refuse(_) | Fault::Fail(_) | Fault::FailDone(_) | Fault::Remove => true,
            Fault::Short { .. } => matches!(kind, CommandKind::Read | CommandKind::Write),
            Fault::Lose => kind != CommandKind::Read,
            Fault::Misdirect { .. } => kind != CommandKind::Flush,
            Fault::Stale { .. } | Fault::FlipRead { .. } => kind == CommandKind::Read,
            Fault::FlipWrite { .. } => kind == CommandKind::Write,
        }
    }
}

/// A fault and the commands that have it.
#[derive(Clone, Debug)]
pub struct Rule {
    on: On,
    within: Option<Range<u64>>,
    at: u64,
    is_permanent: bool,
    fault: Fault,
    /// How many commands it has counted.
    count: u64,
}

impl Rule {
    /// The `at`-th of these commands (from 1) has `fault`.
    pub fn once(on: On, at: u64, fault: Fault) -> Self {
        Self {
            on,
            within: None,
            at,
            is_permanent: false,
            fault,
            count: 0,
        }
    }

    /// The `at`-th of these commands (from 1) and all later ones have `fault`.
    pub fn from(on: On, at: u64, fault: Fault) -> Self {
        Self {
            is_permanent: true,
            ..Self::once(on, at, fault)
        }
    }

    /// Counts only commands that address a block of `range`.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.within = Some(range);
        self
    }

    fn counts(&self, command: &Command) -> bool {
        self.on.includes(command.kind)
            && self.fault.applies_to(command.kind)
            && self
                .within
                .as_ref()
                .is_none_or(|range| command.touches(range))
    }

    fn fires(&self, command: &Command) -> bool {
        let number = self.count + 1;
        self.counts(command) && (number == self.at || self.is_permanent && number > self.at)
    }
}

/// A fault that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The rule's index among those given.
    pub rule: usize,
    /// The command that had it.
    pub command: Command,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    rules: Vec<Rule>,
    fired: Vec<Fired>,
    commands: u64,
    pub(crate) is_removed: bool,
}

impl State {
    pub(crate) fn next_number(&self) -> u64 {
        self.commands + 1
    }

    /// The first rule that `command` would trigger.
    pub(crate) fn decide(&self, command: &Command) -> Option<(usize, Fault)> {
        if self.is_removed {
            return None;
        }
        let position = self.rules.iter().position(|rule| rule.fires(command))?;
        Some((position, self.rules[position].fault.clone()))
    }

    /// Whether a rule needs older versions of what is written.
    pub(crate) fn keeps_versions(&self) -> bool {
        let is_stale = |rule: &Rule| matches!(rule.fault, Fault::Stale { .. });
        self.rules.iter().any(is_stale)
    }

    /// Counts a command that was accepted, or refused on purpose, and the rule that it fired.
    pub(crate) fn count(&mut self, command: Command, rule: Option<usize>) {
        self.commands = command.number;
        for rule in &mut self.rules {
            rule.count += u64::from(rule.counts(&command));
        }
        if let Some(rule) = rule {
            self.fired.push(Fired { rule, command });
        }
    }
}

/// The rules of a [`Faulty`](crate::Faulty) device. Clones are handles to the same rules.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

impl Faults {
    /// These rules; of several that a command triggers, the first is applied.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let faults = Self::default();
        lock(&faults.state).rules.extend(rules);
        faults
    }

    /// Adds a rule, which counts from now on.
    pub fn add(&self, rule: Rule) {
        lock(&self.state).rules.push(rule);
    }

    /// Drops all rules and brings a removed device back. The counts stay.
    pub fn clear(&self) {
        let mut state = lock(&self.state);
        state.rules.clear();
        state.is_removed = false;
    }

    /// What happened, in order. An empty list tells a loop over the n-th command that it is done.
    pub fn fired(&self) -> Vec<Fired> {
        lock(&self.state).fired.clone()
    }

    /// How often a rule fired.
    pub fn fired_count(&self) -> usize {
        lock(&self.state).fired.len()
    }

    /// How many commands were submitted.
    pub fn commands(&self) -> u64 {
        lock(&self.state).commands
    }

    pub(crate) fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut lock(&self.state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(number: u64, kind: CommandKind, lba: u64) -> Command {
        Command {
            number,
            kind,
            lba,
            block_count: 1,
            fua: false,
        }
    }

    #[test]
    fn rules_count_what_they_are_for() {
        let fail = || Fault::Fail(Error::Gone);
        let faults = Faults::new([
            Rule::once(On::Kind(CommandKind::Write), 2, fail()).within(5..7),
            Rule::from(On::Any, 2, Fault::FlipRead { bit: 0 }),
            Rule::once(On::Change, 5, fail()),
        ]);
        let script = [
            (CommandKind::Write, 5, None),
            (CommandKind::Write, 7, None),
            (CommandKind::Read, 5, None),
            (CommandKind::Write, 6, Some(0)),
            (CommandKind::Read, 0, Some(1)),
            (CommandKind::Flush, 0, None),
            (CommandKind::Discard, 5, Some(2)),
            (CommandKind::Write, 5, None),
            (CommandKind::Read, 0, Some(1)),
        ];
        for (number, (kind, lba, expected)) in (1..).zip(script) {
            faults.with(|state| {
                let command = command(number, kind, lba);
                let rule = state.decide(&command).map(|(rule, _)| rule);
                assert_eq!(rule, expected, "{command}");
                state.count(command, rule);
            });
        }
        assert_eq!((faults.fired_count(), faults.commands()), (4, 9));
        assert_eq!(faults.fired()[0].command.number, 4);
    }
}
