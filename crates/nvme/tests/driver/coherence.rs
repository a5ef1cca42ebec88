// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver on a machine whose device does not see the cache: it works, and fails as soon as one
//! of its cache operations is left out. The operations are found by their place in the source, so
//! that a new one is tested too.

use block::{Device, Operation, blocking};
use straightway_model::{
    BusMemory, CacheSite, Config, Faults, Kind, Model, On, PowerStateConfig, Rule, When,
};
use straightway_nvme::{
    Allocate, Controller, Dma, GenericCommand, GenericData, Options, QueuePair,
};

use crate::support::{config, options};

const LENGTHS: [usize; 4] = [512, 4096, 64 << 10, 256 << 10];

/// A byte that is never the one before it in the same place.
fn pattern(round: usize, index: usize) -> u8 {
    (index / 7 + 31 * round + 1) as u8
}

fn drive() -> Config {
    let state = |non_operational| PowerStateConfig {
        max_power_mw: 1000,
        non_operational,
        entry_latency_us: 100,
        exit_latency_us: 100,
    };
    Config {
        power_states: vec![state(false), state(true), state(true)],
        interrupt_vectors: 0,
        ..config()
    }
}

/// Everything that the driver does with memory, with one place's cache operations left out. `Err`:
/// what went wrong.
fn run(omitted: Option<CacheSite>) -> Result<Vec<(CacheSite, u64)>, String> {
    let memory = BusMemory::not_coherent(12 << 20).unwrap();
    if let Some(site) = omitted {
        memory.omit_cache_site(site);
    }
    let model = Model::with_faults(drive(), memory.clone(), Faults::none()).unwrap();
    let options = Options {
        latency_limit_us: Some(250),
        ..options()
    };
    use_drive(&memory, &model, options).and_then(|()| match model.violations().first() {
        Some(violation) => Err(violation.to_string()),
        None => Ok(memory
            .cache_sites()
            .into_iter()
            .filter(|((file, _), _)| file.contains("src/"))
            .collect()),
    })
}

fn use_drive(memory: &BusMemory, model: &Model, options: Options) -> Result<(), String> {
    let text = |error: straightway_nvme::Error| error.to_string();
    // Both sides hold other data from before.
    let mut old = memory.allocate_dma(1 << 20, 4096).unwrap();
    old.fill(0xff);
    memory.clean(old.address(), old.len());
    memory.give_back(old).unwrap();
    let controller = Controller::open(model, memory, options).map_err(text)?;
    assert!(!controller.uses_shadow_doorbells());
    let states = controller.power_states().map_err(text)?;
    let set = controller.transitions().map_err(text)?.unwrap();
    let entries = [Some((1, 10)), Some((2, 10)), None];
    if !set.enabled || states.len() != 3 || set.entries[..3] != entries {
        return Err(format!("{set:?}"));
    }
    check_generic(&controller)?;
    let mut queue = QueuePair::<_, _, 8>::open(&controller, 1, 256 << 10, memory).map_err(text)?;
    assert_eq!(queue.geometry().buffer_align_bytes, 64);
    for round in 0..6 {
        for len in LENGTHS {
            check_data(memory, &mut queue, round, len)?;
        }
    }
    check_discard(memory, &mut queue)?;
    // A reset begins with fresh rings.
    model.inject(Rule::new(On::Io, When::Nth(1), Kind::Fatal));
    for _ in 0..100_000 {
        if blocking::flush(&mut queue).is_ok() {
            break;
        }
        let _ = queue.poll();
    }
    model.heal();
    check_data(memory, &mut queue, 7, 4096)?;
    let statistics = *queue.statistics();
    // The fatal error is found by the deadline of the command that met it; nothing else is late.
    let recoveries = (statistics.timeouts, statistics.resets);
    if recoveries != (1, 1) || statistics.stray_completions + statistics.queue_deletions != 0 {
        return Err(format!("{statistics:?}"));
    }
    Ok(())
}

