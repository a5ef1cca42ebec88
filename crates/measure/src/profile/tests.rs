// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks are parsed, classified and counted.

use super::stacks::parse;
use super::*;
use crate::access::{Operation, Pattern};

const TEXT: &str = "straightway
\tffffffff81a0 copy_user_enhanced_fast_string+0xe ([kernel.kallsyms])
\tffffffff81b0 filemap_read+0x1 ([kernel.kallsyms])
\tffffffff81c0 ext4_file_read_iter ([ext4])
\tffffffff81d0 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    7f0011 __pread64 (/usr/lib/libc.so.6)
\t7f17cc04a7f0 [unknown] ([unknown])

swapper
\tffffffff8200 native_safe_halt ([kernel.kallsyms])
\tffffffff8210 do_idle ([kernel.kallsyms])

kworker/1:1H-kblockd
\tffffffff8300 _raw_spin_unlock_irqrestore ([kernel.kallsyms])
\tffffffff8310 wb_workfn ([kernel.kallsyms])

kworker/u4:2
\tffffffff8400 nvme_setup_cmd ([nvme_core])
\tffffffff8410 blk_mq_dispatch_rq_list ([kernel.kallsyms])
\tffffffff8420 wb_writeback ([kernel.kallsyms])

straightway
\tffffffff8500 nvme_irq ([nvme])
\tffffffff8510 asm_common_interrupt ([kernel.kallsyms])
\t    55aa measure::cell::run (/root/straightway)

straightway
\t    55ab [unknown] (/root/straightway)
";

fn text(sample: &str) -> Option<Kind> {
    kind(&parse(sample)[0])
}

#[test]
fn stacks_are_read_and_their_kinds_told() {
    let stacks = parse(TEXT);
    assert_eq!(stacks.len(), 6);
    // The last frame of the first stack had no meaning.
    assert_eq!(stacks[0].frames.len(), 5);
    assert!(stacks[0].frames[2].in_kernel && !stacks[0].frames[4].in_kernel);
    assert_eq!(stacks[2].thread, "kworker");
    assert_eq!(stacks[5].frames[0].function, "in straightway");
    let kinds: Vec<Option<Kind>> = stacks.iter().map(kind).collect();
    let expected = [
        Some(Kind::Copying),
        None,
        // Nothing contends there: the sample waited for the interrupts to be enabled.
        Some(Kind::Unlock),
        // A command that writes back is flushing, although the driver sends it.
        Some(Kind::Flushing),
        Some(Kind::Driver),
        Some(Kind::Application),
    ];
    assert_eq!(kinds, expected);
    let entry = "a\n\tff entry_SYSCALL_64 ([kernel.kallsyms])\n";
    assert_eq!(text(entry), Some(Kind::Kernel));
    for (function, expected) in [
        ("_raw_spin_lock_irqsave", Kind::Locking),
        ("_raw_spin_unlock", Kind::Unlock),
        ("_raw_write_unlock_bh", Kind::Unlock),
        ("copy_user_generic_string", Kind::Copying),
        ("clear_page_erms", Kind::Clearing),
        ("memset_orig", Kind::Clearing),
    ] {
        let sample = format!("a\n\tff {function} ([kernel.kallsyms])\n");
        assert_eq!(text(&sample), Some(expected), "{function}");
    }
    // An interrupt during idleness counts as busy.
    let interrupted =
        "swapper\n\tff __do_softirq ([kernel.kallsyms])\n\tff do_idle ([kernel.kallsyms])\n";
    assert_eq!(text(interrupted), Some(Kind::Interrupt));
}

#[test]
fn shares_and_the_tree_count_each_sample_once() {
    let all = shares(&parse(TEXT));
    assert_eq!((all.busy_samples, all.idle_samples), (5, 1));
    let sum: f64 = all.kinds.iter().map(|(_, share)| share).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let own: f64 = all
        .functions
        .iter()
        .map(|function| function.own_share)
        .sum();
    assert!((own - 1.0).abs() < 1e-9);
    assert_eq!(all.tree.samples, 5);
    let children: u64 = all.tree.children.iter().map(|child| child.samples).sum();
    assert_eq!(children, 5);
    assert_eq!(all.tree.children[0].name, "straightway");
    assert_eq!(all.tree.children[0].samples, 3);
    let interrupted = all.functions.iter().find(|one| one.name == "nvme_irq");
    assert_eq!(
        interrupted.map(|one| (one.own_share, one.total_share)),
        Some((0.2, 0.2))
    );
}

#[test]
fn a_deep_stack_keeps_its_ends_and_can_be_read_again() {
    let frames = |count: usize| -> String {
        (0..count)
            .map(|at| format!("\tff f{at} (program)\n"))
            .collect()
    };
    for (count, depth) in [(48, 48), (49, 49), (50, 49), (127, 49)] {
        let all = shares(&parse(&format!("recursive\n{}", frames(count))));
        let text = serde_json::to_string(&all.tree).unwrap();
        let tree: Node = serde_json::from_str(&text).unwrap();
        let (mut names, mut node) = (Vec::new(), &tree.children[0]);
        while let Some(child) = node.children.first() {
            assert_eq!((child.samples, node.children.len()), (1, 1));
            names.push(child.name.clone());
            node = child;
        }
        assert_eq!(names.len(), depth, "{count}");
        assert_eq!(names[0], format!("f{}", count - 1));
        assert_eq!(names[depth - 1], "f0");
        assert_eq!(names.contains(&"...".to_owned()), count > 48);
    }
}

#[test]
fn what_is_no_output_of_perf_gives_no_samples() {
    for text in ["", "\n\n", "\tff lonely ([kernel])\n"] {
        assert_eq!(shares(&parse(text)).busy_samples, 0, "{text:?}");
    }
    // A name without frames is a program that perf could not look into.
    assert_eq!(shares(&parse("x\n")).busy_samples, 1);
}

#[test]
fn recursion_counts_once_and_dot_is_quoted() {
    let text = "a\n\tff f ([kernel.kallsyms])\n\tff f ([kernel.kallsyms])\n\tff \"g\" ([kernel.kallsyms])\n";
    let all = shares(&parse(text));
    let f = all.functions.iter().find(|one| one.name == "f").unwrap();
    assert_eq!((f.own_share, f.total_share), (1.0, 1.0));
    let profiled = Profiled {
        run: RunInfo::default(),
        path: "x".into(),
        access: Access {
            operation: Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes: 1,
        },
        queue_depth: 1,
        operations: 1,
        throughput_mib_s: 1.0,
        shares: all,
    };
    let dot = profiled.to_dot();
    assert!(dot.contains("\"'g'\" -> \"f\" [label=\"100.0 %\""), "{dot}");
}
