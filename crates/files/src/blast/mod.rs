// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A nucleotide search in a BLAST database on a volume, in a folder, or in a file system of
//! hardware.

mod database;

use crate::drain::{Part, drain};
use crate::flow::Sums;
use crate::hardware::{self, Files, Stop};
use crate::source::standard_input;
use crate::{Access, Mounted, Store, pace, route, shown};
use ::blast::{
    Alias, Hsp, Index, Query, Scoring, Search, SearchCounts, SearchOptions, Significance,
    Size as DatabaseSize, Table, TwoHit, bits_text, e_value_text, name, queries,
};
use database::Database;
use devices::error::{Error, ErrorKind, Result};
use devices::transfer::IoOptions;
use devices::{Context, SCHEMA_VERSION};
use remedy::{Remedy, Setting, words};
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::micros;

/// The longest file that is read whole: an index, or names.
const MOST_BYTES: u64 = 4 << 30;
/// Bytes of a read from a folder.
const PIECE_BYTES: usize = 1 << 20;

/// What is searched for, where, and what counts as found.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// The name of the device with the volume, a folder, or `hwfs:PATH`.
    pub device: String,
    /// The name of the database's files, without `.nin`.
    pub database: String,
    /// A local FASTA file with queries, or `-` for standard input.
    pub query: PathBuf,
    /// The lowest score to report.
    pub min_score: i32,
    /// The highest E-value to report; 10, where there are E-values, if `None`.
    pub e_value: Option<f64>,
    /// Score of equal bases, above 0.
    pub reward: i32,
    /// Score of different bases, below 0.
    pub penalty: i32,
    /// How far an extension's score may fall.
    pub x_drop: i32,
    /// A seed is extended only if another one is on its diagonal within this many bases, at least 11.
    pub two_hit: Option<u32>,
    /// The path to the device, and how bytes are moved.
    pub io: IoOptions,
}

/// A search.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Searched {
    /// Version of this schema: 2.
    pub schema_version: u32,
    /// The resolved name of the device, or the folder.
    pub device: String,
    /// The database.
    pub database: String,
    /// The queries.
    pub queries: Vec<Sought>,
    /// Sequences of the database.
    pub sequences: u64,
    /// Their bases.
    pub bases: u64,
    /// Those that are ambiguous; no seed has any of them.
    pub masked_bases: u64,
    /// Seeds of eleven bases.
    pub seeds: u64,
    /// The time of reading and searching.
    pub elapsed_us: u64,
    /// The alignments, in the order of the database.
    pub alignments: Vec<Alignment>,
}

/// A query.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Sought {
    /// The first word of its title.
    pub name: String,
    /// Its bases.
    pub bases: usize,
}

/// An ungapped alignment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Alignment {
    /// The query's name.
    pub query: String,
    /// Its number among the queries, from 0.
    pub query_index: u32,
    /// The subject's name.
    pub subject: String,
    /// Its number in the database, from 0.
    pub subject_index: u32,
    /// It is on the minus strand.
    pub is_minus: bool,
    /// First base in the query, from 1.
    pub query_first: u32,
    /// Last base in the query.
    pub query_last: u32,
    /// Base of the subject that is opposite to the query's first one, from 1.
    pub subject_first: u32,
    /// And to the last one.
    pub subject_last: u32,
    /// Bases.
    pub length: u32,
    /// Equal bases.
    pub identities: u32,
    /// The score.
    pub score: i32,
    /// The score in bits; null where random bases would score above 0 on average.
    pub bits: Option<f64>,
    /// How many alignments with this score chance makes in this database; null as `bits`.
    pub e_value: Option<f64>,
}

/// Aliases that name aliases.
const DEEPEST: usize = 16;
/// What `blastn` reports at most.
const E_VALUE: f64 = 10.0;

