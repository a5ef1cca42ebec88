// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supplies what a transfer waits for: space, the map, room for checksums. Also handles a lack of
//! space: give back what is unused, then retry.

use core::future::{Future, poll_fn};
use core::task::Poll;

use block::Device;

use crate::file::{self, File};
use crate::layout::CHUNK_BYTES;
use crate::transfer::Need;
use crate::{Error, Volume};

/// Buckets that are added for one name: many names may have the same two on purpose.
const MOST_SPLITS: u32 = 256;

impl<D: Device> Volume<'_, D> {
    /// Whether the slot table has grown past the one that the format made.
    fn has_grown(&self) -> bool {
        self.state().superblock.table_unit.is_some()
    }

    /// Whether a table that has grown is to grow again, so that most names have a slot at once.
    #[cfg(feature = "grow")]
    fn is_crowded(&self) -> bool {
        let usage = self.known_usage();
        let is_full = |files: u32| u64::from(files) * 8 >= u64::from(self.slots()) * 7;
        self.has_grown() && usage.is_some_and(|usage| is_full(usage.files))
    }

    /// Supplies what an append, a read or an overwrite of `file` needs before it can continue.
    /// Data keeps flowing in the meantime, and nothing is committed.
    ///
    /// # Errors
    /// Those of [`Volume::reserve_ahead`], [`Volume::prepare`] and [`Volume::store_checksums`];
    /// [`Error::AppendFailed`] if there will be no room for checksums before a failed append is
    /// retried or discarded.
    pub async fn provide(&self, file: File, need: Need) -> Result<(), Error> {
        match need {
            Need::Space(bytes) => self.reserve_ahead(file, bytes, bytes).await.map(|_| ()),
            Need::MapAhead => self.prepare_append(file).await,
            Need::MapAt(offset) => self.prepare(file, offset).await,
            Need::ChecksumRoom => {
                self.settle_checksums(file).await?;
                self.store_checksums(file).await
            }
        }
    }

    /// Waits until a checksum can be stored, which is impossible for data in flight.
    fn settle_checksums(&self, file: File) -> impl Future<Output = Result<(), Error>> {
        poll_fn(move |_| {
            let mut state = self.state();
            let open = match file::find(state.files, file) {
                Ok(open) => open,
                Err(error) => return Poll::Ready(Err(error)),
            };
            if open.completed / CHUNK_BYTES > open.first_sum {
                Poll::Ready(Ok(()))
            } else if open.appends_in_flight() {
                Poll::Pending
            } else if open.has_failed() {
                Poll::Ready(Err(Error::AppendFailed))
            } else {
                Poll::Ready(Ok(()))
            }
        })
    }

    /// Reserves space until `want_bytes` can be appended, and returns how many can. If there is
    /// less space, at least `least_bytes` is enough; if there is not even that, unused space is
    /// first given back, as [`Volume::reclaim_all`] does.
    ///
    /// # Errors
    /// Those of [`Volume::reserve`] and [`Volume::reclaim`].
    pub async fn reserve_ahead(
        &self,
        file: File,
        want_bytes: u64,
        least_bytes: u64,
    ) -> Result<u64, Error> {
        let mut want = want_bytes.max(least_bytes);
        let mut has_reclaimed = false;
        // At most 64 halvings, twice.
        loop {
            let error = match self.reserve(file, want).await {
                Err(error @ (Error::NoSpace | Error::MapFull)) => error,
                result => return result,
            };
            // What was reserved before space ran out stays reserved.
            let reserved = self.file_status(file)?.reserved_bytes;
            if reserved >= least_bytes {
                return Ok(reserved);
            }
            // A request for more than the volume has is refused as a whole.
            if want / 2 >= least_bytes.max(1) {
                want /= 2;
                continue;
            }
            if has_reclaimed || error == Error::MapFull {
                return Err(error);
            }
            self.reclaim_all().await?;
            (has_reclaimed, want) = (true, want_bytes.max(least_bytes));
        }
    }

    /// Runs `attempt`; if it lacks space or a slot, gives back what is unused, like
    /// [`Volume::reclaim_all`], and runs it again. With the feature `grow`, if it lacks a slot
    /// then, [`Volume::grow_table`] adds some; a table that has grown keeps an eighth of its slots
    /// free.
    ///
    /// # Errors
    /// The attempt's, or those of [`Volume::reclaim`] and [`Volume::grow_table`].
    pub async fn with_space<T, F: Future<Output = Result<T, Error>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let mut has_reclaimed = false;
        let mut splits = 0;
        #[cfg(feature = "grow")]
        if self.has_grown() {
            let split = self.finish_split().await;
            let grown = match split {
                Ok(()) if self.is_crowded() => self.grow_table().await,
                split => split,
            };
            match grown {
                Ok(()) | Err(Error::NoSpace | Error::TableFull) => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let error = match attempt().await {
                Err(error @ (Error::NoSpace | Error::TableFull)) => error,
                result => return result,
            };
            let lacks_slot = cfg!(feature = "grow") && error == Error::TableFull;
            // A sweep of a large table for each name would cost more than a bucket.
            let grows_first = lacks_slot && self.has_grown();
            if !(has_reclaimed || grows_first) {
                has_reclaimed = true;
                self.reclaim_all().await?;
            } else if lacks_slot && splits < MOST_SPLITS {
                splits += 1;
                #[cfg(feature = "grow")]
                self.grow_table().await?;
            } else {
                return Err(error);
            }
        }
    }

    /// Gives back the units of every removed file, and the reservations of writers that never
    /// closed their file: [`Volume::reclaim`] over all slots.
    ///
    /// # Errors
    /// Those of [`Volume::reclaim`].
    pub async fn reclaim_all(&self) -> Result<(), Error> {
        let mut from = Some(0);
        // Each iteration passes slots or frees units, so the loop ends.
        while let Some(slot) = from {
            from = self.reclaim(slot).await?;
        }
        Ok(())
    }
}
