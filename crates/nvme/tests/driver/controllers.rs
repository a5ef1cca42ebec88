// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers of every configuration that the specification allows, and their run-time queries.

use crate::support::{Bench, DEPTH, Ends, Outcome, Queue, config, options};
use block::{Device, Error, Operation, blocking};
use straightway_model::{AsyncEvent, Config, FaultKind, NamespaceConfig, On, Rule, When};
use straightway_nvme::{
    CompletionMode, Controller, ControllerOptions, ErrorEntry, controller_memory_bytes,
};

/// The standard requests all succeed on a drive with this configuration, in every mode.
fn works(name: &str, config: Config) {
    for (mode, scattered) in [
        (CompletionMode::Poll, false),
        (CompletionMode::Interrupt, true),
        (CompletionMode::Hybrid { looks: 2 }, true),
    ] {
        let bench = Bench::new(
            config.clone(),
            &[],
            scattered && config.min_page_shift == 12,
        );
        let Outcome::Ran(ends, statistics) = bench.run(mode) else {
            panic!("{name} was refused");
        };
        let done = 64;
        assert_eq!(
            ends,
            Ends {
                done,
                ..Ends::default()
            },
            "{name}, {mode:?}"
        );
        assert_eq!(statistics.timeouts, 0, "{name}, {mode:?}");
    }
}

#[test]
fn any_doorbell_stride() {
    for doorbell_stride_log2 in [0, 1, 4, 8] {
        let config = Config {
            doorbell_stride_log2,
            ..config()
        };
        works(&format!("DSTRD {doorbell_stride_log2}"), config);
    }
}

#[test]
fn any_page_size_up_to_64_kib() {
    for min_page_shift in 12..=16 {
        let config = Config {
            min_page_shift,
            max_page_shift: min_page_shift.max(13),
            ..config()
        };
        works(&format!("MPSMIN {min_page_shift}"), config);
    }
}

#[test]
fn block_sizes_and_queue_lengths() {
    for block_size_log2 in [9, 12, 13, 14, 16] {
        for max_queue_entries in [2, 3, 5, 16, 65_536] {
            let namespaces = vec![NamespaceConfig::ram(1, 16 << 20, block_size_log2)];
            let config = Config {
                namespaces,
                max_queue_entries,
                ..config()
            };
            works(
                &format!("2^{block_size_log2}, MQES {max_queue_entries}"),
                config,
            );
        }
    }
}

#[test]
fn few_interrupt_vectors_and_no_shadow_doorbells() {
    for interrupt_vectors in [0, 1, 2, 17] {
        for doorbell_buffers in [false, true] {
            let config = Config {
                interrupt_vectors,
                doorbell_buffers,
                ..config()
            };
            works(
                &format!("{interrupt_vectors} vectors, DBBUF {doorbell_buffers}"),
                config,
            );
        }
    }
}

#[test]
fn a_controller_with_an_interrupt_line_hears_of_each_completion_by_register() {
    for interrupt_line in [false, true] {
        let config = Config {
            interrupt_line,
            ..config()
        };
        let bench = Bench::new(config, &[], true);
        let used = with_controller(&bench, Controller::uses_shadow_doorbells);
        assert_eq!(used, !interrupt_line);
    }
}

#[test]
fn a_transfer_is_exactly_as_many_commands_as_mdts_says() {
    for mdts in 1..=6_u8 {
        let bench = Bench::new(Config { mdts, ..config() }, &[], true);
        let largest = 4096_usize << mdts;
        let len = 256 << 10;
        let commands = bench.with_queue(options(), |queue| {
            assert_eq!(queue.geometry().max_transfer_bytes(), largest.min(len));
            let before = bench.model.statistics().io_commands[2];
            let read = blocking::read(queue, 0, bench.memory.allocate(len).unwrap());
            read.result.unwrap();
            bench.memory.give_back(read.buffer).unwrap();
            bench.model.statistics().io_commands[2] - before
        });
        assert_eq!(commands, Ok(len.div_ceil(largest) as u64), "MDTS {mdts}");
        bench.check_memory();
    }
}

