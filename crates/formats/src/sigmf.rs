// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metadata of a recording of samples, as SigMF defines it.
//!
//! `NAME.sigmf-meta` is durable before the first sample, so that a power cut at any moment leaves
//! samples that are described. It says nothing that is known only at the end: the export adds the
//! captures behind gaps and the digest.

mod annotations;
mod moved;

use crate::SigmfOptions;
use crate::error::{FormatError, Result};
use crate::samples::Datatype;
use remedy::{Part, Setting, words};
use serde_json::{Map, Value, json};
use std::time::{Duration, UNIX_EPOCH};
use stream::Gap;
use units::shown;

/// The version of the specification that the metadata keeps to.
const VERSION: &str = "1.2.0";
/// The longest metadata that is read: one capture for each of some 10,000 changes of the frequency.
pub const MAX_META_BYTES: u64 = 1 << 20;
/// The name of a recording's metadata ends with this.
pub const META: &str = ".sigmf-meta";
/// And that of its samples, in an export.
pub const DATA: &str = ".sigmf-data";

/// Bytes before a capture's samples that are none.
const HEADER: &str = "core:header_bytes";
/// Bytes behind all samples that are none.
const TRAILING: &str = "core:trailing_bytes";

/// The name of the metadata of a recording.
pub fn meta_name(name: &str) -> String {
    format!("{name}{META}")
}

/// The end of the name of a recording's first segment.
const FIRST_SEGMENT: &str = ".000001";

/// The name of the metadata that describes a segment and those behind it: the recording's for its
/// first segment.
pub fn segment_meta_name(segment: &str) -> String {
    meta_name(segment.strip_suffix(FIRST_SEGMENT).unwrap_or(segment))
}

/// A number as JSON has it: whole where it is whole.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value < 9e15 {
        json!(value as u64)
    } else {
        json!(value)
    }
}

/// A recording's metadata, and what the export needs to know of it.
#[derive(Clone, Debug)]
pub struct Metadata {
    document: Value,
    /// Bytes of a sample, of all channels together.
    pub sample_bytes: u64,
    sample_rate: Option<f64>,
    /// The number of the first sample (`core:offset`). All numbers of samples count from 0 before
    /// it.
    offset: u64,
    /// Captures of which nothing says how many samples lie before them.
    unplaced: Vec<u64>,
    /// Where other recordings go on in the samples, each with the number of gaps before it.
    joints: Vec<(u64, usize)>,
}

/// A capture from which samples are counted, and when its first one was taken.
#[derive(Clone, Copy)]
struct Base {
    start: u64,
    index: Option<u64>,
    begin_ns: Option<u64>,
}

impl Base {
    /// The index of a sample, `lost` ones after the base are missing, and its time.
    fn at(&self, sample: u64, lost: u64, rate: Option<f64>) -> (Option<u64>, Option<u64>) {
        let passed = sample.saturating_sub(self.start).saturating_add(lost);
        let index = self.index.map(|index| index.saturating_add(passed));
        (index, self.time_behind(passed, rate))
    }

    /// The time so many samples later.
    fn time_behind(&self, passed: u64, rate: Option<f64>) -> Option<u64> {
        let (begin_ns, rate) = self.begin_ns.zip(rate)?;
        Some(begin_ns.saturating_add((passed as f64 / rate * 1e9).round() as u64))
    }
}

