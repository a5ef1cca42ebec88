// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An error of the library as an exception of `straightway`.

use library::error::{Fault, Status};
use library::wording::Keywords;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `straightway._errors.exception(code, text, hint)`, which chooses the class.
static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for a fault.
pub fn exception(py: Python<'_>, fault: &Fault) -> PyErr {
    match fault {
        Fault::Error(error) => {
            let hint = error.hint_in(&Keywords).unwrap_or_default();
            made(
                py,
                Status::of(error) as u8,
                &error.what_in(&Keywords),
                &hint,
            )
        }
        Fault::Again => made(
            py,
            Status::Again as u8,
            "the queue is full",
            "poll a completion, then submit again",
        ),
    }
}

/// The exception for a request that a device answered with an error.
pub fn of_request(py: Python<'_>, error: block::Error) -> PyErr {
    exception(py, &api::Error::request("a request", error).into())
}

fn made(py: Python<'_>, code: u8, what: &str, hint: &str) -> PyErr {
    let maker = MAKER.get_or_try_init(py, || {
        Ok::<_, PyErr>(
            py.import("straightway._errors")?
                .getattr("exception")?
                .unbind(),
        )
    });
    match maker.and_then(|maker| maker.call1(py, (code, what, hint))) {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => error,
    }
}
