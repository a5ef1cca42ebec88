// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Playbacks on a drive with a speed, on simulated time.
use crate::support::*;
use crash::{CommandKind, Config, CrashDisk, Fault, Faulty, Medium, On, Rule};
use std::task::Poll;
use straightway_stream::{Error, PlayOptions, PlayReport, Player, RingPlace};
use volume::{CreateOptions, OpenFile, Volume, blocking};

/// Bytes of a played block.
const BLOCK: usize = 64 << 10;
/// 200 MB/s: a block each 327.7 us.
const OPTIONS: PlayOptions = PlayOptions {
    bytes_per_second: 200_000_000,
    deadline_us: 1_000,
    verify: true,
    retries: 2,
};

/// A disk with the file `a` of `bytes`, of which each eight hold their own offset.
fn disk(bytes: usize, checksums: bool, max_transfer_blocks: u32) -> CrashDisk {
    let config = Config {
        max_transfer_blocks,
        ..Config::default()
    };
    let disk = format(
        CrashDisk::new(Medium::new(9, 1 << 16).unwrap(), config),
        checksums,
    );
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mount(disk.clone(), &mut files);
    let options = CreateOptions {
        checksums,
        ..CreateOptions::default()
    };
    let file = blocking::run(&volume, volume.create("a", &options)).unwrap();
    let mut data = buffer(bytes.next_multiple_of(512));
    fill(&mut data, 0);
    blocking::append(&volume, file, data, bytes).result.unwrap();
    blocking::run(&volume, volume.close(file)).unwrap();
    assert_eq!(volume.unmount().result, Ok(()));
    disk
}

struct Done {
    result: Result<(), Error>,
    report: PlayReport,
    data: Vec<u8>,
    /// How long after it was due each block was delivered.
    late_us: Vec<u64>,
}

fn play<D: block::Device>(device: D, speed: Speed, ring: usize, options: &PlayOptions) -> Done {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mount(Slow::new(device, time.clone(), speed), &mut files);
    let done = play_on(&volume, &time, ring, options);
    assert_eq!(volume.unmount().result, Ok(()));
    done
}

fn play_on<D: block::Device>(
    volume: &Volume<'_, D>,
    time: &Time,
    ring: usize,
    options: &PlayOptions,
) -> Done {
    use block::Clock;
    let file = blocking::run(volume, volume.open("a")).unwrap();
    let mut ring: Vec<RingPlace> = places(ring, BLOCK);
    let player = Player::new(volume, file, time.clone(), &mut ring, options).unwrap();
    let (mut data, mut late_us) = (Vec::new(), Vec::new());
    let mut upkeep = Box::pin(player.upkeep());
    let result = loop {
        if let Poll::Ready(result) = player.step(upkeep.as_mut(), &mut |_| panic!("not ours")) {
            break result;
        }
        if let Some(played) = player.next() {
            assert_eq!(played.offset_bytes, data.len() as u64);
            data.extend_from_slice(&played.buffer[..played.len_bytes]);
            late_us.push(time.ticks() - played.due);
            player.give_back(played.buffer).unwrap();
        }
        time.pass(10);
        assert!(time.ticks() < 60_000_000, "a minute has passed");
    };
    drop(upkeep);
    let report = player.report();
    blocking::run(volume, volume.close(file)).unwrap();
    assert!(ring.into_iter().all(|place| place.into_buffer().is_some()));
    Done {
        result,
        report,
        data,
        late_us,
    }
}

fn source(bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes.next_multiple_of(512)];
    fill(&mut data, 0);
    data.truncate(bytes);
    data
}

#[test]
fn each_block_comes_when_it_is_due() {
    let bytes = 100 * BLOCK + 1_234;
    for checksums in [false, true] {
        let done = play(disk(bytes, checksums, 256), Speed::default(), 8, &OPTIONS);
        assert_eq!(done.result, Ok(()));
        assert!(done.data == source(bytes));
        assert!(
            done.late_us.iter().all(|late| *late <= 10),
            "{:?}",
            done.late_us
        );
        let report = done.report;
        assert_eq!(
            (report.blocks, report.misses, report.underruns),
            (101, 0, 0)
        );
        assert_eq!(
            report.verified_bytes,
            if checksums { bytes as u64 } else { 0 }
        );
        assert!(report.smallest_ring_blocks().unwrap() <= 3, "{report:?}");
    }
}

