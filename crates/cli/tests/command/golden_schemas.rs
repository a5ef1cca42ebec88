// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The schemas of what `--json` prints only grow: what a build of before promised
//! (`tests/golden/make`) is still there.

use crate::support::{ok, run, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");

/// A schema and the document that its references point into.
#[derive(Clone, Copy)]
struct Schema<'a> {
    value: &'a Value,
    document: &'a Value,
}

impl<'a> Schema<'a> {
    fn with(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }

    fn resolved(self) -> Self {
        match self.value["$ref"].as_str() {
            Some(to) => {
                let to = self.document.pointer(to.trim_start_matches('#'));
                self.with(to.expect("what the reference names")).resolved()
            }
            None => self,
        }
    }

    /// The alternatives, or itself.
    fn alternatives(self) -> Vec<Self> {
        let found = ["oneOf", "anyOf"]
            .iter()
            .find_map(|key| self.value[key].as_array());
        match found {
            Some(list) => list
                .iter()
                .flat_map(|value| self.with(value).resolved().alternatives())
                .collect(),
            None => vec![self],
        }
    }

    fn types(self) -> BTreeSet<&'a str> {
        match &self.value["type"] {
            Value::String(one) => [&**one].into(),
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// The only values, if it lists them.
    fn values(self) -> Option<Vec<&'a Value>> {
        let one = self.value.get("const").map(|value| vec![value]);
        one.or_else(|| Some(self.value["enum"].as_array()?.iter().collect()))
    }

    fn requires(self, name: &str) -> bool {
        let required = self.value["required"].as_array();
        required.is_some_and(|names| names.iter().any(|one| one == name))
    }
}

/// What `new` no longer promises of `old`.
fn lost(old: Schema<'_>, new: Schema<'_>, at: &str, depth: u32) -> Vec<String> {
    // A schema that contains itself.
    if depth == 0 {
        return Vec::new();
    }
    let (old, new) = (old.resolved(), new.resolved());
    let (befores, nows) = (old.alternatives(), new.alternatives());
    if befores.len() > 1 || nows.len() > 1 {
        let fits = |before| {
            let tries = nows.iter().map(|now| lost(before, *now, at, depth - 1));
            tries.min_by_key(Vec::len).unwrap_or_default()
        };
        return befores.into_iter().flat_map(fits).collect();
    }
    let mut all = Vec::new();
    if old.types() != new.types() {
        all.push(format!("{at}: {:?}, was {:?}", new.types(), old.types()));
    }
    match (old.values(), new.values()) {
        (Some(before), Some(now)) => {
            let gone = before.into_iter().filter(|value| !now.contains(value));
            all.extend(gone.map(|value| format!("{at}: the value {value} is gone")));
        }
        (None, Some(_)) => all.push(format!("{at}: it had any value")),
        _ => {}
    }
    for (name, before) in old.value["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match new.value["properties"].get(name) {
            None => all.push(format!("{at}: it is gone")),
            Some(now) => {
                if old.requires(name) && !new.requires(name) {
                    all.push(format!("{at}: it was always there"));
                }
                all.extend(lost(old.with(before), new.with(now), &at, depth - 1));
            }
        }
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        let at = format!("{at}{mark}");
        match (old.value.get(key), new.value.get(key)) {
            (Some(before), Some(now)) if before.is_object() => {
                all.extend(lost(old.with(before), new.with(now), &at, depth - 1));
            }
            (Some(before), None) if before.is_object() => all.push(format!("{at}: it is gone")),
            _ => {}
        }
    }
    all
}

fn compared(old: &Value, new: &Value) -> Vec<String> {
    let root = |document| Schema {
        value: document,
        document,
    };
    lost(root(old), root(new), "", 24)
}

#[test]
fn the_schemas_of_before_have_only_grown() {
    let mut files = 0;
    for entry in std::fs::read_dir(HERE).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("schemas-") {
            continue;
        }
        let packed = std::fs::File::open(Path::new(HERE).join(&name)).unwrap();
        let bytes = ruzstd::decoding::StreamingDecoder::new(packed).unwrap();
        let olds: serde_json::Map<String, Value> = serde_json::from_reader(bytes).unwrap();
        assert!(olds.len() > 40, "{name}");
        let mut all = Vec::new();
        for (verb, old) in &olds {
            let new = serde_json::from_str(&ok(&["schema", verb])).unwrap();
            let of_verb = compared(old, &new).into_iter();
            all.extend(of_verb.map(|what| format!("{verb}{what}")));
        }
        assert!(all.is_empty(), "{name}:\n{}", all.join("\n"));
        files += 1;
    }
    assert!(files > 0);
}

#[test]
fn a_schema_that_lost_something_is_noticed() {
    let whole = serde_json::from_str::<Value>(&stdout(&run(&["schema", "ls"]))).unwrap();
    assert!(compared(&whole, &whole).is_empty());
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 5] = [
        ("size_bytes: it is gone", |file| {
            file["properties"]
                .as_object_mut()
                .unwrap()
                .remove("size_bytes");
        }),
        ("slot: {\"string\"}", |file| {
            file["properties"]["slot"]["type"] = "string".into();
        }),
        ("name: it was always there", |file| {
            file["required"] = serde_json::json!(["size_bytes", "modified_ns", "slot"]);
        }),
        ("app_tag: {\"integer\"}", |file| {
            file["properties"]["app_tag"]["type"] = "integer".into();
        }),
        ("name: it had any value", |file| {
            file["properties"]["name"]["enum"] = serde_json::json!(["one"]);
        }),
    ];
    for (words, change) in changes {
        let mut less = whole.clone();
        change(&mut less["$defs"]["FileEntry"]);
        let found = compared(&whole, &less);
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
        let mut more = whole.clone();
        more["$defs"]["FileEntry"]["properties"]["new"] = serde_json::json!({"type": "string"});
        assert!(compared(&whole, &more).is_empty());
    }
}
