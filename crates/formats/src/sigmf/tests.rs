// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::samples::Hertz;

const BEGIN_NS: u64 = 1_800_000_000_000_000_000;

fn args() -> SigmfOptions {
    SigmfOptions {
        datatype: Some("ci16_le".parse().unwrap()),
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
    assert_eq!(
        metadata
            .complete("a", &gaps, 5000, ("b", "00"))
            .unwrap()
            .captures,
        2
    );
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
    assert!(
        metadata
            .complete("a", &[gap(8000, 2)], 5000, ("", ""))
            .is_err()
    );
}

#[test]
fn captures_of_others_are_kept_between_those_of_gaps() {
    let text = json!({"global": {"core:datatype": "ri8", "x:y": 1}, "captures": [
        {"core:sample_start": 0, "core:frequency": 1},
        {"core:sample_start": 50, "core:frequency": 2},
        {"core:sample_start": 500}]});
    let mut metadata = Metadata::parse("a", text.to_string().as_bytes()).unwrap();
    let gaps = [gap(10, 5), gap(50, 5), gap(70, 5)];
    assert_eq!(
        metadata
            .complete("a", &gaps, 100, ("b", "00"))
            .unwrap()
            .captures,
        4
    );
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
