// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oldest files of a ring, which are removed for another one.

use super::described::{self, Descriptions};
use super::files::{Failed, gaps_name};
use super::removal::remove;
use super::segment::Segment;
use super::tag::{MADE, is_made};
use files::{Mounted, shown};
use volume::{Error, NewFile};

/// The files of a ring that are whole.
pub(super) struct Oldest {
    /// The oldest first.
    pub whole: Vec<Segment>,
    /// How many of them may be removed.
    pub removable: usize,
    /// What comes behind all of them.
    pub next: String,
    pub descriptions: Descriptions,
    pub removed: usize,
    /// How many of them all that is kept has too much.
    pub due: usize,
    /// Which were removed before that, because another file had no slot.
    pub early: Vec<String>,
    /// The removal of one failed, after which no other is tried.
    pub is_broken: bool,
    /// Whether a file is made without space of its own when nothing is left to remove.
    pub may_be_bare: bool,
}

impl Oldest {
    /// Removes the oldest file and its companions, after the next one has its description; false:
    /// none may be removed.
    ///
    /// On a full volume the description gets the space of the file's data. A power cut between the
    /// two leaves the next file without a description, and usually the removed file's own.
    pub async fn discard(
        &mut self,
        mounted: &Mounted<'_, '_>,
    ) -> std::result::Result<bool, Failed> {
        let discarded = self.discard_one(mounted).await;
        self.is_broken |= discarded.is_err();
        discarded
    }

    async fn discard_one(
        &mut self,
        mounted: &Mounted<'_, '_>,
    ) -> std::result::Result<bool, Failed> {
        let removed = self.whole.get(self.removed);
        let Some(segment) = removed.filter(|_| self.removed < self.removable) else {
            return Ok(false);
        };
        let mut companions = vec![gaps_name(&segment.name)];
        let mut late = None;
        if !self.descriptions.is_empty() {
            companions.extend(described::names(&segment.name));
            let next = self.whole.get(self.removed + 1);
            let next = next.map_or(self.next.as_str(), |next| next.name.as_str());
            if let Some(new) = self.descriptions.pass_on(segment, next) {
                late = describe(mounted, new).await?;
            }
        }
        remove_named(mounted, &segment.name).await?;
        // Whatever becomes of its companions.
        self.removed += 1;
        if let Some(new) = late.take() {
            late = describe(mounted, new).await?;
        }
        for name in companions {
            remove_companion(mounted, &name).await?;
        }
        if let Some(new) = late {
            if let Some((name, _)) = describe(mounted, new).await? {
                return Err((format!("making `{}`", shown(&name)), Error::NoSpace));
            }
        }
        Ok(true)
    }
}

/// Stores a description; returns it if there is no room for it.
async fn describe(
    mounted: &Mounted<'_, '_>,
    (name, bytes): (String, Vec<u8>),
) -> std::result::Result<Option<(String, Vec<u8>)>, Failed> {
    let volume = mounted.volume;
    let new = [NewFile {
        name: &name,
        data: &bytes,
        mtime_ns: (mounted.wall_ns)(),
        app_tag: MADE,
    }];
    let made = volume.with_space(|| volume.create_many(&new, false)).await;
    match made {
        Ok(made) if made.files == 1 => Ok(None),
        // Of a removal that a power cut ended.
        Err(Error::Exists) => Ok(None),
        Ok(_) | Err(Error::NoSpace | Error::TableFull) => Ok(Some((name, bytes))),
        Err(error) => Err((format!("making `{}`", shown(&name)), error)),
    }
}

/// Removes a file if a recording made it, and not the user.
async fn remove_companion(
    mounted: &Mounted<'_, '_>,
    name: &str,
) -> std::result::Result<(), Failed> {
    match mounted.volume.find(name).await {
        Ok(found) if is_made(found.app_tag) => remove_named(mounted, name).await,
        Ok(_) | Err(Error::NotFound | Error::BadName) => Ok(()),
        Err(error) => Err((format!("looking for `{}`", shown(name)), error)),
    }
}

async fn remove_named(mounted: &Mounted<'_, '_>, name: &str) -> std::result::Result<(), Failed> {
    match remove(mounted.volume, name).await {
        Ok(()) | Err(Error::NotFound) => Ok(()),
        Err(error) => Err((format!("removing `{}`", shown(name)), error)),
    }
}
