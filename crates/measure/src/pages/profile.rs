//! Where the processor's time goes: shares by kind, a flame graph, functions, calls.

use super::{Page, Report, Section, Table};
use crate::chart::swatch;
use crate::flame;
use crate::format::{count, figure, size};
use crate::profile::{FEWEST_SAMPLES, Node, Profiled};
use crate::report::ReportError;
use crate::run_info::RunInfo;

/// Threads that a path's work is done in: the command's and the kernel's.
const OURS: [&str; 9] = [
    "straightway",
    "kworker",
    "swapper",
    "ksoftirqd",
    "jbd2",
    "migration",
    "rcu",
    "irq",
    "kswapd",
];
/// More than this share in other programs spoils a profile.
const OTHERS: f64 = 0.1;
/// Lines of the tree of calls.
const LINES: usize = 60;

impl Report for Profiled {
    fn info(&self) -> &RunInfo {
        &self.run
    }

    fn html(&self) -> Result<String, ReportError> {
        let title = format!("Where the processor's time goes on {}", self.path);
        let mut page = Page::new(&self.run, title, self.lede());
        page.sections = vec![
            self.by_kind(),
            self.flames(),
            self.by_function(),
            self.calls(),
        ];
        page.finish()
    }

    fn text(&self) -> String {
        let mut text = self.lede() + "\n";
        for (kind, share) in &self.kinds {
            text += &format!("  {kind:20} {:>6.1} %\n", 100.0 * share);
        }
        text += "\n";
        for function in self.functions.iter().take(12) {
            text += &format!(
                "  {:>6.1} %  {:>6.1} %  {}\n",
                100.0 * function.own_share,
                100.0 * function.total_share,
                function.name
            );
        }
        text
    }
}

impl Profiled {
    fn lede(&self) -> String {
        let pattern = match self.pattern {
            crate::Pattern::Sequential => "Sequential",
            crate::Pattern::Random => "Random",
        };
        let mut text = format!(
            "{pattern} {} of {}, {} in flight, {} MiB/s: {} samples of busy processors, {} of idle ones.",
            self.operation,
            size(self.block_size_bytes),
            self.queue_depth,
            figure(self.throughput_mib_s),
            count(self.busy_samples),
            count(self.idle_samples)
        );
        if self.busy_samples < FEWEST_SAMPLES {
            text += &format!(" Fewer than {FEWEST_SAMPLES} samples are too few to tell shares.");
        }
        let others = self.tree.children.iter().filter(|thread| {
            let ours = OURS.iter().any(|start| thread.name.starts_with(start));
            !ours
        });
        let others: u64 = others.map(|thread| thread.samples).sum();
        let share = others as f64 / self.busy_samples.max(1) as f64;
        if share > OTHERS {
            text += &format!(
                " {:.0} % of the busy ones were in other programs: stop what else runs, and measure again.",
                100.0 * share
            );
        }
        text
    }

    fn by_kind(&self) -> Section {
        let rows = self.kinds.iter().map(|(kind, share)| {
            vec![
                kind.to_string(),
                format!("{:.1} %", 100.0 * share),
                self.error(*share),
            ]
        });
        Section {
            title: "By what it was for".into(),
            caption:
                "Of the samples in which a processor did something. Copying, locking and cache \
                      flushing are told by the innermost function; writing pages back is flushing, \
                      whatever layer does it; the rest belongs to the innermost layer."
                    .into(),
            tables: vec![Table::new(&["", "share", "95 %"], rows.collect())],
            ..Section::default()
        }
    }

    /// Half the interval of a share: samples are taken by the clock, so nearly independent.
    fn error(&self, share: f64) -> String {
        let n = self.busy_samples.max(1) as f64;
        format!("± {:.1}", 196.0 * (share * (1.0 - share) / n).sqrt())
    }

    fn flames(&self) -> Section {
        let legend = self.kinds.iter().filter(|(_, share)| *share > 0.0);
        Section {
            title: "Flame graph".into(),
            caption:
                "Each function is as wide as its share; what it called stands above it. At the \
                      bottom the threads."
                    .into(),
            legend: legend
                .map(|(kind, _)| (swatch(flame::style(Some(*kind))), kind.to_string()))
                .collect(),
            panels: vec![(
                "All busy processors".to_owned(),
                flame::svg("Flame graph of the calls", &self.tree),
            )],
            wide: true,
            ..Section::default()
        }
    }

    fn by_function(&self) -> Section {
        let rows = self.functions.iter().map(|function| {
            vec![
                function.name.clone(),
                format!("{:.1} %", 100.0 * function.own_share),
                format!("{:.1} %", 100.0 * function.total_share),
            ]
        });
        Section {
            title: "Functions".into(),
            tables: vec![Table::new(
                &["Function", "itself", "with what it called"],
                rows.collect(),
            )],
            ..Section::default()
        }
    }

    fn calls(&self) -> Section {
        let rows = self.call_rows();
        Section {
            title: "Call graph".into(),
            caption:
                "The heaviest calls, from each thread inwards. All of them are in callgraph.dot, \
                      for Graphviz."
                    .into(),
            tables: vec![Table::new(&["Call", "share"], rows)],
            ..Section::default()
        }
    }

    /// The heaviest nodes in the order of the tree.
    fn call_rows(&self) -> Vec<Vec<String>> {
        let mut all: Vec<(usize, &Node)> = Vec::new();
        flatten(&self.tree, 0, &mut all);
        let mut weights: Vec<u64> = all.iter().map(|(_, node)| node.samples).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let least = weights.get(LINES).copied().unwrap_or(0);
        let chosen = all.into_iter().filter(|(_, node)| node.samples > least);
        let row = |(depth, node): (usize, &Node)| {
            let share = 100.0 * node.samples as f64 / self.busy_samples.max(1) as f64;
            let name = format!("{}{}", "\u{2007}\u{2007}".repeat(depth.min(24)), node.name);
            vec![name, format!("{share:.1} %")]
        };
        chosen.map(row).collect()
    }
}

/// Depth is bounded as the tree's is.
fn flatten<'a>(node: &'a Node, depth: usize, all: &mut Vec<(usize, &'a Node)>) {
    all.push((depth, node));
    for child in &node.children {
        flatten(child, depth + 1, all);
    }
}
