// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status --textfile`: metrics in a file that the textfile collector of Prometheus' node exporter
//! reads, whole at each time.

use super::{Status, metrics, wait_until};
use crate::Context;
use crate::exit::Exit;
use devices::error::{ErrorKind, Result};
use devices::guard::Output;
use live::RecordingStatus;
use live::reader::Live;
use std::path::Path;
use std::time::Instant;

impl Status {
    /// Writes the file again and again until the recording ends, and then that it has.
    pub(super) fn keep_textfile(
        &self,
        context: &Context,
        live: &mut Live,
        path: &Path,
    ) -> Result<Exit> {
        let mut has_begun = false;
        loop {
            let status = match live.status() {
                Err(failure) if failure.kind() == ErrorKind::Missing && has_begun => {
                    write(context, path, &self.device, None)?;
                    return self.ended(context, live.end());
                }
                status => status?,
            };
            has_begun = true;
            let now = Instant::now();
            write(context, path, &self.device, Some(&status))?;
            wait_until(context, now + self.every())?;
        }
    }
}

/// Replaces the file. It is of this verb, so that it needs no consent.
pub(super) fn write(
    context: &Context,
    path: &Path,
    device: &str,
    status: Option<&RecordingStatus>,
) -> Result<()> {
    let output = Output::check(&context.roots, path, metrics::is_own(path), None)?;
    let mut output = output.open(&context.cancel)?;
    output.take(metrics::for_node_exporter(device, status).as_bytes())?;
    output.finish()
}
