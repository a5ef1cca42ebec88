// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of a radio, as an option names them.

use std::fmt;
use std::str::FromStr;

/// A type of samples: `ci16_le` is a pair of 16-bit integers, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datatype {
    /// As SigMF writes it.
    pub name: String,
    /// Bytes of a sample.
    pub sample_bytes: u64,
}

impl FromStr for Datatype {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || {
            format!(
                "unknown datatype `{text}`: c or r, then i8 or u8, or one of i16 u16 i32 u32 f32 f64 with _le or _be, as in ci16_le"
            )
        };
        let (numbers, scalar) = match text.split_at_checked(1) {
            Some(("c", scalar)) => (2, scalar),
            Some(("r", scalar)) => (1, scalar),
            _ => return Err(unknown()),
        };
        let bytes = match scalar {
            "i8" | "u8" => 1,
            "i16_le" | "i16_be" | "u16_le" | "u16_be" => 2,
            "i32_le" | "i32_be" | "u32_le" | "u32_be" | "f32_le" | "f32_be" => 4,
            "f64_le" | "f64_be" => 8,
            _ => return Err(unknown()),
        };
        Ok(Self {
            name: text.to_owned(),
            sample_bytes: numbers * bytes,
        })
    }
}

/// A frequency in hertz: `2.4M` is 2,400,000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hertz(pub f64);

impl FromStr for Hertz {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = text.strip_suffix("Hz").unwrap_or(text);
        let (number, factor) = match number.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&number[..at], 1e3),
            Some((at, 'M')) => (&number[..at], 1e6),
            Some((at, 'G')) => (&number[..at], 1e9),
            _ => (number, 1.0),
        };
        let wrong = || {
            format!(
                "`{text}` is not a frequency: write hertz, or k, M or G (1000 each), as in 2.4M, or 2.4e6"
            )
        };
        // No sign, and no words such as `inf`.
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) if factor == 1.0 => (mantissa, exponent),
            _ => (number, "0"),
        };
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'.');
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let is_plain =
            mantissa.bytes().all(is_digit) && exponent.bytes().all(|byte| byte.is_ascii_digit());
        let value: f64 = number.parse().map_err(|_| wrong())?;
        if is_plain && (value * factor).is_finite() {
            Ok(Self(value * factor))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_samples_are_those_of_the_specification() {
        for (name, bytes) in [
            ("ri8", 1),
            ("cu8", 2),
            ("ri16_be", 2),
            ("ci16_le", 4),
            ("cf32_le", 8),
            ("cf64_be", 16),
        ] {
            let datatype: Datatype = name.parse().unwrap();
            assert_eq!(datatype.sample_bytes, bytes, "{name}");
        }
        for name in [
            "", "c", "ci16", "ci8_le", "xi8", "cf16_le", "\u{fc}i8", "ci16_le ",
        ] {
            assert!(name.parse::<Datatype>().is_err(), "{name}");
        }
    }

    #[test]
    fn frequencies_are_decimal() {
        for (text, value) in [
            ("100", 100.0),
            ("2.4M", 2.4e6),
            ("433.92MHz", 433.92e6),
            ("1G", 1e9),
            ("48kHz", 48e3),
            ("1e6", 1e6),
            ("2.4E+6Hz", 2.4e6),
            ("5e-1", 0.5),
        ] {
            assert_eq!(text.parse(), Ok(Hertz(value)), "{text}");
        }
        for text in [
            "", "M", "-1M", "2MB", "1e", "e6", "1e6M", "1e999", "-1e6", "nan", "inf", "1.2.3",
        ] {
            assert!(text.parse::<Hertz>().is_err(), "{text}");
        }
    }
}
