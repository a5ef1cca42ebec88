// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Human-readable figures.

use std::time::Duration;

pub use units::{aligned, distinct, size, yes};

/// At least three significant digits, with thousands separators: `0.0312`, `3.12`, `31.2`, `312`,
/// `31,200`.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some((whole, part)) => format!("{}.{part}", thousands(whole)),
        None => thousands(&text),
    }
}

/// The half-width of an interval, with as many decimals as its mean.
pub fn half_width(mean: f64, ci95: Option<[f64; 2]>) -> Option<String> {
    let [low, high] = ci95?;
    let decimals = figure(mean)
        .split_once('.')
        .map_or(0, |(_, part)| part.len());
    Some(format!("{:.decimals$}", (high - low) / 2.0))
}

/// A share as a percentage: `52.0 %`, `0.1 %`, `0.0012 %`, `3.4e-5 %`.
pub fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        0.0 => "0 %".to_owned(),
        p if p < 0.001 => format!("{percent:.1e} %"),
        _ => {
            let text = figure(percent);
            let text = if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.')
            } else {
                text.as_str()
            };
            format!("{text} %")
        }
    }
}

/// A count with thousands separators.
pub fn count(value: u64) -> String {
    thousands(&value.to_string())
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in a suitable unit.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", figure(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", figure(ns as f64 / 1e6)),
        _ => format!("{} s", figure(ns as f64 / 1e9)),
    }
}

/// Seconds since 1970 as `2026-11-21 08:41 UTC` (civil-from-days; Hinnant 2013).
pub fn date(unix_s: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix_s.min(MOST_SECONDS));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day} {minute} UTC"),
        _ => text,
    }
}

/// The end of the year 9999, after which dates cannot be formatted.
const MOST_SECONDS: u64 = 253_402_300_799;

/// `mean ± half of the interval`, or the mean alone.
pub fn with_half(mean: f64, ci95: Option<[f64; 2]>) -> String {
    match half_width(mean, ci95) {
        Some(half) => format!("{} ± {half}", figure(mean)),
        None => figure(mean),
    }
}

/// The text with its first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A figure, or a dash for `None`.
pub fn known(value: Option<f64>) -> String {
    value.map_or("—".to_owned(), figure)
}

/// A duration in nanoseconds, at most 584 years.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_without_idle_zeroes() {
        for (value, text) in [
            (0.0, "0 %"),
            (0.52, "52 %"),
            (0.001, "0.1 %"),
            (1.0, "100 %"),
            (0.0003, "0.03 %"),
            (0.000_001, "1.0e-4 %"),
        ] {
            assert_eq!(share(value), text);
        }
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(16 << 20), "16 MiB");
        assert_eq!(size(513), "513 B");
        assert_eq!(size(0), "0 B");
        let cases = [0.0, 0.0312, 3.123, 31.23, 312.3, 31_200.0, 99.97, -1234.0];
        let texts = cases.map(figure);
        assert_eq!(
            texts,
            [
                "0", "0.0312", "3.12", "31.2", "312", "31,200", "100", "-1,234"
            ]
        );
        assert_eq!(half_width(31.23, Some([30.0, 32.0])).unwrap(), "1.0");
        assert_eq!(half_width(31.23, None), None);
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(duration(12_345), "12.3 µs");
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_800_000_000), "2027-01-15 08:00 UTC");
    }
}
