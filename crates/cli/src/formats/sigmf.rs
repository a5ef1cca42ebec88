//! The metadata of a recording of samples, as SigMF defines it.
//!
//! `NAME.sigmf-meta` is durable before the first sample, so that a power cut at any moment leaves samples that are described. It
//! says nothing that is known only at the end: the export adds the captures behind gaps and the digest.

use crate::failure::{Failure, Result};
use crate::formats::args::SigmfArgs;
use crate::formats::samples::Datatype;
use crate::volume::shown;
use serde_json::{Map, Value, json};
use std::time::{Duration, UNIX_EPOCH};
use stream::Gap;

/// The version of the specification that the metadata keeps to.
const VERSION: &str = "1.2.0";
/// The longest metadata that is read: one capture for each of some 10,000 changes of the frequency.
pub const MAX_META_BYTES: u64 = 1 << 20;
/// The name of a recording's metadata ends with this.
pub const META: &str = ".sigmf-meta";
/// And that of its samples, in an export.
pub const DATA: &str = ".sigmf-data";

/// The name of the metadata of a recording.
pub fn meta_name(name: &str) -> String {
    format!("{name}{META}")
}

/// The end of the name of a recording's first segment.
const FIRST_SEGMENT: &str = ".000001";

/// The name of the metadata that describes a segment and those behind it: the recording's for its first segment.
pub fn segment_meta_name(segment: &str) -> String {
    meta_name(segment.strip_suffix(FIRST_SEGMENT).unwrap_or(segment))
}

/// A number as JSON has it: whole where it is whole.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value < 9e15 {
        true => json!(value as u64),
        false => json!(value),
    }
}

/// A recording's metadata, and what the export needs to know of it.
#[derive(Clone, Debug)]
pub struct Metadata {
    document: Value,
    /// Bytes of a sample, of all channels together.
    pub sample_bytes: u64,
    sample_rate: Option<f64>,
    /// Where other recordings go on in the samples, each with the number of gaps before it.
    joints: Vec<(u64, usize)>,
}

/// A capture from which samples are counted, and when its first one was taken.
#[derive(Clone, Copy)]
struct Base {
    start: u64,
    index: u64,
    begin_ns: Option<u64>,
}

impl Base {
    /// The index of a sample, `lost` ones after the base are missing, and its time.
    fn at(&self, sample: u64, lost: u64, rate: Option<f64>) -> (u64, Option<u64>) {
        let passed = sample.saturating_sub(self.start).saturating_add(lost);
        let at_ns = self.begin_ns.zip(rate).map(|(begin_ns, rate)| {
            begin_ns.saturating_add((passed as f64 / rate * 1e9).round() as u64)
        });
        (self.index.saturating_add(passed), at_ns)
    }
}

