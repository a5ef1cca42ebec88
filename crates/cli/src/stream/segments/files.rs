//! The files of a recording in segments: the next one is made, and the oldest ones are removed, while data flows.
//!
//! Each of these operations is a future of the volume that is polled beside the data, one at a time.

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::stream::segments::described::{self, Descriptions};
use crate::stream::segments::ring::{Coming, to_remove};
use crate::stream::segments::segment::Segment;
use crate::stream::segments::template::Template;
use crate::volume::turns::pass;
use crate::volume::{AnyVolume, Mounted, failed, now_ns, shown};
use block::Buffer;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stream::GapFile;
use volume::{CreateOptions, Error, File, NewFile};

/// Initially reserved space of a companion file.
const GAPS_BYTES: u64 = 64 << 10;

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
}

/// The oldest files, which may be removed for another one.
struct Oldest {
    /// Files that are whole, the oldest first.
    whole: Vec<Segment>,
    /// What comes behind them.
    next: String,
    descriptions: Descriptions,
    removed: usize,
}

/// A file and its companion, and how many of the oldest files had to be removed for them.
struct Made {
    file: File,
    gap_file: Option<File>,
    removed: usize,
    descriptions: Descriptions,
}

/// What failed on the volume, while what was done.
type Failed = (String, Error);
type Work<'s, T> = Pin<Box<dyn Future<Output = std::result::Result<T, Failed>> + 's>>;

/// The operation in progress.
enum Job<'s> {
    None,
    Make {
        name: String,
        gap_buffer: Option<Buffer>,
        work: Work<'s, Made>,
    },
    Close(Work<'s, Segment>),
}

/// The files of a recording.
pub struct Files<'s, 'a> {
    mounted: &'s Mounted<'s, 'a>,
    console: Console,
    making: Making,
    /// The first file was made.
    has_begun: bool,
    /// The number of the file that is made next.
    number: u64,
    /// Files that are whole, the oldest first.
    whole: VecDeque<Segment>,
    /// How many of them are of earlier recordings.
    older: usize,
    /// The names of those that are made and not whole yet, the oldest first.
    open: VecDeque<String>,
    descriptions: Descriptions,
    removed: u64,
    /// Files that must be closed, the oldest first.
    ended: VecDeque<Ended>,
    job: Job<'s>,
    next: Option<Open>,
    /// Why the next one could not be made, or one could not be closed.
    failure: Option<Failure>,
}

impl<'s, 'a> Files<'s, 'a> {
    /// Continues the numbers, and the ring, of the files that the volume has.
    ///
    /// # Errors
    /// The volume failed.
    pub fn new(console: Console, mounted: &'s Mounted<'s, 'a>, making: Making) -> Result<Self> {
        let mut found = Vec::new();
        let mut from = 0;
        let next = |from| mounted.run("listing the recordings", mounted.volume.next_file(from));
        while let Some(entry) = next(from)? {
            from = entry.slot + 1;
            let name = entry.name.as_str();
            if let Some(number) = making.template.number_of(name) {
                let segment = Segment {
                    name: name.to_owned(),
                    length_bytes: entry.size_bytes,
                    gaps: 0,
                    lost_bytes: 0,
                };
                found.push((entry.mtime_ns, number, segment));
            }
        }
        found.sort_by_key(|(mtime_ns, number, _)| (*mtime_ns, *number));
        let number = found.iter().map(|(_, number, _)| number + 1).max();
        let whole: VecDeque<Segment> = found.into_iter().map(|(.., segment)| segment).collect();
        Ok(Self {
            mounted,
            console,
            making,
            has_begun: false,
            number: number.unwrap_or(1),
            older: whole.len(),
            whole,
            open: VecDeque::new(),
            descriptions: Descriptions::default(),
            removed: 0,
            ended: VecDeque::new(),
            job: Job::None,
            next: None,
            failure: None,
        })
    }

    /// The whole files, which are of earlier recordings as long as none of this one is.
    pub fn earlier(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.whole.iter_mut()
    }

