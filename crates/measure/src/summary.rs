// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Summarises the rounds of one cell as its line in the results.

use crate::access::Access;
use crate::cell::{CellError, ServiceTimes, Tally, service_times};
use crate::cpu::percent_of_ticks;
use crate::path::Counters;
use crate::schema::{Ci95, PathResult, Sample};
use crate::stats::{self, Percentile, percentile_ranks};
use crate::trend;
use crate::work::Cost;

/// The raw measurement of one cell in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The round, from 0.
    pub round: u32,
    /// The loop's tally; its time includes the flush that ends a write cell.
    pub tally: Tally,
    /// Busy time of the whole machine in per cent of one core.
    pub cpu_percent: f64,
    /// The device's counters for the round.
    pub counters: Counters,
}

/// The rounds of one path with one access.
#[derive(Clone, Debug)]
pub struct Series {
    access: Access,
    queue_depth: u16,
    threads: u16,
    samples: Vec<Sample>,
    service_times: ServiceTimes,
    first_error: Option<String>,
    uncounted_reason: Option<String>,
    /// What an operation costs the processor, if it was counted.
    pub cost: Option<Cost>,
}

impl Series {
    /// A series without rounds.
    ///
    /// # Errors
    /// The error of [`service_times`].
    pub fn new(access: Access, queue_depth: u16, threads: u16) -> Result<Self, CellError> {
        Ok(Self {
            access,
            queue_depth,
            threads,
            samples: Vec::new(),
            service_times: service_times()?,
            first_error: None,
            uncounted_reason: None,
            cost: None,
        })
    }

    /// Adds a round, less the idle machine's processor time.
    pub fn add(&mut self, measured: Measured, times: &ServiceTimes, idle_cpu_percent: f64) {
        let Measured {
            round,
            tally,
            cpu_percent,
            counters,
        } = measured;
        let elapsed_s = tally.elapsed_ns.max(1) as f64 / 1e9;
        self.samples.push(Sample {
            round,
            operations: tally.operations,
            errors: tally.errors,
            bytes: tally.bytes,
            elapsed_ns: tally.elapsed_ns,
            throughput_mib_s: rounded(tally.mib_s()),
            iops: rounded(tally.operations as f64 / elapsed_s),
            cpu_percent: rounded(cpu_percent - idle_cpu_percent),
            device_read_commands: counters.read_commands,
            device_write_commands: counters.write_commands,
            interrupts: counters.interrupts,
        });
        // Both histograms have the same bounds, so every value fits.
        let _ = self.service_times.add(times);
        if self.first_error.is_none() {
            self.first_error = tally.first_error.map(|error| error.to_string());
        }
        if self.uncounted_reason.is_none() {
            self.uncounted_reason = counters.reason;
        }
    }

    /// The line in the results, or `None` without rounds. `ticks_per_second` is the resolution of
    /// processor time.
    pub fn summarise(
        self,
        path: &str,
        polls: bool,
        ticks_per_second: u64,
        seed: u64,
    ) -> Option<PathResult> {
        let column =
            |value: fn(&Sample) -> f64| -> Vec<f64> { self.samples.iter().map(value).collect() };
        let throughput = column(|sample| sample.throughput_mib_s);
        let iops = column(|sample| sample.iops);
        let cpu = column(|sample| sample.cpu_percent);
        let operations = column(|sample| sample.operations as f64);
        let total_ns: u64 = self.samples.iter().map(|sample| sample.elapsed_ns).sum();
        let one_tick = percent_of_ticks(1, ticks_per_second, total_ns);
        let mean_throughput = stats::mean(&throughput)?;
        let mean_cpu = stats::mean(&cpu)?;
        let commands = self.total(|sample| {
            sample
                .device_read_commands?
                .checked_add(sample.device_write_commands?)
        });
        let interrupts = self.total(|sample| sample.interrupts);
        let total_operations: u64 = self.samples.iter().map(|sample| sample.operations).sum();
        let per_operation = |counts: &Option<Vec<f64>>| {
            let total: f64 = counts.as_ref()?.iter().sum();
            (total_operations > 0).then(|| rounded(total / total_operations as f64))
        };
        let per_operation_ci95 = |counts: &Option<Vec<f64>>| {
            let counts = counts.as_ref()?;
            ci95(stats::ratio_interval(counts, &operations, 1.0, seed))
        };
        let whole = |counts: &Option<Vec<f64>>| Some(counts.as_ref()?.iter().sum::<f64>() as u64);
        let p50 = percentile(&self.service_times, 0.5);
        let p99 = percentile(&self.service_times, 0.99);
        let cpu_ci95 = stats::mean_interval(&cpu, seed).map(|ends| ends.map(|end| end.max(0.0)));
        let efficiency_ci95 = stats::ratio_interval(&throughput, &cpu, one_tick, seed);
        Some(PathResult {
            path: path.to_owned(),
            polls,
            access: self.access,
            queue_depth: self.queue_depth,
            threads: self.threads,
            throughput_mib_s: rounded(mean_throughput),
            throughput_mib_s_ci95: ci95(stats::mean_interval(&throughput, seed)),
            throughput_mib_s_stddev: stats::standard_deviation(&throughput).map(rounded),
            iops: rounded(stats::mean(&iops)?),
            iops_ci95: ci95(stats::mean_interval(&iops, seed)),
            cpu_percent: rounded(mean_cpu.max(0.0)),
            cpu_percent_ci95: ci95(cpu_ci95),
            mib_s_per_cpu_percent: rounded(mean_throughput / mean_cpu.max(one_tick)),
            mib_s_per_cpu_percent_ci95: ci95(efficiency_ci95),
            operations: total_operations,
            errors: self.samples.iter().map(|sample| sample.errors).sum(),
            first_error: self.first_error.clone(),
            device_commands: whole(&commands),
            device_commands_per_operation: per_operation(&commands),
            device_commands_per_operation_ci95: per_operation_ci95(&commands),
            interrupts: whole(&interrupts),
            interrupts_per_operation: per_operation(&interrupts),
            interrupts_per_operation_ci95: per_operation_ci95(&interrupts),
            uncounted_reason: self.uncounted_reason.clone(),
            cost_per_operation: self.cost,
            service_time_p50_ns: p50.map(|p| p.value),
            service_time_p50_ns_ci95: p50.map(|p| p.ci95),
            service_time_p99_ns: p99.map(|p| p.value),
            service_time_p99_ns_ci95: p99.map(|p| p.ci95),
            drifting: trend::is_drifting(&throughput),
            samples: self.samples,
        })
    }

