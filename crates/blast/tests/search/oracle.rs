// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every alignment of NCBI's `blastn -ungapped` is found, with its ends, in databases that its
//! `makeblastdb` wrote. Without these programs (`tools/setup blast`) the tests say SKIPPED.
//! STRAIGHTWAY_SEED repeats a run.
use crate::support::seed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use straightway_blast::{
    Hsp, Index, Query, Scoring, Search, SearchOptions, Significance, Size, Table, TwoHit, WORD,
    bits_text, e_value_text, name, queries,
};

fn has_blastn() -> bool {
    let found = Command::new("blastn").arg("-version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: blastn is not installed; run: tools/setup blast");
    }
    found
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("straightway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(folder: &Path, program: &str, words: &str) -> String {
    let output = Command::new(program)
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Query, subject, and the four ends.
type Row = (String, String, [u32; 4]);
/// And of each the E-value and the bits, as they are printed.
type Rows = BTreeMap<Row, [String; 2]>;

struct Searched {
    found: Vec<Hsp>,
    rows: Rows,
    masked_bases: u64,
}

/// Ours, with the file in pieces.
fn search(
    folder: &Path,
    database: &str,
    queries: &[Query],
    options: SearchOptions,
    piece: usize,
) -> Searched {
    let read = |suffix: &str| std::fs::read(folder.join(format!("{database}.{suffix}"))).unwrap();
    let index = Index::parse(&read("nin")).unwrap();
    let headers = read("nhr");
    let table = Table::new(queries).unwrap();
    let mut search = Search::new(&index, &table, options, 0);
    for bytes in read("nsq").chunks(piece) {
        search.take(bytes).unwrap();
    }
    let (found, counts) = search.finish().unwrap();
    let size = Size {
        bases: counts.bases,
        sequences: counts.sequences,
    };
    let row = |hsp: &Hsp| {
        let at = hsp.subject as usize;
        let query = &queries[hsp.query as usize];
        let significance = Significance::of_query(&options.scoring, query).unwrap();
        let pairs = significance.pairs(query.bases.len() as u64, size);
        let weight = [
            e_value_text(significance.e_value(hsp.score, pairs)),
            bits_text(significance.bits(hsp.score)),
        ];
        let entry = &headers[index.headers[at] as usize..index.headers[at + 1] as usize];
        let subject = name(entry).unwrap();
        ((query.name.clone(), subject, hsp.ends()), weight)
    };
    Searched {
        rows: found.iter().map(row).collect(),
        found,
        masked_bases: counts.masked_bases,
    }
}

/// The reference's.
fn reference(folder: &Path, database: &str, scoring: Scoring) -> Rows {
    let text = run(
        folder,
        "blastn",
        &format!(
            "-task blastn -word_size 11 -ungapped -dust no -strand both -max_target_seqs 100000 -outfmt 6 -db {database} -query query.fa -reward {} -penalty {}",
            scoring.reward, scoring.penalty,
        ),
    );
    let row = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        let ends = [6, 7, 8, 9].map(|at| words[at].parse().unwrap());
        let weight = [10, 11].map(|at| words[at].to_owned());
        ((words[0].to_owned(), words[1].to_owned(), ends), weight)
    };
    text.lines().map(row).collect()
}

/// Digit by digit.
fn assert_same_weight(row: &Row, ours: &[String; 2], theirs: &[String; 2]) {
    assert_eq!(ours, theirs, "{row:?}");
}

fn letters(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| b"ACGT"[random.usize(..4)]).collect()
}

fn reverse(bases: &[u8]) -> Vec<u8> {
    let other = |base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' => b'A',
        _ => b'N',
    };
    bases.iter().rev().map(other).collect()
}

fn fasta(sequences: &[(String, Vec<u8>)]) -> String {
    let one = |(name, bases): &(String, Vec<u8>)| {
        format!(">{name} generated\n{}\n", String::from_utf8_lossy(bases))
    };
    sequences.iter().map(one).collect()
}

