// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each quirk on a model that has it: the driver works, and the same driver that does not know the
//! quirk fails. Both runs differ in [`ControllerOptions::quirks`] only.

use block::{Completion, Device, Error, Operation, Request, blocking};
use straightway_model::{Config, FaultKind, On, PowerStateConfig, Rule, When};
use straightway_nvme::{
    Controller, ControllerOptions, Descriptor, GenericCommand, GenericData, PciId, Quirks,
    Registers,
};

use crate::support::{Bench, Queue, config, options};

const FULL: usize = 256 << 10;

/// A model that has `quirk`, and a driver that knows it or does not. The model's PCI identifiers
/// are in no table.
fn bench(quirk: Quirks, config: Config) -> Bench {
    Bench::new(
        Config {
            quirks: quirk,
            ..config
        },
        &[],
        false,
    )
}

fn knowing(quirk: Quirks) -> ControllerOptions {
    ControllerOptions {
        quirks: quirk,
        ..options()
    }
}

fn complete(queue: &mut Queue<'_>, operation: Operation) -> Completion {
    settle(queue);
    assert!(queue.submit(Request { tag: 1, operation }).is_ok());
    finish(queue)
}

/// After a reset, polls create the queue again.
fn settle(queue: &mut Queue<'_>) {
    for _ in 0..10_000 {
        assert!(queue.poll().is_none());
    }
}

fn finish(queue: &mut Queue<'_>) -> Completion {
    queue.kick();
    for _ in 0..10_000_000 {
        if let Some(completion) = queue.poll() {
            return completion;
        }
    }
    panic!("hung");
}

/// Each block has its own value.
fn pattern(index: usize) -> u8 {
    ((index / 512) as u8).wrapping_add(1)
}

/// Writes a pattern to block 0 and the blocks behind it, then reads it back; the error of either.
fn round_trip(bench: &Bench, queue: &mut Queue<'_>, len: usize) -> Result<(), Error> {
    let mut buffer = bench.memory.allocate(len).unwrap();
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = pattern(index);
    }
    let written = blocking::write(queue, 0, buffer, false);
    let mut buffer = written.buffer;
    written.result?;
    buffer.fill(0);
    let read = blocking::read(queue, 0, buffer);
    read.result?;
    let same = |(index, byte): (usize, &u8)| *byte == pattern(index);
    let is_same = read.buffer.iter().enumerate().all(same);
    bench.memory.give_back(read.buffer).unwrap();
    if is_same { Ok(()) } else { Err(Error::Gone) }
}

