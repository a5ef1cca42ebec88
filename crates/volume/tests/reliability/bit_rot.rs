// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table in `docs/bit-rot.md` matches the actual effects of bit rot.

use crate::harness::rot;

#[test]
fn the_document_says_what_rot_does() {
    let table = rot::table();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bit-rot.md");
    let document = std::fs::read_to_string(path).unwrap();
    if !document.contains(&table) {
        panic!(
            "docs/bit-rot.md differs; `cargo run -p straightway-volume --example rot` gives:\n{table}"
        );
    }
}
