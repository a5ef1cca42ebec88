// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Record and play over the ring: what is played is what was recorded, misses and gaps are counted
//! correctly, and what was acknowledged survives clients and power.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Coprocessor, Disk, Microseconds, WINDOW_BYTES, disk, formatted, memory, seed, window,
};
use block::{Buffer, Completion, Device, Geometry, Refused, Request};
use crash::{Config, CrashDisk, Cut, Medium, Sampling};
use straightway_coprocessor::layout::data_part;
use straightway_coprocessor::{
    Access, Code, Error as Failure, FileNumber, FilesClient, Playing, PlayingOptions, Recording,
    RecordingOptions,
};
use stream::{Error, PlayOptions, RecordOptions, RecordReport, parse_gap};

type Client = FilesClient<Microseconds>;

const BLOCK: usize = 16 << 10;
const PLACES: usize = 8;
/// After the client's scratch and the block for gaps.
const RING: usize = 8192;

const RECORD: RecordOptions = RecordOptions {
    deadline_us: 60_000_000,
    commit_bytes: 4 * BLOCK as u64,
    commit_us: 1_000_000,
    low_water_bytes: 8 * BLOCK as u64,
    reserve_bytes: 16 * BLOCK as u64,
    total_bytes: None,
    retries: 3,
    waits_for_space: false,
};

fn options(bytes_per_second: u64, deadline_us: u64) -> RecordingOptions {
    RecordingOptions {
        block_bytes: BLOCK as u32,
        bytes_per_second,
        record: RecordOptions {
            deadline_us,
            ..RECORD
        },
    }
}

fn attach<R: Send + 'static>(
    coprocessor: &Coprocessor<R>,
    index: usize,
    number: u32,
) -> Result<Client, straightway_coprocessor::AttachFailed> {
    let client = coprocessor.attach(index, number, Access::Files)?;
    Ok(FilesClient::new(client, coprocessor.buffer(index, 0, 4096)).unwrap())
}

fn ring<R: Send + 'static>(coprocessor: &Coprocessor<R>, index: usize) -> Buffer {
    coprocessor.buffer(index, RING, PLACES * BLOCK)
}

/// The content of block `number` of the stream `name`.
fn fill(block: &mut [u8], name: u64, number: u64) {
    let mut random = fastrand::Rng::with_seed(name << 32 | number);
    block.fill_with(|| random.u8(..));
}

fn expected(name: u64, numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut data = Vec::new();
    let mut block = [0; BLOCK];
    for number in numbers {
        fill(&mut block, name, number);
        data.extend_from_slice(&block);
    }
    data
}

/// Hands in blocks `numbers`, as places become free.
fn hand_in(
    client: &mut Client,
    recording: &mut Recording,
    name: u64,
    numbers: std::ops::Range<u64>,
) -> Result<(), Failure> {
    for number in numbers {
        let mut block = loop {
            recording.poll(client)?;
            if let Some(block) = recording.take() {
                break block;
            }
        };
        fill(&mut block, name, number);
        let handed = recording.hand_in(client, block, BLOCK);
        handed.map_err(|(failure, _)| failure)?;
    }
    Ok(())
}

/// Reads a file with ordinary commands.
fn contents(client: &mut Client, buffer: Buffer, name: &str) -> Vec<u8> {
    let file = client.open(name, false).unwrap();
    let size = client.sizes(file).unwrap().committed;
    let mut data = Vec::new();
    let mut buffer = Some(buffer);
    while (data.len() as u64) < size {
        client
            .read(file, data.len() as u64, buffer.take().unwrap(), 0)
            .unwrap();
        let moved = loop {
            if let Some(moved) = client.poll() {
                break moved;
            }
        };
        let got = moved.buffer.unwrap();
        data.extend_from_slice(&got[..moved.result.unwrap() as usize]);
        buffer = Some(got);
    }
    client.close(file).unwrap();
    data
}

