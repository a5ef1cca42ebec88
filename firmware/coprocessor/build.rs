// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links with the memory map of the board in the environment variable BOARD.

fn main() {
    let board = std::env::var("BOARD").unwrap_or_else(|_| "virt".to_owned());
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-env-changed=BOARD");
    println!("cargo:rerun-if-changed=boards");
    println!("cargo:rustc-link-arg=-L{folder}/boards");
    println!("cargo:rustc-link-arg=-T{folder}/boards/{board}.ld");
}
