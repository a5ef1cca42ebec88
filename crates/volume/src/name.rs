//! File names: 1 to 64 bytes of UTF-8, and the two buckets that a name may live in.

use crate::layout::Shape;
use crate::{Error, checksum};

/// The longest name in bytes.
pub const NAME_BYTES: usize = 64;

/// A file's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    len: u8,
}

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::BadName`] unless it has 1 to 64 bytes and no NUL.
    pub fn new(name: &str) -> Result<Self, Error> {
        let mut bytes = [0; NAME_BYTES];
        match bytes.get_mut(..name.len()) {
            Some(place) if !name.is_empty() && !name.contains('\0') => {
                place.copy_from_slice(name.as_bytes());
                Ok(Self {
                    bytes,
                    len: name.len() as u8,
                })
            }
            _ => Err(Error::BadName),
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::new(core::str::from_utf8(bytes).map_err(|_| Error::BadName)?)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The two buckets, from the low and the high half of the name's CRC32C; they may be one.
    pub(crate) fn buckets(&self, shape: &Shape) -> [u32; 2] {
        let hash = checksum::crc32c(0, self.as_bytes());
        let mask = (1u32 << shape.buckets_log2) - 1;
        [hash & mask, (hash >> 16) & mask]
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_name() {
        let longest = "é".repeat(32);
        assert_eq!(Name::new(&longest).unwrap().as_str(), longest);
        for bad in ["", &"x".repeat(65), "a\0b"] {
            assert_eq!(Name::new(bad), Err(Error::BadName));
        }
        assert_eq!(Name::from_bytes(&[0xff]), Err(Error::BadName));
    }
}
