// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a workload on a store.
//!
//! The files are created first, and the page cache is emptied; then come the warm-up and the runs,
//! without a pause. An operation counts in the run in which it ends. Every thread has its own
//! random stream, so that the seed determines the operations of each thread, but not their
//! interleaving.

use super::describe::{FileSet, Op};
use super::semaphore::Semaphore;
use super::sets::{Set, scale};
use super::shared::{Aligned, Shared, Tallies, Tally};
use super::store::{LONGEST, Named, Session, Store, Use};
use super::worker::work;
use super::{OpResult, RunResult, Worked, Workload};
use measure::Missing;
use measure::run_info::{Request, RunInfo};
use measure::{Clock, Host, Monotonic};
use remedy::{Setting, words};
use statistics::random::Random;
use statistics::tail;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct How {
    /// Whether the store bypasses the page cache, for the report.
    pub direct: bool,
    /// Total bytes of all files.
    pub dataset_bytes: u64,
    /// Time before the first run.
    pub warm_up: Duration,
    /// Measured time of each run.
    pub duration: Duration,
    /// Number of runs; at least one is done.
    pub runs: usize,
}

impl How {
    /// When the warm-up and each run end.
    fn ends_ns(&self, start_ns: u64) -> Vec<u64> {
        let nanos =
            |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 8);
        let first = start_ns.saturating_add(nanos(self.warm_up));
        let run_ns = nanos(self.duration);
        (0..=self.runs.max(1) as u64)
            .map(|run| first.saturating_add(run.saturating_mul(run_ns)))
            .collect()
    }
}

/// Runs `workload` on `store`, and removes its files.
///
/// # Errors
/// The files cannot be created, or the page cache cannot be emptied.
pub fn run(
    host: &mut dyn Host,
    workload: &Workload,
    request: &Request,
    store: &dyn Store,
    how: &How,
    cancel: &AtomicBool,
) -> Result<Worked, Missing> {
    let failed = |error: &io::Error| {
        Missing::new(
            format!("making files in {}: {error}", store.place()),
            words!["use a writable place with space for ", Setting::Dataset],
        )
    };
    store.begin().map_err(|error| failed(&error))?;
    let remove = Remove(store);
    let mut info = RunInfo::begin("workload", host, request);
    let (sets, dataset_bytes) =
        make(workload, store, how, request.seed, cancel).map_err(|error| failed(&error))?;
    host.drop_caches()?;
    let start_ns = Monotonic.now_ns();
    let semaphores = workload.semaphores.iter();
    let shared = Shared {
        workload,
        sets,
        semaphores: semaphores
            .map(|one| (one.name.as_str(), Semaphore::new(workload.highest(one))))
            .collect(),
        store,
        start_ns,
        ends_ns: how.ends_ns(start_ns),
        cancel,
        first_error: Mutex::new(None),
    };
    let tallies = threads(&shared, request.seed);
    let measured_ns = measured_ns(&shared, Monotonic.now_ns());
    let first_error = shared.first_error.into_inner().unwrap_or(None);
    drop(remove);
    info.end(host);
    info.complete = !cancel.load(Ordering::Relaxed);
    let place = (store.place(), how.direct);
    Ok(summary(
        info,
        workload,
        place,
        dataset_bytes,
        &measured_ns,
        tallies,
        first_error,
    ))
}

/// Runs all threads to the end, and adds up what they counted.
fn threads(shared: &Shared<'_>, seed: u64) -> Tallies {
    let mut all = Tallies::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for group in &shared.workload.groups {
            let rounds = Arc::new(AtomicU64::new(0));
            for thread in 0..group.threads {
                let rounds = Arc::clone(&rounds);
                let salts = [group.name.len() as u64, u64::from(thread), 0x776b];
                let random = Random::derived(seed, &salts);
                let work = move || work(shared, group, &rounds, random, scope);
                threads.extend(std::thread::Builder::new().spawn_scoped(scope, work));
            }
        }
        for thread in threads {
            for (key, tally) in thread.join().unwrap_or_default() {
                let place: &mut Tally = all.entry(key).or_default();
                place.times_ns.extend(tally.times_ns);
                place.bytes += tally.bytes;
                place.errors += tally.errors;
            }
        }
    });
    all
}

