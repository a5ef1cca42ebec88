// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command's tests that run it. In one program, because linking takes longer than most of them.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod archives;
mod arrays;
mod blast;
mod boards;
mod contradicted;
mod described;
mod exports;
mod formats;
mod generic;
mod golden;
mod golden_schemas;
mod grown;
mod guard;
mod hardware;
mod instrument;
mod interrupted;
mod live;
mod many;
mod map;
mod misplaced;
mod mount;
mod names;
mod notified;
mod packets;
mod quirks;
mod reports;
mod ring;
mod ring_names;
mod samples;
mod segments;
mod senders;
mod serve;
mod signatures;
mod silent;
mod slow;
mod sources;
mod space;
mod status;
mod stopped;
mod streams;
mod support;
mod verbs;
mod vhost_user;
mod volumes;
