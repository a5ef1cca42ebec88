// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeds that once broke a promise, some others, and what makes a run repeatable.
#![allow(clippy::unwrap_used, clippy::panic)]

use simulator::run::run;
use simulator::script::Script;
use simulator::setup::Only;

#[test]
fn scripts_that_once_broke_a_promise_break_none() {
    let files = std::fs::read_dir("seeds").unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let outcome = run(&text.parse().unwrap());
        let path = path.display();
        assert_eq!(outcome.violation, None, "{path}\n{}", outcome.last);
    }
}

/// `STRAIGHTWAY_SEED` takes another first seed.
#[test]
fn seeds_of_each_kind_break_no_promise() {
    let first = std::env::var("STRAIGHTWAY_SEED").map_or(1, |seed| seed.parse().unwrap());
    for (only, word, _) in Only::ALL {
        for seed in first..first + 25 {
            let script = Script::new(seed, Some(*only));
            let outcome = run(&script);
            let what = outcome.violation.unwrap_or_default();
            assert!(
                what.is_empty(),
                "{word} {seed}: {what}\n{script}{}",
                outcome.last
            );
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for (only, word, _) in Only::ALL {
        for seed in 100..104 {
            let script = Script::new(seed, Some(*only));
            let outcome = run(&script);
            assert_eq!(outcome.hash, run(&script).hash, "{word} {seed}");
        }
    }
}