/// Whether the alignment has eleven equal known bases in a row.
fn has_word(row: &Row, queries: &[(String, Vec<u8>)], subjects: &[(String, Vec<u8>)]) -> bool {
    let of = |all: &[(String, Vec<u8>)], name: &str| {
        all.iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .1
            .clone()
    };
    let [query_first, query_last, from, to] = row.2.map(|end| end as usize);
    let query = of(queries, &row.0)[query_first - 1..query_last].to_vec();
    let whole = of(subjects, &row.1);
    let subject = if from <= to {
        whole[from - 1..to].to_vec()
    } else {
        reverse(&whole[to - 1..from])
    };
    let equal: Vec<bool> = query
        .iter()
        .zip(&subject)
        .map(|(a, b)| a == b && b"ACGT".contains(a))
        .collect();
    equal
        .windows(WORD)
        .any(|word| word.iter().all(|&equal| equal))
}

/// Sequences with parts of the queries, on both strands, changed in places and with ambiguous
/// bases.
fn generated(random: &mut fastrand::Rng) -> [Vec<(String, Vec<u8>)>; 2] {
    let mut queries = Vec::new();
    for number in 0..4 {
        let length = random.usize(100..900);
        let mut bases = letters(random, length);
        // The first one has known bases only.
        for _ in 0..number * 4 {
            let at = random.usize(..length);
            bases[at] = b"RYKMSWBDHVN"[random.usize(..11)];
        }
        queries.push((format!("q{number}"), bases));
    }
    let mut subjects = Vec::new();
    for number in 0..40 {
        let length = random.usize(12..3000);
        let mut bases = letters(random, length);
        for _ in 0..random.usize(0..4) {
            let query = &queries[random.usize(..queries.len())].1;
            let from = random.usize(..query.len() - 60);
            let length = random.usize(14..300).min(query.len() - from);
            let mut part = query[from..from + length].to_vec();
            let changes = random.usize(..=length / 12);
            for _ in 0..changes {
                let at = random.usize(..part.len());
                part[at] = b"ACGTNR"[random.usize(..6)];
            }
            if random.bool() {
                part = reverse(&part);
            }
            let at = random.usize(..=bases.len());
            bases.splice(at..at, part);
        }
        subjects.push((format!("s{number}"), bases));
    }
    [queries, subjects]
}

#[test]
fn every_alignment_in_generated_databases() {
    if !has_blastn() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let folder = Folder::new("blast-generated");
    let path = &folder.0;
    let (mut compared, mut masked, mut second) = (0, 0, 0);
    for round in 0..6 {
        let [given, subjects] = generated(&mut random);
        std::fs::write(path.join("query.fa"), fasta(&given)).unwrap();
        std::fs::write(path.join("subject.fa"), fasta(&subjects)).unwrap();
        let version = 4 + round % 2;
        let parsed = ["", "-parse_seqids"][round / 2 % 2];
        run(
            path,
            "makeblastdb",
            &format!("-dbtype nucl -in subject.fa -out db -blastdb_version {version} {parsed}"),
        );
        let read = queries(fasta(&given).as_bytes()).unwrap();
        let piece = random.usize(1..20_000);
        let ours = search(path, "db", &read, SearchOptions::default(), piece);
        let scalar = search(
            path,
            "db",
            &read,
            SearchOptions {
                is_scalar: true,
                ..SearchOptions::default()
            },
            1 << 20,
        );
        assert_eq!(ours.found, scalar.found);
        for (row, weight) in reference(path, "db", Scoring::default()) {
            compared += 1;
            match ours.rows.get(&row) {
                Some(found) => assert_same_weight(&row, found, &weight),
                None => assert!(
                    !has_word(&row, &given, &subjects),
                    "round {round}: {row:?} is missing"
                ),
            }
        }
        masked += ours.masked_bases;
        // Fewer with the filter, and none that was not there.
        let options = SearchOptions {
            two_hit: Some(TwoHit { window: 40 }),
            ..SearchOptions::default()
        };
        let filtered = search(path, "db", &read, options, piece);
        assert!(filtered.rows.len() < ours.rows.len());
        second += filtered.rows.len();
        let long = |hsp: &&Hsp| hsp.length >= 80 && hsp.length == hsp.identities;
        for hsp in ours.found.iter().filter(long) {
            let near = |other: &Hsp| {
                other.subject == hsp.subject
                    && other.is_minus == hsp.is_minus
                    && other.subject_first <= hsp.subject_first + hsp.length
            };
            assert!(filtered.found.iter().any(near), "{hsp:?}");
        }
    }
    assert!(
        compared > 100 && masked > 100 && second > 50,
        "{compared} {masked} {second}"
    );
}

