// SPDX-License-Identifier: Apache-2.0 OR MIT
//! File names: 1 to 255 bytes of UTF-8, and the two buckets that a name may be in.

use block::Device;

use crate::io::{Flags, State};
use crate::layout::SHORT_NAME_BYTES;
use crate::{Error, Volume};

/// The longest name in bytes. A volume with nodes of 256 bytes has names of at most 64:
/// [`Shape::longest_name_bytes`](crate::Shape::longest_name_bytes).
pub const NAME_BYTES: usize = 255;

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
    /// [`Error::BadName`] unless it has 1 to 255 bytes and no NUL.
    pub fn new(name: &str) -> Result<Self, Error> {
        NameRef::new(name).map(NameRef::to_name)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// A borrowed file name. An operation keeps this instead of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameRef<'n>(&'n str);

impl<'n> NameRef<'n> {
    /// Like [`Name::new`].
    #[inline(never)]
    pub(crate) fn new(name: &'n str) -> Result<Self, Error> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > NAME_BYTES || bytes.contains(&0) {
            Err(Error::BadName)
        } else {
            Ok(Self(name))
        }
    }

    pub(crate) fn from_bytes(bytes: &'n [u8]) -> Result<Self, Error> {
        Self::new(core::str::from_utf8(bytes).map_err(|_| Error::BadName)?)
    }

    pub(crate) const fn as_str(self) -> &'n str {
        self.0
    }

    pub(crate) const fn as_bytes(self) -> &'n [u8] {
        self.0.as_bytes()
    }

    /// A copy.
    pub(crate) fn to_name(self) -> Name {
        let name = self.as_bytes();
        let mut bytes = [0; NAME_BYTES];
        if let Some(place) = bytes.get_mut(..name.len()) {
            place.copy_from_slice(name);
        }
        Name {
            bytes,
            len: name.len() as u8,
        }
    }
}

impl<D: Device> Volume<'_, D> {
    /// A name that this volume can have.
    pub(crate) fn checked_name<'n>(&self, name: &'n str) -> Result<NameRef<'n>, Error> {
        if name.len() > self.shape().longest_name_bytes() {
            return Err(Error::BadName);
        }
        NameRef::new(name)
    }
}

impl<D: Device> State<'_, D> {
    /// The current operation will write `name`: its superblock, which is durable before the slot,
    /// says that the volume has such names.
    pub(crate) fn begin_name(&mut self, name: NameRef<'_>) {
        if name.as_bytes().len() > SHORT_NAME_BYTES {
            self.flags.set(Flags::LONG_NAME, true);
        }
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
        let longest = "é".repeat(127) + "x";
        assert_eq!(Name::new(&longest).unwrap().as_str(), longest);
        for bad in ["", &"x".repeat(256), &"x".repeat(300), "a\0b"] {
            assert_eq!(Name::new(bad), Err(Error::BadName));
        }
        assert!(NameRef::from_bytes(&[0xff]).is_err());
    }
}
