// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `straightway.h` for playbacks.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::calls::{check_size, null, open, straightway_options, string};
use crate::error::{Fault, Status, finish};
use crate::handles::{self, Open};
use crate::settings::{buffers, micros};
use api::{PlaySettings, Player, Size};
use std::ffi::{c_char, c_void};
use std::ptr;

/// A playback in progress. It belongs to the thread that opened it. 0 is none.
pub type straightway_player = u64;

/// How to play. Begin with STRAIGHTWAY_PLAY_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_play_options {
    /// sizeof(struct straightway_play_options).
    pub size: usize,
    /// Bytes per second, or 0 for as fast as the program takes blocks.
    pub bytes_per_second: u64,
    /// How long after it is due a block must be there, in microseconds, or 0 for 100000. Misses are
    /// counted.
    pub deadline_us: u64,
    /// Bytes of a block, or 0 for 1 MiB; a multiple of 64 KiB if checksums are compared.
    pub block_bytes: u64,
    /// Blocks of memory that are read ahead, 1 to 4096, or 0 for 16.
    pub buffers: u32,
    /// 1 not to compare checksums.
    pub no_verify: u32,
}

/// A playback's counters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_play_report {
    /// sizeof(struct straightway_play_report), set by the caller.
    pub size: usize,
    /// Bytes of the blocks that were delivered.
    pub bytes: u64,
    /// Blocks that were delivered after their deadline.
    pub misses: u64,
    /// The longest by which a deadline was missed, in microseconds.
    pub lateness_max_us: u64,
    /// The longest time from a block's due time until it was delivered, in microseconds.
    pub latency_max_us: u64,
    /// Blocks that had not been read when they were due, or for which the program left no memory.
    pub underruns: u64,
    /// Reads that failed and were repeated.
    pub retries: u64,
}

/// Begins to play a file of the volume on the device that the command calls `name`. A thread of the
/// library reads it ahead, and the device belongs to that thread until straightway_player_close. Of
/// `options`, path, mode and namespace_id are used; both options may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_player_open(
    name: *const c_char,
    file_name: *const c_char,
    options: *const straightway_options,
    play_options: *const straightway_play_options,
    player: *mut straightway_player,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (file_name, given) =
            unsafe { (string("file_name", file_name)?, play_options.as_ref()) };
        let mut settings = PlaySettings::new("", "");
        if let Some(given) = given {
            set(&mut settings, given)?;
        }
        // SAFETY: as above.
        unsafe {
            open(name, options, player, |name, options| {
                let file_name = file_name.ok_or_else(|| null("file_name"))?;
                let opened = Player::open(&PlaySettings {
                    device: name.to_owned(),
                    name: file_name.to_owned(),
                    route: options.route()?,
                    ..settings
                })?;
                Ok(Open::Player(Box::new(opened)))
            })
        }
    })
}

/// Waits until the next block is due and there, and lends it: `bytes` at `block`, to read, until
/// the next call for this player. After the last block `block` is NULL and `bytes` is 0. Time
/// begins with the first block. `offset`, if it is not NULL, is where in the file it is. After an
/// error the playback has ended, and is closed as usual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_player_next(
    player: straightway_player,
    block: *mut *const c_void,
    bytes: *mut usize,
    offset: *mut u64,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (block, bytes, offset) = unsafe { (block.as_mut(), bytes.as_mut(), offset.as_mut()) };
        let block = block.ok_or_else(|| null("block"))?;
        let bytes = bytes.ok_or_else(|| null("bytes"))?;
        (*block, *bytes) = (ptr::null(), 0);
        handles::with(player, |player: &mut Player| {
            player.advance()?;
            if let Some((at, data)) = player.current() {
                (*block, *bytes) = (data.as_ptr().cast(), data.len());
                if let Some(offset) = offset {
                    *offset = at;
                }
            }
            Ok(())
        })
    })
}

/// Ends the playback, wherever it is, and closes the device. `report`, if it is not NULL, has the
/// counters, also after an error. The handle is closed in every case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_player_close(
    player: straightway_player,
    report: *mut straightway_play_report,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { report.as_mut() };
        if let Some(place) = &place {
            let known = size_of::<straightway_play_report>();
            check_size("straightway_play_report", place.size, known)?;
        }
        let mut player = handles::remove::<Player>(player)?;
        let result = player.finish();
        if let Some(place) = place {
            let report = player.report();
            *place = straightway_play_report {
                size: place.size,
                bytes: report.bytes,
                misses: report.misses,
                lateness_max_us: report.lateness_max_us,
                latency_max_us: report.latency_max_us,
                underruns: report.underruns,
                retries: report.retries,
            };
        }
        Ok(result?)
    })
}

fn set(settings: &mut PlaySettings, given: &straightway_play_options) -> Result<(), Fault> {
    let known = size_of::<straightway_play_options>();
    check_size("straightway_play_options", given.size, known)?;
    settings.rate = (given.bytes_per_second > 0).then_some(Size(given.bytes_per_second));
    if given.deadline_us > 0 {
        settings.deadline = micros(given.deadline_us);
    }
    if given.block_bytes > 0 {
        settings.block = Size(given.block_bytes);
    }
    settings.buffers = buffers(given.buffers, 1)?;
    settings.verify = given.no_verify == 0;
    Ok(())
}
