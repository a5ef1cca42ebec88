// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a volume as a folder of this machine, by FUSE.
//!
//! | module | contents |
//! | --- | --- |
//! | `mounting` | mounting, and unmounting |
//! | `tree` | the volume's names as folders and files, seen by both threads |
//! | `fuse` | the kernel's requests: names are answered from the tree, the rest goes to the service |
//! | `view` | what the kernel sees of the tree: attributes, folders |
//! | `asks` | what goes to the service, and the errors that come back |
//! | `answers` | the thread on which the kernel copies what was read |
//! | `service` | the thread that has mounted the volume: the requests under way |
//! | `stale` | pages of the kernel that a write past its cache made stale |
//! | `files` | what the operations on the volume's files share |
//! | `open`, `opening` | an open file; opening, closing, reads |
//! | `unmount` | the end of a folder that programs may still use |
//! | `tail`, `writes` | what is written and not yet on the volume; appends and commits |
//! | `names` | files that are made, removed, renamed, and cut to nothing |
#![forbid(unsafe_code)]

mod answers;
mod asks;
mod files;
mod fuse;
mod mounting;
mod names;
mod open;
mod opening;
mod service;
mod stale;
mod tail;
mod tree;
mod unmount;
mod view;
mod writes;

pub use mounting::MountSettings;