/// Where a database is.
enum Place<'a, 'm, 'v> {
    Folder(&'a Path),
    Volume(&'a Mounted<'m, 'v>),
    Hardware(RefCell<&'a mut Files<'v>>),
}

impl SearchSettings {
    /// Searches the database as its bytes arrive.
    ///
    /// # Errors
    /// The queries, the device, the volume or the database failed.
    pub fn run(&self, context: &Context) -> Result<Searched> {
        let queries = self.queries()?;
        for query in &queries {
            let warning = match (query.bases.is_empty(), query.gaps) {
                (true, _) => "has no bases and is left out".to_owned(),
                (_, 0) => continue,
                (_, gaps) => format!("has {gaps} gaps (`-`), which are left out"),
            };
            context.say(format_args!("query `{}` {warning}", shown(&query.name)));
        }
        let table = Table::new(&queries).map_err(|error| self.wrong_queries(&error))?;
        if self.e_value.is_some() && Significance::new(&self.scoring()).is_none() {
            let what = words![
                Setting::Reward,
                format!(" {} and ", self.reward),
                Setting::Penalty,
                format!(
                    " {} have no E-values: random bases would score above 0 on average",
                    self.penalty
                )
            ];
            return Err(Error::usage(what).hint(words![
                Remedy::omit([Setting::EValue]),
                ", or lower ",
                Setting::Penalty,
                " below -1/3 of ",
                Setting::Reward
            ]));
        }
        let folder = Path::new(&self.device);
        match (hardware::path_of(&self.device), folder.is_dir()) {
            (Some(path), _) => {
                hardware::refuse_io(&self.io)?;
                Files::with(&self.device, path, Access::Read, |files| {
                    let place = Place::Hardware(RefCell::new(files));
                    self.search(context, &place, &queries, &table)
                })
            }
            (None, true) => self.search(context, &Place::Folder(folder), &queries, &table),
            (None, false) => {
                let options = route::open_options(&self.io, false);
                let mut store = Store::open(context, &self.device, &options)?;
                let searched = store.mount(Access::Read, |mounted| {
                    self.search(context, &Place::Volume(mounted), &queries, &table)
                });
                store.close(searched)
            }
        }
    }

    fn queries(&self) -> Result<Vec<Query>> {
        let mut text = Vec::new();
        let read = if self.query.as_os_str() == "-" {
            standard_input().and_then(|mut input| input.read_to_end(&mut text))
        } else {
            std::fs::File::open(&self.query).and_then(|mut file| file.read_to_end(&mut text))
        };
        read.map_err(|error| Error::io("reading", &self.query, &error))?;
        queries(&text).map_err(|error| self.wrong_queries(&error))
    }

    fn wrong_queries(&self, error: &::blast::Error) -> Error {
        Error::usage(format!("{}: {error}", self.query.display()))
            .hint("FASTA: a line `>NAME`, and lines of bases (IUPAC letters)")
    }

    fn search(
        &self,
        context: &Context,
        place: &Place<'_, '_, '_>,
        queries: &[Query],
        table: &Table,
    ) -> Result<Searched> {
        let began = Instant::now();
        let mut searched = Searched {
            schema_version: SCHEMA_VERSION,
            device: match place {
                Place::Folder(folder) => folder.display().to_string(),
                Place::Volume(mounted) => mounted.drive.to_string(),
                Place::Hardware(_) => self.device.clone(),
            },
            database: self.database.clone(),
            queries: queries
                .iter()
                .map(|query| Sought {
                    name: query.name.clone(),
                    bases: query.bases.len(),
                })
                .collect(),
            sequences: 0,
            bases: 0,
            masked_bases: 0,
            seeds: 0,
            elapsed_us: 0,
            alignments: Vec::new(),
        };
        let database = self.part(context, place, &self.database, DEEPEST)?;
        let (mut volumes, mut sizes) = (Vec::new(), Vec::new());
        database.volumes(&mut volumes);
        for volume in volumes {
            let (found, counts) =
                self.search_volume(context, place, volume, table, &searched, queries)?;
            sizes.push(DatabaseSize {
                bases: counts.bases,
                sequences: counts.sequences,
            });
            searched.sequences += counts.sequences;
            searched.bases += counts.bases;
            searched.masked_bases += counts.masked_bases;
            searched.seeds += counts.seeds;
            searched.alignments.extend(found);
        }
        let size = database.size(&mut sizes.into_iter());
        self.weigh(&mut searched, queries, size);
        searched.elapsed_us = micros(began.elapsed());
        Ok(searched)
    }

    fn scoring(&self) -> Scoring {
        Scoring {
            reward: self.reward,
            penalty: self.penalty,
            x_drop: self.x_drop,
            min_score: self.min_score,
        }
    }

    /// Adds the alignments' bits and E-values, and removes those that chance makes too often.
    fn weigh(&self, searched: &mut Searched, queries: &[Query], database: DatabaseSize) {
        let scoring = self.scoring();
        let weights: Vec<Option<(Significance, f64)>> = queries
            .iter()
            .map(|query| {
                let significance = Significance::of_query(&scoring, query)?;
                Some((
                    significance,
                    significance.pairs(query.bases.len() as u64, database),
                ))
            })
            .collect();
        for one in &mut searched.alignments {
            if let Some((significance, pairs)) = weights[one.query_index as usize] {
                one.bits = Some(significance.bits(one.score));
                one.e_value = Some(significance.e_value(one.score, pairs));
            }
        }
        let most = self.e_value.unwrap_or(E_VALUE);
        let alignments = &mut searched.alignments;
        alignments.retain(|one| one.e_value.is_none_or(|value| value <= most));
    }

    /// What a name stands for: a volume, or an alias and what it names.
    fn part(
        &self,
        context: &Context,
        place: &Place<'_, '_, '_>,
        database: &str,
        depth: usize,
    ) -> Result<Database> {
        let alias = format!("{database}.nal");
        if place.size(&format!("{database}.nin"))?.is_some() || place.size(&alias)?.is_none() {
            return Ok(Database::Volume(database.to_owned()));
        }
        let text = self.whole(context, place, &alias)?;
        let named = Alias::parse(&text).map_err(|error| invalid_database(&alias, &error))?;
        if depth == 0 {
            let what = format!("`{}`: aliases name each other", shown(&alias));
            return Err(Error::other(what).hint("name the database in DBLIST"));
        }
        // They lie beside the alias file.
        let folder = database.rfind('/').map_or("", |at| &database[..=at]);
        let parts = named.volumes.iter();
        let parts =
            parts.map(|name| self.part(context, place, &format!("{folder}{name}"), depth - 1));
        Ok(Database::Alias {
            parts: parts.collect::<Result<_>>()?,
            named,
        })
    }

    fn search_volume(
        &self,
        context: &Context,
        place: &Place<'_, '_, '_>,
        volume: &str,
        table: &Table,
        before: &Searched,
        queries: &[Query],
    ) -> Result<(Vec<Alignment>, SearchCounts)> {
        let file = |suffix: &str| format!("{volume}.{suffix}");
        let index = Index::parse(&self.whole(context, place, &file("nin"))?);
        let index = index.map_err(|error| invalid_database(&file("nin"), &error))?;
        let options = SearchOptions {
            scoring: self.scoring(),
            two_hit: self.two_hit.map(|window| TwoHit { window }),
            is_scalar: false,
        };
        let sequences = file("nsq");
        let first = u32::try_from(before.sequences).unwrap_or(u32::MAX);
        let mut search = Search::new(&index, table, options, first);
        let damaged = |error| invalid_database(&sequences, &error);
        self.read(context, place, &sequences, &mut |bytes| {
            search.take(bytes).map_err(damaged)
        })?;
        let (found, counts) = search.finish().map_err(damaged)?;
        let headers = if found.is_empty() {
            Vec::new()
        } else {
            self.whole(context, place, &file("nhr"))?
        };
        let named = |hsp: &Hsp| {
            let at = (hsp.subject - first) as usize;
            let entry = headers.get(index.headers[at] as usize..index.headers[at + 1] as usize);
            let name = entry.and_then(name).ok_or_else(|| {
                let what = format!("`{}` has no name of sequence {at}", shown(&file("nhr")));
                Error::other(what).hint(DAMAGED)
            })?;
            Ok(Alignment::new(hsp, &name, queries))
        };
        let found = found.iter().map(named).collect::<Result<Vec<_>>>()?;
        Ok((found, counts))
    }

    /// A file in memory.
    fn whole(&self, context: &Context, place: &Place<'_, '_, '_>, name: &str) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        self.read(context, place, name, &mut |bytes| {
            if all.len() + bytes.len() <= MOST_BYTES as usize {
                all.extend_from_slice(bytes)
            } else {
                return Err(Error::usage(format!(
                    "`{}` is longer than any of a database",
                    shown(name)
                )));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Passes a file's bytes to `take` in order.
    fn read(
        &self,
        context: &Context,
        place: &Place<'_, '_, '_>,
        name: &str,
        take: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    ) -> Result<()> {
        let Some(length_bytes) = place.size(name)? else {
            return Err(Error::new(ErrorKind::NotFound, format!("{} has no file `{}`", self.device, shown(name)))
                .hint("a database is DATABASE.nin, .nsq and .nhr; makeblastdb -dbtype nucl makes them, straightway put stores them"));
        };
        let bar = context.bytes_bar(Some(length_bytes));
        let read = match place {
            Place::Folder(folder) => from_file(context, &folder.join(name), take, &bar),
            Place::Hardware(files) => {
                let stop = Stop {
                    bar: &bar,
                    cancel: &context.cancel,
                };
                let mut files = files.borrow_mut();
                files.get(name, 0..length_bytes, take, &stop).map(drop)
            }
            Place::Volume(mounted) => {
                let entry = mounted.run(
                    format!("opening `{}`", shown(name)),
                    mounted.volume.find(name),
                )?;
                let part = Part {
                    name,
                    offset_bytes: 0,
                    length_bytes,
                    size_bytes: length_bytes,
                    sums: if entry.checksums {
                        Sums::Stored
                    } else {
                        Sums::Ignored
                    },
                    past_rot: false,
                    pace: pace(mounted, &self.io)?,
                };
                drain(
                    mounted,
                    &part,
                    &mut |bytes: &[u8]| take(bytes),
                    &bar,
                    &context.cancel,
                )
                .map(drop)
            }
        };
        bar.finish_and_clear();
        read
    }
}

/// What to do about a damaged database.
const DAMAGED: &str = "take all files of one makeblastdb -dbtype nucl, and store them again";

fn invalid_database(file: &str, error: &::blast::Error) -> Error {
    let what = format!("`{}`: {error}", shown(file));
    match error {
        ::blast::Error::AliasWord(_) => Error::unsupported(what)
            .hint("make a database of these sequences: blastdbcmd -entry_batch ... | makeblastdb -dbtype nucl"),
        _ => Error::other(what).hint(DAMAGED),
    }
}

/// Reads a file of a folder in pieces.
fn from_file(
    context: &Context,
    path: &Path,
    take: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    bar: &devices::Bar,
) -> Result<()> {
    let failed = |error: &std::io::Error| Error::io("reading", path, error);
    let mut file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if context.cancel.is_set() {
            return Err(Error::interrupted("interrupted"));
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                take(&piece[..count])?;
                bar.inc(count as u64);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(&error)),
        }
    }
}

impl Place<'_, '_, '_> {
    /// The size of a file; None if there is none.
    fn size(&self, name: &str) -> Result<Option<u64>> {
        match self {
            Self::Volume(mounted) => Ok(mounted.find(name)?.map(|entry| entry.size_bytes)),
            Self::Hardware(files) => files.borrow_mut().size_of(name),
            Self::Folder(folder) => match std::fs::metadata(folder.join(name)) {
                Ok(file) => Ok(Some(file.len())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::io("opening", &folder.join(name), &error)),
            },
        }
    }
}

