// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initiator against a target of these tests.
//!
//! In one program, because each is linked.
#![allow(clippy::panic, clippy::unwrap_used)]

mod fleet;
mod initiator;
mod loss;
mod support;
