// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes, times and names as the user writes and reads them.
//!
//! Sizes are [`Size`], times [`Time`]. A unit is never guessed: `4q` is an error, and so is a time
//! without a unit.

#![forbid(unsafe_code)]

/// The example of the crate's page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod names;

pub use names::shown;

use std::fmt;
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `4096`, `4K` and `4KiB` (1024 each), `4KB` (1000 each), up to `E`. A fraction
/// of a unit is rounded down to whole bytes: `4.8M` is 5033164.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, rest) = split(text);
        let (fraction, unit) = match rest.strip_prefix('.') {
            Some(rest) => split(rest),
            None => ("", rest),
        };
        let wrong = |why: &str| {
            format!(
                "{why}: write bytes, or K, M, G, T (KiB: 1024 each) or KB, MB, GB, TB (1000 each)"
            )
        };
        if number.is_empty() {
            return Err(wrong("a size starts with digits"));
        }
        let factor =
            factor(unit).ok_or_else(|| wrong(&format!("unknown unit of size `{unit}`")))?;
        let is_fraction = rest.starts_with('.');
        if is_fraction && fraction.is_empty() {
            return Err(wrong("a digit is missing behind the point"));
        }
        if is_fraction && factor == 1 {
            return Err(wrong("a byte has no fraction"));
        }
        let number: u64 = number
            .parse()
            .map_err(|_| "the size is too large".to_owned())?;
        let part = part_of(fraction, factor).ok_or_else(|| wrong("too many digits"))?;
        let bytes = number.checked_mul(factor);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(part));
        Ok(Self(
            bytes.ok_or_else(|| "the size is too large".to_owned())?,
        ))
    }
}

/// The whole bytes of a fraction of a unit, whose digits these are.
fn part_of(digits: &str, factor: u64) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    // More digits than bytes are told apart by.
    let parts: u64 = digits.parse().ok()?;
    let of = 10u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    u64::try_from(u128::from(parts) * u128::from(factor) / of).ok()
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn factor(unit: &str) -> Option<u64> {
    if matches!(unit, "" | "B") {
        return Some(1);
    }
    let mut letters = unit.chars();
    let letter = letters.next()?;
    let base: u64 = match letters.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return None,
    };
    let power = "KMGTPE".find(letter)? as u32 + 1;
    base.checked_pow(power)
}

/// The largest binary unit that divides it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size(self.0))
    }
}

/// `4 KiB`, `1 MiB`; bytes if it is not a multiple of 1024.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [
        (60, "EiB"),
        (50, "PiB"),
        (40, "TiB"),
        (30, "GiB"),
        (20, "MiB"),
        (10, "KiB"),
    ] {
        if bytes > 0 && bytes % (1 << shift) == 0 {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// The values without duplicates, in the order of their first appearance.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Aligned rows, one line each, with columns as wide as their longest text. The first `left`
/// columns are flush left, the others flush right.
pub fn aligned<R: AsRef<[String]>>(rows: &[R], left: usize) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.as_ref().len()), 0);
        for (width, text) in widths.iter_mut().zip(row.as_ref()) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut table = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (text, width)) in row.as_ref().iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column < left {
                write!(line, "{text:width$}  ")
            } else {
                write!(line, "{text:>width$}  ")
            };
        }
        table += line.trim_end();
        table.push('\n');
    }
    table
}

/// `yes` or `no`.
pub fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// A number of things, for a sentence: `1 file`, `3 files`.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// A human-readable size: three figures and a binary unit.
pub fn rounded(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut units = units.into_iter();
    let mut unit = units.next().unwrap_or("B");
    while value >= 1024.0 {
        value /= 1024.0;
        unit = units.next().unwrap_or(unit);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A human-readable size, and the bytes where rounding hides them: `12.1 KiB (12386 bytes)`, `3 B`.
pub fn exact(bytes: u64) -> String {
    match rounded(bytes) {
        text if bytes < 1024 => text,
        text => format!("{text} ({bytes} bytes)"),
    }
}

/// The same for a rate: `4.80 MiB/s (5033164 bytes/s)`.
pub fn exact_rate(bytes_per_second: u64) -> String {
    match rounded(bytes_per_second) {
        text if bytes_per_second < 1024 => format!("{text}/s"),
        text => format!("{text}/s ({bytes_per_second} bytes/s)"),
    }
}

/// A length of time: a number and one of ns, us, ms, s, min.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl Time {
    /// In whole microseconds, at most what 32 bits hold: over an hour.
    pub fn whole_us(self) -> u32 {
        u32::try_from(self.0.as_micros()).unwrap_or(u32::MAX)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = split(text);
        let factor_ns: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "" => return Err("a time needs a unit, as 250us: ns, us, ms, s or min".to_owned()),
            _ => {
                return Err(format!(
                    "unknown unit of time `{unit}`: write ns, us, ms, s or min"
                ));
            }
        };
        let number: u64 = number
            .parse()
            .map_err(|_| "a time is a whole number and a unit, for example 250us".to_owned())?;
        let ns = number
            .checked_mul(factor_ns)
            .ok_or("the time is too long")?;
        Ok(Self(Duration::from_nanos(ns)))
    }
}