impl Metadata {
    /// The metadata of a recording that begins now.
    pub fn new(args: &SigmfOptions, now_ns: u64) -> Result<Self> {
        let missing = |option: Setting| {
            FormatError::usage(words![Setting::Format, " sigmf needs ", option]).hint(words![
                Setting::SigmfDatatype.to("ci16_le"),
                " ",
                Setting::SampleRate.to(remedy::Value::choice("2M")),
                " ",
                Setting::Frequency.to(remedy::Value::choice("100M"))
            ])
        };
        let datatype = args.datatype.as_ref();
        let datatype = datatype.ok_or_else(|| missing(Setting::SigmfDatatype))?;
        let rate = args
            .sample_rate
            .ok_or_else(|| missing(Setting::SampleRate))?;
        if rate.0 <= 0.0 {
            return Err(FormatError::usage(words![
                Setting::SampleRate,
                " must be more than 0"
            ]));
        }
        let mut global = Map::new();
        global.insert("core:version".into(), json!(VERSION));
        global.insert("core:datatype".into(), json!(datatype.name));
        global.insert("core:sample_rate".into(), number(rate.0));
        global.insert("core:recorder".into(), json!("Straightway"));
        let channels = u64::from(args.channels.unwrap_or(1));
        if channels > 1 {
            global.insert("core:num_channels".into(), json!(channels));
        }
        if let Some(hardware) = &args.hardware {
            global.insert("core:hw".into(), json!(hardware));
        }
        let mut capture = Map::from_iter([("core:sample_start".into(), json!(0))]);
        if let Some(frequency) = args.frequency {
            capture.insert("core:frequency".into(), number(frequency.0));
        }
        capture.insert("core:datetime".into(), json!(datetime(now_ns)));
        Ok(Self {
            document: json!({"global": global, "captures": [capture], "annotations": []}),
            sample_bytes: datatype.sample_bytes * channels,
            sample_rate: Some(rate.0),
            offset: 0,
            unplaced: Vec::new(),
            joints: Vec::new(),
        })
    }

