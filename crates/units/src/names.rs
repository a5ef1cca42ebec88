// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names as a terminal shows them.

/// Characters that a terminal does not show, or that change the order of others: Unicode's
/// bidirectional controls (UAX #9, 2), its line and paragraph separators, and those with
/// Default_Ignorable_Code_Point (UAX #44, DerivedCoreProperties).
const UNSEEN: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Formats a name for a terminal: control characters are escaped, and those that would make it look
/// like another name.
pub fn shown(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        let is_unseen = |(first, last): &(char, char)| (*first..=*last).contains(&letter);
        if letter.is_control() || UNSEEN.iter().any(is_unseen) {
            text.extend(letter.escape_default())
        } else {
            text.push(letter)
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped() {
        for (name, expected) in [
            ("a b/é\u{301}/日本", "a b/é\u{301}/日本"),
            ("\u{1b}[2J\u{7f}\u{85}\n", "\\u{1b}[2J\\u{7f}\\u{85}\\n"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            (
                "a\u{200b}b\u{200d}\u{2066}",
                "a\\u{200b}b\\u{200d}\\u{2066}",
            ),
            ("\u{feff}a\u{ad}", "\\u{feff}a\\u{ad}"),
            ("a\u{2028}b\u{e0041}", "a\\u{2028}b\\u{e0041}"),
        ] {
            assert_eq!(shown(name), expected);
        }
    }

    #[test]
    fn each_range_is_escaped_from_its_first_to_its_last() {
        for (first, last) in UNSEEN {
            for letter in [first, last] {
                assert!(shown(&letter.to_string()).starts_with("\\u{"), "{letter:?}");
            }
        }
    }
}
