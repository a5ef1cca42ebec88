// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The images that a power cut may leave.
//!
//! Each block that pending writes address is chosen independently: it has its durable version, that
//! of any of the writes, or a tear of two of these. So a write of several blocks leaves any subset
//! of them, and of two writes to one block either may be the last. An image is the durable image
//! with some blocks replaced; nothing is copied.
//!
//! With few pending writes all combinations are listed; with more, a sample drawn by a seed.

use crate::config::Config;
use crate::content::Content;
use crate::disk::CrashDisk;
use crate::medium::Medium;
use crate::pending::Cached;
use crate::tear;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// How many of the possible images to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Up to this many pending block writes, all combinations are listed. A write of several blocks
    /// counts once per block; one that changes nothing does not count.
    pub exhaustive_blocks: usize,
    /// With more: this many images, if that many different ones exist. The first are always: all
    /// writes lost, all applied, each write alone lost, each alone applied. These are listed even
    /// if they exceed the number.
    pub samples: usize,
    /// Torn variants of each block and each pair of versions of it: 1 tears with the first half of
    /// the differing words new, 2 adds the last half, 3 and 4 every second word, and each further
    /// one a random subset. 0 for a device that writes blocks atomically. Of a block with more than
    /// 6 pending versions, each is torn with the durable one and the one before it only.
    pub tears: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Sampling {
    /// All combinations up to 6 pending blocks, else 64 samples; one tear.
    fn default() -> Self {
        Self {
            exhaustive_blocks: 6,
            samples: 64,
            tears: 1,
            seed: 0,
        }
    }
}

/// Where the content of a block comes from; writes are given by their index among the pending ones.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Durable,
    Write(usize),
    Torn {
        new: usize,
        over: Option<usize>,
        variant: u32,
    },
}

#[derive(Debug)]
struct Alternative {
    content: Option<Content>,
    /// Its contribution to the image's hash.
    share: u64,
    origin: Origin,
}

/// A block that may be left in several ways, all different; the first is the durable one.
#[derive(Debug)]
struct Spot {
    lba: u64,
    alternatives: Vec<Alternative>,
    /// The writes to it in order, and the index of each one's alternative.
    versions: Vec<(usize, u32)>,
}

impl Spot {
    fn new(lba: u64, durable: &Medium) -> Self {
        let content = durable.get(lba).cloned();
        let mut spot = Self {
            lba,
            alternatives: Vec::new(),
            versions: Vec::new(),
        };
        spot.add(content, Origin::Durable);
        spot
    }

    /// The index of the alternative with this content.
    fn add(&mut self, content: Option<Content>, origin: Origin) -> u32 {
        let same = |alternative: &Alternative| alternative.content == content;
        if let Some(index) = self.alternatives.iter().position(same) {
            return index as u32;
        }
        let share = content
            .as_ref()
            .map_or(0, |content| content.share(self.lba));
        self.alternatives.push(Alternative {
            content,
            share,
            origin,
        });
        (self.alternatives.len() - 1) as u32
    }

    /// Adds the tears of each version over each earlier one.
    fn add_tears(&mut self, durable: &Medium, sampling: &Sampling) {
        let whole = self.alternatives.len();
        for new in 1..whole {
            for old in 0..new {
                // For a block rewritten many times: over the durable and the previous version.
                if whole > 7 && old != 0 && old != new - 1 {
                    continue;
                }
                let Origin::Write(write) = self.alternatives[new].origin else {
                    continue;
                };
                let over = match self.alternatives[old].origin {
                    Origin::Write(write) => Some(write),
                    _ => None,
                };
                for variant in 0..sampling.tears {
                    let seed = sampling.seed ^ self.lba;
                    let torn = self.torn(durable, old, new, variant, seed);
                    let Some(torn) = torn else {
                        break;
                    };
                    let content = durable.content(&torn);
                    let origin = Origin::Torn {
                        new: write,
                        over,
                        variant,
                    };
                    self.add(content, origin);
                }
            }
        }
    }

    fn torn(
        &self,
        durable: &Medium,
        old: usize,
        new: usize,
        variant: u32,
        seed: u64,
    ) -> Option<Vec<u8>> {
        let mut torn = None;
        durable.with_content(self.lba, self.alternatives[old].content.as_ref(), |old| {
            durable.with_content(self.lba, self.alternatives[new].content.as_ref(), |new| {
                torn = tear::tear(old, new, variant, seed);
            });
        });
        torn
    }

