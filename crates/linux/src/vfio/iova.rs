// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The usable bus addresses behind an IOMMU: `VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`.
//!
//! The kernel's list already excludes addresses that are too wide for the IOMMU and the window for
//! message-signalled interrupts.

const CAP_IOVA_RANGE: u16 = 1;
/// A valid list has fewer capabilities and ranges than this.
const MAX_ENTRIES: usize = 256;
/// Bus addresses start here: address 0 is that of an uninitialised pointer, and alignment to huge
/// pages lets the IOMMU use them.
const ALIGN: u64 = 2 << 20;
/// If the kernel gives no list (before 5.4): what every IOMMU reaches, without x86's MSI window.
const FALLBACK: [(u64, u64); 2] = [(0, 0xfedf_ffff), (0xfef0_0000, (1 << 32) - 1)];

/// First and last address of each usable range, lowest first.
pub(crate) fn usable_ranges(info: &[u8]) -> Vec<(u64, u64)> {
    let mut ranges = parse(info).unwrap_or_else(|| FALLBACK.to_vec());
    ranges.sort_unstable();
    ranges
}

/// `info` is `struct vfio_iommu_type1_info` (argsz, flags, iova_pgsizes, cap_offset, pad) and the
/// capabilities after it, each with a header (id, version, next).
fn parse(info: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut at = read32(info, 16)? as usize;
    for _ in 0..MAX_ENTRIES {
        if at == 0 {
            return None;
        }
        if read16(info, at)? == CAP_IOVA_RANGE {
            let count = (read32(info, at.checked_add(8)?)? as usize).min(MAX_ENTRIES);
            let range = |index: usize| {
                let at = at.checked_add(16 + 16 * index)?;
                Some((read64(info, at)?, read64(info, at + 8)?))
            };
            return (0..count).map(range).collect();
        }
        at = read32(info, at.checked_add(4)?)? as usize;
    }
    None
}

fn read16(info: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

fn read32(info: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

fn read64(info: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

/// The lowest address for `len` bytes in the usable ranges that overlaps none of `taken` (each a
/// start and a length).
pub(crate) fn place(usable: &[(u64, u64)], taken: &[(u64, u64)], len: u64) -> Option<u64> {
    for &(first, last) in usable {
        let mut start = first.max(ALIGN).checked_next_multiple_of(ALIGN)?;
        // Each iteration moves past one of the taken ranges, so there is at most one more than
        // those.
        for _ in 0..=taken.len() {
            let end = start.checked_add(len)?;
            if end - 1 > last {
                break;
            }
            let in_the_way = taken
                .iter()
                .find(|(other, other_len)| start < other + other_len && *other < end);
            match in_the_way {
                None => return Some(start),
                Some((other, other_len)) => {
                    start = (other + other_len).checked_next_multiple_of(ALIGN)?;
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of Linux 6.1 for a 39-bit Intel IOMMU, with another capability in front.
    fn info(ranges: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(512u32.to_ne_bytes());
        bytes.extend(3u32.to_ne_bytes());
        bytes.extend(0x4020_1000u64.to_ne_bytes());
        bytes.extend(24u32.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        // VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, version 1, next at 40.
        bytes.extend([3, 0, 1, 0]);
        bytes.extend(40u32.to_ne_bytes());
        bytes.extend(65535u64.to_ne_bytes());
        bytes.extend([1, 0, 1, 0]);
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend((ranges.len() as u64).to_ne_bytes());
        for (first, last) in ranges {
            bytes.extend(first.to_ne_bytes());
            bytes.extend(last.to_ne_bytes());
        }
        bytes
    }

    const X86: [(u64, u64); 2] = [(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)];

    #[test]
    fn ranges_are_found_behind_other_capabilities() {
        assert_eq!(usable_ranges(&info(&X86)), X86);
        assert_eq!(usable_ranges(&[]), FALLBACK);
    }

    #[test]
    fn a_list_that_is_cut_or_runs_in_a_circle_is_not_followed() {
        let whole = info(&X86);
        for len in 0..whole.len() {
            assert_eq!(usable_ranges(&whole[..len]), FALLBACK, "{len}");
        }
        let mut circle = whole.clone();
        circle[28..32].copy_from_slice(&24u32.to_ne_bytes());
        assert_eq!(usable_ranges(&circle), FALLBACK);
        let mut outside = whole;
        outside[16..20].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(usable_ranges(&outside), FALLBACK);
    }

    #[test]
    fn memory_is_placed_low_and_around_the_interrupts_window() {
        assert_eq!(place(&X86, &[], 4096), Some(ALIGN));
        assert_eq!(place(&X86, &[(ALIGN, 4096)], 4096), Some(2 * ALIGN));
        // Does not fit below the window.
        assert_eq!(place(&X86, &[], 0xfee0_0000), Some(0xff00_0000));
        assert_eq!(place(&X86, &[], 0xfec0_0000), Some(ALIGN));
        // Does not fit in 39 bits.
        assert_eq!(place(&X86, &[], 1 << 39), None);
        assert_eq!(place(&X86, &[], u64::MAX), None);
        assert_eq!(place(&[], &[], 1), None);
    }
}
