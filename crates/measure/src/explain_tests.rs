// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::access::{Operation, Pattern};
use crate::path::Path;
use crate::run_info::Request;
use crate::settings::Settings;
use crate::simulated::{Profile, SimulatedHost, compared};

/// Measures `profile` and memory, with two block sizes and two depths.
fn results(profiles: &[Profile], block: u64, depths: &[u16]) -> Vec<PathResult> {
    let memory = Profile {
        name: "ram".into(),
        latency_ns: 0,
        drive_mib_s: 20_000,
        request_cpu_ns: 20_000,
        ..Profile::default()
    };
    let mut all = Vec::new();
    for &queue_depth in depths {
        let mut host = SimulatedHost::new();
        let mut paths: Vec<Box<dyn Path>> = profiles
            .iter()
            .chain([&memory])
            .map(|one| host.path(one.clone()))
            .collect();
        let settings = Settings {
            patterns: vec![Pattern::Random],
            block_sizes_bytes: vec![block, 4 * block],
            rounds: 6,
            queue_depth,
            cell_duration: std::time::Duration::from_millis(200),
            span_bytes: 64 << 20,
            ..Settings::default()
        };
        let comparison = compared(&mut host, &mut paths, &Request::default(), &settings).unwrap();
        assert!(comparison.missing.is_empty(), "{:?}", comparison.missing);
        all.extend(comparison.results);
    }
    all
}

fn limit_with(
    profiles: &[Profile],
    block: u64,
    depths: &[u16],
    environment: &Environment,
) -> Explanation {
    let all = results(profiles, block, depths);
    let all: Vec<&PathResult> = all.iter().collect();
    let access = Access {
        operation: Operation::Read,
        pattern: Pattern::Random,
        block_size_bytes: block,
    };
    explain(&all, &profiles[0].name, access, depths[0], environment).unwrap()
}

fn limit(profiles: &[Profile], block: u64, depths: &[u16]) -> Explanation {
    limit_with(profiles, block, depths, &Environment::default())
}

#[test]
fn each_limit_is_named_on_a_machine_that_has_it() {
    let plain = |name: &str| Profile {
        name: name.into(),
        spread: 0.01,
        ..Profile::default()
    };
    let shallow = limit(&[plain("x")], 4096, &[1, 8]);
    assert_eq!(
        (shallow.limit, shallow.confirmed),
        (Limit::QueueDepth, true),
        "{shallow:?}"
    );
    let busy = Profile {
        request_cpu_ns: 300_000,
        ..plain("x")
    };
    let busy = limit(&[busy], 4096, &[4, 16]);
    assert_eq!(
        (busy.limit, busy.confirmed),
        (Limit::EachOperation, true),
        "{busy:?}"
    );
    let slow = Profile {
        drive_mib_s: 50,
        ..plain("x")
    };
    let slow_drive = limit(std::slice::from_ref(&slow), 256 << 10, &[4, 16]);
    assert_eq!(
        (slow_drive.limit, slow_drive.confirmed),
        (Limit::Device, true),
        "{slow_drive:?}"
    );
    // The same behind a link that carries no more: one lane of 2.5 GT/s is 215 MiB/s.
    let link = Environment {
        pcie_link_speed: Some("2.5 GT/s PCIe".into()),
        pcie_link_width: Some(1),
        ..Environment::default()
    };
    let full = Profile {
        drive_mib_s: 210,
        ..plain("x")
    };
    let full = limit_with(&[full], 256 << 10, &[4, 16], &link);
    assert_eq!(
        (full.limit, full.confirmed),
        (Limit::Link, true),
        "{full:?}"
    );
    let copying = [
        Profile {
            kib_cpu_ns: 4_000,
            ..plain("ext4-buffered")
        },
        plain("ext4-direct"),
    ];
    let copying = limit(&copying, 256 << 10, &[4, 16]);
    assert_eq!(
        (copying.limit, copying.confirmed),
        (Limit::Copying, true),
        "{copying:?}"
    );
    let interrupted = [
        Profile {
            command_cpu_ns: 150_000,
            ..plain("io_uring")
        },
        Profile {
            polls: true,
            ..plain("io_uring-polled")
        },
    ];
    let interrupted = limit(&interrupted, 4096, &[8, 32]);
    assert_eq!(
        (interrupted.limit, interrupted.confirmed),
        (Limit::Interrupts, true),
        "{interrupted:?}"
    );
}

#[test]
fn without_trials_there_is_a_suspicion_and_no_more() {
    let profile = Profile {
        name: "x".into(),
        ..Profile::default()
    };
    let all = results(&[profile], 4096, &[1]);
    let one: Vec<&PathResult> = all
        .iter()
        .filter(|r| r.path == "x" && r.access.block_size_bytes == 4096)
        .collect();
    let access = Access {
        operation: Operation::Read,
        pattern: Pattern::Random,
        block_size_bytes: 4096,
    };
    let environment = Environment::default();
    let alone = explain(&one, "x", access, 1, &environment).unwrap();
    assert!(!alone.confirmed && alone.trials.is_empty());
    assert!(explain(&one, "y", access, 1, &environment).is_none());
    assert!(explain(&one, "x", access, 2, &environment).is_none());
}
