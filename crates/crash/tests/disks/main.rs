// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated disk: what a power cut may leave, and what it may not.
//!
//! In one program, because each is linked.
#![allow(clippy::panic, clippy::unwrap_used)]

mod images;
mod register;
mod stack;
