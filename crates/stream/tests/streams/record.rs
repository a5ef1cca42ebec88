// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings on a drive with a speed, on simulated time.
use crate::support::*;
use crash::{CommandKind, Config, CrashDisk, Cut, Fault, Faulty, Medium, On, Rule, Sampling};
use std::pin::pin;
use straightway_stream::{Error, GapFile, RecordOptions, Recorder};
use volume::{CreateOptions, FormatOptions, OpenFile, Volume, blocking};

const OPTIONS: RecordOptions = RecordOptions {
    deadline_us: 5_000,
    commit_bytes: 1 << 20,
    commit_us: 50_000,
    low_water_bytes: 1 << 20,
    reserve_bytes: 4 << 20,
    total_bytes: None,
    retries: 3,
    waits_for_space: false,
};
/// 100 MB/s: a block each 328 us.
const RATE: u64 = 100_000_000;

fn disk(blocks: u64) -> CrashDisk {
    let config = Config {
        queue_depth: 64,
        ..Config::default()
    };
    format(
        CrashDisk::new(Medium::new(9, blocks).unwrap(), config),
        false,
    )
}

fn run(speed: Speed, ring: usize, producer: &Producer, drop: bool) -> (Recorded, Vec<u8>, Vec<u8>) {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(Slow::new(disk(1 << 17), time.clone(), speed), &mut files);
    let mut ring = places(ring, producer.block_bytes);
    let recorded = record(&volume, &time, &mut ring, &OPTIONS, producer, "a", drop);
    assert!(ring.into_iter().all(|place| place.into_buffer().is_some()));
    let data = contents(&volume, "a");
    let gaps = if drop {
        contents(&volume, "a.gaps")
    } else {
        Vec::new()
    };
    assert_eq!(volume.unmount().result, Ok(()));
    (recorded, data, gaps)
}

fn stalled(from_us: u64, for_us: u64) -> Speed {
    let speed = Speed::default();
    speed.stalls.borrow_mut().push(from_us..from_us + for_us);
    speed
}

#[test]
fn a_drive_that_keeps_up_misses_nothing() {
    let producer = Producer::new(RATE, 1_000);
    let (recorded, data, _) = run(Speed::default(), 8, &producer, false);
    assert_eq!(recorded.result, Ok(()));
    assert_eq!(data, expected(1_000, BLOCK, &[]));
    let report = recorded.report;
    assert_eq!(
        (report.blocks, report.misses, report.lost_blocks),
        (1_000, 0, 0)
    );
    assert_eq!(report.durable_bytes, 1_000 * BLOCK as u64);
    assert_eq!(
        (report.abandoned_bytes, report.latencies.total()),
        (0, 1_000)
    );
    // 31 MiB, durable each MiB, reserved 5 MiB at a time with 1 MiB left: 4 each.
    assert!((28..=36).contains(&report.commits), "{report:?}");
    assert!((7..=9).contains(&report.reservations), "{report:?}");
    assert!(recorded.acknowledged.is_sorted() && recorded.acknowledged.len() > 25);
    assert!(report.smallest_ring_blocks().unwrap() <= 5, "{report:?}");
}

#[test]
fn the_smallest_ring_is_enough_and_a_smaller_one_is_not() {
    let producer = Producer::new(RATE, 600);
    let stall = || stalled(60_000, 12_000);
    let (recorded, ..) = run(stall(), 200, &producer, false);
    assert_eq!(recorded.result, Ok(()));
    let report = recorded.report;
    // 12 ms at 328 us a block.
    let waiting = report.waiting_max_blocks;
    assert!((36..45).contains(&waiting), "{report:?}");
    assert!(
        report.misses > 20 && report.lateness_max_us > 6_000,
        "{report:?}"
    );
    assert!(
        (12_000..14_000).contains(&report.latency_max_us),
        "{report:?}"
    );
    assert_eq!(report.waiting_max_bytes, waiting * BLOCK as u64);
    // This producer fills its buffer instantly, so the buffer that it fills is not missed.
    let (same, ..) = run(stall(), waiting as usize, &producer, false);
    assert_eq!(same.result, Ok(()));
    let (less, ..) = run(stall(), waiting as usize - 1, &producer, false);
    assert!(
        matches!(less.result, Err(Error::Overrun { .. })),
        "{less:?}"
    );
    assert_eq!(less.report.smallest_ring_blocks(), None);
}