    fn newest(&self) -> u32 {
        self.versions.last().map_or(0, |(_, index)| *index)
    }

    /// The newest version among the writes for which `is_applied` is true.
    fn newest_of(&self, is_applied: impl Fn(usize) -> bool) -> u32 {
        let mut newest_first = self.versions.iter().rev();
        newest_first
            .find(|(write, _)| is_applied(*write))
            .map_or(0, |(_, index)| *index)
    }
}

/// All choices at one power cut.
struct Choices {
    durable: Medium,
    spots: Vec<Spot>,
    /// The commands' numbers.
    writes: Vec<u64>,
    pending_blocks: usize,
}

impl Choices {
    fn new(durable: &Medium, pending: &[Cached], sampling: &Sampling) -> Self {
        let mut spots: BTreeMap<u64, Spot> = BTreeMap::new();
        for (write, cached) in pending.iter().enumerate() {
            for (lba, content) in &cached.blocks {
                let spot = spots
                    .entry(*lba)
                    .or_insert_with(|| Spot::new(*lba, durable));
                let index = spot.add(content.clone(), Origin::Write(write));
                spot.versions.push((write, index));
            }
        }
        // A block with only one possible content is not a choice.
        let mut spots: Vec<Spot> = spots
            .into_values()
            .filter(|spot| spot.alternatives.len() > 1)
            .collect();
        let pending_blocks = spots.iter().map(|spot| spot.alternatives.len() - 1).sum();
        for spot in &mut spots {
            spot.add_tears(durable, sampling);
        }
        Self {
            durable: durable.clone(),
            spots,
            writes: pending.iter().map(|cached| cached.command.number).collect(),
            pending_blocks,
        }
    }

    fn pick(&self, choose: impl FnMut(&Spot) -> u32) -> Vec<u32> {
        self.spots.iter().map(choose).collect()
    }

    /// The images that every sample includes.
    fn forced(&self) -> Vec<Vec<u32>> {
        let mut forced = vec![self.pick(|_| 0), self.pick(Spot::newest)];
        for write in 0..self.writes.len() {
            forced.push(self.pick(|spot| spot.newest_of(|other| other != write)));
            forced.push(self.pick(|spot| spot.newest_of(|other| other == write)));
        }
        forced
    }

    fn random(&self, random: &mut fastrand::Rng) -> Vec<u32> {
        let any =
            |spot: &Spot, random: &mut fastrand::Rng| random.u32(0..spot.alternatives.len() as u32);
        match random.u32(0..5) {
            // Each block alone.
            0 => self.pick(|spot| any(spot, random)),
            // Nearly all applied, nearly all lost.
            1 => self.pick(|spot| match random.u32(0..8) {
                0 => any(spot, random),
                _ => spot.newest(),
            }),
            2 => self.pick(|spot| match random.u32(0..8) {
                0 => any(spot, random),
                _ => 0,
            }),
            // Whole writes lost or applied.
            3 => {
                let chance = random.f64();
                let applied: Vec<bool> =
                    self.writes.iter().map(|_| random.f64() < chance).collect();
                self.pick(|spot| spot.newest_of(|write| applied[write]))
            }
            // In order up to one write, whose blocks are left in any state.
            _ => {
                let last = random.usize(0..self.writes.len().max(1));
                self.pick(|spot| {
                    if spot.versions.iter().any(|(write, _)| *write == last) {
                        any(spot, random)
                    } else {
                        spot.newest_of(|write| write < last)
                    }
                })
            }
        }
    }

    /// The hash of an image, up to a constant.
    fn sum(&self, picks: &[u32]) -> u64 {
        let chosen = self.spots.iter().zip(picks);
        chosen
            .map(|(spot, pick)| spot.alternatives[*pick as usize].share)
            .fold(0, u64::wrapping_add)
    }

    fn apply(&self, medium: &mut Medium, spot: usize, pick: u32) {
        let spot = &self.spots[spot];
        medium.set(spot.lba, spot.alternatives[pick as usize].content.clone());
    }
}

/// An image that a power cut may leave. Its `Display` text lists the outcome for each pending
/// block.
#[derive(Clone)]
pub struct Image {
    /// The blocks.
    pub medium: Medium,
    choices: Arc<Choices>,
    picks: Box<[u32]>,
}

