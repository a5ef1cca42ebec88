// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enable, disable, shutdown, removal; doorbells and registers used wrongly.

use super::*;
use crate::violation::Violation;
use crate::{Access, Time};
use block::Clock;

#[test]
fn becoming_ready_takes_the_configured_time() {
    let mut config = Config::test();
    config.ready_delay_us = 1_000;
    let mut host = Host::new(config, &[]);
    host.set_up_admin();
    let model = host.model.clone();
    model.write32(CC, 0x0046_0001);
    assert_eq!(model.read32(CSTS), 0);
    let started = model.ticks();
    while model.read32(CSTS) != CSTS_READY {
        model.relax();
    }
    let passed = model.ticks() - started;
    assert!((900..1200).contains(&passed), "{passed}");
    host.create_pair(1);
    host.model.write32(CC, 0x0046_4001);
    assert_eq!(host.model.read32(CSTS), CSTS_READY | CSTS_SHUTTING_DOWN);
    host.model.advance_us(1_000);
    assert_eq!(host.model.read32(CSTS), CSTS_READY | CSTS_SHUT_DOWN);
    host.model.write32(CC, 0x0046_0000);
    host.model.advance_us(1_000);
    assert_eq!(host.model.read32(CSTS), 0);
    assert_eq!(host.model.statistics().enables, 1);
    host.is_innocent();
}

#[test]
fn a_disable_forgets_queues_and_what_is_outstanding() {
    let mut host = Host::ready(Config::test(), &[]);
    host.push(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], &[]);
    host.ring(0);
    assert_eq!(host.model.held_commands(), 1);
    host.model.write32(CC, 0);
    assert_eq!(host.model.read32(CSTS), 0);
    assert_eq!(host.model.held_commands(), 0);
    host.enable();
    host.create_pair(1);
    assert_eq!(host.read(0), 0);
    host.is_innocent();
}

#[test]
fn wrong_settings_are_a_fatal_error() {
    for (cc, asq) in [
        (0x0046_0011, 0),
        (0x0046_0281 + 0x80, 0),
        (0x0046_0801, 0),
        (0x0046_0001, 8),
    ] {
        let mut host = Host::new(Config::test(), &[]);
        host.set_up_admin();
        if asq != 0 {
            host.model.write32(ASQ, asq);
        }
        host.model.write32(CC, cc);
        assert_eq!(host.model.read32(CSTS), CSTS_FATAL, "{cc:#x}");
        assert_eq!(host.model.violations(), [Violation::Enable { cc }]);
        host.model.write32(CC, 0);
        assert_eq!(host.model.read32(CSTS), 0);
    }
}

#[test]
fn bad_register_accesses_are_recorded() {
    let mut host = Host::new(Config::test(), &[]);
    let model = host.model.clone();
    model.write32(DOORBELLS, 1);
    host.enable();
    model.write32(AQA, 0);
    model.write32(CAP, 0);
    model.write32(CC, 0x0046_0081);
    model.read32(2);
    model.write32(model.len_bytes(), 0);
    model.write32(DOORBELLS + 8, 1);
    model.write32(DOORBELLS, ENTRIES);
    model.write32(DOORBELLS + 4, 1);
    let completion = [false, true].map(|completion| Violation::DoorbellValue {
        queue: 0,
        completion,
        value: if completion { 1 } else { ENTRIES },
    });
    let write = |offset, value| Violation::RegisterWrite { offset, value };
    assert_eq!(
        model.violations(),
        [
            Violation::DoorbellNotReady { offset: DOORBELLS },
            write(AQA, 0),
            write(CAP, 0),
            write(CC, 0x0046_0081),
            Violation::RegisterAddress { offset: 2 },
            Violation::RegisterAddress {
                offset: model.len_bytes()
            },
            Violation::DoorbellUnknown {
                offset: DOORBELLS + 8
            },
            completion[0],
            completion[1],
        ]
    );
    assert_eq!(model.read32(CSTS), CSTS_READY);
    for violation in model.violations() {
        assert!(!violation.to_string().is_empty());
    }
}

#[test]
fn halves_of_64_bit_registers() {
    let host = Host::new(Config::test(), &[]);
    host.model.write64(ASQ, 0x1234_5678_9abc_d000);
    assert_eq!(host.model.read32(ASQ + 4), 0x1234_5678);
    assert_eq!(host.model.read64(ASQ), 0x1234_5678_9abc_d000);
    assert_eq!(host.model.read64(CAP) & 0xffff, 4095);
}

