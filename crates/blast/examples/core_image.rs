//! For the bench of `rtl/blastn`: what a processor writes into the core for the queries, and the hits that it shall find in a stream.
//!
//! `core_image QUERY.fasta STREAM ENTRIES_LOG2 BUCKET_LOG2` prints a line `present`, `directory` and `entries` with hexadecimal words, and
//! then a line `hit BASE POSITION` for each hit; with `-- BASE:ENTRY...` behind it also `found BASE POSITION` for these registers.

use straightway_blast::{Image, Subject, Table, queries, scan_scalar};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [query, stream, entries, buckets, rest @ ..] = &words[..] else {
        return Err(
            "core_image QUERY.fasta STREAM ENTRIES_LOG2 BUCKET_LOG2 [-- BASE:ENTRY...]".into(),
        );
    };
    let table = Table::new(&queries(&std::fs::read(query)?)?)?;
    let image = Image::new(&table, entries.parse()?, buckets.parse()?)?;
    for (name, words) in [
        ("present", &image.present),
        ("directory", &image.directory),
        ("entries", &image.entries),
    ] {
        print!("{name}");
        words.iter().for_each(|word| print!(" {word:x}"));
        println!();
    }
    let bytes = std::fs::read(stream)?;
    scan_scalar(&table, &Subject::stream(&bytes), &mut |seed| {
        println!("hit {} {}", seed.subject, seed.position)
    });
    for pair in rest.iter().skip(1) {
        let (base, entry) = pair.split_once(':').ok_or("BASE:ENTRY")?;
        let found = image
            .found(base.parse()?, entry.parse()?)
            .ok_or("an entry that the table does not have")?;
        println!("found {} {}", found.word.0, found.word.1);
    }
    Ok(())
}
