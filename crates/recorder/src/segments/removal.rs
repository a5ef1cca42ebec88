// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removing files while data flows.

use super::files::{Failed, gaps_name};
use files::turns::pass;
use files::{AnyVolume, Mounted, shown};
use volume::{Error, File};

/// Removes a file and frees its space, once no other process reads it: each read of those has its
/// end.
pub(super) async fn remove(volume: &AnyVolume<'_>, name: &str) -> std::result::Result<(), Error> {
    loop {
        match volume.remove_whole(name).await {
            Err(Error::InUse) => pass().await,
            result => return result,
        }
    }
}

/// Removes a file that has nothing, and its companion.
pub(super) async fn discard_unused(
    mounted: &Mounted<'_, '_>,
    name: String,
    file: File,
    gap_file: Option<File>,
) -> std::result::Result<(), Failed> {
    let volume = mounted.volume;
    let at = |error| (format!("removing `{}`", shown(&name)), error);
    volume.close(file).await.map_err(at)?;
    remove(volume, &name).await.map_err(at)?;
    if let Some(gap_file) = gap_file {
        volume.close(gap_file).await.map_err(at)?;
        remove(volume, &gaps_name(&name)).await.map_err(at)?;
    }
    Ok(())
}