/// Runs `action` on a model with the quirk: with a driver that knows it, then with one that does
/// not.
fn both<R>(
    quirk: Quirks,
    config: &Config,
    action: impl Fn(&Bench, &mut Queue<'_>) -> R,
) -> (Result<R, String>, Result<R, String>) {
    let run = |known| {
        let bench = bench(quirk, config.clone());
        bench.with_queue(knowing(known), |queue| action(&bench, queue))
    };
    (run(quirk), run(Quirks::NONE))
}

#[test]
fn ready_delay() {
    let left_enabled = |known| {
        let bench = bench(Quirks::READY_DELAY, config());
        // Someone else left the controller enabled.
        let first = bench.with_queue(options(), |_| ());
        assert_eq!(first, Ok(()));
        bench.model.power_cut();
        bench.model.write32(0x24, 0x000f_000f);
        bench.model.write32(0x14, 0x0046_0001);
        bench.with_queue(knowing(known), |queue| {
            round_trip(&bench, queue, 4096).is_ok()
        })
    };
    assert_eq!(left_enabled(Quirks::READY_DELAY), Ok(true));
    let error = left_enabled(Quirks::NONE).unwrap_err();
    assert!(error.contains("did not enable"), "{error}");
}

fn four_states() -> Config {
    let state = |max_power_mw, non_operational, latency_us| PowerStateConfig {
        max_power_mw,
        non_operational,
        entry_latency_us: latency_us,
        exit_latency_us: latency_us,
    };
    Config {
        power_states: vec![
            state(6000, false, 0),
            state(2000, false, 10),
            state(50, true, 1_000),
            state(5, true, 200_000),
        ],
        ..config()
    }
}

/// Reads a block after ten idle minutes; how long that took, in microseconds of virtual time.
fn read_after_idling(bench: &Bench, queue: &mut Queue<'_>) -> Result<u64, Error> {
    round_trip(bench, queue, 4096)?;
    bench.model.advance_us(600_000_000);
    let started = block::Clock::ticks(&bench.model);
    round_trip(bench, queue, 4096)?;
    Ok(block::Clock::ticks(&bench.model) - started)
}

#[test]
fn no_deepest_power_state() {
    let (known, unknown) = both(
        Quirks::NO_DEEPEST_POWER_STATE,
        &four_states(),
        |bench, queue| {
            let took = read_after_idling(bench, queue);
            (took.is_ok(), bench.model.statistics().power_transitions)
        },
    );
    // The state above the broken one is still used.
    assert_eq!(known, Ok((true, 1)));
    assert_eq!(unknown.unwrap(), (false, 1));
}

#[test]
fn no_power_transitions() {
    let (known, unknown) = both(
        Quirks::NO_POWER_TRANSITIONS,
        &four_states(),
        |bench, queue| {
            let took = read_after_idling(bench, queue);
            (took.is_ok(), bench.model.statistics().power_transitions)
        },
    );
    assert_eq!(known, Ok((true, 0)));
    assert!(!unknown.unwrap().0);
}

#[test]
fn a_latency_limit_bounds_what_an_idle_drive_costs_also_after_a_reset() {
    let worst_us = |latency_limit_us, resets: bool| {
        let bench = bench(Quirks::NONE, four_states());
        let options = ControllerOptions {
            latency_limit_us,
            io_timeout_us: 1_000_000,
            ..options()
        };
        let run = bench.with_queue(options, |queue| {
            if resets {
                // The vendor's table comes back with a reset of the controller.
                let hang = FaultKind::NeverComplete { abortable: false };
                bench.model.inject(Rule::new(On::Io, When::Nth(1), hang));
                let refused = FaultKind::AbortRefused;
                bench
                    .model
                    .inject(Rule::new(On::AdminOpcode(8), When::Always, refused));
                let fails = FaultKind::Status {
                    sct: 0,
                    sc: 6,
                    dnr: false,
                };
                bench
                    .model
                    .inject(Rule::new(On::AdminOpcode(0), When::Always, fails));
                queue.set_timeout_us(50_000);
                assert_eq!(
                    complete(queue, Operation::Flush).result,
                    Err(Error::TimedOut)
                );
                queue.set_timeout_us(1_000_000);
                bench.model.heal();
                assert_eq!(complete(queue, Operation::Flush).result, Ok(()));
                assert_eq!(queue.statistics().resets, 1);
            }
            let controller = queue.controller();
            let states = controller.power_states().unwrap();
            assert_eq!((states.len(), states[3].latency_us()), (4, 400_000));
            let set = controller.transitions().unwrap().unwrap();
            let took = read_after_idling(&bench, queue).unwrap();
            (set.enabled, set.worst_latency_us(&states), took)
        });
        run.unwrap()
    };
    for resets in [false, true] {
        let (enabled, worst, took) = worst_us(None, resets);
        assert!(enabled && worst == 400_000 && took >= 400_000, "{took}");
        let (enabled, worst, took) = worst_us(Some(5_000), resets);
        assert!(enabled && worst == 2_000, "{worst}");
        assert!((2_000..100_000).contains(&took), "{took}");
        for limit in [0, 100] {
            let (enabled, worst, took) = worst_us(Some(limit), resets);
            assert!(!enabled && worst == 0 && took < 100_000, "{took}");
        }
    }
}

#[test]
fn no_write_zeroes() {
    let (known, unknown) = both(Quirks::NO_WRITE_ZEROES, &config(), |bench, queue| {
        round_trip(bench, queue, 4096).unwrap();
        let zeroes = Operation::WriteZeroes {
            lba: 0,
            block_count: 8,
            fua: false,
        };
        if blocking::command(queue, zeroes).is_err() {
            return true;
        }
        let read = blocking::read(queue, 0, bench.memory.allocate(4096).unwrap());
        read.buffer.iter().all(|byte| *byte == 0)
    });
    assert_eq!((known, unknown), (Ok(true), Ok(false)));
}

#[test]
fn no_deallocate() {
    let (known, unknown) = both(Quirks::NO_DEALLOCATE, &config(), |bench, queue| {
        round_trip(bench, queue, 4096).unwrap();
        let (lba, block_count) = (0, 4);
        let _ = blocking::command(queue, Operation::Discard { lba, block_count });
        let read = blocking::read(queue, 4, bench.memory.allocate(512).unwrap());
        read.buffer[0] == 5
    });
    assert_eq!((known, unknown), (Ok(true), Ok(false)));
}

#[test]
fn wide_entries_and_shared_tags_are_refused_before_the_controller_is_enabled() {
    for quirk in [Quirks::WIDE_ENTRIES, Quirks::SHARED_TAGS] {
        let bench = bench(quirk, config());
        let error = bench.with_queue(knowing(quirk), |_| ()).unwrap_err();
        assert!(error.contains("128 bytes"), "{error}");
        assert_eq!(bench.model.statistics().enables, 0);
        assert_eq!(bench.model.statistics().register_writes, 0);
        assert!(bench.with_queue(options(), |_| ()).is_ok());
    }
}

#[test]
fn bogus_identifiers() {
    let (known, unknown) = both(Quirks::BOGUS_IDENTIFIERS, &config(), |_, queue| {
        let controller = queue.controller();
        let namespace = controller.namespace(1).unwrap();
        let mut found = 0;
        controller
            .descriptors(1, |one| {
                found += u32::from(!matches!(one, Descriptor::CommandSet(_)));
            })
            .unwrap();
        (
            namespace.nguid != [0; 16] || namespace.eui64 != [0; 8],
            found,
        )
    });
    assert_eq!((known, unknown), (Ok((false, 0)), Ok((true, 2))));
}

#[test]
fn no_descriptors() {
    let (known, unknown) = both(Quirks::NO_DESCRIPTORS, &config(), |bench, queue| {
        round_trip(bench, queue, 4096).is_ok()
    });
    assert_eq!(known, Ok(true));
    assert!(unknown.is_err(), "{unknown:?}");
}

#[test]
fn short_transfers() {
    let (known, unknown) = both(Quirks::SHORT_TRANSFERS, &config(), |bench, queue| {
        let longest = queue.geometry().max_transfer_bytes();
        (longest, round_trip(bench, queue, longest).is_ok())
    });
    assert_eq!(known, Ok((128 << 10, true)));
    assert_eq!(unknown, Ok((FULL, false)));
}

/// The whole of 1 MiB in transfers as long as the geometry allows: how many crossed the boundary.
fn crossings(bench: &Bench, queue: &mut Queue<'_>) -> u64 {
    let longest = queue.geometry().max_transfer_bytes();
    for at in (0..1 << 20).step_by(longest) {
        let buffer = bench.memory.allocate(longest).unwrap();
        let read = blocking::read(queue, at as u64 >> 9, buffer);
        read.result.unwrap();
        bench.memory.give_back(read.buffer).unwrap();
    }
    bench.model.statistics().boundary_crossings
}

#[test]
fn stripe() {
    let striped = Config {
        boundary_blocks: 256, // 128 KiB
        ..config()
    };
    let (known, unknown) = both(Quirks::STRIPE, &striped, crossings);
    assert_eq!((known, unknown), (Ok(0), Ok(4)));
    // NOIOB needs no quirk.
    let (told, _) = both(Quirks::NONE, &striped, crossings);
    assert_eq!(told, Ok(0));
}

#[test]
fn no_abort() {
    let (known, unknown) = both(Quirks::NO_ABORT, &config(), |bench, queue| {
        let hang = FaultKind::NeverComplete { abortable: true };
        bench.model.inject(Rule::new(On::Io, When::Nth(1), hang));
        let first = complete(queue, Operation::Flush).result;
        assert_eq!(first, Err(Error::TimedOut));
        bench.model.heal();
        let _ = complete(queue, Operation::Flush);
        settle(queue);
        let second = round_trip(bench, queue, 4096);
        (second, queue.statistics().aborts)
    });
    assert_eq!(known, Ok((Ok(()), 0)));
    assert_eq!(unknown, Ok((Err(Error::TimedOut), 3)));
}

#[test]
fn no_temperature_threshold() {
    let command = GenericCommand {
        opcode: 0x09,
        dwords: [0x04, 340, 0, 0],
        ..GenericCommand::default()
    };
    let (known, unknown) = both(Quirks::NO_TEMPERATURE_THRESHOLD, &config(), |_, queue| {
        let sent = queue
            .controller()
            .generic(&command, GenericData::ToController(&[0; 4]));
        sent.map_or_else(|error| error.to_string(), |_| "accepted".into())
    });
    assert!(known.unwrap().contains("known to stop on it"));
    let error = unknown.unwrap();
    assert!(error.contains("no answer in time"), "{error}");
}

/// As many reads of 64 KiB at once as the queue takes; how many failed or returned another one's
/// data.
fn burst(bench: &Bench, queue: &mut Queue<'_>) -> (u16, u32) {
    const BLOCKS: u64 = (64 << 10) / 512;
    let depth = queue.geometry().queue_depth;
    for tag in 0..depth {
        let mut buffer = bench.memory.allocate(4096).unwrap();
        buffer.fill(tag as u8 + 1);
        // The second page of each read, the first that a list names. Failures show below.
        let lba = u64::from(tag) * BLOCKS + 8;
        let _ = blocking::write(queue, lba, buffer, false);
    }
    for tag in 0..u32::from(depth) {
        let buffer = bench.memory.allocate(64 << 10).unwrap();
        let lba = u64::from(tag) * BLOCKS;
        let operation = Operation::Read { lba, buffer };
        assert!(queue.submit(Request { tag, operation }).is_ok());
    }
    let mut wrong = 0;
    for _ in 0..depth {
        let read = finish(queue);
        let data = read.buffer.unwrap();
        wrong += u32::from(read.result.is_err() || data[4096] != read.tag as u8 + 1);
    }
    (depth, wrong)
}

#[test]
fn depth_one() {
    let (known, unknown) = both(Quirks::DEPTH_ONE, &config(), burst);
    assert_eq!(known, Ok((1, 0)));
    assert_eq!(unknown, Ok((8, 8)));
}

#[test]
fn aligned_lists() {
    // Transfers of 64 KiB need lists of 128 bytes.
    let short = Config {
        mdts: 4,
        ..config()
    };
    let (known, unknown) = both(Quirks::ALIGNED_LISTS, &short, burst);
    assert_eq!(known, Ok((2, 0)));
    let (depth, wrong) = unknown.unwrap();
    assert!(depth == 8 && wrong > 0, "{wrong}");
}

#[test]
fn medium_priority() {
    let (known, unknown) = both(Quirks::MEDIUM_PRIORITY, &config(), |bench, queue| {
        round_trip(bench, queue, 4096).is_ok()
    });
    assert_eq!((known, unknown), (Ok(true), Ok(false)));
}

#[test]
fn quirks_are_found_by_pci_identifiers_and_by_identify_data() {
    let found = |config: Config| {
        let bench = Bench::new(config, &[], false);
        bench.with_queue(options(), |queue| queue.controller().quirks())
    };
    let id = |vendor, device| PciId { vendor, device };
    assert_eq!(found(config()), Ok(Quirks::NONE));
    let pm1725 = Config {
        pci_id: id(0x144d, 0xa821),
        ..config()
    };
    assert_eq!(found(pm1725), Ok(Quirks::READY_DELAY));
    let behind_t2 = Config {
        pci_id: id(0x106b, 0x2005),
        ..config()
    };
    assert!(found(behind_t2).unwrap_err().contains("128 bytes"));
    let xg3 = Config {
        pci_id: id(0x1179, 0x010f),
        names: ["S", "THNSF5256GPUK TOSHIBA", "51025KLA"],
        ..config()
    };
    assert_eq!(found(xg3), Ok(Quirks::NO_POWER_TRANSITIONS));
}

#[test]
fn a_controller_with_every_quirk_that_is_not_refused_still_works() {
    let refused = Quirks::WIDE_ENTRIES | Quirks::SHARED_TAGS;
    let all = straightway_nvme::QUIRKS.iter().map(|facts| facts.quirk);
    let all = all.filter(|quirk| !refused.has(*quirk));
    let all = all.fold(Quirks::NONE, |all, one| all | one);
    let bench = bench(all, four_states());
    let run = bench.with_queue(knowing(all), |queue| {
        assert!(Controller::worst_case_us(queue.controller()) > 2_300_000);
        round_trip(&bench, queue, 64 << 10)
    });
    assert_eq!(run, Ok(Ok(())));
    bench.check_memory();
}
