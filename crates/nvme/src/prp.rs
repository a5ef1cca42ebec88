//! Physical region pages (NVMe base specification, "PRP Entry and PRP List").
//!
//! PRP1 is where the data starts, at any dword. If the rest fits one more page, PRP2 is that page;
//! otherwise PRP2 points to a list of pages, whose own pages are chained by their last entries.

use block::Error;

use crate::memory::List;
use crate::platform::Dma;

/// The two data pointers of a command for `len` bytes at `address`; `len` is not zero.
///
/// # Errors
/// [`Error::BufferUnreachable`] if a page is not in the controller's reach or not contiguous, or
/// [`Error::TooLarge`] if the list is too short.
#[inline(always)]
pub(crate) fn build<D: Dma>(
    dma: &D,
    address: usize,
    len: usize,
    page_shift: u8,
    list: impl FnOnce() -> Option<List>,
) -> Result<(u64, u64), Error> {
    let page = 1_usize << page_shift;
    let run = dma.bus_run(address, len).ok_or(Error::BufferUnreachable)?;
    let offset = run.address as usize & (page - 1);
    if run.contiguous_bytes >= len {
        if offset + len <= page {
            return Ok((run.address, 0));
        }
        let second = run.address - offset as u64 + page as u64;
        if offset + len <= 2 * page {
            return Ok((run.address, second));
        }
        let list = list().ok_or(Error::TooLarge)?;
        let count = (offset + len - 1) >> page_shift;
        contiguous(run.address, second, count, page, list)
    } else {
        let list = list().ok_or(Error::TooLarge)?;
        scattered(dma, address, len, page, list)
    }
}

/// A list of `count` pages from `second` on.
#[inline]
fn contiguous(
    first: u64,
    second: u64,
    count: usize,
    page: usize,
    mut list: List,
) -> Result<(u64, u64), Error> {
    if count <= page / 8 {
        if !list.fill(count, second, page as u64) {
            return Err(Error::TooLarge);
        }
    } else {
        let mut chain = Chain::new(list, page, count);
        for index in 0..count {
            chain.push(second + (index * page) as u64)?;
        }
    }
    Ok((first, list.bus))
}

/// A list of pages that may lie anywhere.
#[cold]
fn scattered<D: Dma>(
    dma: &D,
    address: usize,
    len: usize,
    page: usize,
    list: List,
) -> Result<(u64, u64), Error> {
    let locate = |address: usize, len: usize| {
        let run = dma.bus_run(address, len).ok_or(Error::BufferUnreachable)?;
        if run.contiguous_bytes < len {
            return Err(Error::BufferUnreachable);
        }
        Ok(run.address)
    };
    let first_len = (page - (address & (page - 1))).min(len);
    let first = locate(address, first_len)?;
    let rest = len - first_len;
    let count = rest.div_ceil(page);
    // Bus and virtual addresses agree within a page of the platform's; a controller with larger
    // pages than that cannot use memory whose offsets differ.
    let aligned = |bus: u64| {
        if bus as usize & (page - 1) == 0 {
            Ok(bus)
        } else {
            Err(Error::BufferUnreachable)
        }
    };
    if first as usize & (page - 1) != address & (page - 1) {
        return Err(Error::BufferUnreachable);
    }
    let at = |index: usize| {
        let done = index * page;
        aligned(locate(address + first_len + done, page.min(rest - done))?)
    };
    if count == 1 {
        return Ok((first, at(0)?));
    }
    let mut chain = Chain::new(list, page, count);
    for index in 0..count {
        chain.push(at(index)?)?;
    }
    Ok((first, list.bus))
}

/// A list written entry by entry, chained at each page's last entry while more than one is left.
struct Chain {
    list: List,
    per_page: usize,
    page: usize,
    at: usize,
    left: usize,
}

impl Chain {
    fn new(list: List, page: usize, left: usize) -> Self {
        Self {
            list,
            per_page: page / 8,
            page,
            at: 0,
            left,
        }
    }

    fn push(&mut self, entry: u64) -> Result<(), Error> {
        if self.at % self.per_page == self.per_page - 1 && self.left > 1 {
            let next_page = self.at / self.per_page + 1;
            let pointer = self.list.bus + (next_page * self.page) as u64;
            self.write(pointer)?;
        }
        self.left -= 1;
        self.write(entry)
    }

    fn write(&mut self, value: u64) -> Result<(), Error> {
        if !self.list.write(self.at, value) {
            return Err(Error::TooLarge);
        }
        self.at += 1;
        Ok(())
    }
}