#[test]
fn a_deadline_counts_from_the_intended_arrival() {
    let producer = Producer {
        tardy_us: 6_000,
        ..Producer::new(RATE / 10, 50)
    };
    let (recorded, ..) = run(Speed::default(), 8, &producer, false);
    // The drive is quick, but each block was handed in after its deadline.
    assert_eq!((recorded.result, recorded.report.misses), (Ok(()), 50));
    assert!(recorded.report.latency_max_us >= 6_000);
}

#[test]
fn an_overrun_ends_the_recording_at_once_and_keeps_what_came_before() {
    let producer = Producer::new(RATE, 600);
    let (recorded, data, _) = run(stalled(30_000, 20_000), 8, &producer, false);
    let Err(Error::Overrun {
        offset_bytes,
        at_us,
    }) = recorded.result
    else {
        panic!("{recorded:?}");
    };
    // The stall begins at 30 ms and the ring holds 2.6 ms.
    assert!((32_000..35_000).contains(&at_us), "{at_us}");
    let blocks = offset_bytes / BLOCK as u64;
    assert_eq!(data, expected(blocks, BLOCK, &[]));
    assert_eq!(recorded.report.durable_bytes, offset_bytes);
    assert_eq!((recorded.report.gaps, recorded.report.lost_blocks), (1, 1));
}

#[test]
fn a_dropped_block_is_a_gap_that_the_companion_names() {
    let producer = Producer::new(RATE, 900);
    let speed = Speed::default();
    speed.stalls.borrow_mut().extend([
        20_000..30_000,
        60_000..90_000,
        // Until the end: no block follows the last gap.
        200_000..400_000,
    ]);
    let (recorded, data, gaps) = run(speed, 8, &producer, true);
    assert_eq!(recorded.result, Ok(()));
    let (report, lost) = (recorded.report, &recorded.lost);
    assert_eq!(report.lost_blocks, lost.len() as u64);
    assert_eq!(report.lost_bytes, lost.len() as u64 * BLOCK as u64);
    assert!(lost.len() > 50 && lost.last() == Some(&899), "{lost:?}");
    assert_eq!(data, expected(900, BLOCK, lost));
    let named = named_gaps(&gaps);
    assert_eq!(named, true_gaps(900, BLOCK as u64, lost));
    assert_eq!(report.gaps, named.len() as u64);
    assert!(report.gaps >= 3, "{named:?}");
    assert_eq!(
        report
            .first_gap
            .map(|gap| (gap.offset_bytes, gap.lost_bytes)),
        named.first().copied()
    );
}

