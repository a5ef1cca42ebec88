// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sparse array of blocks that is cloned at no cost.
//!
//! A tree of 16-way nodes, with a height fixed by the number of blocks. Clones share nodes; a
//! change copies only the shared nodes on its path.

use crate::content::Content;
use std::ops::Range;
use std::sync::Arc;

const WAY_BITS: u32 = 4;
const WAYS: usize = 1 << WAY_BITS;

#[derive(Clone, Debug)]
enum Node {
    Branch([Option<Arc<Node>>; WAYS]),
    Leaf([Option<Content>; WAYS]),
}

impl Node {
    fn empty(level: u32) -> Self {
        if level == 0 {
            Node::Leaf([const { None }; WAYS])
        } else {
            Node::Branch([const { None }; WAYS])
        }
    }
}

/// The child index of `lba` in a node of `level`; leaves are level 0.
fn way(lba: u64, level: u32) -> usize {
    (lba >> (level * WAY_BITS)) as usize & (WAYS - 1)
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Option<Arc<Node>>,
    top: u32,
}

impl Tree {
    pub(crate) fn new(block_count: u64) -> Self {
        let bits = u64::BITS - block_count.saturating_sub(1).leading_zeros();
        Self {
            root: None,
            top: bits.div_ceil(WAY_BITS).max(1) - 1,
        }
    }

    pub(crate) fn get(&self, lba: u64) -> Option<&Content> {
        let mut node = self.root.as_ref()?;
        let mut level = self.top;
        loop {
            match &**node {
                Node::Branch(ways) => node = ways[way(lba, level)].as_ref()?,
                Node::Leaf(ways) => return ways[way(lba, 0)].as_ref(),
            }
            level -= 1;
        }
    }

    /// Puts `content` at `lba` and returns what was there.
    pub(crate) fn set(&mut self, lba: u64, content: Option<Content>) -> Option<Content> {
        if content.is_none() && self.get(lba).is_none() {
            return None;
        }
        let mut place = &mut self.root;
        let mut level = self.top;
        loop {
            let node = place.get_or_insert_with(|| Arc::new(Node::empty(level)));
            match Arc::make_mut(node) {
                Node::Branch(ways) => place = &mut ways[way(lba, level)],
                Node::Leaf(ways) => {
                    return std::mem::replace(&mut ways[way(lba, 0)], content);
                }
            }
            level -= 1;
        }
    }

    /// Calls `visit` with each block held in `range`, in order.
    pub(crate) fn visit<'a>(&'a self, range: &Range<u64>, visit: &mut dyn FnMut(u64, &'a Content)) {
        if let Some(root) = &self.root {
            walk(root, self.top, 0, range, visit);
        }
    }

    /// Calls `visit` with each block whose content may differ from that in `other`, a tree of
    /// the same size. Shared parts are skipped.
    pub(crate) fn compare(&self, other: &Tree, visit: &mut dyn FnMut(u64)) {
        compare(self.root.as_ref(), other.root.as_ref(), self.top, 0, visit);
    }
}

fn walk<'a>(
    node: &'a Node,
    level: u32,
    first: u64,
    range: &Range<u64>,
    visit: &mut dyn FnMut(u64, &'a Content),
) {
    let span = 1_u64 << (level * WAY_BITS);
    for index in 0..WAYS {
        let start = first.saturating_add(index as u64 * span);
        if start >= range.end || start.saturating_add(span) <= range.start {
            continue;
        }
        match node {
            Node::Branch(ways) => {
                if let Some(child) = &ways[index] {
                    walk(child, level - 1, start, range, visit);
                }
            }
            Node::Leaf(ways) => {
                if let Some(content) = &ways[index] {
                    visit(start, content);
                }
            }
        }
    }
}

fn compare(
    one: Option<&Arc<Node>>,
    other: Option<&Arc<Node>>,
    level: u32,
    first: u64,
    visit: &mut dyn FnMut(u64),
) {
    match (one, other) {
        (None, None) => return,
        (Some(one), Some(other)) if Arc::ptr_eq(one, other) => return,
        _ => {}
    }
    let span = 1_u64 << (level * WAY_BITS);
    for index in 0..WAYS {
        let start = first.saturating_add(index as u64 * span);
        if level > 0 {
            compare(
                child(one, index),
                child(other, index),
                level - 1,
                start,
                visit,
            );
        } else if content(one, index) != content(other, index) {
            visit(start);
        }
    }
}

fn child(node: Option<&Arc<Node>>, index: usize) -> Option<&Arc<Node>> {
    match node.map(|node| &**node) {
        Some(Node::Branch(ways)) => ways[index].as_ref(),
        _ => None,
    }
}

fn content(node: Option<&Arc<Node>>, index: usize) -> Option<&Content> {
    match node.map(|node| &**node) {
        Some(Node::Leaf(ways)) => ways[index].as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_a_map_and_clones_are_apart() {
        let seed = crate::testing::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        for block_count in [1, 16, 17, 300, 1 << 20, 1 << 58] {
            let mut tree = Tree::new(block_count);
            let mut map: BTreeMap<u64, Content> = BTreeMap::new();
            let mut kept = None;
            for step in 0..2000_u32 {
                // Near either end, so that blocks are hit repeatedly.
                let near = random.u64(0..block_count.min(100));
                let lba = if random.bool() {
                    near
                } else {
                    block_count - 1 - near
                };
                let content = random
                    .bool()
                    .then(|| Content::new(&u64::from(step).to_le_bytes()));
                let before = tree.set(lba, content.clone());
                let expected = match content {
                    Some(content) => map.insert(lba, content),
                    None => map.remove(&lba),
                };
                assert_eq!(before, expected);
                if step == 1000 {
                    kept = Some((tree.clone(), map.clone()));
                }
            }
            let (old_tree, old_map) = kept.unwrap();
            for (tree, map) in [(&tree, &map), (&old_tree, &old_map)] {
                let range = block_count / 4..block_count - block_count.min(50) / 2;
                let mut seen = Vec::new();
                tree.visit(&range, &mut |lba, content| {
                    seen.push((lba, content.clone()))
                });
                let expected: Vec<_> = map.range(range).map(|(l, c)| (*l, c.clone())).collect();
                assert_eq!(seen, expected);
            }
            let mut differing = Vec::new();
            tree.compare(&old_tree, &mut |lba| differing.push(lba));
            let mut expected: Vec<u64> = map.keys().chain(old_map.keys()).copied().collect();
            expected.sort_unstable();
            expected.dedup();
            expected.retain(|lba| map.get(lba) != old_map.get(lba));
            assert_eq!(differing, expected);
        }
    }
}
