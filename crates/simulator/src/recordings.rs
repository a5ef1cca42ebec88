// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings: the product's recorders, segments and rings, fed by a simulated source.
//!
//! What was recorded is checked in the same way after an end, a failure and a power cut: what was
//! reported as durable is there, in order, except for what was lost before it was stored and what
//! a ring has removed, which is always the oldest.

use crate::content::{self, PIECE_BYTES};
use crate::machine::Machine;
use crate::script::{Step, Verb};
use crate::setup::Only;
use crate::trace::What;
use crate::world::World;
use ::files::listing::FileEntry;
use ::files::{Checksums, Mounted};
use block::Buffer;
use devices::Progress;
use recorder::chain::{Chain, Segments, Target};
use recorder::exchange::{Exchange, Turned};
use recorder::producer::Message;
use recorder::record::{Policy, RecordSettings};
use recorder::segments::files::{Files, GAPS, Making, gaps_name};
use recorder::segments::places::Places;
use recorder::segments::segment::Segment;
use recorder::segments::tag::has_gaps;
use recorder::segments::template::Template;
use recorder::segments::{Limit, Segmentation};
use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;
use std::time::Duration;
use stream::{Error as StreamError, Recorder, RingPlace};
use units::Size;
use volume::Error;

const BLOCK_BYTES: u64 = 4096;
/// A recorder that has nothing to do sleeps, and is not called more often than this.
const MOST_CALLS: u64 = 200_000;
/// A recording ends this long after its source, whatever its drive does.
const END_US: u64 = 60_000_000;
/// The names of rings begin so.
const RING: &str = "cam";

/// What was given to a recorder.
#[derive(Clone, Debug)]
struct Tape {
    seed: u64,
    /// The blocks that were not lost: where each begins in the stream, and its length.
    blocks: Vec<(u64, u64)>,
    lost_bytes: u64,
    durable_bytes: u64,
    /// It ended without a failure, and has whatever it reported.
    is_whole: bool,
    lists_gaps: bool,
    /// The length of the longest segment that its ring has removed.
    removed_bytes: u64,
    /// What a ring must have kept, until something else has changed it.
    keeps: Option<Keeps>,
}

/// What decides how much a ring keeps at least.
#[derive(Clone, Copy, Debug)]
struct Keeps {
    keep_bytes: u64,
    segment_bytes: u64,
    /// The longest segment that was removed: blocks that come before the next segment exists make
    /// one longer.
    longest_bytes: u64,
    /// Lost bytes, which count for the segments that are being recorded.
    lost_bytes: u64,
}

impl Keeps {
    /// Whether a ring that has removed something of itself has kept too little. Before the last
    /// removal it had too much, counting the current segment and the next one as full. Where the
    /// volume is full, it may have removed more.
    const fn is_broken(&self, kept_bytes: u64, free_bytes: u64) -> bool {
        let longest_bytes = if self.longest_bytes > self.segment_bytes {
            self.longest_bytes
        } else {
            self.segment_bytes
        };
        let is_full = free_bytes < 4 * longest_bytes + (128 << 10);
        let missing_bytes = 2 * self.segment_bytes + longest_bytes + self.lost_bytes;
        !is_full && kept_bytes + missing_bytes < self.keep_bytes
    }
}

impl Tape {
    /// What was lost between the first block that is kept and the last of which something is
    /// stored.
    fn lost_since(&self, first: usize, stored_bytes: u64) -> u64 {
        let before = match self.blocks.get(first) {
            Some((offset, _)) if first > 0 => offset - first as u64 * BLOCK_BYTES,
            _ => 0,
        };
        self.lost_before(stored_bytes).saturating_sub(before)
    }

    /// What was lost before the last block of which something is among the first bytes that are
    /// stored.
    fn lost_before(&self, stored_bytes: u64) -> u64 {
        let (mut stored, mut lost) = (0, 0);
        for (index, (offset, len)) in (0..).zip(&self.blocks) {
            if stored >= stored_bytes {
                break;
            }
            stored += len;
            lost = offset - index * BLOCK_BYTES;
        }
        lost
    }
}

/// All recordings, by their names without the numbers, the oldest first.
#[derive(Debug, Default)]
pub struct Recordings {
    tapes: BTreeMap<String, Vec<Tape>>,
    count: u64,
}

/// The name of the recording that a file belongs to.
pub fn recording_of(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(GAPS).unwrap_or(name);
    let (recording, number) = stem.rsplit_once('.')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (recording == RING || recording.starts_with('r'))).then_some(recording)
}