#[test]
fn a_subsystem_reset_leaves_a_note() {
    let host = Host::ready(Config::test(), &[]);
    host.model.write32(NSSR, NSSR_VALUE);
    assert_eq!(host.model.read32(CSTS), CSTS_SUBSYSTEM_RESET);
    host.model.write32(CSTS, CSTS_SUBSYSTEM_RESET);
    assert_eq!((host.model.read32(CSTS), host.model.read32(CC)), (0, 0));
}

#[test]
fn an_isolated_controller_reaches_no_memory() {
    let mut host = Host::ready(Config::test(), &[]);
    host.model.isolate();
    host.read_submit();
    assert!(host.poll(1).is_none());
    assert_eq!(host.model.statistics().suppressed_accesses, 1);
    host.model.connect();
    host.ring(1);
    assert_eq!(host.poll(1).unwrap().status, 0);
    host.model.remove();
    assert_eq!(host.model.read32(CSTS), u32::MAX);
    host.read_submit();
    assert!(host.poll(1).is_none());
    host.is_innocent();
}

#[test]
fn interrupts_are_waited_for() {
    let mut host = Host::ready(Config::test(), &[]);
    let model = host.model.clone();
    assert_eq!(model.interrupt_vectors(), 17);
    assert!(model.set_interrupt(17, true).is_err());
    model.set_interrupt(1, true).unwrap();
    let before = model.ticks();
    assert!(!model.wait_interrupt(1, 5_000));
    assert!(model.ticks() - before >= 5_000);
    host.read_submit();
    assert!(model.wait_interrupt(1, 5_000));
    assert!(!model.wait_interrupt(1, 5_000));
    assert_eq!(host.poll(1).unwrap().status, 0);
    // One arrives while it is off, and is pending when it is on again.
    model.set_interrupt(1, false).unwrap();
    host.read_submit();
    assert!(!model.wait_interrupt(1, 10));
    model.set_interrupt(1, true).unwrap();
    assert!(model.wait_interrupt(1, 10));
}

#[test]
fn a_thread_is_woken_in_real_time() {
    let mut config = Config::test();
    config.time = Time::Real;
    let mut host = Host::ready(config, &[]);
    host.model.set_interrupt(1, true).unwrap();
    let model = host.model.clone();
    let waiter = std::thread::spawn(move || model.wait_interrupt(1, 10_000_000));
    host.read_submit();
    assert!(waiter.join().unwrap());
    assert!(!host.model.wait_interrupt(1, 1_000));
    assert_eq!(host.poll(1).unwrap().status, 0);
}

#[test]
fn a_full_completion_queue_holds_commands_back() {
    let mut host = Host::ready(Config::test(), &[]);
    for _ in 0..15 {
        host.read_submit();
    }
    for _ in 0..15 {
        host.peek(1).unwrap();
    }
    assert_eq!(host.pairs[1].as_ref().unwrap().head, 15);
    // The queue is full as its doorbell was not rung: the next ones wait.
    host.read_submit();
    host.read_submit();
    assert!(host.peek(1).is_none());
    host.model.write32(DOORBELLS + 12, 15);
    assert!(host.peek(1).is_some());
    assert!(host.peek(1).is_some());
    assert!(host.peek(1).is_none());
    host.is_innocent();
}

#[test]
fn doorbells_lie_at_the_configured_stride() {
    let mut config = Config::test();
    config.doorbell_stride_log2 = 4;
    let mut host = Host::ready(config, &[]);
    assert_eq!(host.read(3), 0);
    let statistics = host.model.statistics();
    assert_eq!((statistics.admin_total(), statistics.io_total()), (2, 1));
    assert_eq!(statistics.submission_doorbells, 3);
    assert_eq!(statistics.completion_doorbells, 3);
    host.is_innocent();
}

#[test]
fn an_identifier_in_use_is_refused() {
    let rules = crate::Faults::none();
    assert_eq!(rules.strikes(), 0);
    let mut host = Host::ready(Config::test(), &[]);
    host.push(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], &[]);
    host.next_id -= 1;
    host.push(0, admin::ASYNC_EVENT_REQUEST, 0, [0; 2], &[]);
    host.ring(0);
    assert_eq!(host.poll(0).unwrap().status, 0x4003);
    assert_eq!(host.model.violations().len(), 1);
}

#[test]
fn restricted_data_goes_only_to_permitted_buffers() {
    let mut host = Host::ready(Config::test(), &[]);
    host.memory.restrict(true);
    let id = host.read_submit();
    let entry = host.poll(1).unwrap();
    assert_eq!((entry.id, entry.status), (id, 4));
    let violations = host.model.violations();
    assert!(matches!(
        violations[..],
        [Violation::Bus {
            len: 512,
            access: Access::Data,
            ..
        }]
    ));
    host.memory.permit(&host.page);
    assert_eq!(host.read(0), 0);
}
