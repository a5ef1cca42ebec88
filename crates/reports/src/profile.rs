// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the processor's time goes: shares by kind, a flame graph, functions, calls.

use crate::chart::swatch;
use crate::flame;
use crate::{Page, Reportable, Section, Table};
use measure::format::{capital, count, figure};
use measure::profile::{FEWEST_SAMPLES, Node, Profiled};

/// Threads that do a path's work: the command's and the kernel's.
const OURS: &str = "straightway kworker swapper ksoftirqd jbd2 migration rcu irq kswapd";
/// A profile with more than this share in other programs is not reliable.
const OTHERS: f64 = 0.1;
/// Lines of the call tree.
const LINES: usize = 60;

impl Reportable for Profiled {
    fn page(&self) -> Page<'_> {
        let title = format!("Where the processor's time goes on {}", self.path);
        let mut page = Page::new(&self.run, title, lede(self));
        page.sections = vec![by_kind(self), flames(self), by_function(self), calls(self)];
        page
    }
}

fn lede(profiled: &Profiled) -> String {
    let mut text = format!(
        "{}, {} in flight, {} MiB/s: {} samples of busy processors, {} of idle ones.",
        capital(&profiled.access.to_string()),
        profiled.queue_depth,
        figure(profiled.throughput_mib_s),
        count(profiled.shares.busy_samples),
        count(profiled.shares.idle_samples)
    );
    if profiled.shares.busy_samples < FEWEST_SAMPLES {
        text += &format!(" Fewer than {FEWEST_SAMPLES} samples are too few for shares.");
    }
    let is_other = |thread: &&Node| !OURS.split(' ').any(|own| thread.name.starts_with(own));
    let others = profiled.shares.tree.children.iter().filter(is_other);
    let others: u64 = others.map(|thread| thread.samples).sum();
    let share = others as f64 / profiled.shares.busy_samples.max(1) as f64;
    if share > OTHERS {
        text += &format!(
            " {:.0} % of the busy ones were in other programs: stop them, and measure again.",
            100.0 * share
        );
    }
    text
}

fn by_kind(profiled: &Profiled) -> Section {
    let rows = profiled.shares.kinds.iter().map(|(kind, share)| {
        let n = profiled.shares.busy_samples.max(1) as f64;
        let error = 196.0 * (share * (1.0 - share) / n).sqrt();
        vec![kind.to_string(), percent(*share), format!("± {error:.1}")]
    });
    let caption = "Shares of the samples in which a processor was busy. Copying, clearing, locking and cache flushing are \
         identified by the innermost function; writing pages back is flushing, whatever layer does it; the rest \
                   belongs to the innermost layer. A sample at an unlock may have been delayed while interrupts were off, \
                   as on most virtual machines and Arm boards: what took its time is not known.";
    Section::new("By kind of work", caption).table("|share|95 %", rows)
}

fn flames(profiled: &Profiled) -> Section {
    let legend = profiled
        .shares
        .kinds
        .iter()
        .filter(|(_, share)| *share > 0.0);
    let legend = legend.map(|(kind, _)| (swatch(flame::style(Some(*kind))), kind.to_string()));
    let caption = "Each function is as wide as its share, with its callees above it. At the bottom the \
                   threads.";
    let svg = flame::svg("Flame graph of the calls", &profiled.shares.tree);
    Section {
        wide: true,
        ..Section::new("Flame graph", caption)
            .legend(legend)
            .panel("All busy processors", svg)
    }
}

fn by_function(profiled: &Profiled) -> Section {
    let rows = profiled.shares.functions.iter().map(|function| {
        vec![
            function.name.clone(),
            percent(function.own_share),
            percent(function.total_share),
        ]
    });
    Section::new("Functions", "").table("Function|itself|with callees", rows)
}

fn calls(profiled: &Profiled) -> Section {
    let caption = "The heaviest calls, from each thread inwards. All of them are in callgraph.dot, for Graphviz.";
    let mut section = Section::new("Call graph", caption);
    section.tables.push(Table {
        title: format!("The {LINES} heaviest"),
        folded: true,
        ..Table::new("Call|share", call_rows(profiled))
    });
    section
}

/// The heaviest nodes in the order of the tree.
fn call_rows(profiled: &Profiled) -> Vec<Vec<String>> {
    let mut all: Vec<(usize, &Node)> = Vec::new();
    flatten(&profiled.shares.tree, 0, &mut all);
    let mut weights: Vec<u64> = all.iter().map(|(_, node)| node.samples).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let least = weights.get(LINES).copied().unwrap_or(0);
    let chosen = all.into_iter().filter(|(_, node)| node.samples > least);
    let row = |(depth, node): (usize, &Node)| {
        let share = node.samples as f64 / profiled.shares.busy_samples.max(1) as f64;
        let name = format!("{}{}", "\u{2007}\u{2007}".repeat(depth.min(24)), node.name);
        vec![name, percent(share)]
    };
    chosen.map(row).collect()
}

/// Depth is bounded as the tree's is.
fn flatten<'a>(node: &'a Node, depth: usize, all: &mut Vec<(usize, &'a Node)>) {
    all.push((depth, node));
    for child in &node.children {
        flatten(child, depth + 1, all);
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