impl Alignment {
    fn new(hsp: &Hsp, subject: &str, queries: &[Query]) -> Self {
        let [query_first, query_last, subject_first, subject_last] = hsp.ends();
        Self {
            query: queries[hsp.query as usize].name.clone(),
            query_index: hsp.query,
            subject: subject.to_owned(),
            subject_index: hsp.subject,
            is_minus: hsp.is_minus,
            query_first,
            query_last,
            subject_first,
            subject_last,
            length: hsp.length,
            identities: hsp.identities,
            score: hsp.score,
            bits: None,
            e_value: None,
        }
    }
}

impl Searched {
    /// A line for each alignment, with tabs, and a summary as a comment.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for one in &self.alignments {
            let percent = f64::from(one.identities) * 100.0 / f64::from(one.length);
            let _ = writeln!(
                text,
                "{}\t{}\t{percent:.3}\t{}\t{}\t0\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                shown(&one.query),
                shown(&one.subject),
                one.length,
                one.length - one.identities,
                one.query_first,
                one.query_last,
                one.subject_first,
                one.subject_last,
                one.e_value.map_or_else(|| "-".to_owned(), e_value_text),
                one.bits.map_or_else(|| "-".to_owned(), bits_text),
                one.score,
            );
        }
        let _ = write!(
            text,
            "# {} alignments, {} seeds; {} sequences with {} bases ({} ambiguous)",
            self.alignments.len(),
            self.seeds,
            self.sequences,
            self.bases,
            self.masked_bases,
        );
        text
    }
}
