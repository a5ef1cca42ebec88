// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number in the name of a segment, without the template that it was made from.

use super::template::NUMBER_DIGITS;

/// A name with a number, as `record --segment` makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    before: String,
    /// The number.
    pub number: u64,
    after: String,
}

impl Numbered {
    /// The last six or more digits of a name are its number, unless they are a date or a time of
    /// day. Zeros that `record` does not write before a number are of the text before it.
    pub fn of(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut end = bytes.len();
        loop {
            end = (1..=end).rev().find(|end| is_digit(end - 1))?;
            let begin = (0..end).rev().take_while(|at| is_digit(*at)).last()?;
            let (before, digits, after) = (&name[..begin], &name[begin..end], &name[end..]);
            if digits.len() >= NUMBER_DIGITS && !is_time(before, digits) {
                let spare = digits.len() - NUMBER_DIGITS;
                let zeros = digits.bytes().take(spare).take_while(|byte| *byte == b'0');
                let (zeros, digits) = digits.split_at(zeros.count());
                return Some(Self {
                    before: format!("{before}{zeros}"),
                    number: digits.parse().ok()?,
                    after: after.to_owned(),
                });
            }
            end = begin;
        }
    }

    /// The name of another segment, if the names differ by the number only.
    pub fn name_of(&self, number: u64) -> String {
        format!("{}{number:0NUMBER_DIGITS$}{}", self.before, self.after)
    }

    /// A pattern for the names of the segments up to number 99999.
    pub fn pattern(&self) -> String {
        format!("{}0*{}", self.before, self.after)
    }

    /// Whether two names differ by their numbers, and by times.
    pub fn is_of_one_form(&self, other: &Self) -> bool {
        self.shape() == other.shape()
    }

    /// What the names of a recording's segments have in common: the times in them differ.
    pub fn shape(&self) -> String {
        format!(
            "{}*{}",
            without_times(&self.before),
            without_times(&self.after)
        )
    }
}

/// A text with `#` for the digits of a date, and behind it for those of a time of day.
fn without_times(text: &str) -> String {
    let mut masked = String::new();
    let mut is_behind_date = false;
    let mut rest = text;
    while let Some(begin) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, digits) = rest.split_at(begin);
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = digits.split_at(len);
        let is_date = digits.starts_with("19") || digits.starts_with("20");
        is_behind_date |= is_date && matches!(len, 4 | 8 | 14);
        masked += before;
        masked += if is_behind_date && len % 2 == 0 {
            "#"
        } else {
            digits
        };
        rest = after;
    }
    masked + rest
}

/// Whether digits are a date (`%Y%m%d`), or behind one a time of day (`%H%M%S`), or both.
fn is_time(before: &str, digits: &str) -> bool {
    let is_date = |text: &str| text.starts_with("19") || text.starts_with("20");
    let ahead = before.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let date = ahead
        .get(ahead.len().saturating_sub(8)..)
        .unwrap_or_default();
    let is_behind_date = ahead.len() < before.len()
        && before.len() - ahead.len() == 1
        && date.len() == 8
        && date.bytes().all(|byte| byte.is_ascii_digit())
        && is_date(date)
        && !before.ends_with('.');
    match digits.len() {
        6 => is_behind_date,
        8 | 14 => is_date(digits),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_a_time() {
        for (name, number) in [
            ("run.000001", Some(1)),
            ("run.1234567", Some(1_234_567)),
            ("run.00001", None),
            ("take000012", Some(12)),
            ("cam-000012-left", Some(12)),
            ("camera-20261129-120000.000003", Some(3)),
            ("camera-20261129.000007-12", Some(7)),
            ("camera-20261129-120000", None),
            ("camera-20261129", None),
            ("camera-20261129120000", None),
            ("000007", Some(7)),
            ("day.00000012", Some(12)),
            ("day.001234567", Some(1_234_567)),
            ("é000007é", Some(7)),
            ("", None),
            ("run", None),
        ] {
            let found = Numbered::of(name).map(|numbered| numbered.number);
            assert_eq!(found, number, "{name}");
        }
        let shape = |name| Numbered::of(name).unwrap().shape();
        assert_eq!(
            shape("cam1-20261129-120000.000003"),
            shape("cam1-20261130-000000.000004")
        );
        assert_eq!(
            shape("cam1-2026-11-29_12.000003"),
            shape("cam1-2026-11-29_13.000003")
        );
        assert_ne!(shape("cam1-20261129.000003"), shape("cam2-20261129.000003"));
        assert_ne!(shape("cam12.000003"), shape("cam13.000003"));
        assert_ne!(shape("day.00000001"), shape("day.000001"));
        assert_eq!(shape("day.00000001"), shape("day.001000001"));
        let one = Numbered::of("run.000009.x").unwrap();
        assert_eq!(one.name_of(10), "run.000010.x");
    }
}
