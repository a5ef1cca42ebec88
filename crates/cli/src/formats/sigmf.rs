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
        let mut capture = Map::new();
        capture.insert("core:sample_start".into(), json!(0));
        if let Some(frequency) = args.frequency {
            capture.insert("core:frequency".into(), number(frequency.0));
        }
        capture.insert("core:datetime".into(), json!(datetime(now_ns)));
        Ok(Self {
            document: json!({"global": global, "captures": [capture], "annotations": []}),
            sample_bytes: datatype.sample_bytes * channels,
            sample_rate: Some(rate.0),
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
        let mut captures: Vec<Map<String, Value>> = self
            .captures()
            .iter()
            .filter_map(|capture| capture.as_object().cloned())
            .collect();
        captures.retain(|capture| start_of(capture) == 0 || start_of(capture) < samples);
        if captures.first().is_none_or(|first| start_of(first) != 0) {
            captures.insert(0, Map::from_iter([("core:sample_start".into(), json!(0))]));
        }
        let begin_ns = captures.first().and_then(begin_of);
        // The metadata may begin in the middle of a stream.
        let first_index = captures
            .first()
            .and_then(|first| first.get("core:global_index"));
        let first_index = first_index.and_then(Value::as_u64).unwrap_or(0);
        let mut lost = 0_u64;
        for gap in gaps {
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
            lost = lost.saturating_add(gap.lost_bytes / self.sample_bytes);
            let passed = start.saturating_add(lost);
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
            capture.insert(
                "core:global_index".into(),
                json!(first_index.saturating_add(passed)),
            );
            match (begin_ns, self.sample_rate) {
                (Some(begin_ns), Some(rate)) => {
                    let since_ns = (passed as f64 / rate * 1e9).round() as u64;
                    let at_ns = begin_ns.saturating_add(since_ns);
                    capture.insert("core:datetime".into(), json!(datetime(at_ns)));
                }
                _ if is_new => {
                    capture.remove("core:datetime");
                }
                _ => {}
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
