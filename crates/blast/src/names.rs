// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of a sequence from its entry in the headers' file (`.nhr`): a Blast-def-line-set of
//! NCBI's ASN.1 (`blastdb.asn`, `seqloc.asn`) in BER with lengths that are not stated.

/// Structures in structures; an entry has seven.
const DEEPEST: u32 = 16;

/// A value of BER: a primitive one with its bytes, or a constructed one with its parts.
struct Node<'a> {
    tag: u8,
    bytes: &'a [u8],
    parts: Vec<Node<'a>>,
}

/// The tags of Seq-id's choices ("seqloc.asn"): context-specific and constructed, in the order of
/// their numbers.
mod tag {
    pub const LOCAL: u8 = 0xa0;
    pub const GIBBSQ: u8 = 0xa1;
    pub const GIIM: u8 = 0xa3;
    pub const PATENT: u8 = 0xa8;
    pub const GENERAL: u8 = 0xaa;
    pub const GI: u8 = 0xab;
    pub const PDB: u8 = 0xae;
    pub const LAST: u8 = 0xb3;
}

impl<'a> Node<'a> {
    fn parse(bytes: &'a [u8], depth: u32) -> Option<(Self, &'a [u8])> {
        let ([tag, length], mut rest) = bytes.split_first_chunk()?;
        let mut node = Self {
            tag: *tag,
            bytes: &[],
            parts: Vec::new(),
        };
        // Bit 6: constructed.
        if *length == 0x80 && tag & 0x20 != 0 {
            while !rest.starts_with(&[0, 0]) {
                if depth == 0 {
                    return None;
                }
                let (part, behind) = Self::parse(rest, depth - 1)?;
                node.parts.push(part);
                rest = behind;
            }
            return Some((node, rest.get(2..)?));
        }
        let length = match length {
            0..=0x7f => usize::from(*length),
            0x81..=0x84 => {
                let (number, behind) = rest.split_at_checked(usize::from(length & 0x7f))?;
                rest = behind;
                (number.iter()).fold(0, |value, &byte| value << 8 | usize::from(byte))
            }
            _ => return None,
        };
        let (bytes, rest) = rest.split_at_checked(length)?;
        node.bytes = bytes;
        Some((node, rest))
    }

    /// The value in the part with this tag.
    fn field(&self, number: u8) -> Option<&Self> {
        let part = self.parts.iter().find(|part| part.tag == 0xa0 | number)?;
        part.parts.first()
    }

    fn text(&self) -> Option<String> {
        (self.tag == 0x1a).then(|| String::from_utf8_lossy(self.bytes).into_owned())
    }

    /// A text, or a number as one.
    fn word(&self) -> Option<String> {
        match self.tag {
            0x02 if (1..=8).contains(&self.bytes.len()) => {
                let sign = if self.bytes[0] & 0x80 == 0 { 0 } else { -1 };
                let value =
                    (self.bytes.iter()).fold(sign, |value, &byte| value << 8 | i64::from(byte));
                Some(value.to_string())
            }
            _ => self.text(),
        }
    }

    /// Object-id: a number or a text.
    fn object(&self) -> Option<String> {
        self.parts.first()?.parts.first()?.word()
    }

