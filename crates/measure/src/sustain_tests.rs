// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::random::Random;
use crate::simulated::{Profile, SimulatedHost, question, sustained};

fn ask(question: &Question, request_cpu_ns: u64) -> Sustained {
    let profile = Profile {
        request_cpu_ns,
        ..Profile::default()
    };
    sustained(&mut SimulatedHost::new(), profile, question)
}

#[test]
fn a_quick_path_sustains_and_a_slow_one_does_not() {
    let quick = ask(&question(), 1_000);
    assert_eq!(quick.verdict, Verdict::Sustains, "{}", quick.reason);
    assert_eq!((quick.misses, quick.arrivals), (0, 4000));
    assert_eq!(quick.needed_duration_s, None);
    assert!(quick.smallest_safe_buffer_bytes.unwrap() <= 4 * 4096);
    let slow = ask(&question(), 2_000_000);
    assert_eq!(slow.verdict, Verdict::DoesNot, "{}", slow.reason);
    assert!(slow.unserved > 0 && slow.smallest_safe_buffer_bytes.is_none());
}

#[test]
fn a_short_run_says_how_long_it_must_be() {
    let short = Question {
        duration: Duration::from_secs(1),
        ..question()
    };
    let answer = ask(&short, 1_000);
    assert_eq!(answer.verdict, Verdict::NotEnoughData);
    // 2,995 arrivals without a miss show a rate of 0.001.
    assert!((answer.needed_duration_s.unwrap() - 2.995).abs() < 0.001);
    let long = Question {
        duration: Duration::from_millis(2_996),
        ..question()
    };
    assert_eq!(ask(&long, 1_000).verdict, Verdict::Sustains);
}

#[test]
fn a_changed_environment_is_no_answer() {
    let mut host = SimulatedHost::new();
    host.environment_after = Some(crate::Environment {
        cpu_governor: Some("powersave".into()),
        ..Default::default()
    });
    let mut path = host.path(Profile::default());
    let cancel = AtomicBool::new(false);
    let request = Request::default();
    let (answer, _) = sustain(&mut host, path.as_mut(), &request, &question(), &cancel).unwrap();
    assert_eq!(answer.verdict, Verdict::CannotTell);
    assert!(!answer.run.valid && answer.reason.contains("governor"));
}

#[test]
fn on_a_busy_machine_nothing_is_said_about_the_drive() {
    // Alone the first sustains the rate and the second does not.
    for request_cpu_ns in [1_000, 2_000_000] {
        let mut host = SimulatedHost::new();
        host.others_permille = 1_990;
        let mut path = host.path(Profile {
            request_cpu_ns,
            ..Profile::default()
        });
        let cancel = AtomicBool::new(false);
        let request = Request::default();
        let (answer, _) =
            sustain(&mut host, path.as_mut(), &request, &question(), &cancel).unwrap();
        assert_eq!(answer.verdict, Verdict::CannotTell);
        assert!(!answer.run.valid && answer.reason.contains("other programs took 199 %"));
        assert_eq!(answer.needed_duration_s, None);
    }
}

#[test]
fn the_run_length_needed_does_tell() {
    for (arrivals, misses, tolerated) in
        [(3_000, 1.0, 0.001), (10_000, 12.0, 0.001), (300, 1.0, 0.01)]
    {
        let needed = needed_arrivals(arrivals, misses, 1.0, tolerated).unwrap();
        let k = needed * misses / arrivals as f64;
        assert!(
            tail::miss_rate_at_most(k, needed) <= tolerated
                || tail::miss_rate_at_least(k, needed) > tolerated
        );
        assert!(needed > arrivals as f64);
    }
    // At the limit itself no run length decides.
    assert_eq!(needed_arrivals(1_000, 1.0, 1.0, 0.001), None);
}

#[test]
fn verdicts_hold_the_truth_as_often_as_they_claim() {
    // A device that misses one in 500, independently, with 1 in 1000 tolerated, SUSTAINS only by
    // chance; one that misses one in 4,000 DOES NOT only by chance.
    for (truth, wrong) in [(0.002, Verdict::Sustains), (0.000_25, Verdict::DoesNot)] {
        let mut wrongs = 0;
        for seed in 0..200 {
            let mut random = Random::derived(seed, &[9]);
            let run = OpenRun {
                response_ns: (0..8_000)
                    .map(|_| {
                        if random.unit() < truth {
                            9_000_000
                        } else {
                            100_000
                        }
                    })
                    .collect(),
                service_ns: vec![1; 8_000],
                failed: vec![false; 8_000],
                ..OpenRun::default()
            };
            let schedule = Schedule::new(1000.0, 8_000_000_000, 0).unwrap();
            let info = RunInfo {
                valid: true,
                ..RunInfo::default()
            };
            let names = ("p".to_owned(), false);
            let answer = judge(info, &question(), names, 1, &schedule, &run);
            wrongs += u32::from(answer.verdict == wrong);
        }
        println!("{truth}: {wrongs} of 200 wrong");
        assert!(wrongs <= 16, "{truth}: {wrongs} of 200");
    }
}

#[test]
fn a_block_that_does_not_fit_is_refused_and_the_drive_given_back() {
    let mut host = SimulatedHost::new();
    let mut path = host.path(Profile::default());
    let cancel = AtomicBool::new(false);
    let odd = Question {
        access: Access {
            block_size_bytes: 1000,
            ..question().access
        },
        ..question()
    };
    let request = Request::default();
    let error = sustain(&mut host, path.as_mut(), &request, &odd, &cancel).unwrap_err();
    assert!(
        error.reason.to_string().contains("not a multiple"),
        "{error}"
    );
    assert!(host.log.last().unwrap().starts_with("leave"));
}
