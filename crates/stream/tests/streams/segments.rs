// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording that goes on from file to file, on a drive with a speed and on simulated time.
use crate::support::*;
use block::Clock;
use crash::{CommandKind, Config, CrashDisk, Cut, Fault, Faulty, Medium, On, Rule, Sampling};
use std::pin::Pin;
use std::task::Poll;
use straightway_stream::{Error, GapFile, Pace, RecordOptions, RecordReport, Recorder, RingPlace};
use volume::{CreateOptions, OpenFile, Volume, blocking};

const OPTIONS: RecordOptions = RecordOptions {
    deadline_us: 5_000,
    commit_bytes: 5 * BLOCK as u64,
    commit_us: 50_000,
    low_water_bytes: 1 << 20,
    reserve_bytes: 4 << 20,
    total_bytes: Some(SEGMENT * BLOCK as u64),
    retries: 3,
    waits_for_space: false,
};
/// 100 MB/s: a block each 328 us.
const RATE: u64 = 100_000_000;
/// Blocks of a whole segment, and segments.
const SEGMENT: u64 = 20;
const SEGMENTS: usize = 6;

type Upkeep<'r> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'r>>;

struct Run {
    result: Result<(), Error>,
    report: RecordReport,
    /// The blocks that were lost.
    lost: Vec<u64>,
    /// All files together.
    acknowledged: u64,
    /// Iterations in which both recorders had blocks.
    overlapping: u64,
}

fn disk(blocks: u64) -> CrashDisk {
    let config = Config {
        queue_depth: 64,
        ..Config::default()
    };
    let medium = Medium::new(9, blocks).unwrap();
    format(CrashDisk::new(medium, config), false)
}