/// The length of the warm-up and of each run; a run that was cancelled has what passed of it.
fn measured_ns(shared: &Shared<'_>, now_ns: u64) -> Vec<u64> {
    let mut begin_ns = shared.start_ns;
    let mut lengths = Vec::new();
    for end_ns in &shared.ends_ns {
        let end_ns = (*end_ns).min(now_ns).max(begin_ns);
        lengths.push(end_ns - begin_ns);
        begin_ns = end_ns;
    }
    lengths
}

/// Removes the files when the run has ended, in all cases.
struct Remove<'a>(&'a dyn Store);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        // The next run refuses remaining files, with their name.
        let _ = self.0.clear();
    }
}

/// Creates the initial files; returns the sets, and the bytes of all files.
fn make<'a>(
    workload: &'a Workload,
    store: &dyn Store,
    how: &How,
    seed: u64,
    cancel: &AtomicBool,
) -> io::Result<(BTreeMap<&'a str, Set>, u64)> {
    let mut sets = BTreeMap::new();
    let mut bytes = 0;
    let mut memory = Aligned::new(LONGEST as usize);
    let mut session = store.session()?;
    for spec in &workload.sets {
        let (files, mean) = scale(workload, spec, how.dataset_bytes);
        let set = Set::new(workload, spec, mean, store.unit_bytes());
        let mut random = Random::derived(seed, &[0x6d61, files]);
        let data = memory.bytes();
        random.fill(data);
        for _ in 0..initial(spec, files) {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            let (number, len_bytes) = (set.next(), set.size(&mut random));
            let named = Named {
                set: &spec.name,
                number,
            };
            write(session.as_mut(), named, len_bytes, data)?;
            bytes += len_bytes;
            set.put_open(number);
            set.closed(number);
        }
        sets.insert(spec.name.as_str(), set);
    }
    Ok((sets, bytes))
}

fn initial(spec: &FileSet, files: u64) -> u64 {
    ((files as f64 * spec.filled).round() as u64).max(1)
}

fn write(session: &mut dyn Session, file: Named<'_>, len: u64, data: &[u8]) -> io::Result<()> {
    session.open(0, file, Use::Create(len))?;
    let mut left = len;
    while left > 0 {
        let piece = left.min(data.len() as u64);
        session.append(0, data.get(..piece as usize).unwrap_or_default())?;
        left -= piece;
    }
    session.close(0)
}

/// Sums of some phases.
#[derive(Default)]
struct Sum {
    bytes: u64,
    operations: u64,
    time_ns: f64,
}

impl Sum {
    fn add(&mut self, tally: &Tally) {
        self.bytes += tally.bytes;
        self.operations += tally.times_ns.len() as u64;
        self.time_ns += tally.times_ns.iter().map(|ns| *ns as f64).sum::<f64>();
    }

    fn result(&self, elapsed_ns: u64) -> RunResult {
        let seconds = elapsed_ns.max(1) as f64 / 1e9;
        RunResult {
            throughput_mib_s: self.bytes as f64 / f64::from(1u32 << 20) / seconds,
            operations_per_s: self.operations as f64 / seconds,
            mean_latency_ns: self.time_ns / self.operations.max(1) as f64,
        }
    }
}

