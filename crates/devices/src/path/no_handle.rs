// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands for a controller's handle without the drive stack: this process drives no
//! controller, and nothing makes one.

use crate::error::Result;
use std::marker::PhantomData;

/// An enabled controller that this process drives.
pub trait ControllerHandle {
    /// The controller's serial number.
    fn serial(&self) -> String;

    /// Shuts the drive down.
    ///
    /// # Errors
    /// The drive could not be returned to its driver.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Reports whether the machine recalls an open drive, which is never one of this process here.
#[derive(Clone, Copy)]
pub struct Recall<'r>(PhantomData<&'r ()>);

impl<'r> Recall<'r> {
    /// Of a device that the machine does not recall.
    pub const NONE: Self = Self(PhantomData);

    pub(super) fn of(_: Option<&'r dyn ControllerHandle>) -> Self {
        Self(PhantomData)
    }

    /// Whether the drive must be closed now.
    pub fn is_requested(self) -> bool {
        false
    }
}
