// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole matrix of faults, for tests and for the table in the documents.

use crate::command::admin;
use crate::fault::{CapabilityFault, FaultKind, IdentifyFault, ListFault, On, Rule, When, WrongId};

/// A fault with a name, unique and fit for a test's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFault {
    /// The name: lower case, words joined by `-`.
    pub name: String,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl std::fmt::Display for NamedFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)?;
        for (index, rule) in self.rules.iter().enumerate() {
            let joint = if index == 0 { ": " } else { "; and " };
            write!(f, "{joint}{rule}")?;
        }
        Ok(())
    }
}

/// The delay of a completion that a driver still waits for.
const SOON_US: u64 = 1_000;
/// The delay of a completion that no driver waits for.
const LATE_US: u64 = 120_000_000;
const HANG: FaultKind = FaultKind::NeverComplete { abortable: false };

/// Every fault, each alone: a driver must survive it without a panic, a hang or a stray access,
/// whatever it reports.
pub fn all() -> Vec<NamedFault> {
    let mut matrix = Matrix(Vec::new());
    matrix.completions();
    matrix.recovery();
    matrix.admin();
    matrix.controller();
    matrix.capabilities();
    matrix.identify();
    matrix.0
}

struct Matrix(Vec<NamedFault>);

impl Matrix {
    fn add(&mut self, name: impl Into<String>, rules: &[Rule]) {
        self.0.push(NamedFault {
            name: name.into(),
            rules: rules.to_vec(),
        });
    }

    /// Each fault of a completion at one I/O command, at all from one on, and by chance.
    fn completions(&mut self) {
        let status = |sct, sc, dnr| FaultKind::Status { sct, sc, dnr };
        let abortable = true;
        for (name, kind) in [
            ("never-completes", FaultKind::NeverComplete { abortable }),
            ("never-completes-unabortable", HANG),
            ("status-internal", status(0, 0x06, false)),
            ("status-invalid-field", status(0, 0x02, true)),
            ("status-media-error", status(2, 0x81, false)),
            ("status-write-fault", status(2, 0x80, true)),
            ("status-path", status(3, 0x02, false)),
            ("status-vendor", status(7, 0xff, true)),
            ("id-unknown", FaultKind::CommandId(WrongId::Unknown)),
            ("id-completed", FaultKind::CommandId(WrongId::Completed)),
            ("id-out-of-range", FaultKind::CommandId(WrongId::OutOfRange)),
            ("phase-inverted", FaultKind::InvertedPhase),
            ("duplicate", FaultKind::Duplicate { delay_us: 0 }),
            ("duplicate-soon", FaultKind::Duplicate { delay_us: SOON_US }),
            ("duplicate-late", FaultKind::Duplicate { delay_us: LATE_US }),
            ("delayed", delay(SOON_US, true)),
            ("delayed-past-deadline", delay(LATE_US, true)),
            ("delayed-past-deadline-unabortable", delay(LATE_US, false)),
            ("submission-head-wrong", FaultKind::SubmissionHead),
            ("submission-id-wrong", FaultKind::SubmissionId),
            ("interrupt-lost", FaultKind::DropInterrupt),
        ] {
            self.add(name, &[Rule::new(On::Io, When::Nth(3), kind)]);
            self.add(
                format!("{name}-from-there-on"),
                &[Rule::new(On::Io, When::From(3), kind)],
            );
            let when = When::Chance {
                per_million: 50_000,
                seed: 1,
            };
            self.add(
                format!("{name}-by-chance"),
                &[Rule::new(On::Io, when, kind)],
            );
        }
    }

