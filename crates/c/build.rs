// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names the shared library's interface, so that a program finds the one that it was built for.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstraightway.so.{major}");
    println!("cargo:rerun-if-changed=build.rs");
}
