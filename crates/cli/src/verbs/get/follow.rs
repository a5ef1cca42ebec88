// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `get DEVICE PATTERN... FOLDER --follow`: each file of a recorder once it is final, until the
//! user ends it; past the recorder's end and its next start.
//!
//! While a process records it is asked how many segments it has finished, which it answers without
//! the drive, and for the list of files only when there is another one. Once it has ended the
//! volume is mounted once, and then left alone for the next recorder.

use super::Get;
use super::ledger::Ledger;
use super::live::no_checksums;
use super::many::{ends_all, make_folder};
use crate::Context;
use crate::exit::Exit;
use crate::verbs::put::Report;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::{Outlet, Output, output_of, refuse_address, standard_output, sync_folder};
use files::listing::FileEntry;
use files::tree::{choose, is_pattern, local};
use files::{route, shown};
use formats::sigmf::META;
use live::origin::{HANDOVER, Origin, pause};
use live::reader::Live;
use recorder::export::{Finished, finished};
use recorder::segments::files::GAPS;
use remedy::{Remedy, Setting, words};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use units::{counted, exact};

/// The time between two questions to a recorder.
const LOOK: Duration = Duration::from_millis(200);
/// How long a recorder that has ended may take to begin again before its volume is mounted here,
/// which would keep it out.
const GRACE: Duration = Duration::from_secs(2);

/// What a look at the volume came to.
enum Seen {
    /// All was taken from the volume, which no process has.
    Stored,
    /// The recording has ended.
    Ended,
}

/// Where the files go.
enum Target<'g> {
    Folder(&'g Path),
    /// One after the other.
    Stream(Outlet),
}

struct Follower<'g> {
    get: &'g Get,
    context: &'g Context,
    words: &'g [String],
    target: Target<'g>,
    ledger: Option<Ledger>,
    /// Files that failed, with the list's time of each: not tried again.
    failed: BTreeMap<String, u64>,
    /// The first failure.
    failure: Option<Error>,
    missed: u64,
    fetched: u64,
    fetched_bytes: u64,
}

impl Get {
    /// The words and the target, if `--follow` is for files that are still to come.
    pub(super) fn followed(&self) -> Option<(&[String], &str)> {
        let (target, words) = self.words.split_last()?;
        let is_one = matches!(words, [] | [_]) && !words.iter().any(|name| is_pattern(name));
        let is_pattern_alone = words.is_empty() && is_pattern(target);
        match (self.follow, is_one, is_pattern_alone) {
            (false, ..) | (_, true, false) => None,
            (true, _, true) => Some((&self.words, ".")),
            (true, false, false) => Some((words, target)),
        }
    }

    /// Fetches each file that the words choose once it is final.
    pub(super) fn run_followed(
        &self,
        context: &Context,
        words: &[String],
        target: &str,
    ) -> Result<Exit> {
        self.refuse_for_many()?;
        choose(words, &[])?;
        let target = match target {
            "-" if self.json => return Err(Error::usage("--json prints where the files go")),
            "-" if self.state.is_some() => {
                return Err(Error::usage("--state is for files in a folder")
                    .hint("nothing tells what the reader of standard output has kept"));
            }
            "-" => {
                let output = output_of(&context.roots, None, None, false)?;
                Target::Stream(Outlet::open(output, &context.cancel)?)
            }
            folder => {
                let folder = Path::new(folder);
                refuse_address(folder)?;
                if folder.exists() && !folder.is_dir() {
                    let what = format!("{} is not a folder; nothing was done", folder.display());
                    return Err(
                        Error::usage(what).hint("the last word is the folder for the files")
                    );
                }
                Target::Folder(folder)
            }
        };
        let mut follower = Follower {
            get: self,
            context,
            words,
            target,
            ledger: None,
            failed: BTreeMap::new(),
            failure: None,
            missed: 0,
            fetched: 0,
            fetched_bytes: 0,
        };
        match follower.run() {
            // It goes on until somebody ends it.
            Err(failure) if failure.kind() == ErrorKind::Interrupted => {}
            ended => ended?,
        }
        follower.end()
    }
}