    /// A command that never completes, and recovery that fails too.
    fn recovery(&mut self) {
        let hang = Rule::new(
            On::Io,
            When::Nth(3),
            FaultKind::NeverComplete { abortable: true },
        );
        let late = Rule::new(On::Io, When::Nth(3), delay(LATE_US, false));
        let on = |opcode, kind| Rule::new(On::AdminOpcode(opcode), When::Always, kind);
        let fail = status(0, 0x06);
        let delete = admin::DELETE_SUBMISSION_QUEUE;
        let delete_cq = admin::DELETE_COMPLETION_QUEUE;
        let refused = on(admin::ABORT, FaultKind::AbortRefused);
        self.add("hang-abort-refused", &[hang, refused]);
        self.add("hang-abort-fails", &[hang, on(admin::ABORT, fail)]);
        self.add("hang-abort-hangs", &[hang, on(admin::ABORT, HANG)]);
        self.add("hang-delete-fails", &[hang, refused, on(delete, fail)]);
        self.add("hang-delete-hangs", &[hang, refused, on(delete, HANG)]);
        self.add(
            "hang-delete-cq-fails",
            &[hang, refused, on(delete_cq, fail)],
        );
        self.add(
            "hang-delete-cq-hangs",
            &[hang, refused, on(delete_cq, HANG)],
        );
        let recreate = |opcode, kind| Rule::new(On::AdminOpcode(opcode), When::From(2), kind);
        for (name, opcode) in [
            ("sq", admin::CREATE_SUBMISSION_QUEUE),
            ("cq", admin::CREATE_COMPLETION_QUEUE),
        ] {
            let fails = recreate(opcode, fail);
            self.add(format!("hang-create-{name}-fails"), &[hang, refused, fails]);
            let hangs = recreate(opcode, HANG);
            self.add(format!("hang-create-{name}-hangs"), &[hang, refused, hangs]);
        }
        self.add("late-after-abort-refused", &[late, refused]);
        let stuck = Rule::new(On::Io, When::Nth(3), FaultKind::ReadyStuck(true));
        self.add(
            "hang-disable-hangs",
            &[hang, refused, on(delete, HANG), stuck],
        );
        let gone = on(admin::ABORT, FaultKind::Remove);
        self.add("hang-removed-at-abort", &[hang, gone]);
        let fatal = on(admin::ABORT, FaultKind::Fatal);
        self.add("hang-fatal-at-abort", &[hang, fatal]);
    }

    /// Admin commands that fail, hang, or come late or wrong.
    fn admin(&mut self) {
        for (name, opcode) in [
            ("identify", admin::IDENTIFY),
            ("set-features", admin::SET_FEATURES),
            ("get-features", admin::GET_FEATURES),
            ("get-log-page", admin::GET_LOG_PAGE),
            ("create-cq", admin::CREATE_COMPLETION_QUEUE),
            ("create-sq", admin::CREATE_SUBMISSION_QUEUE),
            ("delete-sq", admin::DELETE_SUBMISSION_QUEUE),
            ("delete-cq", admin::DELETE_COMPLETION_QUEUE),
            ("async-event", admin::ASYNC_EVENT_REQUEST),
            ("doorbell-buffers", admin::DOORBELL_BUFFER_CONFIG),
        ] {
            let on = On::AdminOpcode(opcode);
            for (what, kind) in [
                ("fails", status(0, 0x06)),
                ("hangs", HANG),
                ("late", delay(LATE_US, false)),
                ("id-unknown", FaultKind::CommandId(WrongId::Unknown)),
                ("twice", FaultKind::Duplicate { delay_us: 0 }),
            ] {
                self.add(
                    format!("{name}-{what}"),
                    &[Rule::new(on, When::Always, kind)],
                );
            }
        }
        for n in 1..=8 {
            self.add(
                format!("admin-{n}-hangs"),
                &[Rule::new(On::Admin, When::Nth(n), HANG)],
            );
        }
        for field in [0, 0xffff] {
            let rule = Rule::constant(FaultKind::QueuesGranted(field));
            self.add(format!("queues-granted-{field}"), &[rule]);
        }
    }

    /// The controller itself.
    fn controller(&mut self) {
        for value in [false, true] {
            let name = u8::from(value);
            let kind = FaultKind::ReadyStuck(value);
            self.add(format!("ready-stuck-at-{name}"), &[Rule::constant(kind)]);
            let later = Rule::new(On::Io, When::Nth(3), kind);
            self.add(format!("ready-stuck-at-{name}-later"), &[later]);
        }
        for (name, kind) in [("fatal", FaultKind::Fatal), ("removed", FaultKind::Remove)] {
            self.add(format!("{name}-from-the-start"), &[Rule::constant(kind)]);
            for n in 1..=8 {
                let rule = Rule::new(On::Admin, When::Nth(n), kind);
                self.add(format!("{name}-at-admin-{n}"), &[rule]);
            }
            for n in 1..=4 {
                let rule = Rule::new(On::Io, When::Nth(n), kind);
                self.add(format!("{name}-at-io-{n}"), &[rule]);
            }
            for n in (1..=12).chain([16, 24, 32, 48, 64, 96, 128]) {
                let rule = Rule::new(On::Register, When::Nth(n), kind);
                self.add(format!("{name}-at-access-{n}"), &[rule]);
            }
        }
    }

