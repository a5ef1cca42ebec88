// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fixed table of what is in progress, and rings of its indices.

/// A ring of up to `N` indices.
#[derive(Debug)]
pub struct Ring<const N: usize> {
    entries: [u16; N],
    first: usize,
    count: usize,
}

impl<const N: usize> Ring<N> {
    /// An empty ring.
    pub const fn new() -> Self {
        Self {
            entries: [0; N],
            first: 0,
            count: 0,
        }
    }

    /// How many it holds.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Appends an index. Each index is in a ring at most once, so there is always room.
    pub fn push(&mut self, index: usize) {
        debug_assert!(self.count < N);
        if let Some(entry) = self.entries.get_mut((self.first + self.count) % N) {
            *entry = index as u16;
            self.count += 1;
        }
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let entry = self.entries.get(self.first).copied();
        self.first = (self.first + 1) % N;
        entry.map(usize::from)
    }
}

/// Goes on with what waits on a device, oldest first: `advance` is false for what still waits.
pub fn advance_all<D, const N: usize>(
    device: &mut D,
    waiting: impl Fn(&mut D) -> &mut Ring<N>,
    advance: impl Fn(&mut D, usize) -> bool,
    submitted: impl Fn(&mut D, usize),
) {
    for _ in 0..waiting(device).len() {
        match waiting(device).pop() {
            Some(index) if advance(device, index) => submitted(device, index),
            Some(index) => waiting(device).push(index),
            None => return,
        }
    }
}

/// Up to `N` entries with stable indices.
#[derive(Debug)]
pub struct Table<T, const N: usize> {
    entries: [Option<T>; N],
    free: Ring<N>,
}

impl<T, const N: usize> Table<T, N> {
    /// An empty table.
    pub fn new() -> Self {
        let mut free = Ring::new();
        (0..N).for_each(|index| free.push(index));
        Self {
            entries: [const { None }; N],
            free,
        }
    }

    /// How many entries it holds.
    pub const fn len(&self) -> usize {
        N - self.free.len()
    }

    /// Stores an entry, or gives it back if the table is full.
    #[allow(clippy::result_large_err)]
    pub fn insert(&mut self, entry: T) -> Result<usize, T> {
        let Some(index) = self.free.pop() else {
            return Err(entry);
        };
        if let Some(place) = self.entries.get_mut(index) {
            *place = Some(entry);
        }
        Ok(index)
    }

    /// The entry at `index`.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.as_mut()
    }

    /// Removes the entry at `index`.
    pub fn take(&mut self, index: usize) -> Option<T> {
        let entry = self.entries.get_mut(index)?.take();
        if entry.is_some() {
            self.free.push(index);
        }
        entry
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }
}