fn played(
    client: &mut Client,
    file: FileNumber,
    ring: Buffer,
    options: &PlayingOptions,
) -> (Vec<u8>, stream::PlayReport) {
    let mut playing = Playing::begin(client, file, ring, options).unwrap();
    let mut data = Vec::new();
    while !playing.is_over() {
        if let Some(block) = playing.next(client).unwrap() {
            assert_eq!(block.offset_bytes, data.len() as u64);
            data.extend_from_slice(&block.buffer[..block.len_bytes]);
            playing.give_back(client, block.buffer).unwrap();
        }
    }
    let (result, report) = playing.finish(client).unwrap();
    assert_eq!(result, Ok(()));
    let blocks = playing.into_blocks(client);
    assert_eq!(blocks.iter().flatten().count(), PLACES);
    (data, report)
}

#[test]
fn what_is_played_is_what_was_recorded() {
    let coprocessor = Coprocessor::start(formatted(true));
    let mut client = attach(&coprocessor, 0, 1).unwrap();
    let file = client.create("take", 0, true).unwrap();
    let begun = Recording::begin(
        &mut client,
        file,
        ring(&coprocessor, 0),
        None,
        &options(0, 60_000_000),
    );
    let mut recording = begun.unwrap();
    hand_in(&mut client, &mut recording, 1, 0..60).unwrap();
    // The last one need not be whole.
    let mut block = loop {
        recording.poll(&mut client).unwrap();
        if let Some(block) = recording.take() {
            break block;
        }
    };
    fill(&mut block, 1, 60);
    recording.hand_in(&mut client, block, 1000).unwrap();
    // Another file of the same session, at the same time.
    let other = client.create("other", 0, false).unwrap();
    client.close(other).unwrap();
    let (result, report) = recording.finish(&mut client).unwrap();
    assert_eq!(result, Ok(()));
    let size = 60 * BLOCK as u64 + 1000;
    assert_eq!((report.blocks, report.bytes), (61, size));
    assert_eq!((report.written_bytes, report.durable_bytes), (size, size));
    assert_eq!((report.misses, report.lost_blocks, report.gaps), (0, 0, 0));
    assert_eq!(report.latencies.total(), 61);
    assert!(report.commits > 1 && report.reservations > 0, "{report:?}");
    let smallest = report.smallest_ring_blocks().unwrap();
    assert!((2..=PLACES as u64 + 1).contains(&smallest), "{smallest}");
    let blocks = recording.into_blocks(&client);
    assert_eq!(blocks.iter().flatten().count(), PLACES);
    client.close(file).unwrap();

    let mut data = expected(1, 0..61);
    data.truncate(size as usize);
    let buffer = coprocessor.buffer(0, RING, BLOCK);
    assert!(contents(&mut client, buffer, "take") == data);
    let file = client.open("take", false).unwrap();
    let play = PlayOptions {
        verify: false,
        ..PlayOptions::default()
    };
    let as_it_is = PlayingOptions {
        block_bytes: BLOCK as u32,
        play,
    };
    let (found, report) = played(&mut client, file, ring(&coprocessor, 0), &as_it_is);
    assert!(found == data);
    assert_eq!((report.blocks, report.bytes), (61, size));
    // Checksums are compared by 64 KiB: shorter blocks are refused, then all is as before.
    let verified = PlayingOptions {
        play: PlayOptions::default(),
        ..as_it_is
    };
    let refused = Playing::begin(&mut client, file, ring(&coprocessor, 0), &verified);
    assert_eq!(
        refused.err(),
        Some(Failure::Interface(Code::BadRing)),
        "blocks too short to compare"
    );
    let mut long = Playing::begin(
        &mut client,
        file,
        ring(&coprocessor, 0),
        &PlayingOptions {
            block_bytes: 64 << 10,
            ..verified
        },
    )
    .unwrap();
    let mut found = Vec::new();
    while !long.is_over() {
        if let Some(block) = long.next(&mut client).unwrap() {
            found.extend_from_slice(&block.buffer[..block.len_bytes]);
            long.give_back(&mut client, block.buffer).unwrap();
        }
    }
    let (result, report) = long.finish(&mut client).unwrap();
    assert_eq!((result, report.verified_bytes), (Ok(()), size));
    assert!(found == data);
}