    /// The name of the first file, if it has no time.
    pub fn first_name(&self) -> String {
        let since_1970 = Duration::from_nanos(now_ns());
        self.making.template.name(since_1970, self.number)
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
            failure.unwrap_or_else(|| Failure::other("the first file was not made"))
        })
    }

    /// Begins to make the next file, with the space that it will have, unless it exists or is being made.
    pub fn prepare(&mut self, coming: Coming) {
        // Files are closed first: that gives unused space back.
        let is_idle = matches!(self.job, Job::None) && self.ended.is_empty();
        if !is_idle || self.next.is_some() || self.failure.is_some() {
            return;
        }
        let Some(count) = self.to_remove(coming) else {
            return;
        };
        let gap_buffer = match self.making.has_gaps {
            true => {
                let bytes = self.mounted.volume.geometry().block_size_bytes();
                match self.mounted.memory.allocate(bytes) {
                    Ok(buffer) => Some(buffer),
                    Err(failure) => {
                        self.failure = Some(failure);
                        return;
                    }
                }
            }
            false => None,
        };
        let since_1970 = Duration::from_nanos(now_ns());
        let name = self.making.template.name(since_1970, self.number);
        let options = CreateOptions {
            reserve_bytes: coming.next_bytes,
            checksums: self.making.checksums,
            app_tag: 0,
        };
        let has_gaps = self.making.has_gaps;
        let is_ring = self.making.keep_bytes.is_some();
        let oldest = Oldest {
            whole: match is_ring {
                true => self.whole.iter().cloned().collect(),
                false => Vec::new(),
            },
            next: self.open.front().unwrap_or(&name).clone(),
            descriptions: self.descriptions.clone(),
            removed: 0,
        };
        let work = make(self.mounted, name.clone(), options, has_gaps, oldest, count);
        self.job = Job::Make {
            name,
            gap_buffer,
            work: Box::pin(work),
        };
    }

    /// How many of the whole files must be removed. None: not yet.
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

    /// The next file, if it is ready.
    pub fn take_next(&mut self) -> Option<Open> {
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
                self.made(name, gap_buffer, result);
            }
            Job::Close(work) => {
                let Poll::Ready(result) = work.as_mut().poll(&mut context) else {
                    return;
                };
                self.job = Job::None;
                match result {
                    Ok(segment) => {
                        self.open.pop_front();
                        self.whole.push_back(segment);
                    }
                    Err((doing, error)) => self.fail(failed(doing, error)),
                }
            }
        }
    }

    fn made(
        &mut self,
        name: String,
        gap_buffer: Option<Buffer>,
        result: std::result::Result<Made, Failed>,
    ) {
        let made = match result {
            Ok(made) => made,
            Err((doing, error)) => {
                if let Some(buffer) = gap_buffer {
                    self.mounted.memory.give_back(buffer);
                }
                let failure = failed(doing, error);
                if self.has_begun {
                    self.console
                        .say(format_args!("{failure}; the file before it goes on"));
                }
                self.fail(failure);
                return;
            }
        };
        self.whole.drain(..made.removed);
        self.descriptions = made.descriptions;
        self.older = self.older.saturating_sub(made.removed);
        self.removed += made.removed as u64;
        self.number += 1;
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

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Completes what is in progress. No data may be in flight.
    fn settle(&mut self) {
        while !matches!(self.job, Job::None) || !self.ended.is_empty() {
            while self.mounted.volume.poll().is_some() {}
            self.step();
            if self.mounted.volume.outstanding() > 0 {
                self.mounted.volume.wait(1_000);
            }
        }
    }

    /// Completes what is in progress, and removes a file that was made and is not needed. Returns the recording's files
    /// that the volume has, how many were removed, and the first failure.
    pub fn finish(mut self) -> (Vec<Segment>, u64, Result<()>) {
        self.settle();
        if let Some(next) = self.next.take() {
            if let Err(failure) = self.remove_unused(next) {
                self.fail(failure);
            }
        }
        let own = self.whole.into_iter().skip(self.older);
        (
            own.collect(),
            self.removed,
            self.failure.map_or(Ok(()), Err),
        )
    }

    fn remove_unused(&self, next: Open) -> Result<()> {
        let closing = format!("closing `{}`", shown(&next.name));
        let volume = self.mounted.volume;
        let mut result = self.mounted.run(&closing, volume.close(next.file));
        result = result.and_then(|()| self.mounted.remove(&next.name));
        if let Some(gaps) = next.gaps {
            self.mounted.memory.give_back(gaps.buffer);
            result = result.and_then(|()| self.mounted.run(&closing, volume.close(gaps.file)));
            result = result.and_then(|()| self.mounted.remove(&gaps_name(&next.name)));
        }
        result
    }
}

