// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of a recording's files: `camera-%Y%m%d-%H%M%S`, `take.%n`.

use devices::error::{Error, Result};
use std::time::{Duration, UNIX_EPOCH};

/// Digits of a segment's number, at least.
pub const NUMBER_DIGITS: usize = 6;

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A part of the time, by its letter, and its number of digits.
    Time(char, usize),
    Number,
}

/// A name with places for the time (UTC) and for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

impl Template {
    /// Parses a name: `%Y`, `%m`, `%d`, `%H`, `%M` and `%S` are the time, `%n` is the number, `%%`
    /// is `%`.
    ///
    /// # Errors
    /// Another letter follows a `%`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                plain.push(letter);
                continue;
            }
            let part = match letters.next() {
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                Some('Y') => Part::Time('Y', 4),
                Some(field @ ('m' | 'd' | 'H' | 'M' | 'S')) => Part::Time(field, 2),
                Some('n') => Part::Number,
                _ => {
                    return Err(Error::usage(format!(
                        "`{text}`: a % is followed by none of Y m d H M S (the time, UTC), n (a number) and %"
                    ))
                    .hint(format!("a % itself is written %%: {}", text.replace('%', "%%"))));
                }
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part);
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The same with a number at its end, unless it has one already.
    #[must_use]
    pub fn numbered(mut self) -> Self {
        if !self.has_number() {
            self.0.push(Part::Text(".".to_owned()));
            self.0.push(Part::Number);
        }
        self
    }

    /// Whether the names differ by a number.
    pub fn has_number(&self) -> bool {
        self.0.contains(&Part::Number)
    }

    /// Whether other digits come right before the number: a name of this form is one of another
    /// form, too, with a larger number (`cam1%n` of `cam%n`).
    pub fn is_ambiguous(&self) -> bool {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let mut before = pairs.filter_map(|(one, next)| (*next == Part::Number).then_some(one));
        before.any(|part| match part {
            Part::Time(..) => true,
            Part::Text(text) => {
                let begin = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
                // Zeros alone make no number that `name` writes.
                text.get(begin.len()..)
                    .is_some_and(|digits| digits.bytes().any(|digit| digit != b'0'))
            }
            Part::Number => true,
        })
    }

    /// The name at a time, counted from 1970.
    pub fn name(&self, since_1970: Duration, number: u64) -> String {
        // The year 9999 is the last that it can write.
        let since_1970 = since_1970.min(Duration::from_secs(253_402_300_799));
        let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string();
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Time(letter, _) => name.push_str(field(&time, *letter)),
                Part::Number => name += &written(number),
            }
        }
        name
    }

    /// The number of a name of this form; 0 if the form has none. `None`: the name is of another
    /// form.
    pub fn number_of(&self, name: &str) -> Option<u64> {
        let mut rest = name;
        let mut number = 0;
        for (index, part) in self.0.iter().enumerate() {
            match part {
                Part::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Time(letter, digits) => {
                    let (field, after) = rest.split_at_checked(*digits)?;
                    is_field(*letter, field).then_some(())?;
                    rest = after;
                }
                Part::Number => {
                    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                    // What follows may begin with digits too.
                    let after: usize = self
                        .0
                        .get(index + 1..)?
                        .iter()
                        .map_while(Part::digits)
                        .sum();
                    let (digits, after) = rest.split_at_checked(digits.checked_sub(after)?)?;
                    number = digits.parse().ok()?;
                    // As `name` writes it: other zeros are of another form.
                    (digits == written(number)).then_some(())?;
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(number)
    }
}

impl Part {
    /// The digits that it has for certain; `None` if it begins with something else.
    fn digits(&self) -> Option<usize> {
        match self {
            Part::Time(_, digits) => Some(*digits),
            _ => None,
        }
    }
}

/// A segment's number, as names have it.
fn written(number: u64) -> String {
    format!("{number:0NUMBER_DIGITS$}")
}

/// Whether these digits can be a field of a time that a recording writes.
fn is_field(letter: char, digits: &str) -> bool {
    let range = match letter {
        'Y' => 1970..=9999,
        'm' => 1..=12,
        'd' => 1..=31,
        'H' => 0..=23,
        'M' => 0..=59,
        _ => 0..=60,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        && digits
            .parse::<u32>()
            .is_ok_and(|value| range.contains(&value))
}

/// A field of a time that is written as RFC 3339 does.
fn field(time: &str, letter: char) -> &str {
    let place = match letter {
        'Y' => 0..4,
        'm' => 5..7,
        'd' => 8..10,
        'H' => 11..13,
        'M' => 14..16,
        _ => 17..19,
    };
    time.get(place).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn names_have_the_time_and_the_number() {
        let name =
            |text: &str, seconds, number| template(text).name(Duration::from_secs(seconds), number);
        assert_eq!(name("take", 0, 1), "take");
        assert_eq!(name("100%%", 0, 1), "100%");
        assert_eq!(name("%Y-%m-%d_%H%M%S", 0, 1), "1970-01-01_000000");
        // The values of date(1).
        for (seconds, expected) in [
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (1_709_251_199, "20240229-235959"),
            (4_107_542_400, "21000301-000000"),
            (1_798_761_599, "20261231-235959"),
        ] {
            assert_eq!(name("%Y%m%d-%H%M%S", seconds, 1), expected);
        }
        assert_eq!(
            template("take").numbered().name(Duration::ZERO, 7),
            "take.000007"
        );
        assert_eq!(
            template("%n-a").numbered().name(Duration::ZERO, 7),
            "000007-a"
        );
        for bad in ["%", "a%x", "%y"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_recognised_by_its_form() {
        let numbered = template("take").numbered();
        for (name, number) in [
            ("take.000001", Some(1)),
            ("take.1234567", Some(1_234_567)),
            ("take.00001", None),
            // Of `take.00%n`, which no recording is called here.
            ("take.00000001", None),
            ("take.0123456", None),
            ("take.000001.gaps", None),
            ("take", None),
            ("other.000001", None),
            ("take.00000a", None),
            ("take.99999999999999999999999", None),
        ] {
            assert_eq!(numbered.number_of(name), number, "{name}");
        }
        let timed = template("c-%Y%m%d.%n-%H");
        let name = timed.name(Duration::from_secs(1 << 30), 42);
        assert_eq!(timed.number_of(&name), Some(42), "{name}");
        assert_eq!(template("%n%H").number_of("00000512"), Some(5));
        assert_eq!(template("a%Y").number_of("a20é"), None);
        assert_eq!(template("a%Y").number_of("a2026"), Some(0));
        // What no clock shows is of another form.
        let timed = template("c%m%d-%H%M%S.%n");
        for (name, number) in [
            ("c1231-235960.000001", Some(1)),
            ("c1301-000000.000001", None),
            ("c0001-000000.000001", None),
            ("c0132-000000.000001", None),
            ("c0101-240000.000001", None),
            ("c0101-006000.000001", None),
            ("c0101-000061.000001", None),
        ] {
            assert_eq!(timed.number_of(name), number, "{name}");
        }
        assert_eq!(template("a%Y").number_of("a1234"), None);
        for (text, is_ambiguous) in [
            ("cam1%n", true),
            ("cam10%n", true),
            ("%H%n", true),
            ("%n%n", true),
            ("cam.00%n", false),
            ("cam1.%n", false),
            ("%n-%H", false),
            ("cam", false),
        ] {
            assert_eq!(template(text).is_ambiguous(), is_ambiguous, "{text}");
        }
    }
}
