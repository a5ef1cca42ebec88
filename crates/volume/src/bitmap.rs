// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The allocation bitmap of a group: a bit a unit, set when it is in use. `FORMAT.md`, "Bitmap".

use crate::bytes::{get_u32, get_u64, put, put_u32, put_u64};
use crate::layout::{Shape, bitmap as at, magic, node};
use crate::superblock::Run;
use crate::{Error, error::Node};

/// The bits, in the node's upper half.
fn bits(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len() / 2..).unwrap_or_default()
}

fn bits_mut(bytes: &mut [u8]) -> &mut [u8] {
    let half = bytes.len() / 2;
    bytes.get_mut(half..).unwrap_or_default()
}

/// The bits of a bitmap: the units of a group.
fn bit_count(bytes: &[u8]) -> u32 {
    bits(bytes).len() as u32 * 8
}

/// The units of a group that the volume has.
pub(crate) fn units_of(bytes: &[u8], group: u32, shape: &Shape) -> u32 {
    let units = shape.unit_count().saturating_sub(shape.group_start(group));
    units.min(u64::from(bit_count(bytes))) as u32
}

/// An all-free bitmap, with the bits of its own units and past the volume's last unit set.
pub(crate) fn initialise(bytes: &mut [u8], group: u32, shape: &Shape) {
    bytes.fill(0);
    put(bytes, node::MAGIC, &magic::BITMAP);
    put_u64(bytes, at::GROUP, u64::from(group));
    let units = units_of(bytes, group, shape);
    set(bytes, units, bit_count(bytes) - units, true);
    set(bytes, 0, shape.bitmap_units(group) as u32, true);
    stamp(bytes, 0, 0);
}

/// Sets the header's changing fields; the checksum is not set.
pub(crate) fn stamp(bytes: &mut [u8], seq: u64, last_op: u64) {
    put_u64(bytes, node::SEQ, seq);
    put_u64(bytes, node::LAST_OP, last_op);
    let used: u32 = bits(bytes).iter().map(|byte| byte.count_ones()).sum();
    let free = bit_count(bytes) - used;
    put_u32(bytes, at::FREE_UNITS, free);
}

/// Free units, according to the header.
pub(crate) fn free_units(bytes: &[u8]) -> u32 {
    get_u32(bytes, at::FREE_UNITS)
}

/// Checks a bitmap whose checksum is valid.
pub(crate) fn check(bytes: &[u8], group: u32, shape: &Shape) -> Result<(), Error> {
    let used: u32 = bits(bytes).iter().map(|byte| byte.count_ones()).sum();
    let units = units_of(bytes, group, shape);
    let sound = get_u64(bytes, at::GROUP) == u64::from(group)
        && free_units(bytes).checked_add(used) == Some(bit_count(bytes))
        && all_used_from(bytes, units)
        && (0..shape.bitmap_units(group) as u32).all(|unit| is_used(bytes, unit));
    sound.then_some(()).ok_or(Error::from(Node::Bitmap(group)))
}

/// Whether all units of the group from `first` on are in use.
fn all_used_from(bytes: &[u8], first: u32) -> bool {
    let mut rest = bits(bytes).iter().skip((first / 8) as usize);
    let part = rest
        .next()
        .is_none_or(|byte| byte >> (first % 8) == 0xff >> (first % 8));
    part && rest.all(|byte| *byte == 0xff)
}

/// Whether unit `unit` of the group is in use; a unit past the end is.
pub(crate) fn is_used(bytes: &[u8], unit: u32) -> bool {
    bits(bytes)
        .get((unit / 8) as usize)
        .is_none_or(|byte| byte >> (unit % 8) & 1 != 0)
}

/// The number of units up to the last one that is in use, of the first `units` without the bitmap's
/// own; 0 if none is.
pub(crate) fn used_end(bytes: &[u8], own: u32, units: u32) -> u32 {
    let mut used = (own..units).rev().filter(|&unit| is_used(bytes, unit));
    used.next().map_or(0, |unit| unit + 1)
}