/// A source that cannot wait: blocks come at their time, and are lost if no buffer is empty.
struct Source<'w> {
    world: &'w World,
    idle: Vec<Buffer>,
    sent: VecDeque<Message>,
    interval_us: u64,
    next_us: u64,
    left: u64,
    /// Whether it bursts after a stall, and how many are to come with the next.
    is_hasty: bool,
    burst: u64,
    last_bytes: u64,
    offset: u64,
    tape: Tape,
    has_ended: bool,
}

impl Source<'_> {
    /// What has come by now.
    fn produce(&mut self) {
        while self.left > 0 && self.world.now_us() >= self.next_us {
            self.left -= 1;
            let len = if self.left == 0 {
                self.last_bytes
            } else {
                BLOCK_BYTES
            };
            let arrival = self.next_us;
            match self.idle.pop() {
                Some(mut buffer) => {
                    content::fill(&mut buffer, self.tape.seed, self.offset);
                    self.tape.blocks.push((self.offset, len));
                    self.world.note(What::Hand, self.offset, len);
                    self.sent.push_back(Message::Block {
                        buffer,
                        len: len as usize,
                        arrival,
                        losses: Vec::new(),
                    });
                }
                None => {
                    self.tape.lost_bytes += len;
                    self.world.note(What::Lost, self.offset, len);
                    self.sent.push_back(Message::Lost {
                        len: len as usize,
                        arrival,
                    });
                }
            }
            self.offset += BLOCK_BYTES;
            // It stalls and bursts.
            self.next_us += match self.world.below(24) {
                _ if self.burst > 0 => {
                    self.burst -= 1;
                    0
                }
                0 => {
                    if self.is_hasty {
                        self.burst = self.world.below(16);
                    }
                    40 * self.interval_us
                }
                1..6 => 0,
                _ => self.interval_us,
            };
        }
        if self.left == 0 && !self.has_ended {
            self.has_ended = true;
            self.sent.push_back(Message::End);
        }
    }
}

impl Exchange for Source<'_> {
    fn lend(&mut self, mut take: impl FnMut() -> Option<Buffer>) {
        while let Some(buffer) = take() {
            self.idle.push(buffer);
        }
        self.produce();
    }

    fn next(&mut self) -> Option<Message> {
        self.sent.pop_front()
    }

    fn wait(&mut self, most: Duration) -> Option<Message> {
        self.sleep(most);
        self.sent.pop_front()
    }

    fn sleep(&mut self, time: Duration) {
        self.world.sleep(time.as_micros() as u64);
        self.produce();
    }
}

/// How a recording ended.
pub enum Ended {
    /// As it should.
    Well,
    /// Before its source, as it should.
    Early,
    /// The device or the volume failed.
    Failed(String),
    /// A promise was broken.
    Broken(String),
}

/// The settings of a recording.
fn settings(
    name: &str,
    step: &Step,
    is_ring: bool,
    segment: u64,
    keep: u64,
) -> Option<RecordSettings> {
    let [a, _, c] = step.numbers;
    Some(RecordSettings {
        block: Size(BLOCK_BYTES),
        buffers: Some([2, 4, 16][(a % 3) as usize]),
        from: "pattern".parse().ok()?,
        policy: if c % 4 == 0 {
            Policy::Stop
        } else {
            Policy::Drop
        },
        commit_bytes: Size(BLOCK_BYTES << (a % 6)),
        commit_ms: 1 + c % 200,
        segments: Segmentation {
            segment: Some(Limit::Bytes(segment)),
            keep: is_ring.then_some(Size(keep)),
        },
        checksums: Checksums::NONE,
        ..RecordSettings::new("", name)
    })
}

