// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `straightway.h` for recordings.
//!
//! `unsafe` is here for what C passes: pointers that must be valid, as the header says of each.
#![allow(unsafe_code)]
// Each function's contract with C is its documentation, which is in the header.
#![allow(clippy::missing_safety_doc)]

use crate::calls::{check_size, null, open, straightway_options, string};
use crate::error::{Fault, Status, finish, usage};
use crate::handles::{self, Open};
use crate::settings::{buffers, format_named, micros, samples, segments};
use crate::volume_calls::check_memory;
use api::{Format, Policy, RecordSettings, Recorder, SigmfOptions, Size};
use std::ffi::{c_char, c_void};

/// A recording in progress. It belongs to the thread that opened it. 0 is none.
pub type straightway_recorder = u64;

/// What happens to a message that finds no memory, because the drive did not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum OnFull {
    /// The recording ends, with STRAIGHTWAY_STATUS_LATE; what came before is kept.
    End = 0,
    /// The message is dropped, and NAME.gaps in the volume lists where, how much and when.
    Drop = 1,
    /// straightway_recorder_append waits for memory.
    Wait = 2,
}

/// How to record. Begin with STRAIGHTWAY_RECORD_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_record_options {
    /// sizeof(struct straightway_record_options).
    pub size: usize,
    /// Bytes that the drive gets at once, or 0 for 1 MiB: messages are gathered into such blocks.
    /// `commit_ms` limits how long.
    pub block_bytes: u64,
    /// Blocks of memory, 2 to 4096, or 0 for 16.
    pub buffers: u32,
    /// An enum straightway_on_full.
    pub on_full: u32,
    /// How long after its first byte's arrival a block must be written, in microseconds, or 0 for 100000.
    /// Misses are counted.
    pub deadline_us: u64,
    /// How long after it was written a block is made durable, or 0 for 1000. What has waited as
    /// long in a block that is not full is written, but for its last 4095 bytes at most; what is in
    /// straightway_record_report.durable_bytes survives a power cut.
    pub commit_ms: u32,
    /// Expected length, whose space is set aside at the beginning, or 0.
    pub total_bytes: u64,
    /// 1 to go on at the end of the file, if there is one; its size must be a multiple of the
    /// device's block.
    pub append: u32,
    /// With format "sigmf": channels whose samples alternate, or 0 for 1.
    pub channels: u32,
    /// Bytes of a segment: another file begins when one has this size, FILE_NAME.000001 and so on;
    /// or 0 for one file.
    pub segment_bytes: u64,
    /// The same each time one has gone on for so long, in microseconds; or 0. Only one of both.
    pub segment_us: u64,
    /// The oldest segments are removed so that all have at most this size: a ring; or 0 for none.
    pub keep_bytes: u64,
    /// What `straightway export` makes of it: "raw", "sigmf" or "mcap", or NULL for "raw". With
    /// "mcap" and STRAIGHTWAY_ON_FULL_DROP a message has whole records, and none that a later one
    /// needs: a dropped one is missing whole.
    pub format: *const c_char,
    /// With format "sigmf": the type of a sample, as in "ci16_le"; NULL with `append`: what the
    /// file has.
    pub sigmf_datatype: *const c_char,
    /// With format "sigmf": samples per second, or 0 with `append`.
    pub sample_rate_hz: f64,
    /// With format "sigmf": the centre frequency, or 0 if there is none.
    pub frequency_hz: f64,
    /// With format "sigmf": the receiver in words, or NULL.
    pub hardware: *const c_char,
}

/// A recording's counters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct straightway_record_report {
    /// sizeof(struct straightway_record_report), set by the caller.
    pub size: usize,
    /// Bytes of the blocks that were handed to the drive.
    pub bytes: u64,
    /// Bytes of these that survive a power cut.
    pub durable_bytes: u64,
    /// Messages that were dropped.
    pub lost_messages: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Runs of dropped messages with none between that was kept.
    pub gaps: u64,
    /// Blocks that were written after their deadline.
    pub misses: u64,
    /// The longest time from a block's arrival until it was written, in microseconds.
    pub latency_max_us: u64,
    /// The high-water mark: most blocks that waited or were being written at one time.
    pub waiting_max_blocks: u64,
    /// The same in bytes.
    pub waiting_max_bytes: u64,
    /// Writes that failed and were repeated.
    pub retries: u64,
}

/// Begins to record a new file on the volume of the device that the command calls `name`. A thread
/// of the library writes it, and the device belongs to that thread until
/// straightway_recorder_close. Of `options`, path, mode and namespace_id are used; both options may
/// be NULL. A file of a volume with checksums has them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_recorder_open(
    name: *const c_char,
    file_name: *const c_char,
    options: *const straightway_options,
    record_options: *const straightway_record_options,
    recorder: *mut straightway_recorder,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: each is null or valid.
        let (file_name, given) =
            unsafe { (string("file_name", file_name)?, record_options.as_ref()) };
        let mut settings = RecordSettings::new("", "");
        if let Some(given) = given {
            // SAFETY: as above.
            unsafe { set(&mut settings, given)? };
        }
        // SAFETY: as above.
        unsafe {
            open(name, options, recorder, |name, options| {
                let file_name = file_name.ok_or_else(|| null("file_name"))?;
                let opened = Recorder::open(&RecordSettings {
                    device: name.to_owned(),
                    name: file_name.to_owned(),
                    route: options.route()?,
                    ..settings
                })?;
                Ok(Open::Recorder(Box::new(opened)))
            })
        }
    })
}

