// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway map DEVICE [NAME] -- COMMAND`: runs a command that sees a file of a volume, or the
//! device, as a file that is mapped.

use crate::exit::Exit;
use crate::path_options::RouteArgs;
use crate::{Context, working_set};
use clap::Args;
use devices::SCHEMA_VERSION;
use devices::cancel::Cancel;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::guard::Output;
use devices::transfer::IoOptions;
use files::mapped::{Mapped, Mapping, Sums, is_rot, reason};
use files::names::check_name;
use files::{Store, route};
use map::PagerOptions;
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use units::{Size, micros};
use volume::layout::CHUNK_BYTES;

/// The library that the command is started with.
const LIBRARY: &str = "libstraightway_preload.so";
/// Names of sockets that are tried.
const MOST_SOCKETS: usize = 64;
/// How often the command's end and signals are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Run a command that reads a file of a volume, or the device, through memory.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command finds the file at the path of --at, where no real file is. It opens, reads and maps it
as any file, by the library libstraightway_preload.so, which is beside this command. Not with programs
that are linked statically or use no C library, and only to read. After a fork the child opens, reads
and maps it by itself; what its parent had mapped is SIGSEGV in the child.

A page is read from the device when it is touched, and at most --memory holds content. If a page
cannot be read, the command gets EIO or SIGBUS, and the offset and the reason are reported. Data of
files with checksums is verified, with pages of at least 64K.

The exit status is 1 if the command's is not 0, and 6 if data did not match its checksum.")]
pub struct Map {
    /// The device
    pub device: String,
    /// A file's name in the volume on it [the device itself]
    pub name: Option<String>,
    /// Where the command sees it [NAME in the current folder]
    #[arg(long, value_name = "PATH")]
    pub at: Option<PathBuf>,
    /// Bytes that are read when one is touched: a power of two from 4K to 2M
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub page_size: Size,
    /// The most memory that holds content: at least four pages
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub memory: Size,
    /// Bytes that are read behind what is touched, for accesses in order
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub read_ahead: Size,
    /// Read the ranges that FILE names before they are touched, and write there what is in memory
    /// at the end
    #[arg(long, value_name = "FILE")]
    pub working_set: Option<PathBuf>,
    /// Pages that are read at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queue_depth: u16,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
    /// Print JSON; what the command prints goes to standard error
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What a command has read through memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device.
    pub device: String,
    /// The path that was used.
    pub path: String,
    /// The file; null for the device itself.
    pub name: Option<String>,
    /// Where the command saw it.
    pub at: String,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes that a fault reads.
    pub page_bytes: u64,
    /// The data was compared with the file's checksums.
    pub verified: bool,
    /// The command's exit status; null if a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended the command, if one did.
    pub signal: Option<i32>,
    /// Duration of the command.
    pub elapsed_us: u64,
    /// Times that a thread waited for a page.
    pub faults: u64,
    /// Pages that were read.
    pub reads: u64,
    /// Those of them that no thread had touched.
    pub reads_ahead: u64,
    /// Pages whose memory was taken for others.
    pub evictions: u64,
    /// Pages that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A page that could not be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Unreadable {
    /// Its first byte in the file.
    pub offset_bytes: u64,
    /// The device's error.
    pub reason: String,
}

/// What was mapped, and how the command's run ended.
struct Ran {
    size_bytes: u64,
    is_verified: bool,
    status: ExitStatus,
    elapsed_us: u64,
    counters: map::Counters,
    failures: Vec<map::PageError>,
}

