// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bits and E-values as the tables of `blastn` have them (`-outfmt 6`, version 2.12).

/// The bits of a score: with a digit behind the point up to 99.9, above without, cut off and not
/// rounded.
pub fn bits_text(bits: f64) -> String {
    match bits {
        99_999.0.. => exponent(bits, 3),
        // Between 99.9 and 100 with a blank before it, as there.
        _ if bits > 99.9 => format!("{:>3}", bits.trunc()),
        _ => format!("{bits:.1}"),
    }
}

/// An E-value: 0.0 below 1e-180, with an exponent below 0.0009, and else with as many digits as are
/// of interest.
pub fn e_value_text(value: f64) -> String {
    match value {
        _ if value < 1e-180 => "0.0".to_owned(),
        _ if value < 0.0009 => exponent(value, 2),
        _ if value < 0.1 => format!("{value:.3}"),
        _ if value < 1.0 => format!("{value:.2}"),
        _ if value < 10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// As C prints it: the exponent has a sign and at least two digits.
fn exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, number) = match exponent.strip_prefix('-') {
        Some(number) => ('-', number),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{number:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_blastn_prints() {
        let bits = [21.44, 99.86, 99.91, 354.2, 354.99, 123_456.7].map(bits_text);
        assert_eq!(bits, ["21.4", "99.9", " 99", "354", "354", "1.235e+05"]);
        let values = [
            0.0, 9e-181, 6.77e-64, 0.000_209, 0.0416, 0.382, 4.816, 13.4, 568.6,
        ];
        let expected = [
            "0.0", "0.0", "6.77e-64", "2.09e-04", "0.042", "0.38", "4.8", "13", "569",
        ];
        assert_eq!(values.map(e_value_text), expected);
    }
}