/// Hands in a message of any length, which arrived `age_us` microseconds ago: it is copied, and the
/// caller's again when this returns. It never waits for the drive, except with
/// STRAIGHTWAY_ON_FULL_WAIT. `kept`, if it is not NULL, is 0 if the message was dropped, whole.
/// After an error the recording has ended, and is closed as usual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_recorder_append(
    recorder: straightway_recorder,
    buffer: *const c_void,
    bytes: usize,
    age_us: u64,
    kept: *mut u32,
) -> Status {
    finish(|| {
        let data: &[u8] = match bytes {
            0 => &[],
            bytes => {
                check_memory(buffer, bytes)?;
                // SAFETY: C's promise: `bytes` of memory.
                unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), bytes) }
            }
        };
        let is_kept = handles::with(recorder, |recorder: &mut Recorder| {
            Ok(recorder.append(data, age_us)?)
        })?;
        // SAFETY: C's promise: null or valid.
        if let Some(place) = unsafe { kept.as_mut() } {
            *place = u32::from(is_kept);
        }
        Ok(())
    })
}

/// The counters so far, a moment old. The caller sets `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_recorder_get_report(
    recorder: straightway_recorder,
    report: *mut straightway_record_report,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { report.as_mut() }.ok_or_else(|| null("report"))?;
        check_report(place)?;
        handles::with(recorder, |recorder: &mut Recorder| fill(place, recorder))
    })
}

/// Ends the recording, and returns when all of it is durable and the device is closed. `report`, if
/// it is not NULL, has the last counters, also after an error: durable_bytes of it are in the file.
/// The handle is closed in every case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn straightway_recorder_close(
    recorder: straightway_recorder,
    report: *mut straightway_record_report,
) -> Status {
    finish(|| {
        // SAFETY: C's promise: null or valid.
        let place = unsafe { report.as_mut() };
        if let Some(place) = &place {
            check_report(place)?;
        }
        let mut recorder = handles::remove::<Recorder>(recorder)?;
        let result = recorder.finish();
        if let Some(place) = place {
            fill(place, &recorder)?;
        }
        Ok(result?)
    })
}

/// # Safety
/// The strings are null or valid for the call.
unsafe fn set(
    settings: &mut RecordSettings,
    given: &straightway_record_options,
) -> Result<(), Fault> {
    let known = size_of::<straightway_record_options>();
    check_size("straightway_record_options", given.size, known)?;
    // SAFETY: this function's contract.
    let (format, datatype, hardware) = unsafe {
        (
            string("format", given.format)?,
            string("sigmf_datatype", given.sigmf_datatype)?,
            string("hardware", given.hardware)?,
        )
    };
    settings.policy = match given.on_full {
        0 => Policy::Stop,
        1 => Policy::Drop,
        2 => Policy::Wait,
        other => {
            return Err(usage(
                format!("on_full is {other}"),
                "give an enum straightway_on_full",
            ));
        }
    };
    settings.given_block = (given.block_bytes > 0).then_some(Size(given.block_bytes));
    settings.buffers = buffers(given.buffers, 2)?;
    if given.deadline_us > 0 {
        settings.deadline = micros(given.deadline_us);
    }
    if given.commit_ms > 0 {
        settings.commit_ms = given.commit_ms;
    }
    settings.size = (given.total_bytes > 0).then_some(Size(given.total_bytes));
    settings.append = given.append != 0;
    settings.segments = segments(given.segment_bytes, given.segment_us, given.keep_bytes)?;
    settings.format = format.map_or(Ok(Format::Raw), format_named)?;
    let channels = u16::try_from(given.channels)
        .map_err(|_| usage(format!("{} channels", given.channels), "give 1 to 65535"))?;
    settings.sigmf = SigmfOptions {
        channels: (channels > 0).then_some(channels),
        hardware: hardware.map(str::to_owned),
        ..samples(datatype, given.sample_rate_hz, given.frequency_hz)?
    };
    Ok(())
}

fn check_report(place: &straightway_record_report) -> Result<(), Fault> {
    let known = size_of::<straightway_record_report>();
    check_size("straightway_record_report", place.size, known)
}

fn fill(place: &mut straightway_record_report, recorder: &Recorder) -> Result<(), Fault> {
    let (report, lost_messages) = recorder.report()?;
    *place = straightway_record_report {
        size: place.size,
        bytes: report.bytes,
        durable_bytes: report.durable_bytes,
        lost_messages,
        lost_bytes: report.lost_bytes,
        gaps: report.gaps,
        misses: report.misses,
        latency_max_us: report.latency_max_us,
        waiting_max_blocks: report.waiting_max_blocks,
        waiting_max_bytes: report.waiting_max_bytes,
        retries: report.retries,
    };
    Ok(())
}
