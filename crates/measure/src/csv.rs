// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as CSV: a line of names, then a line for each result.

use crate::schema::PathResult;
use serde::Serialize;
use serde_json::Value;

/// Lines of CSV from the JSON of each of `rows`. `columns` are keys, separated by commas; `a.b=c`
/// is the key `b` within `a`, called `c`.
pub(crate) fn of<T: Serialize>(columns: &str, rows: &[T]) -> String {
    let columns = columns.split(',');
    let columns = columns.map(|column| column.split_once('=').unwrap_or((column, column)));
    let columns: Vec<(String, &str)> = columns
        .map(|(key, name)| (format!("/{}", key.replace('.', "/")), name))
        .collect();
    let names: Vec<&str> = columns.iter().map(|(_, name)| *name).collect();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let row = serde_json::to_value(row).unwrap_or_default();
        let fields = columns
            .iter()
            .map(|(pointer, _)| match row.pointer(pointer) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => quoted(text),
                Some(value) => value.to_string(),
            });
        text += &fields.collect::<Vec<String>>().join(",");
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// One line for each result.
pub fn of_results<'r>(results: impl IntoIterator<Item = &'r PathResult>) -> String {
    let columns = "path,operation,pattern,block_size_bytes,queue_depth,threads,throughput_mib_s,\
                   throughput_mib_s_ci95.0=throughput_mib_s_low,throughput_mib_s_ci95.1=throughput_mib_s_high,\
                   throughput_mib_s_stddev,iops,cpu_percent,mib_s_per_cpu_percent,device_commands_per_operation,\
                   interrupts_per_operation,cost_per_operation.instructions=instructions_per_operation,\
                   cost_per_operation.system_calls=system_calls_per_operation,service_time_p50_ns,service_time_p99_ns,operations,errors,drifting";
    of(columns, &results.into_iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_named_and_quoted_where_they_must_be() {
        let row =
            serde_json::json!({"a": {"b": "x,y"}, "say": "\"x\"", "none": null, "list": [1, 2.5]});
        let text = of("a.b=one,say,none,list.1=last,lost", &[row]);
        assert_eq!(
            text,
            "one,say,none,last,lost\n\"x,y\",\"\"\"x\"\"\",,2.5,\n"
        );
    }
}