impl Map {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume, the library or the command failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let at = self.at()?;
        let library = library()?;
        let drive = Drive::find(&context.roots, &self.device)?;
        let options = route::open_options(&self.io(), false);
        let mut store = Store::of(context, drive, &options)?;
        context.say(format_args!("path: {}", store.opened.name));
        let ran = self.mapping().serve(&mut store, |mapped| {
            self.use_it(context, mapped, &library, &at)
        });
        let rotten = ran
            .as_ref()
            .is_ok_and(|ran| ran.failures.first().is_some_and(|one| is_rot(one.error)));
        let report = ran.map(|ran| self.report(&store.drive, &store.opened.name, &at, ran));
        let report = store.close(report)?;
        self.tell(context, &report, rotten)
    }

    fn mapping(&self) -> Mapping<'_> {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        Mapping {
            name: self.name.as_deref(),
            options: PagerOptions {
                page_bytes: bytes(self.page_size),
                resident_bytes: bytes(self.memory),
                read_ahead_bytes: bytes(self.read_ahead),
                ..PagerOptions::default()
            },
            queue_depth: self.queue_depth,
        }
    }

    /// Shares the map, and runs the command.
    fn use_it(&self, context: &Context, mapped: Mapped, library: &Path, at: &Path) -> Result<Ran> {
        let Mapped {
            map,
            size_bytes,
            sums,
        } = mapped;
        if sums == Sums::Ignored {
            let least = Size(CHUNK_BYTES);
            context.say(format_args!("not verified: pages are smaller than {least}"));
        }
        let set = self.working_set.as_deref();
        let ranges = set
            .map(|path| working_set::load(path, size_bytes))
            .transpose()?;
        // It is a working set or does not exist, so it may be replaced.
        let output = set
            .map(|path| Output::check(&context.roots, path, true, None))
            .transpose()?;
        let socket = share(&map, size_bytes)?;
        for range in ranges.into_iter().flatten() {
            map.prefetch(range).map_err(files::mapped::failed)?;
        }
        let began = Instant::now();
        let status = wait(self.start(library, at, &socket)?, &context.cancel)?;
        if let Some(output) = output {
            working_set::store(
                output,
                &map.resident_ranges().map_err(files::mapped::failed)?,
                &context.cancel,
            )?;
        }
        Ok(Ran {
            size_bytes,
            is_verified: sums == Sums::Verified,
            status,
            elapsed_us: micros(began.elapsed()),
            counters: map.counters(),
            failures: map.take_failures(),
        })
    }

    fn io(&self) -> IoOptions {
        self.route.with_buffers(self.page_size.0, self.queue_depth)
    }

    /// Where the command sees the file: an absolute path that no file has.
    fn at(&self) -> Result<PathBuf> {
        let at = match (&self.at, &self.name) {
            (Some(at), _) => at.clone(),
            (None, Some(name)) => {
                check_name(name)?;
                PathBuf::from(name)
            }
            (None, None) => {
                let failure = Error::usage("the device has no name as a file");
                return Err(failure.hint("--at PATH: where the command shall see it"));
            }
        };
        let folder = at.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let folder = folder
            .canonicalize()
            .map_err(|error| Error::io("finding the folder", folder, &error))?;
        let name = at.file_name().ok_or_else(|| {
            let what = format!("{} is not the name of a file", at.display());
            Error::usage(what).hint("--at PATH: where the command shall see it")
        })?;
        let at = folder.join(name);
        match at.symlink_metadata() {
            Ok(_) => {
                let what = format!("{} exists, and would be hidden", at.display());
                Err(Error::new(ErrorKind::Exists, what).hint("--at PATH: a name that no file has"))
            }
            Err(_) => Ok(at),
        }
    }

    fn start(&self, library: &Path, at: &Path, socket: &Path) -> Result<Child> {
        let (program, arguments) = match self.command.split_first() {
            Some(words) => words,
            None => return Err(Error::usage("no command").hint("-- COMMAND ...")),
        };
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD") {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", preload);
        command.env("STRAIGHTWAY_MAP_SOCKET", socket);
        command.env("STRAIGHTWAY_MAP_AT", at);
        if self.json {
            command.stdout(Stdio::from(io::stderr()));
        }
        let doing = format!("starting {}", program.to_string_lossy());
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("{doing}: {error}")),
            _ => Error::other(format!("{doing}: {error}")),
        })
    }

    fn report(&self, drive: &Drive, path: &str, at: &Path, ran: Ran) -> Report {
        let unreadable = ran.failures.iter().map(|failure| Unreadable {
            offset_bytes: failure.offset_bytes,
            reason: reason(failure.error),
        });
        Report {
            schema_version: SCHEMA_VERSION,
            device: drive.to_string(),
            path: path.to_owned(),
            name: self.name.clone(),
            at: at.display().to_string(),
            size_bytes: ran.size_bytes,
            page_bytes: self.page_size.0,
            verified: ran.is_verified,
            status: ran.status.code(),
            signal: ran.status.signal(),
            elapsed_us: ran.elapsed_us,
            faults: ran.counters.faults,
            reads: ran.counters.reads,
            reads_ahead: ran.counters.reads_ahead,
            evictions: ran.counters.evictions,
            unreadable: unreadable.collect(),
        }
    }

    fn tell(&self, context: &Context, report: &Report, is_rotten: bool) -> Result<Exit> {
        if self.json {
            context.console.json(report)?;
        }
        context.say(format_args!(
            "{} faults; {} pages of {} read, {} of them ahead; the memory of {} taken for others",
            report.faults, report.reads, self.page_size, report.reads_ahead, report.evictions
        ));
        let ended = match (report.status, report.signal) {
            (Some(0), _) => None,
            (Some(status), _) => Some(format!("ended with status {status}")),
            (None, signal) => Some(format!("was ended by signal {}", signal.unwrap_or(0))),
        };
        // Ctrl-C reaches the command too, perhaps before this process.
        let is_interrupted = context.cancel.is_set() || report.signal == Some(SIGINT);
        let program = self.command.first().cloned().unwrap_or_default();
        let ended = ended.map(|ended| format!("{} {ended}", program.to_string_lossy()));
        match (report.unreadable.first(), ended) {
            (None, None) => Ok(Exit::Done),
            (None, Some(ended)) if is_interrupted => Err(Error::interrupted(ended)),
            (None, Some(ended)) => Err(Error::other(ended)),
            (Some(page), ended) => {
                let kind = if is_rotten {
                    ErrorKind::Rot
                } else {
                    ErrorKind::Other
                };
                let what = format!(
                    "byte {} of {} could not be read: {}{}",
                    page.offset_bytes,
                    report.at,
                    page.reason,
                    ended.map_or(String::new(), |ended| format!("; {ended}"))
                );
                Err(Error::new(kind, what))
            }
        }
    }
}

