// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links the application for its place in a context's addresses.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=application.ld");
    println!("cargo:rustc-link-arg=-T{folder}/application.ld");
}