#[test]
fn scores_of_every_kind_have_the_bits_and_e_values_of_blastn() {
    if !has_blastn() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let folder = Folder::new("blast-scores");
    let path = &folder.0;
    let [given, subjects] = generated(&mut random);
    std::fs::write(path.join("query.fa"), fasta(&given)).unwrap();
    std::fs::write(path.join("subject.fa"), fasta(&subjects)).unwrap();
    run(path, "makeblastdb", "-dbtype nucl -in subject.fa -out db");
    let read = queries(fasta(&given).as_bytes()).unwrap();
    for (reward, penalty) in [(1, -1), (1, -2), (1, -3), (4, -5), (5, -4)] {
        let scoring = Scoring {
            reward,
            penalty,
            x_drop: 100,
            min_score: 11 * reward,
        };
        let options = SearchOptions {
            scoring,
            ..SearchOptions::default()
        };
        let ours = search(path, "db", &read, options, 1 << 20);
        // Their drop is another one for these scores, so not all ends are the same.
        let theirs = reference(path, "db", scoring);
        let both: Vec<_> = (theirs.iter())
            .filter_map(|(row, weight)| Some((row, ours.rows.get(row)?, weight)))
            .collect();
        for &(row, found, weight) in &both {
            assert_same_weight(row, found, weight);
        }
        assert!(both.len() > 15, "{reward} {penalty}: {}", both.len());
    }
}

/// A genome, and contigs of a related one, of a Debian package.
const REAL: &str = "/usr/share/doc/abacas-examples";

#[test]
fn every_alignment_of_contigs_with_a_genome() {
    if !has_blastn() {
        return;
    }
    let read = |name: &str| {
        Command::new("gzip")
            .args(["-dc", &format!("{REAL}/{name}.gz")])
            .output()
    };
    let (Ok(genome), Ok(contigs)) = (read("SS_SC84.dna"), read("454AllContigs.fna")) else {
        eprintln!("SKIPPED: gzip is not installed");
        return;
    };
    if !genome.status.success() || !contigs.status.success() {
        eprintln!("SKIPPED: {REAL} is missing; run: tools/setup blast");
        return;
    }
    let folder = Folder::new("blast-real");
    let path = &folder.0;
    // The genome in pieces of a gene's size, searched for in the contigs, and some contigs in the
    // genome.
    let all = queries(&contigs.stdout).unwrap();
    let text = String::from_utf8(contigs.stdout).unwrap();
    let few: String = text
        .split_inclusive('>')
        .skip(1)
        .filter(|one| one.len() < 2500)
        .take(30)
        .map(|one| format!(">{}", one.trim_end_matches('>')))
        .collect();
    assert!(
        all.len() > 100 && few.len() > 5000,
        "{} {}",
        all.len(),
        few.len()
    );
    let genome: String = String::from_utf8(genome.stdout)
        .unwrap()
        .lines()
        .skip(1)
        .collect();
    let genes: String = (0..3)
        .map(|number| {
            format!(
                ">gene{number}\n{}\n",
                &genome[number * 300_000 + 5000..][..1200]
            )
        })
        .collect();
    for (database, given, least) in [
        (format!(">genome\n{genome}\n"), few, 300),
        (text, genes, 10),
    ] {
        std::fs::write(path.join("subject.fa"), database).unwrap();
        std::fs::write(path.join("query.fa"), &given).unwrap();
        run(path, "makeblastdb", "-dbtype nucl -in subject.fa -out db");
        let read = queries(given.as_bytes()).unwrap();
        let ours = search(path, "db", &read, SearchOptions::default(), 1 << 20);
        let theirs = reference(path, "db", Scoring::default());
        let missing: Vec<&Row> = theirs
            .keys()
            .filter(|row| !ours.rows.contains_key(row))
            .collect();
        assert!(
            missing.is_empty(),
            "{} of {}: {missing:?}",
            missing.len(),
            theirs.len()
        );
        for (row, weight) in &theirs {
            assert_same_weight(row, &ours.rows[row], weight);
        }
        assert!(theirs.len() > least, "{}", theirs.len());
    }
}