    /// Reads metadata, which another program may have written.
    ///
    /// # Errors
    /// It is not SigMF, or of a datatype that SigMF does not have.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let foreign = |why: &str| {
            FormatError::damaged(format!("`{}` is not SigMF metadata: {why}", shown(name))).hint(
                "store corrected metadata under this name with straightway put; straightway get fetches the samples without it",
            )
        };
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| foreign(&format!("{error}")))?;
        let global = document.get("global").and_then(Value::as_object);
        let global = global.ok_or_else(|| foreign("it has no object `global`"))?;
        let datatype = global.get("core:datatype").and_then(Value::as_str);
        let datatype = datatype.ok_or_else(|| foreign("it has no `core:datatype`"))?;
        let datatype: Datatype = datatype.parse().map_err(|why: String| foreign(&why))?;
        let channels = match global.get("core:num_channels") {
            None => 1,
            Some(value) => value
                .as_u64()
                .filter(|n| (1..=1 << 16).contains(n))
                .ok_or_else(|| foreign("`core:num_channels` is not a number from 1 to 65536"))?,
        };
        let sample_rate = match global.get("core:sample_rate") {
            None => None,
            Some(value) => match value.as_f64() {
                Some(rate) if rate > 0.0 => Some(rate),
                _ => return Err(foreign("`core:sample_rate` is not a number of more than 0")),
            },
        };
        let count = |key: &str| match global.get(key) {
            None => Ok(0),
            Some(value) => match value.as_u64().filter(|n| *n < 1 << 63) {
                Some(number) => Ok(number),
                None => Err(foreign(&format!(
                    "`{key}` is not a number from 0 to 2^63 - 1"
                ))),
            },
        };
        let offset = count("core:offset")?;
        count(TRAILING)?;
        let metadata = Self {
            offset,
            unplaced: Vec::new(),
            sample_bytes: datatype.sample_bytes * channels,
            sample_rate,
            joints: Vec::new(),
            document,
        };
        let captures = metadata.captures();
        let mut last = None;
        for capture in captures {
            let start = capture.get("core:sample_start").and_then(Value::as_u64);
            if start.is_none() || start < last {
                return Err(foreign(
                    "`captures` is not in the order of `core:sample_start`",
                ));
            }
            last = start;
            if capture.get(HEADER).is_some_and(|bytes| !bytes.is_u64()) {
                return Err(foreign("`core:header_bytes` is not a number of bytes"));
            }
        }
        let has_list = |key: &str| metadata.document.get(key).is_none_or(Value::is_array);
        if has_list("captures") && has_list("annotations") {
            Ok(metadata)
        } else {
            Err(foreign("`captures` or `annotations` is not a list"))
        }
    }

    fn captures(&self) -> &[Value] {
        let captures = self.document.get("captures").and_then(Value::as_array);
        captures.map_or(&[], Vec::as_slice)
    }

    /// The captures as they are changed: in order, one at the first sample or before it.
    fn capture_list(&self) -> Vec<Map<String, Value>> {
        let captures = self.captures().iter();
        let mut captures: Vec<Map<String, Value>> = captures
            .filter_map(|capture| capture.as_object().cloned())
            .collect();
        if captures
            .first()
            .is_none_or(|first| start_of(first) > self.offset)
        {
            let first = Map::from_iter([("core:sample_start".into(), json!(self.offset))]);
            captures.insert(0, first);
        }
        captures
    }

    fn set_captures(&mut self, captures: Vec<Map<String, Value>>) {
        if let Some(document) = self.document.as_object_mut() {
            document.insert("captures".into(), json!(captures));
        }
    }

    /// What samples are counted from. The first capture is a base, and each one that has an index
    /// of its own, or certainly none.
    fn bases(&self, captures: &[Map<String, Value>]) -> Vec<Base> {
        let is_unplaced = |one: &Map<String, Value>| self.unplaced.contains(&start_of(one));
        let all = captures.iter().enumerate();
        let bases = all.filter(|(at, one)| *at == 0 || index_of(one).is_some() || is_unplaced(one));
        let bases = bases.map(|(_, one)| Base {
            start: start_of(one),
            // The specification's default.
            index: if is_unplaced(one) {
                None
            } else {
                index_of(one).or(Some(start_of(one)))
            },
            begin_ns: begin_of(one),
        });
        bases.collect()
    }

    /// Goes on with another recording at a sample behind which there is nothing yet: `lost` samples
    /// before it are missing.
    ///
    /// # Errors
    /// The options describe other samples.
    pub fn go_on(
        &mut self,
        args: &SigmfOptions,
        sample: u64,
        lost: u64,
        now_ns: u64,
    ) -> Result<()> {
        let same = |key: &str, value: Option<Value>| {
            let there = self.document.pointer(&format!("/global/core:{key}"));
            value.is_none_or(|value| there.is_some_and(|there| is_same(there, &value)))
        };
        let datatype = args.datatype.as_ref();
        let channels = args.channels.filter(|channels| *channels > 1);
        let is_same = same("datatype", datatype.map(|one| json!(one.name)))
            && same("sample_rate", args.sample_rate.map(|rate| number(rate.0)))
            && same("num_channels", channels.map(|channels| json!(channels)))
            && same("hw", args.hardware.as_ref().map(|text| json!(text)));
        if !is_same {
            return Err(FormatError::usage(
                "the recording has samples of another type, rate, number of channels or receiver",
            )
            .hint("omit these options, which hold for all of it, or record under another NAME"));
        }
        let start = self.offset.saturating_add(sample);
        let mut captures = self.capture_list();
        // Of a recording that went on here, and whose samples a power cut took.
        captures.retain(|capture| start_of(capture) < start || start_of(capture) <= self.offset);
        let mut capture = captures.last().cloned().unwrap_or_default();
        if sample == 0 {
            captures.clear();
        }
        let first_index = captures.first().and_then(index_of).unwrap_or(self.offset);
        let index = first_index.saturating_add(sample).saturating_add(lost);
        capture.insert("core:sample_start".into(), json!(start));
        capture.insert("core:global_index".into(), json!(index));
        capture.insert("core:datetime".into(), json!(datetime(now_ns)));
        if let Some(frequency) = args.frequency {
            capture.insert("core:frequency".into(), number(frequency.0));
        }
        captures.push(capture);
        self.set_captures(captures);
        // They are the digest and the end of fewer samples.
        self.global_mut(|global| global.remove("core:sha512"));
        Ok(())
    }

    /// Adds another recording's samples behind the first `samples`, of which `gaps` gaps are.
    ///
    /// # Errors
    /// They are of another type.
    pub fn join(&mut self, other: &Self, samples: u64, gaps: usize) -> Result<()> {
        let kind = |of: &Self| {
            let global = of.document.get("global");
            ["core:datatype", "core:num_channels", "core:sample_rate"]
                .map(|key| global.and_then(|global| global.get(key)).cloned())
        };
        if kind(self) != kind(other) {
            return Err(FormatError::usage(
                "the segments are recordings of different samples, which SigMF describes apart",
            )
            .hint("export the segments of each recording"));
        }
        let sample = self.offset.saturating_add(samples);
        let mut captures = self.capture_list();
        captures.retain(|one| start_of(one) < sample || start_of(one) <= self.offset);
        for (at, mut one) in other.capture_list().into_iter().enumerate() {
            let own = start_of(&one);
            let start = own.saturating_sub(other.offset).saturating_add(sample);
            let is_unplaced = other.unplaced.contains(&own);
            one.insert("core:sample_start".into(), json!(start));
            if is_unplaced {
                self.unplaced.push(start);
            } else if at == 0 && index_of(&one).is_none() {
                one.insert("core:global_index".into(), json!(own));
            }
            captures.push(one);
        }
        self.set_captures(captures);
        let more = other.annotations().iter();
        let more = more.filter_map(|one| annotations::moved(one, other.offset, sample));
        let (own, _) = annotations::before(self.annotations(), sample);
        self.set_annotations(own.into_iter().chain(more).collect());
        self.joints.push((sample, gaps));
        Ok(())
    }

    /// The name of the file that the samples are in, if it is not `NAME.sigmf-data`
    /// (`core:dataset`).
    pub fn dataset(&self) -> Option<&str> {
        self.document.pointer("/global/core:dataset")?.as_str()
    }

    /// The digest of the samples that the metadata was made for.
    pub fn sha512(&self) -> Option<&str> {
        self.document.pointer("/global/core:sha512")?.as_str()
    }

    /// Bytes of the file that are not samples (`core:header_bytes`, `core:trailing_bytes`): more
    /// than 0 in a non-conforming dataset.
    pub fn other_bytes(&self) -> u64 {
        let trailing = self.document.pointer(&format!("/global/{TRAILING}"));
        let headers = self.captures().iter().map(|one| one.get(HEADER));
        let all = headers
            .chain([trailing])
            .flatten()
            .filter_map(Value::as_u64);
        all.fold(0, u64::saturating_add)
    }

    fn annotations(&self) -> &[Value] {
        let all = self.document.get("annotations").and_then(Value::as_array);
        all.map_or(&[], Vec::as_slice)
    }

    fn set_annotations(&mut self, annotations: Vec<Value>) {
        if let Some(document) = self.document.as_object_mut() {
            document.insert("annotations".into(), json!(annotations));
        }
    }

    fn global_mut<T>(&mut self, change: impl FnOnce(&mut Map<String, Value>) -> T) {
        let global = self.document.get_mut("global");
        if let Some(global) = global.and_then(Value::as_object_mut) {
            change(global);
        }
    }

    /// The bytes of the document.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_string_pretty(&self.document).unwrap_or_default();
        text.push('\n');
        text.into_bytes()
    }

    /// Adds what is known at the end: a capture behind each gap, the digest of the samples, and the
    /// name of their file, which `NAME.sigmf-data` needs only if it has other bytes too.
    ///
    /// # Errors
    /// A gap is not a whole number of samples.
    pub fn complete(
        &mut self,
        name: &str,
        gaps: &[Gap],
        samples: u64,
        (dataset, sha512): (&str, &str),
    ) -> Result<Completed> {
        let mut captures = self.capture_list();
        let end = self.offset.saturating_add(samples);
        let (annotations, left_out_annotations) = annotations::before(self.annotations(), end);
        let ends: Vec<u64> = annotations
            .iter()
            .map(|one| annotations::end_of(one, &captures))
            .collect();
        let there = captures.len();
        captures.retain(|capture| start_of(capture) <= self.offset || start_of(capture) < end);
        let left_out = there - captures.len();
        let bases = self.bases(&captures);
        let mut bases = bases.iter().peekable();
        let beginning = Base {
            start: self.offset,
            index: Some(self.offset),
            begin_ns: None,
        };
        let mut base = bases.next().unwrap_or(&beginning);
        // Samples that are missing behind the base.
        let mut lost = 0_u64;
        for (number, gap) in gaps.iter().enumerate() {
            if gap.offset_bytes % self.sample_bytes != 0 || gap.lost_bytes % self.sample_bytes != 0
            {
                return Err(FormatError::damaged(format!(
                    "`{}` has a gap of {} bytes at byte {}, which is not a whole number of samples of {} bytes",
                    shown(name), gap.lost_bytes, gap.offset_bytes, self.sample_bytes
                ))
                .hint(words!["straightway export ", Part::Option(Setting::Format), " raw"]));
            }
            let start = self
                .offset
                .saturating_add(gap.offset_bytes / self.sample_bytes);
            if start >= end && start > self.offset {
                break;
            }
            // Of two at the same sample, the gap may come before or after the base.
            let is_behind = |next: &&Base, lost| {
                let joint = self.joints.iter().find(|(sample, _)| *sample == next.start);
                next.start < start
                    || next.start == start
                        && match joint {
                            Some((_, gaps)) => number >= *gaps,
                            None => next.index <= base.at(next.start, lost, None).0,
                        }
            };
            while let Some(next) = bases.next_if(|next| is_behind(next, lost)) {
                (base, lost) = (next, 0);
            }
            lost = lost.saturating_add(gap.lost_bytes / self.sample_bytes);
            if bases.peek().is_some_and(|next| next.start == start) {
                continue;
            }
            let (index, at_ns) = base.at(start, lost, self.sample_rate);
            let at = captures.partition_point(|capture| start_of(capture) < start);
            let is_new = captures
                .get(at)
                .is_none_or(|there| start_of(there) != start);
            if is_new {
                // What is not repeated would not hold from here on.
                let before = at.checked_sub(1).and_then(|before| captures.get(before));
                let mut capture = before.cloned().unwrap_or_default();
                capture.remove("core:datetime");
                captures.insert(at, capture);
            }
            let Some(capture) = captures.get_mut(at) else {
                continue;
            };
            capture.insert("core:sample_start".into(), json!(start));
            let at_ns = at_ns.or_else(|| begin_of(capture));
            place(capture, index, at_ns);
        }
        self.number(&mut captures);
        let completed = Completed {
            captures: captures.len(),
            left_out,
            left_out_annotations,
        };
        // One without a count ends with its capture, which a gap's may have made shorter.
        let counted = annotations.into_iter().zip(ends);
        let counted = counted.map(|(one, was)| match annotations::end_of(&one, &captures) {
            now if now < was => annotations::ending_at(one, was.min(end)),
            _ => one,
        });
        let counted = counted.collect();
        self.set_annotations(counted);
        self.set_captures(captures);
        let has_others = self.other_bytes() > 0;
        self.global_mut(|global| {
            global.insert("core:sha512".into(), json!(sha512));
            global.remove("core:metadata_only");
            if has_others {
                global.insert("core:dataset".into(), json!(dataset))
            } else {
                global.remove("core:dataset")
            };
            global
                .entry("core:version")
                .or_insert_with(|| json!(VERSION));
        });
        Ok(completed)
    }

    /// Gives captures behind gaps, or behind the beginning of a later segment, their index: without
    /// one they would have that of their place in the file ("Capture Segment Objects",
    /// core:global_index).
    fn number(&self, captures: &mut [Map<String, Value>]) {
        let mut before: Option<(u64, u64)> = None;
        for (at, capture) in captures.iter_mut().enumerate() {
            let start = start_of(capture);
            let counted = match (at, before) {
                _ if self.unplaced.contains(&start) => None,
                (0, _) => Some(start),
                (_, before) => before.map(|(from, index)| index.saturating_add(start - from)),
            };
            let index = index_of(capture).or(counted);
            if let Some(index) = index.filter(|index| *index != start) {
                capture.insert("core:global_index".into(), json!(index));
            }
            before = index.map(|index| (start, index));
        }
    }
}