/// Sets or clears `len` bits.
pub(crate) fn set(bytes: &mut [u8], first: u32, len: u32, used: bool) {
    let bits = bits_mut(bytes);
    for unit in first..first + len {
        if let Some(byte) = bits.get_mut((unit / 8) as usize) {
            let mask = 1 << (unit % 8);
            *byte = if used { *byte | mask } else { *byte & !mask };
        }
    }
}

/// Sets or clears the bits of a run, given by its units in the volume.
pub(crate) fn set_run(bytes: &mut [u8], run: &Run, shape: &Shape, used: bool) {
    set(bytes, shape.unit_in_group(run.start), run.len, used);
}

/// Whether all units of a run are in use.
pub(crate) fn has_run(bytes: &[u8], run: &Run, shape: &Shape) -> bool {
    let first = shape.unit_in_group(run.start);
    (first..first + run.len).all(|unit| is_used(bytes, unit))
}

/// How many units from `first` on are free, up to `most`.
pub(crate) fn free_from(bytes: &[u8], first: u32, most: u32) -> u32 {
    (first..first.saturating_add(most))
        .take_while(|&unit| !is_used(bytes, unit))
        .count() as u32
}

/// The first free unit from `first` on, and how many are free from there, up to `most`; 0 if none
/// is.
pub(crate) fn next_free(bytes: &[u8], first: u32, most: u32) -> (u32, u32) {
    let units = bit_count(bytes);
    let start = (first..units).find(|&unit| !is_used(bytes, unit));
    start.map_or((units, 0), |start| (start, free_from(bytes, start, most)))
}

/// The first free run of exactly `len` units that starts at a multiple of `align`. `len` and
/// `align` are at most the group's units.
pub(crate) fn find(bytes: &[u8], len: u32, align: u32) -> Option<u32> {
    let units = bit_count(bytes);
    let mut start = 0;
    while start + len <= units {
        let free = free_from(bytes, start, len);
        if free >= len {
            return Some(start);
        }
        start = (start + free + 1).next_multiple_of(align);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        volume_bytes: 1 << 20,
        unit_log2: 12,
        node_log2: 8,
        buckets_log2: 0,
        lba_log2: 8,
        table_groups: 0,
    };

    fn fresh() -> [u8; 256] {
        let mut bytes = [0xee; 256];
        initialise(&mut bytes, 0, &SHAPE);
        bytes
    }

    #[test]
    fn units_past_the_end_are_never_free() {
        let bytes = fresh();
        assert_eq!(check(&bytes, 0, &SHAPE), Ok(()));
        assert_eq!(u64::from(free_units(&bytes)), SHAPE.unit_count());
        let units = SHAPE.unit_count() as u32;
        assert!(is_used(&bytes, units));
        assert!(!is_used(&bytes, units - 1));
        assert!(is_used(&bytes, u32::MAX));
    }

    #[test]
    fn a_unit_past_the_end_that_is_said_to_be_free_is_corruption() {
        let units = SHAPE.unit_count() as u32;
        for unit in [units, units + 1, 1023] {
            let mut bytes = fresh();
            set(&mut bytes, unit, 1, false);
            // The count agrees, as it would in a forged node.
            stamp(&mut bytes, 0, 0);
            assert!(check(&bytes, 0, &SHAPE).is_err(), "unit {unit}");
        }
    }

    #[test]
    fn find_agrees_with_a_search_of_every_start() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..300 {
            let mut bytes = fresh();
            for _ in 0..random.u32(0..60) {
                set(&mut bytes, random.u32(0..200), random.u32(1..6), true);
            }
            for len in [1, 2, 4, 8, 16] {
                let align = 1 << random.u32(0..5);
                let slow = (0..1024)
                    .step_by(align as usize)
                    .find(|&start| (start..start + len).all(|unit| !is_used(&bytes, unit)));
                assert_eq!(find(&bytes, len, align), slow, "seed {seed} round {round}");
            }
        }
    }

    #[test]
    fn a_wrong_count_or_group_is_corruption() {
        let mut bytes = fresh();
        assert!(check(&bytes, 1, &SHAPE).is_err());
        set(&mut bytes, 0, 1, true);
        assert!(check(&bytes, 0, &SHAPE).is_err());
        stamp(&mut bytes, 3, 1);
        assert_eq!(check(&bytes, 0, &SHAPE), Ok(()));
    }
}
