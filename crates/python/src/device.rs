// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open device.

use crate::error::{exception, of_request};
use crate::memory::{Borrowed, Buffer};
use crate::{Given, detached};
use library::error::{Fault, usage};
use library::handles::{self, Open};
use library::session::{Done, Session, Way};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the interpreter's signal handlers wait at most.
const SLICE: Duration = Duration::from_millis(50);

/// A request in flight: what Python gave, which stays borrowed until its end.
struct Flight {
    tag: Py<PyAny>,
    buffer: Option<Py<PyAny>>,
    _borrowed: Option<Borrowed>,
}

#[derive(Default)]
struct Flights {
    next: u64,
    by_number: HashMap<u64, Flight>,
}

/// An open device. It belongs to the thread that opened it.
#[pyclass(frozen, module = "straightway._native")]
pub struct Device {
    handle: u64,
    name: String,
    flights: Mutex<Flights>,
}

/// Opens a device by any name that the command takes.
#[pyfunction]
#[pyo3(signature = (name, *, write=false, destroy_data=None, path=None, mode=None, namespace_id=None, buffer_bytes=None, queue_depth=None))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn open_device(
    py: Python<'_>,
    name: String,
    write: bool,
    destroy_data: Option<String>,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
    buffer_bytes: Option<usize>,
    queue_depth: Option<u16>,
) -> PyResult<Device> {
    let given = Given {
        write,
        destroy_data,
        path,
        mode,
        namespace_id,
        buffer_bytes,
        queue_depth,
    };
    let handle = detached(py, || {
        handles::check_room()?;
        handles::add(Open::Device(Box::new(Session::open(
            &name,
            &given.options(),
        )?)))
    })?;
    let flights = Mutex::default();
    Ok(Device {
        handle,
        name,
        flights,
    })
}

impl Device {
    fn with<T>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> PyResult<T> {
        handles::with(self.handle, use_it).map_err(|fault| exception(py, &fault))
    }

    fn waits<T: Send>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&mut Session) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        let handle = self.handle;
        detached(py, move || handles::with(handle, use_it))
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a request, and keeps what it borrows.
    fn start(
        &self,
        py: Python<'_>,
        flight: Flight,
        submit: impl FnOnce(&mut Session, u64) -> Result<(), Fault>,
    ) -> PyResult<()> {
        let mut flights = self.flights();
        let number = flights.next;
        self.with(py, |session| submit(session, number))?;
        flights.next += 1;
        flights.by_number.insert(number, flight);
        Ok(())
    }

    fn submit(
        &self,
        way: Way,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        tag: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = buffer.py();
        let borrowed = Borrowed::of(buffer, way == Way::Read)?;
        let (address, len) = (borrowed.address(), borrowed.len());
        let flight = Flight {
            tag: tag.unwrap_or_else(|| py.None()),
            buffer: Some(buffer.clone().unbind()),
            _borrowed: Some(borrowed),
        };
        self.start(py, flight, |session, number| {
            session.submit(way, offset, address, len, Some(number))
        })
    }

    fn transfer(&self, way: Way, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let borrowed = Borrowed::of(buffer, way == Way::Read)?;
        let (address, len) = (borrowed.address(), borrowed.len());
        self.waits(buffer.py(), |session| {
            session.transfer(way, offset, address, len)
        })
    }

    /// Takes what has ended, and sleeps until there are `least`, the time has passed, or signals
    /// should be looked at.
    fn take(
        session: &mut Session,
        taken: &mut Vec<Done>,
        least: usize,
        most: usize,
        until: Instant,
    ) -> Result<(), Fault> {
        loop {
            while taken.len() < most
                && let Some(done) = session.poll()
            {
                taken.push(done);
            }
            let left = until.saturating_duration_since(Instant::now());
            if taken.len() >= least || left.is_zero() {
                return Ok(());
            }
            if session.outstanding() == 0 {
                let missing = least - taken.len();
                return Err(usage(
                    format!(
                        "{missing} more completions are waited for, and no request is in flight"
                    ),
                    "submit them first",
                ));
            }
            session.wait(u32::try_from(left.as_micros()).unwrap_or(u32::MAX));
        }
    }
}

/// A completion for Python: tag, buffer, error.
type Completion = (Py<PyAny>, Option<Py<PyAny>>, Option<Py<PyAny>>);

