// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which functions take the processor's time: samples of stacks, taken by perf.
//!
//! The whole machine is sampled, because a path's work is also done in interrupts and in the
//! kernel's threads. Samples of idle processors are counted separately. Each other sample belongs
//! to one [`Kind`], determined by function names: the innermost function decides about copying,
//! clearing, locking and flushing, the innermost known function of the stack about the rest.

pub mod run;
pub mod stacks;

use crate::access::Access;
use crate::run_info::RunInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stacks::Stack;
use std::collections::BTreeMap;

/// Minimum number of busy samples for shares.
pub const FEWEST_SAMPLES: u64 = 200;
/// Number of functions in the table.
const FUNCTIONS: usize = 40;
/// Minimum share of a tree node; smaller nodes are omitted.
const SMALLEST: f64 = 0.002;
/// Maximum depth of a stack in the tree: each function is two levels of JSON, and many readers
/// accept at most 128.
const DEEPEST: usize = 48;

named! {
    /// The kind of work in a sample.
    pub enum Kind {
        /// Moving bytes between the page cache and the application.
        Copying = "copying",
        /// Writing pages back, or the processor's caches before DMA.
        Flushing = "flushing",
        /// Taking locks, and waiting for them.
        Locking = "locking",
        /// Interrupts and soft interrupts.
        Interrupt = "interrupts",
        /// The NVMe driver.
        Driver = "NVMe driver",
        /// The block layer.
        BlockLayer = "block layer",
        /// The file system.
        FileSystem = "file system",
        /// Scheduling.
        Scheduling = "scheduling",
        /// The rest of the kernel: system call entry, memory, accounting.
        Kernel = "rest of the kernel",
        /// Programs, including the application itself.
        Application = "programs",
        /// Clearing memory, such as new pages of the page cache.
        Clearing = "clearing memory",
        /// Where a lock is released. A timer's interrupt, which takes the samples where the
        /// processor has no other event, waits until interrupts are enabled again: what took the
        /// time came before, and is not known.
        Unlock = "unknown, at an unlock",
    }
}

/// Prefixes of function names, by kind. The first five are matched only against the
/// innermost function, the others from the innermost function outwards.
const INNERMOST: [(Kind, &str); 5] = [
    (
        Kind::Copying,
        "copy_ _copy_ __copy_ rep_movs memcpy __memcpy memmove __memmove __arch_copy_ arm_copy_",
    ),
    (
        Kind::Clearing,
        "clear_page clear_user __clear_user __arch_clear_user clear_huge_page memset __memset __memzero",
    ),
    (
        Kind::Unlock,
        "_raw_spin_unlock _raw_read_unlock _raw_write_unlock",
    ),
    (
        Kind::Flushing,
        "clflush clean_cache dcache_ __dma_ arch_sync_dma v7_dma_ v7_flush __inval_ __clean_ \
         __flush_dcache dma_cache_",
    ),
    (
        Kind::Locking,
        "_raw_spin _raw_read _raw_write native_queued_spin queued_spin queued_write \
         queued_read mutex_ __mutex rwsem_ down_ up_ __down __up osq_ rt_mutex rt_spin __rt_ \
         lock_page __lock_page futex_",
    ),
];
const ANYWHERE: [(Kind, &str); 6] = [
    (
        Kind::Flushing,
        "wb_workfn wb_writeback writeback_ __writeback do_writepages filemap_fdatawrite \
         __filemap_fdatawrite blkdev_fsync ext4_sync_file jbd2_ __jbd2_ kjournald sync_inodes \
         ext4_writepages",
    ),
    (Kind::Driver, "nvme_ chario_"),
    (
        Kind::BlockLayer,
        "blk_ __blk_ blkdev_ __blkdev_ bio_ __bio_ submit_bio __submit_bio sbitmap_ __sbitmap \
         iomap_dio dd_ elv_",
    ),
    (
        Kind::FileSystem,
        "ext4_ __ext4_ iomap_ generic_file_ filemap_",
    ),
    (
        Kind::Interrupt,
        "asm_common_interrupt asm_sysvec common_interrupt handle_irq handle_edge_irq \
         __irq_exit irq_exit __do_softirq handle_softirqs gic_handle_irq el1_irq el0_irq \
         el1h_64_irq el0t_64_irq irq_thread",
    ),
    (
        Kind::Scheduling,
        "__schedule schedule try_to_wake_up finish_task_switch io_schedule pick_next_task \
         dequeue_task enqueue_task",
    ),
];
/// Functions of an idle processor.
const IDLE: &str = "default_idle native_safe_halt pv_native_safe_halt intel_idle mwait_idle cpu_idle_poll \
    arch_cpu_idle acpi_idle acpi_safe_halt cpuidle_ do_idle arch_local_irq_enable";

fn begins(name: &str, with: &str) -> bool {
    with.split(' ').any(|start| name.starts_with(start))
}

/// The kind of a stack, innermost function first; `None` for an idle processor.
pub fn kind(stack: &Stack) -> Option<Kind> {
    let Some(innermost) = stack.frames.first() else {
        return Some(Kind::Application);
    };
    if !innermost.in_kernel {
        return Some(Kind::Application);
    }
    if begins(&innermost.function, IDLE) {
        return None;
    }
    let of = |name: &str, table: &[(Kind, &str)]| {
        let found = table.iter().find(|(_, names)| begins(name, names));
        found.map(|(kind, _)| *kind)
    };
    if let Some(kind) = of(&innermost.function, &INNERMOST) {
        return Some(kind);
    }
    let kernel = stack.frames.iter().take_while(|frame| frame.in_kernel);
    // Writing back goes through all layers: it is recognised anywhere in the stack.
    let mut names = kernel.clone();
    if names.any(|frame| of(&frame.function, &ANYWHERE) == Some(Kind::Flushing)) {
        return Some(Kind::Flushing);
    }
    let mut kinds = kernel.filter_map(|frame| of(&frame.function, &ANYWHERE));
    Some(kinds.next().unwrap_or(Kind::Kernel))
}

