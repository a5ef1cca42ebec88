// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calling thread's scheduling policy, which rustix does not set.
#![allow(unsafe_code)]

use std::io;

/// Sets the calling thread's policy to SCHED_FIFO with `priority`, or to the ordinary one without.
pub(crate) fn set_policy(priority: Option<i32>) -> io::Result<()> {
    let policy = match priority {
        Some(_) => libc::SCHED_FIFO,
        None => libc::SCHED_OTHER,
    };
    // SAFETY: sched_param is a plain structure of integers, for which zeroes are a value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority.unwrap_or(0);
    // SAFETY: the pointer is to a live sched_param, which the kernel only reads; 0 is the caller.
    match unsafe { libc::sched_setscheduler(0, policy, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
