// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mounted volume and its files.

use crate::error::exception;
use crate::memory::Borrowed;
use crate::{Given, detached};
use api::{CreateOptions, Error, FormatOptions, NewFile, StoredFile};
use library::handles::{self, Open};
use library::mounted::Mounted;
use pyo3::prelude::*;

/// A mounted volume. It belongs to the thread that opened it.
#[pyclass(frozen, module = "straightway._native")]
pub struct Volume(u64);

/// An open file of a volume. It belongs to the thread that opened it.
#[pyclass(frozen, module = "straightway._native")]
pub struct File(u64);

/// Name, size, allocated bytes, time of change in ns, tag, checksums; and the slot after it.
type Listed = (String, u64, u64, u64, u64, bool, u32);

/// Capacity, free bytes, unit, slots, checksums, read-only, identity, label.
type State = (u64, u64, u64, u32, bool, bool, [u8; 16], String);

fn listed(entry: &StoredFile) -> Listed {
    (
        entry.name.as_str().to_owned(),
        entry.size_bytes,
        entry.allocated_bytes,
        entry.mtime_ns,
        entry.app_tag,
        entry.checksums,
        entry.slot + 1,
    )
}

/// Makes an empty volume on the device that the command calls `name`.
#[pyfunction]
#[pyo3(signature = (name, *, destroy_data=None, force=false, checksums=false, volume_bytes=None, unit_bytes=None, slots=None, label=""))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn format(
    py: Python<'_>,
    name: &str,
    destroy_data: Option<&str>,
    force: bool,
    checksums: bool,
    volume_bytes: Option<u64>,
    unit_bytes: Option<u64>,
    slots: Option<u32>,
    label: &str,
) -> PyResult<()> {
    let options = FormatOptions {
        volume_bytes,
        unit_bytes,
        slots,
        checksums,
        label,
        destroy_data,
        force,
    };
    detached(py, || Ok(api::format(name, &options)?))
}

/// Makes the volume on the device that the command calls `name` longer or shorter; its size then.
#[pyfunction]
#[pyo3(signature = (name, volume_bytes=None, *, path=None, mode=None, namespace_id=None))]
pub fn resize(
    py: Python<'_>,
    name: &str,
    volume_bytes: Option<u64>,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
) -> PyResult<u64> {
    let given = Given {
        path,
        mode,
        namespace_id,
        ..Given::default()
    };
    detached(py, || {
        Ok(api::resize(name, &given.options(), volume_bytes)?)
    })
}

/// Opens the volume on the device that the command calls `name`.
#[pyfunction]
#[pyo3(signature = (name, *, write=false, path=None, mode=None, namespace_id=None, buffer_bytes=None))]
pub fn open_volume(
    py: Python<'_>,
    name: &str,
    write: bool,
    path: Option<String>,
    mode: Option<String>,
    namespace_id: Option<u32>,
    buffer_bytes: Option<usize>,
) -> PyResult<Volume> {
    let given = Given {
        write,
        path,
        mode,
        namespace_id,
        buffer_bytes,
        ..Given::default()
    };
    let handle = detached(py, || {
        handles::check_room()?;
        handles::add(Open::Volume(Box::new(Mounted::open(
            name,
            &given.options(),
        )?)))
    })?;
    Ok(Volume(handle))
}

impl Volume {
    fn waits<T: Send>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&Mounted) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let volume = self.0;
        detached(py, move || {
            handles::with(volume, |mounted: &mut Mounted| Ok(use_it(mounted)?))
        })
    }

    fn opened(
        &self,
        py: Python<'_>,
        open: impl FnOnce(&Mounted) -> Result<api::VolumeFile, Error> + Send,
    ) -> PyResult<File> {
        let volume = self.0;
        let handle = detached(py, move || {
            handles::check_room()?;
            let file = handles::with(volume, |mounted: &mut Mounted| Ok(open(mounted)?))?;
            handles::add(Open::File(file, volume))
        })?;
        Ok(File(handle))
    }
}

#[pymethods]
impl Volume {
    fn status(&self, py: Python<'_>) -> PyResult<State> {
        self.waits(py, |mounted| {
            let found = mounted.volume().status();
            let end = found.label.iter().position(|&byte| byte == 0);
            let label = &found.label[..end.unwrap_or(found.label.len())];
            Ok((
                found.shape.unit_count() * found.shape.unit_bytes(),
                mounted.volume().free_bytes()?,
                found.shape.unit_bytes(),
                found.shape.slot_count(),
                found.checksums,
                found.read_only,
                found.uuid,
                String::from_utf8_lossy(label).into_owned(),
            ))
        })
    }

