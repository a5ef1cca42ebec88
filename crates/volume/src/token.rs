// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to node SLOT, checked by the compiler: the buffer that holds the current slot.
//!
//! The types are zero-sized: they cost nothing at run time.

use core::marker::PhantomData;

/// The right to load a slot into node SLOT. Only the operation that has the turn holds it.
#[derive(Debug)]
pub(crate) struct SlotNode<'t>(PhantomData<&'t mut ()>);

impl SlotNode<'_> {
    /// For [`crate::io::Turn`] only, of which there is one at a time.
    pub(crate) const fn of_turn() -> Self {
        Self(PhantomData)
    }

    /// The same right for a shorter time: for one load, and as long as the loaded slot is used.
    pub(crate) fn lend(&mut self) -> SlotNode<'_> {
        SlotNode(PhantomData)
    }
}

/// Node SLOT holds a slot that was loaded, perhaps changed in memory since. While a value of this
/// type can be used, no other slot can be loaded there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded<'n>(PhantomData<&'n ()>);

impl<'n> Loaded<'n> {
    /// For code that has just loaded a slot with the right to do so.
    pub(crate) const fn into(_: &SlotNode<'n>) -> Self {
        Self(PhantomData)
    }
}
