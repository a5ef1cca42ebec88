// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the options of the verbs that measure to a bench, and what comparisons have in common.

pub mod compared;
pub mod setup;
