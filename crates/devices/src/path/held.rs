// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order in which a borrowed drive is released: first everything open on it is closed, then it
//! is returned.
//!
//! The kernel does not unbind a function from vfio-pci while a process has it open: unbinding waits
//! uninterruptibly for a descriptor that the waiting process itself may hold. So nothing is opened
//! independently of a loan: [`Held`] owns both, and on every path the loan ends last.

use crate::error::{Error, Result};
use block::{Completion, Device, Geometry, Refused, Request};
use std::ops::{Deref, DerefMut};

/// A resource that ends when nothing is open on it any more. Dropping it also ends it, but ignores
/// the error.
pub trait Ends {
    /// Ends the resource.
    ///
    /// # Errors
    /// Something could not be restored; the next run tries again.
    fn end(self) -> Result<()>;
}

/// Nothing was borrowed.
impl Ends for () {
    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl<L: Ends> Ends for Option<L> {
    fn end(self) -> Result<()> {
        self.map_or(Ok(()), L::end)
    }
}

/// Shared by everything open on it: dropping the last handle ends it.
impl<L: Ends> Ends for std::sync::Arc<L> {
    fn end(self) -> Result<()> {
        match Self::into_inner(self) {
            Some(loan) => loan.end(),
            None => Err(Error::missing("the drive is still open")),
        }
    }
}

/// Something open on a loan. Dropped, it is closed before the loan ends.
#[derive(Debug)]
pub struct Held<T, L> {
    // Fields are dropped in the order of their declaration.
    open: T,
    loan: L,
}

impl<T, L> Held<T, L> {
    /// Opens something on `loan`; if that fails, the loan ends afterwards.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn open(loan: L, open: impl FnOnce() -> Result<T>) -> Result<Self> {
        Held { open: (), loan }.and_then(|()| open())
    }

    /// Converts what is open; if that fails, `step` has closed its argument (a [`Error`] holds
    /// nothing open), and the loan ends afterwards.
    ///
    /// # Errors
    /// The error of `step`.
    pub fn and_then<U>(self, step: impl FnOnce(T) -> Result<U>) -> Result<Held<U, L>> {
        let Self { open, loan } = self;
        let open = step(open)?;
        Ok(Held { open, loan })
    }
}

impl<T, L: Ends> Held<T, L> {
    /// Closes what is open, then ends the loan.
    ///
    /// # Errors
    /// The error of [`Ends::end`].
    pub fn close(self, close: impl FnOnce(T)) -> Result<()> {
        let Self { open, loan } = self;
        close(open);
        loan.end()
    }
}

impl<T, L> Deref for Held<T, L> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.open
    }
}

impl<T, L> DerefMut for Held<T, L> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.open
    }
}

impl<T: Device, L> Device for Held<T, L> {
    fn geometry(&self) -> &Geometry {
        self.open.geometry()
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        self.open.submit(request)
    }

    fn kick(&mut self) {
        self.open.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.open.poll()
    }

    fn outstanding(&self) -> usize {
        self.open.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.open.wait(timeout_us);
    }

    fn completion_file(&self) -> Option<i32> {
        self.open.completion_file()
    }
}