impl Follower<'_> {
    fn run(&mut self) -> Result<()> {
        let (get, context) = (self.get, self.context);
        let options = route::options_for_many(&get.io, false);
        // The first look is at once, others when a recording has ended.
        let mut due = Some(Instant::now());
        let mut began = Instant::now();
        let (mut is_first, mut has_ended, mut has_said) = (true, false, false);
        loop {
            let is_due = due.is_some_and(|due| Instant::now() >= due);
            if is_due || Live::find(context, &get.device)?.is_some() {
                let is_last = get.once && has_ended;
                let seen = Origin::with(context, &get.device, &get.io, options, |origin| {
                    self.look(origin, is_last)
                });
                match seen {
                    Ok(Seen::Ended) => {
                        has_ended = true;
                        began = Instant::now();
                        let grace = if get.once { Duration::ZERO } else { GRACE };
                        due = Some(began + grace);
                        is_first = false;
                    }
                    Ok(Seen::Stored) if get.once => return Ok(()),
                    Ok(Seen::Stored) => {
                        (due, is_first) = (None, false);
                        if !has_said {
                            context.say("no process records: waits for one");
                        }
                        has_said = true;
                    }
                    // Another process has the volume: a recorder that begins or ends.
                    Err(failure) if self.is_awaited(&failure, is_first) => {
                        if get.once && began.elapsed() >= HANDOVER {
                            return Err(failure);
                        }
                    }
                    Err(failure) => return Err(failure),
                }
            }
            self.sleep(LOOK)?;
        }
    }

    fn is_awaited(&self, failure: &Error, is_first: bool) -> bool {
        let roots = &self.context.roots;
        failure.kind() == ErrorKind::Missing
            && (!is_first || Drive::find(roots, &self.get.device).is_ok())
    }

    fn sleep(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            pause(self.context)?;
        }
        Ok(())
    }

    /// Takes what is final, and what becomes so until the recording ends.
    fn look(&mut self, origin: &Origin<'_, '_>, is_last: bool) -> Result<Seen> {
        let mut seen = None;
        loop {
            let status = origin.status()?;
            let finished = status.map(|status| (status.began_ns, status.finished_segments));
            if finished.is_none() && !origin.is_here() {
                return Ok(Seen::Ended);
            }
            if finished.is_none() || finished != seen {
                self.take_new(origin)?;
                seen = finished;
            }
            if finished.is_none() || is_last {
                return Ok(Seen::Stored);
            }
            self.sleep(LOOK)?;
        }
    }

    fn take_new(&mut self, origin: &Origin<'_, '_>) -> Result<()> {
        let all = origin.files()?;
        let mut ledger = match self.ledger.take() {
            Some(ledger) => ledger,
            None => {
                let uuid = match &self.get.state {
                    Some(_) => origin.volume()?.uuid,
                    None => String::new(),
                };
                Ledger::open(&self.context.roots, self.get.state.as_deref(), &uuid, &all)?
            }
        };
        let taken = self.take_all(origin, &all, &mut ledger);
        ledger.looked();
        self.ledger = Some(ledger);
        taken
    }

    fn take_all(
        &mut self,
        origin: &Origin<'_, '_>,
        all: &[FileEntry],
        ledger: &mut Ledger,
    ) -> Result<()> {
        let mut names: Vec<&str> = all.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        let (chosen, _) = choose(self.words, &names)?;
        let chosen: BTreeSet<&str> = chosen.into_iter().collect();
        let is_stream = matches!(self.target, Target::Stream(_));
        let is_companion = |name: &str| name.ends_with(META) || name.ends_with(GAPS);
        for one in finished(all, &chosen) {
            let is_out = is_stream && is_companion(&one.file.name);
            if is_out || ledger.has(&one.file) || self.has_failed(&one.file) {
                continue;
            }
            if let Some((first, last)) = ledger.missed_before(&one) {
                self.missed(&first, &last);
            }
            if !one.is_empty {
                match self.take(origin, &one, ledger.is_kept()) {
                    Ok(()) => {}
                    Err(failure) if failure.kind() == ErrorKind::NotFound => {
                        self.missed(&one.file.name, &one.file.name);
                    }
                    // What was printed of it cannot be taken back.
                    Err(failure) if ends_all(&failure) || is_stream => return Err(failure),
                    Err(failure) => {
                        self.context
                            .say(words!["warning: ", failure.what().clone()]);
                        self.failed
                            .insert(one.file.name.clone(), one.file.modified_ns);
                        self.failure.get_or_insert(failure);
                        continue;
                    }
                }
            }
            ledger.add(&one.file, one.segment.as_ref())?;
        }
        Ok(())
    }

    fn has_failed(&self, file: &FileEntry) -> bool {
        self.failed.get(&file.name) == Some(&file.modified_ns)
    }

    /// Says that segments were removed before they were fetched.
    fn missed(&mut self, first: &str, last: &str) {
        let which = if first == last {
            format!("`{}` was", shown(first))
        } else {
            format!("`{}` to `{}` were", shown(first), shown(last))
        };
        self.missed += 1;
        self.context.say(words![
            format!("warning: {which} removed before being fetched (hint: a ring with a larger "),
            Setting::Keep,
            " has its segments for longer)"
        ]);
    }

    /// Fetches a file; its companions first.
    fn take(&mut self, origin: &Origin<'_, '_>, one: &Finished, is_kept: bool) -> Result<()> {
        one.file.refuse_unfinished()?;
        if self.get.verify && !one.file.has_checksums() {
            return Err(no_checksums(&one.file.name));
        }
        let bar = self.context.bytes_bar(None);
        let get = self.get;
        let report = match &mut self.target {
            Target::Stream(sink) => Some(get.read(origin, &one.file, sink, &mut 0, &bar)?),
            Target::Folder(folder) => {
                let folder = *folder;
                for file in &one.companions {
                    self.store(origin, folder, file, is_kept)?;
                }
                self.store(origin, folder, &one.file, is_kept)?
            }
        };
        let Some(report) = report else { return Ok(()) };
        self.fetched += 1;
        self.fetched_bytes += report.length_bytes;
        if self.get.json {
            let line = serde_json::to_string(&report)
                .map_err(|error| Error::other(format!("making JSON: {error}")))?;
            let written =
                standard_output().and_then(|mut out| out.write_all(format!("{line}\n").as_bytes()));
            written.map_err(|error| Error::stdout(&error))?;
        } else if matches!(self.target, Target::Folder(_)) {
            let bytes = exact(report.length_bytes);
            self.context
                .say(format_args!("fetched `{}`: {bytes}", shown(&report.name)));
        }
        Ok(())
    }

    /// Fetches a file into the folder; none: it has it.
    fn store(
        &self,
        origin: &Origin<'_, '_>,
        folder: &Path,
        file: &FileEntry,
        is_kept: bool,
    ) -> Result<Option<Report>> {
        let context = self.context;
        let path = local(folder, &file.name)?;
        if !self.get.force && is_same(&path, file) {
            return Ok(None);
        }
        make_folder(
            path.parent().unwrap_or(folder),
            &mut std::path::PathBuf::new(),
        )?;
        let output =
            Output::check_within(&context.roots, folder, &path, self.get.force, origin.drive);
        let output = output.map_err(|failure| {
            let failure = failure.and("what is there is not what the volume has");
            match failure.kind() {
                ErrorKind::Exists => {
                    failure.hint(words![Remedy::agree(Setting::Force), " to replace it"])
                }
                _ => failure,
            }
        })?;
        let mut sink = Outlet::open(Some(output), &context.cancel)?;
        let bar = context.bytes_bar(None);
        let report = self.get.read(origin, file, &mut sink, &mut 0, &bar)?;
        bar.finish_and_clear();
        sink.set_modified(file.modified_ns);
        if is_kept {
            sink.sync()?;
        }
        sink.finish()?;
        if is_kept {
            sync_folder(&path)?;
        }
        Ok(Some(report))
    }

    /// What it came to.
    fn end(self) -> Result<Exit> {
        if let Target::Stream(sink) = self.target {
            sink.finish()?;
        }
        let what = format!(
            "fetched {}: {}",
            counted(self.fetched, "file"),
            exact(self.fetched_bytes)
        );
        self.context.say(what);
        match (self.failure, self.missed) {
            (Some(failure), _) => Err(failure),
            (None, 0) => Ok(Exit::Done),
            (None, _) => Err(Error::new(
                ErrorKind::Late,
                "segments were removed before being fetched; they are named above",
            )),
        }
    }
}

/// Whether a local file is the one that was fetched before: of its length and time.
fn is_same(path: &Path, file: &FileEntry) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return false;
    };
    let modified = found.modified().ok();
    let since_1970 = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let is_of_time = since_1970.is_some_and(|time| time.as_nanos() == u128::from(file.modified_ns));
    found.is_file() && found.len() == file.size_bytes && is_of_time
}