impl Recordings {
    /// Makes a recording.
    pub fn record(
        &mut self,
        mounted: &Mounted<'_, '_>,
        step: &Step,
        machine: &Machine,
        seed: u64,
    ) -> Ended {
        let [_, b, c] = step.numbers;
        // For a figure: a block a second.
        let is_long = step.verb == Verb::Long;
        let is_ring = is_long || step.verb == Verb::Ring;
        // One of six rings fills the volume.
        let fills = step.verb == Verb::Ring && step.salt % 6 == 2;
        self.count += 1;
        let name = if is_ring {
            RING.to_owned()
        } else {
            format!("r{}", self.count)
        };
        // Each segment has a name; a ring needs one for the next.
        let least = if is_ring { 2 } else { 5 };
        let segment_bytes = BLOCK_BYTES << (least + c % 6);
        let segments = if c % 11 == 10 { 1 + c % 2 } else { 3 + c % 7 };
        let segments = if fills { 1 << 16 } else { segments };
        let keep_bytes = segment_bytes * u64::from(segments);
        let Some(settings) = settings(&name, step, is_ring, segment_bytes, keep_bytes) else {
            return Ended::Broken("the settings are invalid".to_owned());
        };
        let world = &machine.world;
        let mut source = Source {
            world,
            idle: Vec::new(),
            sent: VecDeque::new(),
            interval_us: match c / 8 % 4 {
                _ if is_long => 1_000_000,
                number => [20, 200, 2_000, 100_000][number as usize],
            },
            next_us: world.now_us() + 1_000,
            left: match (u64::from(b), machine.setup.only) {
                (b, _) if is_long => b,
                (b, Only::Ring) if fills => 4 * (b % 100),
                (b, Only::Ring) => b % 100,
                (b, _) if fills => 4 * (b % 400),
                (b, _) => b % 400,
            },
            is_hasty: machine.setup.is_hasty,
            burst: 0,
            last_bytes: 1 + u64::from(b) * 97 % BLOCK_BYTES,
            offset: 0,
            tape: Tape {
                seed,
                blocks: Vec::new(),
                lost_bytes: 0,
                durable_bytes: 0,
                is_whole: false,
                lists_gaps: settings.policy == Policy::Drop,
                removed_bytes: 0,
                keeps: None,
            },
            has_ended: false,
        };
        let ended = run(mounted, &settings, &mut source, machine);
        source.tape.is_whole = matches!(ended, Ended::Well);
        let is_judged = is_ring && source.tape.is_whole && !machine.tolerates_failures();
        source.tape.keeps = is_judged.then_some(Keeps {
            keep_bytes,
            segment_bytes,
            longest_bytes: source.tape.removed_bytes,
            lost_bytes: source.tape.lost_bytes,
        });
        self.tapes.entry(name).or_default().push(source.tape);
        ended
    }

    /// Whether there is something to check before anything else happens.
    pub fn is_due(&self) -> bool {
        let mut newest = self.tapes.values().filter_map(|tapes| tapes.last());
        newest.any(|tape| tape.keeps.is_some())
    }

    /// Compares what the volume has of the recordings; `files` are their names and sizes, in order.
    ///
    /// # Errors
    /// What is wrong; in the inner result a failure of the volume.
    pub fn check(
        &mut self,
        mounted: &Mounted<'_, '_>,
        files: &BTreeMap<String, u64>,
    ) -> Result<Result<(), String>, Error> {
        let volume = mounted.volume;
        let free_units = volume::blocking::run(volume, volume.free_units())?;
        let free_bytes = free_units * volume.status().shape.unit_bytes();
        let slots = volume.status().shape.slot_count();
        for (name, tapes) in &mut self.tapes {
            let is_ring = name == RING;
            let own = files.iter();
            let own = own.filter(|(file, _)| recording_of(file) == Some(name));
            let mut place = Progressed::default();
            let mut listed_bytes = 0;
            let mut places = Places::default();
            for (file, size) in own {
                let data = read(mounted, file, *size)?;
                if file.ends_with(GAPS) {
                    listed_bytes += lost_bytes(&data);
                } else if let Err(what) = place.walk(&data, tapes) {
                    return Ok(Err(format!("`{file}`: {what}")));
                } else {
                    let lost = add_place(mounted, files, file, &mut places)?;
                    if let Err(what) = lost {
                        return Ok(Err(what));
                    }
                }
            }
            if let Some(found) = places.end().first() {
                return Ok(Err(found.text()));
            }
            let last = tapes.len().saturating_sub(1);
            let mut lost_bytes = 0;
            for (index, tape) in tapes.iter_mut().enumerate() {
                let ended = place.ends.get(&index).copied().unwrap_or_default();
                // A ring may have removed an older recording.
                let may_miss = is_ring && (index < last && ended == 0);
                if ended < tape.durable_bytes && !may_miss {
                    let durable = tape.durable_bytes;
                    return Ok(Err(format!(
                        "`{name}`: {durable} bytes were durable, {ended} are there"
                    )));
                }
                let first = place.firsts.get(&index).copied().unwrap_or_default();
                if let Some(keeps) = tape.keeps.take().filter(|_| first > 0) {
                    let before: u64 = tape.blocks[..first].iter().map(|(_, len)| len).sum();
                    let kept_bytes = ended.saturating_sub(before);
                    // Without a free slot it removes a segment for the next one's.
                    let has_slots = files.len() as u32 + 20 < slots;
                    if has_slots && keeps.is_broken(kept_bytes, free_bytes) {
                        return Ok(Err(format!(
                            "a ring of {} bytes has kept {kept_bytes}, with {free_bytes} free",
                            keeps.keep_bytes
                        )));
                    }
                }
                if first > 0 && !is_ring {
                    return Ok(Err(format!("`{name}`: its beginning is missing")));
                }
                tape.durable_bytes = ended;
                if tape.lists_gaps {
                    // What a ring has removed took its list with it.
                    let first = if is_ring { first } else { 0 };
                    lost_bytes += tape.lost_since(first, ended);
                }
            }
            if listed_bytes < lost_bytes {
                return Ok(Err(format!(
                    "`{name}`: {lost_bytes} bytes are missing before the last, {listed_bytes} are \
                     listed"
                )));
            }
            let whole = tapes.iter().all(|tape| tape.is_whole && tape.lists_gaps);
            let lost: u64 = tapes.iter().map(|tape| tape.lost_bytes).sum();
            if whole && !is_ring && listed_bytes != lost {
                return Ok(Err(format!(
                    "`{name}`: {lost} bytes are missing, {listed_bytes} are listed"
                )));
            }
        }
        Ok(Ok(()))
    }
}

