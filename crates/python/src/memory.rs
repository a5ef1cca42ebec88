// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device's memory as a buffer of Python, and Python's buffers as memory.
//!
//! `unsafe` is here for the buffer protocol: what it lends is memory that stays mapped as long as
//! the object that lends it.
#![allow(unsafe_code)]

use crate::error::exception;
use library::error::usage;
use library::handles;
use library::session::Session;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::any::Any;
use std::ffi::c_int;

/// Memory that a device reaches.
#[pyclass(frozen, module = "straightway._native")]
pub struct Buffer {
    device: u64,
    address: usize,
    len: usize,
    /// Keeps it mapped, whatever becomes of the device.
    _memory: Box<dyn Any + Send + Sync>,
}

impl Buffer {
    /// Allocates it of an open device's memory.
    pub fn allocate(device: u64, len: usize) -> Result<Self, library::error::Fault> {
        handles::with(device, |session: &mut Session| {
            let address = session.allocate(len)? as usize;
            let _memory = Box::new(session.keep_memory());
            Ok(Self {
                device,
                address,
                len,
                _memory,
            })
        })
    }
}

impl Drop for Buffer {
    /// Nothing lends it any more. In another thread than the device's, it stays allocated until the
    /// device is closed.
    fn drop(&mut self) {
        let _ = handles::with(self.device, |session: &mut Session| {
            session.free(self.address)
        });
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len
    }

    fn __repr__(&self) -> String {
        format!("<straightway.Buffer of {} bytes>", self.len)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is NULL"));
        }
        let this = slf.get();
        let (address, len) = (this.address as *mut _, this.len as ffi::Py_ssize_t);
        // SAFETY: the view is the interpreter's; the memory stays mapped while the object lives,
        // which the view refers to.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, 0, flags) };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// Contiguous memory that an object of Python lends, until this is dropped.
pub struct Borrowed(PyBuffer<u8>);

impl Borrowed {
    /// Of any object with contiguous memory.
    ///
    /// # Errors
    /// It lends none, or none that can be written and `written` asks for it.
    pub fn of(object: &Bound<'_, PyAny>, written: bool) -> PyResult<Self> {
        let bytes = PyMemoryView::from(object)?.call_method1("cast", ("B",))?;
        let memory = PyBuffer::<u8>::get(&bytes)?;
        if written && memory.readonly() {
            let fault = usage(
                "this memory is read-only",
                "give memory that can be written",
            );
            return Err(exception(object.py(), &fault));
        }
        Ok(Self(memory))
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.0.buf_ptr() as usize
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// Its bytes, to read them.
    pub fn bytes(&self) -> &[u8] {
        match self.len() {
            0 => &[],
            // SAFETY: the object lends so many bytes until this is dropped. That no other thread
            // writes them meanwhile is the program's part, as for every object that lends memory to
            // a call without the interpreter's lock.
            len => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), len) },
        }
    }

    /// Its bytes, to write them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self.len() {
            0 => &mut [],
            // SAFETY: as above; `of` has checked that they can be written.
            len => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), len) },
        }
    }
}
