// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway workload NAME PLACE`: a simulated application on a file system, or on a volume.

use crate::Context;
use crate::exit::Exit;
use crate::measuring::setup::request;
use crate::output::{Saving, valid};
use crate::path_options::RouteArgs;
use bench::workload::{POOL_BYTES, files_of};
use clap::Args;
use devices::error::{Error, Result};
use files::OPEN_FILES;
use files::{Access, Store as VolumeStore, route};
use measure::{DeviceInfo, Environment, Host, Missing};
use std::path::Path;
use units::{Size, Time};
use workload::{self as workloads, BUILT_IN, Folder, How, Store, Worked};

/// Run a simulated application in a folder or on a volume: webserver, fileserver, varmail,
/// videoserver, netsfs, webproxy, oltp, or one of your own.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
On a volume the operations of all threads go through the one thread that has mounted it, as through a
storage service that has many of them under way. Its files are called workload.SET.NUMBER; no other file
is changed.

The files are made, caches are dropped, and after a warm-up the runs follow each other without a pause.")]
pub struct Workload {
    /// One of the seven, or a TOML file
    pub workload: String,
    /// A folder on the file system to measure, or a device with a volume; files are created in it
    /// and removed again
    #[arg(value_name = "PLACE")]
    pub place: String,
    /// Bypass the page cache of a file system; a volume always bypasses it
    #[arg(long)]
    pub direct: bool,
    /// Total size of all files; twice the machine's memory measures the drive rather than the cache
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub dataset: Size,
    /// Duration of each run
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Time,
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u16,
    /// Time before the first run; by default a quarter of a run
    #[arg(long, value_name = "TIME")]
    pub warm_up: Option<Time>,
    /// The path to the device of a volume
    #[command(flatten)]
    pub route: RouteArgs,
    /// Determines sizes, offsets and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where the report is saved
    #[command(flatten)]
    pub saving: Saving,
}

/// This machine, with its page cache.
struct Machine {
    /// The measured operations use the page cache.
    has_cache: bool,
}

impl Host for Machine {
    fn environment(&mut self) -> Environment {
        Environment::read(&measure::Subject::default())
    }

    fn drop_caches(&mut self) -> std::result::Result<(), Missing> {
        if self.has_cache {
            bench::drop_caches()
        } else {
            Ok(())
        }
    }
}

impl Workload {
    /// Runs the verb.
    ///
    /// # Errors
    /// The workload is unknown, or the folder cannot be used.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        self.saving.check(context, "workload")?;
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == self.workload);
        let text = match built_in {
            Some((_, text)) => (*text).to_owned(),
            None => std::fs::read_to_string(&self.workload).map_err(|error| {
                let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                Error::usage(format!("unknown workload `{}`: {error}", self.workload))
                    .hint(format!("{}, or a TOML file", names.join(", ")))
            })?,
        };
        let workload = workloads::Workload::parse(&text)
            .map_err(|error| Error::usage(format!("{}: {error}", self.workload)))?;
        if self.duration.0.is_zero() || self.runs == 0 || self.dataset.0 < 1 << 20 {
            return Err(Error::usage(
                "the duration and the runs must be more than 0, and the data set at least 1 MiB",
            ));
        }
        self.saving.make_folder()?;
        context.say(format_args!("{}: {}", workload.name, workload.about));
        let folder = Path::new(&self.place);
        let worked = if folder.is_dir() {
            self.in_folder(context, &workload, folder)?
        } else {
            self.on_volume(context, &workload)?
        };
        self.saving.leave(context, &worked, &[])?;
        valid(&worked.run)?;
        match &worked.first_error {
            None => Ok(Exit::Done),
            Some(error) => Err(Error::other(format!("operations failed: {error}"))
                .hint("use a file system that supports O_DIRECT, or omit --direct; df")),
        }
    }

    fn in_folder(
        &self,
        context: &Context,
        workload: &workloads::Workload,
        folder: &Path,
    ) -> Result<Worked> {
        let flag = rustix::fs::OFlags::DIRECT.bits() as i32;
        let store = Folder::new(folder, self.direct.then_some(flag));
        let machine = Machine { has_cache: true };
        self.worked(context, workload, &store, machine, self.direct)
            .map_err(bench::failed)
    }

    fn on_volume(&self, context: &Context, workload: &workloads::Workload) -> Result<Worked> {
        let io = self.route.with_buffers(POOL_BYTES, 1);
        let mut store = VolumeStore::open(context, &self.place, &route::open_options(&io, true))?;
        let place = format!("a volume on {}", store.drive);
        let worked = store.mount_for(Access::Write, OPEN_FILES, |mounted| {
            let (files, service) = files_of(place);
            std::thread::scope(|scope| {
                // The worker thread owns the threads' end, so serving ends with it.
                let machine = Machine { has_cache: false };
                let work = move || self.worked(context, workload, &files, machine, true);
                let working = scope.spawn(work);
                let served = service.serve(mounted);
                let worked = working
                    .join()
                    .map_err(|_| Error::other("a thread of the workload ended early"))?;
                served.and(Ok(worked.map_err(bench::failed)?))
            })
        });
        store.close(worked)
    }

    fn worked(
        &self,
        context: &Context,
        workload: &workloads::Workload,
        store: &dyn Store,
        mut machine: Machine,
        direct: bool,
    ) -> std::result::Result<Worked, Missing> {
        let device = DeviceInfo {
            name: store.place(),
            ..DeviceInfo::default()
        };
        let request = request(device, self.seed);
        let how = How {
            direct,
            dataset_bytes: self.dataset.0,
            warm_up: self.warm_up.map_or(self.duration.0 / 4, |time| time.0),
            duration: self.duration.0,
            runs: usize::from(self.runs),
        };
        workloads::run(
            &mut machine,
            workload,
            &request,
            store,
            &how,
            context.cancel.flag(),
        )
    }
}
