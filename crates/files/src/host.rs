// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file system that holds a volume in a plain file.

use devices::Context;
use devices::error::folder_of;
use std::path::Path;
use units::rounded;

/// Warns if a plain file with a volume is to have a length for which its file system has no room:
/// the file has holes, so nothing fails until they are written.
pub(crate) fn warn_of_length(context: &Context, path: &Path, len_bytes: u64) {
    let Ok(host) = rustix::fs::statvfs(folder_of(path)) else {
        return;
    };
    let free_bytes = host.f_bavail.saturating_mul(host.f_frsize);
    if len_bytes > free_bytes {
        context.say(format_args!(
            "warning: {} can need {}, and its file system has only {} free: writes will fail there before the volume is full",
            path.display(),
            rounded(len_bytes),
            rounded(free_bytes),
        ));
    }
}
