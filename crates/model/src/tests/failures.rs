// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each kind of fault has its documented effect.

use super::*;
use crate::fault::{CapabilityFault, FaultKind, IdentifyFault, On, When, WrongId, all};

fn third(kind: FaultKind) -> Host {
    let mut host = Host::ready(Config::test(), &[Rule::new(On::Io, When::Nth(3), kind)]);
    assert_eq!((host.read(0), host.read(0)), (0, 0));
    host
}

fn abort(host: &mut Host, id: u16) -> Entry {
    host.admin(admin::ABORT, 0, 0, &[u32::from(id) << 16 | 1])
}

#[test]
fn a_command_that_never_completes() {
    let mut host = third(FaultKind::NeverComplete { abortable: true });
    let id = host.read_submit();
    host.model.advance_us(1 << 40);
    assert!(host.poll(1).is_none());
    assert_eq!((host.read(0), host.model.held_commands()), (0, 1));
    assert_eq!(abort(&mut host, id).specific, 0);
    let entry = host.poll(1).unwrap();
    assert_eq!((entry.id, entry.status), (id, 7));
    assert_eq!(abort(&mut host, id).specific, 1);

    let mut host = third(FaultKind::NeverComplete { abortable: false });
    let id = host.read_submit();
    assert_eq!(abort(&mut host, id).specific, 1);
    assert_eq!(
        host.admin(admin::DELETE_SUBMISSION_QUEUE, 0, 0, &[1])
            .status,
        0
    );
    let entry = host.poll(1).unwrap();
    assert_eq!((entry.id, entry.status), (id, 8));
}

#[test]
fn a_command_that_fails_is_not_carried_out() {
    let (sct, sc, dnr) = (2, 0x80, true);
    let mut host = third(FaultKind::Status { sct, sc, dnr });
    assert_eq!(host.write(0, 5, 0), 0x4280);
    assert_eq!((host.read(0), host.model.strikes()), (0, 1));
}

#[test]
fn wrong_identifiers() {
    for wrong in [WrongId::Unknown, WrongId::Completed, WrongId::OutOfRange] {
        let mut host = third(FaultKind::CommandId(wrong));
        let id = host.read_submit();
        let expected = match wrong {
            WrongId::Unknown => id ^ 0x5555,
            WrongId::Completed => id - 1,
            WrongId::OutOfRange => 0xffff,
        };
        assert_eq!(host.poll(1).unwrap().id, expected);
        host.model.advance_us(1 << 40);
        assert!(host.poll(1).is_none());
    }
}

#[test]
fn a_wrong_phase_hides_an_entry() {
    let mut host = third(FaultKind::InvertedPhase);
    host.read_submit();
    assert!(host.poll(1).is_none());
    host.read_submit();
    assert!(host.poll(1).is_none());
    assert_eq!(host.model.statistics().completions, 2 + 4);
}

#[test]
fn a_command_that_completes_twice() {
    let mut host = third(FaultKind::Duplicate { delay_us: 0 });
    let id = host.read_submit();
    assert_eq!(
        [host.poll(1), host.poll(1)].map(|entry| entry.unwrap().id),
        [id; 2]
    );

    let mut host = third(FaultKind::Duplicate { delay_us: 500 });
    let id = host.read_submit();
    assert_eq!(host.poll(1).unwrap().id, id);
    assert!(host.poll(1).is_none());
    assert_eq!(host.read(0), 0);
    host.model.advance_us(500);
    assert_eq!(host.poll(1).unwrap().id, id);
}

#[test]
fn a_command_that_runs_late() {
    for abortable in [true, false] {
        let delay_us = 1_000;
        let mut host = third(FaultKind::Delay {
            delay_us,
            abortable,
        });
        host.page.fill(0xee);
        let id = host.read_submit();
        host.model.advance_us(900);
        assert!(host.poll(1).is_none());
        assert_eq!(host.page[0], 0xee, "its data is late too");
        assert_eq!(abort(&mut host, id).specific, u32::from(!abortable));
        if abortable {
            assert_eq!(host.poll(1).unwrap().status, 7);
        }
        host.model.set_interrupt(1, true).unwrap();
        while host.model.wait_interrupt(1, 0) {}
        assert_eq!(host.model.wait_interrupt(1, 1_000), !abortable);
        assert_eq!(
            host.poll(1).map(|entry| entry.status),
            (!abortable).then_some(0)
        );
        assert_eq!(host.page[0], if abortable { 0xee } else { 0 });
    }
}