#[test]
fn a_later_recording_goes_on_and_names_its_gaps_behind_the_earlier_ones() {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let speed = Speed::default();
    let stalls = [30_000..60_000, 120_000..150_000, 380_000..410_000];
    speed.stalls.borrow_mut().extend(stalls);
    let volume = mount(Slow::new(disk(1 << 17), time.clone(), speed), &mut files);
    let producer = Producer::new(RATE, 500);
    let (mut data, mut named) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut ring = places(8, BLOCK);
        let recorded = record(&volume, &time, &mut ring, &OPTIONS, &producer, "a", true);
        assert_eq!(recorded.result, Ok(()));
        let begin = data.len() as u64;
        let gaps = true_gaps(500, BLOCK as u64, &recorded.lost);
        named.extend(gaps.iter().map(|(at, lost)| (begin + at, *lost)));
        data.extend(expected(500, BLOCK, &recorded.lost));
        assert_eq!(recorded.report.durable_bytes, data.len() as u64);
    }
    // Fewer than a block holds, so that each goes on inside one.
    assert!((2..8).contains(&named.len()), "{named:?}");
    assert_eq!(named_gaps(&contents(&volume, "a.gaps")), named);
    assert_eq!(contents(&volume, "a"), data);

    // A buffer without the lines that the block has would overwrite them.
    let file = blocking::run(&volume, volume.open_to_write("a")).unwrap();
    let gaps = blocking::run(&volume, volume.open_to_write("a.gaps")).unwrap();
    let gaps = GapFile {
        file: gaps,
        buffer: buffer(volume.geometry().block_size_bytes()),
        filled_bytes: 0,
    };
    let mut ring = places(2, BLOCK);
    let refused = Recorder::new(&volume, file, time, &mut ring, Some(gaps), &OPTIONS);
    assert_eq!(refused.err(), Some(Error::BadRing));
}

#[test]
fn a_drive_that_is_too_slow_loses_nothing_silently() {
    // A fifth of the rate: a gap at every other block.
    let speed = Speed {
        bytes_per_us: 20,
        ..Speed::default()
    };
    let producer = Producer::new(RATE, 3_000);
    let (recorded, data, gaps) = run(speed, 6, &producer, true);
    assert_eq!(recorded.result, Ok(()));
    assert!(recorded.report.gaps > 300, "{:?}", recorded.report);
    assert_eq!(data, expected(3_000, BLOCK, &recorded.lost));
    assert_eq!(
        named_gaps(&gaps),
        true_gaps(3_000, BLOCK as u64, &recorded.lost)
    );
}

#[test]
fn blocks_longer_than_a_transfer_and_split_by_the_map() {
    let config = Config {
        queue_depth: 64,
        max_transfer_blocks: 24,
        ..Config::default()
    };
    let mut device = CrashDisk::new(Medium::new(9, 1 << 13).unwrap(), config);
    let options = FormatOptions {
        slots: Some(512),
        ..FormatOptions::default()
    };
    volume::format(&mut device, buffer(4096), &options)
        .0
        .unwrap();
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(
        Slow::new(device, time.clone(), Speed::default()),
        &mut files,
    );
    // Free space in pieces of 8 KiB.
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    for name in &names {
        let file = blocking::run(&volume, volume.create(name, &Default::default())).unwrap();
        blocking::append(&volume, file, buffer(8192), 8192)
            .result
            .unwrap();
        blocking::run(&volume, volume.close(file)).unwrap();
    }
    let rest = blocking::run(&volume, volume.create("rest", &Default::default())).unwrap();
    let free = blocking::run(&volume, volume.free_units()).unwrap() as usize - 4;
    let free = free << volume.status().shape.unit_log2;
    blocking::append(&volume, rest, buffer(free), free)
        .result
        .unwrap();
    for name in names.iter().step_by(2) {
        blocking::run(&volume, volume.remove(name)).unwrap();
    }
    let options = RecordOptions {
        low_water_bytes: 64 << 10,
        reserve_bytes: 64 << 10,
        ..OPTIONS
    };
    let producer = Producer {
        block_bytes: 40 << 10,
        ..Producer::new(RATE / 10, 19)
    };
    let mut ring = places(16, producer.block_bytes);
    let recorded = record(&volume, &time, &mut ring, &options, &producer, "a", false);
    assert_eq!(recorded.result, Ok(()));
    assert_eq!(contents(&volume, "a"), expected(19, 40 << 10, &[]));
    let extents = blocking::run(&volume, volume.extent_count("a", 1_000)).unwrap();
    assert!(
        extents > 50,
        "the file has {extents} extents, so little was split"
    );
}

