// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run: a start image, operations one after another or two in parallel, the search at each
//! change.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use block::Features;
use crash::{Completions, Config, CrashDisk, Faulty, Medium, Orders, Rule};
use straightway_volume::{MountOptions, OpenFile, Volume};

use super::independent::superblock;
use super::ops::{self, Context, Op};
use super::oracle::{Live, Oracle};
use super::probe::{Hook, Probe};
use super::rules::{ContentRules, rules};
use super::search::{Mutation, Search};
use super::support::{free, memory};

/// Where a run begins.
#[derive(Clone)]
pub struct Start {
    pub name: &'static str,
    pub medium: Medium,
    pub oracle: Oracle,
    /// Done first, without any checks.
    pub prefix: Vec<Op>,
}

/// How the device of a run completes requests.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The order of completions.
    pub seed: u64,
    pub fua: bool,
    pub hold_polls: u32,
}

impl Manner {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            fua: seed & 1 == 0,
            hold_polls: 2,
        }
    }

    pub fn config(&self) -> Config {
        let config = Config::default();
        Config {
            completions: Completions::Shuffled(self.seed),
            hold_polls: self.hold_polls,
            features: Features {
                fua: self.fua,
                ..config.features
            },
            ..config
        }
    }
}

/// What is done next, given what has been promised; `None` ends the run.
pub type Next<'n> = &'n mut dyn FnMut(&Oracle) -> Option<Vec<Op>>;

/// How a run ended.
pub struct End {
    pub disk: CrashDisk,
    /// The operation that failed because of a fault, with its error.
    pub failed: Option<String>,
    /// How many faults happened.
    pub fired: usize,
}

/// Runs `steps` (each of one operation, or of several in parallel) and checks what a power cut may
/// leave from step `active_from` on.
///
/// # Errors
/// A violation, in words.
pub fn run(
    search: &Rc<RefCell<Search>>,
    start: &Start,
    steps: &[Vec<Op>],
    active_from: usize,
    manner: &Manner,
) -> Result<CrashDisk, String> {
    let mut steps = steps.iter();
    let mut next = |_: &Oracle| steps.next().cloned();
    run_with(search, start, &mut next, active_from, manner, &[]).map(|end| end.disk)
}

/// Like [`run`], with steps that may depend on what was promised, and with faults. After a fault
/// that made an operation fail, what the device then holds is checked, and the run ends.
///
/// # Errors
/// A violation, in words, with the steps that led to it.
pub fn run_with(
    search: &Rc<RefCell<Search>>,
    start: &Start,
    next: Next<'_>,
    active_from: usize,
    manner: &Manner,
    faults: &[Rule],
) -> Result<End, String> {
    {
        let mut search = search.borrow_mut();
        search.oracle = start.oracle.clone();
        search.is_active = false;
    }
    let disk = start.medium.open(manner.config());
    let mut steps = Vec::new();
    let result = run_on(search, &disk, start, next, &mut steps, active_from, faults);
    let mut search = search.borrow_mut();
    search.is_active = false;
    let result = match search.violation.take() {
        Some(violation) => Err(violation),
        None => result,
    };
    let (failed, fired) = result.map_err(|reason| {
        format!(
            "{reason}\n  start: {}, {:?}\n  steps: {steps:?}\n  {manner:?} {faults:?}",
            start.name, start.prefix
        )
    })?;
    Ok(End {
        disk,
        failed,
        fired,
    })
}

