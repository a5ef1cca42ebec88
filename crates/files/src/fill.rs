// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores a stream in a file: one thread reads the source into the device's buffers, this thread
//! keeps the device busy. The bytes are never copied.

use crate::Mounted;
use crate::flow::Flow;
use devices::Bar;
use devices::cancel::Cancel;
use devices::error::Result;
use devices::transfer::pump::{Fill, Job, fill as pump};
use devices::transfer::{Moved, Span};
use volume::File;

/// Appends all of the source to an empty file. Nothing is in flight when it returns, and nothing
/// is committed.
///
/// # Errors
/// The source or the volume failed, or the user cancelled.
pub fn fill(
    mounted: &Mounted<'_, '_>,
    file: File,
    pace: Span,
    source: &mut Fill<'_>,
    bar: &Bar,
    cancel: &Cancel,
) -> Result<Moved> {
    let mut flow = Flow::append(mounted, file)?;
    let job = Job {
        doing: &format_args!("writing to {}", mounted.drive),
        span: pace,
        most_bytes: usize::MAX,
        memory: mounted.memory,
        progress: &mut |bytes| bar.set_position(bytes),
        stop: &|| cancel.is_set(),
    };
    pump(&mut flow, job, source)
}
