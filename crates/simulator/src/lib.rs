// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The product in simulated worlds: one seed decides a whole run.
//!
//! A world has a clock, drives, and what lies between them and the product. The product's own code
//! runs in it, on one thread: where it would sleep, simulated time passes. A run is a script of
//! steps made from its seed: what a user does, and faults. After each step the promises are
//! checked; a script that breaks one is shortened and printed.
//!
//! | module | contents |
//! | --- | --- |
//! | `world`, `trace` | simulated time; what happened, and its hash |
//! | `drive`, `content` | drives with a volatile cache and faults; the contents of blocks |
//! | `network` | connections to an NVMe/TCP target, and the target |
//! | `witness` | what a block device promises |
//! | `setup`, `machine` | which devices there are; how the product opens them |
//! | `script`, `run` | steps made from a seed, shortened and replayed; a run |
//! | `recordings` | the product's recorders with a simulated source |
//! | `blocks`, `files` | users of blocks and of files, and what they expect |
//! | `serve` | clients of the product's NBD server |
//! | `coverage`, `report` | which steps and pairs of them were met |
#![forbid(unsafe_code)]

pub mod blocks;
pub mod content;
pub mod coverage;
pub mod drive;
pub mod files;
pub mod machine;
pub mod network;
pub mod recordings;
pub mod report;
pub mod run;
pub mod script;
pub mod serve;
pub mod setup;
pub mod trace;
pub mod witness;
pub mod world;