#[test]
fn a_lost_interrupt_is_found_by_polling() {
    let rule = Rule::new(On::Io, When::Nth(5), FaultKind::DropInterrupt);
    let bench = Bench::new(config(), &[rule], false);
    let Outcome::Ran(ends, statistics) = bench.run(CompletionMode::Interrupt) else {
        panic!("the drive was refused");
    };
    assert_eq!((ends.done, statistics.timeouts), (64, 0));
}

#[test]
fn the_mode_changes_while_requests_are_outstanding() {
    let bench = Bench::new(config(), &[], false);
    let modes = [
        CompletionMode::Interrupt,
        CompletionMode::Poll,
        CompletionMode::Hybrid { looks: 3 },
    ];
    let done = bench.with_queue(options(), |queue: &mut Queue<'_>| {
        let mut done = 0;
        for turn in 0..300 {
            while queue.outstanding() < DEPTH {
                let buffer = bench.memory.allocate(4096).unwrap();
                let operation = Operation::Read { lba: 0, buffer };
                queue.submit(block::Request { tag: 0, operation }).unwrap();
            }
            queue.kick();
            queue
                .set_completion_mode(modes[turn % modes.len()])
                .unwrap();
            queue.wait(1000);
            while let Some(completion) = queue.poll() {
                completion.result.unwrap();
                bench.memory.give_back(completion.buffer.unwrap()).unwrap();
                done += 1;
            }
        }
        done
    });
    assert!(done.unwrap() >= 300 * DEPTH / 2);
}

fn with_controller<R>(
    bench: &Bench,
    action: impl FnOnce(&Controller<straightway_model::Model>) -> R,
) -> R {
    let memory = controller_memory_bytes(4096);
    let memory = bench.memory.allocate_contiguous(memory, 4096).unwrap();
    let controller = Controller::enable(bench.model.clone(), memory, options());
    let controller = controller.map_err(|failed| failed.error).unwrap();
    let result = action(&controller);
    bench.memory.give_back(controller.shutdown()).unwrap();
    bench.check_memory();
    result
}

#[test]
fn features_and_logs() {
    let namespaces = vec![
        NamespaceConfig::ram(1, 1 << 20, 9),
        NamespaceConfig::ram(3, 2 << 20, 12),
    ];
    let config = Config {
        namespaces,
        namespace_limit: 3,
        ..config()
    };
    let bench = Bench::new(config, &[], false);
    with_controller(&bench, |controller| {
        let mut list = [0; 8];
        assert_eq!(controller.namespaces(0, &mut list), Ok(2));
        assert_eq!(list[..2], [1, 3]);
        assert_eq!(controller.namespaces(1, &mut list), Ok(1));
        assert_eq!(controller.namespace(3).unwrap().block_size_log2, 12);
        assert_eq!(
            controller.namespace(2),
            Err(straightway_nvme::Error::NoNamespace { nsid: 2 })
        );
        assert!(controller.write_cache().unwrap());
        controller.set_write_cache(false).unwrap();
        assert!(!controller.write_cache().unwrap());
        controller.set_interrupt_coalescing(8, 2).unwrap();
        controller.set_vector_coalescing(1, false).unwrap();
        controller.set_events(0xff).unwrap();
        assert_eq!(controller.firmware_slots().unwrap().active_slot, 1);
        assert_eq!(controller.smart().unwrap().critical_warning, 0);
        // Bit 2: the drive is less reliable (NVMe base 1.4, 5.14.1.2).
        bench.model.set_critical_warning(1 << 2);
        assert_eq!(controller.smart().unwrap().critical_warning, 1 << 2);
        let mut errors = [ErrorEntry::parse(&[1; 64]).unwrap(); 4];
        let found = controller.error_log(&mut errors).unwrap();
        assert!(found <= 4);
    });
}

#[test]
fn asynchronous_events_arrive_and_are_armed_again() {
    let bench = Bench::new(config(), &[], false);
    with_controller(&bench, |controller| {
        assert_eq!(controller.next_event(), None);
        for _ in 0..5 {
            bench.model.event(AsyncEvent::TEMPERATURE);
            let event = controller.next_event().expect("the event came");
            assert_eq!((event.kind, event.information), (1, 1));
            // Reading the log enables the next event.
            controller.smart().unwrap();
        }
        assert_eq!(controller.next_event(), None);
    });
}

