// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A drive with a simulated speed, on a clock that only the test advances; a producer; a volume.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::panic)]

use block::{Buffer, Clock, Completion, Device, Geometry, Refused, Request};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use straightway_stream::{Error, GapFile, Pace, RecordOptions, RecordReport, Recorder, RingPlace};
use volume::{CreateOptions, File, FormatOptions, MountOptions, OpenFile, Volume, blocking};

/// Bytes of a record block.
pub const BLOCK: usize = 32 << 10;
/// How far the clock advances with each iteration of a loop, in microseconds.
const TURN_US: u64 = 10;

/// Microseconds that only the test advances.
#[derive(Clone, Debug, Default)]
pub struct Time(Rc<Cell<u64>>);

impl Time {
    pub fn pass(&self, us: u64) {
        self.0.set(self.0.get() + us);
    }
}

impl Clock for Time {
    fn ticks(&self) -> u64 {
        self.0.get()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

/// How long a drive takes.
#[derive(Clone, Debug)]
pub struct Speed {
    pub bytes_per_us: u64,
    pub command_us: u64,
    /// When it stalls completely.
    pub stalls: Rc<RefCell<Vec<Range<u64>>>>,
    /// The number of a write of a whole block, from 0, and how many microseconds longer it takes:
    /// others overtake it.
    pub late: Option<(u64, u64)>,
}

impl Default for Speed {
    /// 500 MB/s and 20 us a command.
    fn default() -> Self {
        Self {
            bytes_per_us: 500,
            command_us: 20,
            stalls: Rc::default(),
            late: None,
        }
    }
}

/// A device that executes one command after another at a given speed.
pub struct Slow<D> {
    inner: D,
    time: Time,
    speed: Speed,
    queue: VecDeque<(u64, Request)>,
    free_at: u64,
    written_blocks: u64,
}

impl<D: Device> Slow<D> {
    pub fn new(inner: D, time: Time, speed: Speed) -> Self {
        Self {
            inner,
            time,
            speed,
            queue: VecDeque::new(),
            free_at: 0,
            written_blocks: 0,
        }
    }

    fn due(&mut self, request: &Request) -> u64 {
        let bytes = match &request.operation {
            block::Operation::Read { buffer, .. } | block::Operation::Write { buffer, .. } => {
                buffer.len() as u64
            }
            _ => 0,
        };
        let begin = self.free_at.max(self.time.ticks());
        let mut end = begin + self.speed.command_us + bytes / self.speed.bytes_per_us;
        for stall in self.speed.stalls.borrow().iter() {
            if begin < stall.end && end > stall.start {
                end += stall.end - stall.start.max(begin);
            }
        }
        self.free_at = end;
        match &request.operation {
            block::Operation::Write { buffer, .. } if buffer.len() == BLOCK => {
                let number = self.written_blocks;
                self.written_blocks += 1;
                let late = self.speed.late.filter(|(late, _)| *late == number);
                end + late.map_or(0, |(_, us)| us)
            }
            _ => end,
        }
    }
}

impl<D: Device> Device for Slow<D> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry().check(&request.operation) {
            return Err(Refused { error, request });
        }
        if self.queue.len() >= usize::from(self.geometry().queue_depth) {
            let error = block::Error::QueueFull;
            return Err(Refused { error, request });
        }
        let due = self.due(&request);
        self.queue.push_back((due, request));
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        let now = self.time.ticks();
        let first = self.queue.iter().position(|(due, _)| *due <= now)?;
        let (_, request) = self.queue.remove(first)?;
        let tag = request.tag;
        if let Err(refused) = self.inner.submit(request) {
            return Some(Completion {
                tag,
                buffer: refused.request.operation.into_buffer(),
                result: Err(refused.error),
            });
        }
        self.inner.kick();
        for _ in 0..100 {
            if let Some(completion) = self.inner.poll() {
                return Some(completion);
            }
        }
        panic!("the device lost a request");
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }

    fn wait(&mut self, _timeout_us: u32) {
        self.time.pass(TURN_US);
    }
}