#[test]
fn the_smallest_ring_is_enough_and_late_blocks_are_counted() {
    let bytes = 200 * BLOCK;
    let stalled = || {
        let speed = Speed::default();
        speed.stalls.borrow_mut().push(20_000..27_000);
        speed
    };
    let ample = play(disk(bytes, false, 256), stalled(), 60, &OPTIONS);
    assert_eq!((ample.result, ample.report.misses), (Ok(()), 0));
    let smallest = ample.report.smallest_ring_blocks().unwrap() as usize;
    // 7 ms at 327.7 us a block.
    assert!((20..30).contains(&smallest), "{:?}", ample.report);
    let same = play(disk(bytes, false, 256), stalled(), smallest, &OPTIONS);
    assert_eq!(same.report.misses, 0);
    let less = play(disk(bytes, false, 256), stalled(), smallest / 2, &OPTIONS);
    let report = less.report;
    assert!(report.misses > 3 && report.underruns > 0, "{report:?}");
    assert_eq!(report.smallest_ring_blocks(), None);
    let late = less.late_us.iter().filter(|late| **late > 1_000);
    assert_eq!(report.misses, late.count() as u64);
    assert_eq!(report.latency_max_us, *less.late_us.iter().max().unwrap());
    assert!(less.data == source(bytes), "late, but complete");
}

#[test]
fn without_a_rate_everything_comes_and_nothing_is_late() {
    let options = PlayOptions {
        bytes_per_second: 0,
        ..OPTIONS
    };
    // Transfers of at most 12 KiB.
    let done = play(disk(30 * BLOCK, true, 24), Speed::default(), 3, &options);
    assert_eq!(done.result, Ok(()));
    assert!(done.data == source(30 * BLOCK));
    assert_eq!((done.report.misses, done.report.underruns), (0, 0));
    let empty = play(disk(0, false, 256), Speed::default(), 3, &options);
    assert_eq!((empty.result, empty.report.blocks), (Ok(()), 0));
}

#[test]
fn rot_is_found_before_it_is_delivered() {
    let disk = disk(20 * BLOCK, true, 256);
    let needle = (7 * BLOCK as u64 + 40_960).to_le_bytes();
    let image = disk.current().to_bytes();
    let at = image.chunks(8).position(|word| word == needle).unwrap() * 8;
    disk.rot(at as u64 / 512, (at % 512 * 8) as u32).unwrap();
    let done = play(disk.clone(), Speed::default(), 4, &OPTIONS);
    let offset = 7 * BLOCK as u64;
    let error = volume::Error::Rot { chunk: 7 };
    assert_eq!(
        done.result,
        Err(Error::Volume {
            offset_bytes: offset,
            error
        })
    );
    // Just what is before it is.
    assert_eq!(done.data.len(), 7 * BLOCK);
    assert!(source(20 * BLOCK).starts_with(&done.data));
    let options = PlayOptions {
        verify: false,
        ..OPTIONS
    };
    let done = play(disk, Speed::default(), 4, &options);
    assert_eq!((done.result, done.data.len()), (Ok(()), 20 * BLOCK));
}

#[test]
fn a_read_that_fails_is_repeated_and_then_given_up() {
    let faulty = |rule| {
        let device = Faulty::new(disk(20 * BLOCK, false, 256), []);
        let faults = device.faults();
        let time = Time::default();
        let mut files = [const { OpenFile::new() }; 1];
        let volume = mount(
            Slow::new(device, time.clone(), Speed::default()),
            &mut files,
        );
        faults.add(rule);
        play_on(&volume, &time, 4, &OPTIONS)
    };
    let timed_out = || Fault::Fail(block::Error::TimedOut);
    let once = faulty(Rule::once(On::Kind(CommandKind::Read), 10, timed_out()));
    assert_eq!((once.result, once.report.retries), (Ok(()), 1));
    assert!(once.data == source(20 * BLOCK));
    let gone = faulty(Rule::from(
        On::Kind(CommandKind::Read),
        12,
        Fault::Fail(block::Error::Gone),
    ));
    assert!(matches!(
        gone.result,
        Err(Error::Device {
            error: block::Error::Gone,
            ..
        })
    ));
    assert!(source(20 * BLOCK).starts_with(&gone.data));
    let ever = faulty(Rule::from(On::Kind(CommandKind::Read), 12, timed_out()));
    assert!(
        matches!(ever.result, Err(Error::Device { .. })),
        "{:?}",
        ever.result
    );
    assert!(ever.report.retries >= 2);
}

#[test]
fn a_ring_that_cannot_serve_is_refused() {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mount(disk(BLOCK, true, 256), &mut files);
    let file = blocking::run(&volume, volume.open("a")).unwrap();
    let bad: [&mut [RingPlace]; 3] = [&mut [], &mut places(2, 4096), &mut places(1, 0)];
    for ring in bad {
        let player = Player::new(&volume, file, time.clone(), ring, &OPTIONS);
        assert_eq!(player.err(), Some(Error::BadRing));
    }
}