/// Bytes that a list of gaps says are missing.
fn lost_bytes(list: &[u8]) -> u64 {
    let lines = list.chunks_exact(stream::GAP_LINE_BYTES);
    let gaps = lines
        .zip(0..)
        .filter_map(|(line, number)| stream::parse_gap(line, number));
    gaps.map(|gap| gap.lost_bytes).sum()
}

/// Has a segment compared with its neighbours by what each keeps of its place.
///
/// # Errors
/// A failure of the volume; in the inner result, something was lost in it, and it has no list.
fn add_place(
    mounted: &Mounted<'_, '_>,
    files: &BTreeMap<String, u64>,
    file: &str,
    places: &mut Places,
) -> Result<Result<(), String>, Error> {
    let entry = volume::blocking::run(mounted.volume, mounted.volume.find(file))?;
    let list = gaps_name(file);
    let lost = match files.get(&list) {
        Some(size) => lost_bytes(&read(mounted, &list, *size)?),
        None if has_gaps(entry.app_tag) => return Ok(Err(format!("`{list}` is missing"))),
        None => 0,
    };
    places.add(&FileEntry::new(&entry), lost);
    Ok(Ok(()))
}

/// Runs the product's recorders until they end.
fn run(
    mounted: &Mounted<'_, '_>,
    settings: &RecordSettings,
    source: &mut Source<'_>,
    machine: &Machine,
) -> Ended {
    let world = &machine.world;
    let failed = |error: devices::Error| Ended::Failed(error.to_string());
    let (Some(Limit::Bytes(segment_bytes)), Ok(template)) =
        (settings.segments.segment, Template::parse(&settings.name))
    else {
        return Ended::Broken("the settings are invalid".to_owned());
    };
    let making = Making {
        template: template.numbered(),
        checksums: false,
        has_gaps: settings.policy == Policy::Drop,
        keep_bytes: settings.segments.keep.map(|keep| keep.0),
        format: settings.format,
    };
    let mut files = match Files::new(Progress::default(), mounted, making) {
        Ok(files) => files,
        Err(error) => return failed(error),
    };
    let ring_bytes = match files.ring_bytes() {
        Ok(bytes) => bytes,
        Err(error) => return failed(error),
    };
    let first = match files.first(segment_bytes) {
        Ok(first) => first,
        // Nothing was recorded.
        Err(error) if error.kind() == devices::error::ErrorKind::Full => return Ended::Early,
        Err(error) => return failed(error),
    };
    let limit = Limit::Bytes(segment_bytes);
    let target = Target::Segments(Box::new(Segments {
        files,
        limit,
        ring_bytes,
        first,
    }));
    let options = settings.options(0, ring_bytes);
    let (turn, file, gaps, options) = match target.begin(mounted, &options) {
        Ok(begun) => begun,
        Err(error) => return failed(error),
    };
    let mut ring = Vec::new();
    for _ in 0..settings.buffers.unwrap_or(recorder::BUFFERS) {
        match mounted.memory.allocate(BLOCK_BYTES as usize) {
            Ok(buffer) => ring.push(RingPlace::new(buffer)),
            Err(error) => return Ended::Broken(error.to_string()),
        }
    }
    let mut vacant: Vec<RingPlace> = ring.iter().map(|_| RingPlace::vacant()).collect();
    let ended = {
        let first = Recorder::new(
            mounted.volume,
            file,
            world.clone(),
            &mut ring,
            gaps,
            &options,
        );
        let pair = first.and_then(|first| {
            let second = first.partner(world.clone(), &mut vacant)?;
            Ok((first, second))
        });
        let (first, second) = match pair {
            Ok(pair) => pair,
            Err(error) => return Ended::Broken(format!("the recorder did not begin: {error}")),
        };
        let mut chain = Chain::new(mounted, world.clone(), &first, &second, turn);
        let turned = Turned {
            block_bytes: BLOCK_BYTES,
            can_wait: false,
        };
        let mut is_ended = false;
        let mut end_us = u64::MAX;
        // How often the recorder has been called since anything happened.
        let (mut calls, mut steps) = (0, 0);
        let result = loop {
            calls += 1;
            let now_steps = world.trace(|trace| trace.steps());
            if now_steps != steps {
                (calls, steps) = (0, now_steps);
            }
            if calls > MOST_CALLS {
                break Err("the recorder is busy, and does nothing".to_owned());
            }
            mounted.volume.set_time((mounted.wall_ns)());
            let step = chain.step(&mut |_| {});
            let durable = chain.durable_bytes();
            if durable != source.tape.durable_bytes {
                world.note(What::Durable, durable, 0);
                source.tape.durable_bytes = durable;
            }
            if let Poll::Ready(result) = step {
                break Ok(result);
            }
            if let Some(what) = machine.violation() {
                break Err(what);
            }
            chain.exchange(source, turned, &mut is_ended);
            world.work(1);
            if source.has_ended && end_us == u64::MAX {
                end_us = world.now_us() + END_US;
            }
            if world.now_us() > end_us {
                break Err("the recording has not ended 60 s after its source".to_owned());
            }
        };
        chain.release_held();
        for message in source.sent.drain(..) {
            if let Message::Block { buffer, .. } = message {
                chain.give_back(buffer);
            }
        }
        for buffer in source.idle.drain(..) {
            chain.give_back(buffer);
        }
        let report = chain.report();
        let (segments, removed, closed) = chain.end();
        source.tape.removed_bytes = removed.longest_bytes;
        let ended = judge(result, closed, report, &source.tape, settings);
        match (ended, listed(mounted, &segments)) {
            (Ended::Well, Ok(Err(what))) => Ended::Broken(what),
            (Ended::Well, Err(error)) => Ended::Failed(error.to_string()),
            (ended, _) => ended,
        }
    };
    for buffer in ring
        .into_iter()
        .chain(vacant)
        .filter_map(RingPlace::into_buffer)
    {
        mounted.memory.give_back(buffer);
    }
    ended
}