impl Metadata {
    /// The metadata of a recording that begins now.
    pub fn new(args: &SigmfArgs, now_ns: u64) -> Result<Self> {
        let missing = |option: &str| {
            Failure::usage(format!("--format sigmf needs {option}"))
                .hint("--sigmf-datatype ci16_le --sample-rate 2M --frequency 100M")
        };
        let datatype = args.sigmf_datatype.as_ref();
        let datatype = datatype.ok_or_else(|| missing("--sigmf-datatype"))?;
        let rate = args.sample_rate.ok_or_else(|| missing("--sample-rate"))?;
        if rate.0 <= 0.0 {
            return Err(Failure::usage("--sample-rate must be more than 0"));
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
            joints: Vec::new(),
        })
    }

    /// Reads metadata, which another program may have written.
    ///
    /// # Errors
    /// It is not SigMF, or of a datatype that SigMF does not have.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let foreign = |why: &str| {
            Failure::other(format!("`{}` is not SigMF metadata: {why}", shown(name))).hint(
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
        let metadata = Self {
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
        }
        let has_list = |key: &str| metadata.document.get(key).is_none_or(Value::is_array);
        match has_list("captures") && has_list("annotations") {
            true => Ok(metadata),
            false => Err(foreign("`captures` or `annotations` is not a list")),
        }
    }

    fn captures(&self) -> &[Value] {
        let captures = self.document.get("captures").and_then(Value::as_array);
        captures.map_or(&[], Vec::as_slice)
    }

    /// The captures as they are changed: in order, the first one at the first sample.
    fn capture_list(&self) -> Vec<Map<String, Value>> {
        let captures = self.captures().iter();
        let mut captures: Vec<Map<String, Value>> = captures
            .filter_map(|capture| capture.as_object().cloned())
            .collect();
        if captures.first().is_none_or(|first| start_of(first) != 0) {
            captures.insert(0, Map::from_iter([("core:sample_start".into(), json!(0))]));
        }
        captures
    }

    fn set_captures(&mut self, captures: Vec<Map<String, Value>>) {
        if let Some(document) = self.document.as_object_mut() {
            document.insert("captures".into(), json!(captures));
        }
    }

    /// What samples are counted from. The first capture is a base, and each one that has an index of its own.
    fn bases(captures: &[Map<String, Value>]) -> Vec<Base> {
        let all = captures.iter().enumerate();
        let bases = all.filter(|(at, one)| *at == 0 || index_of(one).is_some());
        let bases = bases.map(|(_, one)| Base {
            start: start_of(one),
            // The metadata may begin in the middle of a stream.
            index: index_of(one).unwrap_or(0),
            begin_ns: begin_of(one),
        });
        bases.collect()
    }

    /// Goes on with another recording at a sample behind which there is nothing yet: `lost` samples before it are missing.
    ///
    /// # Errors
    /// The options describe other samples.
    pub fn go_on(&mut self, args: &SigmfArgs, sample: u64, lost: u64, now_ns: u64) -> Result<()> {
        let same = |key: &str, value: Option<Value>| {
            let there = self.document.pointer(&format!("/global/core:{key}"));
            value.is_none_or(|value| there.is_some_and(|there| is_same(there, &value)))
        };
        let datatype = args.sigmf_datatype.as_ref();
        let channels = args.channels.filter(|channels| *channels > 1);
        let is_same = same("datatype", datatype.map(|one| json!(one.name)))
            && same("sample_rate", args.sample_rate.map(|rate| number(rate.0)))
            && same("num_channels", channels.map(|channels| json!(channels)))
            && same("hw", args.hardware.as_ref().map(|text| json!(text)));
        if !is_same {
            return Err(Failure::usage(
                "the recording has samples of another type, rate, number of channels or receiver",
            )
            .hint("omit these options, which hold for all of it, or record under another NAME"));
        }
        let mut captures = self.capture_list();
        // Of a recording that went on here, and whose samples a power cut took.
        captures.retain(|capture| start_of(capture) < sample || start_of(capture) == 0);
        let mut capture = captures.last().cloned().unwrap_or_default();
        if sample == 0 {
            captures.clear();
        }
        let first_index = captures.first().and_then(index_of).unwrap_or(0);
        let index = first_index.saturating_add(sample).saturating_add(lost);
        capture.insert("core:sample_start".into(), json!(sample));
        capture.insert("core:global_index".into(), json!(index));
        capture.insert("core:datetime".into(), json!(datetime(now_ns)));
        if let Some(frequency) = args.frequency {
            capture.insert("core:frequency".into(), number(frequency.0));
        }
        captures.push(capture);
        self.set_captures(captures);
        Ok(())
    }

    /// The metadata of the samples behind the first `samples`, of which `lost` are missing.
    #[must_use]
    pub fn behind(&self, samples: u64, lost: u64) -> Self {
        let captures = self.capture_list();
        let bases = Self::bases(&captures);
        let first = captures.iter().rfind(|one| start_of(one) <= samples);
        let mut first = first.cloned().unwrap_or_default();
        if let Some(base) = bases.iter().rfind(|base| base.start <= samples) {
            let before = bases.first().map_or(0, |first| first.index);
            let counted = base.index.saturating_sub(before.saturating_add(base.start));
            let (index, at_ns) = base.at(samples, lost.saturating_sub(counted), self.sample_rate);
            first.insert("core:global_index".into(), json!(index));
            first.remove("core:datetime");
            if let Some(at_ns) = at_ns {
                first.insert("core:datetime".into(), json!(datetime(at_ns)));
            }
        }
        first.insert("core:sample_start".into(), json!(0));
        let later = captures.into_iter().filter(|one| start_of(one) > samples);
        let later = later.map(|mut one| {
            let start = start_of(&one) - samples;
            one.insert("core:sample_start".into(), json!(start));
            one
        });
        let mut behind = self.clone();
        behind.set_captures(std::iter::once(first).chain(later).collect());
        behind
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
            return Err(Failure::usage(
                "the segments are recordings of different samples, which SigMF describes apart",
            )
            .hint("export the segments of each recording"));
        }
        let mut captures = self.capture_list();
        captures.retain(|one| start_of(one) < samples || start_of(one) == 0);
        for (at, mut one) in other.capture_list().into_iter().enumerate() {
            let start = start_of(&one);
            one.insert("core:sample_start".into(), json!(start + samples));
            if at == 0 && index_of(&one).is_none() {
                one.insert("core:global_index".into(), json!(0));
            }
            captures.push(one);
        }
        self.set_captures(captures);
        self.joints.push((samples, gaps));
        Ok(())
    }

    /// The bytes of the document.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_string_pretty(&self.document).unwrap_or_default();
        text.push('\n');
        text.into_bytes()
    }

    /// Adds what is known at the end: a capture behind each gap, and the digest of the samples. Returns the number of captures.
    ///
    /// # Errors
    /// A gap is not a whole number of samples.
    pub fn complete(
        &mut self,
        name: &str,
        gaps: &[Gap],
        samples: u64,
        sha512: &str,
    ) -> Result<usize> {
        let mut captures = self.capture_list();
        captures.retain(|capture| start_of(capture) == 0 || start_of(capture) < samples);
        let bases = Self::bases(&captures);
        let mut bases = bases.iter().peekable();
        let Some(mut base) = bases.next() else {
            return Ok(0);
        };
        // Samples that are missing behind the base.
        let mut lost = 0_u64;
        for (number, gap) in gaps.iter().enumerate() {
            if gap.offset_bytes % self.sample_bytes != 0 || gap.lost_bytes % self.sample_bytes != 0
            {
                return Err(Failure::other(format!(
                    "`{}` has a gap of {} bytes at byte {}, which is not a whole number of samples of {} bytes",
                    shown(name), gap.lost_bytes, gap.offset_bytes, self.sample_bytes
                ))
                .hint("straightway export --format raw"));
            }
            let start = gap.offset_bytes / self.sample_bytes;
            if start >= samples && start > 0 {
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
                let capture = before.cloned().unwrap_or_default();
                captures.insert(at, capture);
            }
            let Some(capture) = captures.get_mut(at) else {
                continue;
            };
            capture.insert("core:sample_start".into(), json!(start));
            capture.insert("core:global_index".into(), json!(index));
            match at_ns {
                Some(at_ns) => {
                    capture.insert("core:datetime".into(), json!(datetime(at_ns)));
                }
                None if is_new => {
                    capture.remove("core:datetime");
                }
                None => {}
            }
        }
        let count = captures.len();
        let Some(document) = self.document.as_object_mut() else {
            return Ok(count);
        };
        document.insert("captures".into(), json!(captures));
        document.entry("annotations").or_insert_with(|| json!([]));
        if let Some(global) = document.get_mut("global").and_then(Value::as_object_mut) {
            global.insert("core:sha512".into(), json!(sha512));
            global
                .entry("core:version")
                .or_insert_with(|| json!(VERSION));
        }
        Ok(count)
    }
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
mod tests {
    use super::*;
    use crate::formats::samples::Hertz;