#[test]
fn a_full_volume_ends_the_recording_where_it_is_full() {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(
        Slow::new(disk(1 << 14), time.clone(), Speed::default()),
        &mut files,
    );
    let free = blocking::run(&volume, volume.free_units()).unwrap();
    let free = free << volume.status().shape.unit_log2;
    let mut ring = places(8, BLOCK);
    let producer = Producer::new(RATE, 10_000);
    let recorded = record(&volume, &time, &mut ring, &OPTIONS, &producer, "a", false);
    let Err(Error::Volume {
        offset_bytes,
        error,
    }) = recorded.result
    else {
        panic!("{recorded:?}");
    };
    assert_eq!(error, volume::Error::NoSpace);
    // Every free byte was used, except for the map's own leaves.
    assert!(free - offset_bytes <= 64 << 10, "{offset_bytes} of {free}");
    let data = contents(&volume, "a");
    assert_eq!(data.len() as u64, offset_bytes);
    assert!(expected(10_000, BLOCK, &[]).starts_with(&data));
    assert_eq!(recorded.report.durable_bytes, offset_bytes);
    assert!(recorded.report.abandoned_bytes > 0);
}

/// The units of a removed file, not given back yet: a recording continues into them, as any other
/// append does.
#[test]
fn a_recording_without_space_takes_that_of_removed_files() {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(
        Slow::new(disk(1 << 15), time.clone(), Speed::default()),
        &mut files,
    );
    let free = blocking::run(&volume, volume.free_units()).unwrap();
    let unit = volume.status().shape.unit_bytes();
    // All but 2 MiB, in two files that grew in parallel, of which one stays: a file with this many
    // extents is not removed in one operation.
    let pieces = 32;
    let piece = (free * unit - (2 << 20)) / 2 / pieces / unit * unit;
    let old = ["stays", "goes"]
        .map(|name| blocking::run(&volume, volume.create(name, &Default::default())).unwrap());
    for _ in 0..pieces {
        for file in old {
            let data = buffer(piece as usize);
            let appended = blocking::append(&volume, file, data, piece as usize);
            assert_eq!(appended.result, Ok(()));
        }
    }
    for file in old {
        blocking::run(&volume, volume.close(file)).unwrap();
    }
    blocking::run(&volume, volume.remove("goes")).unwrap();
    let left = blocking::run(&volume, volume.free_units()).unwrap() * unit;
    assert!(
        left < 3 << 20,
        "{left} bytes are free: nothing is to be given back"
    );
    let mut ring = places(64, BLOCK);
    let blocks = (pieces * piece + (1 << 20)) / BLOCK as u64;
    let producer = Producer::new(RATE, blocks);
    let recorded = record(&volume, &time, &mut ring, &OPTIONS, &producer, "a", false);
    assert_eq!(recorded.result, Ok(()), "{recorded:?}");
    assert_eq!(recorded.lost, []);
    assert!(contents(&volume, "a") == expected(blocks, BLOCK, &[]));
    assert_eq!(volume.unmount().result, Ok(()));
}

fn faulty(rule: Rule, blocks: u64) -> (Recorded, Option<Vec<u8>>) {
    let time = Time::default();
    let device = Faulty::new(disk(1 << 15), []);
    let faults = device.faults();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(
        Slow::new(device, time.clone(), Speed::default()),
        &mut files,
    );
    let mut ring = places(40, BLOCK);
    let begin = faults.clone();
    let producer = Producer {
        on_start: Some(Box::new(move || begin.add(rule.clone()))),
        ..Producer::new(RATE, blocks)
    };
    let options = RecordOptions {
        commit_bytes: 8 * BLOCK as u64,
        ..OPTIONS
    };
    let recorded = record(&volume, &time, &mut ring, &options, &producer, "a", false);
    assert!(ring.into_iter().all(|place| place.into_buffer().is_some()));
    faults.clear();
    // As after a power cut: what was acknowledged must exist.
    let device = volume.abandon().device;
    let mut files = [const { OpenFile::new() }; 3];
    let data = match Volume::mount(device, nodes(), &mut files, &Default::default()) {
        Ok(volume) => contents(&volume, "a"),
        Err(unmounted) => panic!("{:?}", unmounted.result),
    };
    (recorded, Some(data))
}

