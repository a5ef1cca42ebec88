// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of gaps of recordings, and whether each is that of its file.

use super::recording::companion_of;
use crate::segments::files::gaps_name;
use crate::segments::numbered::Numbered;
use crate::segments::places::Contradiction;
use crate::segments::tag;
use devices::error::{Error, Result};
use files::listing::FileEntry;
use files::names::check_name;
use files::shown;
use formats::gaps::{self, MAX_GAPS_BYTES};
use live::origin::Origin;
use stream::{GAP_LINE_BYTES, Gap};

/// What is missing in a file, as its list says.
#[derive(Default)]
pub struct Listed {
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// Why they may not be all.
    pub contradiction: Option<Contradiction>,
    /// For people, where nothing is wrong.
    pub note: Option<String>,
    /// The companion is not a list of gaps.
    pub failure: Option<Error>,
}

impl Listed {
    /// The same, if its companion is a list.
    ///
    /// # Errors
    /// It is none.
    pub fn checked(mut self) -> Result<Self> {
        self.failure.take().map_or(Ok(self), Err)
    }
}

/// The gaps that a file's companion lists. One that another recording left is not read.
///
/// # Errors
/// It cannot be read.
pub fn gaps_of(origin: &Origin<'_, '_>, entry: &FileEntry) -> Result<Listed> {
    let companion = gaps_name(&entry.name);
    // A name that is too long is one that no recording could make.
    let list = match check_name(&companion) {
        Ok(()) => origin.find(&companion)?,
        Err(_) => None,
    };
    let own = entry.app_tag.unwrap_or(0);
    let Some(list) = list else {
        // A ring may have removed both in the meantime.
        let is_missing = tag::has_gaps(own) && origin.find(&entry.name)?.is_some();
        return Ok(Listed {
            contradiction: is_missing.then(|| Contradiction {
                name: companion,
                what: format!(
                    "is missing: something was lost in `{}`, and it listed what",
                    shown(&entry.name)
                ),
            }),
            ..Listed::default()
        });
    };
    let is_segment = Numbered::of(&entry.name).is_some();
    let is_own = tag::belongs(list.app_tag.unwrap_or(0), own, is_segment);
    let said = |what: &str| Contradiction {
        name: companion.clone(),
        what: format!("{what} `{}`", shown(&entry.name)),
    };
    if !is_own && tag::is_sure_of_no_gaps(own) {
        let note = format!(
            "`{}` is not of this recording, in which nothing was lost: left out",
            shown(&companion)
        );
        return Ok(Listed {
            note: Some(note),
            ..Listed::default()
        });
    }
    if !is_own && list.app_tag.unwrap_or(0) != 0 {
        let what = "is left out: another recording wrote it, not that of";
        return Ok(Listed {
            contradiction: Some(said(what)),
            ..Listed::default()
        });
    }
    let lines = companion_of(origin, &companion, MAX_GAPS_BYTES)?.unwrap_or_default();
    let gaps = gaps::parse(&companion, &lines, entry.size_bytes).map_err(crate::format_failed);
    let gaps = match gaps {
        Ok(gaps) => gaps,
        Err(_) if !is_own && !tag::has_gaps(own) => {
            return Ok(Listed {
                note: Some(format!(
                    "`{}` is not a list of gaps: left out",
                    shown(&companion)
                )),
                ..Listed::default()
            });
        }
        Err(_) if !is_own => {
            return Ok(Listed {
                contradiction: Some(said("is left out: it is not the list of gaps of")),
                ..Listed::default()
            });
        }
        Err(failure) => {
            return Ok(Listed {
                failure: Some(failure),
                ..Listed::default()
            });
        }
    };
    let is_cut = lines.len() % GAP_LINE_BYTES != 0;
    let contradiction = if is_cut {
        Some(said("ends within a line, so gaps may be missing in"))
    } else if !is_own && tag::has_gaps(own) {
        // A power cut may leave one of its own without a line: of a loss behind what is durable.
        // Otherwise it is that of an older version, or the next segment contradicts it.
        Some(said("was put, and may not be what was recorded of"))
    } else {
        None
    };
    Ok(Listed {
        gaps,
        contradiction,
        ..Listed::default()
    })
}
