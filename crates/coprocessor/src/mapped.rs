// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage as memory for a bare application: its hart runs on page tables whose window is a range
//! of the drive or a file, and a touch of an absent page is served by the coprocessor's hart
//! (`docs/coprocessor.md`, "Mapped storage").
//!
//! | module | what it is |
//! | --- | --- |
//! | `sv39` | the page tables of one context |
//! | `mailbox` | what the two harts say to each other |
//! | `server` | the frames, and which page is in which |
//!
//! Tables change only while the application's hart waits for an answer, and it executes one
//! `sfence.vma` after each: no other hart's translations need to be withdrawn.

mod mailbox;
mod server;
mod sv39;
#[cfg(test)]
mod tests;

pub use mailbox::{Ask, Mailbox, Reply, Request};
pub use server::{Backing, Counts, Frame, Server, Space};
pub use sv39::{
    CONTEXT_TABLES, IMAGE, IMAGE_PAGES, Layout, STACK_PAGES, STACK_TOP, Table, WINDOW,
    WINDOW_PAGES, build, satp,
};

/// Pages of Sv39, of the window and of a frame, in bytes.
pub const PAGE_BYTES: usize = 4096;
/// Applications that share the second hart, each with page tables and a window of its own.
pub const CONTEXTS: usize = 2;