/// The end of a companion's name.
pub const GAPS: &str = ".gaps";

/// The name of a file's companion.
pub fn gaps_name(name: &str) -> String {
    format!("{name}{GAPS}")
}

/// Makes a file and its companion. Removes the first `count` files of `oldest` before, and more of them if the volume is
/// full.
async fn make(
    mounted: &Mounted<'_, '_>,
    name: String,
    options: CreateOptions,
    has_gaps: bool,
    mut oldest: Oldest,
    count: usize,
) -> std::result::Result<Made, Failed> {
    while oldest.removed < count && oldest.discard(mounted).await? {}
    let file = create(mounted, &name, &options, &mut oldest).await?;
    let mut gap_file = None;
    if has_gaps {
        let options = CreateOptions {
            reserve_bytes: GAPS_BYTES,
            ..CreateOptions::default()
        };
        match create(mounted, &gaps_name(&name), &options, &mut oldest).await {
            Ok(made) => gap_file = Some(made),
            Err(failed) => {
                let _ = mounted.volume.close(file).await;
                let _ = mounted.volume.remove(&name).await;
                return Err(failed);
            }
        }
    }
    Ok(Made {
        file,
        gap_file,
        removed: oldest.removed,
        descriptions: oldest.descriptions,
    })
}

/// Makes a file. As long as the volume has no room for it, another one of `oldest` is removed.
async fn create(
    mounted: &Mounted<'_, '_>,
    name: &str,
    options: &CreateOptions,
    oldest: &mut Oldest,
) -> std::result::Result<File, Failed> {
    let volume = mounted.volume;
    loop {
        volume.set_time(now_ns());
        let error = match volume.with_space(|| volume.create(name, options)).await {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let is_full = matches!(error, Error::NoSpace | Error::TableFull);
        if !(is_full && oldest.discard(mounted).await?) {
            return Err((format!("making `{}`", shown(name)), error));
        }
    }
}

impl Oldest {
    /// Removes the oldest file and its companions, after the next one has its description; false: there is none.
    async fn discard(&mut self, mounted: &Mounted<'_, '_>) -> std::result::Result<bool, Failed> {
        let Some(segment) = self.whole.get(self.removed) else {
            return Ok(false);
        };
        let volume = mounted.volume;
        let mut names = vec![segment.name.clone(), gaps_name(&segment.name)];
        if !self.descriptions.is_empty() {
            names.extend(described::names(&segment.name));
            let next = self.whole.get(self.removed + 1);
            let next = next.map_or(self.next.as_str(), |next| next.name.as_str());
            if let Some((name, bytes)) = self.descriptions.pass_on(segment, next) {
                let failed = |error| (format!("making `{}`", shown(&name)), error);
                let new = [NewFile {
                    name: &name,
                    data: &bytes,
                    mtime_ns: now_ns(),
                    app_tag: 0,
                }];
                let made = volume.with_space(|| volume.create_many(&new, false)).await;
                match made {
                    Ok(made) if made.files == 1 => {}
                    // Of a removal that a power cut ended.
                    Err(Error::Exists) => {}
                    Ok(_) => return Err(failed(Error::NoSpace)),
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        for name in names {
            match remove(volume, &name).await {
                Ok(()) | Err(Error::NotFound | Error::BadName) => {}
                Err(error) => return Err((format!("removing `{}`", shown(&name)), error)),
            }
        }
        let reclaimed = volume.reclaim_all().await;
        reclaimed.map_err(|error| (format!("removing `{}`", shown(&segment.name)), error))?;
        self.removed += 1;
        Ok(true)
    }
}

/// Removes a file, once no other process reads it: each read of those has its end.
async fn remove(volume: &AnyVolume<'_>, name: &str) -> std::result::Result<(), Error> {
    loop {
        match volume.remove(name).await {
            Err(Error::InUse) => pass().await,
            result => return result,
        }
    }
}

/// Closes a file and its companion, which is removed if it names nothing.
async fn close(mounted: &Mounted<'_, '_>, ended: Ended) -> std::result::Result<Segment, Failed> {
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
