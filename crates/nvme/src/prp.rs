// SPDX-License-Identifier: Apache-2.0 OR MIT
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
/// [`Error::BufferUnreachable`] if the controller cannot reach a page or it is not contiguous, or
/// [`Error::TooLarge`] if the list is too short.
pub(crate) fn build<D: Dma>(
    dma: &D,
    address: usize,
    len: usize,
    page_shift: u8,
    list: impl FnOnce() -> Option<List>,
) -> Result<(u64, u64), Error> {
    let run = dma.bus_run(address, len).ok_or(Error::BufferUnreachable)?;
    let page = 1_usize << page_shift;
    let offset = run.address as usize & (page - 1);
    if run.contiguous_bytes >= len && offset + len <= page {
        return Ok((run.address, 0));
    }
    if run.contiguous_bytes >= len {
        contiguous(run.address, offset, len, page_shift, list())
    } else {
        scattered(dma, address, len, page, list())
    }
}

/// The pages after the first of a range that is contiguous on the bus.
fn contiguous(
    first: u64,
    offset: usize,
    len: usize,
    page_shift: u8,
    list: Option<List>,
) -> Result<(u64, u64), Error> {
    let page = 1_usize << page_shift;
    let second = first - offset as u64 + page as u64;
    if offset + len <= 2 * page {
        return Ok((first, second));
    }
    let mut list = list.ok_or(Error::TooLarge)?;
    let count = (offset + len - 1) >> page_shift;
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

/// A list of pages at arbitrary addresses.
#[inline(never)]
fn scattered<D: Dma>(
    dma: &D,
    address: usize,
    len: usize,
    page: usize,
    list: Option<List>,
) -> Result<(u64, u64), Error> {
    let list = list.ok_or(Error::TooLarge)?;
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

#[cfg(test)]
mod tests {
    //! Property tests: what a controller finds by walking the pointers is, byte for byte, what a
    //! naive translation of the buffer gives.

    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    use block::Buffer;

    use super::*;
    use crate::layout::list_bytes;
    use crate::memory::{Part, Shared};
    use crate::platform::{BusRun, LinearDma};

    /// Memory of `1 << page_shift`-byte pages anywhere on the bus.
    struct Scattered {
        start: usize,
        page_shift: u8,
        pages: Vec<u64>,
    }

    // SAFETY: nothing is read or written through these addresses; the test only computes with them.
    #[allow(unsafe_code)]
    unsafe impl Dma for Scattered {
        fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
            let paged = crate::platform::PagedDma {
                start: self.start,
                page_shift: self.page_shift,
                bus_pages: &self.pages,
            };
            paged.run(address, len)
        }
    }

    // SAFETY: as above.
    #[allow(unsafe_code)]
    unsafe impl Dma for LinearDma {
        fn bus_run(&self, address: usize, len: usize) -> Option<BusRun> {
            self.run(address, len)
        }
    }

    /// List memory whose bus address is its virtual one.
    fn list_part(max_transfer: usize, page: usize) -> Part {
        let len = list_bytes(max_transfer, page).max(page);
        let memory = vec![0_u8; len + page].leak();
        let misaligned = memory.as_ptr() as usize & (page - 1);
        let (_, buffer) = Buffer::from_static(memory).split_at(page - misaligned);
        let (buffer, _) = buffer.split_at(len);
        let linear = LinearDma {
            start: buffer.address(),
            len,
            bus_start: buffer.address() as u64,
        };
        Shared::new(buffer, &linear, page)
            .unwrap()
            .take(len)
            .unwrap()
    }

    /// The ranges of bus memory that a controller would use, from the two pointers.
    fn walk(prp1: u64, prp2: u64, len: usize, page: usize, list: &Part) -> Vec<(u64, usize)> {
        let read = |bus: u64| {
            let offset = (bus - list.bus) as usize;
            let word = |offset| u64::from(list.word(offset).unwrap().read());
            word(offset) | word(offset + 4) << 32
        };
        let first = (page - (prp1 as usize & (page - 1))).min(len);
        let mut runs = vec![(prp1, first)];
        let mut rest = len - first;
        if rest == 0 {
            return runs;
        }
        if rest <= page {
            runs.push((prp2, rest));
            return runs;
        }
        let mut at = prp2;
        while rest > 0 {
            let last_of_page = (at as usize + 8) & (page - 1) == 0;
            if last_of_page && rest > page {
                at = read(at);
                assert_eq!(
                    at as usize & (page - 1),
                    0,
                    "a chained list starts at a page"
                );
            }
            let bus = read(at);
            assert_eq!(bus as usize & (page - 1), 0, "a list entry has no offset");
            runs.push((bus, rest.min(page)));
            rest -= rest.min(page);
            at += 8;
        }
        runs
    }

    fn check<D: Dma>(dma: &D, address: usize, len: usize, page_shift: u8, max: usize) {
        let page = 1 << page_shift;
        let stride = list_bytes(max, page);
        let part = list_part(max, page);
        let list = || List::of_slot(&part, 0, stride);
        let (prp1, prp2) = build(dma, address, len, page_shift, list).unwrap();
        let mut at = address;
        for (bus, run) in walk(prp1, prp2, len, page, &part) {
            for offset in (0..run).step_by(4) {
                let naive = dma.bus_run(at + offset, 1).unwrap().address;
                assert_eq!(naive, bus + offset as u64, "byte {}", at + offset - address);
            }
            at += run;
        }
        assert_eq!(at, address + len);
    }

    fn random() -> fastrand::Rng {
        let given = std::env::var("STRAIGHTWAY_SEED")
            .ok()
            .and_then(|s| s.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        std::println!("STRAIGHTWAY_SEED={seed}");
        fastrand::Rng::with_seed(seed)
    }

    #[test]
    fn pointers_agree_with_a_naive_walk() {
        let mut random = random();
        for _ in 0..400 {
            let page_shift = random.u8(12..=14);
            let max = 1_usize << random.u8(12..=23);
            let pages = (max >> page_shift) + 2;
            let mut numbers: Vec<u64> = (0..2 * pages as u64).collect();
            random.shuffle(&mut numbers);
            let base = 1_u64 << 40;
            let bus = numbers.iter().map(|number| base + (number << page_shift));
            let scattered = Scattered {
                start: 0x7000_0000,
                page_shift,
                pages: bus.take(pages).collect(),
            };
            let len = random.usize(1..=max / 512) * 512;
            let offset = random.usize(0..1 << (page_shift - 2)) * 4;
            check(&scattered, scattered.start + offset, len, page_shift, max);
            let linear = LinearDma {
                start: 0x7000_0000,
                len: pages << page_shift,
                bus_start: 0x12_3400_0000,
            };
            check(&linear, linear.start + offset, len, page_shift, max);
        }
    }

    #[test]
    fn memory_out_of_reach_and_short_lists_are_refused() {
        let part = list_part(8192, 4096);
        let linear = LinearDma {
            start: 0x10_0000,
            len: 1 << 20,
            bus_start: 0x40_0000,
        };
        let list = || List::of_slot(&part, 0, 64);
        let outside = build(&linear, 0x10_0000, (1 << 20) + 512, 12, list);
        assert_eq!(outside, Err(Error::BufferUnreachable));
        assert_eq!(
            build(&linear, 0x10_0000, 1 << 17, 12, list),
            Err(Error::TooLarge)
        );
        assert_eq!(
            build(&linear, 0x10_0000, 4096, 12, || None),
            Ok((0x40_0000, 0))
        );
        let boxed: Box<[u64]> = Box::new([0x1000, 0x9800]);
        let offsets_differ = Scattered {
            start: 0x10_0000,
            page_shift: 12,
            pages: boxed.into_vec(),
        };
        let refused = build(&offsets_differ, 0x10_0000, 8192, 12, list);
        assert_eq!(refused, Err(Error::BufferUnreachable));
    }
}
