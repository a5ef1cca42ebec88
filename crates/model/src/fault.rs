// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fault rules: when a fault occurs, and what it does.
//!
//! A [`Rule`] selects the events that count ([`On`]), the ones at which the fault occurs ([`When`])
//! and its effect ([`FaultKind`]). All are plain values whose `Display` describes them.

use std::fmt;

pub use crate::matrix::{NamedFault, all};
use crate::random::Random;

/// The events that a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// From the start, constantly: for faults of registers and identify pages.
    Start,
    /// Any command.
    Command,
    /// Any admin command.
    Admin,
    /// Any I/O command.
    Io,
    /// Admin commands with this opcode.
    AdminOpcode(u8),
    /// I/O commands with this opcode.
    IoOpcode(u8),
    /// Register reads and writes.
    Register,
}

/// Which of the events trigger a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The n-th one, from 1, and no other.
    Nth(u64),
    /// The n-th one, from 1, and each after it.
    From(u64),
    /// Each one.
    Always,
    /// Each one with this probability.
    Chance {
        /// Faults per million events.
        per_million: u32,
        /// The seed of the random choice.
        seed: u64,
    },
}

/// Which wrong command identifier a completion carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongId {
    /// One that no command has: the correct one with some bits inverted.
    Unknown,
    /// That of the command that was completed before on the same queue.
    Completed,
    /// 0xffff.
    OutOfRange,
}

/// What is wrong with CAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CapabilityFault {
    QueueEntriesZero,
    TimeoutZero,
    Stride15,
    MinPage15,
    PagesSwapped,
    NoCommandSet,
    AllZeroes,
    AllOnes,
}

/// What is wrong with the namespace list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFault {
    /// In descending order.
    Unsorted,
    /// Each identifier twice.
    Duplicates,
    /// 1,024 identifiers whatever the starting point.
    Endless,
    /// The broadcast identifier, 0xffffffff.
    Broadcast,
    /// Nothing.
    Empty,
}

/// What is wrong with an identify page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifyFault {
    /// Controller: MDTS is this.
    Mdts(u8),
    /// Controller: number of namespaces (NN) is this.
    NamespaceLimit(u32),
    /// Controller: required queue entry sizes (SQES and CQES) are these.
    EntrySizes(u8, u8),
    /// Namespace: each LBA format has this data size (LBADS).
    LbaDataSize(u8),
    /// Namespace: the format in use (FLBAS) is past the last one (NLBAF).
    FormatOutOfRange,
    /// Namespace: number of formats (NLBAF) is 255.
    FormatCount,
    /// Namespace: this many bytes of metadata with each block.
    Metadata(u16),
    /// Namespace: end-to-end protection is on (DPS).
    Protection,
    /// Namespace: size (NSZE) is this.
    Size(u64),
    /// The namespace list is wrong.
    List(ListFault),
    /// Descriptors: the namespace belongs to this command set; 1 is key-value, 2 is zoned.
    CommandSet(u8),
    /// Descriptors: a length of 0.
    DescriptorEmpty,
    /// Descriptors: a length past the page's end.
    DescriptorLong,
    /// Descriptors: an unknown type.
    DescriptorType,
    /// Each page of this CNS is random bytes.
    Random {
        /// Controller or Namespace Structure.
        cns: u8,
        /// The seed of the bytes.
        seed: u64,
    },
    /// Each page of this CNS is zeroes.
    Zeroes {
        /// Controller or Namespace Structure.
        cns: u8,
    },
    /// Each page of this CNS is ones.
    Ones {
        /// Controller or Namespace Structure.
        cns: u8,
    },
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The command is never executed and never completed, except by an abort or a reset.
    NeverComplete {
        /// Whether an Abort command ends it.
        abortable: bool,
    },
    /// The command is not executed and completes with this status.
    Status {
        /// Status code type, 0 to 7.
        sct: u8,
        /// Status code.
        sc: u8,
        /// Do Not Retry.
        dnr: bool,
    },
    /// The completion carries a wrong command identifier.
    CommandId(WrongId),
    /// The completion is written with the phase of an old entry.
    InvertedPhase,
    /// The command is completed twice.
    Duplicate {
        /// The delay of the second completion.
        delay_us: u64,
    },
    /// The command is executed and completed later.
    Delay {
        /// The delay.
        delay_us: u64,
        /// Whether an Abort command ends it earlier.
        abortable: bool,
    },
    /// The completion has a submission queue head past the queue's end.
    SubmissionHead,
    /// The completion names another submission queue.
    SubmissionId,
    /// The completion is posted without its interrupt.
    DropInterrupt,
    /// Abort answers that the command was not aborted.
    AbortRefused,
    /// CSTS.RDY is stuck at this value; at 1 a disable has no effect.
    ReadyStuck(bool),
    /// CSTS.CFS is set and the controller stops, until it is reset.
    Fatal,
    /// The device is removed: registers read as ones, and no memory is accessed any more.
    Remove,
    /// Set Features "Number of Queues" grants this many pairs (field value, less one).
    QueuesGranted(u16),
    /// CAP is wrong.
    Capabilities(CapabilityFault),
    /// An identify page is wrong.
    Identify(IdentifyFault),
}

