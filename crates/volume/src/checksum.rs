// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRC32C (Castagnoli), the one checksum of the format: over nodes, names and data.
//!
//! A node's checksum covers the volume's identity, the node's byte address and the node itself
//! with its checksum field left out, so a block of another volume, from another address or of a
//! torn write does not match it.

use crc::{CRC_32_ISCSI, Crc, Table};

/// 16 bytes per step from 16 KiB of tables; on bare metal one byte per step from 1 KiB.
#[cfg(not(target_os = "none"))]
type Steps = Table<16>;
#[cfg(target_os = "none")]
type Steps = Table<1>;

static CRC32C: Crc<u32, Steps> = Crc::<u32, Steps>::new(&CRC_32_ISCSI);

/// Continues a CRC32C: `crc` is that of the bytes before, 0 at the start. A caller with a faster
/// one (an instruction, a DMA engine) supplies it at mount.
pub type Crc32c = fn(crc: u32, bytes: &[u8]) -> u32;

/// The portable CRC32C, from tables.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // The catalogue's algorithm inverts at both ends and reflects: its initial value is the
    // inverted CRC so far, bit-reversed.
    let mut digest = CRC32C.digest_with_initial((!crc).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// The checksum of the node `bytes` at byte `address`, whose checksum field is at `field`, by a
/// CRC32C.
pub(crate) fn of_node(
    crc32c: Crc32c,
    identity: &[u8],
    address: u64,
    bytes: &[u8],
    field: usize,
) -> u32 {
    let seed = crc32c(crc32c(0, identity), &address.to_le_bytes());
    let (before, rest) = bytes.split_at(field.min(bytes.len()));
    let after = rest.get(4..).unwrap_or_default();
    crc32c(crc32c(seed, before), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_and_continuation() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        for split in 0..9 {
            let (first, second) = b"123456789".split_at(split);
            assert_eq!(crc32c(crc32c(0, first), second), 0xe306_9283);
        }
    }

    #[test]
    fn place_and_identity_matter() {
        let node = [7; 64];
        let here = of_node(crc32c, b"one", 512, &node, 4);
        assert_ne!(here, of_node(crc32c, b"one", 1024, &node, 4));
        assert_ne!(here, of_node(crc32c, b"two", 512, &node, 4));
        let mut other = node;
        other[5] = 0;
        assert_eq!(
            here,
            of_node(crc32c, b"one", 512, &other, 4),
            "the field itself is left out"
        );
    }
}
