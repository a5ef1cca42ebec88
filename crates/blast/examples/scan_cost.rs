// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For the figures: runs a part of the search over a database so many times, in memory.
//!
//! `scan_cost none|scalar|fast|search DATABASE QUERY.fasta TIMES`; `none` only reads the files and
//! makes the table.

use std::hint::black_box;
use straightway_blast::{Index, Search, SearchOptions, Subject, Table, queries, scan, scan_scalar};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mode, database, query, times] = &words[..] else {
        return Err("scan_cost none|scalar|fast|search DATABASE QUERY.fasta TIMES".into());
    };
    let index = Index::parse(&std::fs::read(format!("{database}.nin"))?)?;
    let bytes = std::fs::read(format!("{database}.nsq"))?;
    let table = Table::new(&queries(&std::fs::read(query)?)?)?;
    let subject = Subject::stream(&bytes);
    let mut seeds = 0_u64;
    for _ in 0..times.parse()? {
        match &**mode {
            "none" => {}
            "scalar" => scan_scalar(&table, black_box(&subject), &mut |_| seeds += 1),
            "fast" => scan(&table, black_box(&subject), &mut |_| seeds += 1),
            "search" => {
                let mut search = Search::new(&index, &table, SearchOptions::default(), 0);
                search.take(black_box(&bytes))?;
                seeds += search.finish()?.1.seeds;
            }
            other => return Err(format!("no mode {other}").into()),
        }
    }
    println!("{seeds}");
    Ok(())
}
