//! The name of a sequence from its entry in the headers' file (`.nhr`): the start of an ASN.1 structure in BER.

/// A text: VisibleString of BER with a short or a long length.
fn text_at(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let [0x1a, length, rest @ ..] = bytes else {
        return None;
    };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (number, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (
                number
                    .iter()
                    .fold(0, |value, &byte| value << 8 | usize::from(byte)),
                rest,
            )
        }
        _ => return None,
    };
    let (text, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// The name that `blastn` prints: the first word of the title, or the accession or local name where identifiers were parsed.
/// None if the entry is not one.
pub fn name(entry: &[u8]) -> Option<&str> {
    let entry = entry.strip_prefix(&[0x30, 0x80, 0x30, 0x80])?;
    let (title, rest) = match entry.strip_prefix(&[0xa0, 0x80]) {
        Some(entry) => text_at(entry)?,
        None => ("", entry),
    };
    // The identifiers: the first text in them.
    let at = rest.iter().position(|&byte| byte == 0x1a)?;
    let (identifier, _) = text_at(&rest[at..])?;
    match identifier {
        "BL_ORD_ID" => title.split_whitespace().next(),
        identifier => Some(identifier),
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
        bytes.extend(b"\0\0\xa1\x80\x30\x80\xaa\x80\x30\x80\xa0\x80\x1a");
        bytes.push(identifier.len() as u8);
        bytes.extend_from_slice(identifier);
        bytes
    }

    #[test]
    fn titles_and_identifiers() {
        assert_eq!(name(&entry(b"seq0 title", b"BL_ORD_ID")), Some("seq0"));
        assert_eq!(name(&entry(b"title", b"NM_1234")), Some("NM_1234"));
        let long = [b'x'; 700];
        assert_eq!(name(&entry(&long, b"BL_ORD_ID")).map(str::len), Some(700));
        let whole = entry(b"a b", b"BL_ORD_ID");
        for length in 0..whole.len() {
            assert_eq!(name(&whole[..length]), None);
        }
    }
}