impl Image {
    /// A device over this image, as after the machine is switched on again.
    pub fn open(&self, config: Config) -> CrashDisk {
        self.medium.open(config)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.picks.is_empty() {
            return f.write_str("nothing was pending");
        }
        let number = |write: usize| self.choices.writes[write];
        for (index, (spot, pick)) in self.choices.spots.iter().zip(&self.picks).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}block {}: ", spot.lba)?;
            match spot.alternatives[*pick as usize].origin {
                Origin::Durable => f.write_str("as it was")?,
                Origin::Write(write) => write!(f, "of #{}", number(write))?,
                Origin::Torn { new, over, variant } => {
                    write!(f, "{} of #{} over ", tear::name(variant), number(new))?;
                    match over {
                        Some(write) => write!(f, "#{}", number(write))?,
                        None => f.write_str("what was there")?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({:016x}: {self})", self.medium.hash())
    }
}

/// The images that a power cut may leave, each once.
pub struct Images {
    choices: Arc<Choices>,
    plan: Plan,
}

enum Plan {
    /// All combinations: the next one's picks, and the image of the last.
    All {
        picks: Vec<u32>,
        medium: Medium,
    },
    Sample {
        forced: std::vec::IntoIter<Vec<u32>>,
        random: fastrand::Rng,
        seen: HashSet<u64>,
        /// How many more to list, and how many attempts are left.
        wanted: usize,
        tries: usize,
    },
    Done,
}

impl Images {
    pub(crate) fn new(durable: &Medium, pending: &[Cached], sampling: &Sampling) -> Self {
        let choices = Choices::new(durable, pending, sampling);
        let plan = if choices.pending_blocks <= sampling.exhaustive_blocks {
            Plan::All {
                picks: choices.pick(|_| 0),
                medium: durable.clone(),
            }
        } else {
            Plan::Sample {
                forced: choices.forced().into_iter(),
                random: fastrand::Rng::with_seed(sampling.seed),
                seen: HashSet::new(),
                wanted: sampling.samples,
                tries: sampling.samples.saturating_mul(4),
            }
        };
        Self {
            choices: Arc::new(choices),
            plan,
        }
    }

    /// How many block writes are pending, as [`Sampling::exhaustive_blocks`] counts them.
    pub fn pending_blocks(&self) -> usize {
        self.choices.pending_blocks
    }

    /// How many different images there are, listed or not.
    pub fn combinations(&self) -> u64 {
        let spots = self.choices.spots.iter();
        spots.fold(1, |product, spot| {
            product.saturating_mul(spot.alternatives.len() as u64)
        })
    }

    /// Whether all combinations are listed.
    pub fn is_exhaustive(&self) -> bool {
        !matches!(self.plan, Plan::Sample { .. })
    }

    fn image(choices: &Arc<Choices>, picks: &[u32], medium: Medium) -> Image {
        Image {
            medium,
            choices: Arc::clone(choices),
            picks: picks.into(),
        }
    }
}

impl Iterator for Images {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        let choices = &self.choices;
        match &mut self.plan {
            Plan::Done => None,
            Plan::All { picks, medium } => {
                let image = Self::image(choices, picks, medium.clone());
                // Increments the picks, with the first spot as the lowest digit.
                for (index, spot) in choices.spots.iter().enumerate() {
                    picks[index] = (picks[index] + 1) % spot.alternatives.len() as u32;
                    choices.apply(medium, index, picks[index]);
                    if picks[index] != 0 {
                        return Some(image);
                    }
                }
                self.plan = Plan::Done;
                Some(image)
            }
            Plan::Sample {
                forced,
                random,
                seen,
                wanted,
                tries,
            } => loop {
                let picks = match forced.next() {
                    Some(picks) => picks,
                    None if *wanted == 0 || *tries == 0 => return None,
                    None => {
                        *tries -= 1;
                        choices.random(random)
                    }
                };
                if !seen.insert(choices.sum(&picks)) {
                    continue;
                }
                *wanted = wanted.saturating_sub(1);
                let mut medium = choices.durable.clone();
                for (index, pick) in picks.iter().enumerate() {
                    if *pick != 0 {
                        choices.apply(&mut medium, index, *pick);
                    }
                }
                return Some(Self::image(choices, &picks, medium));
            },
        }
    }
}

impl fmt::Debug for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Images")
            .field("pending_blocks", &self.pending_blocks())
            .field("combinations", &self.combinations())
            .finish_non_exhaustive()
    }
}