    const BEGIN_NS: u64 = 1_800_000_000_000_000_000;

    fn args() -> SigmfArgs {
        SigmfArgs {
            sigmf_datatype: Some("ci16_le".parse().unwrap()),
            sample_rate: Some(Hertz(2e6)),
            frequency: Some(Hertz(433.92e6)),
            channels: None,
            hardware: Some("a \"receiver\"".to_owned()),
        }
    }

    fn gap(offset_bytes: u64, lost_bytes: u64) -> Gap {
        Gap {
            offset_bytes,
            lost_bytes,
            ..Gap::default()
        }
    }

    #[test]
    fn captures_show_the_gaps() {
        let metadata = Metadata::new(&args(), BEGIN_NS).unwrap();
        let mut metadata = Metadata::parse("a", &metadata.to_bytes()).unwrap();
        assert_eq!(metadata.sample_bytes, 4);
        // Before the first sample, twice at one place, and behind the end.
        let gaps = [gap(0, 4000), gap(8000, 400), gap(8000, 400), gap(20_000, 4)];
        assert_eq!(metadata.complete("a", &gaps, 5000, "00").unwrap(), 2);
        let captures = metadata.captures();
        let numbers = |key: &str| -> Vec<u64> {
            captures
                .iter()
                .map(|capture| capture[key].as_u64().unwrap())
                .collect()
        };
        assert_eq!(numbers("core:sample_start"), [0, 2000]);
        assert_eq!(numbers("core:global_index"), [1000, 3200]);
        assert_eq!(numbers("core:frequency"), [433_920_000, 433_920_000]);
        assert_eq!(
            captures[0]["core:datetime"],
            json!(datetime(BEGIN_NS + 500_000))
        );
        assert_eq!(
            captures[1]["core:datetime"],
            json!(datetime(BEGIN_NS + 1_600_000))
        );
        assert_eq!(metadata.document["global"]["core:sha512"], json!("00"));
        assert!(metadata.complete("a", &[gap(8000, 2)], 5000, "").is_err());
    }