fn summary(
    run: RunInfo,
    workload: &Workload,
    (folder, direct): (String, bool),
    dataset_bytes: u64,
    measured_ns: &[u64],
    tallies: Tallies,
    first_error: Option<String>,
) -> Worked {
    let runs_ns = measured_ns.get(1..).unwrap_or_default();
    let elapsed_ns = runs_ns.iter().sum::<u64>().max(1);
    let mut sums: Vec<Sum> = runs_ns.iter().map(|_| Sum::default()).collect();
    let mut whole = Sum::default();
    let mut kinds: BTreeMap<(String, Option<Op>), Tally> = BTreeMap::new();
    for ((phase, group, op), tally) in tallies {
        // The warm-up is the first phase; what ends after the last run is in none.
        let Some(sum) = phase.checked_sub(1).and_then(|run| sums.get_mut(run)) else {
            continue;
        };
        if op.is_some_and(Op::is_access) {
            sum.add(&tally);
            whole.add(&tally);
        }
        let kind = kinds.entry((group, op)).or_default();
        kind.bytes += tally.bytes;
        kind.errors += tally.errors;
        kind.times_ns.extend(tally.times_ns);
    }
    let all = whole.result(elapsed_ns);
    let results = kinds.into_iter().map(|((group, op), tally)| {
        let rated = workload.groups.iter().find(|one| one.name == group);
        let open_loop = op.is_none() && rated.is_some_and(|one| one.per_second.is_some());
        result(group, op, open_loop, elapsed_ns, &tally)
    });
    Worked {
        run,
        workload: workload.name.clone(),
        about: workload.about.clone(),
        folder,
        direct,
        dataset_bytes,
        elapsed_ns,
        runs: std::iter::zip(&sums, runs_ns)
            .map(|(sum, run_ns)| sum.result(*run_ns))
            .collect(),
        throughput_mib_s: all.throughput_mib_s,
        operations_per_s: all.operations_per_s,
        mean_latency_ns: all.mean_latency_ns,
        operations: results.collect(),
        first_error,
    }
}