#[test]
fn two_clients_stream_at_once_and_a_third_stream_is_refused() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut clients: Vec<Client> = (0..2)
        .map(|index| attach(&coprocessor, index, 1).unwrap())
        .collect();
    let mut streams = Vec::new();
    for (index, client) in clients.iter_mut().enumerate() {
        let file = client.create(&format!("take {index}"), 0, false).unwrap();
        let ring = ring(&coprocessor, index);
        let recording = Recording::begin(client, file, ring, None, &options(0, 60_000_000));
        streams.push((file, recording.unwrap()));
    }
    // The file belongs to its stream alone.
    let client = &mut clients[0];
    let file = streams[0].0;
    let busy = Failure::Interface(Code::StreamBusy);
    assert_eq!(client.commit(file), Err(busy));
    assert_eq!(client.close(file), Err(busy));
    assert_eq!(client.reserve(file, 1), Err(busy));
    let beyond = || coprocessor.buffer(0, RING + PLACES * BLOCK, BLOCK);
    client.append(file, beyond(), BLOCK, 0).unwrap();
    let moved = loop {
        if let Some(moved) = client.poll() {
            break moved;
        }
    };
    assert_eq!(moved.result, Err(busy));
    let again = Recording::begin(client, file, beyond(), None, &options(0, 0));
    assert_eq!(again.err(), Some(busy));
    let third = client.create("third", 0, false).unwrap();
    let refused = Recording::begin(client, third, beyond(), None, &options(0, 0));
    assert_eq!(refused.err(), Some(busy));

    for number in 0..20 {
        for (name, client) in clients.iter_mut().enumerate() {
            let recording = &mut streams[name].1;
            hand_in(client, recording, name as u64, number..number + 1).unwrap();
        }
    }
    for (name, client) in clients.iter_mut().enumerate() {
        let (file, recording) = &mut streams[name];
        let (result, report) = recording.finish(client).unwrap();
        assert_eq!((result, report.blocks), (Ok(()), 20));
        client.close(*file).unwrap();
    }
    let third = Recording::begin(&mut clients[0], third, beyond(), None, &options(0, 0));
    let mut third = third.unwrap();
    assert_eq!(third.finish(&mut clients[0]).unwrap().0, Ok(()));
    // One client records while the other plays.
    for (name, client) in clients.iter_mut().enumerate() {
        let buffer = coprocessor.buffer(name, RING, BLOCK);
        let found = contents(client, buffer, &format!("take {name}"));
        assert!(found == expected(name as u64, 0..20), "take {name}");
    }
}

