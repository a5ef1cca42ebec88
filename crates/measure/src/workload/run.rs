//! Runs a workload on a store.
//!
//! The files are created first, and the page cache is emptied; then the measurement starts. Every
//! thread has its own random stream, so that the seed determines the operations of each thread, but
//! not their interleaving.

use super::sets::{Set, scale};
use super::store::{Ask, LONGEST, Store, UNIT};
use super::{Group, Op, OpResult, Step, Worked, Workload};
use crate::host::{Clock, Host, Monotonic};
use crate::path::Missing;
use crate::random::Random;
use crate::run_info::{Request, RunInfo};
use crate::tail;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct How {
    /// Whether the store bypasses the page cache, for the report.
    pub direct: bool,
    /// Total bytes of all files.
    pub dataset_bytes: u64,
    /// Measured time.
    pub duration: Duration,
}

/// Times and errors of one kind of operation of one group.
#[derive(Clone, Debug, Default)]
struct Tally {
    times_ns: Vec<u64>,
    bytes: u64,
    errors: u64,
}

type Tallies = BTreeMap<(String, String), Tally>;

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
    let failed = |doing: &str, error: &io::Error| {
        Missing::new(
            format!("{doing} {}: {error}", store.place()),
            "use a writable place with space for --dataset",
        )
    };
    store
        .begin()
        .map_err(|error| failed("making files in", &error))?;
    let remove = Remove(store);
    let mut info = RunInfo::begin("workload", host, request);
    let (sets, dataset_bytes) = make(workload, store, how, request.seed, cancel)
        .map_err(|error| failed("making files in", &error))?;
    host.drop_caches()?;
    let start_ns = Monotonic.now_ns();
    let shared = Shared {
        sets: &sets,
        store,
        end_ns: start_ns + u64::try_from(how.duration.as_nanos()).unwrap_or(u64::MAX / 2),
        start_ns,
        cancel,
        first_error: Mutex::new(None),
    };
    let (shared_ref, seed) = (&shared, request.seed);
    let tallies: Vec<Tallies> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for group in &workload.groups {
            let rounds = std::sync::Arc::new(AtomicU64::new(0));
            for thread in 0..group.threads {
                let rounds = std::sync::Arc::clone(&rounds);
                let salts = [group.name.len() as u64, u64::from(thread), 0x776b];
                let random = Random::derived(seed, &salts);
                let work = move || shared_ref.work(group, &rounds, random);
                let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
                threads.extend(spawned);
            }
        }
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let elapsed_ns = Monotonic.now_ns().saturating_sub(start_ns).max(1);
    let first_error = shared.first_error.into_inner().unwrap_or(None);
    drop(remove);
    info.end(host);
    info.complete = !cancel.load(Ordering::Relaxed);
    let mut all = Tallies::new();
    for (key, tally) in tallies.into_iter().flatten() {
        let place = all.entry(key).or_default();
        place.times_ns.extend(tally.times_ns);
        place.bytes += tally.bytes;
        place.errors += tally.errors;
    }
    Ok(summary(
        info,
        workload,
        (store.place(), how.direct),
        dataset_bytes,
        elapsed_ns,
        all,
        first_error,
    ))
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
fn make(
    workload: &Workload,
    store: &dyn Store,
    how: &How,
    seed: u64,
    cancel: &AtomicBool,
) -> io::Result<(BTreeMap<String, Set>, u64)> {
    let mut sets = BTreeMap::new();
    let mut bytes = 0;
    let mut memory = Aligned::new();
    for spec in &workload.sets {
        let (files, mean) = scale(spec, how.dataset_bytes);
        let set = Set::new(mean, spec.shape);
        let mut random = Random::derived(seed, &[0x6d61, files]);
        let data = memory.bytes();
        random.fill(data);
        let wanted = ((files as f64 * spec.filled).round() as u64).max(1);
        for _ in 0..wanted {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            let number = set.next();
            let ask = Ask {
                op: Op::CreateFile,
                set: &spec.name,
                number,
                len_bytes: set.size(&mut random),
                piece_bytes: LONGEST,
                pick: 0,
                sync: false,
            };
            bytes += store.act(&ask, data)?;
            set.put(number);
        }
        sets.insert(spec.name.clone(), set);
    }
    Ok((sets, bytes))
}

/// Memory for one transfer, aligned as direct access requires.
struct Aligned(Vec<u8>);

impl Aligned {
    fn new() -> Self {
        Self(vec![0; (LONGEST + UNIT) as usize])
    }

    /// The memory from the first whole unit of a longer piece.
    fn bytes(&mut self) -> &mut [u8] {
        let offset = self.0.as_ptr().align_offset(UNIT as usize);
        self.0
            .get_mut(offset..offset + LONGEST as usize)
            .unwrap_or_default()
    }
}

struct Shared<'a> {
    sets: &'a BTreeMap<String, Set>,
    store: &'a dyn Store,
    start_ns: u64,
    end_ns: u64,
    cancel: &'a AtomicBool,
    first_error: Mutex<Option<String>>,
}

