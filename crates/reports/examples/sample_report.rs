// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the report, the JSON and the table of a comparison on a simulated machine.
//!
//! `cargo run -p straightway-reports --example sample_report [FOLDER]`
//!
//! Nothing here says anything about a real drive: the costs are made up, and the clock is virtual.

extern crate measure as straightway_measure;

#[path = "../../measure/tests/simulated/mod.rs"]
mod simulated;

use simulated::{Profile, SimulatedHost, compared};
use std::error::Error;
use std::time::Duration;
use straightway_measure::run_info::Request;
use straightway_measure::{DeviceInfo, Environment, Missing, Operation, Path, Settings};
use straightway_reports::Reportable;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let folder = std::path::PathBuf::from(folder);
    let mut host = SimulatedHost::new();
    host.environment = environment();
    let mut paths = paths(&host);
    let settings = Settings {
        operations: vec![Operation::Read, Operation::Write],
        block_sizes_bytes: vec![
            4 << 10,
            16 << 10,
            64 << 10,
            128 << 10,
            1 << 20,
            4 << 20,
            16 << 20,
        ],
        rounds: 10,
        cell_duration: Duration::from_millis(500),
        queue_depth: 1,
        span_bytes: 4 << 30,
        ..Settings::default()
    };
    let device = DeviceInfo {
        name: "/dev/nvme0n1".to_owned(),
        model: Some("Simulated NVMe SSD 960".to_owned()),
        serial: Some("S3X9NA0K".to_owned()),
        firmware: Some("1.0".to_owned()),
        pci_address: Some("0000:01:00.0".to_owned()),
        size_bytes: Some(512_110_190_592),
    };
    let request = Request {
        device,
        commands: vec![
            "straightway compare /dev/nvme0n1 --rounds 10 --destroy-data S3X9NA0K".to_owned(),
        ],
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: 20_261_121,
        figures: Vec::new(),
    };
    let comparison = compared(&mut host, &mut paths, &request, &settings)?;
    std::fs::create_dir_all(&folder)?;
    let json = serde_json::to_string_pretty(&comparison)?;
    std::fs::write(folder.join("compare.json"), json)?;
    std::fs::write(folder.join("report.html"), comparison.page().html()?)?;
    let table = straightway_reports::table(&comparison);
    std::fs::write(folder.join("table.txt"), &table)?;
    print!("{table}");
    Ok(())
}

fn environment() -> Environment {
    let affinity = [
        ("nvme0q0".to_owned(), "0-3".to_owned()),
        ("nvme0q1".to_owned(), "0".to_owned()),
    ];
    Environment {
        kernel: Some("6.12.9 #1 SMP PREEMPT".to_owned()),
        cpu_model: Some("Quad-core Cortex-A72".to_owned()),
        cpu_count: 4,
        cpu_governor: Some("performance".to_owned()),
        cpu_throttle_count: None,
        memory_bytes: Some(4 << 30),
        hypervisor: false,
        clock_source: Some("arch_sys_counter".to_owned()),
        io_scheduler: Some("none".to_owned()),
        nr_requests: Some(1023),
        pcie_link_speed: Some("5.0 GT/s PCIe".to_owned()),
        pcie_link_width: Some(4),
        interrupt_affinity: affinity.into(),
    }
}

fn paths(host: &SimulatedHost) -> Vec<Box<dyn Path>> {
    let base = Profile {
        group: "kernel".to_owned(),
        drive_mib_s: 1_750,
        latency_ns: 78_000,
        spread: 0.012,
        queue_depth: 1,
        max_transfer_bytes: 16 << 20,
        command_bytes: 512 << 10,
        ..Profile::default()
    };
    // Processor time of a request, a command and a KiB, in nanoseconds.
    let path = |name: &str, costs: [u64; 3]| {
        let [request_cpu_ns, command_cpu_ns, kib_cpu_ns] = costs;
        Profile {
            name: name.to_owned(),
            request_cpu_ns,
            command_cpu_ns,
            kib_cpu_ns,
            ..base.clone()
        }
    };
    let buffered = |name: &str, costs| Profile {
        buffered: true,
        command_bytes: 128 << 10,
        ..path(name, costs)
    };
    let direct_to_drive = |name: &str, polls| Profile {
        group: "user-space".to_owned(),
        polls,
        queue_depth: 128,
        max_transfer_bytes: 1 << 20,
        command_bytes: 1 << 20,
        ..path(
            name,
            if polls {
                [900, 500, 0]
            } else {
                [1_400, 9_500, 0]
            },
        )
    };
    let profiles = [
        buffered("ext4-buffered", [9_000, 11_000, 420]),
        path("ext4-direct", [13_000, 12_000, 38]),
        buffered("block-buffered", [7_500, 10_500, 450]),
        path("block-direct", [10_500, 11_500, 36]),
        path("io_uring", [8_500, 11_500, 36]),
        Profile {
            missing: Some(Missing::new(
                "the nvme driver has no poll queues",
                "modprobe -r nvme && modprobe nvme poll_queues=1",
            )),
            ..path("io_uring-polled", [6_000, 4_000, 36])
        },
        Profile {
            counts_commands: false,
            ..path("passthrough", [7_600, 9_800, 30])
        },
        direct_to_drive("straightway-interrupt", false),
        direct_to_drive("straightway-poll", true),
    ];
    profiles
        .into_iter()
        .map(|profile| host.path(profile))
        .collect()
}