    fn next(&self, py: Python<'_>, cursor: u32) -> PyResult<Option<Listed>> {
        self.waits(py, |mounted| {
            Ok(mounted.volume().next_file(cursor)?.as_ref().map(listed))
        })
    }

    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Listed> {
        self.waits(py, |mounted| Ok(listed(&mounted.volume().find(name)?)))
    }

    fn rename(&self, py: Python<'_>, name: &str, new_name: &str) -> PyResult<()> {
        self.waits(py, |mounted| mounted.volume().rename(name, new_name))
    }

    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.waits(py, |mounted| mounted.volume().remove(name))
    }

    /// Returns how many were removed, and the error of the first that was not.
    fn remove_many(&self, py: Python<'_>, names: Vec<String>) -> PyResult<(usize, Option<PyErr>)> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (removed, result) =
            self.waits(py, |mounted| Ok(mounted.volume().remove_many(&names)))?;
        Ok((
            removed,
            result.err().map(|error| exception(py, &error.into())),
        ))
    }

    fn open_file(&self, py: Python<'_>, name: &str, append: bool) -> PyResult<File> {
        self.opened(py, |mounted| mounted.volume().open(name, append))
    }

    fn create_file(
        &self,
        py: Python<'_>,
        name: &str,
        reserve_bytes: u64,
        checksums: bool,
        app_tag: u64,
    ) -> PyResult<File> {
        let options = CreateOptions {
            reserve_bytes,
            checksums,
            app_tag,
        };
        self.opened(py, |mounted| mounted.volume().create(name, &options))
    }

    /// Returns how many were made, and the error of the first that was not.
    fn create_many(
        &self,
        py: Python<'_>,
        files: Vec<(String, Bound<'_, PyAny>)>,
        checksums: bool,
        app_tag: u64,
        mtime_ns: u64,
    ) -> PyResult<(usize, Option<PyErr>)> {
        let memory = files.iter().map(|(_, data)| Borrowed::of(data, false));
        let memory = memory.collect::<PyResult<Vec<Borrowed>>>()?;
        let new = files.iter().zip(&memory);
        let new = new.map(|((name, _), data)| NewFile {
            name,
            data: data.bytes(),
            mtime_ns,
            app_tag,
        });
        let new: Vec<NewFile<'_>> = new.collect();
        let (made, result) = self.waits(py, |mounted| {
            Ok(mounted.volume().create_many(&new, checksums))
        })?;
        Ok((made, result.err().map(|error| exception(py, &error.into()))))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let volume = self.0;
        detached(py, || {
            let (mounted, files) = handles::remove_volume(volume)?;
            Ok(mounted.close(files)?)
        })
    }
}

impl Drop for Volume {
    /// As a file of Python; in another thread it stays open until its own thread ends, and is left
    /// as a power cut leaves it.
    fn drop(&mut self) {
        if let Ok((mounted, files)) = handles::remove_volume(self.0) {
            let _ = mounted.close(files);
        }
    }
}

#[pymethods]
impl File {
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.0;
        detached(py, || {
            handles::with_file(file, |mounted, file| Ok(file.size_bytes(mounted.volume())?))
        })
    }

    fn read(&self, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut borrowed = Borrowed::of(buffer, true)?;
        let (file, data) = (self.0, borrowed.bytes_mut());
        detached(buffer.py(), || {
            handles::with_file(file, |mounted, file| {
                Ok(file.read(mounted.volume(), offset, data)?)
            })
        })
    }

    fn append(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let borrowed = Borrowed::of(buffer, false)?;
        let (file, data) = (self.0, borrowed.bytes());
        detached(buffer.py(), || {
            handles::with_file(file, |mounted, file| {
                file.append(mounted.volume(), data)?;
                Ok(data.len())
            })
        })
    }

    fn set_app_tag(&self, py: Python<'_>, app_tag: u64) -> PyResult<()> {
        let file = self.0;
        detached(py, || {
            handles::with_file(file, |mounted, file| {
                Ok(file.set_app_tag(mounted.volume(), app_tag)?)
            })
        })
    }

    fn sync(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.0;
        detached(py, || {
            handles::with_file(file, |mounted, file| Ok(file.sync(mounted.volume())?))
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0;
        detached(py, || {
            let (file, volume) = handles::remove_file(file)?;
            handles::with(volume, |mounted: &mut Mounted| {
                Ok(file.close(mounted.volume())?)
            })
        })
    }
}
