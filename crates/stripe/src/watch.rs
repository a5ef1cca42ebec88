// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to an array's members, for its owner.

use block::Error;

/// Something that happened to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayEvent {
    /// A member refused or failed a part of a request. A stripe's request fails with it; a mirror's
    /// read is tried on another member.
    Failed {
        /// Which member, from 0.
        member: usize,
        /// Its error.
        error: Error,
    },
    /// A mirror no longer uses a member: it missed a write, and must be rebuilt.
    Stale {
        /// Which member, from 0.
        member: usize,
    },
    /// A rebuild has copied this much.
    Rebuilt {
        /// Blocks that are equal.
        done_blocks: u64,
        /// Blocks in all.
        all_blocks: u64,
    },
    /// A rebuild has ended: all members in use are equal.
    Equal,
    /// A mirror's label could not be stored on a member that remains.
    LabelFailed {
        /// Which member, from 0.
        member: usize,
        /// Its error.
        error: Error,
    },
}

/// Is told of an array's events, while requests are submitted and polled. It must not block.
pub trait Watch {
    /// Something happened.
    fn event(&mut self, event: ArrayEvent);
}

/// Ignores all events.
impl Watch for () {
    fn event(&mut self, _: ArrayEvent) {}
}

impl<F: FnMut(ArrayEvent)> Watch for F {
    fn event(&mut self, event: ArrayEvent) {
        self(event);
    }
}
