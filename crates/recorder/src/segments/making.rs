// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making and closing a file of a recording and its companion, while data flows.

use super::files::{Ended, Outcome, gaps_name};
use super::oldest::Oldest;
use super::removal::remove;
use super::segment::Segment;
use super::tag::MADE;
use files::{Mounted, shown};
use volume::{CreateOptions, Error, File};

/// A file and its companion.
pub(super) struct Made {
    pub file: File,
    pub gap_file: Option<File>,
}

/// Makes a file and its companion, and returns what was removed for them, also where they were not
/// made.
pub(super) async fn make(
    mounted: &Mounted<'_, '_>,
    name: String,
    options: CreateOptions,
    gap_bytes: Option<u64>,
    mut oldest: Oldest,
) -> (Oldest, Outcome<Made>) {
    let made = make_both(mounted, name, options, gap_bytes, &mut oldest).await;
    (oldest, made)
}

/// Makes a file and its companion. Removes those of `oldest` before that are too many, and more of
/// them if the volume is full.
async fn make_both(
    mounted: &Mounted<'_, '_>,
    name: String,
    options: CreateOptions,
    gap_bytes: Option<u64>,
    oldest: &mut Oldest,
) -> Outcome<Made> {
    while oldest.removed < oldest.due && oldest.discard(mounted).await? {}
    // The companion first: without room for a line, what is lost later would end the recording.
    let mut gap_file = None;
    if let Some(reserve_bytes) = gap_bytes {
        let options = CreateOptions {
            reserve_bytes,
            app_tag: MADE,
            ..CreateOptions::default()
        };
        gap_file = Some(create(mounted, &gaps_name(&name), &options, oldest).await?);
    }
    let file = match create(mounted, &name, &options, oldest).await {
        Ok(file) => file,
        Err(failed) => {
            if let Some(gap_file) = gap_file {
                let _ = mounted.volume.close(gap_file).await;
                let _ = mounted.volume.remove(&gaps_name(&name)).await;
            }
            return Err(failed);
        }
    };
    Ok(Made { file, gap_file })
}

/// Makes a file. As long as the volume has no room for it, another one of `oldest` is removed.
async fn create(
    mounted: &Mounted<'_, '_>,
    name: &str,
    options: &CreateOptions,
    oldest: &mut Oldest,
) -> Outcome<File> {
    let volume = mounted.volume;
    let mut options = *options;
    loop {
        volume.set_time((mounted.wall_ns)());
        let error = match volume.with_space(|| volume.create(name, &options)).await {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let is_full = matches!(error, Error::NoSpace | Error::TableFull);
        let is_early = error == Error::TableFull && oldest.removed >= oldest.due;
        if is_full && oldest.discard(mounted).await? {
            let name = oldest.whole.get(oldest.removed.saturating_sub(1));
            oldest.early.extend(
                name.filter(|_| is_early)
                    .map(|segment| segment.name.clone()),
            );
            continue;
        }
        if error == Error::NoSpace && oldest.may_be_bare && options.reserve_bytes > 0 {
            // Its recorder reserves as it goes: once the file before it is whole, that can be
            // removed.
            options.reserve_bytes = 0;
            continue;
        }
        return Err((format!("making `{}`", shown(name)), error));
    }
}

/// Closes a file and its companion, which is removed if it names nothing.
pub(super) async fn close(mounted: &Mounted<'_, '_>, ended: Ended) -> Outcome<Segment> {
    let volume = mounted.volume;
    let at = |error| (format!("closing `{}`", shown(&ended.name)), error);
    let mut gaps = 0;
    if let Some((gap_file, count)) = ended.gaps {
        volume.close(gap_file).await.map_err(at)?;
        if count == 0 {
            let removed = remove(volume, &gaps_name(&ended.name)).await;
            removed.map_err(at)?;
        }
        gaps = count;
    }
    volume.close(ended.file).await.map_err(at)?;
    Ok(Segment {
        length_bytes: ended.length_bytes,
        gaps,
        lost_bytes: ended.lost_bytes,
        name: ended.name,
    })
}
