// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a volume, or a device, as memory that Python's objects share.
//!
//! `unsafe` is here for the buffer protocol: what it lends stays mapped as long as a view of it
//! exists, because a map with views is not closed.
#![allow(unsafe_code)]

use crate::Given;
use crate::error::exception;
use api::{Error, Map as Mapped, MapOptions};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A map, which a thread of the library serves. Any thread can use it.
#[pyclass(frozen, module = "straightway._native")]
pub struct Map {
    /// Locked without the interpreter's lock only, which whoever has it may need.
    map: Mutex<Mapped>,
    address: usize,
    len: usize,
    is_writable: bool,
    is_closed: AtomicBool,
    /// Views of the memory. They begin and end with the interpreter's lock.
    views: AtomicUsize,
}

/// Faults, pages read, read ahead and written, evictions, failures.
type Counters = (u64, u64, u64, u64, u64, u64);

/// Maps a file of the volume on the device that the command calls `name`, or the device itself.
#[pyfunction]
#[pyo3(signature = (name, file_name=None, *, write=false, destroy_data=None, page_bytes=None, memory_bytes=None, read_ahead_bytes=0, queue_depth=None, path=None, mode=None, namespace_id=None))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn open_map(
    py: Python<'_>,
    name: &str,
    file_name: Option<&str>,
    write: bool,
    destroy_data: Option<String>,
    page_bytes: Option<usize>,
    memory_bytes: Option<usize>,
    read_ahead_bytes: usize,
    queue_depth: Option<u16>,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
) -> PyResult<Map> {
    let given = Given {
        write,
        destroy_data,
        path,
        mode,
        namespace_id,
        queue_depth,
        ..Given::default()
    };
    let usual = MapOptions::default();
    let options = MapOptions {
        page_bytes: page_bytes.unwrap_or(usual.page_bytes),
        memory_bytes: memory_bytes.unwrap_or(usual.memory_bytes),
        read_ahead_bytes,
    };
    let opened = py.detach(|| {
        let map = Mapped::open(name, file_name, &given.options(), &options)?;
        let address = map.start()?.as_ptr() as usize;
        Ok((map, address))
    });
    let (map, address) = opened.map_err(|error: Error| exception(py, &error.into()))?;
    let size_bytes = map.size_bytes();
    Ok(Map {
        map: Mutex::new(map),
        address,
        // The memory is as long, so it fits.
        len: usize::try_from(size_bytes).unwrap_or(usize::MAX),
        is_writable: write,
        is_closed: AtomicBool::new(false),
        views: AtomicUsize::new(0),
    })
}

impl Map {
    /// Runs a call of the library without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Mapped) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| call(&mut self.map.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(|error| exception(py, &error.into()))
    }
}

/// The range; one that would be too long does not fit either.
fn range(offset: u64, bytes: u64) -> Range<u64> {
    offset..offset.saturating_add(bytes)
}

#[pymethods]
impl Map {
    fn __len__(&self) -> usize {
        self.len
    }

    fn prefetch(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.with(py, |map| map.prefetch(range(offset, bytes)))
    }

    fn pin(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.with(py, |map| map.pin(range(offset, bytes)))
    }

    fn unpin(&self, py: Python<'_>, offset: u64, bytes: u64) -> PyResult<()> {
        self.with(py, |map| map.unpin(range(offset, bytes)))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |map| map.sync())
    }

    fn counters(&self, py: Python<'_>) -> PyResult<Counters> {
        let counted = self.with(py, |map| map.counters())?;
        Ok((
            counted.faults,
            counted.reads,
            counted.reads_ahead,
            counted.writes,
            counted.evictions,
            counted.failures,
        ))
    }

    /// Offset, whether it was a write, and why, of each failure since the last call.
    fn take_failures(&self, py: Python<'_>) -> PyResult<Vec<(u64, bool, Py<PyAny>)>> {
        let taken: Vec<_> = self.with(py, |map| {
            Ok(std::iter::from_fn(|| map.take_failure()).collect())
        })?;
        let failures = taken.into_iter().map(|failure| {
            let error = exception(py, &failure.error.into());
            let error = error.into_value(py).into_any();
            (failure.offset, failure.is_write, error)
        });
        Ok(failures.collect())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.views.load(Ordering::Relaxed) > 0 {
            return Err(PyBufferError::new_err(
                "views of the map's memory exist: release them, or delete the arrays that have them, before it is closed",
            ));
        }
        if self.is_closed.swap(true, Ordering::Relaxed) {
            Ok(())
        } else {
            self.with(py, |map| map.close())
        }
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is NULL"));
        }
        if this.is_closed.load(Ordering::Relaxed) {
            return Err(PyBufferError::new_err("the map is closed"));
        }
        let (address, len) = (this.address as *mut _, this.len as ffi::Py_ssize_t);
        let read_only = c_int::from(!this.is_writable);
        // SAFETY: the view is the interpreter's; the memory stays mapped until the last view is
        // released.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, read_only, flags) };
        match filled {
            0 => {
                this.views.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, Ordering::Relaxed);
    }
}