    #[test]
    fn captures_of_others_are_kept_between_those_of_gaps() {
        let text = json!({"global": {"core:datatype": "ri8", "x:y": 1}, "captures": [
            {"core:sample_start": 0, "core:frequency": 1},
            {"core:sample_start": 50, "core:frequency": 2},
            {"core:sample_start": 500}]});
        let mut metadata = Metadata::parse("a", text.to_string().as_bytes()).unwrap();
        let gaps = [gap(10, 5), gap(50, 5), gap(70, 5)];
        assert_eq!(metadata.complete("a", &gaps, 100, "00").unwrap(), 4);
        let seen: Vec<_> = metadata
            .captures()
            .iter()
            .map(|one| {
                (
                    one["core:sample_start"].as_u64(),
                    one["core:frequency"].as_u64(),
                    one.get("core:global_index").and_then(Value::as_u64),
                )
            })
            .collect();
        let expected = [
            (0, 1, None),
            (10, 1, Some(15)),
            (50, 2, Some(60)),
            (70, 2, Some(85)),
        ];
        assert_eq!(
            seen,
            expected.map(|(start, frequency, index)| (Some(start), Some(frequency), index))
        );
        assert_eq!(metadata.document["global"]["x:y"], json!(1));
    }

    #[test]
    fn foreign_metadata_is_refused_with_a_reason() {
        let global = json!({"core:datatype": "ri8"});
        let texts = [
            (json!([]), "global"),
            (json!({"global": {}}), "core:datatype"),
            (
                json!({"global": {"core:datatype": "ci12_le"}}),
                "unknown datatype",
            ),
            (
                json!({"global": {"core:datatype": "ri8", "core:sample_rate": 0}}),
                "sample_rate",
            ),
            (
                json!({"global": {"core:datatype": "ri8", "core:num_channels": 0}}),
                "num_channels",
            ),
            (json!({"global": global, "captures": {}}), "list"),
            (json!({"global": global, "captures": [{}]}), "order"),
            (
                json!({"global": global, "captures": [{"core:sample_start": 2}, {"core:sample_start": 1}]}),
                "order",
            ),
            (json!({"global": global, "annotations": 1}), "list"),
        ];
        for (text, why) in texts {
            let failure = Metadata::parse("a", text.to_string().as_bytes()).unwrap_err();
            assert!(failure.to_string().contains(why), "{failure}");
        }
        assert!(Metadata::parse("a", b"{\"global\": {\"core:da").is_err());
    }
}