/// A function over all samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Share of busy samples in which it was the innermost.
    pub own_share: f64,
    /// Share of busy samples in whose stack it was.
    pub total_share: f64,
}

/// A function under those that called it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name; the thread's name for the outermost node.
    pub name: String,
    /// Samples in it and its callees.
    pub samples: u64,
    /// The kind of most of its own samples; null if it has none.
    pub kind: Option<Kind>,
    /// Its callees, most samples first. In a stack of more than 48 functions the middle is one
    /// node, `...`, because readers of JSON limit its depth.
    pub children: Vec<Node>,
}

/// Where the processor's time goes on one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profiled {
    /// Where and when.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The path.
    pub path: String,
    /// The access.
    #[serde(flatten)]
    pub access: Access,
    /// Operations in flight.
    pub queue_depth: u16,
    /// Operations while samples were taken.
    pub operations: u64,
    /// Their rate.
    pub throughput_mib_s: f64,
    /// The shares of the samples.
    #[serde(flatten)]
    pub shares: Shares,
}

/// The shares of the samples, without the record of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    /// Samples of busy processors.
    pub busy_samples: u64,
    /// Samples of idle processors.
    pub idle_samples: u64,
    /// Share of busy samples by kind, all kinds.
    pub kinds: Vec<(Kind, f64)>,
    /// The functions with the most samples of their own.
    pub functions: Vec<Function>,
    /// Calls, from each thread inwards.
    pub tree: Node,
}

/// Counts stacks.
pub fn shares(stacks: &[Stack]) -> Shares {
    let mut all = Shares::default();
    let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut functions: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut root = Building::default();
    for stack in stacks {
        let Some(kind) = kind(stack) else {
            all.idle_samples += 1;
            continue;
        };
        all.busy_samples += 1;
        *kinds.entry(kind).or_default() += 1;
        let mut seen: Vec<&str> = Vec::new();
        for (depth, frame) in stack.frames.iter().enumerate() {
            let name = frame.function.as_str();
            let counts = functions.entry(name).or_default();
            counts.0 += u64::from(depth == 0);
            // Recursion counts once.
            if !seen.contains(&name) {
                counts.1 += 1;
                seen.push(name);
            }
        }
        root.add(stack, kind);
    }
    let share = |count: u64| count as f64 / all.busy_samples.max(1) as f64;
    all.kinds = Kind::ALL
        .iter()
        .map(|kind| (*kind, share(kinds.get(kind).copied().unwrap_or(0))))
        .collect();
    let mut list: Vec<Function> = functions
        .into_iter()
        .map(|(name, (own, total))| Function {
            name: name.to_owned(),
            own_share: share(own),
            total_share: share(total),
        })
        .collect();
    list.sort_by(|a, b| b.own_share.total_cmp(&a.own_share));
    list.truncate(FUNCTIONS);
    all.functions = list;
    let least = (all.busy_samples as f64 * SMALLEST) as u64;
    all.tree = root.finish("all".to_owned(), least.max(1));
    all
}

#[derive(Default)]
struct Building {
    samples: u64,
    kinds: BTreeMap<Kind, u64>,
    children: BTreeMap<String, Building>,
}

impl Building {
    fn add(&mut self, stack: &Stack, kind: Kind) {
        self.samples += 1;
        let mut place = self.children.entry(stack.thread.clone()).or_default();
        place.samples += 1;
        let deep = stack.frames.len() > DEEPEST;
        for (from_inside, frame) in stack.frames.iter().enumerate().rev() {
            let from_outside = stack.frames.len() - 1 - from_inside;
            let is_middle = deep && from_inside >= DEEPEST / 2 && from_outside >= DEEPEST / 2;
            let name = if !is_middle {
                &frame.function
            } else if from_outside == DEEPEST / 2 {
                // The first function of the middle represents all of them.
                "..."
            } else {
                continue;
            };
            place = place.children.entry(name.to_owned()).or_default();
            place.samples += 1;
        }
        *place.kinds.entry(kind).or_default() += 1;
    }

    /// Depth is bounded by [`DEEPEST`].
    fn finish(self, name: String, least: u64) -> Node {
        let most = self.kinds.into_iter().max_by_key(|(_, count)| *count);
        let mut children: Vec<Node> = self
            .children
            .into_iter()
            .filter(|(_, child)| child.samples >= least)
            .map(|(name, child)| child.finish(name, least))
            .collect();
        children.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.name.cmp(&b.name)));
        Node {
            name,
            samples: self.samples,
            kind: most.map(|(kind, _)| kind),
            children,
        }
    }
}

impl Profiled {
    /// The call graph for Graphviz: one edge per call, as wide as its share.
    pub fn to_dot(&self) -> String {
        let mut edges: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut pending: Vec<&Node> = vec![&self.shares.tree];
        while let Some(node) = pending.pop() {
            for child in &node.children {
                *edges.entry((&node.name, &child.name)).or_default() += child.samples;
                pending.push(child);
            }
        }
        let mut text = String::from("digraph calls {\n  node [shape=box];\n");
        for ((caller, callee), samples) in edges {
            let share = samples as f64 / self.shares.busy_samples.max(1) as f64;
            let quoted = |name: &str| name.replace(['"', '\\'], "'");
            text += &format!(
                "  \"{}\" -> \"{}\" [label=\"{:.1} %\", penwidth={:.2}];\n",
                quoted(caller),
                quoted(callee),
                100.0 * share,
                0.5 + 6.0 * share
            );
        }
        text + "}\n"
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