/// Shares the map at a path of its own, which this returns. A process of another container may have
/// the same number and the same folder.
fn share(map: &map::Map, size_bytes: u64) -> Result<PathBuf> {
    let path = |number| {
        let name = format!("straightway-{}-{number}.map", std::process::id());
        std::env::temp_dir().join(name)
    };
    let tried = (0..MOST_SOCKETS).map(path).map(|path| {
        let shared = map.share(&path, size_bytes);
        shared.map(|()| path)
    });
    let mut tried = tried.skip_while(|shared| matches!(shared, Err(map::Error::Exists(_))));
    let none = || Err(map::Error::Exists(path(0)));
    tried
        .next()
        .unwrap_or_else(none)
        .map_err(files::mapped::failed)
}

/// Waits for the command; passes on the user's request to end.
fn wait(mut child: Child, cancel: &Cancel) -> Result<ExitStatus> {
    let waiting = |error| Error::other(format!("waiting for the command: {error}"));
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait().map_err(waiting)? {
            return Ok(status);
        }
        if cancel.is_set() && !is_asked {
            is_asked = true;
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // It may have ended in the meantime.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        thread::sleep(LOOK);
    }
}

/// The library: beside this command, in the libraries' folder beside the command's, or where cargo
/// builds it for tests.
fn library() -> Result<PathBuf> {
    let command = std::env::current_exe().ok();
    let folder = command.as_deref().and_then(Path::parent);
    let places = folder.map(|folder| {
        [
            folder.join(LIBRARY),
            folder.join("../lib/straightway").join(LIBRARY),
            folder.join("deps").join(LIBRARY),
        ]
    });
    let mut places = places.into_iter().flatten();
    places.find(|place| place.exists()).ok_or_else(|| {
        Error::unsupported(format!("{LIBRARY} is not beside this command"))
            .hint("the package straightway has it; in the sources: make build")
    })
}
