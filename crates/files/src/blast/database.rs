// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A database as its files name it: a volume, or an alias of databases, whose size is what the
//! alias states.

use ::blast::{Alias, Size as DatabaseSize};

/// A database, as the files name it.
pub enum Database {
    /// A volume.
    Volume(String),
    /// An alias, and what it names.
    Alias { named: Alias, parts: Vec<Database> },
}

impl Database {
    /// The volumes, in order.
    pub fn volumes<'p>(&'p self, all: &mut Vec<&'p str>) {
        match self {
            Self::Volume(name) => all.push(name),
            Self::Alias { parts, .. } => parts.iter().for_each(|part| part.volumes(all)),
        }
    }

    /// The size for E-values, from that of each volume in order.
    pub fn size(&self, sizes: &mut impl Iterator<Item = DatabaseSize>) -> DatabaseSize {
        let none = DatabaseSize {
            bases: 0,
            sequences: 0,
        };
        match self {
            Self::Volume(_) => sizes.next().unwrap_or(none),
            Self::Alias { named, parts } => {
                let sum = parts.iter().fold(none, |sum, part| {
                    let size = part.size(sizes);
                    DatabaseSize {
                        bases: sum.bases + size.bases,
                        sequences: sum.sequences + size.sequences,
                    }
                });
                DatabaseSize {
                    bases: named.bases.unwrap_or(sum.bases),
                    sequences: named.sequences.unwrap_or(sum.sequences),
                }
            }
        }
    }
}
