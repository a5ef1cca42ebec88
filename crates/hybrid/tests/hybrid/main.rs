// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tests of hybrid I/O, in one program: each one compiles it again for its devices, optimised.
#![allow(clippy::unwrap_used)]

mod cuts;
mod model;
mod promises;
mod support;
