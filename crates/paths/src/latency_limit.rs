// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of what a drive's autonomous power state transitions may delay a command by.

#[cfg(feature = "reports")]
use schemars::JsonSchema;
#[cfg(feature = "reports")]
use serde::{Deserialize, Serialize};

/// What limited a drive's autonomous power state transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "reports", derive(Serialize, Deserialize, JsonSchema))]
#[cfg_attr(feature = "reports", serde(rename_all = "snake_case"))]
pub enum LimitedBy {
    /// The measuring process, by Set Features; a reset of the controller at the end undid it.
    Driver,
    /// The kernel's driver, by its attribute `power/pm_qos_latency_tolerance_us`, which got its
    /// value back.
    Kernel,
    /// Nothing had to: the drive has no autonomous transitions, or none that are longer.
    Nothing,
}

/// The limit of what power states may delay a command by, on the paths of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "reports", derive(Serialize, Deserialize, JsonSchema))]
pub struct LatencyLimit {
    /// The group of paths.
    pub group: String,
    /// The limit, in microseconds; 0 switches the transitions off.
    pub limit_us: u32,
    /// What set it.
    pub by: LimitedBy,
    /// The longest delay that the drive then reported, in microseconds; null if it could not be
    /// read.
    pub worst_latency_us: Option<u32>,
    /// The attribute's value before and after: microseconds, `auto` or `any`; null without an
    /// attribute.
    pub before: Option<String>,
}

impl std::fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            group, limit_us, ..
        } = self;
        match (self.by, self.worst_latency_us) {
            (LimitedBy::Nothing, _) => write!(f, "{group}: {limit_us} us, nothing to limit"),
            (_, Some(worst_us)) => write!(f, "{group}: {limit_us} us, {worst_us} us set"),
            (_, None) => write!(f, "{group}: {limit_us} us"),
        }
    }
}