fn check_generic(controller: &Controller<&Model>) -> Result<(), String> {
    let text = |error: straightway_nvme::Error| error.to_string();
    let identify = GenericCommand {
        opcode: 0x06,
        dwords: [1, 0, 0, 0],
        ..GenericCommand::default()
    };
    let mut page = [0; 4096];
    let into = GenericData::FromController(&mut page);
    controller.generic(&identify, into).map_err(text)?;
    if &page[4..9] != b"MODEL" {
        return Err("identify returned another page".into());
    }
    // The table of transitions, to the controller and back.
    let table = [0x5a_u8; 256];
    let set = GenericCommand {
        opcode: 0x09,
        dwords: [0x0c, 0, 0, 0],
        ..GenericCommand::default()
    };
    let from = GenericData::ToController(&table);
    controller.generic(&set, from).map_err(text)?;
    let get = GenericCommand {
        opcode: 0x0a,
        ..set
    };
    let mut found = [0; 256];
    let into = GenericData::FromController(&mut found);
    controller.generic(&get, into).map_err(text)?;
    if found == table {
        Ok(())
    } else {
        Err("the table came back as another".into())
    }
}

fn check_data(
    memory: &BusMemory,
    queue: &mut impl Device,
    round: usize,
    len: usize,
) -> Result<(), String> {
    let lba = (round * 1024) as u64;
    let mut buffer = memory.allocate(len).unwrap();
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = pattern(round, index);
    }
    let written = blocking::write(queue, lba, buffer, round % 2 == 1);
    written.result.map_err(|error| error.to_string())?;
    let mut buffer = written.buffer;
    // Dirty lines that a read must not lose its data to.
    buffer.fill(0x99);
    let read = blocking::read(queue, lba, buffer);
    read.result.map_err(|error| error.to_string())?;
    let same = |(index, byte): (usize, &u8)| *byte == pattern(round, index);
    if !read.buffer.iter().enumerate().all(same) {
        return Err(format!("round {round}, {len} bytes: other data"));
    }
    memory.give_back(read.buffer).unwrap();
    Ok(())
}

fn check_discard(memory: &BusMemory, queue: &mut impl Device) -> Result<(), String> {
    let (lba, block_count) = (1024, 8);
    let discard = Operation::Discard { lba, block_count };
    blocking::command(queue, discard).map_err(|error| error.to_string())?;
    let read = blocking::read(queue, lba, memory.allocate(4096).unwrap());
    if read.buffer.iter().all(|byte| *byte == 0) {
        Ok(())
    } else {
        Err("discarded blocks have data".into())
    }
}

#[test]
fn each_omitted_cache_operation_is_caught() {
    let sites = run(None).unwrap();
    assert!(sites.len() >= 10, "{sites:?}");
    assert!(sites.iter().all(|(_, count)| *count > 0));
    let mut missed = Vec::new();
    for (site, _) in &sites {
        // A driver that misreads memory may also find that it contradicts itself.
        let outcome = std::panic::catch_unwind(|| run(Some(*site)));
        if matches!(outcome, Ok(Ok(_))) {
            missed.push(*site);
        }
    }
    assert!(
        missed.is_empty(),
        "of {}, not caught: {missed:?}",
        sites.len()
    );
}

#[test]
fn a_coherent_machine_has_no_cache_sites() {
    let memory = BusMemory::linear(4 << 20).unwrap();
    let model = Model::new(drive(), memory.clone()).unwrap();
    let controller = Controller::open(&model, &memory, options()).unwrap();
    let mut queue = QueuePair::<_, _, 8>::open(&controller, 1, 4096, &memory).unwrap();
    check_data(&memory, &mut queue, 1, 4096).unwrap();
    assert_eq!(queue.geometry().buffer_align_bytes, 4);
    assert!(memory.cache_sites().is_empty());
}