#[test]
fn a_write_protected_or_foreign_request_is_refused() {
    let bench = Bench::new(config(), &[], false);
    let refused = bench.with_queue(options(), |queue| {
        let outside = block::Buffer::from_static(vec![0; 8192].leak());
        let (_, outside) = outside.split_at(4096);
        let address = outside.address() & 3;
        let (_, outside) = outside.split_at((4 - address) & 3);
        let (outside, _) = outside.split_at(512);
        blocking::read(queue, 0, outside).result
    });
    assert_eq!(refused, Ok(Err(Error::BufferUnreachable)));
    bench.check_memory();
}

/// Without shadow doorbells three pages suffice, even on a controller that offers them; two never
/// do.
#[test]
fn a_driver_without_shadow_doorbells_needs_three_pages() {
    let options = ControllerOptions {
        shadow_doorbells: false,
        ..options()
    };
    let bench = Bench::new(config(), &[], false);
    let done = bench.with_queue(options, |queue| {
        let buffer = bench.memory.allocate_contiguous(4096, 4096).unwrap();
        let read = blocking::read(queue, 0, buffer);
        bench.memory.give_back(read.buffer).unwrap();
        read.result
    });
    assert_eq!(done, Ok(Ok(())));
    for (shadow_doorbells, pages) in [(true, 5), (false, 3)] {
        let memory = bench
            .memory
            .allocate_contiguous((pages - 1) * 4096, 4096)
            .unwrap();
        let options = ControllerOptions {
            shadow_doorbells,
            ..options
        };
        let failed = Controller::enable(bench.model.clone(), memory, options).unwrap_err();
        let needed_bytes = pages * 4096;
        assert_eq!(
            failed.error,
            straightway_nvme::Error::Memory { needed_bytes }
        );
        bench.memory.give_back(failed.memory).unwrap();
    }
    bench.check_memory();
}

/// A machine that wants the function back gets it immediately: what was acknowledged is on the
/// medium, outstanding requests are reported as gone, in every mode and while commands hang.
#[test]
fn a_recalled_controller_is_shut_down_and_everything_outstanding_is_gone() {
    for mode in [
        CompletionMode::Poll,
        CompletionMode::Interrupt,
        CompletionMode::Hybrid { looks: 3 },
    ] {
        let hang = FaultKind::NeverComplete { abortable: true };
        let rule = Rule::new(On::Io, When::From(2), hang);
        let bench = Bench::new(config(), &[rule], false);
        let run = |queue: &mut Queue<'_>| {
            queue.set_completion_mode(mode).unwrap();
            let mut buffer = bench.memory.allocate(4096).unwrap();
            buffer.fill(7);
            let written = blocking::write(queue, 0, buffer, false);
            written.result.unwrap();
            bench.memory.give_back(written.buffer).unwrap();
            assert!(bench.model.unflushed_blocks() > 0);
            for lba in 0..DEPTH as u64 {
                let buffer = bench.memory.allocate(512).unwrap();
                let operation = Operation::Read { lba, buffer };
                queue.submit(block::Request { tag: 0, operation }).unwrap();
            }
            queue.kick();
            bench.model.recall();
            let mut gone = 0;
            for _ in 0..100_000 {
                queue.wait(1000);
                while let Some(completion) = queue.poll() {
                    assert_eq!(completion.result, Err(Error::Gone));
                    bench.memory.give_back(completion.buffer.unwrap()).unwrap();
                    gone += 1;
                }
                if queue.outstanding() == 0 {
                    break;
                }
            }
            assert_eq!(
                queue.statistics().timeouts,
                0,
                "found by a deadline, {mode:?}"
            );
            let buffer = bench.memory.allocate(512).unwrap();
            let refused = blocking::read(queue, 0, buffer);
            bench.memory.give_back(refused.buffer).unwrap();
            (gone, refused.result)
        };
        assert_eq!(
            bench.with_queue(options(), run),
            Ok((DEPTH, Err(Error::Gone)))
        );
        assert_eq!(bench.model.unflushed_blocks(), 0, "{mode:?}");
        bench.check_memory();
    }
}