    /// How `blastn` prints a Seq-id, and how late it is chosen among several; None for the number
    /// that makeblastdb gives where identifiers are not parsed.
    fn identifier(&self) -> Option<(u8, String)> {
        let inner = self.parts.first()?;
        match self.tag {
            tag::LOCAL => Some((2, self.object()?)),
            tag::GIBBSQ..tag::GIIM => Some((4, inner.word()?)),
            tag::GIIM => Some((4, inner.field(0)?.word()?)),
            tag::PATENT => {
                let cited = inner.field(1)?;
                let country = cited.field(0)?.text()?;
                let number = cited.parts.get(1)?.parts.first()?.parts.first()?.text()?;
                Some((1, format!("{country}{number}_{}", inner.field(0)?.word()?)))
            }
            tag::GENERAL => {
                let database = inner.field(0)?.text()?;
                let named = inner.parts.iter().find(|part| part.tag == 0xa1)?;
                let tag = named.object()?;
                (database != "BL_ORD_ID").then(|| (3, format!("{database}:{tag}")))
            }
            tag::GI => Some((5, inner.word()?)),
            tag::PDB => {
                let molecule = inner.field(0)?.text()?;
                let chain = inner.field(3).and_then(Node::text);
                Some((
                    1,
                    match chain {
                        Some(chain) => format!("{molecule}_{chain}"),
                        None => molecule,
                    },
                ))
            }
            // Textseq-id: name, accession, release, version.
            0xa4..=0xa7 | 0xa9 | 0xac | 0xad | 0xaf..=tag::LAST => {
                let accession = inner.field(1).and_then(Node::text);
                let version = inner.field(3).and_then(Node::word);
                let name = match (accession, version) {
                    (Some(accession), Some(version)) => {
                        format!("{}.{version}", accession.to_ascii_uppercase())
                    }
                    (Some(accession), None) => accession.to_ascii_uppercase(),
                    (None, _) => inner.field(0)?.text()?,
                };
                Some((0, name))
            }
            _ => None,
        }
    }
}

/// The name that `blastn -outfmt '6 std'` prints: the accession with its version, or another
/// identifier; where identifiers were not parsed, the first word of the title. None if the entry is
/// not one.
pub fn name(entry: &[u8]) -> Option<String> {
    let (set, _) = Node::parse(entry, DEEPEST)?;
    let line = set.parts.first()?;
    let identifiers = line.field(1)?;
    let found = identifiers.parts.iter().filter_map(Node::identifier);
    match found.min_by_key(|(rank, _)| *rank) {
        Some((_, name)) => Some(name),
        None => {
            let title = line.field(0)?.text()?;
            title.split_whitespace().next().map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &[u8], identifier: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x30\x80\x30\x80\xa0\x80\x1a".to_vec();
        if title.len() > 127 {
            bytes.extend([0x82, (title.len() >> 8) as u8]);
        }
        bytes.push(title.len() as u8);
        bytes.extend_from_slice(title);
        bytes.extend(b"\0\0\xa1\x80\x30\x80");
        bytes.extend_from_slice(identifier);
        bytes.extend([0; 8]);
        bytes
    }

    /// gnl|BL_ORD_ID|0
    const NUMBER: &[u8] =
        b"\xaa\x80\x30\x80\xa0\x80\x1a\x09BL_ORD_ID\0\0\xa1\x80\xa0\x80\x02\x01\0\0\0\0\0\0\0\0\0";

    #[test]
    fn titles_and_identifiers() {
        let of = |title: &[u8], identifier: &[u8]| name(&entry(title, identifier));
        assert_eq!(of(b"seq0 title", NUMBER).as_deref(), Some("seq0"));
        // gb|AB012346.2|, with a gi before it.
        let both = b"\xab\x80\x02\x01\x37\0\0\xa4\x80\x30\x80\xa1\x80\x1a\x08AB012346\0\0\xa3\x80\x02\x01\x02\0\0\0\0\0\0";
        assert_eq!(of(b"title", both).as_deref(), Some("AB012346.2"));
        // lcl|chr1, lcl|123
        for (local, expected) in [
            (&b"\xa1\x80\x1a\x04chr1"[..], "chr1"),
            (b"\xa0\x80\x02\x01\x7b", "123"),
        ] {
            let identifier = [b"\xa0\x80", local, &[0; 4]].concat();
            assert_eq!(of(b"title", &identifier).as_deref(), Some(expected));
        }
        let long = [b'x'; 700];
        assert_eq!(of(&long, NUMBER).map(|name| name.len()), Some(700));
        let whole = entry(b"a b", NUMBER);
        for length in 0..whole.len() {
            assert_eq!(name(&whole[..length]), None);
        }
    }

    #[test]
    fn damaged_entries_have_no_name_or_another() {
        let mut random = fastrand::Rng::with_seed(crate::support::seed());
        let whole = entry(b"a b", NUMBER);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            let _ = name(&bytes);
        }
        assert_eq!(name(&[0x30, 0x80].repeat(10_000)), None);
    }
}
