// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a series of measurements says, and with what certainty.
//!
//! Rounds of one measurement are a time series: neighbours resemble each other, so the usual
//! intervals are too narrow. Each module states what it assumes, and gives no figure from too few
//! samples. Nothing here knows of drives, clocks or files: samples come as slices, in the order in
//! which they were taken.
//!
//! ```
//! # use straightway_statistics as statistics;
//! use statistics::stats;
//!
//! let mib_s = [101.0, 99.0, 102.0, 100.0, 98.0, 101.0];
//! let [low, high] = stats::mean_interval(&mib_s, 1).expect("five rounds are enough");
//! assert!(low < 100.0 && 100.5 < high);
//! assert_eq!(stats::mean_interval(&mib_s[..3], 1), None);
//! ```

pub mod random;
pub mod shape;
pub mod stats;
pub mod tail;
pub mod trend;
pub mod warm_up;
