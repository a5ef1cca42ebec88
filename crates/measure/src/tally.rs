// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a loop, and the errors that prevent it from running.

use block::Error;
use hdrhistogram::Histogram;

/// The longest service time that is distinguished from longer ones: 100 s.
pub(crate) const SERVICE_TIME_MAX_NS: u64 = 100_000_000_000;
/// Service times with a relative error of at most 1 %.
pub type ServiceTimes = Histogram<u32>;

/// An empty set of service times; recording into it never allocates.
///
/// # Errors
/// Never with the bounds used here.
pub fn service_times() -> Result<ServiceTimes, CellError> {
    Histogram::new_with_bounds(1, SERVICE_TIME_MAX_NS, 2).map_err(|_| CellError::Histogram)
}

/// Why a cell cannot be run at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The block size is not a multiple of the device's.
    #[error("{block_size_bytes} bytes is not a multiple of the device's block of {device_bytes}")]
    Unaligned {
        /// The requested size.
        block_size_bytes: u64,
        /// The device's logical block.
        device_bytes: usize,
    },
    /// The region that the path may use is shorter than the span that all paths share.
    #[error("the path may use {region_bytes} bytes, but the comparison spans {span_bytes}")]
    RegionTooSmall {
        /// The length of the path's region.
        region_bytes: u64,
        /// The span of the comparison.
        span_bytes: u64,
    },
    /// A buffer is not as long as a block.
    #[error("a buffer of {len_bytes} bytes was given for blocks of {block_size_bytes}")]
    BufferLength {
        /// The buffer's length.
        len_bytes: usize,
        /// The block size.
        block_size_bytes: u64,
    },
    /// The histogram of service times could not be made.
    #[error("the histogram of service times could not be made")]
    Histogram,
}

/// The results of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that succeeded.
    pub operations: u64,
    /// Transferred bytes.
    pub bytes: u64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<Error>,
    /// Whether the user ended it early.
    pub cancelled: bool,
}

impl Tally {
    /// The rate.
    pub fn mib_s(&self) -> f64 {
        let seconds = self.elapsed_ns.max(1) as f64 / 1e9;
        self.bytes as f64 / f64::from(1u32 << 20) / seconds
    }
}
