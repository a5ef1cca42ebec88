// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A namespace: blocks in a store, behind a volatile write cache.

use std::collections::BTreeMap;
use std::io;

use crate::config::NamespaceConfig;
use crate::random::Random;
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) config: NamespaceConfig,
    store: Box<dyn Store>,
    /// Blocks that were written and not flushed.
    cache: BTreeMap<u64, Box<[u8]>>,
    cache_blocks: usize,
}

impl Namespace {
    pub(crate) fn new(config: NamespaceConfig, store: Box<dyn Store>, cache_blocks: usize) -> Self {
        Self {
            config,
            store,
            cache: BTreeMap::new(),
            cache_blocks,
        }
    }

    /// Whether `[lba, lba + block_count)` is inside.
    pub(crate) fn has(&self, lba: u64, block_count: u64) -> bool {
        let end = lba.checked_add(block_count);
        end.is_some_and(|end| end <= self.config.block_count)
    }

    fn block(&self) -> usize {
        1 << self.config.block_size_log2
    }

    fn offset(&self, lba: u64) -> u64 {
        lba << self.config.block_size_log2
    }

    pub(crate) fn read(&mut self, lba: u64, target: &mut [u8]) -> io::Result<()> {
        self.store.read(self.offset(lba), target)?;
        let block = self.block();
        let end = lba + (target.len() / block) as u64;
        for (&at, content) in self.cache.range(lba..end) {
            let offset = (at - lba) as usize * block;
            target[offset..offset + block].copy_from_slice(content);
        }
        Ok(())
    }

    /// Writes, into the cache if it is `cached`.
    pub(crate) fn write(&mut self, lba: u64, source: &[u8], cached: bool) -> io::Result<()> {
        let block = self.block();
        if !cached {
            self.forget(lba, (source.len() / block) as u64);
            return self.store.write(self.offset(lba), source);
        }
        for (at, content) in (lba..).zip(source.chunks(block)) {
            self.cache.insert(at, content.into());
        }
        while self.cache.len() > self.cache_blocks {
            if let Some((at, content)) = self.cache.pop_first() {
                self.store.write(self.offset(at), &content)?;
            }
        }
        Ok(())
    }

    /// Makes blocks read as zeroes, directly in the store or through the cache.
    pub(crate) fn zero(&mut self, lba: u64, block_count: u64, cached: bool) -> io::Result<()> {
        if cached && block_count <= self.cache_blocks as u64 {
            let zeroes = vec![0; self.block()];
            for at in lba..lba + block_count {
                self.write(at, &zeroes, true)?;
            }
            return Ok(());
        }
        self.forget(lba, block_count);
        self.store.zero(self.offset(lba), self.offset(block_count))
    }

    fn forget(&mut self, lba: u64, block_count: u64) {
        let end = lba + block_count;
        while let Some((&at, _)) = self.cache.range(lba..end).next() {
            self.cache.remove(&at);
        }
    }

    /// Writes the cache back and makes the store durable.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some((at, content)) = self.cache.pop_first() {
            self.store.write(self.offset(at), &content)?;
        }
        self.store.sync()
    }

    /// Makes what reached the store durable, without touching the cache.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.store.sync()
    }

    /// Loses what the cache holds; with a seed, each of its blocks survives with an even chance.
    pub(crate) fn lose(&mut self, survivors: Option<u64>) {
        let mut random = survivors.map(Random::new);
        while let Some((at, content)) = self.cache.pop_first() {
            if random.as_mut().is_some_and(|random| random.below(2) == 1) {
                // A failing store has also lost the block.
                let _ = self.store.write(self.offset(at), &content);
            }
        }
    }

    pub(crate) fn cached_blocks(&self) -> usize {
        self.cache.len()
    }
}
