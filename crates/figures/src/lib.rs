// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of `make figures` and of the lab's tests, as examples: they combine several crates
//! and run them on a real drive or under Callgrind. Nothing here is for other programs.