#[test]
fn a_write_that_fails_is_repeated_and_then_given_up() {
    let timed_out = || Fault::Fail(block::Error::TimedOut);
    let (recorded, data) = faulty(
        Rule::once(On::Kind(CommandKind::Write), 60, timed_out()),
        200,
    );
    assert_eq!((recorded.result, recorded.report.retries), (Ok(()), 1));
    assert_eq!(data.unwrap(), expected(200, BLOCK, &[]));

    // One block's address fails permanently: three retries, then the recording ends at its offset.
    let (recorded, data) = faulty(
        Rule::from(On::Kind(CommandKind::Write), 1, timed_out()).within(8_000..8_001),
        200,
    );
    let data = data.unwrap();
    let Err(Error::Device {
        offset_bytes,
        error,
    }) = recorded.result
    else {
        panic!("{recorded:?}");
    };
    assert_eq!(
        (error, recorded.report.retries),
        (block::Error::TimedOut, 3)
    );
    assert_eq!(data.len() as u64, offset_bytes);
    assert!(expected(200, BLOCK, &[]).starts_with(&data));
    assert_eq!(recorded.report.durable_bytes, offset_bytes);

    // A do-not-retry error is not retried.
    let gone = Fault::Fail(block::Error::Nvme { status: 0x4281 });
    let (recorded, _) = faulty(
        Rule::from(On::Kind(CommandKind::Write), 1, gone).within(8_000..8_001),
        200,
    );
    assert_eq!(recorded.report.retries, 0);
    assert!(matches!(recorded.result, Err(Error::Device { .. })));
}

#[test]
fn each_nth_command_failing_ends_well_or_loses_nothing_acknowledged() {
    let all = expected(50, BLOCK, &[]);
    let mut ended = 0;
    for number in 1..=75 {
        for fault in [
            Fault::Fail(block::Error::TimedOut),
            Fault::FailDone(block::Error::Aborted),
            Fault::Short { done_blocks: 1 },
        ] {
            let (recorded, data) = faulty(Rule::once(On::Change, number, fault), 50);
            let data = data.unwrap();
            assert!(all.starts_with(&data), "at {number}");
            let durable = recorded.report.durable_bytes as usize;
            assert!(
                data.len() >= durable,
                "at {number}: {} of {durable}",
                data.len()
            );
            match recorded.result {
                Ok(()) => assert_eq!(data.len(), all.len(), "at {number}"),
                Err(_) => ended += 1,
            }
        }
    }
    // Data is retried; a failed metadata write needs a mount.
    assert!((1..120).contains(&ended), "{ended} of 225 ended");
}

