// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of an operation, from the work of the batches that were counted.

use super::{Cost, Work};
use crate::summary::rounded;

/// The work of each of `number` batches.
pub(super) fn of_pieces(taken: &[Work], pieces: &[Option<usize>], number: usize) -> Vec<Work> {
    let mut batches = vec![Work::default(); number];
    for (work, piece) in taken.iter().zip(pieces) {
        if let Some(batch) = piece.and_then(|number| batches.get_mut(number)) {
            *batch = add(*batch, *work);
        }
    }
    batches
}

/// Which batches count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// All: a page cache makes some operations cheap and others dear.
    All,
    /// One of those that slept, if any did: a quick drive may answer before a path sleeps.
    Slept,
    /// One of any: a path that polls does not sleep. Where its program lost the processor,
    /// something else had it.
    Any,
}

/// The cost of an operation, of which a batch has `each`.
pub(super) fn of_operation(batches: &[Work], counted: Counted, each: usize) -> Cost {
    let (work, number) = match counted {
        Counted::All => (
            batches.iter().copied().fold(Work::default(), add),
            each * batches.len(),
        ),
        Counted::Slept => {
            let slept = batches.iter().filter(|one| one.has_waited).copied();
            let slept: Vec<Work> = slept.collect();
            let chosen = if slept.is_empty() { batches } else { &slept };
            (undisturbed(chosen.to_vec()), each)
        }
        Counted::Any => (undisturbed(batches.to_vec()), each),
    };
    let figure = |count: u64| rounded(count as f64 / number.max(1) as f64);
    Cost {
        instructions: figure(work.user_instructions + work.kernel_instructions),
        user_instructions: figure(work.user_instructions),
        system_calls: figure(work.system_calls),
    }
}

fn add(one: Work, other: Work) -> Work {
    Work {
        user_instructions: one.user_instructions + other.user_instructions,
        kernel_instructions: one.kernel_instructions + other.kernel_instructions,
        system_calls: one.system_calls + other.system_calls,
        has_waited: one.has_waited || other.has_waited,
    }
}

/// A batch that nothing else made longer: the lower quartile.
fn undisturbed(mut batches: Vec<Work>) -> Work {
    batches.sort_by_key(|one| one.user_instructions + one.kernel_instructions);
    let quartile = batches.get(batches.len() / 4);
    quartile.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(kernel_instructions: u64, has_waited: bool) -> Work {
        Work {
            user_instructions: 10,
            kernel_instructions,
            system_calls: 2,
            has_waited,
        }
    }

    #[test]
    fn a_disturbed_batch_and_one_that_never_slept_do_not_count() {
        let slow = [
            work(100, false),
            work(500, true),
            work(7_000, true),
            work(520, true),
            work(510, true),
        ];
        let cost = of_operation(&slow, Counted::Slept, 2);
        assert_eq!(
            (cost.instructions, cost.user_instructions, cost.system_calls),
            (260.0, 5.0, 1.0)
        );
        // A drive that always answers before the path sleeps.
        let quick = slow.map(|one| Work {
            has_waited: false,
            ..one
        });
        assert_eq!(of_operation(&quick, Counted::Slept, 2).instructions, 255.0);
        // A polling path that twice lost the processor.
        let lost = [0, 0, 0, 9_000, 9_500].map(|kernel| work(kernel, kernel > 0));
        assert_eq!(of_operation(&lost, Counted::Any, 2).instructions, 5.0);
    }

    #[test]
    fn looks_that_found_nothing_do_not_count() {
        let taken = [
            work(100, false),
            work(70, false),
            work(70, false),
            work(30, false),
        ];
        let batches = of_pieces(&taken, &[Some(0), None, None, Some(0)], 1);
        assert_eq!(
            of_operation(&batches, Counted::Slept, 1).instructions,
            150.0
        );
    }

    #[test]
    fn behind_a_page_cache_all_batches_and_the_flush_share_the_cost() {
        let taken = [
            work(100, false),
            work(100, false),
            work(100, false),
            work(100, true),
            work(1_550, true),
        ];
        let batches = of_pieces(&taken, &[0, 1, 2, 3, 0].map(Some), 4);
        let cost = of_operation(&batches, Counted::All, 1);
        assert_eq!((cost.instructions, cost.system_calls), (500.0, 2.5));
    }
}
