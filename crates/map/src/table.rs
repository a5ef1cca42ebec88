// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation table of a volume's file for the window of `rtl/smmu` (its README, "Tables and
//! contexts"): hardware reads the file by loads, with no software on the way.

use block::Device;
use std::fmt;
use std::ops::RangeInclusive;
use volume::{FileExtent, Volume, blocking};

/// Sizes of pages that the hardware has.
const PAGE_BYTES: RangeInclusive<u64> = 4 << 10..=64 << 10;
/// Pages that its largest window of 4 KiB pages has.
const MOST_PAGES: u64 = 1 << 28;
const ON_DRIVE: u32 = 1 << 30;
const WRITABLE: u32 = 1 << 29;
/// A page's number on the drive has the bits below.
const MOST_NUMBERS: u64 = 1 << 29;

/// Why a file has no table. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// The volume or its device.
    Volume(volume::Error),
    /// The hardware has no pages of this size, or the device's blocks are larger.
    PageSize(u64),
    /// A window has at least a page.
    Empty,
    /// Stores of hardware would leave the checksums as they were.
    Checksums,
    /// The file's page there is not a page of the device.
    Unaligned {
        /// First byte of the page in the file.
        offset_bytes: u64,
    },
    /// The file has more pages than a window, or one of them lies where no entry reaches.
    TooFar,
    /// No memory for the table.
    Memory(u64),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(error) => error.fmt(f),
            Self::PageSize(value) => write!(
                f,
                "pages of {value} bytes: the window has 4, 8, 16, 32 or 64 KiB, at least a block of the device"
            ),
            Self::Empty => f.write_str("the file is empty"),
            Self::Checksums => f.write_str("the file has checksums, so it is mapped to read only"),
            Self::Unaligned { offset_bytes } => write!(
                f,
                "the page at byte {offset_bytes} of the file does not begin at a page of the device, or is not whole"
            ),
            Self::TooFar => f.write_str(
                "the file has more than 2^28 pages, or one after the device's first 2^29",
            ),
            Self::Memory(value) => write!(f, "no memory for {value} entries"),
        }
    }
}

impl From<volume::Error> for TableError {
    fn from(error: volume::Error) -> Self {
        Self::Volume(error)
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Volume(error) => error.source(),
            _ => None,
        }
    }
}

/// The table of the file `name` with pages of `page_bytes`: an entry for each page, which hardware
/// reads as words, little-endian. A context's last page is the number of entries less 1. With
/// `writable` the pages may be stored to.
///
/// The table holds while the file is neither changed nor removed. In the last page, the bytes after
/// the file's end are what the device has there.
///
/// # Errors
/// [`TableError`].
pub fn window_table<D: Device>(
    volume: &Volume<'_, D>,
    name: &str,
    page_bytes: u64,
    writable: bool,
) -> Result<Vec<u32>, TableError> {
    let block_bytes = volume.geometry().block_size_bytes() as u64;
    if !PAGE_BYTES.contains(&page_bytes)
        || !page_bytes.is_power_of_two()
        || page_bytes < block_bytes
    {
        return Err(TableError::PageSize(page_bytes));
    }
    let entry = blocking::run(volume, volume.find(name))?;
    if writable && entry.checksums {
        return Err(TableError::Checksums);
    }
    let pages = entry.size_bytes.div_ceil(page_bytes);
    match pages {
        0 => return Err(TableError::Empty),
        1..=MOST_PAGES => {}
        _ => return Err(TableError::TooFar),
    }
    let mut table = Vec::new();
    table
        .try_reserve_exact(pages as usize)
        .map_err(|_| TableError::Memory(pages))?;
    let flags = if writable {
        ON_DRIVE | WRITABLE
    } else {
        ON_DRIVE
    };
    let mut result = Ok(());
    let extents = volume.extents(name, |extent| {
        let missing = pages - table.len() as u64;
        match numbers(&extent, table.len() as u64, page_bytes, block_bytes) {
            Ok(numbers) => {
                let numbers = numbers.take(missing as usize);
                table.extend(numbers.map(|number| flags | number as u32));
            }
            Err(error) => result = Err(error),
        }
        result.is_ok() && (table.len() as u64) < pages
    });
    blocking::run(volume, extents)?;
    result?;
    let offset_bytes = table.len() as u64 * page_bytes;
    if (table.len() as u64) < pages {
        return Err(TableError::Unaligned { offset_bytes });
    }
    Ok(table)
}

/// The numbers of the pages that an extent begins with, of which the first is `page` in the file.
fn numbers(
    extent: &FileExtent,
    page: u64,
    page_bytes: u64,
    block_bytes: u64,
) -> Result<std::ops::Range<u64>, TableError> {
    let start_bytes = extent.lba * block_bytes;
    let offset_bytes = page * page_bytes;
    if extent.offset_bytes != offset_bytes || start_bytes % page_bytes != 0 {
        return Err(TableError::Unaligned { offset_bytes });
    }
    let first = start_bytes / page_bytes;
    let end = first + extent.block_count * block_bytes / page_bytes;
    match end {
        0..=MOST_NUMBERS => Ok(first..end),
        _ => Err(TableError::TooFar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_no_entry_reaches_are_refused() {
        let of = |lba, block_count| {
            let extent = FileExtent {
                offset_bytes: 0,
                lba,
                block_count,
            };
            numbers(&extent, 0, 4096, 512)
        };
        let last = ((1 << 29) - 1) * 8;
        assert_eq!(of(last, 8), Ok((1 << 29) - 1..1 << 29));
        assert_eq!(of(last, 16), Err(TableError::TooFar));
        assert_eq!(of(last + 8, 8), Err(TableError::TooFar));
        // The rest of an extent is part of no page.
        assert_eq!(of(0, 15), Ok(0..1));
    }
}
