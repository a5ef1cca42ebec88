// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface that every path to storage has.

use crate::{Completion, Geometry, Refused, Request};

/// A block device: submit, kick, then poll.
///
/// Promises of every implementation:
///
/// * Each accepted request is completed exactly once, within a bounded time, whatever the
///   hardware does. A failed device completes what it holds with an error.
/// * Requests may complete in any order, and no order holds between two that overlap.
/// * `submit`, `kick` and `poll` do a bounded amount of work and never sleep, except while
///   recovering from a fault, for a bounded and documented time.
pub trait Device {
    /// Shape and limits.
    fn geometry(&self) -> &Geometry;

    /// Accepts a request. The device may hold it back until [`kick`](Device::kick).
    ///
    /// # Errors
    /// The request, given back, with the reason.
    #[allow(clippy::result_large_err)]
    fn submit(&mut self, request: Request) -> Result<(), Refused>;

    /// Starts everything that was submitted: one doorbell or system call for all of it.
    fn kick(&mut self);

    /// The next completion, if any.
    fn poll(&mut self) -> Option<Completion>;

    /// Number of accepted requests whose completion has not been polled.
    fn outstanding(&self) -> usize;

    /// Sleeps until a completion may be available or about `timeout_us` microseconds have passed. A
    /// polled device returns immediately.
    fn wait(&mut self, timeout_us: u32) {
        let _ = timeout_us;
        core::hint::spin_loop();
    }

    /// A file descriptor of the operating system that is readable while a completion may be
    /// available, for a thread that waits for something else at the same time. It is valid as long
    /// as the device. None: only [`wait`](Device::wait) can tell.
    fn completion_file(&self) -> Option<i32> {
        None
    }
}

/// Implements [`Device`] for a type by the methods of one of its fields, which is a device or
/// points to one.
#[macro_export]
macro_rules! forward_device {
    ($type:ty, $field:tt) => {
        impl $crate::Device for $type {
            fn geometry(&self) -> &$crate::Geometry {
                self.$field.geometry()
            }

            fn submit(
                &mut self,
                request: $crate::Request,
            ) -> ::core::result::Result<(), $crate::Refused> {
                self.$field.submit(request)
            }

            fn kick(&mut self) {
                self.$field.kick();
            }

            fn poll(&mut self) -> ::core::option::Option<$crate::Completion> {
                self.$field.poll()
            }

            fn outstanding(&self) -> usize {
                self.$field.outstanding()
            }

            fn wait(&mut self, timeout_us: u32) {
                self.$field.wait(timeout_us);
            }

            fn completion_file(&self) -> ::core::option::Option<i32> {
                self.$field.completion_file()
            }
        }
    };
}

impl<D: Device + ?Sized> Device for &mut D {
    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        (**self).submit(request)
    }

    fn kick(&mut self) {
        (**self).kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        (**self).poll()
    }

    fn outstanding(&self) -> usize {
        (**self).outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        (**self).wait(timeout_us);
    }

    fn completion_file(&self) -> Option<i32> {
        (**self).completion_file()
    }
}
