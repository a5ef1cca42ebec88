// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patterns of names: `*` is any letters, `/` too, `?` one, `[a-c]` one of these, `[!a-c]` one of
//! the others.

/// A pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Token>);

#[derive(Clone, Debug)]
enum Token {
    Letter(char),
    One,
    Any,
    /// One of these ranges, or of none of them.
    Set {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl Token {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::One => true,
            Self::Any => false,
            Self::Set { ranges, is_negated } => {
                let is_in = |(first, last): &(char, char)| (*first..=*last).contains(&letter);
                ranges.iter().any(is_in) != *is_negated
            }
        }
    }
}

impl Pattern {
    /// From its text; `None` if a `[` has no `]`. A `]` right behind the `[` is a letter.
    pub fn parse(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        let mut tokens = Vec::new();
        while let Some(letter) = letters.next() {
            tokens.push(match letter {
                '?' => Token::One,
                '*' => Token::Any,
                '[' => {
                    let rest = letters.as_str();
                    let is_negated = rest.starts_with('!');
                    let inside = &rest[usize::from(is_negated)..];
                    let len = 1 + inside
                        .char_indices()
                        .skip(1)
                        .find(|(_, one)| *one == ']')?
                        .0;
                    let ranges = ranges(&inside[..len - 1]);
                    letters = inside[len..].chars();
                    Token::Set { ranges, is_negated }
                }
                letter => Token::Letter(letter),
            });
        }
        Some(Self(tokens))
    }

    /// Whether the whole name fits it. The time is at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // The last `*`, and how much of the name it has so far.
        let mut any = None;
        while at < name.len() {
            match self.0.get(token) {
                Some(Token::Any) => {
                    any = Some((token, at));
                    token += 1;
                }
                Some(one) if name.get(at).is_some_and(|letter| one.fits(*letter)) => {
                    (token, at) = (token + 1, at + 1);
                }
                _ => {
                    let Some((of, taken)) = any else { return false };
                    any = Some((of, taken + 1));
                    (token, at) = (of + 1, taken + 1);
                }
            }
        }
        let mut rest = self.0.iter().skip(token);
        rest.all(|token| matches!(token, Token::Any))
    }
}

/// `a-cx` is from a to c, and x. A `-` at an end is a letter.
fn ranges(text: &str) -> Vec<(char, char)> {
    let letters: Vec<char> = text.chars().collect();
    let mut ranges = Vec::new();
    let mut rest = letters.as_slice();
    loop {
        rest = match rest {
            [first, '-', last, rest @ ..] => {
                ranges.push((*first, *last));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
            [] => return ranges,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a/b"),
            ("a*c", "abbc"),
            ("*.log", "x.log.log"),
            ("a?c", "a/c"),
            ("a?c", "aéc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("[!]]", "x"),
            ("[a-]", "-"),
            ("[[]1]", "[1]"),
            ("**b", "aab"),
            ("[é-ü]", "ö"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("a?", "a"),
            ("a*c", "abcd"),
            ("[a-c]", "d"),
            ("[!a-c]", "a"),
            ("[c-a]", "b"),
            ("*a", "ab"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_set_without_its_end_is_no_pattern() {
        for pattern in ["[", "[a", "[]", "[!", "[!]", "x[a-"] {
            assert!(Pattern::parse(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn many_wildcards_take_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!fits(&pattern, &"a".repeat(2000)));
    }
}