/// Records `SEGMENTS` files, `0` and `0.gaps` to `5.gaps`, which it makes before.
fn record_segments<D: block::Device>(
    volume: &Volume<'_, D>,
    time: &Time,
    ring: usize,
    on_start: &dyn Fn(),
) -> Run {
    let make = |name: String, reserve_bytes: u64| {
        let create = CreateOptions {
            reserve_bytes,
            ..CreateOptions::default()
        };
        blocking::run(volume, volume.create(&name, &create)).unwrap()
    };
    let block_bytes = volume.geometry().block_size_bytes();
    let files: Vec<_> = (0..SEGMENTS)
        .map(|n| {
            (
                make(n.to_string(), SEGMENT * BLOCK as u64),
                make(format!("{n}.gaps"), 4096),
            )
        })
        .collect();
    let gaps_of = |n: usize| GapFile {
        file: files[n].1,
        buffer: buffer(block_bytes),
        filled_bytes: 0,
    };
    let mut full = places(ring, BLOCK);
    let mut vacant: Vec<RingPlace> = (0..ring).map(|_| RingPlace::vacant()).collect();
    {
        let first = Recorder::new(
            volume,
            files[0].0,
            time.clone(),
            &mut full,
            Some(gaps_of(0)),
            &OPTIONS,
        );
        let first = first.unwrap();
        let second = first.partner(time.clone(), &mut vacant).unwrap();
        let recorders = [first, second];
        let mut upkeeps: [Option<Upkeep<'_>>; 2] = [None, None];
        upkeeps[0] = Some(Box::pin(recorders[0].upkeep()));
        let mut pace = Pace::new(1_000_000, RATE, BLOCK);
        let (mut segment, mut block, mut in_segment) = (0, 0, 0);
        let (mut lost, mut sealed, mut acknowledged, mut overlapping) = (vec![], 0, 0, 0);
        let mut report = RecordReport::default();
        let start = time.ticks();
        on_start();
        let result = loop {
            let (now, before) = (segment % 2, (segment + 1) % 2);
            while let Some(event) = volume.poll() {
                let event = recorders[now].accept(event);
                let event = event.and_then(|event| recorders[before].accept(event));
                assert!(event.is_none());
            }
            if let Some(upkeep) = &mut upkeeps[before] {
                overlapping += 1;
                let ended = recorders[before].advance(upkeep.as_mut());
                recorders[before].pass_buffers(&recorders[now]);
                match ended {
                    Poll::Pending => {}
                    Poll::Ready(ended) => {
                        upkeeps[before] = None;
                        sealed += recorders[before].durable_bytes();
                        match ended {
                            Ok(()) => recorders[now].follow_on(),
                            Err(error) => recorders[now].give_up(error),
                        }
                    }
                }
            }
            let ended = upkeeps[now]
                .as_mut()
                .map(|upkeep| recorders[now].advance(upkeep.as_mut()));
            let of_before = match upkeeps[before] {
                Some(_) => recorders[before].durable_bytes(),
                None => 0,
            };
            let durable = sealed + of_before + recorders[now].durable_bytes();
            assert!(durable >= acknowledged);
            acknowledged = durable;
            if let Some(Poll::Ready(result)) = ended {
                break result;
            }
            if block == SEGMENT * SEGMENTS as u64 {
                recorders[now].finish();
            }
            let arrival = start + pace.passed();
            if block < SEGMENT * SEGMENTS as u64 && time.ticks() >= arrival {
                let can_change = upkeeps[before].is_none() && !recorders[now].has_ended();
                if in_segment >= SEGMENT && can_change {
                    segment += 1;
                    in_segment = 0;
                    let (next, old) = (&recorders[before], &recorders[now]);
                    let (file, gaps) = (files[segment].0, Some(gaps_of(segment)));
                    report.add(&next.restart(file, gaps, OPTIONS.total_bytes).unwrap());
                    old.hand_over(next);
                    upkeeps[before] = Some(Box::pin(next.upkeep()));
                }
                let recorder = &recorders[segment % 2];
                match recorder.take() {
                    Some(mut buffer) => {
                        fill(&mut buffer, block * BLOCK as u64);
                        if let Err((_, buffer)) = recorder.hand_in(buffer, BLOCK, arrival) {
                            recorder.give_back(buffer).unwrap();
                        }
                    }
                    None => {
                        let _ = recorder.overrun(BLOCK as u64, arrival);
                        lost.push(block);
                    }
                }
                in_segment += 1;
                block += 1;
                pace.advance();
            }
            time.pass(10);
            assert!(time.ticks() - start < 3_600_000_000, "an hour has passed");
        };
        for recorder in &recorders {
            report.add(&recorder.report());
        }
        for (file, gap_file) in files {
            let _ = blocking::run(volume, volume.close(file));
            let _ = blocking::run(volume, volume.close(gap_file));
        }
        drop(upkeeps);
        drop(recorders);
        let buffers = full.into_iter().chain(vacant);
        let buffers = buffers.filter_map(RingPlace::into_buffer).count();
        assert!(result.is_err() || buffers == ring, "{buffers} of {ring}");
        Run {
            result,
            report,
            lost,
            acknowledged,
            overlapping,
        }
    }
}

/// `stall_us`: when after the beginning the drive stalls, and for how long.
fn run_on(stall_us: Option<(u64, u64)>, ring: usize) -> (Run, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (time, speed) = (Time::default(), Speed::default());
    let mut files = [const { OpenFile::new() }; 2 * SEGMENTS + 1];
    let slow = Slow::new(disk(1 << 17), time.clone(), speed.clone());
    let volume = mount(slow, &mut files);
    let run = record_segments(&volume, &time, ring, &|| {
        let stall = stall_us.map(|(from, long)| time.ticks() + from..time.ticks() + from + long);
        speed.stalls.borrow_mut().extend(stall);
    });
    let names = || (0..SEGMENTS).map(|n| n.to_string());
    let data = names().map(|name| contents(&volume, &name)).collect();
    let gaps = names().map(|name| contents(&volume, &format!("{name}.gaps")));
    let gaps = gaps.collect();
    assert_eq!(volume.unmount().result, Ok(()));
    (run, data, gaps)
}

#[test]
fn segments_are_whole_and_the_change_costs_no_deadline() {
    let (run, data, _) = run_on(None, 6);
    assert_eq!(run.result, Ok(()));
    let blocks = SEGMENT * SEGMENTS as u64;
    assert_eq!((run.report.misses, run.report.lost_blocks), (0, 0));
    assert_eq!(run.report.blocks, blocks);
    assert_eq!(run.report.durable_bytes, blocks * BLOCK as u64);
    assert_eq!(run.acknowledged, blocks * BLOCK as u64);
    assert!(run.overlapping > 0);
    for segment in &data {
        assert_eq!(segment.len() as u64, SEGMENT * BLOCK as u64);
    }
    assert_eq!(data.concat(), expected(blocks, BLOCK, &[]));
    assert!(run.report.smallest_ring_blocks().unwrap() <= 6);
}

/// The ring that one run says would be enough is enough, whether the drive stalls within a segment
/// or at its end.
#[test]
fn the_smallest_ring_counts_the_blocks_of_both_files() {
    for stall_us in [1_000, 5_900, 6_500, 12_500, 13_100] {
        let (run, ..) = run_on(Some((stall_us, 2_500)), 30);
        assert_eq!(run.result, Ok(()));
        let enough = run.report.smallest_ring_blocks().unwrap() as usize;
        assert!((5..30).contains(&enough), "{enough} at {stall_us}");
        let (run, ..) = run_on(Some((stall_us, 2_500)), enough);
        assert_eq!(run.lost, [], "{enough} at {stall_us}");
        let (run, ..) = run_on(Some((stall_us, 2_500)), enough - 3);
        assert_ne!(run.lost, [], "{enough} at {stall_us}");
    }
}

#[test]
fn each_gap_is_named_by_its_own_file_s_companion() {
    let mut lost_somewhere = 0;
    for stall_us in [2_000, 6_400, 13_000, 20_000] {
        let (run, data, gaps) = run_on(Some((stall_us, 4_000)), 5);
        assert_eq!(run.result, Ok(()));
        let blocks = SEGMENT * SEGMENTS as u64;
        assert_eq!(data.concat(), expected(blocks, BLOCK, &run.lost));
        let named: Vec<_> = gaps.iter().flat_map(|lines| named_gaps(lines)).collect();
        let named_bytes: u64 = named.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(named_bytes, run.lost.len() as u64 * BLOCK as u64);
        assert_eq!(named.len() as u64, run.report.gaps);
        for (data, lines) in data.iter().zip(&gaps) {
            for (offset, _) in named_gaps(lines) {
                assert!(
                    offset <= data.len() as u64,
                    "a gap past the end of its file"
                );
            }
        }
        lost_somewhere += run.lost.len();
    }
    assert!(lost_somewhere > 10);
}

/// A write of the old file that fails for good ends the recording there: nothing of the new file is
/// committed.
#[test]
fn nothing_of_the_next_file_is_durable_before_the_end_of_this_one() {
    let all = expected(SEGMENT * SEGMENTS as u64, BLOCK, &[]);
    let (mut ended, mut amid_a_change) = (0, 0);
    for number in 10..110 {
        let time = Time::default();
        let device = Faulty::new(disk(1 << 17), []);
        let faults = device.faults();
        let mut files = [const { OpenFile::new() }; 2 * SEGMENTS + 1];
        let slow = Slow::new(device, time.clone(), Speed::default());
        let volume = mount(slow, &mut files);
        let gone = Fault::Fail(block::Error::Nvme { status: 0x4281 });
        let rule = Rule::once(On::Kind(CommandKind::Write), number, gone);
        let run = record_segments(&volume, &time, 8, &|| faults.add(rule.clone()));
        faults.clear();
        let device = volume.abandon().device;
        let mut files = [const { OpenFile::new() }; 3];
        let volume = mount(device, &mut files);
        let data: Vec<_> = (0..SEGMENTS)
            .map(|n| contents(&volume, &n.to_string()))
            .collect();
        let is_whole = |data: &Vec<u8>| data.len() as u64 == SEGMENT * BLOCK as u64;
        let first_short = data.iter().position(|data| !is_whole(data));
        for later in data.iter().skip(first_short.unwrap_or(SEGMENTS) + 1) {
            assert!(later.is_empty(), "write {number}");
        }
        let data = data.concat();
        assert!(all.starts_with(&data), "write {number}");
        assert!(data.len() as u64 >= run.acknowledged, "write {number}");
        ended += u64::from(run.result.is_err());
        amid_a_change += u64::from(run.result.is_err() && run.report.abandoned_bytes > 0);
    }
    assert!(ended > 50 && amid_a_change > 10, "{ended} {amid_a_change}");
}

/// Wherever the power is cut: the files together are a part of the source from its beginning, and
/// have at least what was acknowledged.
#[test]
fn a_power_cut_at_a_change_leaves_no_hole_between_files() {
    let mut random = fastrand::Rng::with_seed(seed());
    let (mut images, mut several, mut acknowledged_bytes) = (0, 0, 0);
    for _ in 0..60 {
        let base = disk(1 << 15);
        let time = Time::default();
        let mut files = [const { OpenFile::new() }; 2 * SEGMENTS + 1];
        // One of the last writes of a file, so that those of the next overtake it.
        let change = SEGMENT * random.u64(1..SEGMENTS as u64);
        let speed = Speed {
            bytes_per_us: random.u64(100..300),
            late: Some((change - random.u64(1..4), random.u64(1_000..4_000))),
            ..Speed::default()
        };
        let volume = mount(Slow::new(base.clone(), time.clone(), speed), &mut files);
        let cut_from = base.clone();
        let number = random.u64(20..200);
        let run = record_segments(&volume, &time, random.usize(8..20), &move || {
            cut_from.stop_after(cut_from.changes() + number, Cut::During);
        });
        assert!(run.result.is_ok() || base.is_off(), "{:?}", run.result);
        drop(volume);
        acknowledged_bytes += run.acknowledged;
        let all = expected(SEGMENT * SEGMENTS as u64, BLOCK, &run.lost);
        let sampling = Sampling {
            exhaustive_blocks: 0,
            samples: 12,
            tears: 1,
            seed: random.u64(..),
        };
        for image in base.images(&sampling).take(30) {
            let mut files = [const { OpenFile::new() }; 3];
            let volume = mount(image.open(Config::default()), &mut files);
            let data: Vec<_> = (0..SEGMENTS)
                .map(|n| contents(&volume, &n.to_string()))
                .collect();
            several += u64::from(!data[1].is_empty());
            let data = data.concat();
            assert!(
                data.len() as u64 >= run.acknowledged,
                "{} of {}",
                data.len(),
                run.acknowledged
            );
            assert!(all.starts_with(&data), "a hole between two files");
            images += 1;
        }
    }
    println!("{images} images, {several} with several files, {acknowledged_bytes} bytes");
    assert!(images > 300 && several > 200 && acknowledged_bytes > 10 << 20);
}
