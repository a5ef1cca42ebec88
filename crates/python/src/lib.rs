// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway._native`: devices and volumes for Python. The package around it is in
//! `python/straightway`.
//!
//! | module | contents |
//! | --- | --- |
//! | `device` | an open device: calls that wait, and a queue of requests |
//! | `volume` | a mounted volume and its files |
//! | `recorder` | a recording in progress |
//! | `player` | a playback in progress |
//! | `map` | a file or a device as memory |
//! | `memory` | a device's memory as a buffer of Python, and Python's buffers as memory |
//! | `error` | an error of the library as an exception |
//!
//! A map is used by any thread. Each other object has a handle of `libstraightway`, with the same
//! rules: it belongs to the thread that opened it, and a closed one is an error. The interpreter's
//! lock is released while a call waits for a device.
#![deny(unsafe_code)]

mod device;
mod error;
mod map;
mod memory;
mod player;
mod recorder;
mod volume;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::device::{Device, open_device};
    #[pymodule_export]
    use super::map::{Map, open_map};
    #[pymodule_export]
    use super::memory::Buffer;
    #[pymodule_export]
    use super::player::{Player, open_player};
    #[pymodule_export]
    use super::recorder::{Recorder, open_recorder};
    #[pymodule_export]
    use super::volume::{File, Volume, format, open_volume, resize};
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// How a device or a volume is opened, from Python's arguments.
#[derive(Default)]
struct Given {
    write: bool,
    destroy_data: Option<String>,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
    buffer_bytes: Option<usize>,
    queue_depth: Option<u16>,
}

impl Given {
    fn options(&self) -> api::DeviceOptions<'_> {
        let usual = api::DeviceOptions::default();
        api::DeviceOptions {
            path: self.path.as_deref(),
            mode: self.mode.as_deref(),
            namespace: self.namespace_id,
            write: self.write,
            destroy_data: self.destroy_data.as_deref(),
            buffer_bytes: self.buffer_bytes.unwrap_or(usual.buffer_bytes),
            queue_depth: self.queue_depth.unwrap_or(usual.queue_depth),
        }
    }
}

/// Runs a call of the library without the interpreter's lock.
fn detached<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, library::error::Fault> + Send,
) -> PyResult<T> {
    py.detach(call)
        .map_err(|fault| error::exception(py, &fault))
}
