// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `blast` on volumes and in folders, with a database of two sequences whose bytes are made here,
//! as makeblastdb writes them.

use crate::support::{
    Folder, json, ok, refused, run, run_with_input, schema_names_all_keys, stdout, volume,
};
use std::fs;

const QUERY: &str = "ACGTTGCAAGGCTTAACCGGATTACAGGCATGCTAGT";

/// Index, sequences and headers.
fn database(sequences: &[(&str, &str)]) -> [Vec<u8>; 3] {
    let (mut packed, mut headers) = (vec![0u8], Vec::new());
    let (mut starts, mut ends, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (name, letters) in sequences {
        starts.push(packed.len() as u32);
        names.push(headers.len() as u32);
        let code = |letter| "ACGT".find(letter).unwrap() as u8;
        let bases: Vec<u8> = letters.chars().map(code).collect();
        let four =
            |four: &[u8]| (0..4).fold(0, |byte, at| byte << 2 | four.get(at).copied().unwrap_or(0));
        packed.extend(bases.chunks_exact(4).map(four));
        packed.push(four(bases.chunks_exact(4).remainder()) | (bases.len() % 4) as u8);
        ends.push(packed.len() as u32);
        headers.extend(b"\x30\x80\x30\x80\xa0\x80\x1a");
        headers.push(name.len() as u8);
        headers.extend(name.as_bytes());
        headers.extend(b"\0\0\xa1\x80\x30\x80\xaa\x80\x30\x80\xa0\x80\x1a\x09BL_ORD_ID\0\0\xa1\x80\xa0\x80\x02\x01\0");
        headers.extend([0; 16]);
    }
    starts.push(packed.len() as u32);
    ends.push(packed.len() as u32);
    names.push(headers.len() as u32);
    // Version 4, nucleotides, no title, no date, the count, 12 bytes of sizes.
    let head = [4, 0, 0, 0, sequences.len() as u32, 0, 0, 0];
    let words = head.iter().chain(&names).chain(&starts).chain(&ends);
    [
        words.flat_map(|word| word.to_be_bytes()).collect(),
        packed,
        headers,
    ]
}

fn save(folder: &Folder, name: &str, files: &[Vec<u8>; 3]) -> [String; 3] {
    let paths = ["nin", "nsq", "nhr"].map(|suffix| folder.path(&format!("{name}.{suffix}")));
    for (path, bytes) in paths.iter().zip(files) {
        fs::write(path, bytes).unwrap();
    }
    paths
}

fn reverse(text: &str) -> String {
    let other = |letter| match letter {
        'A' => 'T',
        'C' => 'G',
        'G' => 'C',
        _ => 'A',
    };
    text.chars().rev().map(other).collect()
}

/// A folder with the database `two`, the query, and a volume with the same.
fn prepared() -> (Folder, String, String) {
    let folder = Folder::new();
    let first = format!("TTTTT{}GGGGGG", &QUERY[3..30]);
    let second = format!("CC{}", reverse(&QUERY[10..25]));
    let files = database(&[("first of two", &first), ("second", &second)]);
    let paths = save(&folder, "two", &files);
    let query = folder.path("query.fa");
    fs::write(&query, format!(">q\n{QUERY}\n")).unwrap();
    let disk = volume(&folder, "disk.img", &["--checksums"]);
    for path in &paths {
        ok(&["put", &disk, path]);
    }
    (folder, disk, query)
}

#[test]
fn alignments_on_both_strands_from_a_volume_and_from_a_folder() {
    let (folder, disk, query) = prepared();
    let lines = "q\tfirst\t100.000\t27\t0\t0\t4\t30\t6\t32\t8.69e-13\t50.7\t54\nq\tsecond\t100.000\t15\t0\t0\t11\t25\t17\t3\t3.50e-06\t28.7\t30\n";
    for device in [&disk, folder.0.to_str().unwrap()] {
        let text = ok(&["blast", device, "two", &query]);
        assert!(text.starts_with(lines), "{text}");
        assert!(text.contains("2 sequences with 55 bases"), "{text}");
        let found = json(&["blast", device, "two", &query, "--json"]);
        schema_names_all_keys(&found, &stdout(&run(&["schema", "blast"])));
        assert_eq!(
            (&found["sequences"], &found["bases"]),
            (&2.into(), &55.into())
        );
        let last = &found["alignments"][1];
        assert_eq!(
            (&last["is_minus"], &last["subject_index"], &last["score"]),
            (&true.into(), &1.into(), &30.into())
        );
        // Bits of 54 at scores of +2 and -3: (0.6337 * 54 - ln 0.408) / ln 2.
        let close =
            |value: &serde_json::Value, to: f64| (value.as_f64().unwrap() / to - 1.0).abs() < 1e-3;
        assert!(close(&found["alignments"][0]["bits"], 50.66), "{found}");
        let few = ok(&["blast", device, "two", &query, "--e-value", "1e-8"]);
        assert!(few.contains("first") && !few.contains("second"), "{few}");
        let free = json(&[
            "blast",
            device,
            "two",
            &query,
            "--penalty",
            "-1",
            "--reward",
            "3",
            "--json",
        ]);
        assert!(
            free["alignments"][0]["e_value"].is_null() && free["alignments"][0]["bits"].is_null()
        );
        let high = ok(&["blast", device, "two", &query, "--min-score", "31"]);
        assert!(high.contains("first") && !high.contains("second"), "{high}");
        let filtered = ok(&["blast", device, "two", &query, "--two-hit", "40"]);
        assert!(
            filtered.contains("first") && !filtered.contains("second"),
            "{filtered}"
        );
    }
    let piped = run_with_input(
        &["blast", &disk, "two", "-"],
        format!(">q\n{QUERY}\n").as_bytes(),
    );
    assert!(stdout(&piped).starts_with(lines));
}

#[test]
fn the_volumes_of_an_alias_are_one_database() {
    let (folder, disk, query) = prepared();
    let alias = folder.path("all.nal");
    fs::write(&alias, "TITLE all\nDBLIST \"two\" \"two\"\n").unwrap();
    ok(&["put", &disk, &alias]);
    let found = json(&["blast", &disk, "all", &query, "--json"]);
    let subjects: Vec<u64> = found["alignments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["subject_index"].as_u64().unwrap())
        .collect();
    assert_eq!(
        (subjects, &found["sequences"]),
        (vec![0, 1, 2, 3], &4.into())
    );
}

#[test]
fn damaged_and_foreign_databases_and_queries_are_refused() {
    let (folder, disk, query) = prepared();
    refused(
        &["blast", &disk, "three", &query],
        10,
        "no file `three.nin`",
    );
    refused(
        &["blast", &disk, "two", &folder.path("missing")],
        10,
        "missing",
    );
    for (text, words) in [
        ("", "no sequence"),
        (">q\n>r\n", "no sequence with bases"),
        (">q\nACGT\nAC1T\n", "line 3 of the queries: `1` is no base"),
    ] {
        fs::write(folder.path("bad.fa"), text).unwrap();
        refused(&["blast", &disk, "two", &folder.path("bad.fa")], 2, words);
    }
    let good = database(&[("a", QUERY), ("b", QUERY)]);
    let device = folder.0.to_str().unwrap();
    let mut cases: Vec<([Vec<u8>; 3], &str)> = Vec::new();
    let changed = |file: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut files = good.clone();
        change(&mut files[file]);
        files
    };
    cases.push((changed(0, &|bytes| bytes.truncate(40)), "truncated"));
    cases.push((changed(0, &|bytes| bytes[3] = 9), "only versions 4 and 5"));
    cases.push((changed(0, &|bytes| bytes[7] = 1), "proteins"));
    cases.push((changed(0, &|bytes| bytes[47] = 0xff), "not in order"));
    cases.push((changed(1, &|bytes| bytes.truncate(15)), "truncated"));
    cases.push((
        changed(2, &|bytes| bytes.truncate(9)),
        "no name of sequence 0",
    ));
    cases.push((changed(2, &|bytes| bytes[0] = 0), "no name of sequence 0"));
    for (files, words) in cases {
        save(&folder, "bad", &files);
        refused(&["blast", device, "bad", &query], 1, words);
    }
    for words in [
        ["--min-score", "0"],
        ["--penalty", "1"],
        ["--two-hit", "5"],
        ["--x-drop", "-1"],
        ["--e-value", "0"],
        ["--e-value", "few"],
    ] {
        refused(
            &[&["blast", device, "two", &query][..], &words].concat(),
            2,
            words[0],
        );
    }
}

#[test]
fn an_alias_of_aliases_has_the_sizes_that_it_states_and_one_that_chooses_sequences_is_refused() {
    let (folder, _, query) = prepared();
    let device = folder.0.to_str().unwrap();
    let e_value = |database: &str| {
        let found = json(&["blast", device, database, &query, "--json"]);
        found["alignments"][0]["e_value"].as_f64().unwrap()
    };
    let alias =
        |name: &str, text: &str| fs::write(folder.path(&format!("{name}.nal")), text).unwrap();
    alias("inner", "TITLE x\nDBLIST two\n");
    alias("outer", "# made\nTITLE x\nDBLIST \"inner\"\n");
    alias("large", "DBLIST inner\nNSEQ 2\nLENGTH 1000000000\n");
    assert!((e_value("outer") / e_value("two") - 1.0).abs() < 1e-9);
    assert!(e_value("large") > 1e5 * e_value("two"));
    for word in ["SEQIDLIST l", "GILIST l", "FIRST_OID 2", "OIDLIST o.msk"] {
        alias("part", &format!("DBLIST two\n{word}\n"));
        refused(
            &["blast", device, "part", &query],
            4,
            "only whole databases are searched",
        );
    }
    alias("circle", "DBLIST circle\n");
    refused(
        &["blast", device, "circle", &query],
        1,
        "aliases name each other",
    );
}

#[test]
fn a_query_without_bases_is_left_out_with_a_warning() {
    let (folder, disk, query) = prepared();
    let expected = ok(&["blast", &disk, "two", &query]);
    let mixed = folder.path("mixed.fa");
    fs::write(
        &mixed,
        format!(">empty one\n>q\n{}-{}\n", &QUERY[..9], &QUERY[9..]),
    )
    .unwrap();
    let output = run(&["blast", &disk, "two", &mixed]);
    assert_eq!(stdout(&output), expected);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        says.contains("query `empty` has no bases") && says.contains("has 1 gaps"),
        "{says}"
    );
}
