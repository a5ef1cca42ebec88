// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads 4 KiB of a disk that `straightway serve --vhost-user` gives, one after another:
//! `access_vhost_user SOCKET COUNT`. A front end without a virtual machine, so that a count has the
//! server and the rings, and no guest's kernel. For `make figures ONLY=access`.
#![allow(clippy::unwrap_used, unsafe_code)]

#[allow(dead_code)]
#[path = "../../cli/tests/command/vhost_user/machine.rs"]
mod machine;

use machine::{DATA, Machine, READ};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsRawFd, BorrowedFd};
use vmm_sys_util::eventfd::EventFd;

const READ_BYTES: u32 = 4096;

fn sleep(call: &EventFd) {
    // SAFETY: the file is open for as long as it is borrowed.
    let file = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
    poll(&mut [PollFd::new(&file, PollFlags::IN)], None).unwrap();
    let _ = call.read();
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut machine = Machine::started(&words[1]);
    let sectors = u64::from_le_bytes(machine.config(0, 8).try_into().unwrap());
    let each = u64::from(READ_BYTES) / 512;
    for number in 0..words[2].parse().unwrap() {
        let sector = number * 7919 % (sectors / each) * each;
        machine.submit(READ, sector, DATA, READ_BYTES);
        machine.wait(sleep);
        assert_eq!(machine.status(machine.available.wrapping_sub(1)), 0);
    }
    machine.stop();
}
