// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nucleotide search against readings of its own and of others.
//!
//! In one program, because each is linked.
#![allow(clippy::unwrap_used)]

mod oracle;
mod scans;
mod support;