    /// A count of each round, or `None` if any round could not count. Exact up to 2^53.
    fn total(&self, count: impl Fn(&Sample) -> Option<u64>) -> Option<Vec<f64>> {
        let counts = self
            .samples
            .iter()
            .map(|sample| Some(count(sample)? as f64));
        counts.collect()
    }
}

fn ci95(interval: Ci95) -> Ci95 {
    interval.map(|ends| ends.map(rounded))
}

/// Rounds to six significant digits: more than any of these figures has, but without noise in a
/// diff of two files. A figure that is not finite becomes 0.
pub(crate) fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return 0.0;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    if digits >= 0 {
        let scale = 10f64.powi(digits.min(300));
        (value * scale).round() / scale
    } else {
        let scale = 10f64.powi(-digits);
        (value / scale).round() * scale
    }
}

/// A percentile of recorded service times, or `None` if there are too few.
fn percentile(times: &ServiceTimes, quantile: f64) -> Option<Percentile> {
    let count = times.len();
    let (low, high) = percentile_ranks(count, quantile)?;
    let at = |rank: u64| times.value_at_quantile(rank as f64 / count as f64);
    Some(Percentile {
        value: times.value_at_quantile(quantile),
        ci95: [at(low), at(high)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Operation, Pattern};

    fn series(rounds: u32, counters: impl Fn(u32) -> Counters) -> Series {
        let access = Access {
            operation: Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes: 4096,
        };
        let mut series = Series::new(access, 1, 1).unwrap();
        let mut times = service_times().unwrap();
        for _ in 0..2560 {
            times.saturating_record(390_000);
        }
        for round in 0..rounds {
            // 10 MiB in a second, and one more in every other round.
            let mib = 10 + u64::from(round % 2);
            let measured = Measured {
                round,
                tally: Tally {
                    operations: mib * 256,
                    bytes: mib << 20,
                    elapsed_ns: 1_000_000_000,
                    ..Tally::default()
                },
                cpu_percent: 22.0,
                counters: counters(round),
            };
            series.add(measured, &times, 2.0);
        }
        series
    }

    #[test]
    fn the_numbers_are_frozen() {
        let counters = |_| Counters {
            read_commands: Some(2688),
            write_commands: Some(0),
            interrupts: Some(1344),
            reason: None,
        };
        let result = series(6, counters).summarise("p", true, 100, 1).unwrap();
        assert_eq!(result.throughput_mib_s, 10.5);
        assert_eq!(result.iops, 2688.0);
        assert_eq!(result.cpu_percent, 20.0);
        assert_eq!(result.mib_s_per_cpu_percent, 0.525);
        assert_eq!(result.cpu_percent_ci95, Some([20.0, 20.0]));
        assert_eq!(result.throughput_mib_s_stddev, Some(0.547723));
        assert_eq!(result.operations, 6 * 2688);
        assert_eq!(result.device_commands, Some(6 * 2688));
        assert_eq!(result.device_commands_per_operation, Some(1.0));
        assert_eq!(result.interrupts_per_operation, Some(0.5));
        let [low, high] = result.throughput_mib_s_ci95.unwrap();
        assert!(
            low < 10.3 && 10.7 < high && high - low < 1.6,
            "{low} {high}"
        );
        assert!((385_000..395_000).contains(&result.service_time_p99_ns.unwrap()));
        assert!(!result.drifting);
    }

    #[test]
    fn few_rounds_have_no_interval_and_a_lost_count_is_null() {
        let counters = |round| match round {
            0 => Counters {
                interrupts: Some(1),
                ..Counters::default()
            },
            _ => Counters::uncounted("no line in /proc/interrupts"),
        };
        let result = series(2, counters).summarise("p", false, 100, 1).unwrap();
        assert_eq!(result.throughput_mib_s_ci95, None);
        assert_eq!((result.interrupts, result.device_commands), (None, None));
        assert_eq!(result.interrupts_per_operation, None);
        assert!(result.uncounted_reason.unwrap().contains("no line"));
        let none = series(0, |_| Counters::default());
        assert!(none.summarise("p", false, 100, 1).is_none());
    }

    #[test]
    fn rounding_keeps_six_digits() {
        assert_eq!(rounded(1_234_567.8), 1_234_570.0);
        assert_eq!(rounded(0.000_123_456_789), 0.000_123_457);
        assert_eq!(rounded(-3.0), -3.0);
        assert_eq!(rounded(f64::NAN), 0.0);
    }

    #[test]
    fn a_percentile_of_service_times_is_within_its_interval() {
        let mut times = service_times().unwrap();
        for value in 1..=10_000u64 {
            times.saturating_record(value * 100);
        }
        let p99 = percentile(&times, 0.99).unwrap();
        assert!(p99.ci95[0] <= p99.value && p99.value <= p99.ci95[1]);
        assert!((p99.value as f64 / 990_000.0 - 1.0).abs() < 0.01);
        assert_eq!(percentile(&times, 0.9999), None);
    }
}
