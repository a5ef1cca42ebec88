// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every sequence of a few events, and the order in which pages are chosen.

use super::*;
use std::collections::HashSet;

/// What threads and the device can do to three pages with memory for two, and the user's advice
/// to one of them, as numbers.
const EVENTS: usize = 3 * 6 + 4 + 2;

/// `newer`: what threads have stored is not on the device; `writable`: they can store without a
/// fault.
fn apply(pages: &mut Pages, newer: &mut [bool; 3], writable: &mut [bool; 3], event: usize) {
    let (page, what) = match event {
        0..18 => ((event / 6) as u64, event % 6),
        _ => (0, event - 12),
    };
    let at = page as usize;
    if event == EVENTS - 2 {
        let leaving = (0..3).find(|&page| pages.state(page) == Some(State::Leaving));
        return leaving.into_iter().for_each(|page| pages.left(page));
    }
    if event == EVENTS - 1 {
        let before: Vec<_> = (0..3).map(|page| pages.state(page)).collect();
        match pages.step() {
            Some(Step::Evict(page)) => {
                assert_eq!(before[page as usize], Some(State::Clean { mapped: false }));
                assert!(!newer[page as usize], "{page} was lost");
                assert_eq!(pages.state(page), Some(State::Leaving));
                assert!(!pages.pinned.contains_key(&page));
            }
            Some(Step::Unmap(page)) => {
                assert!(!newer[page as usize] && !pages.pinned.contains_key(&page));
            }
            Some(Step::Write(page)) => {
                assert!(newer[page as usize]);
                writable[page as usize] = false;
            }
            None => {}
        }
        return;
    }
    let state = pages.state(page);
    match what {
        0 | 1 => {
            let store = what == 1;
            let answer = pages.fault(page, store);
            if answer == Answer::Load && !pages.is_full() {
                pages.begin_read(page, store);
            }
            // From here on the thread stores without another fault.
            let unprotects = matches!(
                answer,
                Answer::Unprotect | Answer::Remap { protected: false }
            );
            newer[at] |= store && unprotects;
            writable[at] |= unprotects;
            assert_eq!(answer == Answer::Poison, state == Some(State::Poisoned));
        }
        2 | 3 if matches!(state, Some(State::Reading { .. })) => {
            let loaded = pages.end_read(page, what == 2);
            newer[at] = loaded == Loaded::Install { protected: false };
            writable[at] = newer[at];
            let is_asked = matches!(state, Some(State::Reading { asked: true, .. }));
            assert_eq!(loaded == Loaded::Poison, what == 3 && is_asked);
            assert_eq!(loaded == Loaded::Forget, what == 3 && !is_asked);
        }
        6 if state.is_none() && !pages.is_full() => pages.begin_read_ahead(page),
        6 if state == Some(State::Clean { mapped: true }) => pages.hide(page),
        7 if pages.pinned.get(&page).is_none_or(|&count| count < 2) => {
            let others = (0..3).filter(|&other| other != page && pages.pinned.contains_key(&other));
            assert_eq!(others.count() == 0, pages.pin(page, 1));
        }
        8 => pages.unpin(page),
        9 => {
            let takes = pages.take(page);
            assert!(!takes || !newer[at] && !pages.pinned.contains_key(&page));
        }
        4 | 5 if matches!(state, Some(State::Writing | State::Rewritten)) => {
            pages.end_write(page, what == 4);
            newer[at] = what == 5 || state == Some(State::Rewritten);
        }
        4 if pages.begin_write(page) => {
            assert!(newer[at]);
            writable[at] = false;
        }
        _ => {}
    }
}

#[test]
fn no_sequence_of_events_loses_a_store_or_exceeds_the_limit() {
    let mut seen = HashSet::new();
    // A plain model beside each: which contents are newer in memory than on the device, and which
    // pages are writable.
    let mut open = vec![(Pages::new(2, 0), [false; 3], [false; 3])];
    while let Some((from, newer_before, writable_before)) = open.pop() {
        for event in 0..EVENTS {
            let (mut pages, mut newer) = (from.clone(), newer_before);
            let mut writable = writable_before;
            apply(&mut pages, &mut newer, &mut writable, event);
            let states: Vec<_> = (0..3).map(|page| pages.state(page)).collect();
            let resident = |state: &&Option<State>| !matches!(state, None | Some(State::Poisoned));
            assert_eq!(
                pages.resident(),
                states.iter().filter(resident).count(),
                "{from:?} {event}"
            );
            assert!(pages.resident() <= 2, "{from:?} {event}");
            assert_eq!(
                pages.dirty(),
                pages
                    .states
                    .values()
                    .filter(|&&state| is_dirty(state))
                    .count()
            );
            assert!(pages.dirty() <= pages.stored_pages().count());
            for (page, state) in states.iter().enumerate() {
                let is_newer = newer[page];
                assert!(
                    !is_newer || state.is_some_and(is_dirty),
                    "{page} {state:?} {from:?} {event}"
                );
                // A protected page is given its content again when it is mapped again: what a
                // thread stores meanwhile would be lost.
                assert!(
                    !writable[page] || !pages.is_protected(page as u64),
                    "{page} {state:?} {from:?} {event}"
                );
                // A page that is not stored to, by a write that succeeded, is protected until the
                // next store.
                writable[page] &= is_newer;
            }
            let queues = pages.mapped.iter().chain(&pages.unmapped).copied();
            let queued: HashSet<u64> = queues.clone().collect();
            assert_eq!(
                (queues.count(), &queued),
                (queued.len(), &pages.queued.iter().copied().collect()),
                "{from:?} {event}"
            );
            let is_lost = |page: u64| !queued.contains(&page) && !pages.pinned.contains_key(&page);
            assert!(!pages.resident_pages().any(is_lost));
            let pins = pages.pinned.iter().map(|(&page, &count)| (page, count));
            let mut pinned: Vec<(u64, u32)> = pins.collect();
            pinned.sort_unstable();
            let key = (
                states,
                pages.mapped.clone(),
                pages.unmapped.clone(),
                pinned,
                newer,
                writable,
            );
            if seen.insert(key) {
                open.push((pages, newer, writable));
            }
        }
    }
    println!("{} states", seen.len());
    assert!(seen.len() > 1000, "{} states", seen.len());
}