/// Identifiers of each kind, as they stand in a FASTA file. With `nat|n1`, `bbs|12` and `gi|55`,
/// which makeblastdb takes, blastn 2.12 ends with an exception.
const IDENTIFIERS: [&str; 31] = [
    "lcl|loc1 local",
    "lcl|123",
    "1 dna:chromosome",
    "gi|123456|gb|AB012345.1| a",
    "gb|AB012346.2|LOCUS x",
    "gb|ab012349.2| lower case",
    "gb||LOC",
    "ref|NM_000001.3| r",
    "NC_000001.11 x",
    "NM_000002 y",
    "AB012347.1 bare",
    "gnl|MYDB|tag7 g",
    "gnl|MYDB|12 g",
    "sp|P12345|NAME p",
    "sp|P12346.2|NAME",
    "tr|Q9|x v",
    "pdb|1ABC|A z",
    "pdb|1ABC|b",
    "pdb|2ABC",
    "emb|X12345.1|HSX e",
    "dbj|D12345.1| d",
    "pat|US|6000000|1 p",
    "pgp|EP|12|1 p",
    "tpg|BK000001.1| t",
    "tpe|BN000001.1|",
    "tpd|BR000001.1|",
    "gpp|GPC_0001.1| g",
    "bbm|13 x",
    "pir|A12345|NAME",
    "prf|12|x",
    "plainid title",
];

// partner: blastn | reader, writer
#[test]
fn identifiers_of_every_kind_are_named_as_blastn_names_them() {
    if !has_blastn() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let folder = Folder::new("blast-names");
    let path = &folder.0;
    let subjects: Vec<(&str, Vec<u8>)> = (IDENTIFIERS.iter())
        .map(|title| (*title, letters(&mut random, 60)))
        .collect();
    let text = |(title, bases): &(&str, Vec<u8>)| {
        format!(">{title}\n{}\n", String::from_utf8_lossy(bases))
    };
    let all: String = subjects.iter().map(text).collect();
    std::fs::write(path.join("subject.fa"), &all).unwrap();
    // The same as queries, with names of our own.
    let given: String = (subjects.iter().enumerate())
        .map(|(number, (_, bases))| text(&(&format!("q{number}"), bases.clone())))
        .collect();
    std::fs::write(path.join("query.fa"), &given).unwrap();
    for (version, parsed) in [(4, "-parse_seqids"), (5, "-parse_seqids"), (5, "")] {
        run(
            path,
            "makeblastdb",
            &format!("-dbtype nucl -in subject.fa -out db -blastdb_version {version} {parsed}"),
        );
        let ours = search(
            path,
            "db",
            &queries(given.as_bytes()).unwrap(),
            SearchOptions::default(),
            1 << 20,
        );
        let text = run(
            path,
            "blastn",
            "-task blastn -word_size 11 -ungapped -dust no -outfmt 6 -db db -query query.fa",
        );
        let names = |column: usize| -> Vec<(String, String)> {
            let pair = |line: &str| {
                let words: Vec<&str> = line.split('\t').collect();
                (words[0].to_owned(), words[column].to_owned())
            };
            text.lines().map(pair).collect()
        };
        let theirs: std::collections::BTreeSet<_> = names(1).into_iter().collect();
        let ours: std::collections::BTreeSet<_> = ours
            .rows
            .keys()
            .map(|row| (row.0.clone(), row.1.clone()))
            .collect();
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(
            missing.is_empty(),
            "version {version} {parsed}: {missing:?}"
        );
        assert!(theirs.len() >= IDENTIFIERS.len());
    }
}