#[test]
fn a_rate_that_cannot_be_kept_is_missed_and_one_that_is_kept_is_not() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut client = attach(&coprocessor, 0, 1).unwrap();
    // A block each 16 ns; the deadline is a microsecond.
    for (rate, deadline_us, missed) in [(1 << 40, 1, 100..=101), (1 << 20, 600_000_000, 0..=0)] {
        let file = client.create("take", 0, false).unwrap();
        let order = options(rate, deadline_us);
        let ring = ring(&coprocessor, 0);
        let mut recording = Recording::begin(&mut client, file, ring, None, &order).unwrap();
        let mut late = 0;
        let mut told = 0;
        for number in 0..101 {
            let mut block = loop {
                if let Some(written) = recording.poll(&mut client).unwrap() {
                    late += u64::from(written.is_late);
                    assert!(written.misses >= told);
                    told = written.misses;
                }
                if let Some(block) = recording.take() {
                    break block;
                }
            };
            fill(&mut block, 3, number);
            recording.hand_in(&mut client, block, BLOCK).unwrap();
        }
        let (result, report) = recording.finish(&mut client).unwrap();
        assert_eq!(result, Ok(()));
        assert!(missed.contains(&report.misses), "{report:?}");
        assert_eq!(late > 0, *missed.end() > 0);
        assert_eq!(report.lateness_max_us > 0, *missed.end() > 0);
        assert!(u64::from(told) <= report.misses);
        client.close(file).unwrap();

        let file = client.open("take", false).unwrap();
        let begin = Instant::now();
        let play = PlayOptions {
            bytes_per_second: rate.min(8 << 20),
            deadline_us,
            verify: false,
            retries: 0,
        };
        let options = PlayingOptions {
            block_bytes: BLOCK as u32,
            play,
        };
        if rate == 1 << 40 {
            let ring = coprocessor.buffer(0, RING, PLACES * BLOCK);
            let (data, report) = played(&mut client, file, ring, &options);
            // 101 blocks at 512 a second: the last is due 195 ms after the first.
            assert!(begin.elapsed() >= Duration::from_millis(195));
            assert!(data == expected(3, 0..101));
            assert_eq!(report.latencies.total(), 101);
        } else {
            // Ended before its end, while it waits for a block that is not due yet.
            let ring = coprocessor.buffer(0, RING, PLACES * BLOCK);
            let mut playing = Playing::begin(&mut client, file, ring, &options).unwrap();
            while playing.next(&mut client).unwrap().is_none() {}
            let (result, report) = playing.finish(&mut client).unwrap();
            assert_eq!(result, Ok(()));
            assert!((1..101).contains(&report.blocks), "{report:?}");
        }
        client.close(file).unwrap();
        client.delete("take").unwrap();
    }
}

/// A drive that stalls on request.
struct Gate {
    inner: Disk,
    is_shut: Arc<AtomicBool>,
}

impl Device for Gate {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        self.inner.submit(request)
    }

    fn kick(&mut self) {
        self.inner.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.is_shut.load(Ordering::Relaxed) {
            None
        } else {
            self.inner.poll()
        }
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}

/// The result, the report, what was handed in, the file, and its companion's lines.
type Stalled = (Result<(), Error>, RecordReport, Vec<u64>, Vec<u8>, Vec<u8>);

/// Records 40 blocks while the drive stalls for some; returns which were handed in.
fn stalled(with_gaps: bool) -> Stalled {
    let is_shut = Arc::new(AtomicBool::new(false));
    let shut = Arc::clone(&is_shut);
    let make = move || Gate {
        inner: formatted(false),
        is_shut: shut,
    };
    let coprocessor = Coprocessor::start_made(window(), None, make, |_| ());
    let mut client = attach(&coprocessor, 0, 1).unwrap();
    let file = client.create("take", 0, false).unwrap();
    let gaps = with_gaps.then(|| {
        let companion = client.create("take.gaps", 0, false).unwrap();
        (companion, coprocessor.buffer(0, 4096, 512))
    });
    let companion = gaps.as_ref().map(|(companion, _)| *companion);
    let order = options(64 << 20, 60_000_000);
    let ring = ring(&coprocessor, 0);
    let mut recording = Recording::begin(&mut client, file, ring, gaps, &order).unwrap();
    let mut handed = Vec::new();
    for number in 0..40 {
        if number == 10 {
            // Everything before is written, so that what is lost does not depend on thread timing.
            while recording.outstanding() > 0 {
                recording.poll(&mut client).unwrap();
            }
            is_shut.store(true, Ordering::Relaxed);
        }
        if number == 30 {
            is_shut.store(false, Ordering::Relaxed);
            while recording.outstanding() > 0 {
                recording.poll(&mut client).unwrap();
            }
        }
        while recording.outstanding() > 0 && !(10..30).contains(&number) {
            let _ = recording.poll(&mut client);
        }
        let Some(mut block) = recording.take() else {
            recording.overrun(1);
            continue;
        };
        fill(&mut block, 4, number);
        match recording.hand_in(&mut client, block, BLOCK) {
            Ok(()) => handed.push(number),
            Err((failure, _)) => panic!("{failure:?}"),
        }
    }
    let (result, report) = recording.finish(&mut client).unwrap();
    client.close(file).unwrap();
    let buffer = || coprocessor.buffer(0, RING, BLOCK);
    let data = contents(&mut client, buffer(), "take");
    let lines = companion.map_or(Vec::new(), |companion| {
        client.close(companion).unwrap();
        contents(&mut client, buffer(), "take.gaps")
    });
    (result, report, handed, data, lines)
}