#[test]
fn a_page_that_is_touched_survives_the_hand_and_the_other_does_not() {
    let mut pages = Pages::new(2, 0);
    for page in 0..2 {
        assert_eq!(pages.fault(page, false), Answer::Load);
        pages.begin_read(page, false);
        assert_eq!(
            pages.end_read(page, true),
            Loaded::Install { protected: true }
        );
    }
    assert_eq!(pages.step(), Some(Step::Unmap(0)));
    assert_eq!(pages.fault(0, false), Answer::Remap { protected: true });
    assert_eq!(pages.step(), Some(Step::Unmap(1)));
    assert_eq!(pages.step(), Some(Step::Evict(1)));
    assert_eq!(
        (pages.fault(1, false), pages.resident()),
        (Answer::Later, 2)
    );
    pages.left(1);
    assert_eq!((pages.fault(1, false), pages.free()), (Answer::Load, 1));
}

#[test]
fn a_page_that_has_just_come_for_a_thread_keeps_its_memory_for_a_while() {
    let mut pages = Pages::new(2, 100);
    for (now_us, page, store) in [(1000, 0, false), (1040, 1, true)] {
        pages.set_time(now_us);
        pages.asked(page, page);
        pages.begin_read(page, store);
        let _ = pages.end_read(page, true);
    }
    assert_eq!((pages.step(), pages.holds()), (None, Some(100)));
    // Nor is a page written that the thread may not have stored to yet.
    assert_eq!(pages.write_oldest(), None);
    pages.set_time(1100);
    assert_eq!(pages.step(), Some(Step::Unmap(0)));
    assert_eq!(pages.step(), Some(Step::Evict(0)));
    pages.left(0);
    assert_eq!((pages.step(), pages.write_oldest()), (None, None));
    // Its thread asks for it again, so it has not had it in time.
    pages.asked(0, 0);
    pages.begin_read(0, false);
    let _ = pages.end_read(0, true);
    assert_eq!(pages.holds(), Some(200));
    pages.set_time(1240);
    assert_eq!((pages.write_oldest(), pages.step()), (Some(1), None));
    pages.set_time(1300);
    assert_eq!(pages.step(), Some(Step::Unmap(0)));
    assert_eq!(pages.step(), Some(Step::Evict(0)));
    pages.left(0);
    assert_eq!(pages.holds(), None);
    // One that was read although no thread waits is not kept for one.
    pages.begin_read_ahead(2);
    let _ = pages.end_read(2, true);
    assert_eq!(pages.step(), Some(Step::Unmap(2)));
}

#[test]
fn the_page_that_has_been_dirty_for_longest_is_written_first() {
    let mut pages = Pages::new(3, 0);
    for (now_us, page) in [(10, 2), (20, 0), (30, 1)] {
        pages.set_time(now_us);
        pages.begin_read(page, true);
        assert_eq!(
            pages.end_read(page, true),
            Loaded::Install { protected: false }
        );
    }
    assert!(pages.begin_write(0));
    assert_eq!((pages.dirty(), pages.unwritten()), (3, 2));
    assert_eq!(pages.oldest(), Some((2, 10)));
    assert_eq!(pages.write_oldest(), Some(2));
    assert_eq!(pages.fault(2, true), Answer::Unprotect);
    assert_eq!(
        (pages.write_oldest(), pages.write_oldest()),
        (Some(1), None)
    );
    assert_eq!(pages.oldest(), None);
    pages.end_write(2, true);
    assert_eq!(
        (pages.state(2), pages.write_oldest()),
        (Some(State::Dirty), Some(2))
    );
    // However often pages become dirty, the order has each once.
    for _ in 0..100 {
        pages.end_write(2, true);
        assert_eq!(pages.fault(2, true), Answer::Unprotect);
        assert!(pages.begin_write(2));
    }
    assert!(pages.aged.len() <= 6, "{}", pages.aged.len());
}