fn run_on(
    search: &Rc<RefCell<Search>>,
    disk: &CrashDisk,
    start: &Start,
    next: Next<'_>,
    steps: &mut Vec<Vec<Op>>,
    active_from: usize,
    faults: &[Rule],
) -> Result<(Option<String>, usize), String> {
    let lba_log2 = start.medium.block_size_log2();
    let (regions, _, _) = superblock(&start.medium.to_bytes())?;
    let hook: Hook = {
        let search = Rc::clone(search);
        Rc::new(RefCell::new(move |disk: &CrashDisk| {
            search.borrow_mut().examine(disk);
        }))
    };
    let content = Rc::new(RefCell::new(ContentRules::new(regions, lba_log2)));
    let probe = Probe::new(disk.clone(), Some(hook)).with_rules(Rc::clone(&content));
    let orders = Orders::new(probe, rules(&regions, lba_log2));
    let order_log = orders.log();
    let mut device = Faulty::new(orders, []);
    let fault_log = device.faults();
    let context = Context {
        search: Rc::clone(search),
        disk: disk.clone(),
        handles: RefCell::default(),
        ended: RefCell::new(HashSet::new()),
        failed: RefCell::new(None),
        next_tag: RefCell::new(0),
        unit: regions.unit,
        out: RefCell::new(0),
    };
    let mut prefix = start.prefix.iter();
    let mut failed = None;
    loop {
        let mut files: [OpenFile; 3] = Default::default();
        let nodes = memory(regions.node, 0);
        let mutation = search.borrow().mutation;
        let options = MountOptions::default();
        let mounted = Volume::mount_mutated(device, nodes, &mut files, &options, mutation);
        let volume = match mounted {
            Ok(volume) => volume,
            Err(unmounted) => {
                unmounted.memory.into_iter().flatten().for_each(free);
                if fault_log.fired_count() == 0 {
                    return Err(format!("mount: {:?}", unmounted.result));
                }
                failed = Some(format!("mount: {:?}", unmounted.result));
                break;
            }
        };
        let mut is_remount = false;
        loop {
            let prepared = prefix.next().map(|op| vec![*op]);
            let is_prepared = prepared.is_some();
            let step = prepared.or_else(|| next(&search.borrow().oracle));
            let Some(step) = step else { break };
            if !is_prepared {
                if steps.is_empty() {
                    faults.iter().cloned().for_each(|rule| fault_log.add(rule));
                }
                steps.push(step.clone());
            }
            search.borrow_mut().is_active = steps.len() > active_from;
            if step == [Op::Remount] {
                is_remount = true;
                break;
            }
            if let Err(error) = ops::drive(&volume, &context, &step) {
                failed = Some(format!("{step:?}: {error}"));
                break;
            }
            if search.borrow().violation.is_some() {
                break;
            }
        }
        while volume.outstanding() > 0 {
            ops::take_event(&volume, &context);
        }
        let is_over = failed.is_some() || !is_remount;
        let unmounted = if is_over {
            volume.abandon()
        } else {
            volume.unmount()
        };
        if unmounted.memory.iter().any(Option::is_none) {
            return Err("node memory was not given back".into());
        }
        unmounted.memory.into_iter().flatten().for_each(free);
        device = unmounted.device;
        if is_over {
            break;
        }
        if let Err(error) = unmounted.result {
            failed = Some(format!("unmount: {error}"));
            break;
        }
        *context.handles.borrow_mut() = Default::default();
        let mut search = search.borrow_mut();
        for slot in &mut search.oracle.files {
            if let Some(live) = &mut slot.now {
                after_unmount(live);
            }
        }
        search.examine(disk);
    }
    if *context.out.borrow() != 0 {
        return Err("a buffer was not given back".into());
    }
    if let Some(failed) = &failed {
        if fault_log.fired_count() == 0 {
            return Err(failed.clone());
        }
        let mut search = search.borrow_mut();
        search.is_active = true;
        search.examine(disk);
    }
    if search.borrow().mutation == Mutation::None && fault_log.fired_count() == 0 {
        if let Some(violation) = order_log.violations().first() {
            return Err(format!("order: {violation}"));
        }
        if let Some(violation) = content.borrow().violations.first() {
            return Err(format!("order: {violation}"));
        }
    }
    Ok((failed, fault_log.fired_count()))
}

/// What was committed is durable, what was only appended is lost, and nothing is open.
fn after_unmount(live: &mut Live) {
    live.is_open = false;
    live.ends.clear();
    live.appended = live.committed;
    live.synced(live.committed);
}
