// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine whose device does not see the processor's cache. What a test does there must work, and
//! must fail as soon as one of the cache operations is left out: they are found by their place in
//! the source, so that a new one is tested too.

use block::{Buffer, Device, blocking};
use model::{BusMemory, CacheSite, FaultKind, Model, On, Rule, When};
use nvme::{Allocate, Dma, Statistics};
use std::panic::AssertUnwindSafe;

/// A byte that is never the one before it in the same place.
pub fn byte(round: usize, index: usize) -> u8 {
    (index / 7 + 31 * round + 1) as u8
}

/// Whether these are the bytes of this round.
pub fn is_round(bytes: &[u8], round: usize) -> bool {
    let is_same = |(index, found): (usize, &u8)| *found == byte(round, index);
    bytes.iter().enumerate().all(is_same)
}

/// Memory with the cache operations of one place left out, of which `old_bytes` hold other data
/// from before, for the device and for the processor.
pub fn memory(bytes: usize, omitted: Option<CacheSite>, old_bytes: usize) -> BusMemory {
    let memory = BusMemory::not_coherent(bytes).unwrap();
    if let Some(site) = omitted {
        memory.omit_cache_site(site);
    }
    let mut old = memory.allocate_dma(old_bytes, 4096).unwrap();
    old.fill(0xff);
    memory.clean(old.address(), old.len());
    memory.give_back(old).unwrap();
    memory
}

/// The places in the sources, and how often each cleaned or discarded, if the controller saw no
/// violation.
pub fn sites(memory: &BusMemory, model: &Model) -> Result<Vec<(CacheSite, u64)>, String> {
    if let Some(violation) = model.violations().first() {
        return Err(violation.to_string());
    }
    let sites = memory.cache_sites().into_iter();
    Ok(sites
        .filter(|((file, _), _)| file.contains("src/"))
        .collect())
}

/// Writes a buffer with the bytes of a round and reads it again, over dirty lines that the read
/// must not lose its data to.
pub fn round_trip(
    device: &mut impl Device,
    round: usize,
    mut buffer: Buffer,
) -> Result<Buffer, String> {
    let (lba, len) = ((round * 1024) as u64, buffer.len());
    for (index, place) in buffer.iter_mut().enumerate() {
        *place = byte(round, index);
    }
    let written = blocking::write(device, lba, buffer, round % 2 == 1);
    written.result.map_err(|error| error.to_string())?;
    let mut buffer = written.buffer;
    buffer.fill(0x99);
    let read = blocking::read(device, lba, buffer);
    read.result.map_err(|error| error.to_string())?;
    if is_round(&read.buffer, round) {
        Ok(read.buffer)
    } else {
        Err(format!("round {round}, {len} bytes: other data"))
    }
}

/// Lets the controller fail, and waits for its reset, which begins with fresh rings.
pub fn reset(model: &Model, queue: &mut impl Device) {
    model.inject(Rule::new(On::Io, When::Nth(1), FaultKind::Fatal));
    for _ in 0..100_000 {
        if blocking::flush(queue).is_ok() {
            break;
        }
        let _ = queue.poll();
    }
    model.heal();
}

/// The fatal error was found by the deadline of the command that met it; nothing else was late.
pub fn check_one_reset(statistics: &Statistics) -> Result<(), String> {
    let recoveries = (statistics.timeouts, statistics.resets);
    if recoveries == (1, 1) && statistics.stray_completions + statistics.queue_deletions == 0 {
        Ok(())
    } else {
        Err(format!("{statistics:?}"))
    }
}

/// Checks that `run`, which returns the places, works with all of them and with none left out.
pub fn check_each_is_needed(
    run: impl Fn(Option<CacheSite>) -> Result<Vec<(CacheSite, u64)>, String>,
) {
    let sites = run(None).unwrap();
    assert!(sites.len() >= 10, "{sites:?}");
    assert!(sites.iter().all(|(_, count)| *count > 0));
    let is_missed = |site: &CacheSite| {
        // A driver that misreads memory may also find that it contradicts itself.
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(Some(*site))));
        matches!(outcome, Ok(Ok(_)))
    };
    let places = sites.iter().map(|(site, _)| *site);
    let missed: Vec<_> = places.filter(is_missed).collect();
    assert!(
        missed.is_empty(),
        "of {}, not caught: {missed:?}",
        sites.len()
    );
}
