// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both scans against a search for equal words of eleven bases in all places, with ambiguous bases,
//! several queries and pieces of any length. STRAIGHTWAY_SEED repeats a run.
use crate::support::seed;
use std::collections::BTreeSet;
use straightway_blast::{Query, Seed, Span, Subject, Table, WORD, scan, scan_scalar};

fn packed(bases: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = bases
        .chunks(4)
        .map(|four| (0..4).fold(0, |byte, at| byte << 2 | four.get(at).copied().unwrap_or(0)))
        .collect();
    match bases.len() % 4 {
        0 => bytes.push(0),
        rest => *bytes.last_mut().unwrap() |= rest as u8,
    }
    bytes
}

/// All pairs of places with eleven equal known bases.
fn words(table: &[u8], ends: &[usize], bases: &[u8], masked: &[Span]) -> BTreeSet<(usize, usize)> {
    let known = |at: usize| {
        !masked
            .iter()
            .any(|span| (span.first..span.end).contains(&(at as u32)))
    };
    let mut all = BTreeSet::new();
    for subject in 0..(bases.len() + 1).saturating_sub(WORD) {
        for position in 0..(table.len() + 1).saturating_sub(WORD) {
            let equal = (0..WORD)
                .all(|at| table[position + at] == 1 << bases[subject + at] && known(subject + at));
            if equal
                && !ends
                    .iter()
                    .any(|&end| position < end && end < position + WORD)
            {
                all.insert((subject, position));
            }
        }
    }
    all
}

#[test]
fn both_scans_find_every_word_and_nothing_else() {
    let mut random = fastrand::Rng::with_seed(seed());
    for round in 0..150 {
        // Few letters make many words.
        let letters = random.u8(1..=4);
        let bases: Vec<u8> = (0..random.usize(0..200))
            .map(|_| random.u8(..letters))
            .collect();
        let mut queries = Vec::new();
        for _ in 0..random.usize(1..4) {
            let length = random.usize(1..60);
            let mut query: Vec<u8> = (0..length).map(|_| 1 << random.u8(..letters)).collect();
            if bases.len() > 40 {
                let (from, length) = (random.usize(..bases.len() - 30), random.usize(5..30));
                query.extend(bases[from..from + length].iter().map(|base| 1 << base));
            }
            if random.bool() {
                let at = random.usize(..query.len());
                query[at] = 15;
            }
            queries.push(Query {
                name: String::new(),
                bases: query,
                gaps: 0,
            });
        }
        let mut masked: Vec<Span> = Vec::new();
        let mut at = 0;
        while random.bool() && at + 1 < bases.len() as u32 {
            let first = random.u32(at..bases.len() as u32);
            let end = random.u32(first + 1..=bases.len() as u32);
            masked.push(Span {
                first,
                end: end.min(first + 5),
                bases: 15,
            });
            at = end.min(first + 5);
        }
        let table = Table::new(&queries).unwrap();
        let strands: Vec<u8> = queries
            .iter()
            .flat_map(|query| {
                let minus = query
                    .bases
                    .iter()
                    .rev()
                    .map(|base| base.reverse_bits() >> 4);
                query.bases.iter().copied().chain(minus).collect::<Vec<_>>()
            })
            .collect();
        let ends: Vec<usize> = table
            .strands()
            .iter()
            .map(|strand| strand.end as usize)
            .collect();
        let bytes = packed(&bases);
        let subject = Subject::new(&bytes, &masked).unwrap();
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        scan_scalar(&table, &subject, &mut |seed: Seed| slow.push(seed));
        scan(&table, &subject, &mut |seed: Seed| fast.push(seed));
        assert_eq!(slow, fast, "round {round}");
        let expected = words(&strands, &ends, &bases, &masked);
        let seeds: BTreeSet<(usize, usize)> = slow
            .iter()
            .map(|seed| (seed.subject as usize, seed.position as usize))
            .collect();
        assert_eq!(seeds.len(), slow.len(), "round {round}: a seed came twice");
        assert!(seeds.is_subset(&expected), "round {round}");
        // Each word has a seed on its diagonal, so near that the eight bases of both look-ups are
        // in it.
        for (subject, position) in expected {
            let near = (0..=3).flat_map(|by| {
                [
                    (subject + by, position + by),
                    (subject.wrapping_sub(by), position.wrapping_sub(by)),
                ]
            });
            assert!(
                near.into_iter().any(|place| seeds.contains(&place)),
                "round {round}: {subject} {position}"
            );
        }
    }
}