#[test]
fn what_is_late_is_suppressed_by_isolation_and_forgotten_by_a_reset() {
    let delay_us = 1_000;
    let abortable = false;
    let mut host = third(FaultKind::Delay {
        delay_us,
        abortable,
    });
    host.page.fill(0xee);
    host.read_submit();
    host.model.isolate();
    host.model.advance_us(2_000);
    assert_eq!(host.page[0], 0xee);
    assert_eq!(host.model.statistics().suppressed_accesses, 1);

    let mut host = third(FaultKind::Delay {
        delay_us,
        abortable,
    });
    host.read_submit();
    host.model.write32(CC, 0);
    host.model.advance_us(2_000);
    assert_eq!(host.model.statistics().suppressed_accesses, 0);
    assert!(host.peek(1).is_none());
}

#[test]
fn wrong_queue_fields() {
    let mut host = third(FaultKind::SubmissionHead);
    let id = host.read_submit();
    let entry = host.poll(1).unwrap();
    assert_eq!((entry.id, entry.submission_head), (id, 0xffff));
    let mut host = third(FaultKind::SubmissionId);
    host.read_submit();
    assert_eq!(host.poll(1).unwrap().submission, 0xfffe);
}

#[test]
fn a_lost_interrupt() {
    let mut host = third(FaultKind::DropInterrupt);
    host.model.set_interrupt(1, true).unwrap();
    assert!(host.model.wait_interrupt(1, 0));
    host.read_submit();
    assert!(!host.model.wait_interrupt(1, 1_000));
    assert_eq!(host.poll(1).unwrap().status, 0);
    assert_eq!(host.model.statistics().interrupts_dropped, 1);
}

#[test]
fn a_refused_abort() {
    let hang = Rule::new(
        On::Io,
        When::Nth(1),
        FaultKind::NeverComplete { abortable: true },
    );
    let refuse = Rule::new(
        On::AdminOpcode(admin::ABORT),
        When::Nth(1),
        FaultKind::AbortRefused,
    );
    let mut host = Host::ready(Config::test(), &[hang, refuse]);
    let id = host.read_submit();
    assert_eq!(abort(&mut host, id).specific, 1);
    assert_eq!(abort(&mut host, id).specific, 0);
    assert_eq!(host.model.strikes_by_rule(), [(hang, 1), (refuse, 1)]);
}

#[test]
fn aborts_past_the_limit() {
    let on = On::AdminOpcode(admin::ABORT);
    let hang = FaultKind::NeverComplete { abortable: false };
    let rules: Vec<Rule> = (1..=4).map(|n| Rule::new(on, When::Nth(n), hang)).collect();
    let mut host = Host::ready(Config::test(), &rules);
    for _ in 0..4 {
        host.push(0, admin::ABORT, 0, [0; 2], &[1]);
    }
    host.ring(0);
    assert!(host.poll(0).is_none());
    assert_eq!(abort(&mut host, 1).status, 0x103);
}

#[test]
fn ready_that_does_not_move() {
    let rule = Rule::constant(FaultKind::ReadyStuck(false));
    let mut host = Host::new(Config::test(), &[rule]);
    host.set_up_admin();
    host.model.write32(CC, 0x0046_0001);
    host.model.advance_us(1 << 30);
    assert_eq!(host.model.read32(CSTS), 0);

    let mut host = third(FaultKind::ReadyStuck(true));
    assert_eq!(host.read(0), 0);
    host.model.write32(CC, 0);
    host.model.advance_us(1 << 30);
    assert_eq!(host.model.read32(CSTS), 1);
    // It can still reach memory: that is what isolation is for.
    host.read_submit();
    assert!(host.poll(1).is_some());
    host.model.isolate();
    host.read_submit();
    assert!(host.poll(1).is_none());
}

#[test]
fn a_fatal_error_lasts_until_a_reset() {
    let mut host = third(FaultKind::Fatal);
    host.read_submit();
    assert!(host.poll(1).is_none());
    assert_eq!(host.model.read32(CSTS), CSTS_READY | CSTS_FATAL);
    host.model.write32(CC, 0);
    host.enable();
    host.create_pair(1);
    assert_eq!(host.read(0), 0);
}

#[test]
fn removal_at_a_command_and_at_a_register_access() {
    let mut host = third(FaultKind::Remove);
    host.read_submit();
    assert!(host.poll(1).is_none());
    assert_eq!(host.model.read64(CAP), u64::MAX);
    host.model.power_cut();
    host.enable();

    let rule = Rule::new(On::Register, When::Nth(2), FaultKind::Remove);
    let host = Host::new(Config::test(), &[rule]);
    assert_eq!([VS; 3].map(|at| host.model.read32(at)), [VERSION, !0, !0]);
}

