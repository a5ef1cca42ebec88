#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod board;
mod front;
mod simulation;
mod status;

pub use board::Board;
pub use front::{CoreFile, Front, NAME_MAX, Shape};
pub use simulation::Simulation;
pub use status::{CoreStatus, Error};