    fn capabilities(&mut self) {
        for (name, fault) in [
            ("mqes-0", CapabilityFault::QueueEntriesZero),
            ("to-0", CapabilityFault::TimeoutZero),
            ("dstrd-15", CapabilityFault::Stride15),
            ("mpsmin-15", CapabilityFault::MinPage15),
            ("mps-swapped", CapabilityFault::PagesSwapped),
            ("no-command-set", CapabilityFault::NoCommandSet),
            ("all-zeroes", CapabilityFault::AllZeroes),
            ("all-ones", CapabilityFault::AllOnes),
        ] {
            let rule = Rule::constant(FaultKind::Capabilities(fault));
            self.add(format!("cap-{name}"), &[rule]);
        }
    }

    fn identify(&mut self) {
        let mut add = |name: String, fault| {
            let rule = Rule::constant(FaultKind::Identify(fault));
            self.add(format!("identify-{name}"), &[rule]);
        };
        for value in [0, 1, 19, 20, 31, 32, 63, 64, 255] {
            add(format!("mdts-{value}"), IdentifyFault::Mdts(value));
        }
        for value in [0, u32::MAX] {
            add(
                format!("nn-{value:#x}"),
                IdentifyFault::NamespaceLimit(value),
            );
        }
        for (sq, cq) in [(0, 0), (0x77, 0x55), (0xff, 0xff)] {
            let fault = IdentifyFault::EntrySizes(sq, cq);
            add(format!("entry-sizes-{sq:02x}-{cq:02x}"), fault);
        }
        for value in [0, 8, 17, 31, 63, 64, 255] {
            add(format!("lbads-{value}"), IdentifyFault::LbaDataSize(value));
        }
        add("flbas-past-end".into(), IdentifyFault::FormatOutOfRange);
        add("nlbaf-255".into(), IdentifyFault::FormatCount);
        for len in [8, 0xffff] {
            add(format!("metadata-{len}"), IdentifyFault::Metadata(len));
        }
        add("protection".into(), IdentifyFault::Protection);
        for blocks in [0, 1, 1 << 55, u64::MAX] {
            add(format!("size-{blocks:#x}"), IdentifyFault::Size(blocks));
        }
        for (name, fault) in [
            ("unsorted", ListFault::Unsorted),
            ("duplicates", ListFault::Duplicates),
            ("endless", ListFault::Endless),
            ("broadcast", ListFault::Broadcast),
            ("empty", ListFault::Empty),
        ] {
            add(format!("list-{name}"), IdentifyFault::List(fault));
        }
        for set in [1, 2, 255] {
            add(format!("command-set-{set}"), IdentifyFault::CommandSet(set));
        }
        add("descriptor-empty".into(), IdentifyFault::DescriptorEmpty);
        add("descriptor-long".into(), IdentifyFault::DescriptorLong);
        add("descriptor-type".into(), IdentifyFault::DescriptorType);
        for cns in 0..4 {
            for seed in 1..=8 {
                let fault = IdentifyFault::Random { cns, seed };
                add(format!("cns-{cns}-random-{seed}"), fault);
            }
            add(format!("cns-{cns}-zeroes"), IdentifyFault::Zeroes { cns });
            add(format!("cns-{cns}-ones"), IdentifyFault::Ones { cns });
        }
    }
}

const fn delay(delay_us: u64, abortable: bool) -> FaultKind {
    FaultKind::Delay {
        delay_us,
        abortable,
    }
}

const fn status(sct: u8, sc: u8) -> FaultKind {
    let dnr = false;
    FaultKind::Status { sct, sc, dnr }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_fault_prints() {
        let all = all();
        let names: HashSet<_> = all.iter().map(|fault| &fault.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() > 200);
        for fault in &all {
            assert!(fault.to_string().contains(": "), "{fault:?}");
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(fault.name.chars().all(fits), "{}", fault.name);
        }
        let first = all[0].to_string();
        let expected = "never-completes: at I/O command number 3: \
                        the command never completes (an abort ends it)";
        assert_eq!(first, expected);
    }
}