fn result(
    group: String,
    op: Option<Op>,
    open_loop: bool,
    elapsed_ns: u64,
    tally: &Tally,
) -> OpResult {
    let times = &tally.times_ns;
    let total: f64 = times.iter().map(|ns| *ns as f64).sum();
    OpResult {
        group,
        operation: op.map_or_else(|| "round".to_owned(), |op| op.to_string()),
        count: times.len() as u64,
        errors: tally.errors,
        bytes: tally.bytes,
        per_second: times.len() as f64 / (elapsed_ns as f64 / 1e9),
        mean_ns: total / times.len().max(1) as f64,
        p50_ns: tail::quantile(times, 0.5).unwrap_or(0),
        p99_ns: tail::quantile(times, 0.99).unwrap_or(0),
        p99_ns_ci95: tail::percentile_in_time(times, 0.99).map(|p| p.ci95),
        max_ns: times.iter().copied().max().unwrap_or(0),
        open_loop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BUILT_IN, Folder};
    use measure::Environment;
    use std::fs;
    use std::path::PathBuf;

    struct Here;

    impl Host for Here {
        fn environment(&mut self) -> Environment {
            Environment::default()
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("workload-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The time in which a machine must finish, however busy it is.
    const LONGEST: Duration = Duration::from_secs(60);

    #[test]
    fn each_workload_does_all_of_its_operations_and_leaves_nothing() {
        for (name, text) in BUILT_IN {
            let mut workload = Workload::parse(text).unwrap();
            for group in &mut workload.groups {
                group.threads = group.threads.min(2);
            }
            let place = folder(name);
            let store = Folder::new(&place, None);
            let cancel = AtomicBool::new(false);
            let request = Request::default();
            let mut how = How {
                direct: false,
                dataset_bytes: 4 << 20,
                warm_up: Duration::ZERO,
                duration: Duration::from_millis(100),
                runs: 3,
            };
            // A busy machine may need longer until each thread had its turn.
            loop {
                let worked = run(&mut Here, &workload, &request, &store, &how, &cancel).unwrap();
                assert_eq!(worked.first_error, None, "{name}");
                assert!(worked.dataset_bytes > 1 << 20, "{name}");
                assert_eq!(worked.runs.len(), 3);
                let idle = workload.groups.iter().find_map(|group| {
                    let mut accesses = group.all().into_iter();
                    let missing = accesses.find(|step| {
                        let is_this = |one: &&OpResult| {
                            one.group == group.name && one.operation == step.op.to_string()
                        };
                        let found = worked.operations.iter().find(is_this);
                        step.op.is_access() && found.is_none_or(|one| one.count == 0)
                    });
                    missing.map(|step| (&group.name, step.op))
                });
                if idle.is_none() && worked.throughput_mib_s > 0.0 {
                    break;
                }
                how.duration *= 4;
                assert!(
                    how.duration < LONGEST,
                    "{name}: {idle:?}: {:?}",
                    worked.operations
                );
            }
            // Existing files are never changed.
            fs::create_dir(place.join("straightway-workload")).unwrap();
            assert!(run(&mut Here, &workload, &request, &store, &how, &cancel).is_err());
            fs::remove_dir(place.join("straightway-workload")).unwrap();
            fs::remove_dir(&place).unwrap();
        }
    }

    #[test]
    fn an_operation_counts_in_the_run_in_which_it_ends_and_the_warm_up_in_none() {
        let how = How {
            direct: false,
            dataset_bytes: 1 << 20,
            warm_up: Duration::from_nanos(100),
            duration: Duration::from_nanos(1000),
            runs: 2,
        };
        assert_eq!(how.ends_ns(50), [150, 1150, 2150]);
        let tally = |times_ns: &[u64], bytes| Tally {
            times_ns: times_ns.to_vec(),
            bytes,
            errors: 0,
        };
        let of = |phase, op| (phase, "readers".to_owned(), op);
        let tallies = Tallies::from([
            (of(0, Some(Op::ReadAll)), tally(&[900], 1 << 20)),
            (of(1, Some(Op::ReadAll)), tally(&[10, 30], 1 << 20)),
            (of(1, Some(Op::Wait)), tally(&[500], 0)),
            (of(2, Some(Op::ReadAll)), tally(&[20], 3 << 20)),
            (of(3, Some(Op::ReadAll)), tally(&[900], 1 << 20)),
        ]);
        let workload = Workload::parse(BUILT_IN[0].1).unwrap();
        let info = RunInfo::begin("workload", &mut Here, &Request::default());
        let place = (String::new(), false);
        let lengths = [100, 1000, 1000];
        let worked = summary(info, &workload, place, 0, &lengths, tallies, None);
        let rates: Vec<f64> = worked.runs.iter().map(|run| run.throughput_mib_s).collect();
        assert_eq!(rates, [1e6, 3e6]);
        assert_eq!(
            (worked.throughput_mib_s, worked.mean_latency_ns),
            (2e6, 20.0)
        );
        let read = worked
            .operations
            .iter()
            .find(|one| one.operation == "read_all");
        assert_eq!(read.map(|one| (one.count, one.max_ns)), Some((3, 30)));
    }

    #[test]
    fn a_rate_is_kept_and_counts_from_when_a_round_was_due() {
        let text = "name = \"x\"\nabout = \"y\"\n[[set]]\nname = \"s\"\nfiles = 4\nmean_size = 8192\nfilled = 1.0\n\
                    [[group]]\nname = \"g\"\nthreads = 2\nper_second = 100.0\n\
                    steps = [{ op = \"read_block\", set = \"s\", size = 4096 }]\n";
        let place = folder("rate");
        let mut how = How {
            direct: false,
            dataset_bytes: 1 << 20,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(500),
            runs: 1,
        };
        let cancel = AtomicBool::new(false);
        let workload = Workload::parse(text).unwrap();
        let store = Folder::new(&place, None);
        let request = Request::default();
        // A busy machine may hold up the last rounds of a short run.
        loop {
            let worked = run(&mut Here, &workload, &request, &store, &how, &cancel).unwrap();
            let mut rounds = worked.operations.iter();
            let round = rounds.find(|one| one.operation == "round").unwrap();
            let due = how.duration.as_millis() as u64 / 10;
            assert!(round.open_loop && round.count <= due, "{round:?}");
            if round.count * 5 >= due * 4 {
                break;
            }
            how.duration *= 4;
            assert!(how.duration < LONGEST, "{round:?}");
        }
        fs::remove_dir(&place).unwrap();
    }
}