/// One fault: when it occurs, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The events that count.
    pub on: On,
    /// At which of them.
    pub when: When,
    /// Its effect.
    pub kind: FaultKind,
}

impl Rule {
    /// A fault of `kind` at the events `on`, when `when`.
    pub const fn new(on: On, when: When, kind: FaultKind) -> Self {
        Self { on, when, kind }
    }

    /// A fault that is active from the start.
    pub const fn constant(kind: FaultKind) -> Self {
        Self::new(On::Start, When::Always, kind)
    }
}

/// The faults of a controller.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<Armed>);

#[derive(Clone, Debug)]
struct Armed {
    rule: Rule,
    seen: u64,
    struck: u64,
    random: Random,
}

/// An event that rules may count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Start,
    Register,
    Admin(u8),
    Io(u8),
}

impl Faults {
    /// A healthy controller.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// A controller with all these faults.
    pub fn new(rules: &[Rule]) -> Self {
        let mut faults = Self::none();
        for rule in rules {
            faults.add(*rule);
        }
        faults
    }

    /// Adds a fault; its count of events starts now.
    pub fn add(&mut self, rule: Rule) {
        let seed = match rule.when {
            When::Chance { seed, .. } => seed,
            _ => 0,
        };
        self.0.push(Armed {
            rule,
            seen: 0,
            struck: 0,
            random: Random::new(seed),
        });
    }

    /// How often a fault has occurred; constant faults count once.
    pub fn strikes(&self) -> u64 {
        self.0.iter().map(|armed| armed.struck).sum()
    }

    /// How often each rule has fired, in the order in which they were added: a rule that never
    /// fired has proved nothing.
    pub fn strikes_by_rule(&self) -> Vec<(Rule, u64)> {
        let one = |armed: &Armed| (armed.rule, armed.struck);
        self.0.iter().map(one).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Faults that are active from the start.
    pub(crate) fn constant(&self) -> impl Iterator<Item = FaultKind> + '_ {
        let start = |armed: &&Armed| armed.rule.on == On::Start;
        self.0.iter().filter(start).map(|armed| armed.rule.kind)
    }

