// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A playback in progress.

use crate::{Given, detached};
use api::{PlaySettings, Player as Running, Size};
use library::handles::{self, Open};
use library::settings::micros;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A playback, which a thread of the library reads ahead. It belongs to the thread that opened it.
#[pyclass(frozen, module = "straightway._native")]
pub struct Player(u64);

/// Bytes, misses, longest lateness and latency in us, underruns, retries.
type Counters = (u64, u64, u64, u64, u64, u64);

/// Begins to play a file on the volume of the device that the command calls `name`.
#[pyfunction]
#[pyo3(signature = (name, file_name, *, bytes_per_second=0, deadline_us=None, block_bytes=None, buffers=None, verify=true, path=None, mode=None, namespace_id=None))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn open_player(
    py: Python<'_>,
    name: &str,
    file_name: &str,
    bytes_per_second: u64,
    deadline_us: Option<u64>,
    block_bytes: Option<u64>,
    buffers: Option<u16>,
    verify: bool,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
) -> PyResult<Player> {
    let given = Given {
        path,
        mode,
        namespace_id,
        ..Given::default()
    };
    let usual = PlaySettings::new(name, file_name);
    let settings = PlaySettings {
        rate: (bytes_per_second > 0).then_some(Size(bytes_per_second)),
        deadline: deadline_us.map_or(usual.deadline, micros),
        block: block_bytes.map_or(usual.block, Size),
        buffers,
        verify,
        ..usual
    };
    let handle = detached(py, || {
        handles::check_room()?;
        let opened = Running::open(&PlaySettings {
            route: given.options().route()?,
            ..settings
        })?;
        handles::add(Open::Player(Box::new(opened)))
    })?;
    Ok(Player(handle))
}

#[pymethods]
impl Player {
    /// The next block when it is due, and where in the file it is; None after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(u64, Bound<'py, PyBytes>)>> {
        let player = self.0;
        detached(py, || {
            handles::with(player, |player: &mut Running| Ok(player.advance()?))
        })?;
        let block = handles::with(player, |player: &mut Running| {
            let block = player.current();
            Ok(block.map(|(offset, data)| (offset, PyBytes::new(py, data))))
        });
        block.map_err(|fault| crate::error::exception(py, &fault))
    }

    /// Ends the playback; its counters, and why it ended early.
    fn close(&self, py: Python<'_>) -> PyResult<(Counters, Option<PyErr>)> {
        let player = self.0;
        let (report, result) = detached(py, || {
            let mut player = handles::remove::<Running>(player)?;
            let result = player.finish();
            Ok((player.report(), result))
        })?;
        let counters = (
            report.bytes,
            report.misses,
            report.lateness_max_us,
            report.latency_max_us,
            report.underruns,
            report.retries,
        );
        let failed = |error: api::Error| crate::error::exception(py, &error.into());
        Ok((counters, result.err().map(failed)))
    }
}

impl Drop for Player {
    /// As a file of Python; in another thread it goes on until its own thread ends.
    fn drop(&mut self) {
        drop(handles::remove::<Running>(self.0));
    }
}