/// Wherever the power is cut: what was acknowledged exists, and each gap before the end of the file
/// is named in the companion.
#[test]
fn a_power_cut_loses_nothing_acknowledged_and_hides_no_gap() {
    let mut random = fastrand::Rng::with_seed(seed());
    let (mut images, mut gaps_seen, mut acknowledged_bytes) = (0, 0, 0);
    for _ in 0..60 {
        let base = disk(1 << 14);
        let time = Time::default();
        let mut files = [const { OpenFile::new() }; 3];
        let speed = Speed {
            bytes_per_us: random.u64(40..150),
            ..Speed::default()
        };
        let volume = mount(Slow::new(base.clone(), time.clone(), speed), &mut files);
        let cut_from = base.clone();
        let number = base.changes() + random.u64(1..250);
        let producer = Producer {
            on_start: Some(Box::new(move || cut_from.stop_after(number, Cut::During))),
            ..Producer::new(RATE, 150)
        };
        let mut ring = places(random.usize(3..8), BLOCK);
        let options = RecordOptions {
            commit_bytes: 5 * BLOCK as u64,
            ..OPTIONS
        };
        let recorded = record(&volume, &time, &mut ring, &options, &producer, "a", true);
        assert!(recorded.result.is_ok() || base.is_off(), "{recorded:?}");
        drop(volume);
        let acknowledged = recorded.report.durable_bytes;
        acknowledged_bytes += acknowledged;
        let truth = true_gaps(150, BLOCK as u64, &recorded.lost);
        let all = expected(150, BLOCK, &recorded.lost);
        let sampling = Sampling {
            exhaustive_blocks: 0,
            samples: 12,
            tears: 1,
            seed: random.u64(..),
        };
        for image in base.images(&sampling).take(40) {
            let mut files = [const { OpenFile::new() }; 3];
            let volume = mount(image.open(Config::default()), &mut files);
            let data = contents(&volume, "a");
            assert!(
                data.len() as u64 >= acknowledged,
                "{} of {acknowledged}",
                data.len()
            );
            assert!(all.starts_with(&data));
            let named = named_gaps(&contents(&volume, "a.gaps"));
            let before_end = truth
                .iter()
                .filter(|(offset, _)| *offset < data.len() as u64);
            let before_end: Vec<_> = before_end.copied().collect();
            assert!(
                named.starts_with(&before_end),
                "{named:?} but {before_end:?}"
            );
            images += 1;
            gaps_seen += before_end.len();
        }
    }
    println!("{images} images, {gaps_seen} gaps, {acknowledged_bytes} bytes");
    assert!(images > 300 && gaps_seen > 300 && acknowledged_bytes > 10 << 20);
}

#[test]
fn what_is_lost_inside_a_block_is_named_there() {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 3];
    let volume = mount(disk(1 << 14), &mut files);
    let create = |name| {
        let options = CreateOptions::default();
        blocking::run(&volume, volume.create(name, &options)).unwrap()
    };
    let (file, gap_file) = (create("a"), create("a.gaps"));
    let gaps = GapFile {
        file: gap_file,
        buffer: buffer(volume.geometry().block_size_bytes()),
        filled_bytes: 0,
    };
    let mut ring = places(2, BLOCK);
    let recorder =
        Recorder::new(&volume, file, time.clone(), &mut ring, Some(gaps), &OPTIONS).unwrap();
    let mut upkeep = pin!(recorder.upkeep());
    time.pass(1_000);
    // Two messages at one place, one at another, and one behind the block.
    let lost = [(100, 10, 3_000), (300, 5, 4_000), (300, 7, 5_000)];
    recorder.begin(1_000);
    for (ahead_bytes, len_bytes, arrival) in lost {
        assert_eq!(
            recorder.overrun_within(ahead_bytes, 1, len_bytes, arrival),
            Ok(())
        );
    }
    let block = recorder.take().unwrap();
    recorder.hand_in(block, BLOCK, 1_000).unwrap();
    recorder.overrun(1, 9_000).unwrap();
    recorder.finish();
    while recorder
        .step(upkeep.as_mut(), &mut |_| panic!("not ours"))
        .is_pending()
    {
        time.pass(1);
    }
    let report = recorder.report();
    assert_eq!(
        (report.gaps, report.lost_blocks, report.lost_bytes),
        (3, 4, 23)
    );
    let first = report.first_gap.unwrap();
    assert_eq!(
        (first.offset_bytes, first.lost_bytes, first.at_us),
        (100, 10, 2_000)
    );
    for file in [file, gap_file] {
        blocking::run(&volume, volume.close(file)).unwrap();
    }
    let named = named_gaps(&contents(&volume, "a.gaps"));
    assert_eq!(named, [(100, 10), (300, 12), (BLOCK as u64, 1)]);
    assert_eq!(contents(&volume, "a").len(), BLOCK);
}