    /// Counts `event` and calls `strike` with each fault that it triggers.
    pub(crate) fn count(&mut self, event: Event, mut strike: impl FnMut(FaultKind)) {
        for armed in &mut self.0 {
            let counts = match (armed.rule.on, event) {
                (On::Start, Event::Start) | (On::Register, Event::Register) => true,
                (On::Command, Event::Admin(_) | Event::Io(_)) => true,
                (On::Admin, Event::Admin(_)) | (On::Io, Event::Io(_)) => true,
                (On::AdminOpcode(wanted), Event::Admin(opcode)) => wanted == opcode,
                (On::IoOpcode(wanted), Event::Io(opcode)) => wanted == opcode,
                _ => false,
            };
            if !counts {
                continue;
            }
            armed.seen += 1;
            let strikes = match armed.rule.when {
                When::Nth(n) => armed.seen == n,
                When::From(n) => armed.seen >= n,
                When::Always => true,
                When::Chance { per_million, .. } => {
                    armed.random.below(1_000_000) < u64::from(per_million)
                }
            };
            if strikes {
                armed.struck += 1;
                strike(armed.rule.kind);
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on == On::Start {
            return write!(f, "always: {}", self.kind);
        }
        match self.when {
            When::Nth(n) => write!(f, "at {} number {n}: {}", self.on, self.kind),
            When::From(n) => write!(f, "from {} number {n} on: {}", self.on, self.kind),
            When::Always => write!(f, "at each {}: {}", self.on, self.kind),
            When::Chance { per_million, seed } => write!(
                f,
                "at {per_million} of a million of {} (seed {seed:#x}): {}",
                self.on, self.kind
            ),
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Start => f.write_str("start"),
            On::Command => f.write_str("command"),
            On::Admin => f.write_str("admin command"),
            On::Io => f.write_str("I/O command"),
            On::AdminOpcode(opcode) => write!(f, "admin command {opcode:#04x}"),
            On::IoOpcode(opcode) => write!(f, "I/O command {opcode:#04x}"),
            On::Register => f.write_str("register access"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = |abortable| {
            if abortable {
                "an abort ends it"
            } else {
                "an abort does not end it"
            }
        };
        match *self {
            FaultKind::NeverComplete { abortable } => {
                write!(f, "the command never completes ({})", ending(abortable))
            }
            FaultKind::Status { sct, sc, dnr } => {
                let retry = if dnr { ", do not retry" } else { "" };
                write!(f, "the command fails with status {sct:x}/{sc:02x}{retry}")
            }
            FaultKind::CommandId(WrongId::Unknown) => {
                f.write_str("the completion has an unknown command identifier")
            }
            FaultKind::CommandId(WrongId::Completed) => {
                f.write_str("the completion has the identifier of a command completed before")
            }
            FaultKind::CommandId(WrongId::OutOfRange) => {
                f.write_str("the completion has command identifier 0xffff")
            }
            FaultKind::InvertedPhase => f.write_str("the completion has the wrong phase tag"),
            FaultKind::Duplicate { delay_us: 0 } => f.write_str("the command is completed twice"),
            FaultKind::Duplicate { delay_us } => {
                write!(f, "the command is completed again {delay_us} us later")
            }
            FaultKind::Delay {
                delay_us,
                abortable,
            } => write!(
                f,
                "the command runs {delay_us} us later ({})",
                ending(abortable)
            ),
            FaultKind::SubmissionHead => {
                f.write_str("the completion's submission queue head is out of range")
            }
            FaultKind::SubmissionId => {
                f.write_str("the completion names a submission queue that does not exist")
            }
            FaultKind::DropInterrupt => f.write_str("the completion's interrupt is lost"),
            FaultKind::AbortRefused => f.write_str("the abort answers 'not aborted'"),
            FaultKind::ReadyStuck(value) => write!(f, "CSTS.RDY stays at {}", u8::from(value)),
            FaultKind::Fatal => f.write_str("the controller reports a fatal error (CSTS.CFS)"),
            FaultKind::Remove => f.write_str("the device is removed"),
            FaultKind::QueuesGranted(field) => {
                write!(f, "the number of queues granted reads {field:#x}")
            }
            FaultKind::Capabilities(fault) => write!(f, "CAP: {}", cap_text(fault)),
            FaultKind::Identify(fault) => write!(f, "identify: {fault}"),
        }
    }
}

fn cap_text(fault: CapabilityFault) -> &'static str {
    match fault {
        CapabilityFault::QueueEntriesZero => "MQES is 0, queues of one entry",
        CapabilityFault::TimeoutZero => "TO is 0",
        CapabilityFault::Stride15 => "DSTRD is 15, doorbells 128 KiB apart",
        CapabilityFault::MinPage15 => "MPSMIN is 15, pages of 128 MiB",
        CapabilityFault::PagesSwapped => "MPSMIN is greater than MPSMAX",
        CapabilityFault::NoCommandSet => "no NVM command set",
        CapabilityFault::AllZeroes => "all zeroes",
        CapabilityFault::AllOnes => "all ones",
    }
}

impl fmt::Display for IdentifyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Mdts(value) => write!(f, "MDTS is {value}"),
            Self::NamespaceLimit(value) => write!(f, "NN is {value:#x}"),
            Self::EntrySizes(sq, cq) => write!(f, "SQES is {sq:#04x}, CQES {cq:#04x}"),
            Self::LbaDataSize(value) => write!(f, "LBADS is {value}"),
            Self::FormatOutOfRange => f.write_str("FLBAS is past NLBAF"),
            Self::FormatCount => f.write_str("NLBAF is 255"),
            Self::Metadata(len) => write!(f, "{len} bytes of metadata a block"),
            Self::Protection => f.write_str("end-to-end protection is on"),
            Self::Size(blocks) => write!(f, "NSZE is {blocks:#x}"),
            Self::List(ListFault::Unsorted) => f.write_str("the namespace list is unsorted"),
            Self::List(ListFault::Duplicates) => f.write_str("the namespace list has duplicates"),
            Self::List(ListFault::Endless) => f.write_str("the namespace list never ends"),
            Self::List(ListFault::Broadcast) => {
                f.write_str("the namespace list has identifier 0xffffffff")
            }
            Self::List(ListFault::Empty) => f.write_str("the namespace list is empty"),
            Self::CommandSet(set) => write!(f, "the namespace's command set is {set}"),
            Self::DescriptorEmpty => f.write_str("a descriptor's length is 0"),
            Self::DescriptorLong => f.write_str("a descriptor's length passes the page's end"),
            Self::DescriptorType => f.write_str("a descriptor's type is unknown"),
            Self::Random { cns, seed } => {
                write!(f, "pages of CNS {cns} are random (seed {seed:#x})")
            }
            Self::Zeroes { cns } => write!(f, "pages of CNS {cns} are zeroes"),
            Self::Ones { cns } => write!(f, "pages of CNS {cns} are ones"),
        }
    }
}
