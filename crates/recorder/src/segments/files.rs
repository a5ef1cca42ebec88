// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a recording in segments: the next one is made, and the oldest ones are removed,
//! while data flows.
//!
//! Each of these operations is a future of the volume that is polled beside the data, one at a
//! time.

use crate::segments::described::Descriptions;
use crate::segments::found::{Found, keep_those_of_others};
use crate::segments::making::{Made, close, make};
use crate::segments::oldest::Oldest;
use crate::segments::removal::discard_unused;
use crate::segments::ring::{Coming, to_remove};
use crate::segments::segment::Segment;
use crate::segments::tag::{MADE, Tag};
use crate::segments::template::Template;
use block::Buffer;
use devices::Progress;
use devices::error::{ErrorKind, Result};
use files::tree::some;
use files::{Mounted, failed, shown};
use formats::Format;
use live::events::{Events, Happened};
use remedy::{Words, words};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stream::GapFile;
use volume::{CreateOptions, Error, File};

/// Space that a companion file gets first; in a ring it has a block, and gets more as it needs.
const GAPS_BYTES: u64 = 64 << 10;

/// The number that no file gets, because none could follow it.
const NO_NUMBER: u64 = u64::MAX;

/// A file that is being recorded, or will be next.
pub struct Open {
    /// Its name.
    pub name: String,
    /// The file.
    pub file: File,
    /// Its companion.
    pub gaps: Option<GapFile>,
}

/// A file whose recorder has ended.
pub struct Ended {
    /// Its name.
    pub name: String,
    /// The file.
    pub file: File,
    /// Its companion, and whether it has gaps.
    pub gaps: Option<(File, u64)>,
    /// Its length.
    pub length_bytes: u64,
    /// Bytes that are missing in it.
    pub lost_bytes: u64,
}

/// How many files of a ring were removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removed {
    /// All of them.
    pub all: u64,
    /// Those of them that were not too many: the next file had no slot.
    pub early: u64,
    /// The length of the longest.
    pub longest_bytes: u64,
}

/// How the files are made.
#[derive(Clone, Debug)]
pub struct Making {
    /// Their names.
    pub template: Template,
    /// Whether they have checksums.
    pub checksums: bool,
    /// Whether each has a companion.
    pub has_gaps: bool,
    /// The bytes that all of them may have; the oldest are removed before there are more.
    pub keep_bytes: Option<u64>,
    /// What they are recorded in.
    pub format: Format,
}

/// What failed on the volume, while what was done.
pub(super) type Failed = (String, Error);
pub(super) type Outcome<T> = std::result::Result<T, Failed>;
type Work<'s, T> = Pin<Box<dyn Future<Output = T> + 's>>;