#[test]
fn capabilities_that_lie() {
    for (fault, cap) in [
        (CapabilityFault::QueueEntriesZero, 0x0040_0030_0201_0000),
        (CapabilityFault::TimeoutZero, 0x0040_0030_0001_0fff),
        (CapabilityFault::Stride15, 0x0040_003f_0201_0fff),
        (CapabilityFault::MinPage15, 0x00ff_0030_0201_0fff),
        (CapabilityFault::PagesSwapped, 0x0004_0030_0201_0fff),
        (CapabilityFault::NoCommandSet, 0x0040_0010_0201_0fff),
        (CapabilityFault::AllZeroes, 0),
        (CapabilityFault::AllOnes, u64::MAX),
    ] {
        let rule = Rule::constant(FaultKind::Capabilities(fault));
        let host = Host::new(Config::test(), &[rule]);
        assert_eq!(host.model.read64(CAP), cap, "{rule}");
    }
}

#[test]
fn identify_pages_that_lie() {
    use crate::fault::ListFault;
    let page = |cns: u32, nsid, fault| {
        let rule = Rule::constant(FaultKind::Identify(fault));
        let mut host = Host::new(Config::test(), &[rule]);
        host.enable();
        let bus = host.page_bus()[0];
        assert_eq!(host.admin(admin::IDENTIFY, nsid, bus, &[cns]).status, 0);
        host.page.to_vec()
    };
    assert_eq!(page(1, 0, IdentifyFault::Mdts(255))[77], 255);
    assert_eq!(
        page(1, 0, IdentifyFault::NamespaceLimit(u32::MAX))[516..520],
        [255; 4]
    );
    assert_eq!(page(0, 1, IdentifyFault::LbaDataSize(31))[130], 31);
    assert_eq!(page(0, 1, IdentifyFault::FormatOutOfRange)[26], 15);
    assert_eq!(page(0, 1, IdentifyFault::Metadata(8))[128], 8);
    assert_eq!(page(0, 1, IdentifyFault::Size(u64::MAX))[..8], [255; 8]);
    let list = |fault| page(2, 0, IdentifyFault::List(fault))[..12].to_vec();
    assert_eq!(
        list(ListFault::Unsorted),
        [3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(
        list(ListFault::Duplicates),
        [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(list(ListFault::Broadcast)[4..8], [255; 4]);
    let endless = page(2, 0, IdentifyFault::List(ListFault::Endless));
    assert_eq!(endless[4092..], [0, 4, 0, 0]);
    assert_eq!(page(3, 1, IdentifyFault::DescriptorEmpty)[..2], [1, 0]);
    assert_eq!(
        page(3, 1, IdentifyFault::DescriptorLong)[4088..4090],
        [2, 255]
    );
    let random = |seed| page(1, 0, IdentifyFault::Random { cns: 1, seed });
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    assert_eq!(page(2, 0, IdentifyFault::Ones { cns: 2 }), [255; 4096]);
}

#[test]
fn chance_follows_its_seed() {
    let seed = crate::random::seed(77);
    let run = |seed| {
        let per_million = 300_000;
        let when = When::Chance { per_million, seed };
        let (sct, sc, dnr) = (0, 6, false);
        let rule = Rule::new(On::Io, when, FaultKind::Status { sct, sc, dnr });
        let mut host = Host::ready(Config::test(), &[rule]);
        (0..200)
            .map(|lba| host.write(lba, 1, 0))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(seed), run(seed));
    let failed = run(seed).iter().filter(|&&status| status == 6).count();
    assert!((20..120).contains(&failed), "{failed}");
}

#[test]
fn faults_are_added_and_healed_while_it_runs() {
    let mut host = Host::ready(Config::test(), &[]);
    assert_eq!(host.read(0), 0);
    let hang = FaultKind::NeverComplete { abortable: true };
    host.model.inject(Rule::new(On::Io, When::Always, hang));
    host.read_submit();
    assert!(host.poll(1).is_none());
    host.model.heal();
    assert_eq!(host.read(0), 0);
    host.model.inject(Rule::constant(FaultKind::Remove));
    assert_eq!(host.model.read32(CSTS), u32::MAX);
}

/// Whatever the fault, the model itself neither panics nor accesses memory outside the host's
/// buffers.
#[test]
fn the_whole_matrix_runs() {
    for fault in all() {
        let mut host = Host::new(Config::test(), &fault.rules);
        host.set_up_admin();
        host.model.write32(CC, 0x0046_0001);
        let page = host.page_bus();
        for (opcode, nsid, dword) in [
            (admin::IDENTIFY, 0, 1),
            (admin::IDENTIFY, 1, 0),
            (admin::ASYNC_EVENT_REQUEST, 0, 0),
            (admin::ABORT, 0, 0x101_0000),
        ] {
            host.push(0, opcode, nsid, page, &[dword]);
            host.ring(0);
            host.model.advance_us(1_000);
            while host.poll(0).is_some() {}
        }
        host.model.advance_us(1 << 40);
        let mut bus = host.model.violations();
        bus.retain(|one| matches!(one, crate::Violation::Bus { .. }));
        assert_eq!(bus, [], "{fault}");
        assert!(host.memory.check_guards().is_empty());
        println!("{fault}");
    }
}
