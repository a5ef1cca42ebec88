// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries in FASTA.

use crate::Error;

/// A sequence to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The first word of its title.
    pub name: String,
    /// Sets of bases: A is 1, C 2, G 4, T 8, and N 15.
    pub bases: Vec<u8>,
    /// Gap letters (`-`) that were left out, as `blastn` does.
    pub gaps: usize,
}

/// The set of bases of a letter (IUPAC, either case); None if it is no base.
const fn base(letter: u8) -> Option<u8> {
    Some(match letter.to_ascii_uppercase() {
        b'A' => 1,
        b'C' => 2,
        b'G' => 4,
        b'T' | b'U' => 8,
        b'M' => 3,
        b'R' => 5,
        b'S' => 6,
        b'V' => 7,
        b'W' => 9,
        b'Y' => 10,
        b'H' => 11,
        b'K' => 12,
        b'D' => 13,
        b'B' => 14,
        b'N' => 15,
        _ => return None,
    })
}

/// Reads queries: a title line `>NAME ...` each, and lines of bases (IUPAC letters). The first one
/// may have no title, and one may have no bases: nothing is found for that.
///
/// # Errors
/// [`Error::Query`]: there is none with bases, or a letter is no base.
pub fn queries(text: &[u8]) -> Result<Vec<Query>, Error> {
    let wrong = |line: usize, why: String| Error::Query {
        line: line + 1,
        why,
    };
    let mut all: Vec<Query> = Vec::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        match (line.strip_prefix(b">"), all.last_mut()) {
            (Some(rest), _) => {
                let text = String::from_utf8_lossy(rest);
                let name = text.split_whitespace().next();
                let name = name.map_or_else(|| format!("Query_{}", all.len() + 1), str::to_owned);
                all.push(Query {
                    name,
                    bases: Vec::new(),
                    gaps: 0,
                });
            }
            (None, _) if line.is_empty() || line.starts_with(b";") => {}
            (None, last) => {
                let mut first = Query {
                    name: "Query_1".to_owned(),
                    bases: Vec::new(),
                    gaps: 0,
                };
                let is_untitled = last.is_none();
                let query = last.unwrap_or(&mut first);
                for &letter in line {
                    if letter == b'-' {
                        query.gaps += 1;
                        continue;
                    }
                    let found = base(letter).ok_or_else(|| {
                        wrong(number, format!("`{}` is no base", letter.escape_ascii()))
                    })?;
                    query.bases.push(found);
                }
                if is_untitled {
                    all.push(first);
                }
            }
        }
    }
    if all.iter().any(|query| !query.bases.is_empty()) {
        Ok(all)
    } else {
        Err(wrong(0, "there is no sequence with bases".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_letters_of_either_case() {
        let read = queries(b">one first title\r\nACGT\r\n\r\nnu\n>\nRY\n").unwrap();
        assert_eq!(
            read[0],
            Query {
                name: "one".into(),
                bases: vec![1, 2, 4, 8, 15, 8],
                gaps: 0,
            }
        );
        assert_eq!(
            read[1],
            Query {
                name: "Query_2".into(),
                bases: vec![5, 10],
                gaps: 0,
            }
        );
    }

    #[test]
    fn empty_sequences_are_kept_gaps_left_out_and_the_first_one_needs_no_title() {
        let read = queries(b"AC-GT\n-\n>empty\n>b\nA\n>last\n").unwrap();
        let found = read
            .iter()
            .map(|query| (query.name.as_str(), query.bases.len(), query.gaps));
        let expected = [
            ("Query_1", 4, 2),
            ("empty", 0, 0),
            ("b", 1, 0),
            ("last", 0, 0),
        ];
        assert!(found.eq(expected));
    }

    #[test]
    fn what_is_not_a_query_is_named_by_its_line() {
        for (text, line, why) in [
            (&b""[..], 1, "no sequence"),
            (b">a\n>b\n-\n", 1, "no sequence"),
            (b">a\nAC\nGEL\n", 3, "`E` is no base"),
            (b">a\n\xff", 2, "`\\xff` is no base"),
        ] {
            let Err(Error::Query {
                line: found,
                why: text,
            }) = queries(text)
            else {
                unreachable!("{why}");
            };
            assert_eq!(found, line, "{why}");
            assert!(text.contains(why), "{text}");
        }
    }
}
