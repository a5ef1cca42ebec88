// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that the driver needs, as const functions: the caller provides it.

/// Bytes of a submission queue entry (CC.IOSQES = 6).
pub(crate) const SUBMISSION_ENTRY_BYTES: usize = 64;
/// Bytes of a completion queue entry (CC.IOCQES = 4).
pub(crate) const COMPLETION_ENTRY_BYTES: usize = 16;
/// Entries in each of the two admin queues.
pub(crate) const ADMIN_ENTRIES: u32 = 16;

/// Pages of [`controller_memory_bytes`]: admin submission queue, admin completion queue, data,
/// shadow doorbells, event indices.
const CONTROLLER_PAGES: usize = 5;

/// Memory for a controller with pages of `page_bytes`: contiguous on the bus, aligned to a page.
pub const fn controller_memory_bytes(page_bytes: usize) -> usize {
    CONTROLLER_PAGES * page_bytes
}

/// The same with
/// [`ControllerOptions::shadow_doorbells`](crate::ControllerOptions::shadow_doorbells) off.
pub const fn controller_memory_bytes_without_shadows(page_bytes: usize) -> usize {
    (CONTROLLER_PAGES - 2) * page_bytes
}

/// Memory for an I/O queue pair: contiguous on the bus, aligned to a page.
///
/// `depth` commands may be outstanding, each up to `max_transfer_bytes` long. Each ring has twice
/// `depth` entries: so the submission ring is never full, and the completion doorbell can wait
/// until `depth` entries have been consumed.
pub const fn queue_memory_bytes(
    depth: usize,
    max_transfer_bytes: usize,
    page_bytes: usize,
) -> usize {
    let entries = ring_entries(depth);
    round_up(entries * SUBMISSION_ENTRY_BYTES, page_bytes)
        + round_up(entries * COMPLETION_ENTRY_BYTES, page_bytes)
        + round_up(
            depth * list_bytes(max_transfer_bytes, page_bytes),
            page_bytes,
        )
}

/// Entries of each ring of a queue pair with `depth` commands outstanding.
pub(crate) const fn ring_entries(depth: usize) -> usize {
    2 * depth
}

/// Bytes of PRP list that one command may need, a power of two or whole pages, at least 64.
///
/// The first PRP entry is in the command; the list holds one entry for each page after it, and
/// where it fills more than a page, the last entry of each page points to the next.
pub(crate) const fn list_bytes(max_transfer_bytes: usize, page_bytes: usize) -> usize {
    let entries = max_transfer_bytes.div_ceil(page_bytes);
    let per_page = page_bytes / 8;
    if entries <= per_page {
        let bytes = entries * 8;
        if bytes <= 64 {
            64
        } else {
            bytes.next_power_of_two()
        }
    } else {
        (entries - 1).div_ceil(per_page - 1) * page_bytes
    }
}

pub(crate) const fn round_up(value: usize, step: usize) -> usize {
    value.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_never_cross_a_page_unless_they_are_whole_pages() {
        for shift in 9..26 {
            let bytes = list_bytes(1 << shift, 4096);
            assert!(bytes >= 64);
            assert!(4096 % bytes == 0 || bytes % 4096 == 0, "{bytes}");
        }
        assert_eq!(list_bytes(4096, 4096), 64);
        assert_eq!(list_bytes(128 << 10, 4096), 256);
        assert_eq!(list_bytes(2 << 20, 4096), 4096);
        // 513 entries: 511 and a pointer in the first page, 2 in the second.
        assert_eq!(list_bytes((2 << 20) + 4096, 4096), 2 * 4096);
    }

    #[test]
    fn a_queue_of_64_with_128_kib_transfers_needs_seven_pages() {
        assert_eq!(queue_memory_bytes(64, 128 << 10, 4096), 7 * 4096);
    }
}