/// The operation in progress.
enum Job<'s> {
    None,
    Make {
        name: String,
        gap_buffer: Option<Buffer>,
        work: Work<'s, (Oldest, Outcome<Made>)>,
    },
    Close(Work<'s, Outcome<Segment>>),
    /// Removes the oldest of the whole files for one that is being recorded.
    Free(Work<'s, (Oldest, Outcome<()>)>),
    /// Removes the next file, which had nothing yet.
    Unmake(Work<'s, Outcome<()>>),
}

/// The numbers of segments are used up.
fn no_number(last: &str) -> devices::Error {
    let what = format!(
        "no segment can follow `{}`: its number is the last one",
        shown(last)
    );
    devices::Error::new(ErrorKind::Exists, what)
}

/// The files of a recording.
pub struct Files<'s, 'a> {
    mounted: &'s Mounted<'s, 'a>,
    progress: Progress,
    events: Arc<Events>,
    making: Making,
    /// The first file was made.
    has_begun: bool,
    /// The number of the file that is made next.
    number: u64,
    /// The number of the recording's first file.
    first_number: u64,
    /// Those that were opened and may not be closed yet.
    handles: Vec<File>,
    /// Files that are whole, the oldest first.
    whole: VecDeque<Segment>,
    /// How many of them are of earlier recordings.
    older: usize,
    /// Whether the volume had files of this form, whoever made them.
    has_earlier: bool,
    /// The names of those that are made and not whole yet, the oldest first.
    open: VecDeque<String>,
    descriptions: Descriptions,
    /// How many of this recording's files were closed.
    finished: u64,
    removed: Removed,
    /// Files that must be closed, the oldest first.
    ended: VecDeque<Ended>,
    job: Job<'s>,
    next: Option<Open>,
    /// The next file has no space of its own: what there was is the current one's.
    is_bare: bool,
    /// A job may have freed space.
    has_freed: bool,
    /// The ring has nothing more to remove for the next file, until another one is whole.
    waits_for_whole: bool,
    /// Something of a file that is not whole yet is durable.
    is_durable: bool,
    /// Why the next file is not made yet: it has no slot.
    unmade: Option<devices::Error>,
    /// A file could not be removed or closed: no other one is removed.
    is_broken: bool,
    /// Why the next one could not be made, or one could not be closed.
    failure: Option<devices::Error>,
}

impl<'s, 'a> Files<'s, 'a> {
    /// Continues the numbers, and the ring, of the files that the volume has. A ring has only those
    /// that a recording made: others of this form are named, and kept.
    ///
    /// # Errors
    /// The volume failed.
    pub fn new(progress: Progress, mounted: &'s Mounted<'s, 'a>, making: Making) -> Result<Self> {
        let Found {
            mut segments,
            companions,
        } = Found::on(mounted, &making.template)?;
        let has_segment = |of: &str| segments.iter().any(|found| found.segment.name == of);
        let mut last = segments.last().map(|found| {
            let tag = Tag::of(found.app_tag, found.number);
            // What followed it is missing, and another recording must not hide that.
            let is_followed = tag.is_some_and(|tag| tag.is_followed);
            found.number.saturating_add(u64::from(is_followed))
        });
        let mut last_name = segments.last().map(|found| found.segment.name.clone());
        for companion in companions {
            if has_segment(&companion.of) {
                continue;
            }
            if companion.is_gaps && companion.is_made {
                // A removal that was cut off has left it; a new file of that name has other gaps.
                mounted.remove(&companion.name)?;
            } else if !companion.is_made && last < Some(companion.number) {
                // Of the user: no new file becomes the one that it describes.
                last = Some(companion.number);
                last_name = Some(companion.name);
            }
        }
        let number = last.map_or(1, |last| last.saturating_add(1));
        if let Some(name) = last_name.filter(|_| number == NO_NUMBER) {
            return Err(no_number(&name).hint(words![
                "straightway mv ",
                remedy::Device,
                " NAME OTHER, or record under another NAME"
            ]));
        }
        let has_earlier = !segments.is_empty();
        let earlier = segments.last();
        let earlier =
            earlier.and_then(|found| Some((found, Tag::of(found.app_tag, found.number)?)));
        if let Some((found, tag)) = earlier.filter(|(_, tag)| tag.format != making.format) {
            progress.say(format_args!(
                "`{}` was recorded as {}, this is {}: export them one after the other",
                shown(&found.segment.name),
                tag.format.name(),
                making.format.name()
            ));
        }
        if making.keep_bytes.is_some() {
            keep_those_of_others(&mut segments, &progress);
        }
        let whole: VecDeque<Segment> = segments.into_iter().map(|found| found.segment).collect();
        Ok(Self {
            mounted,
            progress,
            events: Arc::default(),
            making,
            has_begun: false,
            number,
            first_number: number,
            handles: Vec::new(),
            older: whole.len(),
            has_earlier,
            whole,
            open: VecDeque::new(),
            descriptions: Descriptions::default(),
            finished: 0,
            removed: Removed::default(),
            ended: VecDeque::new(),
            job: Job::None,
            next: None,
            is_bare: false,
            has_freed: false,
            waits_for_whole: false,
            is_durable: false,
            unmade: None,
            is_broken: false,
            failure: None,
        })
    }

    /// What has happened, for readers of the recording.
    pub fn events(&self) -> Arc<Events> {
        Arc::clone(&self.events)
    }

    fn happened(&self, what: Happened) {
        self.events.add((self.mounted.wall_ns)(), what);
    }

    /// How many of this recording's files were closed, and how many files the ring removed.
    pub const fn counts(&self) -> [u64; 2] {
        [self.finished, self.removed.all]
    }

    /// Whether the volume had files of this form before.
    pub const fn has_earlier(&self) -> bool {
        self.has_earlier
    }

    /// The whole files, which are of earlier recordings as long as none of this one is.
    pub fn earlier(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.whole.iter_mut()
    }

    /// The name of the first file, if it has no time.
    pub fn first_name(&self) -> String {
        let since_1970 = Duration::from_nanos((self.mounted.wall_ns)());
        self.making.template.name(since_1970, self.number)
    }

    /// The number that a file keeps with it when `offset_bytes` of the recording lie before it;
    /// `is_followed`: the next one exists; `has_gaps`: something was lost in it.
    pub fn tag_at(&self, offset_bytes: u64, is_followed: bool, has_gaps: bool) -> u64 {
        let tag = Tag {
            format: self.making.format,
            is_ring: self.making.keep_bytes.is_some(),
            first: self.first_number,
            offset_bytes,
            is_followed,
            // Without a list the recording ends at a loss.
            has_gaps: has_gaps && self.making.has_gaps,
        };
        tag.to_number()
    }

    /// Keeps these descriptions for the files that remain.
    pub fn describe(&mut self, descriptions: Descriptions) {
        self.descriptions = descriptions;
    }

    /// The first file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn first(&mut self, reserve_bytes: u64) -> Result<Open> {
        self.prepare(Coming {
            ending_bytes: 0,
            current_bytes: 0,
            next_bytes: reserve_bytes,
        });
        self.settle();
        let next = self.next.take();
        self.has_begun = next.is_some();
        next.ok_or_else(|| {
            let failure = self.failure.take();
            failure.unwrap_or_else(|| devices::Error::other("the first file was not made"))
        })
    }

    /// Begins to make the next file, with the space that it will have, unless it exists or is being
    /// made.
    pub fn prepare(&mut self, coming: Coming) {
        // Files are closed first: that gives unused space back.
        if self.is_busy() || self.next.is_some() || self.failure.is_some() || self.waits_for_whole {
            return;
        }
        if self.number == NO_NUMBER {
            let name = self.open.back().or(self.whole.back().map(|one| &one.name));
            let failure = no_number(name.map_or("", String::as_str));
            self.progress
                .say(words![Words::from(&failure), "; it goes on"]);
            self.fail(failure);
            return;
        }
        let Some(due) = self.to_remove(coming) else {
            return;
        };
        let gap_buffer = if self.making.has_gaps {
            let bytes = self.mounted.volume.geometry().block_size_bytes();
            match self.mounted.memory.allocate(bytes) {
                Ok(buffer) => Some(buffer),
                Err(failure) => {
                    self.failure = Some(failure);
                    return;
                }
            }
        } else {
            None
        };
        let since_1970 = Duration::from_nanos((self.mounted.wall_ns)());
        let name = self.making.template.name(since_1970, self.number);
        let options = CreateOptions {
            reserve_bytes: if self.is_bare { 0 } else { coming.next_bytes },
            checksums: self.making.checksums,
            // Where a later one begins is known when the one before it has ended.
            app_tag: if self.has_begun {
                MADE
            } else {
                self.tag_at(0, false, false)
            },
        };
        let gap_bytes = gap_buffer.as_ref().map(|buffer| {
            if self.is_ring() {
                buffer.len() as u64
            } else {
                GAPS_BYTES
            }
        });
        let oldest = Oldest {
            due,
            ..self.oldest(&name)
        };
        let work = make(self.mounted, name.clone(), options, gap_bytes, oldest);
        self.job = Job::Make {
            name,
            gap_buffer,
            work: Box::pin(work),
        };
    }

    /// The whole files that may be removed; `name` is made next.
    fn oldest(&self, name: &str) -> Oldest {
        let is_ring = self.is_ring();
        Oldest {
            whole: self.whole.iter().filter(|_| is_ring).cloned().collect(),
            removable: if is_ring { self.removable() } else { 0 },
            next: self.open.front().map_or(name, String::as_str).to_owned(),
            descriptions: self.descriptions.clone(),
            removed: 0,
            due: 0,
            early: Vec::new(),
            is_broken: false,
            may_be_bare: is_ring && self.has_begun,
        }
    }

    /// Whether the oldest files are removed for others.
    pub const fn is_ring(&self) -> bool {
        self.making.keep_bytes.is_some()
    }

    /// What a ring may take of the volume: the free space, and that of its own files. `None`: not a
    /// ring.
    ///
    /// # Errors
    /// The volume failed.
    pub fn ring_bytes(&self) -> Result<Option<u64>> {
        let Some(keep_bytes) = self.making.keep_bytes else {
            return Ok(None);
        };
        let volume = self.mounted.volume;
        let free = volume.free_units();
        let free =
            self.mounted.run("reading the free space", free)? * volume.status().shape.unit_bytes();
        let whole = self.whole.iter().map(|segment| segment.length_bytes);
        Ok(Some(whole.fold(free, u64::saturating_add).min(keep_bytes)))
    }

    /// Whether something of a file that is not whole yet is durable.
    pub const fn set_durable(&mut self, is_durable: bool) {
        if is_durable && !self.is_durable && self.unmade.is_some() {
            // The file before may be removed now.
            self.waits_for_whole = false;
        }
        self.is_durable = is_durable;
    }

    /// How many of the whole files may be removed: not the newest that has data, as long as nothing
    /// after it is durable, because a power cut would leave nothing.
    fn removable(&self) -> usize {
        let with_data = self.whole.iter().rposition(|one| one.length_bytes > 0);
        match with_data {
            Some(newest) if self.has_begun && !self.is_durable => newest,
            _ => self.whole.len(),
        }
    }

    /// Removes the oldest file, if there is one and nothing else is in progress. True once it is
    /// removed. `is_coming`: something will be durable or whole, without more space.
    pub fn has_removed_ahead(&mut self, is_coming: bool) -> bool {
        if std::mem::take(&mut self.has_freed) {
            return true;
        }
        if !self.is_busy() && !self.is_broken {
            self.remove_oldest(!is_coming);
        }
        false
    }

    /// Begins to remove the oldest file, if there is one; `is_forced`: also the only one.
    fn remove_oldest(&mut self, is_forced: bool) -> bool {
        let mut oldest = self.oldest("");
        if is_forced {
            oldest.removable = oldest.removable.max(1).min(oldest.whole.len());
        }
        if oldest.removable == 0 {
            return false;
        }
        let mounted = self.mounted;
        self.job = Job::Free(Box::pin(async move {
            let discarded = oldest.discard(mounted).await;
            (oldest, discarded.map(drop))
        }));
        true
    }

    /// Whether no file is whole, or soon will be.
    pub fn has_none_whole(&self) -> bool {
        self.whole.is_empty() && self.ended.is_empty() && !matches!(self.job, Job::Close(_))
    }

    /// Frees space for a file that is being recorded, on a full volume. Ready with whether there
    /// may be more space than when it was asked; `is_coming`: something will be durable or whole,
    /// without more space; `has_data`: it is for data, so that the newest whole file may go.
    pub fn make_room(&mut self, is_coming: bool, has_data: bool) -> Poll<bool> {
        if std::mem::take(&mut self.has_freed) {
            return Poll::Ready(true);
        }
        if self.is_broken || !self.is_ring() {
            return Poll::Ready(false);
        }
        // What is in progress may free some.
        if self.is_busy() {
            return Poll::Pending;
        }
        if self.remove_oldest(false) || is_coming {
            return Poll::Pending;
        }
        let unused = self.next.take_if(|_| !self.is_bare);
        let Some(next) = unused else {
            if has_data && self.remove_oldest(true) {
                return Poll::Pending;
            }
            return Poll::Ready(false);
        };
        // It is made again with the same number, and nothing reserved.
        self.number -= 1;
        self.open.pop_back();
        self.is_bare = true;
        self.free_unused(next);
        Poll::Pending
    }

    /// Begins to remove a file that was made and has nothing.
    fn free_unused(&mut self, next: Open) {
        let gap_file = next.gaps.map(|gaps| {
            self.mounted.memory.give_back(gaps.buffer);
            gaps.file
        });
        let unused = discard_unused(self.mounted, next.name, next.file, gap_file);
        self.job = Job::Unmake(Box::pin(unused));
    }

    /// How many of the whole files are too many. None: they are not removed yet.
    fn to_remove(&self, coming: Coming) -> Option<usize> {
        let Some(keep_bytes) = self.making.keep_bytes else {
            return Some(0);
        };
        let lengths = self.whole.iter().map(|segment| segment.length_bytes);
        to_remove(keep_bytes, lengths, coming)
    }

    /// Whether the next file is ready.
    pub const fn is_ready(&self) -> bool {
        self.next.is_some()
    }

    /// Whether a file is being made, closed or removed, or will be.
    pub fn is_busy(&self) -> bool {
        !matches!(self.job, Job::None) || !self.ended.is_empty()
    }

    /// The next file, if it is ready.
    pub fn take_next(&mut self) -> Option<Open> {
        self.is_bare = false;
        self.next.take()
    }

    /// Closes a file, while data flows.
    pub fn end(&mut self, ended: Ended) {
        self.ended.push_back(ended);
    }

    /// Makes progress.
    pub fn step(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        match &mut self.job {
            Job::None => {
                if let Some(ended) = self.ended.pop_front() {
                    self.job = Job::Close(Box::pin(close(self.mounted, ended)));
                }
            }
            Job::Make {
                name,
                gap_buffer,
                work,
            } => {
                let Poll::Ready(result) = work.as_mut().poll(&mut context) else {
                    return;
                };
                let (name, gap_buffer) = (std::mem::take(name), gap_buffer.take());
                self.job = Job::None;
                let (oldest, result) = result;
                self.warn_of_early(&oldest, &name);
                let is_broken = oldest.is_broken;
                self.forget(oldest);
                self.made(name, gap_buffer, result, is_broken);
            }
            Job::Close(work) => {
                let Poll::Ready(result) = work.as_mut().poll(&mut context) else {
                    return;
                };
                self.job = Job::None;
                match result {
                    Ok(segment) => {
                        self.open.pop_front();
                        self.happened(Happened::Final {
                            file: segment.name.clone(),
                            length_bytes: segment.length_bytes,
                            gaps: segment.gaps,
                            lost_bytes: segment.lost_bytes,
                        });
                        self.whole.push_back(segment);
                        self.finished += 1;
                        // It had reserved more than it has.
                        (self.has_freed, self.waits_for_whole) = (true, false);
                    }
                    Err((doing, error)) => self.break_off(failed(doing, error)),
                }
            }
            Job::Free(work) => {
                let Poll::Ready(result) = work.as_mut().poll(&mut context) else {
                    return;
                };
                self.job = Job::None;
                self.has_freed = true;
                let (oldest, outcome) = result;
                self.forget(oldest);
                if let Err((doing, error)) = outcome {
                    self.break_off(failed(doing, error));
                }
            }
            Job::Unmake(work) => {
                let Poll::Ready(result) = work.as_mut().poll(&mut context) else {
                    return;
                };
                self.job = Job::None;
                self.has_freed = true;
                if let Err((doing, error)) = result {
                    self.break_off(failed(doing, error));
                }
            }
        }
    }

    fn made(
        &mut self,
        name: String,
        gap_buffer: Option<Buffer>,
        result: Outcome<Made>,
        is_broken: bool,
    ) {
        let made = match result {
            Ok(made) => made,
            Err((doing, error)) => {
                if let Some(buffer) = gap_buffer {
                    self.mounted.memory.give_back(buffer);
                }
                let is_full = matches!(error, Error::NoSpace | Error::TableFull) && !is_broken;
                let failure = failed(doing, error);
                if is_full && self.is_ring() && self.has_begun {
                    self.waits_for_whole = true;
                    if error == Error::TableFull && self.unmade.is_none() {
                        self.progress.say(words![
                            Words::from(&failure),
                            "; the file before it goes on until it has one"
                        ]);
                        self.unmade = Some(failure);
                    }
                    return;
                }
                self.is_broken |= is_broken;
                if self.has_begun {
                    self.progress.say(words![
                        Words::from(&failure),
                        "; the file before it goes on"
                    ]);
                }
                self.fail(failure);
                return;
            }
        };
        self.unmade = None;
        self.number += 1;
        let volume = self.mounted.volume;
        self.handles
            .retain(|file| volume.file_status(*file).is_ok());
        self.handles.push(made.file);
        self.handles.extend(made.gap_file);
        self.open.push_back(name.clone());
        let gaps = made.gap_file.zip(gap_buffer);
        self.next = Some(Open {
            name,
            file: made.file,
            gaps: gaps.map(|(file, buffer)| GapFile {
                file,
                buffer,
                filled_bytes: 0,
            }),
        });
    }

    /// The oldest files were removed, also where what they were removed for failed.
    fn forget(&mut self, oldest: Oldest) {
        let removed = oldest.removed;
        for segment in self.whole.drain(..removed.min(self.whole.len())) {
            let longest_bytes = &mut self.removed.longest_bytes;
            *longest_bytes = segment.length_bytes.max(*longest_bytes);
            let removed = Happened::Removed {
                file: segment.name,
                length_bytes: segment.length_bytes,
            };
            self.events.add((self.mounted.wall_ns)(), removed);
        }
        self.descriptions = oldest.descriptions;
        self.older = self.older.saturating_sub(removed);
        self.removed.all += removed as u64;
    }

    /// Says at once what was removed for a slot, the first time.
    fn warn_of_early(&mut self, oldest: &Oldest, name: &str) {
        if self.removed.early == 0 && !oldest.early.is_empty() {
            let removed = some(oldest.early.iter().map(String::as_str));
            self.progress.say(words![
                format!(
                    "`{}` had no slot: removed {removed}, before the ring had more than it keeps (hint: straightway rm ",
                    shown(name)
                ),
                remedy::Device,
                " NAME of other files gives the table of slots space to grow; straightway check ",
                remedy::Device,
                " says whether damage keeps it from that)"
            ]);
        }
        self.removed.early += oldest.early.len() as u64;
    }

    fn fail(&mut self, failure: devices::Error) {
        self.failure.get_or_insert(failure);
    }

    /// A file could not be closed or removed.
    fn break_off(&mut self, failure: devices::Error) {
        self.is_broken = true;
        self.fail(failure);
    }

    /// Completes what is in progress. No data may be in flight.
    fn settle(&mut self) {
        while self.is_busy() {
            while self.mounted.volume.poll().is_some() {}
            self.step();
            if self.mounted.volume.outstanding() > 0 {
                self.mounted.volume.wait(1_000);
            }
        }
    }

    /// Completes what is in progress, and removes a file that was made and is not needed. Returns
    /// the recording's files that the volume has, what was removed, and the first failure.
    pub fn finish(mut self) -> (Vec<Segment>, Removed, Result<()>) {
        self.settle();
        if let Some(next) = self.next.take() {
            self.free_unused(next);
            self.settle();
        }
        let whole = std::mem::take(&mut self.whole);
        let own = whole.into_iter().skip(self.older);
        let failure = self.failure.take().or(self.unmade.take());
        (own.collect(), self.removed, failure.map_or(Ok(()), Err))
    }
}

impl Drop for Files<'_, '_> {
    /// However the recording ended: a file that stays open cannot be removed, and a later ring of
    /// the same mount would wait for it. Storing what was written of one that was not closed would
    /// leave it behind a missing end.
    fn drop(&mut self) {
        self.job = Job::None;
        for file in self.handles.drain(..) {
            let _ = self.mounted.volume.abandon_file(file);
        }
    }
}

/// The end of a companion's name.
pub const GAPS: &str = ".gaps";

/// The name of a file's companion.
pub fn gaps_name(name: &str) -> String {
    format!("{name}{GAPS}")
}