#[test]
fn generic_commands_are_sent_only_with_the_data_that_they_say() {
    use straightway_nvme::{Error as Failed, GenericCommand, GenericData, GenericRefusal};
    let bench = Bench::new(config(), &[], false);
    let command = |opcode, dwords| GenericCommand {
        opcode,
        dwords,
        ..GenericCommand::default()
    };
    let refused = |result: Result<u32, Failed>, opcode, why| {
        assert_eq!(result, Err(Failed::Generic { opcode, why }));
    };
    bench
        .with_queue(options(), |queue| {
            let controller = queue.controller();
            let mut page = [0; 4096];
            // Identify Controller: the same as the driver's own.
            let identify = command(0x06, [1, 0, 0, 0]);
            controller
                .generic(&identify, GenericData::FromController(&mut page))
                .unwrap();
            let serial = controller.info().serial.as_str().as_bytes();
            assert_eq!(page[4..4 + serial.len()], *serial);
            refused(
                controller.generic(&identify, GenericData::None),
                0x06,
                GenericRefusal::Direction,
            );
            let short = GenericData::FromController(&mut page[..512]);
            refused(
                controller.generic(&identify, short),
                0x06,
                GenericRefusal::Length,
            );
            // A log page of 512 bytes, and dwords that ask for more than the page.
            let log = |dwords: u32| command(0x02, [2 | (dwords - 1) << 16, 0, 0, 0]);
            let part = GenericData::FromController(&mut page[..512]);
            controller.generic(&log(128), part).unwrap();
            let part = GenericData::FromController(&mut page);
            refused(
                controller.generic(&log(2048), part),
                0x02,
                GenericRefusal::Length,
            );
            // What the driver owns.
            for owned in [0x00, 0x01, 0x04, 0x05, 0x08, 0x0c, 0x18, 0x7c] {
                let result = controller.generic(&command(owned, [0; 4]), GenericData::None);
                refused(result, owned, GenericRefusal::Owned);
            }
            let queues = command(0x09, [7, 0, 0, 0]);
            let result = controller.generic(&queues, GenericData::ToController(&[0]));
            refused(result, 0x09, GenericRefusal::Owned);
            // The model has no vendor specific commands, and says so.
            let result = controller.generic(&command(0xc0, [0; 4]), GenericData::None);
            assert!(
                matches!(result, Err(Failed::Status { opcode: 0xc0, .. })),
                "{result:?}"
            );

            // I/O: a block that is written, and read by a generic command.
            let block = queue.geometry().block_size_bytes();
            let mut buffer = bench.memory.allocate(block).unwrap();
            buffer.fill(0x5a);
            let wrote = blocking::write(queue, 3, buffer, false);
            wrote.result.unwrap();
            let mut buffer = wrote.buffer;
            buffer.fill(0);
            let read = command(0x02, [3, 0, 0, 0]);
            queue.submit_generic(7, &read, Some(buffer)).unwrap();
            queue.kick();
            let done = loop {
                if let Some(done) = queue.poll() {
                    break done;
                }
            };
            assert_eq!((done.tag, done.result), (7, Ok(())));
            let buffer = done.buffer.unwrap();
            assert!(buffer.iter().all(|byte| *byte == 0x5a));
            // Two blocks would not fit the buffer.
            let two = command(0x02, [3, 0, 1, 0]);
            let (error, buffer) = queue.submit_generic(8, &two, Some(buffer)).unwrap_err();
            assert_eq!(error, Error::TooLarge);
            let (error, buffer) = queue
                .submit_generic(8, &command(0x83, [0; 4]), buffer)
                .unwrap_err();
            assert_eq!(error, Error::Unsupported);
            bench.memory.give_back(buffer.unwrap()).unwrap();
            queue
                .submit_generic(9, &command(0x80, [0; 4]), None)
                .unwrap();
            queue.kick();
            let done = loop {
                if let Some(done) = queue.poll() {
                    break done;
                }
            };
            assert!(
                matches!(done.result, Err(Error::Nvme { .. })),
                "{:?}",
                done.result
            );
        })
        .unwrap();
}