/// What the whole metadata has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Captures.
    pub captures: usize,
    /// Captures behind the end of the samples, which are left out.
    pub left_out: usize,
    /// Annotations behind it, which are left out too.
    pub left_out_annotations: usize,
}

/// Gives a capture this index and this time, or none.
fn place(capture: &mut Map<String, Value>, index: Option<u64>, at_ns: Option<u64>) {
    match index {
        Some(index) => capture.insert("core:global_index".into(), json!(index)),
        None => capture.remove("core:global_index"),
    };
    match at_ns {
        Some(at_ns) => capture.insert("core:datetime".into(), json!(datetime(at_ns))),
        None => capture.remove("core:datetime"),
    };
}

fn start_of(capture: &Map<String, Value>) -> u64 {
    let start = capture.get("core:sample_start").and_then(Value::as_u64);
    start.unwrap_or(0)
}

fn index_of(capture: &Map<String, Value>) -> Option<u64> {
    capture.get("core:global_index").and_then(Value::as_u64)
}

/// Whether two values of JSON are the same, as numbers too.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.is_number() && one.as_f64() == other.as_f64()
}

fn begin_of(capture: &Map<String, Value>) -> Option<u64> {
    let text = capture.get("core:datetime")?.as_str()?;
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn datetime(ns: u64) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

#[cfg(test)]
mod tests;
