// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recording, segments and playing over simulated devices.
//!
//! In one program, because each is linked.
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)]

mod full;
mod play;
mod record;
mod segments;
mod support;
