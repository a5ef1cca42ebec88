// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operation costs the processor, by counting: instructions and calls of the kernel repeat,
//! on a machine whose times do not.
//!
//! Waiting for the drive is not work. Where a path sleeps, the counter leaves out the idle loop;
//! where it polls, counting pauses before each look, and a look that finds nothing does not count.
//! The loop's own instructions are counted with a device that answers at once, and
//! subtracted.

mod batches;
mod counting;

pub(crate) use counting::cost;

use crate::path::Missing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a processor did between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions of user space.
    pub user_instructions: u64,
    /// Instructions of the kernel, in any context, without its idle loop.
    pub kernel_instructions: u64,
    /// Calls of the kernel.
    pub system_calls: u64,
    /// Whether the processor was idle in between.
    pub has_waited: bool,
}

/// Counts what the processor does.
pub trait WorkCounter {
    /// What it counts with, for the report.
    fn source(&self) -> String;

    /// Counts from here on.
    fn start(&mut self);

    /// Counts up to here.
    fn stop(&mut self);

    /// The work between each start and stop since the last call, in order.
    ///
    /// # Errors
    /// The counts cannot be read.
    fn take(&mut self) -> Result<Vec<Work>, Missing>;
}

/// What one operation costs, less the loop that measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Instructions of user space and of the kernel.
    pub instructions: f64,
    /// Those of user space.
    pub user_instructions: f64,
    /// Calls of the kernel.
    pub system_calls: f64,
}