pub fn buffer(len: usize) -> Buffer {
    Buffer::from_static(Box::leak(vec![0xee; len].into_boxed_slice()))
}

pub fn nodes() -> [Buffer; 3] {
    [(); 3].map(|()| buffer(4096))
}

pub fn places(count: usize, len: usize) -> Vec<RingPlace> {
    (0..count).map(|_| RingPlace::new(buffer(len))).collect()
}

pub fn format<D: Device>(mut device: D, checksums: bool) -> D {
    let options = FormatOptions {
        checksums,
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    let (result, _) = volume::format(&mut device, buffer(4096), &options);
    result.unwrap();
    device
}

pub fn mount<D: Device>(device: D, files: &mut [OpenFile]) -> Volume<'_, D> {
    match Volume::mount(device, nodes(), files, &MountOptions::default()) {
        Ok(volume) => volume,
        Err(unmounted) => panic!("{:?}", unmounted.result),
    }
}

/// Each eight bytes hold their own offset in the source.
pub fn fill(data: &mut [u8], source_offset: u64) {
    for (word, at) in data.chunks_exact_mut(8).zip((source_offset..).step_by(8)) {
        word.copy_from_slice(&at.to_le_bytes());
    }
}

/// A producer at a rate.
pub struct Producer {
    pub bytes_per_second: u64,
    pub blocks: u64,
    pub block_bytes: usize,
    /// How late it hands in each block.
    pub tardy_us: u64,
    /// Called when the file exists and the recording begins.
    pub on_start: Option<Box<dyn Fn()>>,
}

impl Producer {
    pub fn new(bytes_per_second: u64, blocks: u64) -> Self {
        Self {
            bytes_per_second,
            blocks,
            block_bytes: BLOCK,
            tardy_us: 0,
            on_start: None,
        }
    }
}

/// The outcome of a recording, and which blocks were lost.
#[derive(Debug)]
pub struct Recorded {
    pub result: Result<(), Error>,
    pub report: RecordReport,
    pub lost: Vec<u64>,
    /// Each time the durable size grew.
    pub acknowledged: Vec<u64>,
}

/// Opens a file to append to, which is made if it does not exist; returns its size too.
fn at_the_end<D: Device>(
    volume: &Volume<'_, D>,
    name: &str,
    options: &CreateOptions,
) -> (File, u64) {
    let file = match blocking::run(volume, volume.create(name, options)) {
        Err(volume::Error::Exists) => blocking::run(volume, volume.open_to_write(name)),
        result => result,
    };
    let file = file.unwrap();
    (file, volume.file_status(file).unwrap().appended_bytes)
}

