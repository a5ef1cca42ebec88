// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver on a machine whose device does not see the cache.

use block::{Device, Operation, blocking};
use straightway_model::{BusMemory, CacheSite, Config, Faults, Model, PowerStateConfig};
use straightway_nvme::{Controller, ControllerOptions, GenericCommand, GenericData, QueuePair};

use crate::machine;
use crate::support::{config, options};

const LENGTHS: [usize; 4] = [512, 4096, 64 << 10, 256 << 10];

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
    let memory = machine::memory(12 << 20, omitted, 1 << 20);
    let model = Model::with_faults(drive(), memory.clone(), Faults::none()).unwrap();
    let options = ControllerOptions {
        latency_limit_us: Some(250),
        ..options()
    };
    use_drive(&memory, &model, options)?;
    machine::sites(&memory, &model)
}

fn use_drive(memory: &BusMemory, model: &Model, options: ControllerOptions) -> Result<(), String> {
    let text = |error: straightway_nvme::Error| error.to_string();
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
    machine::reset(model, &mut queue);
    check_data(memory, &mut queue, 7, 4096)?;
    machine::check_one_reset(queue.statistics())
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
    let buffer = machine::round_trip(queue, round, memory.allocate(len).unwrap())?;
    memory.give_back(buffer).unwrap();
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
    machine::check_each_is_needed(run);
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
