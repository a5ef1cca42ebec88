//! `doctor --report`: what it contains, what it leaves out, and that it replaces nothing.

use crate::support::{Folder, ok, refused, run, schema_names_all_keys, stderr};

#[test]
fn a_report_is_new_redacted_and_described_by_its_schema() {
    let folder = Folder::new();
    let file = folder.path("board.json");
    let output = run(&["doctor", "--report", &file]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert!(stderr(&output).contains("wrote "), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["kind"], "doctor report");
    assert_eq!(report["with_serials"], false);
    assert!(!report["checks"].as_array().unwrap().is_empty());
    let page_bytes = report["machine"]["page bytes"].as_str().unwrap();
    assert!(page_bytes.parse::<u64>().unwrap() >= 4096);
    // Where there is no drive, the report says so.
    if report["drives"].as_array().unwrap().is_empty() {
        let unread = report["unread"].as_array().unwrap();
        assert!(unread.iter().any(|one| one["what"] == "drives"), "{text}");
    }
    let schema: serde_json::Value =
        serde_json::from_str(&ok(&["schema", "doctor-report"])).unwrap();
    for key in report.as_object().unwrap().keys() {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    schema_names_all_keys(&report["unread"], &schema.to_string());
    refused(&["doctor", "--report", &file], 9, "exists");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let missing = folder.path("missing/board.json");
    let output = run(&["doctor", "--report", &missing]);
    assert!(stderr(&output).contains("creating"), "{output:?}");
    refused(&["doctor", "--with-serials"], 2, "--report");
}