/// A rate in bytes per second: a size, or a size and `/s`.
///
/// # Errors
/// The errors of a [`Size`]; the rate is 0.
pub fn rate(text: &str) -> Result<Size, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse()? {
        Size(0) => Err("a rate must be more than 0".to_owned()),
        rate => Ok(rate),
    }
}

/// A time in whole milliseconds. A bare number is milliseconds: the option was once `--commit-ms`.
///
/// # Errors
/// The errors of a [`Time`]; the time does not fit in 32 bits.
pub fn interval_ms(text: &str) -> Result<u32, String> {
    let time = match text.parse::<u32>() {
        Ok(ms) => return Ok(ms),
        Err(_) => text.parse::<Time>()?.0,
    };
    match u32::try_from(time.as_millis()) {
        Ok(0) if !time.is_zero() => Err("the time is less than a millisecond".to_owned()),
        Ok(ms) => Ok(ms),
        Err(_) => Err("the time is too long".to_owned()),
    }
}

/// A duration in whole microseconds, as the reports have it.
pub fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<u64> {
        text.parse::<Size>().ok().map(|size| size.0)
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("512B"), Some(512));
        assert_eq!(bytes("0"), Some(0));
        assert_eq!(bytes("4K"), Some(4096));
        assert_eq!(bytes("4KiB"), Some(4096));
        assert_eq!(bytes("4KB"), Some(4000));
        assert_eq!(bytes("2M"), Some(2 << 20));
        assert_eq!(bytes("1TB"), Some(1_000_000_000_000));
        assert_eq!(bytes("15E"), Some(15 << 60));
        assert_eq!(bytes("1.5G"), Some(3 << 29));
        assert_eq!(bytes("4.5K"), Some(4608));
        assert_eq!(bytes("4.8M"), Some(5_033_164));
        assert_eq!(bytes("4.8MB"), Some(4_800_000));
        assert_eq!(bytes("0.001K"), Some(1));
        assert_eq!(bytes("15.999999999999999999E"), Some(u64::MAX - 1));
        assert_eq!(bytes("433.920MB"), Some(433_920_000));
    }

    #[test]
    fn everything_else_is_refused() {
        let wrong = [
            "",
            "K",
            "4q",
            "4kb2",
            "4k",
            "4kb",
            "-1",
            "+1",
            "4 K",
            " 4",
            "4.5",
            "4.5B",
            ".5K",
            "4.K",
            "4.-5K",
            "4..5K",
            "4.5.5K",
            "1,5G",
            "0.99999999999999999999K",
            "0x10",
            "4KKiB",
            "4Kib",
            "16E",
            "18446744073709551616",
            "99999999999T",
            "1e3",
            "４",
        ];
        for text in wrong {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_print_exactly_or_rounded() {
        for (size, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (4096, "4 KiB"),
            (3 << 29, "1536 MiB"),
        ] {
            assert_eq!(Size(size).to_string(), text);
        }
        assert_eq!(rounded(999), "999 B");
        assert_eq!(rounded(1536), "1.50 KiB");
        assert_eq!(rounded(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn rates_may_say_that_they_are_a_second_s() {
        assert_eq!(rate("20M"), Ok(Size(20 << 20)));
        assert_eq!(rate("20MB/s"), Ok(Size(20_000_000)));
        assert_eq!(rate("2.5M/s"), Ok(Size(5 << 19)));
        assert!(rate("0").is_err() && rate("20M/min").is_err() && rate("/s").is_err());
    }

    #[test]
    fn intervals_have_units_and_the_old_form_is_read() {
        assert_eq!(interval_ms("200ms"), Ok(200));
        assert_eq!(interval_ms("2s"), Ok(2_000));
        assert_eq!(interval_ms("20"), Ok(20));
        for text in ["", "10us", "x", "99999999min"] {
            assert!(interval_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_need_their_unit() {
        let time = |text: &str| text.parse::<Time>().ok().map(|time| time.0.as_nanos());
        assert_eq!(time("250us"), Some(250_000));
        assert_eq!(time("2min"), Some(120_000_000_000));
        for text in [
            "250",
            "us",
            "-1s",
            "1.5s",
            "1h",
            "1S",
            "99999999999999999min",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
