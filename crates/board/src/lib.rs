// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a machine and its NVMe drives are, and whether they work.
//!
//! | module | contents |
//! | --- | --- |
//! | [`survey`] | a report about the machine and its drives; it only reads |
//! | [`selftest`] | the steps of a test, and data that explains its own defects |
#![forbid(unsafe_code)]

pub mod selftest;
pub mod survey;
