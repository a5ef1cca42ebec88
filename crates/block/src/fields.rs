// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers in bytes that a device, a peer or a file delivered, without panics.
//!
//! At offsets, as in a page or a node: little-endian; a field past the end reads as zero and is not
//! written. One after the other, as in a message: [`Fields`].

/// The bytes of the field at an offset; zeros if it is past the end.
#[inline]
pub fn array_at<const LEN: usize>(bytes: &[u8], offset: usize) -> [u8; LEN] {
    let field = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    field.copied().unwrap_or([0; LEN])
}

/// The byte at an offset.
#[inline]
pub fn u8_at(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

/// The 16 bits at an offset.
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

/// The 32 bits at an offset.
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// The 64 bits at an offset.
#[inline]
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// The 128 bits at an offset.
#[inline]
pub fn u128_at(bytes: &[u8], offset: usize) -> u128 {
    u128::from_le_bytes(array_at(bytes, offset))
}

/// Writes a field at an offset, if all of it is within the bytes.
#[inline]
pub fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + field.len()) {
        place.copy_from_slice(field);
    }
}

/// Fields one after the other: each call takes one from the front. `None`: the rest is shorter, and
/// stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'b>(pub &'b [u8]);

impl<'b> Fields<'b> {
    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    /// The next `LEN` bytes.
    pub fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// The next 16 bits, little-endian.
    pub fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next 32 bits, little-endian.
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 64 bits, little-endian.
    pub fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next 16 bits, big-endian.
    pub fn u16_be(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 32 bits, big-endian.
    pub fn u32_be(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 64 bits, big-endian.
    pub fn u64_be(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits, little-endian, and as many bytes.
    pub fn counted_le(&mut self) -> Option<&'b [u8]> {
        let len = self.u32_le()?;
        self.bytes(len.try_into().ok()?)
    }

    /// A length of 32 bits, big-endian, and as many bytes.
    pub fn counted_be(&mut self) -> Option<&'b [u8]> {
        let len = self.u32_be()?;
        self.bytes(len.try_into().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_past_the_end_is_zero_and_is_not_written() {
        let mut bytes = [1, 2, 3, 4, 5];
        assert_eq!(u32_at(&bytes, 1), 0x0504_0302);
        assert_eq!(
            (u32_at(&bytes, 2), u16_at(&bytes, 5), u8_at(&bytes, 5)),
            (0, 0, 0)
        );
        assert_eq!((u64_at(&bytes, 0), array_at::<2>(&bytes, 9)), (0, [0; 2]));
        put(&mut bytes, 3, &[9, 9]);
        put(&mut bytes, 4, &[7, 7]);
        assert_eq!(bytes, [1, 2, 3, 9, 9]);
    }

    #[test]
    fn a_field_that_is_too_long_is_not_taken() {
        let mut fields = Fields(&[0, 1, 2, 0, 0, 0, 7, 8, 9]);
        assert_eq!(fields.u16_be(), Some(1));
        assert_eq!(fields.u64_le(), None);
        assert_eq!(fields.counted_le(), Some(&[7, 8][..]));
        assert_eq!((fields.u16_le(), fields.array()), (None, Some([9])));
        assert!(fields.0.is_empty() && fields.bytes(0).is_some());
        assert_eq!(Fields(&[0, 0, 0, 2, 1]).counted_be(), None);
    }
}
