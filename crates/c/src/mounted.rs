// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mounted volume, and what it borrows: the device and the table of open files.
//!
//! `unsafe` is here because a handle lives as long as C wants, and a volume no longer than its
//! borrow: both are on the heap, and [`Mounted`] frees them after the volume.
#![allow(unsafe_code)]

use api::{DeviceOptions, Error, OpenFile, Volume, VolumeDevice, VolumeFile};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The most files of a volume that are open at the same time.
const FILES: usize = 64;

type Files = [OpenFile; FILES];

/// A mounted volume and its device.
pub struct Mounted {
    volume: ManuallyDrop<Volume<'static>>,
    device: NonNull<VolumeDevice>,
    files: NonNull<Files>,
}

impl Mounted {
    /// Opens the device of this name, and mounts its volume.
    ///
    /// # Errors
    /// The device cannot be opened, or has no volume that can be mounted.
    pub fn open(name: &str, options: &DeviceOptions<'_>) -> Result<Self, Error> {
        let mut device = NonNull::from(Box::leak(Box::new(VolumeDevice::open(name, options)?)));
        let mut files = NonNull::from(Box::leak(Box::new([const { OpenFile::new() }; FILES])));
        // SAFETY: both were just leaked, nothing else refers to them, and they are freed only by
        // `free`.
        let mounted = unsafe { device.as_mut().mount(files.as_mut()) };
        match mounted {
            Ok(volume) => Ok(Self {
                volume: ManuallyDrop::new(volume),
                device,
                files,
            }),
            // SAFETY: nothing was mounted, so nothing borrows them.
            Err(error) => unsafe { free(device, files) }.close_after(Err(error)),
        }
    }

    /// The volume, for as long as this exists.
    pub fn volume(&self) -> &Volume<'static> {
        &self.volume
    }

    /// Closes these files, unmounts, and closes the device: all of it in every case.
    ///
    /// # Errors
    /// The first error.
    pub fn close(self, files: Vec<VolumeFile>) -> Result<(), Error> {
        let mut result = Ok(());
        for file in files {
            result = result.and(file.close(&self.volume));
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the volume is taken once; then nothing borrows the
        // device and the table.
        let (unmounted, device) = unsafe {
            let volume = ManuallyDrop::take(&mut this.volume);
            (volume.unmount(), free(this.device, this.files))
        };
        device.close_after(result.and(unmounted))
    }
}

impl Drop for Mounted {
    /// Without [`close`](Mounted::close), at the end of its thread: the volume is left as a power
    /// cut leaves it.
    fn drop(&mut self) {
        // SAFETY: the volume is dropped once, before what it borrows.
        unsafe {
            ManuallyDrop::drop(&mut self.volume);
            drop(free(self.device, self.files));
        }
    }
}

/// Frees the table, and gives the device back.
///
/// # Safety
/// Both are of [`Mounted::open`], and nothing borrows them.
unsafe fn free(device: NonNull<VolumeDevice>, files: NonNull<Files>) -> VolumeDevice {
    // SAFETY: this function's contract.
    let (device, files) = unsafe {
        (
            Box::from_raw(device.as_ptr()),
            Box::from_raw(files.as_ptr()),
        )
    };
    drop(files);
    *device
}
