// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording in progress.

use crate::memory::Borrowed;
use crate::{Given, detached};
use api::{Policy, RecordSettings, Recorder as Running, SigmfOptions, Size};
use library::handles::{self, Open};
use library::settings::{format_named, micros, samples, segments};
use pyo3::prelude::*;

/// A recording, which a thread of the library writes. It belongs to the thread that opened it.
#[pyclass(frozen, module = "straightway._native")]
pub struct Recorder(u64);

/// Bytes, durable bytes, lost messages, lost bytes, gaps, misses, longest latency in us, most
/// waiting blocks and bytes, retries.
type Counters = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

fn counters(recorder: &Running) -> Result<Counters, api::Error> {
    let (report, lost_messages) = recorder.report()?;
    Ok((
        report.bytes,
        report.durable_bytes,
        lost_messages,
        report.lost_bytes,
        report.gaps,
        report.misses,
        report.latency_max_us,
        report.waiting_max_blocks,
        report.waiting_max_bytes,
        report.retries,
    ))
}

/// Begins to record a new file on the volume of the device that the command calls `name`.
#[pyfunction]
#[pyo3(signature = (name, file_name, *, on_full, block_bytes=None, buffers=None, deadline_us=None, commit_ms=None, total_bytes=0, append=false, segment_bytes=0, segment_us=0, keep_bytes=0, format="raw", sigmf_datatype=None, sample_rate_hz=0.0, frequency_hz=0.0, channels=0, hardware=None, path=None, mode=None, namespace_id=None))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn open_recorder(
    py: Python<'_>,
    name: &str,
    file_name: &str,
    on_full: &str,
    block_bytes: Option<u64>,
    buffers: Option<u16>,
    deadline_us: Option<u64>,
    commit_ms: Option<u32>,
    total_bytes: u64,
    append: bool,
    segment_bytes: u64,
    segment_us: u64,
    keep_bytes: u64,
    format: &str,
    sigmf_datatype: Option<&str>,
    sample_rate_hz: f64,
    frequency_hz: f64,
    channels: u16,
    hardware: Option<&str>,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
) -> PyResult<Recorder> {
    let given = Given {
        path,
        mode,
        namespace_id,
        ..Given::default()
    };
    let usual = RecordSettings::new(name, file_name);
    let settings = RecordSettings {
        given_block: block_bytes.map(Size),
        buffers,
        policy: match on_full {
            "drop" => Policy::Drop,
            "wait" => Policy::Wait,
            _ => Policy::Stop,
        },
        deadline: deadline_us.map_or(usual.deadline, micros),
        commit_ms: commit_ms.unwrap_or(usual.commit_ms),
        size: (total_bytes > 0).then_some(Size(total_bytes)),
        append,
        ..usual
    };
    let handle = detached(py, || {
        handles::check_room()?;
        let opened = Running::open(&RecordSettings {
            format: format_named(format)?,
            segments: segments(segment_bytes, segment_us, keep_bytes)?,
            sigmf: SigmfOptions {
                channels: (channels > 0).then_some(channels),
                hardware: hardware.map(str::to_owned),
                ..samples(sigmf_datatype, sample_rate_hz, frequency_hz)?
            },
            route: given.options().route()?,
            ..settings
        })?;
        handles::add(Open::Recorder(Box::new(opened)))
    })?;
    Ok(Recorder(handle))
}

#[pymethods]
impl Recorder {
    fn append(&self, buffer: &Bound<'_, PyAny>, age_us: u64) -> PyResult<bool> {
        let borrowed = Borrowed::of(buffer, false)?;
        let (recorder, data) = (self.0, borrowed.bytes());
        detached(buffer.py(), || {
            handles::with(recorder, |recorder: &mut Running| {
                Ok(recorder.append(data, age_us)?)
            })
        })
    }

    fn report(&self, py: Python<'_>) -> PyResult<Counters> {
        let recorder = self.0;
        detached(py, || {
            handles::with(recorder, |recorder: &mut Running| Ok(counters(recorder)?))
        })
    }

    /// Ends the recording; its last counters, and why it ended early.
    fn close(&self, py: Python<'_>) -> PyResult<(Counters, Option<PyErr>)> {
        let recorder = self.0;
        let (counted, result) = detached(py, || {
            let mut recorder = handles::remove::<Running>(recorder)?;
            let result = recorder.finish();
            Ok((counters(&recorder)?, result))
        })?;
        let failed = |error: api::Error| crate::error::exception(py, &error.into());
        Ok((counted, result.err().map(failed)))
    }
}

impl Drop for Recorder {
    /// As a file of Python; in another thread it goes on until its own thread ends.
    fn drop(&mut self) {
        if let Ok(mut recorder) = handles::remove::<Running>(self.0) {
            let _ = recorder.finish();
        }
    }
}