#[test]
fn blocks_that_found_no_place_are_a_gap_that_the_companion_names() {
    let (result, report, handed, data, lines) = stalled(true);
    assert_eq!(result, Ok(()));
    // 8 places are filled while the drive stalls, and 12 blocks find none.
    assert_eq!(handed, (0..18).chain(30..40).collect::<Vec<_>>());
    assert_eq!((report.lost_blocks, report.gaps), (12, 1));
    assert_eq!(report.lost_bytes, 12 * BLOCK as u64);
    assert!(data == expected(4, handed.into_iter()));
    assert_eq!(lines.len(), 64);
    let gap = parse_gap(&lines, 0).unwrap();
    assert_eq!(Some(gap), report.first_gap);
    assert_eq!(gap.offset_bytes, 18 * BLOCK as u64);
    assert_eq!(gap.lost_bytes, 12 * BLOCK as u64);
    // By the rate: 4,096 blocks a second.
    assert_eq!(gap.at_us, 18 * 1_000_000 / 4096);
    assert_eq!(report.smallest_ring_blocks(), None);
}

#[test]
fn without_a_companion_the_recording_ends_there_and_says_where() {
    let (result, report, _, data, _) = stalled(false);
    let ended = Error::Overrun {
        offset_bytes: 18 * BLOCK as u64,
        at_us: 18 * 1_000_000 / 4096,
    };
    assert_eq!(result, Err(ended));
    assert_eq!(
        (report.blocks, report.durable_bytes),
        (18, 18 * BLOCK as u64)
    );
    assert!(data == expected(4, 0..18));
}

#[test]
fn a_client_that_dies_leaves_all_that_it_handed_in() {
    let coprocessor = Coprocessor::start(formatted(false));
    for round in 0..10 {
        let mut client = attach(&coprocessor, 0, 2 * round + 1).unwrap();
        let file = client.create("take", 0, false).unwrap();
        let ring = ring(&coprocessor, 0);
        let order = options(0, 60_000_000);
        let mut recording = Recording::begin(&mut client, file, ring, None, &order).unwrap();
        hand_in(&mut client, &mut recording, 5, 0..u64::from(4 * round)).unwrap();
        let durable = recording.durable_bytes();
        let answered = u64::from(4 * round) - recording.outstanding();
        std::mem::forget(client);
        // The next client on its page: the stream has ended and the file is closed.
        let mut client = attach(&coprocessor, 0, 2 * round + 2).unwrap();
        let file = client.open("take", true).unwrap();
        client.close(file).unwrap();
        let found = contents(&mut client, coprocessor.buffer(0, RING, BLOCK), "take");
        assert!(found.len() as u64 >= durable.max(answered * BLOCK as u64));
        assert!(expected(5, 0..u64::from(4 * round)).starts_with(&found));
        client.delete("take").unwrap();
        // A consumer that dies while it waits for a block that is not due for an hour.
        let file = client.create("long", 0, false).unwrap();
        let ring = coprocessor.buffer(0, RING, PLACES * BLOCK);
        let mut recording = Recording::begin(&mut client, file, ring, None, &order).unwrap();
        hand_in(&mut client, &mut recording, 5, 0..20).unwrap();
        assert_eq!(recording.finish(&mut client).unwrap().0, Ok(()));
        let play = PlayOptions {
            bytes_per_second: 1,
            verify: false,
            ..PlayOptions::default()
        };
        let options = PlayingOptions {
            block_bytes: BLOCK as u32,
            play,
        };
        let ring = coprocessor.buffer(0, RING, PLACES * BLOCK);
        Playing::begin(&mut client, file, ring, &options).unwrap();
        std::mem::forget(client);
        let mut client = attach(&coprocessor, 0, 2 * round + 1001).unwrap();
        client.delete("long").unwrap();
        assert!(client.detach());
    }
}

