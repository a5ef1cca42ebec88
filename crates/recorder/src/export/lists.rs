// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of gaps of recordings, and whether each is that of its file.

use super::recording::companion_of;
use crate::segments::files::{GAPS, gaps_name};
use crate::segments::numbered::Numbered;
use crate::segments::places::Contradiction;
use crate::segments::tag;
use devices::Context;
use devices::error::Result;
use files::listing::FileEntry;
use files::names::check_name;
use files::shown;
use formats::gaps::{GapList, MAX_GAPS_BYTES};
use live::origin::Origin;
use stream::{GAP_LINE_BYTES, Gap};
use units::counted;

/// What is missing in a file, as its list says.
#[derive(Default)]
pub struct Listed {
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// Why they may not be all.
    pub contradiction: Option<Contradiction>,
    /// For people, where nothing is wrong.
    pub note: Option<String>,
    /// Its lines are of an older version: without checksums.
    pub is_unchecked: bool,
}

/// Warns of a file with number `app_tag` that gets the `name` of the list of gaps of a recording
/// and is not that; `number_of` finds the number of the file of a name.
///
/// # Errors
/// Those of `number_of`.
pub fn warn_of_list(
    context: &Context,
    name: &str,
    app_tag: u64,
    number_of: impl FnOnce(&str) -> Result<Option<u64>>,
) -> Result<()> {
    let Some(of) = name.strip_suffix(GAPS) else {
        return Ok(());
    };
    let own = number_of(of)?.unwrap_or(0);
    let is_segment = Numbered::of(of).is_some();
    if tag::is_recorded(own) && !tag::belongs(app_tag, own, is_segment) {
        context.say(format_args!(
            "warning: commands take `{}` for the list of gaps of the recording `{}`, \
             and end with 7 where it is not what was recorded; straightway mv renames it",
            shown(name),
            shown(of)
        ));
    }
    Ok(())
}

/// What is said of lists without checksums.
pub fn said_of_unchecked(names: &[String]) -> Option<String> {
    let first = shown(&gaps_name(names.first()?)).to_string();
    let which = match names.len() - 1 {
        0 => format!("`{first}` has"),
        others => format!(
            "`{first}` and {} have",
            counted(others as u64, "other list")
        ),
    };
    Some(format!(
        "{which} no checksums, as older versions wrote lists of gaps: damage would not be seen"
    ))
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
    let tags = (list.app_tag.unwrap_or(0), own);
    let is_own = tag::belongs(tags.0, own, is_segment);
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
    let list = GapList::read(&lines, entry.size_bytes);
    if !is_own && !list.damaged_lines.is_empty() {
        let is_known = tag::has_gaps(own);
        return Ok(Listed {
            note: (!is_known)
                .then(|| format!("`{}` is not a list of gaps: left out", shown(&companion))),
            contradiction: is_known.then(|| said("is left out: it is not the list of gaps of")),
            ..Listed::default()
        });
    }
    let is_cut = lines.len() % GAP_LINE_BYTES != 0;
    // Of two files that no recording of this version made; an older version's list has whole lines.
    if tags == (0, 0) && is_cut && list.gaps.is_empty() {
        return Ok(Listed {
            note: Some(format!(
                "`{}` is not a list of gaps: left out",
                shown(&companion)
            )),
            ..Listed::default()
        });
    }
    let contradiction = if let Some(line) = list.damaged_lines.first() {
        let others = match list.damaged_lines.len() - 1 {
            0 => String::new(),
            others => format!(", and {others} more"),
        };
        let what = format!("line {line} is damaged{others}, so what was lost is not known of");
        Some(said(&what))
    } else if let Some(line) = list.behind_end_line.filter(|_| tag::is_followed(own)) {
        Some(said(&format!("line {line} is of a gap behind the end of")))
    } else if is_cut {
        Some(said("ends within a line, so gaps may be missing in"))
    } else if !is_own && tag::has_gaps(own) {
        // A power cut may leave one of its own without a line: of a loss behind what is durable.
        // Otherwise it is that of an older version, or the next segment contradicts it.
        Some(said("was put, and may not be what was recorded of"))
    } else {
        None
    };
    let note = contradiction.is_none().then(|| oddity(&list)).flatten();
    Ok(Listed {
        gaps: list.gaps,
        contradiction,
        note: note.map(|what| format!("`{}`: {what} `{}`", shown(&companion), shown(&entry.name))),
        is_unchecked: list.is_unchecked,
    })
}

/// What a list says that a recording may have written, and a misplaced line too.
fn oddity(list: &GapList) -> Option<String> {
    if let Some(line) = list.behind_end_line {
        return Some(format!(
            "line {line} is left out: it is of a gap behind the end, as a power cut leaves one, of"
        ));
    }
    list.untimely_lines.first().map(|line| {
        format!(
            "line {line} is of a gap that began before that of the line before it, as where a \
             recording was continued; otherwise it is not of"
        )
    })
}