/// Records with `producer` until the end, on from the end of a file of this name; `each` is called
/// in each iteration.
pub fn record<D: Device>(
    volume: &Volume<'_, D>,
    time: &Time,
    ring: &mut [RingPlace],
    options: &RecordOptions,
    producer: &Producer,
    name: &str,
    drop: bool,
) -> Recorded {
    let gaps = drop.then(|| {
        let create = CreateOptions {
            reserve_bytes: 4096,
            ..CreateOptions::default()
        };
        let (file, size) = at_the_end(volume, &format!("{name}.gaps"), &create);
        let block = volume.geometry().block_size_bytes();
        let filled_bytes = size as usize % block;
        let mut buffer = buffer(block);
        if filled_bytes > 0 {
            let outcome = blocking::read(volume, file, size - filled_bytes as u64, buffer);
            outcome.result.unwrap();
            buffer = outcome.buffer;
        }
        GapFile {
            file,
            buffer,
            filled_bytes,
        }
    });
    let gap_file = gaps.as_ref().map(|gaps| gaps.file);
    let checksums = volume.status().checksums;
    let create = CreateOptions {
        checksums,
        ..CreateOptions::default()
    };
    let (file, begin_bytes) = at_the_end(volume, name, &create);
    let recorder = Recorder::new(volume, file, time.clone(), ring, gaps, options).unwrap();
    let mut pace = Pace::new(1_000_000, producer.bytes_per_second, producer.block_bytes);
    let mut upkeep = pin!(recorder.upkeep());
    let (mut block, mut lost, mut acknowledged) = (0, Vec::new(), vec![begin_bytes]);
    let start = time.ticks();
    producer.on_start.iter().for_each(|call| call());
    let result = loop {
        if let Poll::Ready(result) = recorder.step(upkeep.as_mut(), &mut |_| panic!("not ours")) {
            break result;
        }
        let durable = recorder.durable_bytes();
        if acknowledged.last() != Some(&durable) {
            acknowledged.push(durable);
        }
        if block == producer.blocks {
            recorder.finish();
        }
        let arrival = start + pace.passed();
        if block < producer.blocks && time.ticks() >= arrival + producer.tardy_us {
            match recorder.take() {
                Some(mut buffer) => {
                    fill(&mut buffer, block * producer.block_bytes as u64);
                    if let Err((_, buffer)) =
                        recorder.hand_in(buffer, producer.block_bytes, arrival)
                    {
                        recorder.give_back(buffer).unwrap();
                    }
                }
                None => {
                    let _ = recorder.overrun(producer.block_bytes as u64, arrival);
                    lost.push(block);
                }
            }
            block += 1;
            pace.advance();
        }
        time.pass(TURN_US);
        assert!(time.ticks() - start < 3_600_000_000, "an hour has passed");
    };
    let report = recorder.report();
    for file in [Some(file), gap_file].into_iter().flatten() {
        // A failed volume cannot close the file, and reports that itself.
        let _ = blocking::run(volume, volume.close(file));
    }
    Recorded {
        result,
        report,
        lost,
        acknowledged,
    }
}

/// A whole file.
pub fn contents<D: Device>(volume: &Volume<'_, D>, name: &str) -> Vec<u8> {
    let size = blocking::run(volume, volume.find(name)).unwrap().size_bytes;
    let file = blocking::run(volume, volume.open(name)).unwrap();
    let block = volume.geometry().block_size_bytes() as u64;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        let len = (size - bytes.len() as u64)
            .min(1 << 16)
            .next_multiple_of(block);
        let outcome = blocking::read(volume, file, bytes.len() as u64, buffer(len as usize));
        outcome.result.unwrap();
        bytes.extend_from_slice(&outcome.buffer);
    }
    blocking::run(volume, volume.close(file)).unwrap();
    bytes.truncate(size as usize);
    bytes
}

/// The source's blocks without the lost ones, as the file must have them.
pub fn expected(blocks: u64, block_bytes: usize, lost: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in (0..blocks).filter(|block| !lost.contains(block)) {
        let mut data = vec![0; block_bytes];
        fill(&mut data, block * block_bytes as u64);
        bytes.extend(data);
    }
    bytes
}

/// Where the companion file says that bytes are missing, and how many.
pub fn named_gaps(lines: &[u8]) -> Vec<(u64, u64)> {
    assert_eq!(lines.len() % straightway_stream::GAP_LINE_BYTES, 0);
    let lines = lines.chunks(straightway_stream::GAP_LINE_BYTES);
    lines
        .zip(0..)
        .map(|(line, number)| {
            let gap = straightway_stream::parse_gap(line, number);
            let gap = gap.expect("a line of a companion file");
            (gap.offset_bytes, gap.lost_bytes)
        })
        .collect()
}

/// The same from the test's own account.
pub fn true_gaps(blocks: u64, block_bytes: u64, lost: &[u64]) -> Vec<(u64, u64)> {
    let (mut gaps, mut offset, mut open) = (Vec::new(), 0, 0);
    for block in 0..=blocks {
        if lost.contains(&block) {
            open += block_bytes;
            continue;
        }
        if open > 0 {
            gaps.push((offset, open));
            open = 0;
        }
        offset += block_bytes;
    }
    gaps
}

/// The seed of a randomised test: `STRAIGHTWAY_SEED`, or a new one, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}