/// The power is cut at a command of the drive, in the midst of a recording with gaps: in each image
/// that the cut may have left, everything acknowledged exists, and each gap has its line.
#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut cuts, mut gaps_seen) = (0, 0);
    for round in 0..500 {
        // How many changes a recording comes to is the scheduler's choice: it may end before the
        // cut.
        if round >= 25 && cuts > 10 && gaps_seen > 0 {
            break;
        }
        let number = random.u64(1..160);
        let lost = random.u64(0..30);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&acknowledged);
        let make = move || {
            let medium = Medium::new(9, crate::support::DISK_BYTES as u64 / 512).unwrap();
            let mut disk = CrashDisk::new(medium, Config::default());
            let done = volume::format(&mut disk, memory(4096), &volume::FormatOptions::default());
            done.0.unwrap();
            disk.stop_after(disk.changes() + number, Cut::During);
            disk
        };
        let finish = move |disk: CrashDisk| {
            if !disk.is_off() {
                return None;
            }
            let sampling = Sampling {
                tears: 1,
                ..Sampling::default()
            };
            let images = disk.images(&sampling).take(12);
            let counts = images.map(|image| {
                let mut disk = image.open(Config::default());
                survived(&mut disk, told.load(Ordering::SeqCst), lost)
            });
            Some(counts.sum::<u64>())
        };
        let coprocessor = Coprocessor::start_made(window(), None, make, finish);
        // If the power is cut immediately there may be no volume to mount.
        if let Ok(mut client) = attach(&coprocessor, 0, 1) {
            let _ = recorded(&coprocessor, &mut client, lost, &acknowledged);
            let _ = client.detach();
        }
        let (found, _) = coprocessor.stop();
        println!("round {round}: cut at change {number}: {found:?}");
        cuts += u32::from(found.is_some());
        gaps_seen += found.unwrap_or(0);
    }
    assert!(cuts > 10, "the power was cut {cuts} times");
    assert!(gaps_seen > 0, "no gap was ever behind the cut");
}

/// Records 60 blocks, without the one at number `lost`, until the power is cut.
fn recorded<R: Send + 'static>(
    coprocessor: &Coprocessor<R>,
    client: &mut Client,
    lost: u64,
    acknowledged: &AtomicU64,
) -> Result<(), Failure> {
    let file = client.create("take", 0, false)?;
    let companion = client.create("take.gaps", 0, false)?;
    let gaps = (companion, coprocessor.buffer(0, 4096, 512));
    let ring = ring(coprocessor, 0);
    let order = options(0, 60_000_000);
    let mut recording = Recording::begin(client, file, ring, Some(gaps), &order)?;
    let mut failed = None;
    for number in 0..60 {
        if number == lost {
            recording.overrun(1);
            continue;
        }
        let handed = hand_in(client, &mut recording, 6, number..number + 1);
        acknowledged.fetch_max(recording.durable_bytes(), Ordering::SeqCst);
        if handed.is_err() {
            failed = handed.err();
            break;
        }
    }
    let (result, report) = recording.finish(client)?;
    acknowledged.fetch_max(report.durable_bytes, Ordering::SeqCst);
    assert!(failed.is_none() || result.is_err(), "{failed:?} {result:?}");
    Ok(())
}

