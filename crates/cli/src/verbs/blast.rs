// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway blast DEVICE DATABASE QUERY`: a nucleotide search in a BLAST database on a volume,
//! or in a folder.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::IoArgs;
use clap::Args;
use devices::error::Result;
use files::blast::SearchSettings;
use std::path::PathBuf;

pub use files::blast::Searched;

/// Search for nucleotide sequences in a BLAST database.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The database is NCBI's: the files DATABASE.nin, .nsq and .nhr that makeblastdb wrote (version 4 or 5), or DATABASE.nal with the volumes
that it names, put on a volume as they are: straightway put DEVICE DATABASE.n*. The sequences are searched as they arrive from the drive.

Seeds are words of eleven equal bases, extended without gaps, on both strands: what blastn -task blastn -ungapped -dust no finds. No
seed has an ambiguous base. Bits and E-values are blastn's too, for the size of the whole database, and are printed as there. blastn
leaves out some of the alignments that it found and reports fewer.

An alias may name aliases and state sizes (NSEQ, LENGTH), which E-values then use. One that chooses some of the sequences is refused.
A query without bases is left out with a warning; so are gaps in a query.

Each line has the columns of blastn -outfmt '6 std score': query, subject, identities in percent, length, mismatches, gaps (0), first and
last base in the query and in the subject (in reverse on the minus strand), E-value, bits, score. Bits and E-value are - where random
bases would score above 0 on average.")]
pub struct Blast {
    /// The device with the volume, a folder, or hwfs:PATH
    pub device: String,
    /// The name of the database's files, without .nin
    pub database: String,
    /// A local FASTA file with queries, or - for standard input
    pub query: PathBuf,
    /// The lowest score to report
    #[arg(long, value_name = "N", default_value_t = 22, value_parser = clap::value_parser!(i32).range(1..))]
    pub min_score: i32,
    /// The highest E-value to report: how many such alignments chance makes in this database [10,
    /// where there are E-values]
    #[arg(long, value_name = "E", value_parser = e_value)]
    pub e_value: Option<f64>,
    /// Score of equal bases
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub reward: i32,
    /// Score of different bases
    #[arg(long, value_name = "N", default_value_t = -3, value_parser = clap::value_parser!(i32).range(-1000..=-1))]
    pub penalty: i32,
    /// How far an extension's score may fall
    #[arg(long, value_name = "N", default_value_t = 22, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub x_drop: i32,
    /// Extend a seed only if another one is on its diagonal within this many bases
    #[arg(long, value_name = "BASES", value_parser = clap::value_parser!(u32).range(11..=65_536))]
    pub two_hit: Option<u32>,
    /// The path
    #[command(flatten)]
    pub io: IoArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn e_value(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 => Ok(value),
        _ => Err("give a number above 0, for example 1e-10".to_owned()),
    }
}

impl Blast {
    /// Runs the verb.
    ///
    /// # Errors
    /// The queries, the device, the volume or the database failed.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = SearchSettings {
            device: self.device.clone(),
            database: self.database.clone(),
            query: self.query.clone(),
            min_score: self.min_score,
            e_value: self.e_value,
            reward: self.reward,
            penalty: self.penalty,
            x_drop: self.x_drop,
            two_hit: self.two_hit,
            io: *self.io,
        };
        let searched = settings.run(context)?;
        context
            .console
            .report(self.json, &searched, Searched::text)?;
        Ok(Exit::Done)
    }
}
