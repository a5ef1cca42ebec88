// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a BLAST database that others made: an index (.nin), ambiguous bases (of .nsq), an alias
//! (.nal), a header's name, queries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use straightway_blast::{Alias, Index, ambiguities, name, queries};

fuzz_target!(|data: &[u8]| {
    let Some((&what, input)) = data.split_first() else {
        return;
    };
    match what % 5 {
        0 => {
            if let Ok(index) = Index::parse(input) {
                for byte in [0, 1, index.size_bytes() / 2, index.size_bytes(), u64::MAX] {
                    if let Some((ordinal, _)) = index.at(byte) {
                        assert!(ordinal < index.len());
                    }
                }
                for ordinal in [0, index.len() / 2, index.len()] {
                    let _ = index.place(ordinal);
                }
            }
        }
        1 => {
            let bases = input.len() as u32 * 4;
            if let Ok(spans) = ambiguities(input, bases) {
                assert!(spans.len() <= input.len());
            }
        }
        2 => drop(Alias::parse(input)),
        3 => drop(name(input)),
        _ => drop(queries(input)),
    }
});
