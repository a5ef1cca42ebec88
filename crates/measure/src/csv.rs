//! Results as comma-separated values: a line a result, the unit in the heading.

use crate::schema::Comparison;

/// A field: quoted if it must be (RFC 4180).
pub fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A table of lines, with its heading.
pub fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = head.join(",") + "\n";
    for row in rows {
        let fields: Vec<String> = row.iter().map(|one| field(one)).collect();
        text += &fields.join(",");
        text.push('\n');
    }
    text
}

/// Each result of a comparison.
pub fn of_comparison(comparison: &Comparison) -> String {
    let head = [
        "path",
        "operation",
        "pattern",
        "block_size_bytes",
        "queue_depth",
        "threads",
        "throughput_mib_s",
        "throughput_mib_s_low",
        "throughput_mib_s_high",
        "throughput_mib_s_stddev",
        "iops",
        "cpu_percent",
        "mib_s_per_cpu_percent",
        "device_commands_per_operation",
        "interrupts_per_operation",
        "service_time_p50_ns",
        "service_time_p99_ns",
        "operations",
        "errors",
        "drifting",
    ];
    fn known<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let rows = comparison.results.iter().map(|result| {
        let interval = result.throughput_mib_s_ci95;
        vec![
            result.path.clone(),
            result.operation.to_string(),
            result.pattern.to_string(),
            result.block_size_bytes.to_string(),
            result.queue_depth.to_string(),
            result.threads.to_string(),
            result.throughput_mib_s.to_string(),
            known(interval.map(|[low, _]| low)),
            known(interval.map(|[_, high]| high)),
            known(result.throughput_mib_s_stddev),
            result.iops.to_string(),
            result.cpu_percent.to_string(),
            result.mib_s_per_cpu_percent.to_string(),
            known(result.device_commands_per_operation),
            known(result.interrupts_per_operation),
            known(result.service_time_p50_ns),
            known(result.service_time_p99_ns),
            result.operations.to_string(),
            result.errors.to_string(),
            result.drifting.to_string(),
        ]
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let rows = [vec![
            "a,b".to_owned(),
            "say \"x\"".to_owned(),
            "plain".to_owned(),
        ]];
        let text = table(&["one", "two", "three"], rows.into_iter());
        assert_eq!(text, "one,two,three\n\"a,b\",\"say \"\"x\"\"\",plain\n");
    }
}