/// Whether the volume has the segments that a recording says it has.
///
/// # Errors
/// A failure of the volume; in the inner result what is wrong.
fn listed(mounted: &Mounted<'_, '_>, segments: &[Segment]) -> Result<Result<(), String>, Error> {
    for Segment {
        name, length_bytes, ..
    } in segments
    {
        let found = mounted.volume.find(name);
        match volume::blocking::run(mounted.volume, found) {
            Ok(entry) if entry.size_bytes == *length_bytes => {}
            Ok(entry) => {
                let size = entry.size_bytes;
                return Ok(Err(format!(
                    "`{name}` has {size} bytes, and {length_bytes} by the recording"
                )));
            }
            Err(Error::NotFound) => {
                return Ok(Err(format!("`{name}` is said to be there")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(()))
}

/// Whether an end is right.
fn judge(
    result: Result<Result<(), StreamError>, String>,
    closed: devices::error::Result<()>,
    report: stream::RecordReport,
    tape: &Tape,
    settings: &RecordSettings,
) -> Ended {
    let result = match result {
        Ok(result) => result,
        Err(what) => return Ended::Broken(what),
    };
    let stored: u64 = tape.blocks.iter().map(|(_, len)| len).sum();
    match (result, closed) {
        (Ok(()), Ok(())) => {
            let (durable, lost) = (report.durable_bytes, report.lost_bytes);
            if (durable, lost) != (stored, tape.lost_bytes) {
                return Ended::Broken(format!(
                    "it ended well with {durable} of {stored} bytes, {lost} of {} lost",
                    tape.lost_bytes
                ));
            }
            Ended::Well
        }
        (Err(StreamError::Overrun { .. }), _) if settings.policy == Policy::Stop => {
            if tape.lost_bytes == 0 {
                return Ended::Broken("an overrun, and nothing was lost".to_owned());
            }
            Ended::Early
        }
        (
            Err(StreamError::Volume {
                error: Error::NoSpace | Error::MapFull | Error::TableFull,
                ..
            }),
            _,
        ) if settings.segments.keep.is_none() => Ended::Early,
        (Ok(()), Err(error)) if error.kind() == devices::error::ErrorKind::Full => Ended::Early,
        (Err(error), _) => Ended::Failed(error.to_string()),
        (Ok(()), Err(error)) => Ended::Failed(error.to_string()),
    }
}

/// How far a walk through a recording's files has come.
#[derive(Default)]
struct Progressed {
    /// The tape, its block, and bytes of that block.
    at: Option<(usize, usize, u64)>,
    /// Of each tape: the first block that is there, and how many bytes have been recorded up to
    /// the last that is.
    firsts: BTreeMap<usize, usize>,
    ends: BTreeMap<usize, u64>,
}

impl Progressed {
    /// Compares a file with what was recorded.
    fn walk(&mut self, data: &[u8], tapes: &[Tape]) -> Result<(), String> {
        let mut at = 0;
        while at < data.len() {
            let (index, block, done) = match self.at {
                Some((index, block, done)) if block < tapes[index].blocks.len() => {
                    // The next recording may begin where this one was cut off.
                    match begins(&data[at..], tapes, index) {
                        Some(next) => (next, 0, 0),
                        None => (index, block, done),
                    }
                }
                _ => self.found(&data[at..], tapes)?,
            };
            let tape = &tapes[index];
            let Some((offset, len)) = tape.blocks.get(block).copied() else {
                return Err("more than was recorded".to_owned());
            };
            let count = (len - done).min((data.len() - at) as u64);
            let part = &data[at..at + count as usize];
            if let Some(wrong) = content::difference(part, tape.seed, offset + done) {
                return Err(format!("byte {} is wrong", at + wrong));
            }
            self.firsts.entry(index).or_insert(block);
            let before: u64 = tape.blocks[..block].iter().map(|(_, len)| len).sum();
            self.ends.insert(index, before + done + count);
            at += count as usize;
            self.at = Some(if done + count == len {
                (index, block + 1, 0)
            } else {
                (index, block, done + count)
            });
        }
        Ok(())
    }

    /// Which tape and block begin here.
    fn found(&self, data: &[u8], tapes: &[Tape]) -> Result<(usize, usize, u64), String> {
        let from = self.at.map_or(0, |(index, ..)| index);
        for (index, tape) in tapes.iter().enumerate().skip(from) {
            let piece = data.get(..PIECE_BYTES.min(data.len())).unwrap_or_default();
            let block = tape
                .blocks
                .iter()
                .position(|(offset, _)| content::difference(piece, tape.seed, *offset).is_none());
            if let Some(block) = block {
                return Ok((index, block, 0));
            }
        }
        Err("nothing that was recorded begins there".to_owned())
    }
}

/// A later tape than `index` whose first block begins here.
fn begins(data: &[u8], tapes: &[Tape], index: usize) -> Option<usize> {
    let piece = data.get(..PIECE_BYTES.min(data.len()))?;
    let mut later = tapes.iter().enumerate().skip(index + 1);
    let found = later.find(|(_, tape)| {
        let first = tape.blocks.first();
        first.is_some_and(|(offset, _)| content::difference(piece, tape.seed, *offset).is_none())
    });
    found.map(|(index, _)| index)
}

/// A whole file.
fn read(mounted: &Mounted<'_, '_>, name: &str, size: u64) -> Result<Vec<u8>, Error> {
    let volume = mounted.volume;
    let file = volume::blocking::run(volume, volume.open(name))?;
    let mut data = Vec::new();
    let mut result = Ok(());
    while (data.len() as u64) < size && result.is_ok() {
        let len = (size - data.len() as u64).min(32 << 10) as usize;
        let buffer = mounted.memory.allocate(len.next_multiple_of(512));
        let buffer = buffer.map_err(|_| Error::Memory)?;
        let outcome = volume::blocking::read(volume, file, data.len() as u64, buffer);
        result = outcome.result;
        data.extend_from_slice(&outcome.buffer[..len]);
        mounted.memory.give_back(outcome.buffer);
    }
    let closed = volume::blocking::run(volume, volume.close(file));
    result.and(closed).map(|()| data)
}