/// Checks what a cut has left; returns how many gaps are before the file's end.
fn survived(disk: &mut CrashDisk, acknowledged: u64, lost: u64) -> u64 {
    let mut table = [const { volume::OpenFile::new() }; 2];
    let nodes = [(); 3].map(|()| memory(4096));
    let mounted = volume::Volume::mount(disk, nodes, &mut table, &Default::default());
    let volume = mounted.expect("the volume can be mounted");
    let read = |name: &str| {
        let file = volume::blocking::run(&volume, volume.open(name)).ok()?;
        let size = volume.file_status(file).unwrap().committed_bytes;
        let whole = memory((size as usize).next_multiple_of(512).max(512));
        let read = match size {
            0 => Vec::new(),
            _ => {
                let outcome = volume::blocking::read(&volume, file, 0, whole);
                outcome.result.unwrap();
                outcome.buffer[..size as usize].to_vec()
            }
        };
        Some(read)
    };
    let data = read("take").unwrap_or_default();
    assert!(
        data.len() as u64 >= acknowledged,
        "{} of {acknowledged} acknowledged bytes",
        data.len()
    );
    let all = expected(6, (0..60).filter(|number| *number != lost));
    assert!(all.starts_with(&data), "the file holds what was recorded");
    let at = lost * BLOCK as u64;
    if data.len() as u64 <= at {
        return 0;
    }
    let lines = read("take.gaps").unwrap_or_default();
    let line = lines.get(..64).expect("a gap before the end has its line");
    let gap = parse_gap(line, 0).unwrap();
    assert_eq!((gap.offset_bytes, gap.lost_bytes), (at, BLOCK as u64));
    1
}

#[test]
fn impossible_orders_are_refused_and_change_nothing() {
    let coprocessor = Coprocessor::start(formatted(false));
    let mut client = attach(&coprocessor, 0, 1).unwrap();
    let file = client.create("take", 0, false).unwrap();
    let companion = client.create("gaps", 0, false).unwrap();
    let reader = client.open("gaps", false);
    let (_, room) = data_part(WINDOW_BYTES, 0);
    let refused = |client: &mut Client, ring: Buffer, gaps, block_bytes: u32| {
        let order = RecordingOptions {
            block_bytes,
            ..options(0, 0)
        };
        Recording::begin(client, file, ring, gaps, &order).err()
    };
    let bad = |code| Some(Failure::Interface(code));
    let whole = || ring(&coprocessor, 0);
    // No place; too short for the drive; another client's memory; the companion is the file itself,
    // or its block is in the ring.
    assert_eq!(refused(&mut client, whole(), None, 0), bad(Code::BadField));
    assert_eq!(
        refused(&mut client, whole(), None, u32::MAX),
        bad(Code::BadField)
    );
    assert_eq!(refused(&mut client, whole(), None, 500), bad(Code::BadRing));
    let foreign = coprocessor.buffer(1, 0, BLOCK);
    assert_eq!(
        refused(&mut client, foreign, None, BLOCK as u32),
        Some(Failure::Block(block::Error::BufferUnreachable))
    );
    let gaps = Some((file, coprocessor.buffer(0, 4096, 512)));
    assert_eq!(
        refused(&mut client, whole(), gaps, BLOCK as u32),
        bad(Code::BadField)
    );
    let gaps = Some((companion, coprocessor.buffer(0, RING, 512)));
    assert_eq!(
        refused(&mut client, whole(), gaps, BLOCK as u32),
        bad(Code::BadField)
    );
    let gaps = Some((companion, coprocessor.buffer(0, room - 256, 256)));
    assert_eq!(
        refused(&mut client, whole(), gaps, BLOCK as u32),
        bad(Code::OutsideGrant)
    );
    if let Ok(reader) = reader {
        let gaps = Some((reader, coprocessor.buffer(0, 4096, 512)));
        assert_eq!(
            refused(&mut client, whole(), gaps, BLOCK as u32),
            Some(Failure::Volume(volume::Error::NotWritable))
        );
    }
    // The file is unchanged: an empty recording, and one that is finished twice.
    let order = options(0, 0);
    let mut recording = Recording::begin(&mut client, file, whole(), None, &order).unwrap();
    assert_eq!(recording.finish(&mut client).unwrap().0, Ok(()));
    assert_eq!(
        recording.finish(&mut client).err(),
        bad(Code::NoStream),
        "it has ended"
    );
    client.close(file).unwrap();
    assert_eq!(disk().geometry().block_count, 16384);
}