impl Shared<'_> {
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || self.cancel.load(Ordering::Relaxed)
    }

    fn work(&self, group: &Group, rounds: &AtomicU64, mut random: Random) -> Tallies {
        let mut tallies = Tallies::new();
        let mut memory = Aligned::new();
        let buffer = memory.bytes();
        random.fill(buffer);
        loop {
            let mut due_ns = Monotonic.now_ns();
            if let Some(rate) = group.per_second {
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                due_ns = self.start_ns + (round as f64 / rate * 1e9) as u64;
                if due_ns >= self.end_ns {
                    break;
                }
                self.pause(due_ns);
            }
            if self.is_over(Monotonic.now_ns()) {
                break;
            }
            for step in &group.steps {
                for _ in 0..step.times {
                    if self.is_over(Monotonic.now_ns()) {
                        break;
                    }
                    self.step(group, step, &mut random, buffer, &mut tallies);
                }
            }
            let key = (group.name.clone(), "round".to_owned());
            let taken = Monotonic.now_ns().saturating_sub(due_ns);
            tallies.entry(key).or_default().times_ns.push(taken);
        }
        tallies
    }

    /// Sleeps until a moment, or until the run ends.
    fn pause(&self, until_ns: u64) {
        loop {
            let now_ns = Monotonic.now_ns();
            if now_ns >= until_ns || self.is_over(now_ns) {
                return;
            }
            Monotonic.sleep_ns((until_ns - now_ns).min(50_000_000));
        }
    }

    fn step(
        &self,
        group: &Group,
        step: &Step,
        random: &mut Random,
        buffer: &mut [u8],
        tallies: &mut Tallies,
    ) {
        let begin_ns = Monotonic.now_ns();
        if step.op == Op::Pause {
            self.pause(begin_ns + (step.seconds * 1e9) as u64);
            return;
        }
        let Some(set) = self.sets.get(&step.set) else {
            return;
        };
        let done = self.act(step, set, random, buffer);
        let taken = Monotonic.now_ns().saturating_sub(begin_ns);
        let key = (group.name.clone(), step.op.to_string());
        let tally = tallies.entry(key).or_default();
        match done {
            Ok(bytes) => {
                tally.bytes += bytes;
                tally.times_ns.push(taken);
            }
            // Another thread removed it between our check and our call: this is part of the
            // workload.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tally.errors += 1;
                if let Ok(mut first) = self.first_error.lock() {
                    first.get_or_insert_with(|| format!("{:?}: {error}", step.op));
                }
            }
        }
    }

    fn act(
        &self,
        step: &Step,
        set: &Set,
        random: &mut Random,
        buffer: &mut [u8],
    ) -> io::Result<u64> {
        let piece_bytes = step.size.unwrap_or(LONGEST).div_ceil(UNIT).max(1) * UNIT;
        let number = match step.op {
            Op::CreateFile => Some(set.next()),
            Op::Delete => set.take(random),
            _ => set.any(random),
        };
        let number = number.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let ask = Ask {
            op: step.op,
            set: &step.set,
            number,
            len_bytes: set.size(random),
            piece_bytes: piece_bytes.min(LONGEST),
            pick: random.below(1 << 32),
            sync: step.sync,
        };
        let bytes = self.store.act(&ask, buffer)?;
        if step.op == Op::CreateFile {
            set.put(number);
        }
        Ok(bytes)
    }
}

fn summary(
    run: RunInfo,
    workload: &Workload,
    (folder, direct): (String, bool),
    dataset_bytes: u64,
    elapsed_ns: u64,
    tallies: Tallies,
    first_error: Option<String>,
) -> Worked {
    let seconds = elapsed_ns as f64 / 1e9;
    let (mut bytes, mut count, mut sum) = (0, 0, 0.0);
    let mut operations = Vec::new();
    for ((group, operation), tally) in tallies {
        let times = &tally.times_ns;
        let total: f64 = times.iter().map(|ns| *ns as f64).sum();
        let is_round = operation == "round";
        if !is_round {
            bytes += tally.bytes;
            count += times.len();
            sum += total;
        }
        let rated = workload.groups.iter().find(|one| one.name == group);
        operations.push(OpResult {
            open_loop: is_round && rated.is_some_and(|one| one.per_second.is_some()),
            group,
            operation,
            count: times.len() as u64,
            errors: tally.errors,
            bytes: tally.bytes,
            per_second: times.len() as f64 / seconds,
            mean_ns: total / times.len().max(1) as f64,
            p50_ns: tail::quantile(times, 0.5).unwrap_or(0),
            p99_ns: tail::quantile(times, 0.99).unwrap_or(0),
            p99_ns_ci95: tail::percentile_in_time(times, 0.99).map(|p| p.ci95),
            max_ns: times.iter().copied().max().unwrap_or(0),
        });
    }
    Worked {
        run,
        workload: workload.name.clone(),
        about: workload.about.clone(),
        folder,
        direct,
        dataset_bytes,
        elapsed_ns,
        throughput_mib_s: f64::from(1u32 << 20).recip() * bytes as f64 / seconds,
        operations_per_s: count as f64 / seconds,
        mean_latency_ns: sum / count.max(1) as f64,
        operations,
        first_error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BUILT_IN, Folder};
    use super::*;
    use crate::environment::Environment;
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
                duration: Duration::from_millis(300),
            };
            // A busy machine may need longer until each thread had its turn.
            loop {
                let worked = run(&mut Here, &workload, &request, &store, &how, &cancel).unwrap();
                assert_eq!(worked.first_error, None, "{name}");
                assert!(worked.dataset_bytes > 1 << 20, "{name}");
                let idle = workload.groups.iter().find(|group| {
                    let first = serde_json::to_value(group.steps[0].op).unwrap();
                    !worked.operations.iter().any(|one| {
                        one.group == group.name && one.operation == first && one.count > 0
                    })
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
    fn a_rate_is_kept_and_counts_from_when_a_round_was_due() {
        let text = "name = \"x\"\nabout = \"y\"\n[[set]]\nname = \"s\"\nfiles = 4\nmean_size = 8192\nfilled = 1.0\n\
                    [[group]]\nname = \"g\"\nthreads = 2\nper_second = 100.0\n\
                    steps = [{ op = \"read_block\", set = \"s\", size = 4096 }]\n";
        let place = folder("rate");
        let mut how = How {
            direct: false,
            dataset_bytes: 1 << 20,
            duration: Duration::from_millis(500),
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