#[pymethods]
impl Device {
    /// The name that it was opened by.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The name of the path.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |session| Ok(session.path().to_owned()))
    }

    #[getter]
    fn block_size_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |session| Ok(session.geometry().block_size_bytes()))
    }

    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |session| Ok(session.geometry().size_bytes()))
    }

    #[getter]
    fn max_transfer_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |session| Ok(session.geometry().max_transfer_bytes()))
    }

    #[getter]
    fn queue_depth(&self, py: Python<'_>) -> PyResult<u16> {
        self.with(py, |session| Ok(session.geometry().queue_depth))
    }

    #[getter]
    fn volatile_write_cache(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |session| {
            Ok(session.geometry().features.volatile_write_cache)
        })
    }

    #[getter]
    fn read_only(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |session| Ok(session.geometry().features.read_only))
    }

    fn allocate(&self, py: Python<'_>, length: usize) -> PyResult<Buffer> {
        Buffer::allocate(self.handle, length).map_err(|fault| exception(py, &fault))
    }

    fn read(&self, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        self.transfer(Way::Read, offset, buffer)
    }

    #[pyo3(signature = (offset, buffer, *, durable=false))]
    fn write(&self, offset: u64, buffer: &Bound<'_, PyAny>, durable: bool) -> PyResult<()> {
        self.transfer(Way::Write { fua: durable }, offset, buffer)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.waits(py, Session::flush)
    }

    #[pyo3(signature = (offset, buffer, tag=None))]
    fn submit_read(
        &self,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        tag: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.submit(Way::Read, offset, buffer, tag)
    }

    #[pyo3(signature = (offset, buffer, tag=None, *, durable=false))]
    fn submit_write(
        &self,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        tag: Option<Py<PyAny>>,
        durable: bool,
    ) -> PyResult<()> {
        self.submit(Way::Write { fua: durable }, offset, buffer, tag)
    }

    #[pyo3(signature = (tag=None))]
    fn submit_flush(&self, py: Python<'_>, tag: Option<Py<PyAny>>) -> PyResult<()> {
        let flight = Flight {
            tag: tag.unwrap_or_else(|| py.None()),
            buffer: None,
            _borrowed: None,
        };
        self.start(py, flight, |session, number| {
            session.submit_flush(Some(number))
        })
    }

    fn kick(&self, py: Python<'_>) -> PyResult<()> {
        self.waits(py, |session| {
            session.kick();
            Ok(())
        })
    }

    #[pyo3(signature = (least=0, most=64, *, timeout_us=None))]
    fn poll(
        &self,
        py: Python<'_>,
        least: usize,
        most: usize,
        timeout_us: Option<u64>,
    ) -> PyResult<Vec<Completion>> {
        if least > most {
            let fault = usage(
                format!("at least {least} completions and at most {most}"),
                "give a larger `most`",
            );
            return Err(exception(py, &fault));
        }
        let begin = Instant::now();
        let end = timeout_us.and_then(|us| begin.checked_add(Duration::from_micros(us)));
        let mut taken = Vec::new();
        let outcome = loop {
            let now = Instant::now();
            let slice = now + SLICE;
            let until = end.map_or(slice, |end| end.min(slice));
            let done = match least {
                0 => self.with(py, |session| Self::take(session, &mut taken, 0, most, now)),
                _ => self.waits(py, |session| {
                    Self::take(session, &mut taken, least, most, until)
                }),
            };
            let outcome = done.and_then(|()| py.check_signals());
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            if outcome.is_err() || taken.len() >= least || is_late {
                break outcome;
            }
        };
        // What was taken is returned; an interruption without any is raised.
        if taken.is_empty() {
            outcome?;
        }
        let mut flights = self.flights();
        let ended = taken.into_iter().filter_map(|done| {
            let flight = flights.by_number.remove(&done.tag?)?;
            let error = done.result.err().map(|error| of_request(py, error));
            let error = error.map(|error| error.into_value(py).into_any());
            Some((flight.tag, flight.buffer, error))
        });
        Ok(ended.collect())
    }

    #[getter]
    fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |session| Ok(session.outstanding()))
    }

    fn completion_file(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.with(py, |session| Ok(session.completion_file()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle;
        let closed = detached(py, || handles::remove::<Session>(handle)?.close());
        if closed.is_ok() {
            self.flights().by_number.clear();
        }
        closed
    }
}

impl Drop for Device {
    /// As a file of Python; in another thread it stays open until its own thread ends.
    fn drop(&mut self) {
        if let Ok(session) = handles::remove::<Session>(self.handle) {
            let _ = session.close();
        }
    }
}
